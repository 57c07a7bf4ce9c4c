"""What commands print: no character controls the terminal, and no error line has a password."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO, cast

from al_ray.api.files import SECRET
from al_ray.cli._shared.called import as_called

# Codes that move the cursor, set colours or titles, or reorder what follows: C0 and C1 without tab and line feed, and
# the embeddings, overrides and isolates of bidirectional texts.
CONTROLS = {*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {ord("\t"), ord("\n")}
ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in CONTROLS}
# A user before a host; a password that may have slashes, which a port is not; a value in a query that is a secret.
USER = re.compile(r"://[^/\s@]+@|://[^/\s@:]*:(?!\d+[/?\s])\S*@")
QUERY = re.compile(rf"([?&](?:{SECRET})=)[^&\s]+", re.IGNORECASE)


def printable(text: str) -> str:
    """Return a text in which control characters are written out: \\x1b for the escape character."""
    return text.translate(ESCAPES)


def without_passwords(text: str) -> str:
    """Return a text whose URIs have no user, password or secret of a query any more."""
    return QUERY.sub(r"\1...", USER.sub("://...@", text))


class LineFormatter(logging.Formatter):
    """Formats a record of the log as printable lines in the words of a command line, without passwords."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback of an exception if the record has one."""
        return printable(without_passwords(as_called(super().format(record))))


class PrintableStream:
    """A stream to which printable text alone is written; all else is that of the stream."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text with its control characters written out."""
        return self.stream.write(printable(text))

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


@contextmanager
def printable_output(stream: TextIO) -> Iterator[None]:
    """Have `print` write printable text alone to a stream, until the context ends."""
    with redirect_stdout(cast(TextIO, PrintableStream(stream))):
        yield


@contextmanager
def plain_output(stream: TextIO) -> Iterator[None]:
    """Undo `printable_output` until the context ends, for a library that prints colours."""
    with redirect_stdout(stream.stream if isinstance(stream, PrintableStream) else stream):
        yield
