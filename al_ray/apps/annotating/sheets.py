"""What people label on the page: the pairs of a sheet, with their texts as STEM.json of its folder has them.

The same file is what Label Studio imports (oracles/people.py), so rounds, dev labels, checks of a language model and
audits are all read in one way, and an audit needs no task.
"""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast
from xml.etree import ElementTree

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.labels import OPEN, Batch
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.matcher.explanation import Explanation
from al_ray.matcher.explanation_file import read_explanations
from al_ray.oracles.answer_files import BATCH, IDS, answer_paths, read_answer_files
from al_ray.oracles.llm import check
from al_ray.oracles.page_log import log_path, read_page_answers
from al_ray.oracles.people import FILE, INTERFACE, codes_of, labellers_of, write_sheets
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_json

SPREAD = "spread-seed"
"""Source of a batch that a run with a matcher chose before it had any label (active_learning/loop.py)."""
FIX = "move it away, and rerun the command that wrote it: it writes a new one"
Fields = tuple[tuple[str, str], ...]
"""The fields of a text: title, "" if the text has but one field, and content."""


@dataclass(frozen=True)
class SheetPair:
    """A pair as people see it: its code, its texts field by field, and their ids."""

    code: str
    left: Fields
    right: Fields
    ids: tuple[str, str]


class Recorder(Protocol):
    """The ledger of a run in which the labels of a sheet are, once the run has read them."""

    @property
    def is_final(self) -> bool:
        """Return whether the run has read all labels of the sheet, and waits for no more."""
        ...

    def read_labels(self) -> Mapping[str, int]:
        """Return by code the labels that the run has read from the sheet, without corrections; final sheets only.

        Pairs that are not in it can no longer be changed on the page.
        """
        ...

    def labels(self) -> Mapping[str, int]:
        """Return by code the labels of the sheet in the ledger, corrections included."""
        ...

    def correct(self, labels: Mapping[str, int]) -> None:
        """Correct labels, by code."""
        ...

    def by_model(self) -> Mapping[str, str]:
        """Return by code what a language model said of the pairs to which people gave another label."""
        ...


@dataclass(frozen=True)
class Sheet:
    """Pairs that people are to label.

    key: of the sheet, unique in its folder: the codes of its pairs begin with it. cosines: by code, of the pairs for
    which one is known. elsewhere: codes of pairs that have an answer in another file. recorder: None if labels are read
    from the files whenever they are needed. why: by code, why the matcher that chose a pair gave it its p.
    """

    key: str
    title: str
    folder: Path
    stem: str
    pairs: Mapping[str, SheetPair]
    seed: int = 0
    cosines: Mapping[str, float] = field(default_factory=dict[str, float])
    elsewhere: frozenset[str] = frozenset()
    recorder: Recorder | None = None
    why: Mapping[str, Explanation] = field(default_factory=dict[str, Explanation])

    @property
    def is_final(self) -> bool:
        """Return whether no more labels are waited for."""
        return self.recorder is not None and self.recorder.is_final


class SheetSource(Protocol):
    """Where sheets come from: the folder of a run, to which rounds are added, or an audit."""

    def new_sheets(self, known: Container[str]) -> Iterator[Sheet]:
        """Yield the sheets whose keys are not in `known`, in the order in which they are to be labelled."""
        ...


def read_sheet_pairs(path: Path) -> dict[str, SheetPair]:
    """Read the pairs of STEM.json by code, in order; BadFile if it is not as al_ray writes it."""
    titles = read_titles(path.parent / INTERFACE)
    try:
        rows = [cast(dict[str, Any], row["data"]) for row in json.loads(path.read_bytes())]
        if not all(isinstance(value, str) for row in rows for value in row.values()):
            raise ValueError("a value that is no text")
        return {row["pair"]: _pair(row, titles) for row in rows}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read as a list of pairs ({error!r}); {FIX}") from error


def read_titles(interface: Path) -> dict[str, str]:
    """Return the titles of fields by their names in STEM.json, from the interface of Label Studio; none without it."""
    try:
        views = ElementTree.fromstring(interface.read_bytes()).iter("View")
    except (OSError, ElementTree.ParseError):
        return {}
    titles = dict[str, str]()
    for view in views:
        title = ""
        for element in view:
            if element.tag == "Header":
                title = element.get("value", "")
            elif element.tag == "Text" and title:
                titles[element.get("value", "").removeprefix("$")], title = title, ""
    return titles


def _pair(row: Mapping[str, str], titles: Mapping[str, str]) -> SheetPair:
    def fields(side: str) -> Fields:
        names = [name for name in row if name.startswith(f"{side}_") and name not in IDS]
        return tuple((titles.get(name, _title(name.removeprefix(f"{side}_"), len(names))), row[name]) for name in names)

    return SheetPair(row["pair"], fields("left"), fields("right"), (row[IDS[0]], row[IDS[1]]))


def _title(name: str, fields: int) -> str:
    return "" if fields == 1 and name.rstrip("_") == "text" else name.replace("_", " ").strip()


def answered_elsewhere(folder: Path, stem: str, pairs: Mapping[str, SheetPair]) -> frozenset[str]:
    """Return the codes of the pairs that have an answer in the sheet or in an export of Label Studio."""
    files = answer_paths(folder, stem, page=False)
    labels = read_answer_files(files, [*pairs], [pair.ids for pair in pairs.values()])
    return frozenset(code for code, label in zip(pairs, labels.tolist(), strict=True) if label != OPEN)


def by_code(codes: Sequence[str], cosines: Floats) -> dict[str, float]:
    """(n,) cosines -> cosine by code, without those that are not known."""
    return {code: cosine for code, cosine in zip(codes, cosines.tolist(), strict=True) if np.isfinite(cosine)}


class RoundRecorder:
    """A round of training pairs or of drawn pairs of dev."""

    def __init__(self, ledger: Ledger, number: int, codes: Sequence[str], rows: Rows | None = None) -> None:
        """codes: (n,) of the pairs of the round, or of those of its rows (n,)."""
        self.ledger, self.number, self.codes = ledger, number, codes
        self.rows = np.arange(len(codes)) if rows is None else rows

    @property
    def is_final(self) -> bool:
        """Return whether the round has all its labels, or was closed."""
        return self.ledger.sealed(self.number)

    def read_labels(self) -> Mapping[str, int]:
        """Return the first labels of the round that people gave on the page, not those of its sheet or an export.

        None of dev, whose corrections change estimates, too.
        """
        if self.ledger.split != "train":
            return {}
        by = zip(self.codes, labellers_of(self.ledger, self.number)[self.rows].tolist(), strict=True)
        filled = {code for code, name in by if name == FILE}
        return {code: label for code, label in self._first_labels().items() if code not in filled}

    def _first_labels(self) -> dict[str, int]:
        # Pairs without a label left the round when it was closed.
        labels = zip(self.codes, self.ledger.first_labels(self.number)[self.rows].tolist(), strict=True)
        return {code: label for code, label in labels if label != OPEN}

    def labels(self) -> Mapping[str, int]:
        """Return the labels of the round, corrections included."""
        return dict(zip(self.codes, self.ledger.labels(self.number)[self.rows].tolist(), strict=True))

    def correct(self, labels: Mapping[str, int]) -> None:
        """Correct labels in the ledger."""
        batch = self.ledger.batch(self.number)
        assert batch is not None
        rows = dict(zip(self.codes, self.rows.tolist(), strict=True))
        pairs = batch.pairs[[rows[code] for code in labels]]
        self.ledger.correct(pairs, np.array([*labels.values()], dtype=np.uint8))

    def by_model(self) -> Mapping[str, str]:
        """Return nothing: nobody else was asked."""
        return {}


class CheckRecorder(RoundRecorder):
    """A check of a language model by people: rows of a round, whose labels are those of people once all are there."""

    def __init__(self, ledger: Ledger, number: int, pairs: Mapping[str, SheetPair], rows: Rows, folder: Path) -> None:
        """pairs: of the check, and their rows (n,) in the batch of the round. folder: of the check."""
        super().__init__(ledger, number, [*pairs], rows)
        self.pairs, self.folder = pairs, folder

    @property
    def is_final(self) -> bool:
        """Return whether the check is done."""
        return (self.folder / check.CHECK).exists()

    def read_labels(self) -> Mapping[str, int]:
        """Return the labels that people gave on the page, not those of the sheet or an export."""
        elsewhere = answered_elsewhere(self.folder, BATCH, self.pairs)
        return {code: label for code, label in self._first_labels().items() if code not in elsewhere}

    def by_model(self) -> Mapping[str, str]:
        """Return by code what the model said where people gave another label; nothing before it was asked."""
        path, codes = self.folder / check.CHECK, {pair.ids: code for code, pair in self.pairs.items()}
        disputed = read_json(path, ["disputed"])["disputed"] if self.is_final else []
        try:
            return {codes[one["left_id"], one["right_id"]]: one["model"] for one in disputed}
        except (KeyError, TypeError) as error:
            raise BadFile(f"{path} names other pairs than the sheet beside it; restore it") from error


@dataclass(frozen=True)
class RunSheets:
    """The sheets of a run: its rounds, drawn pairs of dev, and the check of a language model.

    people: whether they label the rounds.
    """

    run: RunFolder
    seed: int
    people: bool

    def new_sheets(self, known: Container[str]) -> Iterator[Sheet]:
        """Yield the check, the open rounds, and complete rounds that people have answered on the page.

        No rounds if others than people label them.
        """
        yield from self._check(known)
        if not self.people:
            return
        for ledger, letter, title in ((self.run.ledger, "r", "round"), (self.run.dev_labels.ledger, "d", "dev, round")):
            for number in range(1, ledger.rounds + 1):
                key, folder = f"{letter}{number:03d}", cast(Path, ledger.round(number))
                batch = None if key in known else ledger.batch(number)
                if batch is None or not len(batch.pairs):
                    continue
                if not ledger.sealed(number) or log_path(folder, BATCH).exists():
                    yield self._round(ledger, number, batch, key, f"{title} {number}")

    def _round(self, ledger: Ledger, number: int, batch: Batch, key: str, title: str) -> Sheet:
        folder = cast(Path, ledger.round(number))
        codes = codes_of(number, len(batch.pairs), dev=ledger.split != "train")
        # The sheet is written last.
        if not (folder / f"{BATCH}.csv").exists():
            write_sheets(folder, BATCH, codes, batch.pairs, self.run.task)
        pairs = read_sheet_pairs(folder / f"{BATCH}.json")
        if [*pairs] != codes:
            raise BadFile(f"{folder / BATCH}.json holds other pairs than batch.parquet beside it; {FIX}")
        labels = zip(codes, ledger.first_labels(number).tolist(), strict=True)
        page = read_page_answers(log_path(folder, BATCH))
        # What the ledger has of the others came from the page.
        elsewhere = {code for code, label in labels if label != OPEN and code not in page.touched}
        if not ledger.sealed(number):
            filled = answered_elsewhere(folder, BATCH, pairs)
            elsewhere |= {code for code in filled if code not in page.touched or page.waits(code)}
        recorder = RoundRecorder(ledger, number, codes)
        # Before any label, a matcher's batch has ranks that are no cosines.
        cosines = {} if batch.source == SPREAD else by_code(codes, batch.cosines)
        found = read_explanations(folder, len(codes))
        why = dict(zip(codes, found, strict=True)) if found else {}
        return Sheet(key, title, folder, BATCH, pairs, self.seed, cosines, frozenset(elsewhere), recorder, why)

    def _check(self, known: Container[str]) -> Iterator[Sheet]:
        folder = cast(Path, self.run.path / check.FOLDER)
        if not (folder / f"{BATCH}.json").exists():
            return
        drawn = read_json(folder / check.DRAWN, ["round", "rows"])
        number, rows = drawn["round"], np.array(drawn["rows"], dtype=np.int64)
        if (key := f"c{number:03d}") in known:
            return
        pairs, batch = read_sheet_pairs(folder / f"{BATCH}.json"), self.run.ledger.batch(number)
        if batch is None or len(pairs) != len(rows) or not set(rows.tolist()) <= set(range(len(batch.pairs))):
            raise BadFile(f"{folder / BATCH}.json holds other pairs than {check.DRAWN} beside it; {FIX}")
        title, elsewhere = "check of the language model", answered_elsewhere(folder, BATCH, pairs)
        recorder = CheckRecorder(self.run.ledger, number, pairs, rows, folder)
        yield Sheet(key, title, folder, BATCH, pairs, self.seed, elsewhere=elsewhere, recorder=recorder)
