"""What each request passes before its body is read: token, size, queue; and the counts of what was answered."""

from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from al_ray.apps.http.token import is_token

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

OPEN = ("/health", "/ready", "/docs", "/docs/oauth2-redirect", "/openapi.json")
"""Paths that need no token: they show no texts."""
WORK = ("/match", "/texts", "/table")
"""Paths whose requests wait for a replica."""
OTHERS = ("/model", "/metrics")
"""Paths that need the token and wait for no replica; a path in none of the three is counted as "other"."""
RETRY_AFTER = "1"


METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))
"""Methods that are counted by name: a client may send any word, and each would be a count of its own."""


class Metrics:
    """Counts of requests of this process, for Prometheus."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.registry = CollectorRegistry()
        names: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("al_ray_requests", "Requests answered.", ["method", "path", "code"], **names)
        self.seconds = Histogram("al_ray_request_seconds", "Seconds from request to answer.", ["path"], **names)
        self.waiting = Gauge("al_ray_requests_waiting", "Requests that are answered or wait.", **names)
        self.texts = Gauge("al_ray_known_texts", "Known texts.", **names)
        self.sequence = Gauge("al_ray_sequence", "Number of the last change of the known texts.", **names)

    def text(self) -> bytes:
        """Return all counts in the text format of Prometheus."""
        return generate_latest(self.registry)


class Gate:
    """ASGI middleware: 401 without the token, 413 for a body that is too large, 429 if too many requests wait."""

    def __init__(
        self, app: App, token_digest: str | None, most_bytes: int, most_waiting: int, metrics: Metrics
    ) -> None:
        """token_digest: None where no token is needed."""
        self.app, self.token_digest, self.metrics = app, token_digest, metrics
        self.most_bytes, self.most_waiting, self.waiting = most_bytes, most_waiting, 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path, began = str(scope["path"]), perf_counter()
        shown = path if path in (*OPEN, *WORK, *OTHERS) else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in METHODS else "other"
                self.metrics.requests.labels(method, shown, message["status"]).inc()
                self.metrics.seconds.labels(shown).observe(perf_counter() - began)
            await send(message)

        refusal = self._refusal(
            path, {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        )
        if refusal is not None:
            await refusal(scope, receive, counted)
            return
        if path not in WORK:
            await self.app(scope, self._limited(receive), counted)
            return
        self._wait(1)
        try:
            await self.app(scope, self._limited(receive), counted)
        finally:
            self._wait(-1)

    def _wait(self, change: int) -> None:
        self.waiting += change
        self.metrics.waiting.set(self.waiting)

    def _refusal(self, path: str, headers: dict[str, str]) -> JSONResponse | None:
        """Return the answer to a request that is refused by its headers alone; None for others."""
        if (
            self.token_digest is not None
            and path not in OPEN
            and not is_token(headers.get("authorization", ""), self.token_digest)
        ):
            return error_response(
                401, "no valid token; send the header: Authorization: Bearer TOKEN", "WWW-Authenticate", "Bearer"
            )
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return error_response(400, f"Content-Length is {length[:50]!r}; give the number of bytes")
        if int(length) > self.most_bytes:
            return error_response(413, self._too_large())
        if path in WORK and self.waiting >= self.most_waiting:
            return error_response(
                429, f"{self.waiting:,} requests wait already; send it again later", "Retry-After", RETRY_AFTER
            )
        return None

    def _limited(self, receive: Receive) -> Receive:
        """Return `receive` with an end at the most bytes: a body may come in parts, without its length."""
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.most_bytes:
                raise HTTPException(413, self._too_large())
            return message

        return limited

    def _too_large(self) -> str:
        return f"the body has more than {self.most_bytes:,} bytes; send fewer texts at a time"


def error_response(code: int, error: str, header: str = "", value: str = "") -> JSONResponse:
    """Return an answer with what is wrong, and a header."""
    return JSONResponse({"error": error}, code, {header: value} if header else None)
