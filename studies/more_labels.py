"""How well rules guess what more labels bring, on curves of tasks that they were not fitted on: docs/more-labels.md."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.text_table import format_columns
from al_ray.metrics.more_labels import above_untrained, fit_rule, guess_more_labels, power_between
from al_ray.runs.handover import precision_of
from al_ray.runs.round_metrics import read_lines
from al_ray.runs.run_state import bound_config, last_round
from al_ray.runs.untrained_figures import read_untrained
from al_ray.storage.files import read_json

LABELLED, OTHER = "train", "dev, test"
ALMOST = 0.995
"""Average precision from which on there is nothing to guess."""


@dataclass(frozen=True)
class Case:
    """A stretch of a learning curve: what a rule sees, up to `labels` labels, and `then`, the AP of `target` labels.

    seen: labels and average precision in [0, 1] of the rounds so far. texts: LABELLED or OTHER. untrained: average
    precision without labels, None if that is not known.
    """

    task: str
    texts: str
    seen: tuple[tuple[int, float], ...]
    target: int
    then: float
    untrained: float | None = None

    @property
    def labels(self) -> int:
        """How many labels there are."""
        return self.seen[-1][0]

    @property
    def now(self) -> float:
        """Average precision so far."""
        return self.seen[-1][1]

    @property
    def power(self) -> float:
        """Return b that would have been right."""
        return power_between(self.labels, self.now, self.target, self.then)

    @property
    def continuing(self) -> float:
        """Guess that AP goes on in the logarithm of labels as it did in the rounds so far; never below now."""
        if len(self.seen) < 2:
            return self.now
        labels, values = np.array(self.seen).T
        slope = float(np.polyfit(np.log(labels), values, 1)[0])
        return min(1.0, self.now + max(0.0, slope) * float(np.log(self.target / self.labels)))


@dataclass(frozen=True)
class Guess:
    """How well rules guess what more labels bring, on curves of tasks that they were not fitted on."""

    runs: tuple[Path, ...]
    """Run folders with measured splits."""
    tasks: tuple[str, ...] = ()
    """Task of each run, in their order; runs of one task are left out together. Default: the names of task folders."""
    labels: tuple[int, ...] = (60, 300)
    """Numbers of labels after which is guessed; a run is used where it has a round of that many."""
    targets: tuple[int, ...] = (300, 1000)
    """Numbers of labels for which is guessed."""
    out: Path | None = None
    """JSON file for the figures."""

    def results(self) -> dict[str, Any]:
        """Return the rule fitted on all tasks, by kind of texts, and rows of its record on each task, left out.

        Errors are means over cases of the absolute difference of average precision; right: share of cases whose AP lies
        in the range; width: mean width of the range.
        """
        cases, found = list(self._cases()), dict[str, Any]()
        for texts in (LABELLED, OTHER):
            own = [one for one in cases if one.texts == texts]
            if len({one.task for one in own}) < 2:
                continue
            found[texts] = _summary(own)
        if not found:
            raise BadOption("--runs has no curves of two tasks or more with such numbers of --labels and --targets")
        return found

    def _cases(self) -> Iterator[Case]:
        if self.tasks and len(self.tasks) != len(self.runs):
            raise BadOption(f"--tasks names {len(self.tasks)} tasks for {len(self.runs)} of --runs; name one for each")
        for number, run in enumerate(self.runs):
            task = self.tasks[number] if self.tasks else Path(bound_config(run).task).name
            untrained = {split: precision_of(one, run) for split, one in read_untrained(run).items()}
            for split, curve in curves_of(run).items():
                texts, by_labels = LABELLED if split == "train" else OTHER, dict(curve)
                for labels, target in product(self.labels, self.targets):
                    if labels >= target or not {labels, target} <= set(by_labels):
                        continue
                    # A curve that has reached the top, or has not left the bottom, has no b.
                    ends = by_labels[labels], by_labels[target]
                    if min(ends) > 0 and max(ends) < ALMOST:
                        seen = tuple(point for point in curve if point[0] <= labels)
                        yield Case(task, texts, seen, target, by_labels[target], untrained.get(split))


COLUMNS = "task", "labels", "target", "guesses", "as now", "mean gain", "continuing", "rule", "right", "width"


def curves_of(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the learning curve of each measured split: labels and average precision in [0, 1] of each round."""
    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for line in read_lines(run)[: last_round(run)]:
        path = run / f"round-{line['round']:03d}" / "record.json"
        for split, one in read_json(path, {"evaluations": dict})["evaluations"].items():
            curves[split].append((line["labels"], precision_of(one, run)))
    return curves


def _summary(cases: Sequence[Case]) -> dict[str, Any]:
    """Return the rule fitted on all cases, and its record: each case by the rule fitted on the other tasks."""
    rows = [_errors(one, [other for other in cases if other.task != one.task]) for one in cases]
    by_row: dict[tuple[str, int, int], list[list[float]]] = defaultdict(list)
    for one, row in zip(cases, rows, strict=True):
        by_row[one.task, one.labels, one.target].append(row)
    rule, tasks = fit_rule(_powers(cases)), sorted({one.task for one in cases})
    # Each task counts alike, however many runs it has.
    means = [np.mean([row for one, row in zip(cases, rows, strict=True) if one.task == task], axis=0) for task in tasks]
    return {
        "usual": rule.usual,
        "most": rule.most,
        "right": sum(int(row[-2]) for row in rows),
        "guesses": len(rows),
        "mean of tasks": dict(zip(COLUMNS[4:], np.mean(means, axis=0).tolist(), strict=True)),
        "rows": [
            dict(zip(COLUMNS, (*key, len(some), *np.mean(some, axis=0).tolist()), strict=True))
            for key, some in sorted(by_row.items())
        ],
    }


def _powers(cases: Sequence[Case]) -> dict[str, list[float]]:
    """Return b by task, of cases whose labels have brought something so far: the others are not guessed by it."""
    powers: dict[str, list[float]] = defaultdict(list)
    for one in cases:
        if above_untrained(one.now, one.untrained):
            powers[one.task].append(one.power)
    if not powers:
        raise BadOption("--runs has tasks whose labels brought nothing; give runs of more tasks")
    return powers


def _errors(case: Case, others: Sequence[Case]) -> list[float]:
    """Return the errors of the rules, fitted on other tasks; whether the range was right; and its width."""
    rule = fit_rule(_powers(others))
    guess = guess_more_labels(case.labels, case.now, rule, case.target, case.untrained)
    gains: dict[str, list[float]] = defaultdict(list)
    for one in [one for one in others if (one.labels, one.target) == (case.labels, case.target)] or others:
        gains[one.task].append(one.then - one.now)
    gain = float(np.mean([np.mean(values) for values in gains.values()]))
    guesses = case.now, min(1.0, case.now + gain), case.continuing, guess.estimate
    right = guess.low <= case.then <= guess.high
    return [*(abs(one - case.then) for one in guesses), float(right), guess.high - guess.low]


def format_guesses(results: dict[str, Any]) -> str:
    """Format the record as tables: errors and widths in points, right in percent."""
    lines = list[str]()
    for texts, one in results.items():
        lines.append(
            f"{texts}: b usually {one['usual']:.3f}, at most {one['most']:.3f}; right for {one['right']} of "
            f"{one['guesses']} guesses on tasks left out"
        )
        rows = [[*COLUMNS]]
        for row in one["rows"]:
            rows.append([row["task"], *(f"{row[name]:,}" for name in COLUMNS[1:4]), *_percent(row)])
        rows.append(["mean of tasks", "", "", "", *_percent(one["mean of tasks"])])
        lines.append(format_columns(rows))
    return "\n".join(lines)


def _percent(row: Mapping[str, float]) -> list[str]:
    return [f"{100 * row[name]:.1f}" for name in COLUMNS[4:]]
