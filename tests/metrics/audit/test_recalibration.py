"""w and b fitted to labels of bands of score: by hand, and by simulated rounds of dev labels whose truth is known."""

from math import log

import numpy as np
import pytest

from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.rng import generator
from al_ray.core.scorer import Scorer, refit
from al_ray.metrics.audit import false_positives, score_bands
from al_ray.metrics.audit.recalibration import recalibration, refit_to_bands, reliability_bins
from al_ray.metrics.audit.score_bands import BandAudit, allotted, bands, draw_ranks

TOTAL = 100_000


def audit_of(cosines, total, ranks, labels, known=()):
    """Bands of score; known: cosine and label of each pair that was labelled before."""
    before = np.array([cosine for cosine, _ in known]), np.array([label for _, label in known], dtype=np.uint8)
    return BandAudit(np.array(cosines), total, *before, np.array(ranks), np.array(labels, dtype=np.uint8))


def test_a_known_pair_weighs_as_much_as_the_share_of_its_band_that_was_labelled():
    # One band of 8 pairs, of which 4 were labelled: a known pair weighs 1/2. At 0.6 1 + 4/2 of 2 + 4/2 match, log-odds
    # log 3; at 0.2 1 of 2 + 4/2, log-odds -log 3; so the boundary is 0.4.
    known = [(0.6, YES)] * 4 + [(0.2, NO)] * 4
    audit = audit_of([0.6] * 4 + [0.2] * 4, 8, [0, 1, 4, 5, 6], [YES, NO, YES, NO, UNSURE], known)
    scorer = refit_to_bands(audit, audit.cosines[audit.ranks])
    assert scorer is not None
    assert scorer.weight == pytest.approx(2 * log(3) / 0.4)
    assert scorer.boundary == pytest.approx(0.4)
    # Each is in the band of its cosine: those at 0.2 in the rest, of which 2 of 1,000 were labelled.
    audit = audit_of([0.6] * 4, 1004, [0, 1, 4, 4], [YES, NO, YES, NO], [*[(0.6, YES)] * 4, *[(0.2, NO)] * 1000])
    scorer = refit_to_bands(audit, np.array([0.6, 0.6, 0.2, 0.2]))
    assert scorer is not None
    assert scorer.probability(np.array([0.6, 0.2])) == pytest.approx([3 / 4, 1 / 4])


@pytest.mark.parametrize("labels", [[YES, YES, UNSURE], [NO, OPEN, NO], [NO, NO, YES], [UNSURE, OPEN, OPEN]])
def test_labels_that_determine_no_scorer_give_none(labels):
    audit = audit_of([0.9, 0.5], 10, [0, 1, 2], labels, [(0.95, YES), (0.1, NO)])
    assert refit_to_bands(audit.without_known, np.array([0.9, 0.5, 0.1])) is None
    if labels != [NO, NO, YES]:
        assert refit_to_bands(audit, np.array([0.9, 0.5, 0.1])) is None, "known pairs alone are no evidence"


def test_known_pairs_are_in_the_bin_of_their_p():
    # p = sigmoid(20 * cosine - 12). Of 3 pairs at 0.9 one was labelled and matches, and 2 of 3 known ones match.
    known = [(0.9, YES), (0.9, YES), (0.9, NO), (0.1, NO)]
    audit = audit_of([0.9] * 3, 100, [0, 3, 3], [YES, NO, NO], known)
    scorer, cosines = Scorer(20.0, -12.0), np.array([0.9, 0.2, 0.3])
    others, high = reliability_bins(audit, scorer, cosines, generator(0, "x"))
    assert (high.low, high.weight) == (pytest.approx(scorer.probability(np.array(0.9))), 6)
    assert (high.share, high.share_low, high.share_high) == pytest.approx((5 / 6, 3 / 6, 5 / 6))
    assert (others.weight, others.share) == (98, 0)
    content = recalibration(audit, "dev-labels", "dev", scorer, [others, high])
    assert (content["pairs"], content["labels"], content["matches"]) == (104, 7, 3)
    assert sum(row["weight"] for row in content["reliability"]) == content["pairs"]


@pytest.fixture
def quick(monkeypatch):
    """A tenth of the draws."""
    for module in (false_positives, score_bands):
        monkeypatch.setattr(module, "DRAWS", 1000)


def world(rng):
    """Cosines, descending, of 150 matches among 100,000 pairs; and which match."""
    x = np.concatenate([rng.normal(0.6, 0.13, 150), rng.normal(0.25, 0.13, TOTAL - 150)])
    order = np.argsort(-x)
    return x[order], order < 150


def of_a_small_run(x, matches):
    """w and b fitted to the 50 first pairs and twice the 50 nearest to the boundary, which training has moved apart."""
    chosen = np.arange(50)

    def fitted():
        return refit(x[chosen] + 0.08 * (2.0 * matches[chosen] - 1), matches[chosen].astype(np.uint8))

    for _ in range(2):
        nearest = np.argsort(np.abs(x - fitted().boundary))[:200]
        chosen = np.append(chosen, np.setdiff1d(nearest, chosen, assume_unique=True)[:50])
    return fitted()


def round_of(x, matches, order, known, count, rng):
    """Draw dev labels by a model's order of the pairs; the rows drawn, and their ranks among those not yet known."""
    left = order[~np.isin(order, known)]
    cut = bands(1000, len(left))
    shares = allotted(count, [stop - start for start, stop in cut])
    ranks = np.concatenate([draw_ranks(band, share, rng) for band, share in zip(cut, shares, strict=True)])
    return left[ranks], np.minimum(ranks, 1000), left


def third_round(seed):
    """A world, and the bands of its third round of dev labels, of which the first two are known."""
    rng = generator(seed, "dev-labels")
    x, matches = world(rng)
    # A third of the matches, and no other label, is stated in the task.
    known = np.flatnonzero(matches & (rng.random(TOTAL) < 1 / 3))
    for _ in range(2):
        # Earlier models order the first pairs otherwise.
        order = np.append(np.argsort(-(x[:5000] + rng.normal(0, 0.05, 5000))), np.arange(5000, TOTAL))
        known = np.append(known, round_of(x, matches, order, known, 200, rng)[0])
    rows, ranks, left = round_of(x, matches, np.arange(TOTAL), known, 200, rng)
    labels = np.where(matches, YES, NO).astype(np.uint8)
    audit = BandAudit(x[left[:1000]], len(left), x[known], labels[known], ranks, labels[rows])
    return x, matches, audit, x[rows], rng


def test_dev_labels_of_a_small_run_make_its_scores_probabilities(quick):
    counts, inside, rows = np.zeros((3, 2, 3)), 0, 0
    for seed in range(25):
        x, matches, audit, cosines, rng = third_round(seed)
        fitted = refit_to_bands(audit, cosines)
        assert fitted is not None
        equal = refit(np.append(cosines, audit.known_cosines), np.append(audit.labels, audit.known_labels))
        for row, one in enumerate((of_a_small_run(x, matches), fitted, equal)):
            p = one.probability(x)
            for column, inside_range in enumerate((p >= 0.9, (p >= 0.5) & (p < 0.9))):
                counts[row, column] += matches[inside_range].sum(), p[inside_range].sum(), inside_range.sum()
        p = fitted.probability(x)
        for line in reliability_bins(audit, fitted, cosines, rng):
            own = matches[(p >= line.low) & (p < line.high if line.high < 1 else p <= 1)]
            inside, rows = inside + (line.share_low <= own.mean() <= line.share_high), rows + 1
    trained, fitted, equal = counts[..., :2] / np.maximum(1, counts[..., 2:])
    # Of the pairs with a score of at least 0.9 so many match, and of those with such a p as many as the p says.
    assert trained[0, 0] < 0.75
    assert fitted[0, 0] == pytest.approx(fitted[0, 1], abs=0.04)
    assert fitted[1, 0] == pytest.approx(fitted[1, 1], abs=0.04)
    assert inside / rows >= 0.93
    # If known pairs weighed as much as drawn ones, the matches stated in the task would be counted several times.
    assert abs(equal[1, 0] - equal[1, 1]) > 0.1
