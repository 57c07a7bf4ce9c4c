"""Measure speed and memory, as ratios within one run to cancel a machine's noise: python -m benchmarks search

A benchmark is a dataclass of options with a method `figures`, in its own file; KINDS lists all of them. Two have a
method `results` and tables of their own: `scale` measures growth with the texts, `serve` requests to jobs.serve.
"""

import os
from typing import Any

# The libraries read it when they load. A waiting thread that spins would take the core of the measured one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# By default Ray's workers have a lower priority than this process, with which they are compared.
os.environ.setdefault("RAY_worker_niceness", "0")

from al_ray.cli._shared.entry import parse_options, run_process
from al_ray.core.text_table import format_columns
from al_ray.storage.files import check_is_no_folder, write_json
from benchmarks.annotating import Annotate
from benchmarks.comparing import Compare
from benchmarks.encoding import Encode
from benchmarks.evaluating import Evaluate
from benchmarks.memory import Memory
from benchmarks.scaling import Scale, format_results
from benchmarks.searching import Search
from benchmarks.serving.load_test import Serve, format_load
from benchmarks.timing import Figure

KINDS = Encode | Search | Memory | Evaluate | Scale | Serve | Annotate | Compare


def main() -> None:
    """Run a benchmark, print its figures, and write them to --out."""
    benchmark: KINDS = parse_options(
        KINDS, "python -m benchmarks", "Speed and memory, as ratios measured in one run; growth."
    )
    if benchmark.out is not None:
        check_is_no_folder("--out", benchmark.out)
    content: Any
    if isinstance(benchmark, Serve):
        # It writes its file itself, run by run.
        print(format_load(*benchmark.results()))
        return
    if isinstance(benchmark, Scale):
        content = benchmark.results()
        text = format_results(content)
    else:
        figures = benchmark.figures()
        # The medians by name.
        content, text = {figure.name: figure.median for figure in figures}, table(figures)
    print(text)
    if benchmark.out is not None:
        write_json(benchmark.out, content)


def table(figures: list[Figure]) -> str:
    """Format one line per figure: median, least and greatest value, and target."""
    rows = [["figure", "median", "least", "most", "target"]]
    for figure in figures:
        numbers = [f"{value:,.4g}" for value in (figure.median, min(figure.values), max(figure.values))]
        rows.append([figure.name, *numbers, figure.target])
    return format_columns(rows)


if __name__ == "__main__":
    run_process(main)
