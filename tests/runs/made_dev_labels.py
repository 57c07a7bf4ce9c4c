"""Rounds of dev labels as a run draws them, made in no time from made-up scores."""

import numpy as np

from al_ray.core.labels import NO, YES, make_answers
from al_ray.core.scorer import Labels
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.runs.dev_labels import SPLIT, DevLabels

# Pairs that are ranked, and those that are drawn of them and of the rest.
REACH, NEAR, FAR = 40, 8, 4


def draw(dev: DevLabels, number: int) -> None:
    """Draw 12 pairs for a round; which ones depends on the round and on the pairs drawn before alone."""
    keys, labels = dev.known(number)
    space, rng = dev.task.split(SPLIT).space, np.random.default_rng(number)
    every = rng.permutation(np.setdiff1d(space.at(np.arange(space.total)), keys))
    cosines = np.linspace(0.9, 0.1, len(every))
    places = np.concatenate(
        [rng.choice(REACH, NEAR, replace=False), rng.choice(np.arange(REACH, len(every)), FAR, replace=False)]
    )
    ranks = np.minimum(places, REACH).astype(np.int64)
    drawn = DrawnPairs(space.pairs(every[places]), ("band",) * len(places), ranks, cosines[places])
    dev.add(number, drawn, BandScores(cosines[:REACH], rng.uniform(0.1, 0.9, len(keys)), labels))


def answer(dev: DevLabels, number: int, labels: Labels) -> None:
    """Answer the first pairs of a round; it is sealed if these are all."""
    batch = dev.ledger.batch(number)
    assert batch is not None
    dev.ledger.add_answers(number, make_answers(np.arange(len(labels)), labels, "file"))
    if len(labels) == len(batch.pairs):
        dev.ledger.seal(number)


def labels_of(word: str) -> Labels:
    """The labels that a word of y, n and u stands for."""
    return np.array([{"y": YES, "n": NO, "u": 2}[letter] for letter in word], dtype=np.uint8)
