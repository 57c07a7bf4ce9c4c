"""Labelled pairs of a user, the words for labels, and the task built from labels and texts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from al_ray.core import labels as records
from al_ray.core.errors import BadFile
from al_ray.core.graph import components
from al_ray.core.pairs import Mask, Pairs, PairSpace
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, Task
from al_ray.datasets.splitting import Numbers, Shares, build_splits, deal, pairs_within
from al_ray.datasets.tables.columns import TableRows, code_words, quote_cell
from al_ray.datasets.task_folder import sealed
from al_ray.datasets.tsv import BadRowLog

# Case and surrounding white space do not matter.
YES = ("1", "1.0", "true", "t", "yes", "y", "match")
NO = ("0", "0.0", "false", "f", "no", "n", "non-match")
UNSURE = ("unsure",)
MEANINGS = {
    **dict.fromkeys(YES, records.YES), **dict.fromkeys(NO, records.NO), **dict.fromkeys(UNSURE, records.UNSURE)
}  # fmt: skip
SPLIT_NUMBERS = {"train": 0, "dev": 1, "valid": 1, "validation": 1, "test": 2}
CLOSURE_PAIRS = 50_000_000


@dataclass(frozen=True)
class PairLabels:
    """Labelled pairs, each once: (n, 2) pairs, (n,) labels (True: match), and counts for the report."""

    pairs: Pairs
    labels: Mask
    settled: Mapping[str, int]

    @property
    def positives(self) -> Pairs:
        """Return the (p, 2) pairs labelled yes."""
        return self.pairs[self.labels]

    @property
    def negatives(self) -> Pairs:
        """Return the (q, 2) pairs labelled no."""
        return self.pairs[~self.labels]


UNLABELLED = PairLabels(np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.bool_), {})


def read_splits(sheet: TableRows, column: str, faults: BadRowLog) -> tuple[TableRows, Numbers]:
    """Return the rows whose cell `split` names a split, and (n,) numbers of SPLITS."""
    numbers = code_words(sheet.cells["split"], SPLIT_NUMBERS, unknown=-1)

    def reason(row: int) -> str:
        cells = sheet.cells["split"]
        word = quote_cell(cells, row) if cells[row].is_valid else "empty"
        return f"its split (column {column!r}) is {word}, not train, dev (or validation) or test"

    return sheet.reject(numbers < 0, reason, faults), numbers[numbers >= 0]


def deal_splits(space: PairSpace, known: PairLabels, shares: Shares, seed: int) -> Numbers:
    """Draw a split for each left text: (left,) numbers of SPLITS, such that no labelled pair crosses splits.

    With two sides every right text is in every split, so a pair is in the split of its left text; left texts that
    share a match are in one split.
    """
    texts = len(space.left)
    if space.symmetric:
        component = components(texts, known.pairs)
    else:
        component = components(texts + len(space.right), known.positives + np.array([0, texts]))[:texts]
    return deal(component, shares, generator(seed, "split"))


def build_task(
    name: str, left: Corpus, right: Corpus, known: PairLabels, split_of: Numbers, space: PairSpace, closure: bool
) -> tuple[Task, dict[str, int]]:
    """Build the task, and count the labelled pairs that it leaves out. closure: see `settle_labels`."""
    positives, negatives, settled = settle_labels(known, space, closure)
    splits = build_splits(space, split_of, positives, negatives)
    included = sum(len(split.positives) + len(split.stated_negatives) for split in splits.values())
    settled["known pairs that cross the given splits (they belong to none)"] = (
        len(positives) + len(negatives) - included
    )
    return sealed(name, space.symmetric, left, right, splits, space.rule), settled


def settle_labels(known: PairLabels, space: PairSpace, closure: bool) -> tuple[Pairs, Pairs, dict[str, int]]:
    """Return the positives (p, 2) and the negatives (q, 2) of a space, and the counts of labels that it leaves out.

    closure: in a symmetric task, all texts connected by positives match each other, whatever their labels say.
    """
    positives, negatives, denied = known.positives, known.negatives, 0
    if closure and space.symmetric:
        matched = components(len(space.left), positives)
        _check_closure_size(matched)
        positives, inside = pairs_within(matched), matched[negatives[:, 0]] == matched[negatives[:, 1]]
        negatives, denied = negatives[~inside], int(inside.sum())
    kept, apart = [positives, negatives], [0, 0]
    if space.rule is not None:
        can_match = [space.rule.allows(pairs) for pairs in kept]
        kept = [pairs[allowed] for pairs, allowed in zip(kept, can_match, strict=True)]
        apart = [int((~allowed).sum()) for allowed in can_match]
    return (
        kept[0],
        kept[1],
        {
            "MATCHES that `same` or `different` exclude (no search can find them)": apart[0],
            "stated negatives that `same` or `different` exclude": apart[1],
            "stated negatives inside a component of positives (the closure wins)": denied,
        },
    )


def _check_closure_size(matched: Numbers) -> None:
    """BadFile for a closure too large for memory: a few wrong labels can connect all texts."""
    sizes = np.bincount(matched)
    pairs = int((sizes * (sizes - 1) // 2).sum())
    if pairs > CLOSURE_PAIRS:
        raise BadFile(
            f"the positives chain {sizes.max():,} texts into one component, {pairs:,} matches by closure; look for "
            "wrong matches among the labels, or give `closure=False`"
        )
