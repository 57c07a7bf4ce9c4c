"""Calibrate a model's scorer, and choose a threshold, on the labels of an audit by score.

The chance with which a pair was drawn depends on its cosine alone, so the labels are an unbiased sample of how often
pairs of a cosine match. So w and b of p = sigmoid(w * cosine + b) are fitted without the weights of the sampling,
which would be needed if the chances depended on anything else. With them a label of the rest, which stands for
thousands of times as many pairs as one of the first band, would decide: in simulations of 300 labels 53 to 73% of the
pairs matched to which such a fit gave p >= 0.99. Numbers and shares of matches are estimated with the weights, by band.

Pairs that the run labelled are left out: the model was trained on them, and their scores say more of their labels than
those of other pairs do.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from al_ray.apps.audit.folder import Record
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Floats, Scorer, refit
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.score_bands import BandAudit
from al_ray.metrics.calibration import Bin
from al_ray.metrics.thresholds import Rule, parse_rule

ENDS = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)


def fit_scorer(audit: BandAudit, cosines: Floats) -> Scorer:
    """Fit w and b to the labelled pairs of an audit; (n,) cosines of the drawn pairs.

    BadOption if the labels do not determine them.
    """
    labelled = np.isin(audit.labels, (NO, YES))
    labels, x = audit.labels[labelled], cosines[labelled]
    if np.isnan(x).any():
        raise BadOption(
            "--update-scorer: this audit was drawn by an earlier version and lacks the cosines of the pairs beyond the "
            "ranked ones; draw another one (jobs.audit sample --by-score) into another --out"
        )
    if len(set(labels.tolist())) < 2:
        raise BadOption(
            f"--update-scorer: all {len(labels):,} labels are {'yes' if labels.any() else 'no'}, which does not "
            "determine a scorer; label more pairs, or draw an audit with a larger --top or --budget into another --out"
        )
    scorer = refit(x, labels)
    if not scorer.weight > 0:
        raise BadOption(
            "--update-scorer: matches do not become more frequent with the cosine among these labels, so no scorer "
            "fits; label more pairs, or train the model further"
        )
    return scorer


def reliability_bins(audit: BandAudit, scorer: Scorer, cosines: Floats, rng: np.random.Generator) -> list[Bin]:
    """Return the reliability table of a scorer with w > 0: ranked pairs by p, then all others in one bin.

    cosines: (n,) of the drawn pairs. share: estimated from the labels, with its 95% interval; the pairs and their mean
    p are exact, but for the mean p of the others, which is that of those drawn. A bin without a label in some band is
    left out.
    """
    floor = 0.0 if audit.total == audit.reach else float(scorer.probability(np.array(audit.floor)))
    ranked_p = scorer.probability(audit.cosines)
    bins: list[Bin] = []
    for low, high in pairwise(ENDS):
        # Descending p: the ranks of a bin are those between the counts above both ends.
        start = 0 if high == 1 else int((ranked_p >= high).sum())
        stop = int((ranked_p >= low).sum())
        share = audit.share_between(start, stop, rng) if start < stop else None
        if share is not None:
            ends = (max(low, floor), high, float(stop - start), float(ranked_p[start:stop].mean()))
            bins.append(Bin(*ends, share.value, share.low, share.high))
    others = cosines[(audit.ranks >= audit.reach) & ~np.isnan(cosines)]
    share = audit.share_between(audit.reach, audit.total, rng) if len(others) else None
    if share is not None:
        mean = float(scorer.probability(others).mean())
        bins.insert(0, Bin(0.0, floor, float(audit.total - audit.reach), mean, share.value, share.low, share.high))
    return bins


def format_bins(name: str, bins: Sequence[Bin]) -> str:
    """Format a reliability table; name: "score" or "p"."""
    rows: list[tuple[str, ...]] = [(f"{name} from", "to", "pairs", f"mean {name}", "share of matches (95%)")]
    for row in reversed(bins):
        share = f"{100 * row.share:.3g}% ({100 * row.share_low:.3g} to {100 * row.share_high:.3g})"
        rows.append((f"{row.low:.3g}", f"{row.high:.3g}", f"{row.weight:,.0f}", f"{row.mean_p:.3g}", share))
    return format_columns(rows)


def recalibration(audit: BandAudit, record: Record, scorer: Scorer, bins: Sequence[Bin]) -> dict[str, Any]:
    """Return the calibrated scorer and its evidence, as scorer.json holds them."""
    labels = audit.labels[np.isin(audit.labels, (NO, YES))]
    return {
        "source": "audit",
        "split": record.asked.split,
        "pairs": audit.total,
        "labels": len(labels),
        "matches": int((labels == YES).sum()),
        "weight": scorer.weight,
        "bias": scorer.bias,
        "boundary": scorer.boundary,
        "outcome": scorer.outcome,
        "reliability": [row.as_dict() for row in bins],
    }


def format_recalibration(content: Mapping[str, Any], record: Record) -> list[str]:
    """Format the calibrated scorer; content: as `recalibration` returns it."""
    trained = record.scorer
    assert trained is not None
    return [
        f"scorer fitted to {content['labels']:,} labels, {content['matches']:,} of them matches: p = "
        f"sigmoid({content['weight']:.3f} cosine {content['bias']:+.3f}), boundary {content['boundary']:.4f}",
        f"  as trained: sigmoid({trained.weight:.3f} cosine {trained.bias:+.3f}), boundary {trained.boundary:.4f}",
        "how often pairs match, by the fitted p, among the same labels:",
    ]


def format_threshold(content: Mapping[str, Any]) -> str:
    """Format a chosen threshold; content: as `choose_threshold` returns it."""
    precision, within = content["precision"], content["recall_of_ranked"]
    if content["cosine"] is None or precision is None:
        return f"{content['rule']}: no threshold among the labelled pairs reaches it"
    share = "" if within is None else f", {100 * within['value']:.1f}% of the matches among the ranked pairs"
    interval = f"95%: {100 * precision['low']:.1f} to {100 * precision['high']:.1f}"
    value = f"precision {100 * precision['value']:.1f}% ({interval})"
    return f"{content['rule']}: cosine >= {content['cosine']:.6f}, {value}{share}"


def parse_precision_rules(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Parse the rules of --threshold-for; BadOption for any but precision=P."""
    rules = tuple(map(parse_rule, texts))
    for rule in rules:
        if rule.kind != "precision":
            raise BadOption(
                f"--threshold-for {rule}: an audit does not know the recall over all pairs; give precision=P"
            )
    return rules


def choose_threshold(audit: BandAudit, record: Record, rule: Rule, rng: np.random.Generator) -> dict[str, Any]:
    """Return the lowest threshold among the labelled pairs that satisfies a rule, as scorer.json holds it.

    cosine, logit and precision are None if there is none. logit: by the trained w and b. recall: None, which an audit
    does not know over all pairs; recall_of_ranked: the share of the matches among the ranked and the known pairs.
    """
    cosine = audit.threshold_for(rule.numbers[0])
    at = None if cosine is None else audit.at(cosine, rng)
    scorer = record.scorer
    return {
        "rule": str(rule),
        "cosine": cosine,
        "logit": None if cosine is None or scorer is None else float(scorer.logit(np.array([cosine]))[0]),
        "precision": None if at is None or at.precision is None else at.precision.as_dict(),
        "recall": None,
        "recall_of_ranked": None if at is None or at.recall_of_reach is None else at.recall_of_reach.as_dict(),
        "split": record.asked.split,
        "pairs": audit.total,
        "source": "audit",
        "labels": int(np.isin(audit.labels, (NO, YES)).sum()),
    }
