"""An S3 server on loopback (moto's): what it holds, what was asked of it, and that it copied nothing."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import moto.s3.models
import pyarrow.fs
import pytest
from moto.server import ThreadedMotoServer


@dataclass
class Server:
    """A server with one bucket."""

    address: str
    bucket: str = "bucket"
    requests: list[str] = field(default_factory=list)

    def uri(self, path: str) -> str:
        """The URI of a key."""
        return f"s3://{self.bucket}/{path}?endpoint_override={self.address}&scheme=http&region=us-east-1"

    @property
    def store(self) -> pyarrow.fs.S3FileSystem:
        """The same store without a line of ours between."""
        return pyarrow.fs.S3FileSystem(
            endpoint_override=f"http://{self.address}", allow_bucket_creation=True, region="us-east-1"
        )

    def names(self, folder: str) -> list[str]:
        """All objects under a folder, by their names in it."""
        found = self.store.get_file_info(pyarrow.fs.FileSelector(f"{self.bucket}/{folder}", recursive=True))
        inside = [one for one in found if one.type == pyarrow.fs.FileType.File]
        return sorted(one.path.removeprefix(f"{self.bucket}/{folder}/") for one in inside)

    def content(self, path: str) -> bytes:
        """What an object holds."""
        with self.store.open_input_stream(f"{self.bucket}/{path}") as file:
            return file.read()


class Log(logging.Handler):
    """Keeps what the server writes of its requests, which nobody wants to see."""

    def __init__(self, requests: list[str]) -> None:
        super().__init__()
        self.requests = requests

    def emit(self, record: logging.LogRecord) -> None:
        """METHOD /bucket/key, without the colours."""
        self.requests += re.findall(r"([A-Z]+ /\S*) HTTP", record.getMessage())


def dispose(key: moto.s3.models.FakeKey, garbage: bool = False) -> None:
    """Leave the content of a replaced object to those who read it still: moto closes it, and they get nothing."""
    if garbage:
        key._value_buffer.close()
    key.disposed = True


@contextmanager
def served() -> Iterator[Server]:
    """A server for as long as the context lasts; a copy made on it, which a renaming would need, is an error."""

    def copied(*_: object, **__: object) -> None:
        raise AssertionError("an object was copied")

    log = logging.getLogger("werkzeug")
    before = log.level, log.propagate
    started = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(moto.s3.models.S3Backend, "copy_object", copied)
        patched.setattr(moto.s3.models.FakeKey, "dispose", dispose)
        started.start()
        host, port = started.get_host_and_port()
        server = Server(f"{host}:{port}")
        handler = Log(server.requests)
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(handler)
        try:
            server.store.create_dir(server.bucket)
            yield server
        finally:
            started.stop()
            # All servers of a process have one store.
            for account in moto.s3.models.s3_backends.values():
                account.reset()
            log.removeHandler(handler)
            log.level, log.propagate = before
