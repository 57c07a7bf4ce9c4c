"""Average precision over all pairs: python -m jobs.evaluate --run RUN --split test [--exact]

Or of scores made elsewhere: python -m jobs.evaluate --scores FILE.parquet --total-pairs N
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from al_ray.cluster.session import refuse_lost, session
from al_ray.cluster.world import deployed_pool, evaluator
from al_ray.core.config import ClusterConfig, RunConfig, from_dict, generator
from al_ray.core.errors import BadOption, MissingSplit
from al_ray.core.metrics import Evaluation, Extent, counts_of, evaluation
from al_ray.core.task import Task
from al_ray.data.run_folder import RunFolder, read_json, write_json
from al_ray.data.scores import read_scores
from al_ray.data.tables import read_task
from jobs.entry import job
from jobs.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure a round of a run, or scores made elsewhere."""

    run: Path | None = None
    """Run folder."""
    split: Literal["train", "dev", "test"] = "dev"
    """Split to measure on. Choose by dev; look at test at the end."""
    round: int | None = None
    """Round to measure; 0 is the untrained encoder, the last complete one when not given."""
    exact: bool = False
    """Count every pair, however many there are."""
    estimate: bool = False
    """Weight a sample of the negatives (paper, A.2), however few there are; neither: by --evaluation.exact-pairs."""
    scores: Path | None = None
    """Parquet file with columns `score` and `stratum` (positive, near or random)."""
    total_pairs: int | None = None
    """With --scores: how many pairs there are in all, positives included."""
    out: Path | None = None
    """JSON file; in the run folder (of the round, when one is given) when not given."""
    cluster: Annotated[ClusterConfig, tyro.conf.arg(name="")] = field(default_factory=ClusterConfig)


def main() -> None:
    """Measure, print, write."""
    options = tyro.cli(Options, prog="python -m jobs.evaluate", description=__doc__)
    if (options.run is None) == (options.scores is None):
        raise BadOption("give either --run RUN or --scores FILE; see --help")
    if options.out is not None:
        refuse_lost(options.out)
    made, out = of_run(options, options.run) if options.run is not None else of_scores(options)
    for name, number in (("AP", made.average_precision), ("P@R20", made.precision_at_recall_20)):
        print(f"{name} {100 * number.value:.2f}% (95%: {100 * number.low:.2f} to {100 * number.high:.2f})")
    how = "every pair counted" if made.exact else "estimated from a weighted sample"
    print(f"{made.split}: {made.positives:,} positives of {made.total_pairs:,} pairs, {how}")
    if out is not None:
        write_json(out, made.as_dict())
        print(f"wrote {out}")


def of_run(options: Options, path: Path) -> tuple[Evaluation, Path]:
    """Measure a round of a run."""
    if options.exact and options.estimate:
        raise BadOption("--exact and --estimate exclude one another; give one of them, or neither")
    content = read_json(path / "config.json")
    task = read_task(Path(content["task"]))
    config: RunConfig = from_dict(RunConfig, {name: value for name, value in content.items() if name != "task_digest"})
    mode: Literal["auto", "exact", "estimate"] = (
        "exact" if options.exact else "estimate" if options.estimate else "auto"
    )
    config = replace(config, evaluation=replace(config.evaluation, mode=mode))
    made, number = measured(config, task, RunFolder(path, task), options)
    folder = path if options.round is None else path / f"round-{number:03d}"
    return made, options.out or folder / f"evaluation-{options.split}{'-exact' if made.exact else ''}.json"


def measured(config: RunConfig, task: Task, folder: RunFolder, options: Options) -> tuple[Evaluation, int]:
    """The evaluation of the round asked for, and its number."""
    last = folder.state().round
    number = last if options.round is None else options.round
    if not 0 <= number <= last:
        raise BadOption(
            f"--round {number}: {folder.path} has complete rounds 1 to {last}, and 0 is the untrained encoder"
        )
    if not len(task.split(options.split).positives):
        raise MissingSplit(f"{options.split} has no known positives to measure by; give another --split")
    with session(options.cluster), deployed_pool(config, options.cluster, task, folder.path, Progress()) as pool:
        model = folder.model(number) if number else pool.untrained()
        if evaluator(config, task, pool).exact(task.split(options.split)):
            pool.embed(model, [options.split])
        return evaluator(config, task, pool).evaluate(model, options.split), number


def of_scores(options: Options) -> tuple[Evaluation, Path | None]:
    """Measure scores made elsewhere: near negatives were all taken, random ones stand for the rest."""
    assert options.scores is not None
    if options.total_pairs is None:
        raise BadOption("--scores needs --total-pairs N: how many pairs there are in all, positives included")
    parts = read_scores(options.scores)
    others = options.total_pairs - len(parts["positive"]) - len(parts["near"])
    if others < len(parts["random"]):
        raise BadOption(
            f"--total-pairs {options.total_pairs:,} is less than the pairs of {options.scores}; give all pairs"
        )
    extents = [Extent("near", len(parts["near"]), len(parts["near"])), Extent("random", len(parts["random"]), others)]
    counts = counts_of(parts["positive"], [parts["near"], parts["random"]])
    made = evaluation(options.scores.name, counts, extents, None, generator(0, "interval-scores"))
    return made, options.out


if __name__ == "__main__":
    job(main)
