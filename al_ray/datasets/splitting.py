"""Texts that belong together: components of a graph of pairs, all pairs inside, and splits that keep them whole."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.pairs import Pairs, PairSpace, Rows, as_pairs
from al_ray.core.task import SPLITS, Corpus, Split, Task
from al_ray.datasets.task_folder import sealed

Shares = tuple[float, float, float]
Numbers = npt.NDArray[np.int64]


def pairs_within(component: Numbers) -> Pairs:
    """(texts,) component numbers -> every unordered pair of texts of one component, in order of key: the closure."""
    order = np.argsort(component, kind="stable")
    _, starts, sizes = np.unique(component[order], return_index=True, return_counts=True)
    found = [np.empty((0, 2), dtype=np.int64)]
    for size in np.unique(sizes[sizes > 1]):
        members = order[starts[sizes == size][:, None] + np.arange(size)]
        left, right = np.triu_indices(size, k=1)
        found.append(as_pairs(members[:, left].ravel(), members[:, right].ravel()))
    pairs = np.concatenate(found)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def deal(component: Numbers, shares: Shares, rng: np.random.Generator) -> Numbers:
    """(texts,) component numbers -> (texts,) split numbers: whole components, so that the TEXTS are shared as asked.

    Components come in random order, each to the split that is least full for its share. One that is larger than the
    smallest share comes before all others, the largest first, so that it meets the split with most room.
    """
    check_shares(shares)
    _, inverse, sizes = np.unique(component, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    giant = sizes[order] > min(share for share in shares if share) * len(component)
    order = order[np.argsort(np.where(giant, -sizes[order], 0), kind="stable")]
    filled = [0.0 if share else float("inf") for share in shares]
    by_share = sorted(range(len(shares)), key=lambda split: -shares[split])
    splits = np.empty(len(sizes), dtype=np.int64)
    for number, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        split = min(by_share, key=filled.__getitem__)
        splits[number] = split
        filled[split] += size / shares[split]
    return splits[inverse]


def hold_out(component: Numbers, count: int, rng: np.random.Generator) -> Numbers:
    """(texts,) component numbers -> (texts,) split numbers: about `count` pairs in dev and in test (paper 002, 4.1.2).

    Components come in random order: the first ones to dev, until it has `count` pairs or more, the next ones to test,
    all others to train, where also all texts are that have no other in their component. One with more than a tenth of
    `count` stays in train, too: its pairs alone would decide what is measured. BadOption when none is left to train.
    """
    _, inverse, sizes = np.unique(component, return_inverse=True, return_counts=True)
    pairs = sizes * (sizes - 1) // 2
    order = rng.permutation(np.flatnonzero((pairs > 0) & (pairs <= max(1, count / 10))))
    held = np.cumsum(pairs[order])
    dev = int(np.searchsorted(held, count)) + 1
    test = int(np.searchsorted(held, held[dev - 1] + count)) + 1 if dev <= len(order) else dev
    if test > len(order) or test == (pairs > 0).sum():
        raise BadOption(f"--held-out-pairs {count} twice is all that there is, or more; give less")
    homes = np.zeros(len(sizes), dtype=np.int64)
    homes[order[:dev]], homes[order[dev:test]] = 1, 2
    return homes[inverse]


def unseen(split_of: Numbers, same: Numbers) -> Numbers:
    """(texts,) split numbers, in which a text of dev or test that occurs in train is in none, -1 (paper 002, 4.1.1).

    same: (texts,) a number for each text, equal where texts are.
    """
    seen = np.isin(same, same[split_of == 0]) & (split_of > 0)
    return np.where(seen, -1, split_of)


def check_shares(shares: Sequence[float]) -> None:
    """Refuse shares that are not three nonnegative parts of 1."""
    if len(shares) != len(SPLITS) or not all(0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        wanted = "three shares of train, dev and test that add up to 1"
        raise BadOption(f"--split is {','.join(map(str, shares))}; give {wanted}, such as 0.5,0.25,0.25")


def symmetric_task(name: str, corpus: Corpus, component: Numbers, negatives: Pairs, split_of: Numbers) -> Task:
    """A task of one set of texts against itself.

    component: (texts,) clusters of texts that all match each other. split_of: (texts,) numbers of SPLITS.
    negatives: (n, 2) stated ones, in any order, repeated or not; the closure wins over them (paper, 3.1.2). Positives
    and negatives that cross splits belong to none.
    """
    whole = PairSpace(
        left=np.empty(0, dtype=np.int64), right=np.empty(0, dtype=np.int64), width=len(corpus), symmetric=True
    )
    positives = pairs_within(component)
    apart = component[negatives[:, 0]] != component[negatives[:, 1]]
    negatives = whole.pairs(np.unique(whole.keys(negatives[apart])))
    splits: dict[str, Split] = {}
    for number, split in enumerate(SPLITS):
        rows: Rows = np.flatnonzero(split_of == number).astype(np.int64)
        space = PairSpace(left=rows, right=rows, width=len(corpus), symmetric=True)
        inside = (pairs[(split_of[pairs] == number).all(axis=1)] for pairs in (positives, negatives))
        splits[split] = Split(split, space, *inside)
    return sealed(name, True, corpus, corpus, splits)
