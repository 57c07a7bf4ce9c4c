"""Average precision from labels of bands: hand-worked and complete cases, no lean over many draws, coverage."""

import numpy as np
import pytest

from al_ray.core.labels import NO, OPEN, YES
from al_ray.core.rng import generator
from al_ray.metrics.audit import false_positives, ranking_quality
from al_ray.metrics.audit.ranking_quality import average_precision
from al_ray.metrics.audit.score_bands import BandAudit, allotted, bands, draw_ranks

TOTAL = 20_000


def by_definition(matches):
    """The mean over matches of the precision at their rank."""
    ranks = np.flatnonzero(matches) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).mean())


def split_of(seed, most=0.8, scale=400, power=1.2):
    """Cosines of distinct pairs, descending, and which match: fewer and fewer down the ranks."""
    ranks = np.arange(1, TOTAL + 1)
    matches = generator(seed, "matches").random(TOTAL) < most / (1 + (ranks / scale) ** power)
    return 1 - ranks / TOTAL, matches


def draw(cosines, matches, top, budget, rng, known=()):
    """An audit with labels from the truth, and the cosines of the drawn pairs; `known` rows were labelled before."""
    left = np.setdiff1d(np.arange(TOTAL), known)
    ranks, rows = [], []
    cut = bands(top, len(left), top)
    for band, count in zip(cut, allotted(budget, [stop - start for start, stop in cut]), strict=True):
        own = draw_ranks(band, count, rng)
        rows.append(left[own])
        ranks.append(np.minimum(own, top))
    drawn, before = np.concatenate(rows), np.asarray(known, dtype=np.int64)
    labels = np.where(matches, YES, NO).astype(np.uint8)
    of_known = cosines[before], labels[before]
    audit = BandAudit(cosines[left[:top]], len(left), *of_known, np.concatenate(ranks), labels[drawn], top)
    return audit, cosines[drawn]


@pytest.fixture
def quick(monkeypatch):
    """A tenth of the draws."""
    for module in (false_positives, ranking_quality):
        monkeypatch.setattr(module, "DRAWS", 1000)


def audit_of(labels, ranks, reach, total, known=()):
    """Cosines 0.99, 0.98, ... of the ranked pairs; known: cosine and label of each known pair."""
    of_known = np.array([cosine for cosine, _ in known]), np.array([label for _, label in known], dtype=np.uint8)
    cosines = 0.99 - np.arange(reach) / 100
    audit = BandAudit(cosines, total, *of_known, np.array(ranks), np.array(labels, dtype=np.uint8), reach)
    return audit, np.append(cosines, 0.1)[ranks]


def test_with_every_label_it_is_average_precision_itself():
    # Matches at ranks 1, 3 and, known before, 6, 4 and 7 of 8: cosines of the ranked pairs are 0.99 to 0.96.
    audit, cosines = audit_of([YES, NO, YES, NO], range(4), 4, 4, [(0.95, YES), (0.965, YES), (0.2, YES), (0.955, NO)])
    found = average_precision(audit, cosines, generator(0, "x"))
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx([(1 + 2 / 3 + 3 / 4 + 4 / 7 + 5 / 8) / 5] * 3)
    assert average_precision(audit, cosines, generator(0, "x"), over_all=True) == found


def test_a_match_counts_once_in_the_precision_at_itself_and_for_its_weight_in_that_of_others():
    # Of 4 pairs those at ranks 2 and 4 are labelled and match: each stands for 2, and for 3 beside the other.
    audit, cosines = audit_of([YES, YES], [1, 3], 4, 4)
    found = average_precision(audit, cosines, generator(0, "x"))
    assert found is not None
    assert found.value == pytest.approx((1 / 2 + min((1 + 3) / 4, 1)) / 2)


def test_without_an_answer_in_a_band_or_without_a_match_it_is_unknown():
    audit, cosines = audit_of([YES, NO, OPEN], [0, 1, 2], 2, 9)
    assert average_precision(audit, cosines, generator(0, "x")) is not None
    assert average_precision(audit, cosines, generator(0, "x"), over_all=True) is None
    audit, cosines = audit_of([NO, NO], [0, 1], 2, 9)
    assert average_precision(audit, cosines, generator(0, "x")) is None


def test_over_all_pairs_nothing_is_known_where_few_of_the_rest_were_labelled():
    cosines, matches = split_of(0)
    audit, of_drawn = draw(cosines, matches, 1000, 300, generator(0, "audit"))
    audit.labels[audit.ranks == 1000] = NO
    ranked = average_precision(audit, of_drawn, generator(0, "x"))
    every = average_precision(audit, of_drawn, generator(0, "x"), over_all=True)
    assert ranked is not None
    assert every is not None
    assert every.value == ranked.value
    # At most 3.6% of 19,000 pairs match beyond, beside some 400 above.
    assert every.low < 0.6 * ranked.low
    assert every.high == pytest.approx(ranked.high, abs=0.02)


@pytest.mark.parametrize(
    ("kind", "top", "budget", "known"),
    [
        *[((0.8, 400, 1.2), 1000, 300, 0), ((0.8, 300, 3), 1000, 300, 60), ((0.3, 1000, 1), 10_000, 120, 0)],
        # Most of the known matches rank below those that are ranked one by one.
        *[((0.3, 1000, 1), 1000, 300, 300), ((0.5, 300, 0.6), 1000, 300, 300)],
    ],
)
def test_over_many_audits_the_estimate_leans_little_and_the_interval_holds_the_truth(quick, kind, top, budget, known):
    values = []
    for seed in range(60):
        rng = generator(seed, "audit")
        cosines, matches = split_of(seed, *kind)
        before = np.sort(rng.choice(np.flatnonzero(matches), known, replace=False))
        audit, of_drawn = draw(cosines, matches, top, budget, rng, before)
        truth = by_definition(matches[np.sort(np.union1d(np.setdiff1d(np.arange(TOTAL), before)[:top], before))])
        found = average_precision(audit, of_drawn, rng)
        every = average_precision(audit, of_drawn, rng, over_all=True)
        assert found is not None
        assert every is not None
        of_all = by_definition(matches)
        values.append((found.value - truth, found.low <= truth <= found.high, every.low <= of_all <= every.high))
    lean, covered, covered_over_all = np.mean(values, axis=0)
    # With the weight of a match in the precision at itself the lean of the last kind would be 0.1.
    assert abs(lean) < 0.03
    assert covered >= 0.9
    assert covered_over_all >= 0.9


def test_the_interval_holds_the_truth_where_many_pairs_have_equal_scores(quick):
    # 20 levels of the cosine, of 1,000 pairs each: the first two are ranked, and are two thresholds.
    held = 0
    for seed in range(40):
        rng = generator(seed, "audit")
        _, matches = split_of(seed, 0.9, 200, 1)
        cosines = 1 - np.arange(TOTAL) // 1000 / 20
        audit, of_drawn = draw(cosines, matches, 2000, 200, rng)
        first, both = int(matches[:1000].sum()), int(matches[:2000].sum())
        truth = (first * first / 1000 + (both - first) * both / 2000) / both
        found = average_precision(audit, of_drawn, rng)
        assert found is not None
        held += found.low <= truth <= found.high
    # With the matches of a level one above the other, as if none were equal, 21 intervals of 40 ended below the truth.
    assert held >= 36
