"""Average precision over all pairs: python -m jobs.evaluate --run RUN --split test [--exact]

Against another run of the task: python -m jobs.evaluate --run RUN --against OTHER --split test
Or of scores made elsewhere: python -m jobs.evaluate --scores FILE.parquet --total-pairs N
Or of stated pairs alone: python -m jobs.evaluate --run RUN --heuristic, or --scores FILE.parquet --heuristic
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from al_ray.cluster.session import refuse_lost, session
from al_ray.cluster.world import measured, measured_alike
from al_ray.core.config import ClusterConfig, RunConfig, generator
from al_ray.core.errors import BadOption
from al_ray.core.evaluation import Comparison, Evaluation, comparison, evaluation
from al_ray.core.limits import refuse_beyond
from al_ray.core.metrics import Extent, counts_of
from al_ray.data.concat_folder import is_concat
from al_ray.data.files import refuse_folder, write_json
from al_ray.data.run_folder import RunFolder, bound_config
from al_ray.data.scores import read_scores
from al_ray.data.tables import read_task
from al_ray.storage.places import Place, place
from jobs import evaluate_calibration, evaluate_concat, evaluate_heuristic, evaluate_words
from jobs.entry import PathOrUri, job, options
from jobs.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure a round of a run, or scores made elsewhere."""

    run: PathOrUri | None = None
    """Run folder, or the folder of a concatenation model (jobs.train)."""
    against: PathOrUri | None = None
    """Another run of the same task: the difference in average precision, on the same pairs."""
    split: Literal["train", "dev", "test"] = "dev"
    """Split to measure on. Choose by dev; look at test at the end."""
    round: int | None = None
    """Round to measure, of both runs; 0 is the untrained encoder, the last complete one when not given."""
    exact: bool = False
    """Count every pair, however many there are."""
    estimate: bool = False
    """Weight a sample of the negatives (paper, A.2), however few there are; neither: by --evaluation.exact-pairs."""
    random_pairs: int | None = None
    """With an estimate: random negatives to weight, instead of as many as the run's --evaluation.random-pairs."""
    scores: Path | None = None
    """Parquet file with columns `score` and `stratum` (positive, near or random); see --heuristic for others."""
    total_pairs: int | None = None
    """With --scores: how many pairs there are in all, positives included."""
    heuristic: bool = False
    """Measure stated pairs alone: MAP, MRR and a-F1 of questions and their candidates, accuracy and F1 of a symmetric
    task. A file has columns `score` (a logit), `query` and `label` (0 or 1)."""
    threshold_for: tuple[str, ...] = ()
    """Choose thresholds on dev, each by a rule: precision=0.9 recall=0.5 costs=10,1 (of a miss, of a false alarm). They
    are kept in the round's scorer.json."""
    out: PathOrUri | None = None
    """JSON file; in the run folder (of the round, when one is given) when not given."""
    cluster: Annotated[ClusterConfig, tyro.conf.arg(name="")] = field(default_factory=ClusterConfig)


def main() -> None:
    """Measure, print, write."""
    asked: Options = options(
        Options, "evaluate", "Average precision over all pairs, of a run or of scores made elsewhere."
    )
    refuse_mixed(asked)
    rules = evaluate_calibration.rules_of(asked.threshold_for, asked.split)
    if asked.run is not None and is_concat(asked.run):
        of_concat(asked, asked.run)
        return
    if asked.heuristic:
        evaluate_heuristic.told(*heuristic(asked))
        return
    if asked.run is not None and asked.against is not None:
        found, home_of = of_two(asked, asked.run, asked.against)
        evaluate_words.tell_difference(found)
        write_json(home_of, found.as_dict())
        print(f"wrote {home_of}")
        return
    made, out = of_run(asked, asked.run) if asked.run is not None else of_scores(asked)
    evaluate_words.tell(made)
    content = made.as_dict()
    if asked.run is not None and rules:
        _, folder, number = complete_round(asked, asked.run)
        content["thresholds"] = evaluate_calibration.thresholds(rules, made, folder, number)
    if out is not None:
        write_json(out, content)
        print(f"wrote {out}")
        if made.reliability is not None:
            evaluate_calibration.told(made.reliability, made, out)


def refuse_mixed(asked: Options) -> None:
    """Options that do not go together."""
    if (asked.run is None) == (asked.scores is None):
        raise BadOption("give either --run RUN or --scores FILE; see --help")
    of_runs = asked.round, asked.random_pairs, asked.exact or None, asked.estimate or None
    if asked.scores is not None and of_runs != (None,) * 4:
        raise BadOption("--round, --exact, --estimate and --random-pairs go with --run; leave them out with --scores")
    if asked.run is not None and asked.total_pairs is not None:
        raise BadOption("--total-pairs goes with --scores; leave it out with --run")
    if asked.scores is not None and asked.against is not None:
        raise BadOption("--against goes with --run; leave it out with --scores")
    if asked.out is not None:
        refuse_lost(asked.out)
        refuse_folder("--out", asked.out)
    if asked.threshold_for and (asked.run is None or asked.heuristic or asked.against is not None):
        raise BadOption("--threshold-for goes with --run RUN, and not with --heuristic or --against")
    if asked.heuristic and asked.against is not None:
        raise BadOption("--against compares average precision over all pairs; leave it out with --heuristic")


def of_concat(asked: Options, path: Place) -> None:
    """Measure a concatenation model, print, write."""
    if asked.round is not None or asked.exact or asked.threshold_for:
        raise BadOption(f"{path} holds a concatenation model: leave out --round, --exact and --threshold-for")
    other = None if asked.against is None else complete_round(asked, asked.against)
    bench = evaluate_concat.bench_of(path, asked.cluster, asked.random_pairs)
    bench.task.split(asked.split)
    with session(asked.cluster, asked.cluster.shards):
        if asked.heuristic:
            found = evaluate_concat.of_stated(bench, asked.split)
            evaluate_heuristic.told(found, asked.out or path / f"heuristic-{asked.split}.json")
            return
        if other is None:
            made = evaluate_concat.over_all_pairs(bench, asked.split)
            evaluate_words.tell(made)
            out = asked.out or path / f"evaluation-{asked.split}.json"
        else:
            made = evaluate_concat.less(bench, *other, asked.split)
            evaluate_words.tell_difference(made)
            out = asked.out or path / f"evaluation-{asked.split}-against-{other[1].path.resolve().name}.json"
    write_json(out, made.as_dict())
    print(f"wrote {out}")


def of_run(asked: Options, path: Place) -> tuple[Evaluation, Place]:
    """Measure a round of a run; the evaluation, and the file it belongs in."""
    config, folder, number = round_of(asked, path)
    if asked.threshold_for and not number:
        raise BadOption(f"--threshold-for is kept in a round's scorer.json, and round 0 of {path} has none")
    with session(asked.cluster):
        made = measured(config, asked.cluster, folder, asked.split, number, Progress())
    return made, asked.out or home(asked, folder) / f"evaluation-{asked.split}{'-exact' if made.exact else ''}.json"


def of_two(asked: Options, path: Place, other: Place) -> tuple[Comparison, Place]:
    """Compare a round of a run with one of another run of its task; the difference, and the file it belongs in."""
    one, two = round_of(asked, path), round_of(asked, other)
    if one[1].task.digest != two[1].task.digest:
        raise BadOption(f"{path} and {other} are runs of different tasks; --against takes another run of the same task")
    with session(asked.cluster):
        made = comparison(*measured_alike([one, two], asked.cluster, asked.split, Progress()))
    name = f"evaluation-{asked.split}-against-{other.resolve().name}.json"
    return made, asked.out or home(asked, one[1]) / name


def round_of(asked: Options, path: Place) -> tuple[RunConfig, RunFolder, int]:
    """The round of a run that is asked for, fit to be measured over all pairs."""
    if asked.exact and asked.estimate:
        raise BadOption("--exact and --estimate exclude one another; give one of them, or neither")
    config, folder, number = complete_round(asked, path)
    mode: Literal["auto", "exact", "estimate"] = "exact" if asked.exact else "estimate" if asked.estimate else "auto"
    folder.task.measurable(asked.split)
    sampled = config.evaluation.random_pairs if asked.random_pairs is None else asked.random_pairs
    return replace(config, evaluation=replace(config.evaluation, mode=mode, random_pairs=sampled)), folder, number


def complete_round(asked: Options, path: Place) -> tuple[RunConfig, RunFolder, int]:
    """The run, and the number of the round that is meant; refused before any actor: it may be damaged."""
    config = bound_config(path)
    folder = RunFolder(path, read_task(place(config.task)))
    last = folder.last
    number = last if asked.round is None else asked.round
    if not 0 <= number <= last:
        raise BadOption(f"--round {number}: {path} has complete rounds 1 to {last}, and 0 is the untrained encoder")
    if number:
        folder.model(number)
    folder.refuse_lost(number)
    return config, folder, number


def home(asked: Options, folder: RunFolder) -> Place:
    """The folder that figures of a run belong in."""
    return folder.path if asked.round is None else folder.round(asked.round)


def heuristic(asked: Options) -> tuple[dict[str, Any], Place | None]:
    """Measure stated pairs; the figures, and the file they belong in."""
    if asked.exact or asked.estimate or asked.total_pairs is not None:
        raise BadOption("--exact, --estimate and --total-pairs are about all pairs; leave them out with --heuristic")
    if asked.run is None:
        assert asked.scores is not None
        return evaluate_heuristic.of_file(asked.scores), asked.out
    config, folder, number = complete_round(asked, asked.run)
    folder.task.stating(asked.split)
    with session(asked.cluster):
        found = evaluate_heuristic.of_round(config, asked.cluster, folder, asked.split, number)
    return found, asked.out or home(asked, folder) / f"heuristic-{asked.split}.json"


def of_scores(asked: Options) -> tuple[Evaluation, Place | None]:
    """Measure scores made elsewhere: near negatives were all taken, random ones stand for all others."""
    assert asked.scores is not None
    if asked.total_pairs is None:
        raise BadOption("--scores needs --total-pairs N: how many pairs there are in all, positives included")
    refuse_beyond([(asked.total_pairs, "--total-pairs", 1, 2**62)])
    parts = read_scores(asked.scores)
    others = asked.total_pairs - len(parts["positive"]) - len(parts["near"])
    if others < len(parts["random"]):
        raise BadOption(f"--total-pairs {asked.total_pairs:,} is less than the pairs of {asked.scores}; give all pairs")
    extents = [Extent("near", len(parts["near"]), len(parts["near"])), Extent("random", len(parts["random"]), others)]
    counts = counts_of(parts["positive"], [parts["near"], parts["random"]])
    made = evaluation(asked.scores.name, counts, extents, None, generator(0, "interval-scores"))
    return made, asked.out


if __name__ == "__main__":
    job(main)
