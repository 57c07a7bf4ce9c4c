"""Who may use the page: token, names, and protection against requests from other sites.

There is no state: a cookie has a digest of the token, so that people stay signed in when the server is started again.
"""

import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from al_ray.apps.http.address import LOOPBACK

# Written within words of Persian and of Indian languages, and not printable by themselves.
JOINERS = {0x200C: None, 0x200D: None}
LONGEST_NAME, MOST_BYTES, MOST_FIELDS = 60, 65_536, 20
FORM = "application/x-www-form-urlencoded"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers would send forms with the origin "null".
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Visitor:
    """Who sends a request. name: "" if they have not signed in. csrf: what their forms must contain."""

    name: str
    csrf: str


class Access:
    """Checks requests of a server at a host and port. token: None where none is needed."""

    def __init__(self, host: str, port: int, token: str | None) -> None:
        """host: the address on which the server listens."""
        self.host, self.port = host, port
        self.pass_digest = None if token is None else hashlib.sha256(f"al_ray page {token}".encode()).hexdigest()
        self._token = token

    def visitor(self, request: Request) -> Visitor:
        """Return who sends a request; 400 for one that was meant for another host."""
        self._check_host(request.headers)
        name = unquote(request.cookies.get(self._cookie("name"), ""))
        known = self.pass_digest is None or hmac.compare_digest(
            request.cookies.get(self._cookie("pass"), "").encode("latin-1", "replace"), self.pass_digest.encode()
        )
        csrf = request.cookies.get(self._cookie("csrf"), "")
        return Visitor(name if known and name == valid_name(name) else "", csrf)

    async def form(self, request: Request, visitor: Visitor) -> dict[str, str]:
        """Return the fields of a form; 403 if it was not sent from this page, 413 if it is too large, else 400."""
        origin = request.headers.get("origin")
        if origin is not None and _host_of(origin, "netloc") != request.headers.get("host"):
            raise HTTPException(403, "the form was sent from another site")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
            raise HTTPException(400, f"the form is not {FORM}")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                raise HTTPException(413, f"the form has more than {MOST_BYTES:,} bytes; write a shorter note")
        try:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
        except ValueError as error:
            raise HTTPException(400, "the form cannot be read") from error
        given = fields.get("csrf", [""])[0]
        if not visitor.csrf or not hmac.compare_digest(given.encode(), visitor.csrf.encode()):
            raise HTTPException(403, "the form was not sent from this page; open the page again, and send it there")
        return {name: values[0] for name, values in fields.items()}

    def may_enter(self, token: str) -> bool:
        """Return whether a token is the one of this server."""
        return self._token is None or hmac.compare_digest(token.strip().encode(), self._token.encode())

    def sign_in(self, response: Response, name: str) -> None:
        """Let a visitor in under a name."""
        self._set(response, "name", quote(name))
        if self.pass_digest is not None:
            self._set(response, "pass", self.pass_digest)

    def sign_out(self, response: Response) -> None:
        """Forget a visitor."""
        for kind in ("name", "pass"):
            response.delete_cookie(self._cookie(kind), httponly=True, samesite="lax")

    def add_csrf(self, response: Response, visitor: Visitor) -> None:
        """Give a visitor what their forms must contain, if they have it not yet."""
        self._set(response, "csrf", visitor.csrf)

    def _set(self, response: Response, kind: str, value: str) -> None:
        response.set_cookie(self._cookie(kind), value, max_age=90 * 86_400, httponly=True, samesite="lax")

    def _cookie(self, kind: str) -> str:
        # Browsers send cookies to all ports of a host.
        return f"al_ray_{kind}_{self.port}"

    def _check_host(self, headers: Mapping[str, str]) -> None:
        """Raise 400 if a server for this machine alone is asked under another name: a site may point its name here."""
        asked = _host_of(f"//{headers.get('host', '')}", "hostname")
        if self.host in LOOPBACK and asked not in LOOPBACK:
            raise HTTPException(400, f"open http://{self.host}:{self.port}; this server is not {asked[:80]!r}")


def _host_of(url: str, part: str) -> str:
    """Return netloc or hostname of a URL, "" if it has none."""
    try:
        return getattr(urlsplit(url), part) or ""
    except ValueError:
        return ""


def new_csrf() -> str:
    """Return what forms of a new visitor must contain."""
    return secrets.token_urlsafe(24)


def valid_name(text: str) -> str:
    """Return a name as answers have it: in lower case, without extra white space; "" if it is none."""
    # Composed first: otherwise two people could have names that look the same.
    name = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    visible = name.translate(JOINERS)
    return name if len(name) <= LONGEST_NAME and visible and visible.isprintable() else ""


def missing(fields: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return the first of these names that a form lacks."""
    return next((name for name in names if name not in fields), None)
