"""Thresholds of an evaluation that are promised: by counts of all pairs, and by a sample of the negatives."""

import numpy as np
import pytest

from al_ray.core.rng import generator
from al_ray.metrics.audit.guarantee import MeldedLimits
from al_ray.metrics.average_precision import StratumSummary, count_scores
from al_ray.metrics.evaluation import Evaluation, evaluate_counts
from al_ray.metrics.guaranteed_thresholds import choose_promised
from al_ray.metrics.thresholds import parse_rule
from tests.metrics.test_thresholds import MADE

POSITIVES = np.linspace(1.0, 0.5, 200)
# Of 20,000 negatives 100 have scores as high as those of the positives: the precision is 2/3 at the lowest of these.
NEGATIVES = np.concatenate([np.linspace(0.9, 0.5, 100), np.linspace(0.49, 0.0, 19_900)])
DRAWS = 100


def sampled(size: int, rng: np.random.Generator) -> Evaluation:
    scores = rng.choice(NEGATIVES, size, replace=False)
    extents = [StratumSummary("random", size, len(NEGATIVES))]
    return evaluate_counts("dev", count_scores(POSITIVES, [scores]), extents, None, generator(0, "x"))


@pytest.mark.parametrize(
    ("words", "cosine", "promised"),
    [
        ("precision=0.75", 5.0, 0.75),
        ("recall=0.4", 7.0, 0.4),
        # At 5, 4 of 5 matches and one other pair: 10 * 4 - 1; at 3 all 5 and three others: 10 * 5 - 3.
        ("costs=10,1", 3.0, 47.0),
    ],
)
def test_where_every_pair_was_counted_the_threshold_is_that_without_a_guarantee(words, cosine, promised):
    found = choose_promised(parse_rule(f"{words} guarantee=0.95"), MADE, MeldedLimits(generator(0, "x")))
    assert found is not None
    assert (found.cosine, found.promised) == (cosine, promised)


@pytest.mark.parametrize("words", ["precision=0.7", "costs=1,1"])
def test_promises_from_sampled_negatives_are_kept(words):
    rule, rng, missed, found = parse_rule(f"{words} guarantee=0.95"), generator(1, f"kept-{words}"), 0, 0
    for _ in range(DRAWS):
        chosen = choose_promised(rule, sampled(16_000, rng), MeldedLimits(rng, 800))
        if chosen is None:
            continue
        assert chosen.cosine is not None
        assert chosen.promised is not None
        found += 1
        true, false = (int((scores >= chosen.cosine).sum()) for scores in (POSITIVES, NEGATIVES))
        truth = true / (true + false) if rule.kind == "precision" else true - false
        missed += truth < chosen.promised - 1e-9
    # 5% of 100 are 5; 13 or fewer with a probability above 99.9%.
    assert missed <= 13
    assert found > DRAWS / 2


FEW = sampled(20, generator(2, "few"))


def test_too_few_sampled_negatives_promise_nothing():
    assert choose_promised(parse_rule("precision=0.9 guarantee=0.95"), FEW, MeldedLimits(generator(0, "x"))) is None


def test_what_no_counted_threshold_reaches_is_not_promised():
    rule = parse_rule("costs=1,99 guarantee=0.9")
    assert choose_promised(rule, without_a_good_one(), MeldedLimits(generator(0, "x"))) is None


def without_a_good_one() -> Evaluation:
    """One negative is above every positive."""
    extents = [StratumSummary("near", 1, 1)]
    return evaluate_counts("dev", count_scores(np.array([0.5]), [np.array([0.9])]), extents, None, generator(0, "x"))
