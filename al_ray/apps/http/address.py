"""The address on which a server listens."""

import socket

from al_ray.apps.http.token import VARIABLE
from al_ray.core.errors import BadOption
from al_ray.core.naming import option

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def require_token(host: str, token: str | None, prefix: str = "") -> None:
    """Raise BadOption for a host that other machines reach, without a token. prefix: of the names of options."""
    if host not in LOOPBACK and token is None:
        raise BadOption(
            f"{option(f'{prefix}host', host)} is open to other machines, and there is no token; give "
            f"`{prefix}token_file`, or set {VARIABLE}"
        )


def check_port_is_free(host: str, port: int, prefix: str = "") -> None:
    """Raise BadOption if a port cannot be listened on. prefix: of the names of options."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except OSError as error:
        raise BadOption(
            f"{option(f'{prefix}host', host)} and {option(f'{prefix}port', port)} cannot be listened on "
            f"({error.strerror}); give others"
        ) from error
