"""Print and write what `jobs.evaluate --heuristic` measures: labelled pairs alone."""

from pathlib import Path
from typing import Any

from al_ray.datasets.tables.score_tables import read_scored_pairs
from al_ray.metrics.labelled_pairs import evaluate_labelled_pairs
from al_ray.storage.files import write_json
from al_ray.storage.uri import StoragePath


def of_file(path: Path) -> dict[str, Any]:
    """Figures of logits in a file; its best threshold is chosen on the same pairs."""
    pairs = read_scored_pairs(path)
    return {"scores": path.name, **evaluate_labelled_pairs(pairs, pairs, True, 0.0), "thresholds_chosen_on": path.name}


def told(found: dict[str, Any], out: StoragePath | None) -> None:
    """Print the figures, and write them."""
    for name, value in found.items():
        share = isinstance(value, float) and not name.endswith("_threshold")
        print(f"{name} {f'{100 * value:.2f}%' if share else '-' if value is None else value}")
    if out is not None:
        write_json(out, found)
        print(f"wrote {out}")
