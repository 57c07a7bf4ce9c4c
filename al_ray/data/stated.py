"""What a user says of pairs: labels in their own words, and the task that they make with the texts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from al_ray.core import records
from al_ray.core.config import generator
from al_ray.core.errors import BadFile
from al_ray.core.pairs import Mask, Pairs, PairSpace
from al_ray.core.task import SPLITS, Corpus, Split, Task
from al_ray.data.clusters import Numbers, Shares, components, deal, pairs_within
from al_ray.data.sheet import Faults, Sheet, compute, shown, whether
from al_ray.data.tables import sealed

# Cases and white space around do not matter.
YES = ("1", "1.0", "true", "t", "yes", "y", "match")
NO = ("0", "0.0", "false", "f", "no", "n", "non-match")
UNSURE = ("unsure",)
MEANINGS = {
    **dict.fromkeys(YES, records.YES), **dict.fromkeys(NO, records.NO), **dict.fromkeys(UNSURE, records.UNSURE)
}  # fmt: skip
HOMES = {"train": 0, "dev": 1, "valid": 1, "validation": 1, "test": 2}
CLOSURE_PAIRS = 50_000_000


@dataclass(frozen=True)
class Stated:
    """Labelled pairs, each once: (n, 2) pairs and their (n,) labels; and what had to be settled on the way."""

    pairs: Pairs
    labels: Mask
    settled: Mapping[str, int]

    @property
    def positives(self) -> Pairs:
        """(p, 2) those labelled yes."""
        return self.pairs[self.labels]

    @property
    def negatives(self) -> Pairs:
        """(q, 2) those labelled no."""
        return self.pairs[~self.labels]


UNLABELLED = Stated(np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.bool_), {})


def whole_space(left: int, right: int, symmetric: bool) -> PairSpace:
    """All pairs of a task with so many texts on its sides."""
    rows = np.arange(left, dtype=np.int64)
    return PairSpace(rows, rows if symmetric else np.arange(right, dtype=np.int64), right, symmetric)


def stated(sheet: Sheet, pairs: Pairs, space: PairSpace, faults: Faults) -> Stated:
    """The labels of (n, 2) pairs; a sheet without a cell `label` says yes to all of them.

    Of a pair with both labels the first stands and the second is a bad row; an empty or unsure label is none.
    """
    yes, bad, answered = _answers(sheet)
    sheet = sheet.sifted(
        bad, lambda row: f"its label is {shown(sheet.cells['label'], row)}, not 1 or 0, yes or no", faults
    )
    yes, answered, pairs = yes[~bad], answered[~bad], pairs[~bad]
    unanswered = int((~answered).sum())
    sheet, yes, keys = sheet.kept(answered), yes[answered], space.keys(pairs[answered])
    distinct, first, back = np.unique(keys, return_index=True, return_inverse=True)
    words = {True: "yes", False: "no"}
    at_odds = yes != yes[first[back]]
    sheet.sifted(
        at_odds,
        lambda row: (
            f"it says {words[bool(yes[row])]} of a pair to which {sheet.place(int(first[back[row]]))} says "
            f"{words[not yes[row]]}"
        ),
        faults,
    )
    settled = {
        "labelled pairs taken": len(distinct),
        "rows without an answer (empty or unsure: their pairs stay unlabelled)": unanswered,
        "rows that repeat a pair": len(keys) - len(distinct) - int(at_odds.sum()),
    }
    return Stated(space.pairs(distinct), yes[first], settled)


def _answers(sheet: Sheet) -> tuple[Mask, Mask, Mask]:
    """(n,) whether a row says yes, cannot be read, and answers at all."""
    every = np.ones(len(sheet), dtype=np.bool_)
    if "label" not in sheet.cells:
        return every, ~every, every
    words = compute.utf8_lower(sheet.cells["label"])
    yes, no, unsure = (
        whether(compute.is_in(words, value_set=pa.array(known, pa.large_string()))) for known in (YES, NO, UNSURE)
    )
    answered = ~whether(compute.is_null(words)) & ~unsure
    return yes, answered & ~yes & ~no, answered


def homes_named(sheet: Sheet, column: str, faults: Faults) -> tuple[Sheet, Numbers]:
    """The rows whose cell `split` names a split, and their (n,) numbers of SPLITS."""
    words = compute.utf8_lower(sheet.cells["split"])
    found = compute.index_in(words, value_set=pa.array(list(HOMES), pa.large_string())).fill_null(-1).to_numpy()
    numbers = np.array([*HOMES.values(), -1])[found]

    def reason(row: int) -> str:
        cells = sheet.cells["split"]
        word = shown(cells, row) if cells[row].is_valid else "empty"
        return f"its split (column {column!r}) is {word}, not train, dev (or validation) or test"

    return sheet.sifted(numbers < 0, reason, faults), numbers[numbers >= 0]


def homes_dealt(space: PairSpace, known: Stated, shares: Shares, seed: int) -> Numbers:
    """(left,) numbers of SPLITS: no stated pair crosses splits.

    Where there are two sides every right text is in every split, so a pair goes where its left text goes; left texts
    that share a match stay together.
    """
    texts = len(space.left)
    if space.symmetric:
        component = components(texts, known.pairs)
    else:
        component = components(texts + len(space.right), known.positives + np.array([0, texts]))[:texts]
    return deal(component, shares, generator(seed, "split"))


def own_task(
    name: str, left: Corpus, right: Corpus, known: Stated, homes: Numbers, space: PairSpace, closure: bool
) -> tuple[Task, dict[str, int]]:
    """The task, and what its splits left out.

    closure: in a symmetric task, texts that are joined by positives all match each other, whatever was said of them.
    """
    positives, negatives, denied = known.positives, known.negatives, 0
    if closure and space.symmetric:
        matched = components(len(left), positives)
        _refuse_avalanche(matched)
        positives, inside = pairs_within(matched), matched[negatives[:, 0]] == matched[negatives[:, 1]]
        negatives, denied = negatives[~inside], int(inside.sum())
    splits: dict[str, Split] = {}
    for number, split in enumerate(SPLITS):
        rows = np.flatnonzero(homes == number).astype(np.int64)
        part = PairSpace(rows, rows if space.symmetric else space.right, space.width, space.symmetric)
        splits[split] = Split(
            split, part, *(_inside(pairs, homes == number, space) for pairs in (positives, negatives))
        )
    kept = sum(len(split.positives) + len(split.stated_negatives) for split in splits.values())
    settled = {
        "stated negatives inside a component of positives (the closure wins)": denied,
        "known pairs that cross the given splits (they belong to none)": len(positives) + len(negatives) - kept,
    }
    return sealed(name, space.symmetric, left, right, splits), settled


def _inside(pairs: Pairs, here: Mask, space: PairSpace) -> Pairs:
    """Those of (n, 2) pairs, in order of key, that lie in a split: both texts of one set, the left one of two."""
    return pairs[here[pairs].all(axis=1) if space.symmetric else here[pairs[:, 0]]]


def _refuse_avalanche(matched: Numbers) -> None:
    """A few wrong labels can chain all texts together, and their pairs are more than memory holds."""
    sizes = np.bincount(matched)
    pairs = int((sizes * (sizes - 1) // 2).sum())
    if pairs > CLOSURE_PAIRS:
        raise BadFile(
            f"the positives chain {sizes.max():,} texts into one component, {pairs:,} matches by closure; "
            "look for wrong matches among the labels, or give --no-closure"
        )
