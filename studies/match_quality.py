"""Precision and recall in truth of what jobs.match wrote about a split of a task, and of its clusters."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from al_ray.apps.matching.clusters.quality import b_cubed, pairwise_f1
from al_ray.core.errors import BadOption
from al_ray.core.graph import components
from al_ray.core.pairs import Rows, as_pairs, is_in
from al_ray.core.task import Corpus, Split, Task
from al_ray.core.text_table import format_columns
from al_ray.datasets.task_folder import read_task
from al_ray.storage.files import read_json, read_parquet


@dataclass(frozen=True)
class Matches:
    """Precision and recall in truth of what jobs.match wrote about a split of a task, and of its clusters."""

    matches: Path
    """Folder that jobs.match --left TASK --split SPLIT wrote."""
    task: Path
    """The task, whose positives are all matching pairs."""
    out: Path | None = None
    """JSON file for the figures."""

    def results(self) -> dict[str, dict[str, float]]:
        """Return precision, recall and F1, as shares: of the matches, and of clusters of one collection.

        Pairwise: over pairs of texts that share a cluster. B-cubed: mean over texts.
        """
        record = read_json(self.matches / "match.json", ["split", "task_digest"])
        task = read_task(self.task)
        if record["task_digest"] != task.digest:
            raise BadOption(f"{self.matches} has matches of another task than {self.task}; give that task")
        split = task.measurable(record["split"])
        found = read_parquet(self.matches / "matches.parquet")
        pairs = as_pairs(
            _rows(task.left, found["left_id"].to_pylist()), _rows(task.right, found["right_id"].to_pylist())
        )
        right = int(is_in(split.space.keys(pairs), split.positive_keys).sum())
        results = {"matches": quality_figures(right, len(pairs), len(split.positives))}
        if task.symmetric:
            results |= self._of_clusters(task, split)
        return results

    def _of_clusters(self, task: Task, split: Split) -> dict[str, dict[str, float]]:
        """Compare the clusters with the components of the positives."""
        table = read_parquet(self.matches / "clusters.parquet")
        predicted = table["cluster"].to_numpy()
        true = components(len(task.left), split.positives)[_rows(task.left, table["id"].to_pylist())]
        both = {"clusters, pairwise": pairwise_f1(predicted, true), "clusters, B-cubed": b_cubed(predicted, true)}
        return {name: {"precision": one.precision, "recall": one.recall, "f1": one.f1} for name, one in both.items()}


def format_quality(results: dict[str, dict[str, float]]) -> str:
    """Format one line for the matches and for each figure of clusters, in percent."""
    rows = [["", "precision %", "recall %", "F1 %"]]
    for name, one in results.items():
        rows.append([name, *(f"{100 * one[figure]:.1f}" for figure in ("precision", "recall", "f1"))])
    return format_columns(rows)


def quality_figures(right: int, found: int, positives: int) -> dict[str, float]:
    """Return precision, recall and F1, as shares, of so many matches of which so many are right."""
    unknown = float("nan")
    return {
        "found": found, "right": right, "positives": positives,
        "precision": right / found if found else unknown, "recall": right / positives if positives else unknown,
        "f1": 2 * right / (found + positives) if found + positives else unknown,
    }  # fmt: skip


def _rows(corpus: Corpus, ids: list[str]) -> Rows:
    row = {name: number for number, name in enumerate(corpus.ids)}
    return np.array([row[name] for name in ids], dtype=np.int64)
