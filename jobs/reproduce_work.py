"""What jobs.reproduce does for a table: grids, concatenation models, and comparisons, each unless it is there."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from al_ray.cluster.run import Work
from al_ray.cluster.session import session
from al_ray.cluster.tuning import Grid
from al_ray.cluster.world import measured_alike
from al_ray.core.config import ClusterConfig, RunConfig
from al_ray.core.evaluation import comparison
from al_ray.core.grid import GridConfig
from al_ray.core.metrics import Estimate
from al_ray.core.plain import as_dict
from al_ray.core.records import Labelled
from al_ray.core.reproduction import REFERENCE, Part, grown, labels_of
from al_ray.core.runs import Run, measured
from al_ray.core.supervised import TrainConfig
from al_ray.core.task import Task
from al_ray.data.files import read_json
from al_ray.data.findings import Findings
from al_ray.data.given import given
from al_ray.data.grid_folder import GridFolder
from al_ray.data.run_folder import RunFolder, bound_config
from al_ray.data.runs import read_runs
from al_ray.data.sheet import Faults
from al_ray.data.tablefiles import Reading
from al_ray.reports.reproduced import COSINE, Judged, Less
from al_ray.storage.places import Place
from jobs import evaluate_concat, evaluate_heuristic, train_concat
from jobs.grid import carried_out
from jobs.progress import Progress

SPLIT = "test"


@dataclass(frozen=True)
class Bench:
    """Where a reproduction works: its folder and task, its seeds, the cluster, and how grids go."""

    out: Place
    task: Task
    seeds: tuple[int, ...]
    cluster: ClusterConfig
    how: GridConfig

    @property
    def findings(self) -> Findings:
        """What needs no second look."""
        return Findings(self.out / "findings")

    def found(self, name: str, made_from: dict[str, Any], make: Callable[[], Any]) -> Any:
        """A finding, made unless it is there."""
        kept = self.findings.read(name, made_from)
        if kept is None:
            print(f"measuring {name}", flush=True)
            kept = make()
            self.findings.keep(name, made_from, kept)
        return kept

    def grid(self, part: Part) -> Grid:
        """The grid of a part, grown by what it lacks."""
        out = (self.out / part.name).resolve()
        axes = grown(part, self.seeds, GridFolder(out).axes())
        return Grid(axes, Work(part.config, self.cluster), self.how, out)

    def runs(self, part: Part) -> list[Run]:
        """The runs of a part that are to be shown."""
        every = read_runs(self.out / part.name)
        return [run for run in every if run.config.strategy in part.strategies and run.config.seed in self.seeds]

    def home(self, part: Part, strategy: str, seed: int) -> Place:
        """The folder of a run of a part."""
        return (self.out / part.name / "runs" / f"{strategy}-s{seed}").resolve()


def carry_out(bench: Bench, parts: Sequence[Part]) -> list[Run]:
    """Run what is missing of the grids; their runs that are to be shown, complete or not."""
    runs: list[Run] = []
    for part in parts:
        carried_out(bench.grid(part))
        runs += bench.runs(part)
    return runs


def differences(bench: Bench, part: Part) -> list[Less]:
    """Of every seed the AP of each complete run less that of the reference."""
    found: list[Less] = []
    runs = [run for run in bench.runs(part) if not run.trouble and measured(run, SPLIT)]
    for seed in bench.seeds:
        methods = {run.config.strategy: run.method for run in runs if run.config.seed == seed}
        if REFERENCE in methods:
            others = sorted(set(methods) - {REFERENCE}, key=lambda strategy: methods[strategy].rank)
            kept = _differences(bench, part, others, seed)
            for strategy, one in zip(others, kept, strict=True):
                ends = None if one["interval"] is None else Estimate(**one["interval"])
                found.append(Less(methods[strategy].words(), seed, one["value"], ends))
    return found


def _differences(bench: Bench, part: Part, strategies: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """The AP of the last rounds of runs less that of the reference's; those that are not kept are measured together."""
    base, *others = (_last(bench, part, strategy, seed) for strategy in (REFERENCE, *strategies))
    digests = [folder.model(number).digest for _, folder, number in (base, *others)]
    keys = [{"models": [digest, digests[0]]} for digest in digests[1:]]
    names = [f"{part.name}-{strategy}-less-{REFERENCE}-s{seed}" for strategy in strategies]
    lacking = [place for place, name in enumerate(names) if bench.findings.read(name, keys[place]) is None]
    if lacking:
        with session(bench.cluster):
            rounds = [base, *(others[place] for place in lacking)]
            first, *made = measured_alike(rounds, bench.cluster, SPLIT, Progress())
        for place, one in zip(lacking, made, strict=True):
            less = comparison(one, first)
            ends = less.over_questions or (None if less.exact else less.over_samples)
            content = {"value": less.difference, "interval": None if ends is None else ends.as_dict()}
            bench.findings.keep(names[place], keys[place], content)
    return [bench.findings.read(name, key) for name, key in zip(names, keys, strict=True)]


def _last(bench: Bench, part: Part, strategy: str, seed: int) -> tuple[RunConfig, RunFolder, int]:
    """What a run's last round is asked for by."""
    path = bench.home(part, strategy, seed)
    folder = RunFolder(path, bench.task)
    return bound_config(path), folder, folder.last


def judged(bench: Bench, part: Part, heuristic: bool) -> Iterator[Judged]:
    """What the bi-encoders of a part's complete runs are worth; heuristic: with figures of stated pairs."""
    for run in bench.runs(part):
        found = None if run.trouble else measured(run, SPLIT)
        if found is not None:
            stated = _heuristic(bench, part, run.config.strategy, run.config.seed) if heuristic else {}
            precision, average = found.precision_at_recall_20, found.average_precision
            yield Judged(COSINE, run.config.strategy, run.config.seed, precision, average, stated)


def _heuristic(bench: Bench, part: Part, strategy: str, seed: int) -> dict[str, Any]:
    config, folder, number = _last(bench, part, strategy, seed)

    def make() -> dict[str, Any]:
        with session(bench.cluster):
            return evaluate_heuristic.of_round(config, bench.cluster, folder, SPLIT, number)

    return bench.found(f"{part.name}-{strategy}-s{seed}-heuristic", {"model": folder.model(number).digest}, make)


def concat(bench: Bench, part: Part, strategy: str, seed: int, config: TrainConfig, heuristic: bool) -> Judged:
    """A concatenation model of a run's labels, trained and measured beside the run's bi-encoder, unless it is there."""
    run = bench.home(part, strategy, seed)
    labels = labels_of(strategy, str(run))
    told = replace(config, labels=labels, seed=seed, like=str(run))
    labelled = given(labels, bench.task, ("left_id", "right_id", "label"), Reading(), Faults("fail"))
    name = f"{short(told.encoder)}-{strategy}-s{seed}"
    out = (bench.out / "concat" / name).resolve()
    base, folder, number = _last(bench, part, strategy, seed)
    made_from = {
        "config": {**as_dict(told), "labels": "", "like": ""},
        "against": folder.model(number).digest,
        "positives": labelled.positives,
    }

    def make() -> dict[str, Any]:
        return _concat(bench, told, labelled, out, (base, folder, number), heuristic)

    kept = bench.found(f"concat-{name}{'-heuristic' if heuristic else ''}", made_from, make)
    precision, average = Estimate(**kept["precision_at_recall_20"]), Estimate(**kept["average_precision"])
    return Judged(short(told.encoder), strategy, seed, precision, average, kept["heuristic"], Estimate(**kept["less"]))


def _concat(
    bench: Bench,
    config: TrainConfig,
    labelled: Labelled,
    out: Place,
    base: tuple[RunConfig, RunFolder, int],
    heuristic: bool,
) -> dict[str, Any]:
    train_concat.concat(config, bench.task, labelled, out, bench.cluster, None)
    made, stated = read_json(out / f"evaluation-{SPLIT}.json"), {}
    work = evaluate_concat.bench_of(out, bench.cluster)
    with session(bench.cluster, bench.cluster.shards):
        if heuristic:
            stated = evaluate_concat.of_stated(work, SPLIT)
        less = evaluate_concat.less(work, *base, SPLIT)
    ends = less.over_questions or less.over_samples
    return {
        **{figure: made[figure] for figure in ("precision_at_recall_20", "average_precision")},
        "heuristic": stated,
        "less": asdict(Estimate(less.difference, ends.low, ends.high)),
    }


def short(encoder: str) -> str:
    """An encoder's name, or the last folder of its path, as a part of a file's name."""
    return encoder.rstrip("/").rpartition("/")[2]
