"""The client of an OpenAI-compatible endpoint. Servers and clients quote the key in errors; no message here does."""

import logging
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any, cast
from urllib.parse import urlsplit

from al_ray.core.config.llm import LlmConfig
from al_ray.core.errors import BadOption
from al_ray.oracles.replies import ServiceFailed
from al_ray.runs.trackers.mlflow import require_package

INSTALL = "pip install --constraint constraints.txt '.[llm]' in the checkout"
KEY, URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"
# Servers show a part of a key, with stars in place of the rest.
KEY_LIKE = re.compile(r"\b(sk|pk|key|Bearer)[-_ ]\S+|\S*\*{3,}\S*", re.IGNORECASE)
# Seconds: the longest wait that a server may ask for.
LONGEST_WAIT = 3600.0
# The request was refused before any token was computed. Any other failure may be charged.
FREE = frozenset({400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 501, 503})
AGAIN = frozenset({408, 409, 425, 429})


@dataclass(frozen=True)
class Completion:
    """A reply: the name of the model, its text, or why it has none, and tokens (None if the server does not say).

    cut_off: whether its text ended at the limit of tokens. raw: the reply as it came, without the key.
    """

    model: str
    content: str
    refusal: str
    tokens: tuple[int, int] | None
    cut_off: bool
    raw: Any


class Client:
    """Sends requests to the endpoint of a language model."""

    def __init__(self, config: LlmConfig, seconds: float) -> None:
        """Read the key from the environment; BadOption if it or the package openai is missing, or it or a URL is bad.

        seconds: time limit of a request.
        """
        base_url = config.base_url or os.environ.get(URL) or None
        check_url(base_url, "`llm.base_url`" if config.base_url else f"the environment variable {URL}")
        require_package("`oracle='llm'`", "openai", INSTALL)
        self._key = os.environ.get(KEY, "").strip()
        # No header can hold it: each request would fail, and look as if it had been sent.
        if not (self._key.isascii() and self._key.isprintable()):
            raise BadOption(f"the key in the environment variable {KEY} has characters that no key has; copy it again")
        if not self._key and base_url is None:
            raise BadOption(
                f"`oracle='llm'` needs a key in the environment variable {KEY}, or `llm.base_url` (or {URL})"
            )
        self._openai = import_module("openai")
        # They log each request, and at lower levels headers. After the import, which sets levels by OPENAI_LOG.
        for name in ("openai", "httpx2", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        # The oracle itself tries again. A server of one's own may need no key, but the client does.
        self._client = self._openai.OpenAI(
            api_key=self._key or "none", base_url=base_url, timeout=seconds, max_retries=0
        )

    def complete(self, request: Mapping[str, Any], bound: float) -> Completion:
        """Send a request and return the reply; ServiceFailed, with `bound` as the cost if it may have been charged."""
        failure: ServiceFailed
        try:
            answer = self._client.chat.completions.with_raw_response.create(**request)
            return self._read(answer.http_response.json())
        except self._openai.APIStatusError as error:
            failure = self._status(error, bound)
        except self._openai.APITimeoutError:
            failure = ServiceFailed("the server did not answer in time", bound)
        except self._openai.APIConnectionError as error:
            sent = type(error.__cause__).__name__ not in ("ConnectError", "ConnectTimeout")
            failure = ServiceFailed(f"the connection {'was cut' if sent else 'failed'}", bound if sent else 0.0)
        except (self._openai.OpenAIError, ValueError, RecursionError) as error:
            failure = ServiceFailed(f"the reply is no completion ({type(error).__name__})", bound)
        # Outside the handlers: the client's exception holds the headers of the request, and must not be its context.
        raise failure

    def clean(self, text: str) -> str:
        """Return a text without the key, and without what looks like one."""
        if self._key:
            text = text.replace(self._key, "[key]")
        return KEY_LIKE.sub("[key]", text)

    def clean_reply(self, content: Any) -> Any:
        """Return plain values without the key."""
        if isinstance(content, str):
            return content.replace(self._key, "[key]") if self._key else content
        if isinstance(content, dict):
            fields = cast(dict[str, Any], content)
            return {self.clean_reply(name): self.clean_reply(value) for name, value in fields.items()}
        return [self.clean_reply(one) for one in cast(list[Any], content)] if isinstance(content, list) else content

    def _status(self, error: Any, bound: float) -> ServiceFailed:
        status, wait = int(error.status_code), _retry_after(error.response.headers)
        cost = 0.0 if status in FREE else bound
        if status in (401, 403):
            return ServiceFailed(f"the server refuses the key (HTTP {status}); give another in {KEY}", cost, fatal=True)
        if wait is not None and wait > LONGEST_WAIT:
            return ServiceFailed(f"HTTP {status}: the server asks to wait {wait:,.0f} s", cost, fatal=True)
        body: dict[str, Any] = error.body if isinstance(error.body, dict) else {}
        said = self.clean(str(body.get("message") or "no reason given"))[:300]
        again = status in AGAIN or status >= 500
        return ServiceFailed(f"HTTP {status}: {said}", cost, wait if again else None, fatal=not again)

    def _read(self, content: Any) -> Completion:
        """Return the parts of a reply; ValueError if it has another form."""
        # Answers are read as they came: a short key such as 1, for a server of one's own, may occur in them.
        raw = self.clean_reply(content)
        try:
            choice, usage = content["choices"][0], content.get("usage") or {}
            message, model = choice["message"], self.clean_reply(str(content.get("model") or ""))
            cut_off = choice.get("finish_reason") == "length"
            refusal = message.get("refusal") or ("a filter" if choice.get("finish_reason") == "content_filter" else "")
            tokens: list[Any] = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
            known = all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in tokens)
            text = message.get("content")
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError("no completion") from error
        text = text if isinstance(text, str) else ""
        return Completion(model, text, str(refusal), (tokens[0], tokens[1]) if known else None, cut_off, raw)


def check_url(base_url: str | None, place: str) -> None:
    """Raise BadOption for a text that is no URL, or that may hold a key; the message does not repeat it."""
    try:
        url = urlsplit(base_url or "http://default")
    except ValueError:
        url = urlsplit("")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise BadOption(f"{place} is no URL; give one such as http://127.0.0.1:8000/v1")
    if url.username or url.password or url.query:
        raise BadOption(f"{place} holds a user, a password or a query; give the key in {KEY}")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a header Retry-After, which may be a date; None if there is none that can be read.

    Seconds to a date are counted from the date of the reply, because the clock of the server may be another.
    """
    text = headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = headers.get("date")
            now = parsedate_to_datetime(date).timestamp() if date else time.time()
            seconds = max(0.0, parsedate_to_datetime(text).timestamp() - now)
        except ValueError:
            return None
    return seconds if 0 <= seconds < float("inf") else None
