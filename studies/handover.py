"""What rules that choose a model of a run by dev would have handed over, by its figures on another split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.text_table import format_columns
from al_ray.metrics.handover import MeasuredModel, choose_by_precision
from al_ray.runs.handover import paired_gain, precision_of
from al_ray.runs.run_state import last_round
from al_ray.runs.untrained_figures import read_untrained
from al_ray.storage.files import read_json

Models = Sequence[MeasuredModel]


def highest(models: Models) -> int:
    """Return the round of the highest average precision; of equal ones the later."""
    return max(models, key=lambda one: (one.average_precision, one.round)).round


def last_or_untrained(models: Models) -> int:
    """Return the last round, or round 0 if its average precision is as high."""
    last = max(one.round for one in models)
    return highest([one for one in models if one.round == last or not one.round])


RULES: dict[str, Callable[[Models], int]] = {
    "the last round": lambda models: max(one.round for one in models),
    "the last or the untrained": last_or_untrained,
    "the highest on dev": highest,
    "the rule": lambda models: choose_by_precision(models, "dev").round,
}


@dataclass(frozen=True)
class Handover:
    """What rules that choose a model of a run by dev would have handed over, by its figures on another split."""

    runs: tuple[Path, ...]
    """Run folders that measured dev and the split of the truth, with untrained.json."""
    truth: str = "test"
    """Split whose average precision counts as the truth."""
    out: Path | None = None
    """JSON file for the figures."""

    def results(self) -> dict[str, dict[str, float]]:
        """Return the figures of each rule, over all ends: every run, taken as ended after each of its rounds.

        worse: share of ends at which the model is worse in truth than the untrained encoder. loss, largest: mean and
        largest average precision less than that of the best of all models so far. gain: mean above the last round.
        """
        found = {name: list[tuple[float, ...]]() for name in RULES}
        for run in self.runs:
            evaluations = self._evaluations(run)
            for end in range(1, len(evaluations)):
                models = _models(evaluations[: end + 1], run)
                truth = [precision_of(one[self.truth], run) for one in evaluations[: end + 1]]
                for name, rule in RULES.items():
                    own = truth[rule(models)]
                    found[name].append((own < truth[0], max(truth) - own, own - truth[end]))
        return {name: _summary(np.array(rows)) for name, rows in found.items()}

    def _evaluations(self, run: Path) -> list[dict[str, Any]]:
        """Return the evaluations by split of the untrained encoder and of each round."""
        rounds = [run / f"round-{number:03d}" / "record.json" for number in range(1, last_round(run) + 1)]
        every = [read_untrained(run), *(read_json(path, ["evaluations"])["evaluations"] for path in rounds)]
        if any(not {"dev", self.truth} <= set(one) for one in every):
            raise BadOption(f"{run} has not measured dev and {self.truth} in every round, and without labels")
        return every


def _models(evaluations: Sequence[dict[str, Any]], run: Path) -> list[MeasuredModel]:
    """Return the models of a run with their figures on dev; the last one is the last round."""
    dev = [one["dev"] for one in evaluations]
    last = precision_of(dev[-1], run)
    return [
        MeasuredModel(number, value, paired_gain(one, dev[-1], run) if value > last else None)
        for number, one in enumerate(dev)
        for value in [precision_of(one, run)]
    ]


def _summary(rows: np.ndarray) -> dict[str, float]:
    worse, loss, gain = rows.T
    return {
        "ends": len(rows), "worse": float(worse.mean()), "loss": float(loss.mean()), "largest": float(loss.max()),
        "gain": float(gain.mean()),
    }  # fmt: skip


def format_handover(results: dict[str, dict[str, float]]) -> str:
    """Format a line for each rule: shares in percent, average precisions in points."""
    rows = [["rule", "ends", "worse than round 0 %", "below the best", "largest", "above the last"]]
    for name, one in results.items():
        points = (100 * one[figure] for figure in ("worse", "loss", "largest", "gain"))
        rows.append([name, f"{one['ends']}", *(f"{value:.1f}" for value in points)])
    return format_columns(rows)
