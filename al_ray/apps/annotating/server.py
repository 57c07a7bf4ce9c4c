"""Serve the page in a thread of this process, beside the run or alone."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import uvicorn

from al_ray.apps.annotating.access import Access
from al_ray.apps.annotating.annotator import Annotator
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.annotating.web import make_application
from al_ray.apps.http.address import check_port_is_free, require_token
from al_ray.apps.http.token import read_token
from al_ray.core.errors import BadOption
from al_ray.storage.files import read_json, write_json

PAGE = "page.json"
"""Where the page of a folder is served, while a process has the lock of the folder."""
START = 30.0
"""Seconds in which the server must have started."""


@contextmanager
def serving(annotator: Annotator, options: PageOptions, token: str | None, prefix: str = "") -> Iterator[str]:
    """Serve the page while the context is open; yields its address. BadOption if it cannot be listened on.

    prefix: of the names of options.
    """
    check_port_is_free(options.host, options.port, prefix)
    application = make_application(annotator, Access(options.host, options.port, token))
    config = uvicorn.Config(
        application, host=options.host, port=options.port, log_level="warning", access_log=False,
        timeout_graceful_shutdown=5, server_header=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    # Signals are those of the command, which ends this context.
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = monotonic() + START
    while not server.started:
        if not thread.is_alive() or monotonic() > end:
            raise BadOption(f"the page cannot be served at {options.host}:{options.port}; choose another port")
        sleep(0.02)
    try:
        yield address(options.host, options.port)
    finally:
        server.should_exit = True
        thread.join(10)
        annotator.close()


def address(host: str, port: int) -> str:
    """Return the address under which people open the page: of all interfaces, the name of this machine."""
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"


def checked_token(options: PageOptions, prefix: str = "") -> str | None:
    """Return the token of the page; BadOption for an address that is open without one."""
    token = read_token(options.token_file, f"`{prefix}token_file`")
    require_token(options.host, token, prefix)
    return token


@contextmanager
def announced(folder: Path, address: str) -> Iterator[None]:
    """Write the address of a page into the folder while it is served, for whoever finds the folder locked."""
    path = folder / PAGE
    write_json(path, {"address": address, "process": os.getpid()})
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # It is somebody else's.
        return True
    return True


def address_in(folder: Path) -> str:
    """Return where the page of a folder is served, for the error that the folder is in use; "" if it is not."""
    path = folder / PAGE
    content = read_json(path, ["address", "process"]) if path.exists() else None
    # A process that was killed has left its file.
    alive = content is not None and _is_alive(content["process"])
    return f"; label on its page: {content['address']}" if content is not None and alive else ""
