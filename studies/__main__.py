"""Answer a question about the method by many small runs, or by what finished runs wrote: python -m studies simulate

A study is a dataclass of options with a method `results`, in its own file; SHOWN lists all of them with what formats
their results. `simulate` compares strategies and `recipes` trainings, `adaptivity` draws a map of simulated runs,
`simulate-audits`, `promises`, `calibrations`, `intervals`, `two-samples`, `widths` and `cluster-audits` measure
statistics, `matches` measures what jobs.match wrote, `cascade` what an oracle of uncertain pairs brings, `month` a
model whose texts change, `records` what labels buy with a matcher, `scored-pairs` what another tool scored,
`other-tools` Splink and dedupe beside al_ray, `handover` which models of runs rules would choose, and `guess` how well
what more labels bring is guessed. `roofline` computes the least times of a GPU, and `records-picture` draws README's
picture.
"""

from collections.abc import Callable
from typing import Any, Union

from al_ray.cli._shared.entry import parse_options, run_process
from al_ray.storage.files import check_is_no_folder, write_json
from studies.adapter_runs import Simulate, format_runs
from studies.adaptivity import Adaptivity, format_map
from studies.calibrating import Calibrations, format_calibrations
from studies.cascade import Cascade, format_cascade
from studies.cluster_audits import ClusterAudits, format_cluster_audits
from studies.handover import Handover, format_handover
from studies.intervals import Intervals, format_intervals
from studies.match_quality import Matches, format_quality
from studies.month import Month
from studies.month_report import format_weeks
from studies.more_labels import Guess, format_guesses
from studies.other_tools.comparison import OtherTools, format_results
from studies.promising import Promises, format_promises
from studies.recipes import Recipes, format_rows
from studies.records.labels_bought import Records, format_records
from studies.records.picture import RecordsPicture
from studies.records.scored_file import ScoredPairs, format_scored
from studies.roofline import Roofline
from studies.simulating import SimulateAudits, format_tables
from studies.two_samples import TwoSamples, format_two_samples
from studies.widths import Widths, format_widths

AS_JSON: dict[type, Callable[[Any], str]] = {
    SimulateAudits: format_tables,
    Matches: format_quality,
    ScoredPairs: format_scored,
    Handover: format_handover,
    Guess: format_guesses,
    Promises: format_promises,
    Calibrations: format_calibrations,
    Cascade: format_cascade,
    Intervals: format_intervals,
    ClusterAudits: format_cluster_audits,
    TwoSamples: format_two_samples,
    Widths: format_widths,
}
"""Studies whose results are also written to --out, as JSON."""
SHOWN: dict[type, Callable[[Any], str]] = AS_JSON | {
    # They write their files themselves, run by run.
    Simulate: format_runs,
    Recipes: format_rows,
    Adaptivity: format_map,
    Month: format_weeks,
    Records: format_records,
    OtherTools: format_results,
    RecordsPicture: str,
    Roofline: str,
}


def main() -> None:
    """Run a study and print its tables."""
    study = parse_options(Union[tuple(SHOWN)], "python -m studies", "Studies of quality, and not of speed.")  # noqa: UP007
    kind = type(study)
    if kind not in (Records, OtherTools, Roofline, RecordsPicture) and study.out is not None:
        check_is_no_folder("--out", study.out)
    results = study.results()
    print(SHOWN[kind](results))
    if kind in AS_JSON and study.out is not None:
        write_json(study.out, results)


if __name__ == "__main__":
    run_process(main)
