"""Known texts by id, and the lines of JSON that hold them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from al_ray.core.errors import BadFile
from al_ray.storage.files import check_fields

FIX = "restore it, or make another `store`"


class KnownText(NamedTuple):
    """A known text, and the cluster that it is in; None if it is in none, or came later.

    The text of a record is a JSON object of its fields (records/record_text.py).
    """

    text: str
    cluster: int | None = None


Texts = dict[str, KnownText]


def texts_digest(texts: Mapping[str, KnownText]) -> str:
    """Return the digest of texts with their ids and clusters, in their order."""
    content = hashlib.sha256()
    for line in text_lines(texts):
        content.update(line)
    return content.hexdigest()


def known_text(line: bytes, path: Path) -> tuple[str, KnownText]:
    """Return the id and the text of a line of a table of all texts."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} has a line that is no JSON ({error}); {FIX}") from error
    check_fields(path, row, {"id": str, "text": str, "cluster": int | None}, FIX)
    return row["id"], KnownText(row["text"], row["cluster"])


def text_lines(texts: Mapping[str, KnownText]) -> Iterable[bytes]:
    """Yield the line of each text, in their order."""
    for one, known in texts.items():
        # Escaped: other line ends than \n, which some readers of JSON lines take for one, are then in no line.
        yield json.dumps({"id": one, "text": known.text, "cluster": known.cluster}).encode() + b"\n"


def id_column(fields: Sequence[str]) -> str:
    """Return the name of the column of ids beside the fields of records: id, unless a field has this name."""
    name = "id"
    while name in fields:
        name += "_"
    return name


def record_lines(texts: Mapping[str, KnownText], fields: Sequence[str]) -> Iterable[bytes]:
    """Yield the line of each record as a table has it, with a column for each field; BadFile for one without them."""
    column = id_column(fields)
    for one, known in texts.items():
        try:
            record = json.loads(known.text)
            row = {column: one} | {name: record[name] for name in fields}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadFile(f"the record {one!r} has not the fields {', '.join(fields)} ({error!r}); {FIX}") from error
        yield json.dumps(row).encode() + b"\n"
