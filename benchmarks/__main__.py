"""Measure speed and memory, as ratios within one run to cancel a machine's noise: python -m benchmarks search

A benchmark is a dataclass of options with a method `figures`, in its own file; KINDS lists all of them. Twelve have a
method `results` and tables of their own: `simulate-audits` measures statistics, `scale` growth with the texts,
`simulate` strategies, `adaptivity` draws a map of simulated runs, `recipes` compares trainings, `matches` measures what
jobs.match wrote, `month` a model whose texts change, `serve` requests to jobs.serve, `records`
what labels buy with a matcher, `scored-pairs` what another tool scored, `handover` which models of runs rules would
choose, and `guess` how well what more labels bring is guessed. `records-picture` draws README's picture.
"""

import os
from typing import Any

# The libraries read it when they load. A waiting thread that spins would take the core of the measured one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# By default Ray's workers have a lower priority than this process, with which they are compared.
os.environ.setdefault("RAY_worker_niceness", "0")

from al_ray.cli._shared.entry import parse_options, run_process
from al_ray.core.text_table import format_columns
from al_ray.storage.files import refuse_folder, write_json
from benchmarks.adapter_runs import Simulate, format_runs
from benchmarks.adaptivity import Adaptivity, format_map
from benchmarks.annotating import Annotate
from benchmarks.comparing import Compare
from benchmarks.encoding import Encode
from benchmarks.evaluating import Evaluate
from benchmarks.handover import Handover, format_handover
from benchmarks.match_quality import Matches, format_quality
from benchmarks.memory import Memory
from benchmarks.month import Month
from benchmarks.month_report import format_weeks
from benchmarks.more_labels import Guess, format_guesses
from benchmarks.promising import Promises, format_promises
from benchmarks.recipes import Recipes, format_rows
from benchmarks.records.labels_bought import Records, format_records
from benchmarks.records.picture import RecordsPicture
from benchmarks.records.scored_file import ScoredPairs, format_scored
from benchmarks.scaling import Scale, format_results
from benchmarks.searching import Search
from benchmarks.serving.load_test import Serve, format_load
from benchmarks.simulating import SimulateAudits, format_tables
from benchmarks.timing import Figure

KINDS = (
    Encode | Search | Memory | Evaluate | Scale | SimulateAudits | Simulate | Recipes | Adaptivity | Matches | Month
    | Serve | Annotate | Compare | Records
    | RecordsPicture | ScoredPairs | Handover | Guess | Promises
)  # fmt: skip


def main() -> None:
    """Run a benchmark, print its figures, and write them to --out."""
    benchmark: KINDS = parse_options(
        KINDS, "python -m benchmarks", "Speed and memory, as ratios measured in one run; growth; simulations."
    )
    if isinstance(benchmark, Records | RecordsPicture):
        # They write their files themselves.
        print(benchmark.results() if isinstance(benchmark, RecordsPicture) else format_records(benchmark.results()))
        return
    if benchmark.out is not None:
        refuse_folder("--out", benchmark.out)
    content: Any
    if isinstance(benchmark, Simulate | Recipes):
        # They write their files themselves, run by run.
        rows = benchmark.results()
        print(format_runs(rows) if isinstance(benchmark, Simulate) else format_rows(rows))
        return
    if isinstance(benchmark, Month):
        print(format_weeks(benchmark.results()))
        return
    if isinstance(benchmark, Adaptivity):
        print(format_map(benchmark.results()))
        return
    if isinstance(benchmark, Serve):
        print(format_load(*benchmark.results()))
        return
    if isinstance(benchmark, SimulateAudits):
        content = benchmark.results()
        text = format_tables(content)
    elif isinstance(benchmark, Scale):
        content = benchmark.results()
        text = format_results(content)
    elif isinstance(benchmark, ScoredPairs):
        content = benchmark.results()
        text = format_scored(content)
    elif isinstance(benchmark, Matches | Handover | Guess | Promises):
        content, text = judged(benchmark)
    else:
        figures = benchmark.figures()
        # The medians by name.
        content, text = {figure.name: figure.median for figure in figures}, table(figures)
    print(text)
    if benchmark.out is not None:
        write_json(benchmark.out, content)


def judged(benchmark: Matches | Handover | Guess | Promises) -> tuple[Any, str]:
    """Return the figures of what finished runs left on disk, and their tables."""
    if isinstance(benchmark, Matches):
        quality = benchmark.results()
        return quality, format_quality(quality)
    if isinstance(benchmark, Handover):
        handover = benchmark.results()
        return handover, format_handover(handover)
    if isinstance(benchmark, Promises):
        promises = benchmark.results()
        return promises, format_promises(promises)
    guesses = benchmark.results()
    return guesses, format_guesses(guesses)


def table(figures: list[Figure]) -> str:
    """Format one line per figure: median, least and greatest value, and target."""
    rows = [["figure", "median", "least", "most", "target"]]
    for figure in figures:
        numbers = [f"{value:,.4g}" for value in (figure.median, min(figure.values), max(figure.values))]
        rows.append([figure.name, *numbers, figure.target])
    return format_columns(rows)


if __name__ == "__main__":
    run_process(main)
