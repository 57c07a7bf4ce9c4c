"""What came of a grid: a row a run, and a table of means and spreads over seeds. Runs that failed stay in both."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Literal

from al_ray.core.grid import Cell
from al_ray.core.runs import Method

Standing = Literal["complete", "failed", "incomplete"]
FIGURES = ("average_precision", "precision_at_recall_20")
HEADS = ("strategy", "encoder", "budget", "runs", "labels", "positives", "AP %", "P@R20 %", "seconds")


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: the lines of its complete rounds, evaluations of the last by split, and how it ended.

    error: the first line of why it failed; "" where it did not.
    """

    cell: Cell
    lines: tuple[Mapping[str, Any], ...]
    evaluations: Mapping[str, Mapping[str, Any]]
    standing: Standing
    error: str = ""

    @property
    def row(self) -> dict[str, Any]:
        """Its row of summary.parquet; figures are those of its last complete round, None where there is none."""
        last: Mapping[str, Any] = self.lines[-1] if self.lines else {}
        split = {
            f"{figure}_{name}": self.evaluations.get(name, {}).get(figure, {}).get("value")
            for name in self.cell.config.evaluation.splits
            for figure in FIGURES
        }
        return {
            **self.cell.as_dict(),
            "standing": self.standing,
            "error": self.error,
            "rounds": len(self.lines),
            **{name: last.get(name) for name in ("labels", "positives", *FIGURES)},
            **split,
            "seconds": sum(sum(line["seconds"].values()) for line in self.lines),
        }


def table(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Rows of words, the head first: a configuration each, with mean and spread over the seeds whose run is complete.

    runs: how many are complete, of how many. A spread is the standard deviation of a sample, from two runs on.
    """
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.cell.group, []).append(outcome)
    splits = outcomes[0].cell.config.evaluation.splits if outcomes else ()
    extra = [name for name in splits if name != _headline(splits)]
    rows: list[tuple[str, ...]] = [(*HEADS, *(f"AP % {name}" for name in extra))]
    for group in groups.values():
        config, whole = group[0].cell.config, [one.row for one in group if one.standing == "complete"]
        rows.append(
            (
                Method(config.strategy).words(),
                config.encoder,
                f"{group[0].cell.labels:,}",
                f"{len(whole)} of {len(group)}",
                *(spread([row[name] for row in whole], 1, 0) for name in ("labels", "positives")),
                *(spread([row[name] for row in whole], 100, 1) for name in FIGURES),
                spread([row["seconds"] for row in whole], 1, 0),
                *(spread([row[f"average_precision_{name}"] for row in whole], 100, 1) for name in extra),
            )
        )
    return rows


def spread(values: Sequence[float | None], unit: float, digits: int) -> str:
    """Mean and standard deviation as words; "-" where there is nothing, and the mean alone where all are one."""
    known = [unit * value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return "-"
    mean = f"{fmean(known):,.{digits}f}"
    return mean if max(known) == min(known) else f"{mean} ± {stdev(known):,.{digits}f}"


def unfinished(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each run that is not complete: what is there of it, and why there is no more."""
    return [
        f"{one.cell.name}: {one.standing} after round {len(one.lines)} of {len(one.cell.config.batches)}"
        + (f": {one.error}" if one.error else "")
        for one in outcomes
        if one.standing != "complete"
    ]


@dataclass(frozen=True)
class Sitting:
    """How long a start of a grid took, in seconds: from its first actor to its last, what came before the trials in
    it, and what the stages of the rounds that were completed in it took.
    """

    wall: float
    shared: float
    stages: float
    concurrent: int

    @property
    def overhead(self) -> float | None:
        """Share of the time of all places beyond what the stages of the runs took; None without a complete round."""
        return self.wall * self.concurrent / self.stages - 1 if self.stages else None

    def __str__(self) -> str:
        overhead = "" if self.overhead is None else f", {100 * self.overhead:+.1f}%"
        return (
            f"{self.wall:,.0f} s x {self.concurrent} at a time, of them {self.shared:,.0f} s for what all runs share; "
            f"the stages of the rounds took {self.stages:,.0f} s{overhead}"
        )


def markdown(outcomes: Sequence[Outcome], told: Sequence[str]) -> str:
    """summary.md: the table, the runs that are not complete, and what else is to be said, a line each."""
    head, *rows = table(outcomes)
    lines = ["# Grid", "", *_framed(head, rows), ""]
    missing = unfinished(outcomes)
    if missing:
        lines += ["## Runs that are not complete", "", *(f"- {line}" for line in missing), ""]
    return "\n".join([*lines, *(f"- {line}" for line in told)]) + "\n"


def _framed(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---", "---", *["---:"] * (len(head) - 2)], *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _headline(splits: Sequence[str]) -> str:
    return "dev" if "dev" in splits else splits[0] if splits else ""
