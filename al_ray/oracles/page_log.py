"""The answers of people on the page of jobs.annotate: STEM.page.log beside the sheet STEM.csv that they answer.

Each answer is a line of an append-only log (storage/append_log.py), on disk before the next pair is shown. What counts
is computed from all lines: the last answer of each person to each pair, the label on which they agree, and the label
that somebody settled where they do not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from al_ray.core.config.serialization import fits
from al_ray.core.labels import CODES, OPEN, UNSURE, YES
from al_ray.storage.append_log import Change, LogReader, LogWriter

SUFFIX = ".page.log"
FIX = "restore the file from a copy; each of its lines is an answer that somebody gave"
ROOM = "make room, and start again"
Word = Literal["no", "yes", "unsure"]
# Fields of a line by its kind, each with its type: lists are of texts, and a dict has labels by code.
ANSWERED = {"pair": str, "by": str, "label": Word, "at": str}
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "overlap": {"share": float | None, "pairs": list},
    "confirm": {"on": bool},
    "recorded": {"labels": dict},
    "retract": {"person": str},
    "undo": {"pair": str, "by": str},
    "answer": ANSWERED,
    "settle": ANSWERED,
}


@dataclass(frozen=True)
class PageAnswer:
    """An answer: the label (NO, YES or UNSURE) that a person gave, with a note, and the number of its line.

    first: line of the person's first answer to the pair, which a changed label or a new note does not move.
    """

    by: str
    label: int
    note: str
    number: int
    at: str
    first: int


@dataclass
class PageAnswers:
    """What people have answered so far, by the lines of a log.

    answers: code of a pair -> person -> their answer. settled: code -> the label that decides where people disagree,
    until somebody gives the pair another one.
    share, doubled: the share of the pairs that two people are to answer, None if none was chosen, and their codes.
    confirm: whether two people are to answer a pair that has the answer yes, None if that was never chosen.
    recorded: labels that were corrected in the ledger of a run after it had read the sheet, by code. requests: ids of
    the requests that were carried out. touched: codes of all pairs that were ever answered or settled here. taken: of
    those whose last change was an answer or a settlement that was taken back.
    """

    answers: dict[str, dict[str, PageAnswer]] = field(default_factory=dict)
    settled: dict[str, PageAnswer] = field(default_factory=dict)
    share: float | None = None
    doubled: frozenset[str] = frozenset()
    confirm: bool | None = None
    recorded: dict[str, int] = field(default_factory=dict)
    requests: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)

    def apply(self, lines: Iterable[Change]) -> None:
        """Carry out lines of a log, in place."""
        for line in lines:
            kind = line["kind"]
            if "request" in line:
                self.requests.add(line["request"])
            if kind == "overlap":
                self.share, self.doubled = line["share"], frozenset(line["pairs"])
            elif kind == "confirm":
                self.confirm = line["on"]
            elif kind == "recorded":
                self.recorded |= {code: CODES[word] for code, word in line["labels"].items()}
            elif kind == "retract":
                self._retract(line["person"])
            else:
                self._apply_to_pair(line)

    def _apply_to_pair(self, line: Change) -> None:
        code, by = line["pair"], line["by"]
        self.touched.add(code)
        if line["kind"] == "undo":
            self.answers.get(code, {}).pop(by, None)
            self.taken.add(code)
            return
        self.taken.discard(code)
        earlier, number = self.answers.get(code, {}).get(by), line["number"]
        first = number if earlier is None else earlier.first
        answer = PageAnswer(by, CODES[line["label"]], line.get("note", ""), number, line["at"], first)
        if line["kind"] == "settle":
            self.settled[code] = answer
            return
        if earlier is None or earlier.label != answer.label:
            # The person who settled the pair did not know this label. A note alone changes nothing.
            self.settled.pop(code, None)
        self.answers.setdefault(code, {})[by] = answer

    def _retract(self, person: str) -> None:
        for code, answers in self.answers.items():
            if answers.pop(person, None) is not None or (code in self.settled and self.settled[code].by == person):
                self.taken.add(code)
        self.settled = {code: answer for code, answer in self.settled.items() if answer.by != person}

    def of(self, code: str) -> Mapping[str, PageAnswer]:
        """Return the answers to a pair, by person."""
        return self.answers.get(code, {})

    def label(self, code: str) -> int:
        """Return the label of a pair; OPEN without an answer, UNSURE while people disagree and nobody settled it."""
        if code in self.settled:
            return self.settled[code].label
        labels = {answer.label for answer in self.of(code).values()}
        if not labels:
            return OPEN
        return labels.pop() if len(labels) == 1 else UNSURE

    def disputed(self, code: str) -> bool:
        """Return whether people have given a pair different labels, settled or not."""
        return len({answer.label for answer in self.of(code).values()}) > 1

    def needed(self, code: str) -> int:
        """Return how many people must answer a pair."""
        matches = any(answer.label == YES for answer in self.of(code).values())
        return 2 if code in self.doubled or (self.confirm and matches) else 1

    def complete(self, code: str) -> bool:
        """Return whether enough people have answered a pair, or somebody has settled it."""
        return code in self.settled or len(self.of(code)) >= self.needed(code)

    def taken_back(self, code: str) -> bool:
        """Return whether a pair had an answer, and all of its answers were taken back."""
        return code in self.touched and self.label(code) == OPEN

    def waits(self, code: str) -> bool:
        """Return whether a pair that had an answer waits for one: a second one, or after it was taken back."""
        return self.taken_back(code) or (bool(self.of(code)) and not self.complete(code))

    def labellers(self, code: str) -> str:
        """Return who has labelled a pair."""
        by = {self.settled[code].by} if code in self.settled else self.of(code).keys()
        return ", ".join(sorted(by))


def _is_valid(line: Change) -> bool:
    """Return whether a line is as `append` writes it."""
    kind, optional = line.get("kind"), [line.get("note", ""), line.get("request", "")]
    if not isinstance(kind, str) or kind not in FIELDS or not all(isinstance(one, str) for one in optional):
        return False
    return all(name in line and _fits(line[name], expected) for name, expected in FIELDS[kind].items())


def _fits(value: Any, kind: Any) -> bool:
    members = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return fits(value, kind) and all(isinstance(one, str) and (kind is list or one in CODES) for one in members)


def log_path(folder: Path, stem: str) -> Path:
    """Return the log beside the sheet STEM.csv of a folder."""
    return folder / f"{stem}{SUFFIX}"


def log_reader(path: Path) -> LogReader:
    """Return a reader of a log from its beginning."""
    return LogReader(path, FIX, _is_valid)


def read_page_answers(path: Path) -> PageAnswers:
    """Return what people have answered by a log; nothing if there is none."""
    answers = PageAnswers()
    if path.exists():
        answers.apply(log_reader(path).read_new())
    return answers


def open_page_log(path: Path) -> tuple[PageAnswers, LogWriter]:
    """Open a log for writing, a new one if there is none, and return the answers that are in it.

    Only one process at a time may have it open: the caller has locked its folder.
    """
    answers, reader = PageAnswers(), log_reader(path)
    if path.exists():
        answers.apply(reader.read_new())
    return answers, LogWriter(path, ROOM, reader.number, reader.offset)


def now() -> str:
    """Return the time, as lines have it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def append(log: LogWriter, answers: PageAnswers, **fields: Any) -> None:
    """Write a line, and carry it out once it is on disk."""
    answers.apply([log.append(**fields, at=now())])
