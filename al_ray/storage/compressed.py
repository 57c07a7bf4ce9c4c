"""Read files of lines that are compressed by gzip or zstd, by their names."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, cast

import pyarrow as pa

from al_ray.storage.uri import StoragePath

# Extension -> name of the codec, and the first bytes of its files.
CODECS = {".gz": ("gzip", b"\x1f\x8b"), ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, pa.ArrowException)
"""What reading a damaged or cut file raises; of zstd also an OSError without an error number."""


def codec_of(path: StoragePath) -> str | None:
    """Return the extension of a compressed file, .gz or .zst; None for any other file."""
    suffix = path.suffix.lower()
    return suffix if suffix in CODECS else None


def inner_suffix(path: StoragePath) -> str:
    """Return the extension of a file, that before .gz or .zst if it is compressed; in lower case."""
    return _inner_name(path).suffix.lower()


def inner_stem(path: StoragePath) -> str:
    """Return the name of a file without its extensions: t of t.csv and t.csv.gz."""
    return _inner_name(path).stem


def _inner_name(path: StoragePath) -> PurePosixPath:
    name = PurePosixPath(path.name)
    return PurePosixPath(name.stem) if codec_of(path) else name


@contextmanager
def opened_plain(local: Path, codec: str | None) -> Iterator[IO[bytes]]:
    """Open a local file for reading, unpacked as it is read if it is compressed (`codec_of`)."""
    if codec is None:
        with local.open("rb") as file:
            yield file
    elif codec == ".gz":
        with gzip.open(local, "rb") as file:
            yield cast(IO[bytes], file)
    else:
        with pa.CompressedInputStream(pa.OSFile(str(local)), CODECS[codec][0]) as file:
            yield cast(IO[bytes], file)
