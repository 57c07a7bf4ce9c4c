"""Calibrate a model's scorer, and choose a threshold, on the labels of an audit by score.

Pairs that the run labelled are left out: the model was trained on them (metrics/audit/recalibration.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from al_ray.apps.audit.folder import Record
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, YES
from al_ray.core.naming import option
from al_ray.core.scorer import CANDIDATE, Floats, Scorer, ceiling_words
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.recalibration import refit_to_bands
from al_ray.metrics.audit.score_bands import BandAudit
from al_ray.metrics.calibration import Bin
from al_ray.metrics.thresholds import Rule, parse_rule


def fit_scorer(audit: BandAudit, cosines: Floats) -> Scorer:
    """Fit w and b to the labelled pairs of an audit; (n,) cosines of the drawn pairs.

    BadOption if the labels do not determine them.
    """
    labelled = np.isin(audit.labels, (NO, YES))
    labels, x = audit.labels[labelled], cosines[labelled]
    if np.isnan(x).any():
        raise BadOption(
            "`update_scorer=True`: this audit was drawn by an earlier version and lacks the cosines of pairs beyond "
            "the ranked ones; draw another one (`AuditConfig.by_score=True`) into another `out`"
        )
    if len(set(labels.tolist())) < 2:
        alike = f"all {len(labels):,} labels are {'yes' if labels.any() else 'no'}"
        raise BadOption(
            f"`update_scorer=True`: {alike if len(labels) else 'no label is yes or no'}, which does not determine a "
            "scorer; label more pairs, or draw an audit with a larger `top` or `budget` into another `out`"
        )
    scorer = refit_to_bands(audit.without_known, cosines)
    if scorer is None:
        raise BadOption(
            "`update_scorer=True`: matches do not become more frequent with the cosine among these labels, so no "
            "scorer fits; label more pairs, or train the model further"
        )
    if scorer.outcome == "separable":
        raise BadOption(
            f"`update_scorer=True`: among {len(labels):,} labels no pair labelled no is above a pair labelled yes, so "
            "they do not say how steeply p rises; label more pairs, or draw an audit with a larger `budget` into "
            "another `out`"
        )
    return scorer


def format_bins(name: str, bins: Sequence[Bin]) -> str:
    """Format a reliability table; name: "score" or "p"."""
    rows: list[tuple[str, ...]] = [(f"{name} from", "to", "pairs", f"mean {name}", "share of matches (95%)")]
    for row in reversed(bins):
        share = f"{100 * row.share:.3g}% ({100 * row.share_low:.3g} to {100 * row.share_high:.3g})"
        rows.append((f"{row.low:.3g}", f"{row.high:.3g}", f"{row.weight:,.0f}", f"{row.mean_p:.3g}", share))
    return format_columns(rows)


def format_recalibration(content: Mapping[str, Any], record: Record) -> list[str]:
    """Format the calibrated scorer; content: of the field recalibration of scorer.json."""
    trained = record.scorer
    assert trained is not None
    boundary, level = content["boundary"], content.get("ceiling")
    factor, ceiling = ("", []) if level is None else (f"{level:.3f} ", [f"  {ceiling_words(level)}"])
    if trained.matcher:
        weight, bias = content["weight"], content["bias"] + CANDIDATE * content["weight"]
        return [
            f"probability fitted to {content['labels']:,} labels, {content['matches']:,} of them matches: "
            f"{factor}sigmoid({weight:.3f} p {bias:+.3f}), "
            + ("no boundary" if boundary is None else f"boundary at p = {trained.shown(boundary):.4f}"),
            *ceiling,
            "how often pairs match, by the fitted probability, among the same labels:",
        ]
    return [
        f"scorer fitted to {content['labels']:,} labels, {content['matches']:,} of them matches: p = "
        f"{factor}sigmoid({content['weight']:.3f} cosine {content['bias']:+.3f}), "
        + ("no boundary" if boundary is None else f"boundary {boundary:.4f}"),
        *ceiling,
        f"  as trained: sigmoid({trained.weight:.3f} cosine {trained.bias:+.3f}), boundary {trained.boundary:.4f}",
        "how often pairs match, by the fitted p, among the same labels:",
    ]


def format_threshold(content: Mapping[str, Any], scorer: Scorer | None) -> str:
    """Format a chosen threshold; content: as `choose_threshold` returns it."""
    precision, within = content["precision"], content["recall_of_ranked"]
    if content["cosine"] is None or precision is None:
        return f"{content['rule']}: no threshold among the labelled pairs reaches it"
    share = "" if within is None else f", {100 * within['value']:.1f}% of the matches among the ranked pairs"
    interval = f"95%: {100 * precision['low']:.1f} to {100 * precision['high']:.1f}"
    value = f"precision {100 * precision['value']:.1f}% ({interval})"
    words = f"cosine >= {content['cosine']:.6f}"
    if scorer is not None and scorer.matcher:
        words = scorer.threshold_words(content["cosine"])
    return f"{content['rule']}: {words}, {value}{share}"


def parse_precision_rules(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Parse the rules of `threshold_for`; BadOption for any but precision=P."""
    rules = tuple(map(parse_rule, texts))
    for rule in rules:
        if rule.kind != "precision":
            name = option("threshold_for", rule)
            raise BadOption(f"{name}: an audit does not know the recall over all pairs; give precision=P")
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
        **({} if cosine is None or scorer is None or not scorer.matcher else {"p": scorer.shown(cosine)}),
        "logit": None if cosine is None or scorer is None else float(scorer.logit(np.array([cosine]))[0]),
        "precision": None if at is None or at.precision is None else at.precision.as_dict(),
        "recall": None,
        "recall_of_ranked": None if at is None or at.recall_of_reach is None else at.recall_of_reach.as_dict(),
        "split": record.asked.split,
        "pairs": audit.total,
        "source": "audit",
        "labels": int(np.isin(audit.labels, (NO, YES)).sum()),
    }
