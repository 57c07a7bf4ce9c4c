"""The scorer and the thresholds of an audit by score: by hand, and by simulated audits whose truth is known."""

import re
from math import log

import numpy as np
import pytest

from al_ray.apps.audit.band_printout import format_bands
from al_ray.apps.audit.calibration import choose_threshold, fit_scorer, parse_precision_rules
from al_ray.apps.audit.folder import AuditOptions, Record
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels, Scorer, refit
from al_ray.metrics.audit.recalibration import reliability_bins
from al_ray.metrics.audit.score_bands import BandAudit, allotted, bands, draw_ranks

NO_LABELS = np.empty(0, dtype=np.uint8)


def audit(cosines: Floats, total: int, ranks: list[int], labels: list[int], known: int = 0) -> BandAudit:
    """Bands of score; `known` pairs that the run labelled, matches of cosine 1."""
    before = np.ones(known), np.full(known, YES, dtype=np.uint8)
    return BandAudit(cosines, total, *before, np.array(ranks), np.array(labels, dtype=np.uint8))


def record(scorer: Scorer, total: int = 10, top: int = 10) -> Record:
    options = AuditOptions("train", 1, 0, None, None, None, 9, top, "model", "task")
    return Record(options, total, scorer.weight, scorer.bias)


def test_the_scorer_is_fitted_to_the_labels_of_yes_and_no_alone():
    # Two cosines have a closed form: at 0.6 one of two matches, log-odds 0; at 0.2 one of 4, log-odds log(1/3).
    found = audit(np.full(4, 0.6), 100, [0, 1, 4, 4, 4, 4, 2], [YES, NO, YES, NO, NO, NO, UNSURE], known=30)
    scorer = fit_scorer(found, np.array([0.6, 0.6, 0.2, 0.2, 0.2, 0.2, 0.6]))
    assert scorer.boundary == pytest.approx(0.6)
    assert scorer.weight == pytest.approx(log(3) / 0.4)


@pytest.mark.parametrize(
    ("labels", "last", "words"),
    [
        ([YES, YES, UNSURE], 0.1, "all 2 labels are yes"),
        ([NO, OPEN, NO], 0.1, "all 2 labels are no"),
        ([UNSURE, OPEN, UNSURE], 0.1, "no label is yes or no"),
        ([NO, NO, YES], 0.1, "do not become more frequent"),
        ([YES, NO, NO], 0.1, "among 3 labels no pair labelled no is above a pair labelled yes"),
        ([YES, NO, NO], float("nan"), "lacks the cosines"),
    ],
)
def test_labels_that_determine_no_scorer_are_refused(labels, last, words):
    with pytest.raises(BadOption, match=words):
        fit_scorer(audit(np.array([0.9, 0.5]), 10, [0, 1, 2], labels), np.array([0.9, 0.5, last]))


def test_the_reliability_of_a_score_by_hand():
    # p = sigmoid(20 * cosine - 12): 0.5 at 0.6. Ranked: 3 pairs at 0.9 (p 0.998), 3 at 0.65 (p 0.73); floor 0.65.
    # Of those at 0.9, 2 were labelled and 1 matches; of those at 0.65, 1 and it does not; 94 others, 2 and none.
    cosines = np.array([0.9] * 3 + [0.65] * 3)
    found = audit(cosines, 100, [0, 1, 3, 6, 6], [YES, NO, NO, NO, NO], known=5).without_known
    scorer = Scorer(20.0, -12.0)
    others, low, high = reliability_bins(found, scorer, np.array([0.9, 0.9, 0.65, 0.2, 0.3]), generator(0, "x"))
    assert (low.low, low.high, low.weight) == (pytest.approx(0.731, abs=1e-3), 0.9, 3)
    assert (high.low, high.high, high.weight) == (0.99, 1.0, 3)
    assert (high.share, high.share_low, high.share_high) == pytest.approx((1 / 2, 1 / 3, 2 / 3))
    assert high.mean_p == pytest.approx(scorer.probability(np.array(0.9)))
    assert (others.low, others.high, others.weight) == (0, pytest.approx(low.low), 94)
    assert others.mean_p == pytest.approx(scorer.probability(np.array([0.2, 0.3])).mean())
    assert (others.share, others.share_low) == (0, 0)
    assert others.share_high > 0.5, "two labels bound little"


def test_a_threshold_is_kept_with_its_interval_and_with_no_recall():
    found = audit(1 - np.arange(10) / 10, 1000, [0, 1, 2, 9, 10], [YES, NO, YES, NO, NO])
    (rule,) = parse_precision_rules(["precision=0.6"])
    chosen = choose_threshold(found, record(Scorer(10.0, -5.0)), rule, generator(0, "x"))
    assert (chosen["rule"], chosen["cosine"]) == ("precision=0.6", pytest.approx(0.8))
    assert chosen["logit"] == pytest.approx(3)
    assert chosen["precision"] == pytest.approx({"value": 2 / 3, "low": 2 / 3, "high": 2 / 3})
    assert chosen["recall"] is None
    assert (chosen["source"], chosen["split"], chosen["labels"], chosen["pairs"]) == ("audit", "train", 5, 1000)
    (rule,) = parse_precision_rules(["precision=0.99"])
    assert choose_threshold(audit(np.ones(2), 9, [0], [NO]), record(Scorer(1.0, 0.0)), rule, generator(0, "x"))[
        "cosine"
    ] is None  # fmt: skip
    with pytest.raises(BadOption, match="does not know the recall"):
        parse_precision_rules(["recall=0.5"])


def test_no_column_calls_recall_what_is_not_over_all_pairs():
    # All matches that the audit sees are at the top; 60 labels beyond say little, and the run labelled 44 more pairs.
    labels = [YES] * 90 + [NO] * 10
    ranks = [*range(0, 1000, 10), *[1000] * 60]
    found = audit(1 - np.arange(1000) / 2000, 10**6, ranks, [*labels, *[NO] * 60], known=44)
    cosines = np.concatenate([found.cosines[ranks[:100]], np.full(60, 0.1)])
    kept = record(Scorer(20.0, -14.0), total=10**6 + 44, top=1000)
    lines, content = format_bands(found, kept, cosines, [found.edges[-1], 0.7], generator(0, "x"))
    said = "\n".join(lines)
    assert "recall in the first" not in said
    assert "share of the matches in these 1,044 (95%)" in said
    assert "these 1,044: the 1,000 pairs of highest score and 44 labelled by the run" in said
    (at_most,) = re.findall(
        r"beyond: 999,000 pairs, of which 60 were drawn and labelled, 0 yes; at most ([0-9,]+)", said
    )
    # Clopper and Pearson's upper end of 0 of 60.
    assert float(at_most.replace(",", "")) == pytest.approx(999_000 * (1 - 0.025 ** (1 / 60)), rel=0.03)
    low, high = content["thresholds"][-1]["recall"]["low"], content["thresholds"][-1]["recall"]["high"]
    assert low < 0.1
    assert high > 0.9
    assert f"{100 * low:.2g}% to {100 * high:.3g}%" in said
    # Nothing drawn beyond: nothing is known there.
    bare = audit(found.cosines, found.total, ranks[:100], labels)
    said = "\n".join(format_bands(bare, kept, cosines[:100], [0.7], generator(0, "x"))[0])
    assert "999,000 pairs, none of them labelled; how many of them match is unknown" in said
    assert said.splitlines()[6].endswith("  unknown"), "recall over all pairs"
    # A boundary below the ranked pairs has its row.
    said = "\n".join(format_bands(found, kept, cosines, [0.7, 0.3], generator(0, "x"))[0])
    assert "boundary 0.7000  0.500" in said
    low_boundary = record(Scorer(20.0, -6.0), total=10**6 + 44, top=1000)
    lines, content = format_bands(found, low_boundary, cosines, [0.7, 0.3], generator(0, "x"))
    assert "boundary 0.3000  0.500  over 1,000" in "\n".join(lines)
    assert content["thresholds"][-1]["boundary"]
    assert content["thresholds"][-1]["pairs"] is None


def world(rng: np.random.Generator) -> tuple[Floats, Labels]:
    """Cosines, descending, and labels of 1,500 matches among 300,000 pairs."""
    x = np.concatenate([rng.normal(0.75, 0.10, 1500), rng.normal(0.25, 0.13, 298_500)])
    order = np.argsort(-x)
    return x[order], (order < 1500).astype(np.uint8)


def trained_by_uncertainty(x: Floats, truth: Labels, rng: np.random.Generator) -> Scorer:
    """The scorer of a small run: fitted to the 50 highest pairs, and twice 50 near the boundary."""
    chosen = list(range(50))
    for _ in range(2):
        boundary = refit(x[chosen], truth[chosen]).boundary
        nearest = np.argsort(np.abs(x - boundary) + 1e-3 * rng.random(len(x)))[:200].tolist()
        chosen += [pair for pair in nearest if pair not in chosen][:50]
    return refit(x[chosen], truth[chosen])


def drawn(x: Floats, truth: Labels, reach: int, rng: np.random.Generator) -> tuple[BandAudit, Floats]:
    """An audit with 300 labels, and the cosines of its pairs."""
    cut = bands(reach, len(x))
    counts = allotted(300, [stop - start for start, stop in cut])
    ranks = np.concatenate([draw_ranks(band, count, rng) for band, count in zip(cut, counts, strict=True)])
    before = np.empty(0), NO_LABELS
    return BandAudit(x[:reach], len(x), *before, np.minimum(ranks, reach), truth[ranks]), x[ranks]


def test_an_audit_of_a_small_run_makes_its_scores_probabilities(monkeypatch: pytest.MonkeyPatch):
    """Over 25 runs of 150 labels and audits of 300: how often pairs match where a score or p is high."""
    for module in ("false_positives", "score_bands"):
        monkeypatch.setattr(f"al_ray.metrics.audit.{module}.DRAWS", 1000)
    counts, inside, rows = np.zeros((2, 2, 2)), 0, 0
    for seed in range(25):
        rng = generator(seed, "people")
        x, truth = world(rng)
        trained = trained_by_uncertainty(x, truth, rng)
        found, cosines = drawn(x, truth, 1_000, rng)
        scorer = fit_scorer(found, cosines)
        for row, one in enumerate((trained, scorer)):
            for column, least in enumerate((0.99, 0.9)):
                high = one.probability(x) >= least
                counts[row, column] += truth[high].sum(), high.sum()
        p = scorer.probability(x)
        for line in reliability_bins(found, scorer, cosines, rng):
            own = truth[(p >= line.low) & (p < line.high if line.high < 1 else p <= 1)]
            inside, rows = inside + (line.share_low <= own.mean() <= line.share_high), rows + 1
    (before_99, before_90), (after_99, after_90) = counts[..., 0] / counts[..., 1]
    # Over 100 such runs 76% and 12%, and 99% and 97% once calibrated.
    assert before_99 < 0.95
    assert before_90 < 0.75
    assert after_99 > 0.97
    assert after_90 > 0.93
    assert inside / rows >= 0.93
