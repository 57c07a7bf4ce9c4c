"""What must be true after a trial, whatever happened in it; each check returns its complaints."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cluster.outcomes import timeless

Texts = tuple[str, str]
# The raw answers of a language model, whose numbers depend on how often it was asked.
RAW = "llm/"
# Files whose content tells the time, or in how many calls the labels came, which `ledger` looks at.
OF_TIME = ("planned.json", "seconds.json", "search.json")


@dataclass(frozen=True)
class Call:
    """What the oracle answered to a call of the command's start number `start`: pairs of texts and their words."""

    start: int
    answers: tuple[tuple[Texts, str], ...]


def bought_once(calls: Sequence[Call], may_lose: Iterable[int]) -> tuple[list[str], int]:
    """Return the complaints about pairs that were answered twice, and how many answers were paid for twice.

    may_lose: starts whose last call's answers may have got lost on the way to the disk, because the process was killed,
    or the disk or the store failed. Whatever else was answered twice is a complaint.
    """
    last, losing = {call.start: place for place, call in enumerate(calls)}, set(may_lose)
    before, complaints, again = dict[Texts, int](), list[str](), 0
    for place, call in enumerate(calls):
        for pair, _ in call.answers:
            earlier = before.get(pair)
            if earlier is not None:
                again += 1
                owner = calls[earlier].start
                if owner not in losing or last[owner] != earlier or owner == call.start:
                    complaints.append(
                        f"bought twice: {pair} in call {earlier} of start {owner} and in call {place} of {call.start}"
                    )
            before[pair] = place
    return complaints, again


def kept(calls: Sequence[Call], ledger: Sequence[tuple[Texts, str]]) -> list[str]:
    """Return the complaints about answers on disk (pairs of texts and their words, one for each that was read)."""
    answered = {pair: word for call in calls for pair, word in call.answers}
    stored = Counter(pair for pair, _ in ledger)
    lost = [f"lost: the label of {pair}" for pair in answered if pair not in stored]
    twice = [f"stored {count} times: the label of {pair}" for pair, count in stored.items() if count > 1]
    unasked = [f"never asked: {pair} has the label {word}" for pair, word in ledger if pair not in answered]
    changed = [
        f"changed: {pair} was answered {answered[pair]} and has {word}"
        for pair, word in ledger
        if answered.get(pair, word) != word
    ]
    return [*lost, *twice, *unasked, *changed]


def same_folder(quiet: Mapping[str, bytes], found: Mapping[str, bytes]) -> list[str]:
    """Return the complaints about the files of a run, by their names in it, beside those of the quiet run."""
    ours, theirs = ({name: _lasting(name, files[name]) for name in files if _counts(name)} for files in (found, quiet))
    both = sorted(ours.keys() & theirs.keys())
    return [
        *(f"missing: {name}" for name in sorted(theirs.keys() - ours.keys())),
        *(f"left behind: {name}" for name in sorted(ours.keys() - theirs.keys())),
        *(f"not as in the quiet run: {name}" for name in both if ours[name] != theirs[name]),
    ]


def _counts(name: str) -> bool:
    last = name.rpartition("/")[2]
    return not (
        name.startswith(("events/", RAW))
        or last in (*OF_TIME, ".lock")
        or last.startswith("answers-")
        or last.endswith(".page.log")
    )


def _lasting(name: str, content: bytes) -> object:
    """Return what does not depend on the time."""
    if name == "metrics.jsonl":
        return timeless(content.decode())
    if name.endswith(".parquet"):
        # As text: a cosine that is not known is NaN, which equals nothing.
        return repr(pq.ParquetFile(pa.BufferReader(content)).read().to_pylist())
    if not name.endswith(".json") or "/model/" in name:
        return content
    value = json.loads(content)
    ours = ("seconds", "task")
    return {key: one for key, one in value.items() if key not in ours} if isinstance(value, dict) else value


def same_texts(acknowledged: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return the complaints about the texts of a store, by id, beside those whose changes were acknowledged."""
    both = acknowledged.keys() & found.keys()
    return [
        *(f"lost: the text {one}" for one in sorted(acknowledged.keys() - found.keys())),
        *(f"there: the text {one}" for one in sorted(found.keys() - acknowledged.keys())),
        *(
            f"changed: {one} is {found[one]!r} and not {acknowledged[one]!r}"
            for one in sorted(both)
            if found[one] != acknowledged[one]
        ),
    ]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return a folder's files by their names in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def ended_well(code: int, said: str, struck: bool) -> list[str]:
    """Return the complaints about how a command ended; struck: it, or the head that it needs, was killed."""
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    if code == 0 or struck:
        return []
    if code != 2 or len(lines) != 1 or "Traceback (most recent call last)" in said:
        return [f"it ended with code {code} and {len(lines)} error lines: {said[-2000:]}"]
    return []
