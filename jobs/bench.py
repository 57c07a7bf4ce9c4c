"""Speed and memory, as ratios measured in one run, so that a machine's noise cancels: python -m jobs.bench search

A benchmark is a dataclass of options with a method `figures`, in its own file; KINDS names them all.
"""

import os

# Read as the libraries are loaded. A thread that waits by spinning takes the core from the one that is measured.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Ray's workers would give way to whatever else computes, and this process, which they are compared with, would not.
os.environ.setdefault("RAY_worker_niceness", "0")

from pathlib import Path

from al_ray.data.files import refuse_folder, write_json
from jobs.bench_encode import Encode
from jobs.bench_evaluate import Evaluate
from jobs.bench_figures import Figure
from jobs.bench_memory import Memory
from jobs.bench_search import Search
from jobs.entry import aligned, job, options

KINDS = Encode | Search | Memory | Evaluate


def main() -> None:
    """Measure, print, write."""
    asked: Encode | Search | Memory | Evaluate = options(
        KINDS, "bench", "Speed and memory, as ratios measured in one run."
    )
    if asked.out is not None:
        refuse_folder("--out", asked.out)
    figures = asked.figures()
    print(table(figures))
    if asked.out is not None:
        write(asked.out, figures)


def table(figures: list[Figure]) -> str:
    """A line a figure: the median of its values, the least, the greatest, and what is asked of it."""
    rows = [["figure", "median", "least", "most", "asked"]]
    for figure in figures:
        numbers = [f"{value:,.4g}" for value in (figure.median, min(figure.values), max(figure.values))]
        rows.append([figure.name, *numbers, figure.asked])
    return aligned(rows)


def write(out: Path, figures: list[Figure]) -> None:
    """The medians, by name."""
    write_json(out, {figure.name: figure.median for figure in figures})


if __name__ == "__main__":
    job(main)
