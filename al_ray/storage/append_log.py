"""An append-only file of JSON objects: each is on disk before its writer continues.

A line is a checksum and an object as JSON, whose number is that of the line, from 1. A process that is killed while it
writes leaves a last line without its end. It was never acknowledged: readers leave it out, and the next writer cuts it
off. Any other line that does not agree with its checksum is damage, and an error.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from al_ray.core.errors import BadFile
from al_ray.storage.files import sync

Change = Mapping[str, Any]
"""A line: its number, and what was appended."""


class LogReader:
    """Reads the changes of a log that a writer in another process may extend."""

    def __init__(self, path: Path, fix: str, valid: Callable[[Change], bool], number: int = 0, offset: int = 0) -> None:
        """number: of the last change before byte `offset`, where reading begins; fix: of damage, for the error.

        valid: whether a change has the fields, and the types of values, that its writer writes.
        """
        self.path, self.fix, self.valid, self.number, self.offset = path, fix, valid, number, offset
        self._last = b""

    def read_new(self) -> list[Change]:
        """Return the complete changes since the last call; BadFile if one is damaged or the file is gone.

        After an error nothing counts as read. A change that was read before its writer failed to sync it, and took it
        back, is an error, too: what was read last is compared with what is there now.
        """
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self.offset:
                    raise BadFile(f"{self.path} has {size:,} bytes and had {self.offset:,}; {self.fix}")
                file.seek(self.offset - len(self._last))
                content = file.read()
        except OSError as error:
            raise BadFile(f"{self.path} cannot be read ({error.strerror}); {self.fix}") from error
        if not content.startswith(self._last):
            raise BadFile(f"{self.path}: change {self.number:,} is another one than before; {self.fix}")
        changes, offset = list[Change](), self.offset
        # Not splitlines(), which takes other bytes for the end of a line, too.
        lines = content[len(self._last) :].split(b"\n")[:-1]
        for line in lines:
            changes.append(self._parsed(line, self.number + len(changes) + 1, f"{self.path}, byte {offset:,}"))
            offset += len(line) + 1
        self.number, self.offset = self.number + len(changes), offset
        if lines:
            self._last = lines[-1] + b"\n"
        return changes

    def _parsed(self, line: bytes, number: int, place: str) -> Change:
        checksum, _, content = line.partition(b" ")
        if checksum != b"%08x" % crc32(content):
            raise BadFile(f"{place}: the change {number:,} is damaged; {self.fix}")
        try:
            change = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{place}: the change {number:,} is no JSON ({error}); {self.fix}") from error
        # A checksum can be computed for any line: another program may have written it.
        if not isinstance(change, dict) or type(change.get("number")) is not int:
            raise BadFile(f"{place}: the change {number:,} has no number; {self.fix}")
        if change["number"] != number:
            raise BadFile(f"{place}: change {change['number']:,} stands where change {number:,} belongs; {self.fix}")
        if not self.valid(change):
            raise BadFile(f"{place}: the change {number:,} is not as al_ray writes it; {self.fix}")
        return change


class LogWriter:
    """Appends changes to a log. Only one process at a time may have one: the caller has locked the folder."""

    def __init__(self, path: Path, fix: str, number: int, offset: int) -> None:
        """number: of the last complete change; offset: of its end. What follows is cut off. fix: of a full disk."""
        self.path, self.number, self.offset = path, number, offset
        self.broken, self._closed = "", False
        try:
            # A link in a folder of somebody else may lead to any file of the user, which would be cut off here.
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            os.ftruncate(self._file, offset)
            os.fsync(self._file)
            sync(path.parent)
        except OSError as error:
            raise BadFile(f"{path} cannot be written ({error.strerror}); {fix}") from error

    def append(self, **fields: Any) -> Change:
        """Write a change and return it when it is on disk; BadFile if it is not, and then it is not in the file."""
        if self.broken:
            raise BadFile(self.broken)
        change = {"number": self.number + 1, **fields}
        content = json.dumps(change, ensure_ascii=False).encode()
        line = b"%08x %s\n" % (crc32(content), content)
        try:
            written = 0
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self.offset + written)
            os.fsync(self._file)
        except OSError as error:
            # Whether a failed sync has reached the disk is unknown, so this process does not write again.
            self.broken = f"{self.path} cannot be written ({error.strerror}); make room, and start again"
            with suppress(OSError):
                os.ftruncate(self._file, self.offset)
            raise BadFile(self.broken) from error
        self.number, self.offset = self.number + 1, self.offset + len(line)
        return change

    def close(self) -> None:
        """Close the file; nothing is written after that."""
        if not self._closed:
            self._closed, self.broken = True, self.broken or f"{self.path} is closed; start again"
            os.close(self._file)
