"""Two samples, of a language model and of people: by hand, by laws, and by simulated audits whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import betabinom

from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.rng import generator
from al_ray.metrics.audit import false_positives, score_bands
from al_ray.metrics.audit.answer_cells import LEAST, Cell, allot_to_cells, cell_part, cells_of
from al_ray.metrics.audit.guarantee import cut_samples
from al_ray.metrics.audit.score_bands import BandAudit, allotted, draw_ranks

NONE = np.empty(0), np.empty(0, dtype=np.uint8)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for module in (false_positives, score_bands):
        monkeypatch.setattr(module, "DRAWS", 1000)


def drawn(matches, called, first, people, rng):
    """An audit of ranked pairs with these matches (n,): the model called some of them a match."""
    total = len(matches)
    empty = np.empty(0, dtype=np.uint8)
    bands = BandAudit(1 - np.arange(total) / total, total, *NONE, empty.astype(np.int64), empty).bands
    sizes = [stop - start for start, stop in bands]
    ranks = [draw_ranks(band, n, rng) for band, n in zip(bands, allotted(first, sizes), strict=True)]
    of_bands = [[own[~called[own]], own[called[own]]] for own in ranks]
    shares = allot_to_cells(people, sizes, [[len(cell) for cell in cells] for cells in of_bands], len(bands))
    asked = np.concatenate(
        [
            rng.permutation(cell)[:n]
            for cells, ns in zip(of_bands, shares, strict=True)
            for cell, n in zip(cells, ns, strict=True)
        ]
    )
    every = np.concatenate(ranks)
    labels = np.where(np.isin(every, asked), matches[every], OPEN).astype(np.uint8)
    model = called[every].astype(np.uint8)
    return BandAudit(1 - np.arange(total) / total, total, *NONE, every, labels, model=model)


def test_a_share_and_recall_by_hand():
    # 100 of 1,000 pairs are above. The model answered 50 above: 40 yes, of which people found 9 of 10 right, and 10
    # others, of which 1 of 5 match: (40 * 0.9 + 10 * 0.2) / 50 = 0.76. Below 90 answers: 18 yes, 2 of 4 right, and 72
    # others, 0 of 8 match: 18 * 0.5 / 90 = 0.1 of 900 pairs, 90 matches. Recall: 76 / (76 + 90).
    def band(first, step, called, others):
        (yes, right, of), (other, wrong, among) = called, others
        ranks = first + np.arange(yes + other) * step
        model = [YES] * yes + [UNSURE, OPEN] + [NO] * (other - 2)
        people = [YES] * right + [NO] * (of - right) + [OPEN] * (yes - of)
        people += [YES] * wrong + [NO] * (among - wrong) + [OPEN] * (other - among)
        return ranks, np.array(model, dtype=np.uint8), np.array(people, dtype=np.uint8)

    first, second = band(0, 2, (40, 9, 10), (10, 1, 5)), band(100, 10, (18, 2, 4), (72, 0, 8))
    ranks = np.concatenate([first[0], second[0]])
    model, people = (np.concatenate([first[place], second[place]]) for place in (1, 2))
    audit = BandAudit(1 - np.arange(1000) / 1000, 1000, *NONE, ranks, people, model=model)
    at = audit.at(0.901, generator(0, "x"))
    assert at.precision
    assert at.recall
    assert at.precision.value == pytest.approx(0.76)
    assert at.recall.value == pytest.approx(76 / 166)
    assert at.precision.low < 0.76 < at.precision.high
    assert at.labels_for_half is None
    assert audit.part((0, 100), (0, 100)).answered == 15
    # What is not known of cells is refused where every label would count alike.
    with pytest.raises(AssertionError):
        cut_samples(audit)


def test_cells_count_unsure_and_unreadable_answers_of_the_model_as_not_yes():
    model = np.array([NO, YES, UNSURE, OPEN, YES], dtype=np.uint8)
    people = np.array([YES, NO, OPEN, UNSURE, YES], dtype=np.uint8)
    assert cells_of(model, people) == (Cell(3, 1, 1), Cell(2, 2, 1))


def test_what_is_unknown_of_a_part_is_for_its_share_as_in_the_band():
    none, band = Cell(0, 0, 0), (Cell(30, 10, 1), Cell(10, 5, 4))
    # No pair of the part was drawn: (30 * 0.1 + 10 * 0.8) / 40.
    assert cell_part(7, (none, none), band).share == pytest.approx(11 / 40)
    # People answered no pair of its yes: 0.8 as in the band, and 2 of 4 of the others.
    assert cell_part(7, (Cell(4, 4, 2), Cell(4, 0, 0)), band).share == pytest.approx(0.65)
    # Nobody answered a yes of the band: as the others. But the limits of these pairs are 0 and 1.
    part = cell_part(8, (Cell(4, 4, 2), Cell(4, 0, 0)), (Cell(4, 4, 2), Cell(4, 0, 0)))
    assert part.share == pytest.approx(0.5)
    assert (part.in_all("low", generator(0, "x")).tolist(), part.in_all("high", generator(0, "x")).tolist()) == (
        [2] * 1000,
        [6] * 1000,
    )
    assert np.isnan(cell_part(8, (Cell(4, 0, 0), none), (Cell(4, 0, 0), none)).share)


@pytest.mark.parametrize("end", ["low", "high"])
def test_a_model_that_answers_all_pairs_alike_changes_nothing(end):
    # All 900 pairs of the band have one answer, of which people labelled 40, 6 of them yes: exact limits of that.
    part = cell_part(900, (Cell(900, 40, 6), Cell(0, 0, 0)), (Cell(900, 40, 6), Cell(0, 0, 0)))
    have, lack = (7, 34) if end == "high" else (6, 35)
    found = part.in_all(end, generator(0, "x"), 20_000)
    for share in (0.025, 0.5, 0.975):
        assert np.quantile(found, share) == pytest.approx(6 + betabinom.ppf(share, 860, have, lack), abs=4)
    # It answered 450 alike: the others may have another answer, and few of them do.
    some = cell_part(900, (Cell(450, 40, 6), Cell(0, 0, 0)), (Cell(450, 40, 6), Cell(0, 0, 0)))
    other = some.in_all(end, generator(0, "x"), 20_000)
    assert abs(np.mean(other) - np.mean(found)) < 2


def test_people_who_answer_all_pairs_of_the_model_leave_nothing_to_chance():
    matches = generator(0, "m").random(300) < 0.3
    audit = drawn(matches, ~matches, 300, 300, generator(0, "x"))
    at = audit.at(0.5, generator(0, "y"))
    assert at.precision
    assert at.precision.low == at.precision.value == at.precision.high == matches[:151].mean()


def test_a_good_model_makes_intervals_narrower_and_a_bad_one_leaves_them_valid():
    widths, held = np.zeros((2, 2)), np.zeros((2, 2))
    ranks = np.arange(3000)
    matches = generator(0, "m").random(3000) < 0.95 / (1 + (ranks / 300) ** 3)
    truth = matches[:400].mean(), matches[:400].sum() / matches.sum()
    # The second is worse than chance.
    for model, called in enumerate((matches, ~matches | (ranks % 3 == 0))):
        for seed in range(40):
            audit = drawn(matches, called, 1500, 150, generator(seed, "draw"))
            at = audit.at(1 - 399 / 3000, generator(seed, "at"))
            for figure, (one, true) in enumerate(zip((at.precision, at.recall), truth, strict=True)):
                assert one
                widths[model, figure] += one.high - one.low
                held[model, figure] += one.low <= true <= one.high
    plain = np.zeros(2)
    for seed in range(40):
        one = drawn(matches, matches, 150, 150, generator(seed, "draw"))
        at = replace(one, model=None).at(1 - 399 / 3000, generator(seed, "at"))
        assert at.precision
        assert at.recall
        plain += at.precision.high - at.precision.low, at.recall.high - at.recall.low
    assert (widths[0] < np.array([0.7, 0.85]) * plain).all(), (widths, plain)
    assert (held >= 37).all(), held


def test_the_estimate_does_not_lean_where_the_model_errs():
    matches = generator(1, "m").random(1000) < np.linspace(0.9, 0, 1000)
    # It calls a third of the matches none, and a fifth of the others matches.
    called = np.where(np.arange(1000) % 3 == 0, ~matches & (np.arange(1000) % 5 == 0), matches)
    found = [drawn(matches, called, 400, 80, generator(seed, "lean")) for seed in range(200)]
    shares = [audit.part((100, 1000), (100, 1000)).share for audit in found]
    # The mean of 200 has a standard error of about 0.004.
    assert np.mean(shares) == pytest.approx(matches[100:].mean(), abs=0.015)
    assert called[100:].mean() < matches[100:].mean() - 0.05, "as the labels of the model alone do"


def test_limits_agree_with_a_slow_twin():
    # Draws as the module says it, one by one, with Python's arithmetic on shares.
    cells, size = (Cell(60, 20, 2), Cell(40, 12, 10)), 500
    fast = cell_part(size, cells, cells)
    rng, slow = generator(0, "slow"), {"low": list[int](), "high": list[int]()}
    for _ in range(4000):
        for end, extra in (("high", 1), ("low", 0)):
            shares = [rng.beta(c.matches + extra, c.answered - c.matches + 1 - extra) for c in cells]
            larger = int(shares[1] > shares[0])
            to = larger if end == "high" else 1 - larger
            of_yes = rng.beta(40 + (to == 1), 60 + (to == 0))
            more = rng.binomial(400, of_yes)
            counts = (60 + 400 - more - 20, 40 + more - 12)
            slow[end].append(12 + sum(rng.binomial(n, share) for n, share in zip(counts, shares, strict=True)))
    for end in ("low", "high"):
        draws = fast.in_all(end, generator(0, "fast"), 4000)
        for share in (0.025, 0.5, 0.975):
            assert np.quantile(draws, share) == pytest.approx(np.quantile(slow[end], share), abs=6)


def test_labels_of_people_are_divided_among_cells():
    # The first band has 100 pairs and the last is not ranked: 25 labels for each of four bands, of which the last has
    # all 25 and the ranked ones 15 each: the other 30 go mostly to the cells with many pairs.
    drawn_pairs = [[10, 90], [500, 400], [1400, 100], [1499, 1]]
    shares = allot_to_cells(100, [100, 900, 9000, 100_000], drawn_pairs, 3)
    assert sum(map(sum, shares)) == 100
    assert sum(shares[3]) == 25
    assert shares[3][1] == 1, "no more than there are"
    assert min(min(cells) for cells in shares[:3]) >= LEAST
    assert sum(shares[0]) < sum(shares[1]) < sum(shares[2])
    assert shares[2][0] > shares[2][1]
    # What some bands cannot use goes to others, and no more is given than there is.
    assert sum(map(sum, allot_to_cells(10**4, [100, 900, 9000, 100_000], drawn_pairs, 3))) == 4000
    assert allot_to_cells(9, [5], [[3, 2]], 0) == [[3, 2]]
