"""Runs whose figures are made up, so that one or another of their models is the best."""

import json
from collections.abc import Sequence
from pathlib import Path

from al_ray.storage.files import read_json, write_json


def measure(
    run: Path, rounds: Sequence[float], untrained: float | None = None, split: str = "dev", spread=0.0, encoder="e"
) -> Path:
    """Give the rounds of a run, and its untrained encoder, average precisions on a split.

    The replicates of a round are its AP, and the AP more and less `spread` in turn: the interval of a difference of two
    rounds with other spreads reaches so far to both sides. spread: of all models but the last round, of which it is 0.
    encoder: digest of the untrained encoder.
    """
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for number, (line, value) in enumerate(zip(lines, rounds, strict=True), start=1):
        line["average_precision"] = value
        path = run / f"round-{number:03d}" / "record.json"
        content = read_json(path, ["evaluations"])
        own = 0.0 if number == len(lines) else spread
        write_json(path, {**content, "evaluations": {split: evaluation(value, own)}})
        for weights in (run / f"round-{number:03d}" / "model",):
            weights.mkdir(exist_ok=True)
            if not list(weights.glob("*.safetensors")):
                (weights / "model.safetensors").touch()
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if untrained is not None:
        write_json(run / "untrained.json", {"encoder": encoder, "evaluations": {split: evaluation(untrained, spread)}})
    return run


def evaluation(value: float, spread: float) -> dict:
    """What record.json has of an evaluation, as far as a choice reads it."""
    replicates = [value, value + spread, value - spread] * 40
    interval = {"value": value, "low": value, "high": value}
    counts = {"exact": True, "positives": 9, "total_pairs": 99}
    figures = {"average_precision": interval, "average_precision_over_questions": interval}
    return {**figures, **counts, "replicates": replicates}
