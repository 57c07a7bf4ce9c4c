"""Thresholds that keep a promise: by hand, and by simulated audits whose truth is known."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from al_ray.core.labels import NO, YES
from al_ray.core.rng import generator
from al_ray.metrics.audit.guarantee import (
    CutSample,
    MeldedLimits,
    Sampled,
    cut_samples,
    highest_complete,
    lowest_precise,
    most_saved,
    promise,
)
from al_ray.metrics.audit.score_bands import BandAudit, allotted, draw_ranks
from al_ray.metrics.audit.second_draw import crossing, outlook, with_labels_known
from al_ray.metrics.thresholds import parse_rule
from studies.promised_populations import Population, SampledAudits, populations
from studies.promising import StoredLimits

AUDITS = 300
# More misses than this among 300 audits have a probability below 0.002 if each has 5% (mean 15, deviation 3.8).
MOST_MISSED = 27


def cut(above: tuple[int, int, int], pairs: int, below: tuple[int, int, int] = (0, 0, 0), start: bool = True):
    return CutSample(0.5, pairs, (0, 0), (Sampled(*above),), (Sampled(*below),), (), start)


class Fixed:
    """Limits whose p-value is the number of matches among the labels above, in thousandths."""

    def p_value(self, terms, least):
        part = terms[0][1]
        return 0.0001 if part.matches == part.answered else part.matches / 1000

    def lower(self, terms, alpha):
        return sum(weight * part.matches for weight, part in terms)


def at(p: float, start: bool = False) -> CutSample:
    """A cut whose p-value by `Fixed` is p."""
    return CutSample(0.5, 100, (0, 0), (Sampled(100, 2000, round(1000 * p)),), (), (), start)


def test_the_p_value_is_that_of_a_hypergeometric_count():
    # 18 of 20 drawn of 100 pairs match. If 79 of the 100 match, 18 or more are drawn with probability
    # (C(79,18) C(21,2) + C(79,19) C(21,1) + C(79,20)) / C(100,20).
    ways = sum(comb(79, k) * comb(21, 20 - k) for k in (18, 19, 20))
    limits = MeldedLimits(generator(0, "x"), 100_000)
    found = limits.p_value([(1.0, Sampled(100, 20, 18))], 80)
    assert found == pytest.approx(ways / comb(100, 20), abs=0.003)
    # All labelled: no uncertainty.
    assert limits.p_value([(1.0, Sampled(20, 20, 18))], 18) == pytest.approx(1e-5, rel=0.1)
    assert limits.p_value([(1.0, Sampled(20, 20, 18))], 18.5) == 1


def test_a_cut_that_passes_hands_its_allowance_on_and_one_that_fails_does_not_end_the_search():
    # Two starts have 0.025 each. The first passes, and so does the next with its 0.025; the third does not. The second
    # start has only its own 0.025, and the last cut only that.
    cuts = [at(0.020, True), at(0.024), at(0.030), at(0.024, True), at(0.026)]
    assert lowest_precise(cuts, 0.5, 0.05, Fixed()) == 3
    # Without a failure between, the second start has both shares, 0.05.
    assert lowest_precise([at(0.020, True), at(0.024), at(0.045, True), at(0.049)], 0.5, 0.05, Fixed()) == 3
    # Cuts that are no starts have nothing of their own.
    assert lowest_precise([at(0.04, True), at(0.001)], 0.5, 0.05, Fixed()) == 1
    assert lowest_precise([at(0.06, True), at(0.001)], 0.5, 0.05, Fixed()) is None
    assert lowest_precise([], 0.5, 0.05, Fixed()) is None


def test_recall_is_tested_from_the_lowest_cut_up_with_all_of_the_allowance():
    rule = parse_rule("ranked-recall=0.5")
    assert highest_complete([at(0.01), at(0.06), at(0.04), at(0.01)], rule, 0.05, Fixed()) == 2
    assert highest_complete([at(0.01), at(0.01), at(0.06)], rule, 0.05, Fixed()) is None


def test_what_is_saved_by_hand():
    # All 10 labelled, 8 of them matches: 4 for each match that is found, 1 for each of the two errors. 5 * 8 - 10 = 30.
    limits = MeldedLimits(generator(0, "x"))
    found = most_saved([cut((10, 10, 8), 10), cut((20, 20, 8), 20)], (4, 1), 0.05, limits)
    assert found is not None
    assert (found.at, found.value) == (0, 30)
    # 1 match among 10: 5 - 10 < 0, so nothing is saved.
    assert most_saved([cut((10, 10, 1), 10)], (4, 1), 0.05, limits) is None


def test_cuts_depend_on_scores_alone_and_equal_scores_stay_together():
    none = np.empty(0, dtype=np.int64)
    audit = BandAudit(np.repeat([0.9, 0.5], 50), 1000, np.empty(0), none.astype(np.uint8), none, none.astype(np.uint8))
    # Pairs beyond the ranked ones may have 0.5, too.
    assert [(one.threshold, one.pairs, one.start) for one in cut_samples(audit)] == [(0.9, 50, True)]
    assert [one.pairs for one in cut_samples(replace(audit, total=100))] == [50, 100]


@pytest.mark.parametrize("name", populations())
@pytest.mark.parametrize("words", ["precision=0.8", "ranked-recall=0.7", "costs=4,1"])
def test_promises_are_kept(name, words):
    population, rule = populations()[name], parse_rule(words)
    rng = generator(3, f"kept-{name}-{words}")
    audits, missed = SampledAudits.draw(population, 200, AUDITS, rng), 0
    limits = StoredLimits(rng, 500)
    for row in range(AUDITS):
        cuts = audits.audit(row)
        found = promise(cuts, rule, 0.05, limits)
        missed += found is not None and not _true(population, rule, cuts[found.at].pairs, found.value)
    assert missed <= MOST_MISSED


def _true(population: Population, rule, pairs: int, value: float) -> bool:
    if rule.kind == "precision":
        return population.precision(pairs) >= value
    if rule.kind == "ranked-recall":
        return population.recall(pairs, True) >= value
    miss, alarm = rule.numbers
    return (miss + alarm) * population.counts[pairs] - alarm * pairs >= value - 1e-9


def test_the_counts_of_a_simulated_audit_are_those_of_its_labels():
    # The slow way: draw pairs of each band, label them, and cut.
    population = populations()["ties"]
    audit, rng = population.unlabelled, generator(5, "slow")
    shares = allotted(200, [stop - start for start, stop in audit.bands])
    ranks = np.concatenate([draw_ranks(band, share, rng) for band, share in zip(audit.bands, shares, strict=True)])
    labels = np.where(population.matches[np.minimum(ranks, audit.reach - 1)] & (ranks < audit.reach), YES, NO)
    slow = cut_samples(replace(audit, ranks=np.minimum(ranks, audit.reach), labels=labels.astype(np.uint8)))
    quick = SampledAudits.draw(population, 200, 1, rng).audit(0)
    for one, other in zip(slow, quick, strict=True):
        assert (one.threshold, one.pairs, one.start) == (other.threshold, other.pairs, other.start)
        for side in ("above", "near", "rest"):
            assert [part.size for part in getattr(one, side)] == [part.size for part in getattr(other, side)]
    answered = [part.answered for part in (*quick[-1].above, *quick[-1].near)]
    assert (answered[:2], sum(answered)) == ([50, 50], 150)


def first_draw(name: str, budget: int, rng: np.random.Generator) -> BandAudit:
    population = populations()[name]
    audit = population.unlabelled
    shares = allotted(budget, [stop - start for start, stop in audit.bands])
    ranks = np.concatenate([draw_ranks(band, share, rng) for band, share in zip(audit.bands, shares, strict=True)])
    ranks = ranks[ranks < audit.reach]
    return replace(audit, ranks=ranks, labels=np.where(population.matches[ranks], YES, NO).astype(np.uint8))


def test_a_second_draw_is_of_the_pairs_above_the_crossing_that_have_no_label():
    first = first_draw("calibrated", 150, generator(1, "first"))
    threshold = crossing(first, 0.8)
    assert threshold is not None
    cut = first.rank_of(threshold)
    # By 150 labels; in truth the precision is 80% down to rank TRUTH.
    assert 400 < cut < 1200
    second, left = with_labels_known(first, threshold)
    drawn = first.ranks[first.ranks < cut]
    assert len(left) == second.reach == second.total == cut - len(drawn)
    assert not np.isin(left, drawn).any()
    # Pairs and known matches at the last cut are those of the population, whatever was labelled.
    last = cut_samples(second)[-1]
    assert (last.pairs, last.known[0]) == (cut, int((first.labels[first.ranks < cut] == YES).sum()))


def test_the_outlook_says_how_many_labels_bring_what():
    first = first_draw("long tail", 150, generator(1, "first"))
    found = outlook(first, parse_rule("precision=0.8"), 0.05, 0.4, generator(0, "outlook"))
    assert found is not None
    assert found.worthwhile
    assert 20 <= found.labels <= 200
    assert found.then > 0.7
    assert found.found > 0.9
    # No pair matches: there is no crossing.
    none = replace(first, labels=np.full_like(first.labels, NO))
    assert outlook(none, parse_rule("precision=0.8"), 0.05, 0.0, generator(0, "outlook")) is None
