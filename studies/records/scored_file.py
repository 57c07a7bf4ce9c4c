"""Figures over all pairs of a task by the scores that another tool wrote for some of them."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task
from studies.records.run_scores import read_truth
from studies.records.stated_files import pairs_of_ids


@dataclass(frozen=True)
class ScoredPairs:
    """AP and best F1 over all pairs of train by the scores of another tool (studies/other_tools/*_records.py)."""

    task: Path
    """Task folder whose labels are complete."""
    scores: Path
    """CSV file with left_id, right_id and score. All pairs that it does not have are equal, below those that it has."""
    labels: Path | None = None
    """CSV file with left_id and right_id of the labelled pairs, in the order of labelling, for AP over the others."""
    count: int = 0
    """How many of --labels were used."""
    out: Path | None = None
    """JSON file for the figures."""

    def results(self) -> dict[str, float]:
        """Return AP over all pairs and over those without a label, and best F1, plain and one-to-one, as shares."""
        task = read_task(self.task)
        truth, split = read_truth(task, "train"), task.split("train")
        (lefts, rights), rows = self._places(task, self.scores)
        scores = np.full(truth.matches.shape, -np.inf)
        scores[lefts, rights] = [float(row["score"]) for row in rows]
        scores[scores == -np.inf] = scores[scores > -np.inf].min(initial=0.0) - 1
        labelled = np.zeros(scores.shape, dtype=np.bool_)
        if self.labels is not None:
            (lefts, rights), _ = self._places(task, self.labels)
            labelled[lefts[: self.count], rights[: self.count]] = True
        listed = scores > scores.min()
        return {
            "AP": truth.average_precision(scores),
            "AP, unlabelled": truth.without(labelled).average_precision(scores),
            "best F1": truth.best_f1(scores).f1,
            "one-to-one": truth.best_f1(scores, one_to_one=True).f1,
            "recall of scored pairs": float((truth.matches & listed).sum() / max(1, len(split.positives))),
        }

    def _places(self, task: Task, path: Path) -> tuple[tuple[Rows, Rows], list[dict[str, str]]]:
        """Return the rows (n,) and columns (n,) in the matrix of train of the pairs of a CSV file, and its lines."""
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        space = task.split("train").space
        pairs = pairs_of_ids(path, task, [line["left_id"] for line in lines], [line["right_id"] for line in lines])
        return (np.searchsorted(space.left, pairs[:, 0]), np.searchsorted(space.right, pairs[:, 1])), lines


def format_scored(results: dict[str, float]) -> str:
    """Format a line for each figure, in percent."""
    return "\n".join(f"{name:24}{100 * value:6.1f}" for name, value in results.items())
