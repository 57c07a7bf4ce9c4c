"""Thresholds of a model by rules, chosen on an evaluation of dev and written beside the model."""

from collections.abc import Sequence
from typing import Any

from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.rng import generator
from al_ray.metrics.audit.guarantee import MeldedLimits
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.guaranteed_thresholds import choose_promised
from al_ray.metrics.thresholds import CHOSEN_ON, ChosenThreshold, Rule, choose_thresholds, parse_rule
from al_ray.runs.run_folder import RunFolder

__all__ = ["CHOSEN_ON", "ChosenThreshold", "Rule", "choose_all", "keep_thresholds", "parse_rule"]


def choose_all(rules: Sequence[Rule], evaluation: Evaluation) -> list[ChosenThreshold]:
    """Choose the threshold of each rule; BadOption if one with a guarantee cannot be promised."""
    chosen: list[ChosenThreshold] = []
    for rule in rules:
        if rule.guarantee is None:
            chosen += choose_thresholds([rule], evaluation)
        else:
            # The same counts have the same limits, whatever the seed of the run.
            limits = MeldedLimits(generator(0, "evaluation-guarantee"))
            promised = choose_promised(rule, evaluation, limits)
            if promised is None:
                raise BadOption(_unpromised(rule, evaluation))
            chosen.append(promised)
    return chosen


def _unpromised(rule: Rule, evaluation: Evaluation) -> str:
    """Say why no threshold can be promised, and what to do."""
    none = f"{option('guarantee', rule.guarantee)}: no threshold can be promised for {rule.target}, as"
    # Recall is counted, because all matches of the split are known.
    if evaluation.exact or rule.kind == "recall":
        return f"{none} none reaches it among the pairs of {evaluation.split}; give another rule, or train the model on"
    sampled = sum(stratum.size for stratum in evaluation.strata)
    return f"{none} only {sampled:,} negatives were sampled; give `exact`, to count all, or a larger `random_pairs`"


def keep_thresholds(
    thresholds: Sequence[ChosenThreshold], evaluation: Evaluation, folder: RunFolder, number: int
) -> list[dict[str, Any]]:
    """Write thresholds and the calibration of an evaluation to a round's scorer.json; return them as JSON values.

    number: of a round from 1, whose model has a scorer. evaluation: of that model, with its reliability.
    """
    scorer = folder.model(number).scorer
    assert scorer is not None
    assert evaluation.reliability is not None
    content = [one.as_dict(scorer, evaluation) for one in thresholds]
    counts = {"source": evaluation.split, "split": evaluation.split, "pairs": evaluation.total_pairs}
    folder.keep_calibration(number, {"calibration": {**counts, **evaluation.reliability.as_dict()}}, content)
    return content
