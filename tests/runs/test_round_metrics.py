"""The gain of a round over the one before: unknown where few queries have a match."""

import numpy as np
import pytest

from al_ray.active_learning.outlook import outlook
from al_ray.active_learning.stopping import NEVER, StopConfig, limit_reached
from al_ray.core.pairs import Pairs, PairSpace
from al_ray.core.scorer import Floats
from al_ray.core.task import Split
from al_ray.metrics.estimator import evaluate_on_sample
from al_ray.metrics.evaluation import Evaluation, compare
from al_ray.metrics.round_comparison import GAIN, INTERVAL
from al_ray.metrics.strata import EvaluationSet, Stratum
from al_ray.runs.round_metrics import content_of, gain_over, headline


class Table:
    """A scorer that looks scores up."""

    def __init__(self, scores: Floats) -> None:
        self.table = scores

    def scores(self, split: Split, pairs: Pairs) -> Floats:
        """Look the pairs up."""
        return self.table[pairs[:, 0], pairs[:, 1]]

    def logits(self, scores: Floats) -> None:
        """No probabilities."""


def evaluations(queries: int, with_match: int) -> tuple[Evaluation, Evaluation]:
    """Two scorers that put each match above all non-matches of its query, or below one of 20."""
    labels = np.zeros((queries, 20), dtype=bool)
    labels[:with_match, 0] = True
    better = np.random.default_rng(0).uniform(0, 1, labels.shape) + 2 * labels
    worse = better - 2 * labels
    space = PairSpace(np.arange(queries), np.arange(20), 20, False)
    split = Split("dev", space, np.argwhere(labels), np.empty((0, 2), np.int64))
    negatives = space.keys(np.argwhere(~labels))
    every = EvaluationSet("dev", (Stratum("all", negatives, len(negatives)),), split.positive_keys, labels.size)
    one, other = (evaluate_on_sample(Table(table), split, every, np.random.default_rng(0)) for table in (worse, better))
    return one, other


@pytest.mark.parametrize(("queries", "with_match"), [(1, 1), (40, 1), (40, 9)])
def test_few_queries_with_a_match_show_no_interval_and_end_no_run(queries, with_match):
    before, now = evaluations(queries, with_match)
    gain = gain_over({"dev": content_of(before)}, {"dev": now})
    assert gain == {GAIN: None}
    assert headline({"dev": now})[INTERVAL] is None
    assert now.as_dict()["average_precision_over_questions"] is None
    assert compare(now, before).over_queries is None
    assert compare(now, before).as_dict()["average_precision_difference_over_questions"] is None
    line = {"labels": 40, "seconds": {}, "average_precision": now.average_precision.value, **gain, INTERVAL: None}
    assert limit_reached(StopConfig(gain=1.0), [line, line]) is None
    (advice,) = outlook([line, line], NEVER)
    assert advice.startswith("label more")


def test_ten_queries_with_a_match_show_one():
    before, now = evaluations(40, 10)
    gain = gain_over({"dev": content_of(before)}, {"dev": now})[GAIN]
    assert gain["low"] < gain["value"] < gain["high"]
    assert headline({"dev": now})[INTERVAL] is not None
    difference = compare(now, before).over_queries
    assert difference is not None
    assert difference.low == pytest.approx(gain["low"], abs=1e-6)
