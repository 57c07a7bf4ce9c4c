"""The token that requests must carry: from a file or the environment, never from the command line."""

import hashlib
import hmac
import os
from pathlib import Path

from al_ray.core.errors import BadFile, BadOption

VARIABLE = "AL_RAY_TOKEN"
LEAST = 16
"""Characters of a token, at least."""


def read_token(file: Path | None, option: str) -> str | None:
    """Return the token of a file, or of the environment without one; None if there is none.

    option: that names the file, in backticks.

    BadFile if the file cannot be read; BadOption for a token that is too short or not printable ASCII without spaces.
    """
    if file is None:
        token, place = os.environ.get(VARIABLE), VARIABLE
        if token is None:
            return None
    else:
        place = f"{option} {file}"
        try:
            token = file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError) as error:
            raise BadFile(f"{place} cannot be read ({error}); give a file whose only line is the token") from error
    if len(token) < LEAST or not all("!" <= letter <= "~" for letter in token):
        raise BadOption(
            f"{place}: the token is not {LEAST} or more printable ASCII characters without spaces; make one: "
            "python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


def token_digest(token: str | None) -> str | None:
    """Return what replicas are given in place of the token; None without one."""
    return None if token is None else hashlib.sha256(token.encode()).hexdigest()


def is_token(header: str, digest: str) -> bool:
    """Return whether an Authorization header carries the token of this digest."""
    kind, _, token = header.partition(" ")
    # latin-1 reads every header.
    given = hashlib.sha256(token.strip().encode("latin-1", "replace")).hexdigest()
    return kind.lower() == "bearer" and hmac.compare_digest(given, digest)
