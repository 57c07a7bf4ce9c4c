"""Draw splits that keep components of a graph of pairs together, and build the splits of a task."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.pairs import Pairs, PairSpace, Rows, as_pairs
from al_ray.core.task import SPLITS, Corpus, Split, Task
from al_ray.datasets.strings import AT_ONCE
from al_ray.datasets.task_folder import sealed

Shares = tuple[float, float, float]
Numbers = npt.NDArray[np.int64]


def pairs_within(component: Numbers) -> Pairs:
    """Return the closure: every unordered pair of texts of one component (texts,), (n, 2) in order of key."""
    order = np.argsort(component, kind="stable")
    _, starts, sizes = np.unique(component[order], return_index=True, return_counts=True)
    blocks = [np.empty((0, 2), dtype=np.int64)]
    for size in np.unique(sizes[sizes > 1]):
        members = order[starts[sizes == size][:, None] + np.arange(size)]
        left, right = np.triu_indices(size, k=1)
        blocks.append(as_pairs(members[:, left].ravel(), members[:, right].ravel()))
    pairs = np.concatenate(blocks)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def deal(component: Numbers, shares: Shares, rng: np.random.Generator) -> Numbers:
    """Assign whole components (texts,) to splits (texts,) so that the numbers of TEXTS are in the given shares.

    Components are taken in random order; each goes to the split that is least full relative to its share. Components
    larger than the smallest share are taken first, in order of size, while the splits have the most room.
    """
    check_shares(shares)
    _, inverse, sizes = np.unique(component, return_inverse=True, return_counts=True)
    return deal_sizes(sizes, shares, rng)[inverse]


def deal_sizes(sizes: Numbers, shares: Shares, rng: np.random.Generator) -> Numbers:
    """Assign components of these numbers of texts (components,) to splits (components,), as `deal` does."""
    order = rng.permutation(len(sizes))
    giant = sizes[order] > min(share for share in shares if share) * sizes.sum()
    order = order[np.argsort(np.where(giant, -sizes[order], 0), kind="stable")]
    filled = [0.0 if share else float("inf") for share in shares]
    by_share = sorted(range(len(shares)), key=lambda split: -shares[split])
    splits = np.empty(len(sizes), dtype=np.int64)
    # In parts, because the numbers are Python integers here.
    for start in range(0, len(order), AT_ONCE):
        part = order[start : start + AT_ONCE]
        for number, size in zip(part.tolist(), sizes[part].tolist(), strict=True):
            split = min(by_share, key=filled.__getitem__)
            splits[number] = split
            filled[split] += size / shares[split]
    return splits


def hold_out(component: Numbers, count: int, rng: np.random.Generator) -> Numbers:
    """Assign components (texts,) to splits (texts,), with about `count` pairs in dev and in test (paper 002, 4.1.2).

    Components are taken in random order: the first go to dev until it has `count` pairs or more, the next to test, all
    others to train. Texts alone in their component go to train, and so do components with more than a tenth of `count`
    pairs, which would dominate the evaluation. BadOption if train would get no pair.
    """
    _, inverse, sizes = np.unique(component, return_inverse=True, return_counts=True)
    pairs = sizes * (sizes - 1) // 2
    order = rng.permutation(np.flatnonzero((pairs > 0) & (pairs <= max(1, count / 10))))
    ends = np.cumsum(pairs[order])
    dev = int(np.searchsorted(ends, count)) + 1
    test = int(np.searchsorted(ends, ends[dev - 1] + count)) + 1 if dev <= len(order) else dev
    if test > len(order) or test == (pairs > 0).sum():
        raise BadOption(
            f"{option('held_out_pairs', count)} for dev and again for test leaves no pair for train; give less"
        )
    splits = np.zeros(len(sizes), dtype=np.int64)
    splits[order[:dev]], splits[order[dev:test]] = 1, 2
    return splits[inverse]


def unseen(split_of: Numbers, same: Numbers) -> Numbers:
    """Return the split numbers (texts,) with -1 for texts of dev and test that occur in train (paper 002, 4.1.1).

    same: (texts,) a number for each text; equal texts have equal numbers.
    """
    seen = np.isin(same, same[split_of == 0]) & (split_of > 0)
    return np.where(seen, -1, split_of)


def check_shares(shares: Sequence[float]) -> None:
    """BadOption unless the shares are three nonnegative numbers that add up to 1."""
    if len(shares) != len(SPLITS) or not all(0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        fix = "give three shares of train, dev and test that add up to 1, such as 0.5,0.25,0.25"
        raise BadOption(f"`split` is {','.join(map(str, shares))}; {fix}")


def whole_space(left: int, right: int, symmetric: bool) -> PairSpace:
    """Return the space of all pairs of a task with this many texts on its sides."""
    rows = np.arange(left, dtype=np.int64)
    return PairSpace(rows, rows if symmetric else np.arange(right, dtype=np.int64), right, symmetric)


def build_splits(space: PairSpace, split_of: Numbers, positives: Pairs, negatives: Pairs) -> dict[str, Split]:
    """Return the splits of a task; split_of: (left,) numbers of SPLITS, -1 for a text in no split.

    A pair is in the split of its texts; with two sides, in that of its left text, as every right text is in every
    split. Pairs that cross splits are in none. All pairs given must be of the space.
    """
    splits: dict[str, Split] = {}
    for number, name in enumerate(SPLITS):
        inside = split_of == number
        rows: Rows = np.flatnonzero(inside).astype(np.int64)
        part = replace(space, left=rows, right=rows if space.symmetric else space.right)
        members = (
            pairs[inside[pairs].all(axis=1) if space.symmetric else inside[pairs[:, 0]]]
            for pairs in (positives, negatives)
        )
        splits[name] = Split(name, part, *members)
    return splits


def symmetric_task(name: str, corpus: Corpus, component: Numbers, negatives: Pairs, split_of: Numbers) -> Task:
    """Return the task of one collection of texts.

    component: (texts,) clusters of texts that all match each other. split_of: (texts,) numbers of SPLITS.
    negatives: (n, 2) stated negatives, in any order, with or without repeats; those inside a cluster are dropped
    (paper, 3.1.2). Pairs that cross splits are in none.
    """
    space = whole_space(len(corpus), len(corpus), symmetric=True)
    apart = component[negatives[:, 0]] != component[negatives[:, 1]]
    negatives = space.pairs(np.unique(space.keys(negatives[apart])))
    splits = build_splits(space, split_of, pairs_within(component), negatives)
    return sealed(name, True, corpus, corpus, splits)
