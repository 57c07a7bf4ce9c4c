"""An HTTP proxy before the S3 server of these tests: single uploads meet a fault, and the store can be out of reach."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_WR
from threading import Condition, Event, Thread
from typing import Literal, cast

Fault = Literal["late", "refused", "cut", "unanswered", "answered last", "held"]
"""What happens to the first PUT of an object.

late: it reaches the server after a later PUT of the lock. refused: the reply is 503, and the server gets nothing. cut:
the server gets half of the content, and both connections are closed. unanswered: the server gets it, and its reply is
lost. answered last, held: all requests after it, or from it on, reach the server after `restore`.
"""
SECONDS = 120.0


class Proxy(ThreadingHTTPServer):
    """A proxy on a port of its own. faults: the last part of a key -> its fault; puts: how many PUTs came of a key.

    held: set once a request waits for `restore`, and all before it have been answered.
    """

    def __init__(self, store: str, faults: dict[str, Fault]) -> None:
        """store: the address of the S3 server."""
        super().__init__(("127.0.0.1", 0), Relay)
        self.store, self.faults, self.puts = store, dict(faults), Counter[str]()
        self.held, self.renewed = Event(), Event()
        self.change, self.passing, self.out_of_reach = Condition(), 0, False

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"127.0.0.1:{self.server_port}"

    @contextmanager
    def request(self) -> Iterator[None]:
        """Wait until the store is in reach; the request lasts as long as the context."""
        with self.change:
            if self.out_of_reach:
                assert self.change.wait_for(lambda: not self.passing, SECONDS)
                self.held.set()
                assert self.change.wait_for(lambda: not self.out_of_reach, SECONDS)
            self.passing += 1
        try:
            yield
        finally:
            with self.change:
                self.passing -= 1
                self.change.notify_all()

    def cut_off(self) -> None:
        """Let no request begin any more."""
        with self.change:
            self.out_of_reach = True

    def restore(self) -> None:
        """Let all requests go on that wait."""
        with self.change:
            self.out_of_reach = False
            self.change.notify_all()


class Relay(BaseHTTPRequestHandler):
    """A connection of a client."""

    protocol_version = "HTTP/1.1"

    def relay(self) -> None:
        """Hand a request to the server and its reply to the client, unless a fault is due."""
        proxy, name = cast(Proxy, self.server), self.path.partition("?")[0].rpartition("/")[2]
        content, fault = self.content(), ""
        if self.command == "PUT":
            fault = proxy.faults.pop(name, "")
            proxy.puts[name] += 1
        if fault == "held":
            proxy.cut_off()
        with proxy.request():
            if fault == "late":
                proxy.renewed.clear()
                assert proxy.renewed.wait(SECONDS)
            if fault == "refused":
                self.answer(503, {}, b"")
                return
            reply = self.ask(proxy.store, content, fault == "cut")
            if fault == "answered last":
                proxy.cut_off()
            if reply is None or fault == "unanswered":
                self.close_connection = True
                return
            with reply:
                self.answer(reply.status, dict(reply.headers), reply.read())
            if name == ".lock" and self.command == "PUT":
                proxy.renewed.set()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay

    def content(self) -> bytes:
        """Return the body of a request, which pyarrow sends in chunks."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = list[bytes]()
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            # Trailers of the transfer; those of S3 are in the body.
            pass
        return b"".join(chunks)

    def ask(self, store: str, content: bytes, cut: bool) -> HTTPResponse | None:
        """Send a request on; return the reply, or None if it is cut: half of the content follows, and no more."""
        length = len(content)
        content = content[: length // 2] if cut else content
        connection = HTTPConnection(store, timeout=SECONDS)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for header, value in self.headers.items():
            if header.lower() not in ("expect", "connection", "transfer-encoding"):
                connection.putheader(header, value)
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            connection.putheader("Content-Length", str(length))
        connection.endheaders(content)
        if not cut:
            return connection.getresponse()
        connection.sock.shutdown(SHUT_WR)
        # Until the server has closed the connection, too: it does nothing with the request any more.
        with suppress(ConnectionError):
            while connection.sock.recv(1024):
                pass
        connection.close()
        return None

    def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        """Reply to the client; one that has ended meanwhile is left alone."""
        names = {name.lower() for name in headers}
        with suppress(ConnectionError):
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() != "transfer-encoding":
                    self.send_header(name, value)
            if "content-length" not in names:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def proxied(store: str, faults: dict[str, Fault]) -> Iterator[Proxy]:
    """A proxy for as long as the context lasts; at its end nothing is held any more."""
    proxy = Proxy(store, faults)
    thread = Thread(target=proxy.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield proxy
    finally:
        proxy.restore()
        proxy.shutdown()
        thread.join()
        proxy.server_close()
