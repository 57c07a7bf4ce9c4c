"""What `jobs.evaluate --heuristic` measures: stated pairs alone, of a run's round or of scores made elsewhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from al_ray.cluster.world import scored_stated
from al_ray.core.config import ClusterConfig, RunConfig
from al_ray.core.heuristics import Stated, figures
from al_ray.core.task import Task
from al_ray.data.files import write_json
from al_ray.data.run_folder import RunFolder
from al_ray.data.scores import read_stated
from al_ray.storage.places import Place
from jobs.progress import Progress

CHOSEN_ON = "dev"


def of_round(config: RunConfig, cluster: ClusterConfig, folder: RunFolder, split: str, number: int) -> dict[str, Any]:
    """A round's figures; its best thresholds are chosen on dev, if the task has stated pairs there."""
    scored = scored_stated(config, cluster, folder, splits_of(folder.task, split), number, Progress())
    # The untrained encoder gives cosines, none of which means p = 1/2.
    found = summed_up(scored, split, folder.task, 0.0 if number else None)
    return {"split": split, "round": number, **found}


def splits_of(task: Task, split: str) -> list[str]:
    """The splits to score: the one asked for, and the one that best thresholds are chosen on, if it states pairs."""
    dev = task.splits.get(CHOSEN_ON)
    there = dev is not None and bool(len(dev.positives) + len(dev.stated_negatives))
    return list(dict.fromkeys([split, CHOSEN_ON] if there else [split]))


def summed_up(scored: Mapping[str, Stated], split: str, task: Task, zero: float | None) -> dict[str, Any]:
    """The figures of a split; zero: the score where p = 1/2."""
    found = figures(scored[split], scored.get(CHOSEN_ON), not task.symmetric, zero)
    return {"split": split, **found, "thresholds_chosen_on": CHOSEN_ON if CHOSEN_ON in scored else None}


def of_file(path: Path) -> dict[str, Any]:
    """Figures of logits in a file; its best threshold is chosen on the same pairs."""
    pairs = read_stated(path)
    return {"scores": path.name, **figures(pairs, pairs, True, 0.0), "thresholds_chosen_on": path.name}


def told(found: dict[str, Any], out: Place | None) -> None:
    """Print the figures, and write them."""
    for name, value in found.items():
        share = isinstance(value, float) and not name.endswith("_threshold")
        print(f"{name} {f'{100 * value:.2f}%' if share else '-' if value is None else value}")
    if out is not None:
        write_json(out, found)
        print(f"wrote {out}")
