"""What a tracker is, which shows runs elsewhere, and the figures of rounds as trackers get them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from al_ray.runs.candidate_figures import candidate_scalars
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.untrained_figures import untrained_line

Track = Callable[[RunFolder, str], None]
"""Writes what a tracker lacks of a run: its complete rounds, and at its end the last model if the tracker takes models.

The text is a name that runs of a grid have in common if only their seeds differ; "" for a run by itself. It is called
after every round and at the end of each session. When a service cannot be reached it warns, and the run goes on.
"""


def figures_after(lines: Sequence[Mapping[str, Any]], logged: int) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the labels and the numbers of each round after the first `logged`; before round 1, those without labels.

    lines: complete rounds, of metrics.jsonl. seconds/train is the time of the stage train.
    """
    without = None if logged else untrained_line(lines[0])
    for line in [*([] if without is None else [{**without, "seconds": {}}]), *lines[logged:]]:
        seconds = {f"seconds/{stage}": value for stage, value in line["seconds"].items()}
        numbers = {**line, **seconds, **candidate_scalars(line)}
        yield line["labels"], {name: value for name, value in numbers.items() if isinstance(value, int | float)}
