"""The folder of the known texts as they change.

store.json          what the texts were made from; the name of the newest table, its digest, and the change it includes
texts-N.jsonl       all texts after change N, one JSON object a line: id, text, cluster (null for none)
records-N.jsonl     on request: all records of a matcher after change N as a table, with a column for each field
changes.log         every change since the beginning (journal.py)
left.jsonl          of two tables, with a matcher or scores of both sides: the left texts, as new ones are matched among
                    them
model.json          the model that answers
vectors/, index/    what replicas have made of the texts: vectors and indexes by the digest of the model

The present texts are those of the newest table, and the changes after it. store.json is replaced last and in one step,
so a process that is killed leaves the old table or the new one.
"""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from al_ray.apps.serving.answers import PutCounts, RemovedCounts, StoredTable
from al_ray.apps.serving.journal import Change, append_change, journal_reader, open_journal, read_changes
from al_ray.apps.serving.model_name import MODEL, ModelName, read_model_name
from al_ray.apps.serving.text_lines import (
    FIX,
    KnownText,
    Texts,
    id_column,
    known_text,
    record_lines,
    text_lines,
    texts_digest,
)
from al_ray.core.config.serialization import from_dict
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.naming import Code, call, options_of
from al_ray.storage.append_log import LogReader
from al_ray.storage.files import file_in, in_one_step, read_json, write_json, write_root
from al_ray.storage.lock import locked

logger = logging.getLogger(__name__)
ABOUT, CHANGES, FIRST_TABLE = "store.json", "changes.log", "texts-0.jsonl"
LEFT = "left.jsonl"
EVERY = 1_000
"""Changes after which a new table is written."""


@dataclass(frozen=True)
class Source:
    """What the texts of a store were made from: the path of `known`, its digest, and whether both sides are one set.

    matcher: whether they are records for a matcher. left: digest of the left ones; "" without any.
    """

    known: str
    digest: str
    symmetric: bool
    matcher: bool = False
    left: str = ""

    @property
    def side(self) -> str:
        """Return the option of jobs.match --into that takes them."""
        return "--left" if self.symmetric else "--right"


@dataclass(frozen=True)
class Snapshot:
    """Where the newest table is, and what it includes. offset: in changes.log, of the end of change `number`."""

    table: str
    digest: str
    number: int
    offset: int


@dataclass
class StoreContent:
    """The texts of a store by id, after change `reader.number`. table: digest of the table that was read."""

    source: Source
    snapshot: Snapshot
    texts: Texts
    reader: LogReader
    changes: list[Change] = field(default_factory=list)


def apply(texts: Texts, change: Change) -> None:
    """Make a change to texts, in place. A text that is put again unchanged keeps its cluster."""
    for one, text in change.put:
        known = texts.get(one)
        if known is None or known.text != text:
            texts[one] = KnownText(text)
    for one in change.removed:
        texts.pop(one, None)


def make_store(folder: Path, source: Source, texts: Texts, left: Texts | None = None) -> None:
    """Make a store of known texts, unless the folder is one. left: the known left texts, where a matcher needs them."""
    with locked(folder):
        if (folder / ABOUT).exists():
            return
        check_store_folder(folder)
        open_journal(folder / CHANGES, 0, 0).close()
        if left is not None:
            in_one_step(folder / LEFT, lambda aside: aside.write_bytes(b"".join(text_lines(left))))
            source = replace(source, left=texts_digest(left))
        _write_table(folder, source, texts, 0, 0)


def check_store_folder(folder: Path) -> None:
    """Raise WrongFolder if a folder has files that are not those of a store whose making was stopped."""
    if not folder.exists():
        return
    if not folder.is_dir() or any(_is_foreign(path) for path in folder.iterdir()):
        raise WrongFolder(f"{folder} is no store and not empty; give `store` a folder of its own")


def _is_foreign(path: Path) -> bool:
    if path.name == CHANGES:
        # A log with changes is of a store whose store.json was lost.
        return path.stat().st_size > 0
    # Files are written under a name with a dot before it, and renamed.
    own = path.name.startswith((f".{FIRST_TABLE}.", f".{ABOUT}.", f".{LEFT}."))
    return not (own or path.name in (".lock", FIRST_TABLE, LEFT))


def read_left_texts(folder: Path, source: Source) -> Texts:
    """Return the known left texts of a store; BadFile if they are damaged or lacking."""
    content = _bytes(folder / LEFT)
    if hashlib.sha256(content).hexdigest() != source.left:
        raise BadFile(f"{folder / LEFT} is not as it was written; {FIX}")
    return dict(known_text(row, folder / LEFT) for row in content.splitlines())


def read_source(folder: Path) -> Source | None:
    """Return what the texts of a store were made from; None if the folder is no store."""
    if not (folder / ABOUT).exists():
        return None
    return _about(folder)[0]


def read_store(folder: Path) -> StoreContent:
    """Read the present texts of a store, while a writer may change it; BadFile if it is damaged."""
    source, snapshot = _about(folder)
    try:
        content = (folder / snapshot.table).read_bytes()
    except OSError:
        # A newer table has replaced it in between, or it cannot be read.
        source, snapshot = _about(folder)
        content = _bytes(folder / snapshot.table)
    if hashlib.sha256(content).hexdigest() != snapshot.digest:
        raise BadFile(f"{folder / snapshot.table} is not as it was written; {FIX}")
    texts = dict(known_text(row, folder / snapshot.table) for row in content.splitlines())
    reader = journal_reader(folder / CHANGES, snapshot.number, snapshot.offset)
    changes = read_changes(reader)
    for change in changes:
        apply(texts, change)
    return StoreContent(source, snapshot, texts, reader, changes)


class StoreWriter:
    """The one process that changes a store: it has the lock until it is closed."""

    def __init__(self, folder: Path, patience: float = 0.0) -> None:
        """Open a store that was made before; FolderInUse if another process writes it for `patience` seconds."""
        if not (folder / ABOUT).exists():
            how = call("serve", options=options_of("ServeOptions", model=Code("RUN"), known=Code("FILE"), store=folder))
            raise BadOption(f"{folder} holds no {ABOUT}; make the store: {how}")
        self.folder, self._stack = folder, ExitStack()
        self._stack.enter_context(locked(folder, patience))
        content = read_store(folder)
        self.source, self.texts = content.source, content.texts
        self._table = content.snapshot.number
        self._journal = open_journal(folder / CHANGES, content.reader.number, content.reader.offset)
        self._write_table_after(1)

    @property
    def number(self) -> int:
        """Return the number of the last change."""
        return self._journal.number

    @property
    def broken(self) -> str:
        """Return why this writer writes no more, "" if it does; another one can begin in its place."""
        return self._journal.broken

    def put(self, texts: Sequence[tuple[str, str]]) -> PutCounts:
        """Add texts, or replace those with a known id; they are on disk when this returns. Return the counts."""
        new = sum(one not in self.texts for one, _ in texts)
        fresh = [(one, text) for one, text in texts if one not in self.texts or self.texts[one].text != text]
        self._change(fresh, ())
        return PutCounts(self.number, new, len(fresh) - new, len(texts) - len(fresh))

    def remove(self, ids: Sequence[str]) -> RemovedCounts:
        """Remove texts; it is on disk when this returns. Return how many were there, and how many were not."""
        there = [one for one in ids if one in self.texts]
        self._change((), there)
        return RemovedCounts(self.number, len(there), len(ids) - len(there))

    def write_table_for_matching(self, fields: Sequence[str] = ()) -> StoredTable:
        """Write all texts as a table that jobs.match --into can take; return what was written.

        fields: of records, which have a column each.
        """
        path = self._write_records(fields) if fields else self.write_table()
        columns = list(fields) or ["text"]
        return StoredTable(self.number, str(path), len(self.texts), self.source.side, columns, id_column(fields))

    def write_table(self) -> Path:
        """Write all texts as a table, and remove older tables; return its path."""
        snapshot = _write_table(self.folder, self.source, self.texts, self.number, self._journal.offset)
        self._table = self.number
        for path in self.folder.glob("texts-*.jsonl"):
            if path.name != snapshot.table:
                path.unlink(missing_ok=True)
        return self.folder / snapshot.table

    def _write_records(self, fields: Sequence[str]) -> Path:
        path = self.folder / f"records-{self.number}.jsonl"
        in_one_step(path, lambda aside: aside.write_bytes(b"".join(record_lines(self.texts, fields))))
        for other in self.folder.glob("records-*.jsonl"):
            if other != path:
                other.unlink(missing_ok=True)
        return path

    def use_model(self, model: ModelName) -> None:
        """Name the model that answers from now on."""
        if not (self.folder / MODEL).exists() or read_model_name(self.folder) != model:
            write_json(self.folder / MODEL, asdict(model))

    def close(self) -> None:
        """Give the lock back."""
        self._journal.close()
        self._stack.close()

    def _change(self, put: Sequence[tuple[str, str]], removed: Sequence[str]) -> None:
        if put or removed:
            apply(self.texts, append_change(self._journal, put, removed))
            self._write_table_after(EVERY)

    def _write_table_after(self, changes: int) -> None:
        """Write a table after so many changes since the last one; without room for it the changes are in their log."""
        if self.number - self._table >= changes:
            try:
                self.write_table()
            except BadFile as error:
                logger.warning("the table of all known texts was not written: %s", error)


def _about(folder: Path) -> tuple[Source, Snapshot]:
    content = read_json(folder / ABOUT, ["source", "snapshot"], FIX)
    try:
        source, snapshot = from_dict(Source, content["source"]), from_dict(Snapshot, content["snapshot"])
    except BadOption as error:
        raise BadFile(f"{folder / ABOUT} is not what this al_ray wrote ({error}); {FIX}") from error
    file_in(folder, snapshot.table, folder / ABOUT, FIX)
    return source, snapshot


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}); {FIX}") from error


def _write_table(folder: Path, source: Source, texts: Texts, number: int, offset: int) -> Snapshot:
    name, content = f"texts-{number}.jsonl", hashlib.sha256()

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            for line in text_lines(texts):
                content.update(line)
                file.write(line)

    in_one_step(folder / name, write)
    snapshot = Snapshot(name, content.hexdigest(), number, offset)
    # Earlier versions know no records, and read all other stores.
    made_from = {key: value for key, value in asdict(source).items() if value or key not in ("matcher", "left")}
    about: dict[str, Any] = {"source": made_from, "snapshot": asdict(snapshot)}
    write_root(folder / ABOUT, about)
    return snapshot
