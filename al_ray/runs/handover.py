"""Which model of a run folder match, serve, export and load_model take: by the figures that are on disk.

Nothing is measured for it. Figures, the first that there are: average precision over all pairs of dev, or, in a run
that measured train alone, of train; estimates from labels of drawn dev pairs (--dev-labels). Those of test are not
looked at, so that test stays unseen. An earlier round counts only while its model is on disk.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.encoder import family_of
from al_ray.core.errors import BadFile, BadOption
from al_ray.metrics.average_precision import Estimate
from al_ray.metrics.bootstrap import Replicates
from al_ray.metrics.error_examples import main_split
from al_ray.metrics.handover import (
    LAST,
    Choice,
    Interval,
    Measured,
    MeasuredModel,
    RoundName,
    choose_by_intervals,
    choose_by_precision,
)
from al_ray.runs.candidate_figures import candidate_figures
from al_ray.runs.dev_labels import ESTIMATE, round_of
from al_ray.runs.round_metrics import read_lines
from al_ray.runs.round_models import weight_folders
from al_ray.runs.run_state import bound_config, last_round
from al_ray.runs.untrained_figures import read_untrained
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath

COMPARED: dict[str, Measured] = {"dev": "dev", "train": "train"}
"""Splits whose figures choose a model."""
DAMAGED = KeyError, TypeError, ValueError, AttributeError, IndexError
Stored = Mapping[str, Any]


def choose_model(run: StoragePath, asked: RoundName = None) -> Choice:
    """Choose the model of a run that is handed over.

    asked: the number of a round, or "last"; None for the best by evidence, the last round where there is none.
    BadOption if the run has no complete round, or not this one; BadFile if figures are damaged.
    """
    config, last = bound_config(run), last_round(run)
    if not last:
        raise BadOption(f"{run} has no complete round, and so no model; run it first (`al_ray.run`)")
    if asked is None:
        return _by_evidence(run, config, last)
    number = last if asked == LAST else asked
    # A program may give anything.
    if type(number) is not int or not 0 <= number <= last:
        raise BadOption(
            f"round {number}: {run} has the complete rounds 1 to {last}; give one of these, 0 for the untrained "
            "encoder, or last"
        )
    return Choice(number, last, "given")


def _by_evidence(run: StoragePath, config: RunConfig, last: int) -> Choice:
    lines, split = read_lines(run)[:last], main_split(config.evaluation.splits)
    if split in COMPARED and len(lines) == last and lines[-1]["average_precision"] is not None:
        return choose_by_precision(_measured_models(run, config, lines, split), COMPARED[split])
    estimates = [(number, one) for number in range(1, last + 1) if (one := _estimate(run, number)) is not None]
    if estimates and estimates[-1][0] == last:
        return choose_by_intervals([one for one in estimates if one[0] == last or _on_disk(run, one[0])])
    return Choice(last, last, "uncompared")


def _measured_models(run: StoragePath, config: RunConfig, lines: Sequence[Stored], split: str) -> list[MeasuredModel]:
    """Return the models of a run with their average precision on a split; those no better than the last without gain.

    lines: of metrics.jsonl.
    """
    now, untrained = lines[-1], read_untrained(run).get(split)
    models = [MeasuredModel(now["round"], now["average_precision"])]
    for line in lines[:-1]:
        value, number = line["average_precision"], line["round"]
        if value is None:
            continue
        gain = None
        if value > now["average_precision"] and _on_disk(run, number):
            gain = paired_gain(_evaluation(run, number, split), _evaluation(run, now["round"], split), run)
        models.append(MeasuredModel(number, value, gain))
    # Weights that are random before they are trained are no model without labels.
    if not family_of(config.encoder).pretrained:
        return models
    if untrained is not None:
        value = precision_of(untrained, run)
        gain = None
        if value >= now["average_precision"]:
            gain = paired_gain(untrained, _evaluation(run, now["round"], split), run)
        models.append(MeasuredModel(0, value, gain))
    elif split in (found := candidate_figures(now)):
        # Of an earlier version, which measured the cosine beside a matcher. It is that of the untrained encoder unless
        # that was trained, too.
        alone = found[split].untrained if config.trains_encoder else found[split].cosine
        models += [] if alone is None else [MeasuredModel(0, alone)]
    return models


def _evaluation(run: StoragePath, number: int, split: str) -> Stored:
    """Return the evaluation of a round on a split, as record.json has it."""
    path = run / f"round-{number:03d}" / "record.json"
    evaluations = read_json(path, {"evaluations": dict})["evaluations"]
    if not isinstance(evaluations.get(split), dict):
        raise BadFile(f"{path} has no evaluation of {split}, though metrics.jsonl has; restore it")
    return evaluations[split]


def precision_of(evaluation: Stored, run: StoragePath) -> float:
    """Return the average precision of a stored evaluation, in [0, 1]; BadFile if it has none. run: for the error."""
    try:
        return float(evaluation["average_precision"]["value"])
    except DAMAGED as error:
        raise BadFile(f"{run}: a stored evaluation has no average precision ({error!r}); restore its files") from error


def paired_gain(one: Stored, other: Stored, run: StoragePath) -> Estimate | None:
    """Return AP of one evaluation less that of another on the same pairs, with its 95% interval over queries, paired.

    None where an earlier version wrote no replicates, or where too few queries have a match.
    """
    try:
        if any(not each.get("replicates") or not each["average_precision_over_questions"] for each in (one, other)):
            return None
        first, second = (
            Replicates(
                precision_of(each, run), np.array([np.nan if v is None else v for v in each["replicates"]], dtype=float)
            )
            for each in (one, other)
        )
        return (first - second).interval
    except DAMAGED as error:
        raise BadFile(f"{run}: the replicates of two rounds cannot be compared ({error!r}); restore them") from error


def _estimate(run: StoragePath, number: int) -> Interval | None:
    """Return the 95% interval of AP over all pairs of dev that dev labels give for a round; None without one."""
    path = round_of(run, number) / ESTIMATE
    if not path.exists():
        return None
    try:
        found = read_json(path, ["average_precision"])["average_precision"]
        return None if found is None else (float(found["low"]), float(found["high"]))
    except DAMAGED as error:
        raise BadFile(f"{path} is not the estimate of a round ({error!r}); restore it") from error


def _on_disk(run: StoragePath, number: int) -> bool:
    """Return whether a round still has its weights, and those of the encoder of its matcher."""
    return all(list(folder.glob("*.safetensors")) for folder in weight_folders(run / f"round-{number:03d}"))
