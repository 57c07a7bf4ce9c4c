"""Run active learning with progress, and print a line for each round."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Protocol

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.api.runs import ORACLE
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.matching.cutoff import NO_VARIANCE
from al_ray.apps.matching.model import match_command
from al_ray.apps.planning.hardware import CPU, CUDA, read_constants
from al_ray.apps.planning.planned_and_used import compare_with_plan
from al_ray.cli._run.options import Options
from al_ray.cli._shared.advice import advice
from al_ray.cli._shared.entry import as_called
from al_ray.cli._shared.progress import Progress
from al_ray.cli._shared.round_table import round_table
from al_ray.cluster import run as cluster_run
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig, oracle_kind
from al_ray.core.errors import BadOption
from al_ray.matcher.wording import name_in_words
from al_ray.metrics.round_comparison import AGREEMENT, GAIN, PREQUENTIAL
from al_ray.running.run import Peaks, RunSpec
from al_ray.runs.auto_recipe import say_of_fields, with_recipe_chosen
from al_ray.runs.candidate_figures import candidate_figures
from al_ray.runs.dev_labels import format_estimate
from al_ray.runs.handover import choose_model
from al_ray.runs.importance import Importance, read_importance
from al_ray.runs.more_labels import guess_of_run
from al_ray.runs.other_runs import bought_by
from al_ray.runs.presumed_figures import presumed_lines
from al_ray.runs.run_folder import RunFolder, bound_config, complete_rounds
from al_ray.runs.untrained_figures import better_than_untrained, compared_with_untrained
from al_ray.storage.uri import StoragePath

# Seconds that a person takes for a pair, for an idea of the time; each kind of text has its own.
PACE = 20
COMPARISONS = 5  # Comparisons of a matcher that are printed.


def run_command(options: Options) -> None:
    """Run to the end, and print a table of all rounds."""
    if options.recipe == "auto":
        options = with_recipe_chosen(options, options.out)
    else:
        say_of_fields(options)
    config = options.run if options.match is None else replace(options.run, matched=bought_by(options.match))
    # Read first, because a bad file ends the command.
    constants = read_constants(options.constants, *((CUDA, "h200") if options.cluster.gpus_per_shard else (CPU, CPU)))
    compared = list[str]()

    def on_end(folder: RunFolder, peaks: Peaks) -> None:
        compared.append(compare_with_plan(folder, peaks, options.cluster, constants))

    oracle_options = replace(options.oracle_options, llm=options.llm)
    work = RunSpec(config, options.cluster, oracle_options, options.stop, options.tracking, on_end)
    if oracle_kind(config.oracle).serves_page:
        folder = run_with_page(work, options.page, options.out)
    else:
        folder = run_watched(work, options.out)
    print(round_table(folder.metrics()))
    for figures in folder.dev_labels.estimates():
        print(format_estimate(figures))
    print(*compared, sep="\n")
    print_results(folder)


def print_results(folder: RunFolder) -> None:
    """Print where the results of a run are, and the command that matches with its model."""
    print(f"results: {folder.path}")
    for figures in folder.complete_rounds()[-1:]:
        without = compared_with_untrained(figures)
        if without is not None and not better_than_untrained(figures):
            print(without)
    guess = guess_of_run(folder.path)
    if guess is not None:
        print(guess.words)
    choice = choose_model(folder.path) if folder.last else None
    if choice is not None and choice.round != choice.last:
        print(f"match, serve and export take {choice.words}")
    for line in candidate_lines(folder):
        print(line)
    scorer = folder.model(folder.last).scorer if folder.last else None
    if scorer is not None and scorer.outcome == "no-variance":
        print(f"no boundary: {NO_VARIANCE}")
    found = read_importance(folder.round(folder.last)) if scorer is not None and scorer.matcher else None
    if found is not None:
        print(format_importance(found))
    command = match_command(folder)
    if command is not None:
        print(f"match with it: {as_called(command)}")


def candidate_lines(folder: RunFolder) -> Iterator[str]:
    """Yield what candidates the matcher of the last round has in each measured split, with a warning if few match."""
    for line in folder.complete_rounds()[-1:]:
        for split, one in candidate_figures(line).items():
            yield one.recall.words(split)
            warning = one.recall.warning(split, bound_config(folder.path).candidates.least_recall)
            if warning is not None:
                yield f"warning: {warning}"


def format_importance(found: Importance) -> str:
    """Format the comparisons that change p most, in plain words."""
    most = zip(found.names[:COMPARISONS], found.adds[:COMPARISONS], strict=True)
    shown = "; ".join(f"{name_in_words(name)} {adds:.3f}" for name, adds in most)
    return f"what changes p most (on average over the {found.pairs:,} labelled pairs): {shown}"


def run_with_page(work: RunSpec, options: PageOptions, out: StoragePath) -> RunFolder:
    """Run to the end, and serve the page on which people label meanwhile."""
    if find_spec("uvicorn") is None:
        raise BadOption(
            "--oracle page needs packages that are not installed here: the extra annotate (docs/install.md)"
        )
    # Not at the top: the packages of the page are an extra.
    from al_ray.cli._run.page import RunPage

    page = RunPage(work.config, options, out)
    return run_watched(replace(work, page=page.serve), out, page)


class Watcher(Protocol):
    """Shows a run elsewhere, too."""

    def on_progress(self, stage: str, done: int, total: int) -> None:
        """Show a stage, how much of it is done and how much there is."""
        ...

    def on_learnt(self, rounds: str, lines: Sequence[str]) -> None:
        """Show the table of complete rounds, and lines about them."""
        ...


def run(
    config: RunConfig,
    cluster: ClusterConfig,
    out: StoragePath,
    oracle_options: OracleConfig = ORACLE,
    stop: StopConfig = NEVER,
) -> RunFolder:
    """Run to the end as `run_watched` does."""
    return run_watched(RunSpec(config, cluster, oracle_options, stop), out)


def run_watched(work: RunSpec, out: StoragePath, watcher: Watcher | None = None) -> RunFolder:
    """Run to the end, continuing from the folder, with progress and a line for each round."""
    config = work.config
    progress, plan = Progress(), list(labelling_plan(config, work.oracle_options))

    def on_progress(stage: str, done: int, total: int) -> None:
        # The first stage: the options are valid, and the first pair of a new run is not chosen yet.
        if plan and not (out / "round-001").exists():
            print("\n".join(plan), flush=True)
        plan.clear()
        progress(stage, done, total)
        if watcher is not None:
            watcher.on_progress(stage, done, total)

    def on_round(line: dict[str, Any]) -> None:
        progress.close()
        print(format_round(line), flush=True)
        if not oracle_kind(config.oracle).free:
            print(*advice(out), sep="\n", flush=True)
        if watcher is not None:
            watcher.on_learnt(round_table(complete_rounds(out)), [*comparison(line), *advice(out)])

    folder = cluster_run.run(work, out, on_progress, on_round)
    if folder.end_reason is not None:
        print(as_called(folder.end_reason))
    return folder


def labelling_plan(config: RunConfig, oracle_options: OracleConfig) -> Iterator[str]:
    """Yield the plan of a run whose labels people or a function give; nothing if they are free."""
    sizes, kind = config.batches, oracle_kind(config.oracle)
    if kind.free:
        return
    rounds = f"{len(sizes)} round{'s' * (len(sizes) > 1)} of {', '.join(f'{size:,}' for size in sizes[:6])}"
    every, dev = sum(sizes) + len(sizes) * config.dev_labels, ""
    if config.dev_labels:
        dev = f", and {config.dev_labels:,} of dev after each"
    yield f"plan: {rounds}{', ...' * (len(sizes) > 6)} pairs{dev}, {every:,} labels in all"
    if kind.people:
        yield f"at {PACE} seconds a pair that is {every * PACE / 3600:,.1f} hours of labelling"
    elif (price := oracle_options.cost_per_pair) is not None:
        yield f"at --cost-per-pair {price:,.6g} they cost {every * price:,.6g}"
    yield f"--rounds, --first-batch{', --dev-labels' * bool(config.dev_labels)} and --growth change it, also later"


def format_round(line: dict[str, Any]) -> str:
    """Format the metrics of a round, its comparison with the round before, what it presumed, and its warnings."""
    shown = [round_table([line]), *comparison(line), *presumed_lines(line)]
    return "\n".join([*shown, *(f"warning: {warning}" for warning in line["warnings"])])


def comparison(line: dict[str, Any]) -> Iterator[str]:
    """Yield a line about the models of this round and of the round before, if they can be compared."""
    new = f"the pairs labelled since, {line['batch_positives']:,} of them matches,"
    figures = {
        "both models agree on {}% of the labelled pairs": line.get(AGREEMENT),
        f"AP of the earlier model on {new} is {{}}%": line.get(PREQUENTIAL),
    }
    known = [words.format(f"{100 * value:.1f}") for words, value in figures.items() if value is not None]
    if (gain := line.get(GAIN)) is not None:
        value, low, high = (f"{100 * gain[end]:+.1f}" for end in ("value", "low", "high"))
        known.insert(0, f"AP {value} points (95%: {low} to {high})")
    if known:
        yield f"compared with round {line['round'] - 1}: {'; '.join(known)}"
    without = compared_with_untrained(line)
    if without is not None:
        yield without
