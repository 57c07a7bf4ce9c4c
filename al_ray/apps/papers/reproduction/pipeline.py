"""Produce the results of a table or figure: grids, cross-encoders and comparisons, each unless it exists."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.apps.cross_encoder.evaluation import compare_with_run, evaluate_on_labelled_pairs, open_job
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.cross_encoder.pipeline import train_and_evaluate
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.ray_tune import Grid
from al_ray.apps.grid.spec import GridConfig
from al_ray.apps.papers.reproduction.tables import COSINE, ApDifference, ModelResult
from al_ray.apps.papers.reproduction.targets import REFERENCE, Part, extended_axes, labels_of
from al_ray.apps.reporting.read_runs import read_runs
from al_ray.apps.reporting.run_records import Run, last_evaluation
from al_ray.cluster.measurement import evaluate_labelled_pairs, evaluate_rounds
from al_ray.cluster.session import session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.serialization import as_dict
from al_ray.core.progress import OnProgress
from al_ray.core.task import Task
from al_ray.metrics.average_precision import Estimate
from al_ray.metrics.evaluation import compare
from al_ray.running.run import RunSpec
from al_ray.runs.existing_labels import read_existing_labels
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.files import read_json
from al_ray.storage.result_cache import ResultCache
from al_ray.storage.uri import StoragePath

SPLIT = "test"


@dataclass(frozen=True)
class ReproductionJob:
    """A reproduction: its folder and task, its seeds, the cluster, the options of its grids, and its callbacks.

    announce: called with the name of each result before it is computed. run_grid: runs a grid to its end.
    """

    out: StoragePath
    task: Task
    seeds: tuple[int, ...]
    cluster: ClusterConfig
    how: GridConfig
    run_grid: Callable[[Grid], object]
    announce: Callable[[str], None]
    watch: OnProgress

    @property
    def findings(self) -> ResultCache:
        """Return the cache of results."""
        return ResultCache(self.out / "findings")

    def cached(self, name: str, made_from: dict[str, Any], compute: Callable[[], Any]) -> Any:
        """Return a cached result, computed first if it is missing."""
        result = self.findings.read(name, made_from)
        if result is None:
            self.announce(name)
            result = compute()
            self.findings.write(name, made_from, result)
        return result

    def grid(self, part: Part) -> Grid:
        """Return the grid of a part, with the axes of its folder and what they lack."""
        out = (self.out / part.name).resolve()
        axes = extended_axes(part, self.seeds, GridFolder(out).axes())
        return Grid(axes, RunSpec(part.config, self.cluster), self.how, out)

    def runs(self, part: Part) -> list[Run]:
        """Return the runs of a part with its strategies and the seeds of the job."""
        every = read_runs(self.out / part.name)
        return [run for run in every if run.config.strategy in part.strategies and run.config.seed in self.seeds]

    def home(self, part: Part, strategy: str, seed: int) -> StoragePath:
        """Return the folder of a run of a part."""
        return (self.out / part.name / "runs" / f"{strategy}-s{seed}").resolve()


def run_parts(job: ReproductionJob, parts: Sequence[Part]) -> list[Run]:
    """Run what is missing of the grids, and return the runs of all parts, complete or not."""
    runs: list[Run] = []
    for part in parts:
        job.run_grid(job.grid(part))
        runs += job.runs(part)
    return runs


def differences(job: ReproductionJob, part: Part) -> list[ApDifference]:
    """Return AP of each complete run minus that of the reference run of the same seed."""
    pairs: list[ApDifference] = []
    runs = [run for run in job.runs(part) if not run.trouble and last_evaluation(run, SPLIT)]
    for seed in job.seeds:
        methods = {run.config.strategy: run.method for run in runs if run.config.seed == seed}
        if REFERENCE in methods:
            others = sorted(set(methods) - {REFERENCE}, key=lambda strategy: methods[strategy].rank)
            for strategy, one in zip(others, _differences(job, part, others, seed), strict=True):
                ends = None if one["interval"] is None else Estimate(**one["interval"])
                pairs.append(ApDifference(methods[strategy].words(), seed, one["value"], ends))
    return pairs


def _differences(job: ReproductionJob, part: Part, strategies: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """Return AP of the last rounds of runs minus the reference's; missing results are measured together."""
    base, *others = (_last(job, part, strategy, seed) for strategy in (REFERENCE, *strategies))
    digests = [folder.model(number).digest for _, folder, number in (base, *others)]
    keys = [{"models": [digest, digests[0]]} for digest in digests[1:]]
    names = [f"{part.name}-{strategy}-less-{REFERENCE}-s{seed}" for strategy in strategies]
    lacking = [place for place, name in enumerate(names) if job.findings.read(name, keys[place]) is None]
    if lacking:
        with session(job.cluster, trainers=0):
            rounds = [base, *(others[place] for place in lacking)]
            first, *evaluations = evaluate_rounds(rounds, job.cluster, SPLIT, job.watch)
        for place, one in zip(lacking, evaluations, strict=True):
            less = compare(one, first)
            ends = less.over_queries or (None if less.exact else less.over_samples)
            content = {"value": less.difference, "interval": None if ends is None else ends.as_dict()}
            job.findings.write(names[place], keys[place], content)
    return [job.findings.read(name, key) for name, key in zip(names, keys, strict=True)]


def _last(job: ReproductionJob, part: Part, strategy: str, seed: int) -> tuple[RunConfig, RunFolder, int]:
    """Return the config, the folder and the number of the last round of a run."""
    path = job.home(part, strategy, seed)
    folder = RunFolder(path, job.task)
    return bound_config(path), folder, folder.last


def bi_encoder_results(job: ReproductionJob, part: Part, heuristic: bool) -> Iterator[ModelResult]:
    """Yield the evaluations of the bi-encoders of a part's complete runs; heuristic: with metrics on stated pairs."""
    for run in job.runs(part):
        one = None if run.trouble else last_evaluation(run, SPLIT)
        if one is not None:
            strategy, seed = run.config.strategy, run.config.seed
            stated = _heuristic(job, part, strategy, seed) if heuristic else {}
            yield ModelResult(COSINE, strategy, seed, one.precision_at_recall_20, one.average_precision, stated)


def _heuristic(job: ReproductionJob, part: Part, strategy: str, seed: int) -> dict[str, Any]:
    config, folder, number = _last(job, part, strategy, seed)

    def compute() -> dict[str, Any]:
        with session(job.cluster, trainers=0):
            return evaluate_labelled_pairs(config, job.cluster, folder, SPLIT, number, job.watch)

    made_from = {"model": folder.model(number).digest}
    return job.cached(f"{part.name}-{strategy}-s{seed}-heuristic", made_from, compute)


def concat(
    job: ReproductionJob, part: Part, strategy: str, seed: int, config: TrainConfig, heuristic: bool
) -> ModelResult:
    """Train a cross-encoder on a run's labels and compare it with the run's bi-encoder, unless that is cached.

    heuristic: with metrics on stated pairs.
    """
    run = job.home(part, strategy, seed)
    labels = labels_of(strategy, str(run))
    config = replace(config, labels=labels, seed=seed, like=str(run))
    labelled = read_existing_labels(labels, job.task)
    name = f"{short(config.encoder)}-{strategy}-s{seed}"
    out = (job.out / "concat" / name).resolve()
    base, folder, number = _last(job, part, strategy, seed)
    options, against = {**as_dict(config), "labels": "", "like": ""}, folder.model(number).digest
    made_from = {"config": options, "against": against, "positives": labelled.positives}

    def compute() -> dict[str, Any]:
        # The results are in the folder; the generator works only as it is read.
        for _ in train_and_evaluate(config, job.task, labelled, out, job.cluster, None, job.watch):
            pass
        evaluation, trained = read_json(out / f"evaluation-{SPLIT}.json"), open_job(out, job.cluster, job.watch)
        with session(job.cluster, trainers=0):
            stated = evaluate_on_labelled_pairs(trained, SPLIT) if heuristic else {}
            less = compare_with_run(trained, base, folder, number, SPLIT)
        # All pairs were counted, but too few queries have a match for an interval.
        ends = less.over_queries or (None if less.exact else less.over_samples)
        difference = None if ends is None else Estimate(less.difference, ends.low, ends.high).as_dict()
        figures = {figure: evaluation[figure] for figure in ("precision_at_recall_20", "average_precision")}
        return {**figures, "heuristic": stated, "less": difference}

    result = job.cached(f"concat-{name}{'-heuristic' if heuristic else ''}", made_from, compute)
    precision, average = Estimate(**result["precision_at_recall_20"]), Estimate(**result["average_precision"])
    less = None if result["less"] is None else Estimate(**result["less"])
    return ModelResult(short(config.encoder), strategy, seed, precision, average, result["heuristic"], less)


def short(encoder: str) -> str:
    """Return an encoder's name, or the last folder of its path, as a part of a file's name."""
    return encoder.rstrip("/").rpartition("/")[2]
