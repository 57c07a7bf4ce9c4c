"""untrained.json: what the encoder is worth without any label, measured on the splits of a run before its first round.

{"encoder": digest of its weights, "evaluations": {split: as in record.json}}

Each line of metrics.jsonl has its figures on the main split as `untrained`, and AP of the round less that of the
untrained encoder as `gain_over_untrained`, with its 95% interval by a paired bootstrap over queries. Both are null
where it was not measured: by an earlier version, or in a run without measured splits.
"""

from collections.abc import Mapping
from typing import Any

from al_ray.metrics.error_examples import main_split
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.round_comparison import GAIN
from al_ray.runs.round_metrics import content_of, gain_over
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath

FILE, UNTRAINED, GAIN_OVER_UNTRAINED = "untrained.json", "untrained", "gain_over_untrained"
SHOWN = "average_precision", "precision_at_recall_20"
Stored = dict[str, Any]
"""Split -> evaluation of the untrained encoder, as record.json has those of a round."""


def write_untrained(run: StoragePath, encoder: str, evaluations: Mapping[str, Evaluation]) -> None:
    """Write what the untrained encoder, with this digest, is worth on each split."""
    content = {split: content_of(one) for split, one in evaluations.items()}
    write_json(run / FILE, {"encoder": encoder, "evaluations": content})


def read_untrained(run: StoragePath) -> Stored:
    """Return the evaluations of the untrained encoder; {} if there are none."""
    path = run / FILE
    return read_json(path, {"encoder": str, "evaluations": dict})["evaluations"] if path.exists() else {}


def untrained_digest(run: StoragePath) -> str | None:
    """Return the digest of the weights of the untrained encoder that was measured; None if none was."""
    path = run / FILE
    return read_json(path, {"encoder": str, "evaluations": dict})["encoder"] if path.exists() else None


def beside_untrained(stored: Stored, evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return what a line of metrics.jsonl says of the untrained encoder beside the evaluations of a round."""
    split = main_split(evaluations)
    if split not in stored:
        return {UNTRAINED: None, GAIN_OVER_UNTRAINED: None}
    figures = {name: stored[split][name]["value"] for name in SHOWN}
    return {UNTRAINED: figures, GAIN_OVER_UNTRAINED: gain_over(stored, evaluations)[GAIN]}


def untrained_line(line: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a tracker logs before the first round: the figures without any label; None if there are none."""
    figures = line.get(UNTRAINED)
    return None if figures is None else {"round": 0, "labels": 0, **figures}


def compared_with_untrained(line: Mapping[str, Any]) -> str | None:
    """Describe the gain of a round's labels over no labels; None if it was not measured."""
    figures, now, gain = line.get(UNTRAINED), line["average_precision"], line.get(GAIN_OVER_UNTRAINED)
    if figures is None or now is None:
        return None
    before = figures["average_precision"]
    points = f"{100 * (now - before):+.1f} points"
    if gain is not None:
        points += f", 95%: {100 * gain['low']:+.1f} to {100 * gain['high']:+.1f}"
    compared = f"AP {100 * now:.1f}% with {line['labels']:,} labels, {100 * before:.1f}% without any ({points})"
    if better_than_untrained(line):
        return compared + _of_neighbourhood(line)
    if now > before:
        return f"{compared}: the labels may have brought nothing{_of_neighbourhood(line)}"
    return f"{compared}: the labels have brought nothing so far; the untrained encoder ranks as well or better"


def _of_neighbourhood(line: Mapping[str, Any]) -> str:
    """Say that a part of the difference is of the neighbourhood of scores, if the round has one; else nothing."""
    share = line.get("neighbourhood")
    if not share:
        return ""
    return (
        f"; without labels it is the plain cosine, so the neighbourhood (a = {share:g}), which needs none, helps, too"
    )


def better_than_untrained(line: Mapping[str, Any]) -> bool:
    """Return whether AP of a round is above that without labels, and so is its whole interval if there is one."""
    gain = line.get(GAIN_OVER_UNTRAINED)
    return line["average_precision"] > line[UNTRAINED]["average_precision"] and (gain is None or gain["low"] > 0)
