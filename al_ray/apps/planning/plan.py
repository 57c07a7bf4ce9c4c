"""Estimate what a run needs before it starts: memory, time of every stage, labels and cost.

Formulas of time are in stage_times.py, of memory in memory.py; speeds in hardware.py. Every time records whether all
constants in it were measured.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.apps.planning import matcher_times, stage_times
from al_ray.apps.planning.hardware import CUDA, Constants, Speed, Time
from al_ray.apps.planning.memory import Memory, memory
from al_ray.apps.planning.setting import Setting
from al_ray.apps.planning.sizes import Sizes
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption

STAGES = ("prepare", "embed", "search", "label", "train", "evaluate")
LEGEND = "m: all constants were measured; a: some were assumed (listed below)"
Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class Round:
    """Times of a round's stages, and its labels; round 0 is the work before the first round."""

    number: int
    labels: int
    times: dict[str, Time]

    @property
    def time(self) -> Time:
        """Return the time of the round: its stages run one after another."""
        return sum(self.times.values(), Time())


@dataclass(frozen=True)
class Plan:
    """The plan of a run."""

    setting: Setting
    memory: tuple[Memory, ...]
    rounds: tuple[Round, ...]

    @property
    def labels(self) -> int:
        """Return the labels of all rounds."""
        return sum(one.labels for one in self.rounds)

    @property
    def dev_labels(self) -> int:
        """Return the labels of dev pairs that are drawn for the models of all rounds (--dev-labels)."""
        return self.setting.config.dev_labels * len(self.setting.batches)

    @property
    def time(self) -> Time:
        """Return the time of all rounds."""
        return sum((one.time for one in self.rounds), Time())

    def stage(self, name: str) -> Time:
        """Return the time of a stage in all rounds."""
        return sum((one.times[name] for one in self.rounds), Time())

    @property
    def units(self) -> float:
        """Return the GPUs (without GPUs: cores) that the run reserves for shards and training workers."""
        return (self.setting.shards + self.setting.config.trainers) * self.setting.cluster_share

    def busy(self, stage: str) -> float:
        """Return how many of these units work in a stage. Tokenising and exact evaluation use CPUs; people label."""
        cpus, shards = self.setting.constants.device != CUDA, self.setting.shards
        trainers = self.setting.config.trainers
        actors = {"embed": shards, "search": shards, "train": trainers, "evaluate": cpus * shards}
        actors["prepare"] = cpus * self.setting.tokenisers
        return actors.get(stage, 0) * self.setting.cluster_share

    def hours(self) -> dict[str, float]:
        """Return GPU (core) hours: held (reserved) = used + idle while the trainer works + idle otherwise."""
        seconds = {name: self.stage(name).seconds for name in STAGES}
        used = sum(seconds[name] * self.busy(name) for name in STAGES)
        waiting = seconds["train"] * (self.units - self.busy("train"))
        reserved = self.units * sum(seconds.values())
        idle = reserved - used - waiting
        figures = {"reserved": reserved, "used": used, "idle, the trainer works": waiting, "idle, else": idle}
        return {name: value / 3600 for name, value in figures.items()}


def plan(setting: Setting) -> Plan:
    """Plan every round of a run: embed, search, label, train, embed the evaluated splits, evaluate, search examples.

    Labelling takes no time here, as the speed of people is unknown. Before round 1 the untrained encoder is evaluated;
    if AP is estimated, evaluation sets are made by a search with it first. BadOption if the pool has fewer pairs than
    labels, or a matcher fewer candidates.
    """
    config, sizes = setting.config, setting.sizes
    _check_number_of_labels(setting)
    measures = len(config.evaluation.splits)
    splits = stage_times.embed_time(setting, sizes.evaluation, sizes.evaluation_right).times(measures)
    near = Time()
    if not setting.counted:
        sides = sizes.evaluation, sizes.evaluation_right
        near = stage_times.knn_time(setting, *sides, config.evaluation.near_neighbours, 0)
        near = (near + stage_times.draw_time(setting)).times(measures)
    prepare = stage_times.tokenize_time(setting)
    before = {"prepare": prepare, "embed": splits, "search": near, "evaluate": stage_times.evaluate_time(setting)}
    rounds = [Round(0, 0, {name: before.get(name, Time()) for name in STAGES})]
    if config.matcher == "on":
        return Plan(setting, tuple(memory(setting)), tuple(_matched_rounds(setting, rounds[0], splits)))
    strategy, two = STRATEGIES[config.strategy], sizes.right is not None
    scored = config.scoring.weight != 0 and (two or config.scoring.both_sides)
    chooses = scored and config.scoring.weight is None
    # Of one set of texts both sides are the same.
    turned = two and config.scoring.both_sides
    for number, batch in enumerate(setting.batches, start=1):
        asks = strategy.searches and not (config.seeding == "stated" and number == 1)
        times: dict[str, Time] = {name: Time() for name in STAGES}
        # The fit to scores embeds the pool after each training, and the next search finds these vectors. auto needs
        # those of the model before, too, which a search by the untrained encoder displaces.
        embeds = (asks and not (scored and strategy.uses_model and number > 1)) + scored
        embeds += chooses and (not asks if number == 1 else asks and not strategy.uses_model)
        times["embed"] = stage_times.embed_time(setting, sizes.texts, sizes.right).times(embeds)
        if asks:
            times["search"] = stage_times.search_time(setting, sizes.texts, sizes.right, batch)
        times["embed"] += splits
        times["search"] += stage_times.examples_time(setting)
        times["train"] = stage_times.train_time(setting, setting.labels[number - 1])
        times["evaluate"] = stage_times.evaluate_time(setting)
        if scored:
            of_splits = _means_time(setting, sizes.evaluation, sizes.evaluation_right, turned).times(measures)
            times["train"] += _means_time(setting, sizes.texts, sizes.right, turned).times(1 + chooses)
            times["evaluate"] += of_splits
        rounds.append(Round(number, batch, times))
    return Plan(setting, tuple(memory(setting)), tuple(rounds))


def _check_number_of_labels(setting: Setting) -> None:
    """Raise BadOption for more labels than there are pairs, or candidates of a matcher."""
    config, sizes = setting.config, setting.sizes
    if setting.labels[-1] > sizes.pairs:
        raise BadOption(f"{setting.labels[-1]:,} labels of {sizes.pairs:,} pairs; give fewer `rounds` or more texts")
    # A round that trains the encoder finds other candidates, and labels of a run that is there were had.
    if config.matcher == "on" and not config.encoder_every and not setting.past_batches:
        candidates = matcher_times.candidate_pairs(setting, sizes.texts, sizes.right)
        if setting.labels[-1] > candidates:
            raise BadOption(
                f"{setting.labels[-1]:,} labels of at most {candidates:,} candidates, of which a matcher's labels are; "
                "give fewer `rounds`, a smaller `growth`, or a higher `candidates.cosine`"
            )


def _means_time(setting: Setting, left: int, right: int | None, turned: bool) -> Time:
    """Return the time to find the few nearest of each left text; turned: of each right text, too."""
    found = stage_times.means_time(setting, left, right)
    return found if not turned or right is None else found + stage_times.means_time(setting, right, left)


def _matched_rounds(setting: Setting, first: Round, splits: Time) -> Iterator[Round]:
    """Yield the rounds of a run with a matcher. first: without its candidates; splits: to embed the measured splits.

    A round whose encoder is trained embeds all texts and finds candidates again, which a run counts to its training.
    """
    config, sizes = setting.config, setting.sizes
    measures, both = len(config.evaluation.splits), (sizes.evaluation, sizes.evaluation_right)
    pool = stage_times.embed_time(setting, sizes.texts, sizes.right)
    found = matcher_times.candidates_time(setting, sizes.texts, sizes.right)
    found += matcher_times.candidates_time(setting, *both).times(measures)
    yield replace(
        first, times={**first.times, "embed": first.times["embed"] + pool, "search": first.times["search"] + found}
    )
    for number, batch in enumerate(setting.batches, start=1):
        times: dict[str, Time] = {name: Time() for name in STAGES}
        labels = setting.labels[number - 1]
        times["search"] = matcher_times.ranking_time(setting, sizes.texts, sizes.right)
        times["train"] = matcher_times.learning_time(setting, labels)
        if config.encoder_every and number % config.encoder_every == 0:
            times["train"] += stage_times.train_time(setting, labels) + found
            times["embed"] = pool + splits
        ranked = matcher_times.ranking_time(setting, *both).times(measures)
        times["evaluate"] = stage_times.evaluate_time(setting) + ranked
        yield Round(number, batch, times)


def setting_of(config: RunConfig, sizes: Sizes, cluster: ClusterConfig, constants: Constants) -> Setting:
    """Resolve `auto` options by sizes and return the inputs of a plan."""
    exact = config.evaluation.counts_all(sizes.evaluation_pairs)
    return Setting(config.settled(sizes.pairs), sizes, cluster, constants, exact)


def reasons(run_plan: Plan, config: RunConfig) -> list[str]:
    """Return which search and evaluation the run uses, and why. config: with `auto` options unresolved."""
    sizes = run_plan.setting.sizes
    searches = sizes.pairs, config.search.exact_pairs, "search.exact_pairs"
    kind = replace(config, search=replace(config.search, kind="auto")).settled(sizes.pairs).search.kind
    measures = sizes.evaluation_pairs, config.evaluation.exact_pairs, "evaluation.exact_pairs"
    mode = "exact" if replace(config.evaluation, mode="auto").counts_all(sizes.evaluation_pairs) else "estimate"
    budget = "; selects its whole budget at once" if config.once else ""
    if STRATEGIES[config.strategy].takes_all_stated:
        budget = "; takes all stated pairs, whatever the labels below; to plan for N of them give `rounds=1` and "
        budget += "`first_batch=N`"
    if config.matcher == "on":
        pairs = matcher_times.candidate_pairs(run_plan.setting, sizes.texts, sizes.right)
        search = (
            f"candidates: at most {pairs:,} of {sizes.pairs:,} pairs, with {matcher_times.COMPARISONS} comparisons each"
        )
    else:
        search = f"search: {_resolved(config.search.kind, kind, *searches)}"
    return [
        f"strategy: {config.strategy}{budget}; the time of labelling is unknown and not included",
        search,
        f"evaluation: {_resolved(config.evaluation.mode, mode, *measures)}",
    ]


def _resolved(option_value: str, auto: str, pairs: int, limit: int, name: str) -> str:
    why = f"{pairs:,} pairs are {'at most' if pairs <= limit else 'more than'} {limit:,} (`{name}`)"
    return f"{auto}, by auto: {why}" if option_value == "auto" else f"{option_value}; auto would take {auto}: {why}"


def memory_rows(run_plan: Plan) -> Rows:
    """Return the memory of each holder, and its sums by place."""
    rows: Rows = [("process", "what", "where", "memory")]
    for holder in dict.fromkeys(part.holder for part in run_plan.memory):
        own = [part for part in run_plan.memory if part.holder == holder]
        rows += [(holder, part.what, part.where, size_words(part.bytes)) for part in own if part.bytes]
        for where in sorted({part.where for part in own if part.bytes}):
            rows.append((holder, "total", where, size_words(sum(p.bytes for p in own if p.where == where))))
    return rows


def time_rows(run_plan: Plan) -> Rows:
    """Return a row for each round and one for the run; times end in m (all constants measured) or a (some assumed)."""
    rows: Rows = [("round", "labels", *STAGES, "total")]
    for one in run_plan.rounds:
        times = [time_words(one.times[name]) for name in STAGES]
        rows.append((str(one.number), f"{one.labels:,}", *times, time_words(one.time)))
    stages = [time_words(run_plan.stage(name)) for name in STAGES]
    return [*rows, ("run", f"{run_plan.labels:,}", *stages, time_words(run_plan.time))]


def cost_rows(run_plan: Plan, cost_per_pair: float, gpu_hour_cost: float) -> Rows:
    """Return hours reserved, used and idle, and the cost of labels and of GPUs or cores."""
    cuda, mark = run_plan.setting.constants.device == CUDA, "m" if run_plan.time.measured else "a"
    unit = "GPU-hours" if cuda else "core-hours"
    hours = run_plan.hours()
    rows: Rows = [(f"{unit} {name}", f"{value:,.2f} {mark}") for name, value in hours.items()]
    machines = hours["reserved"] * gpu_hour_cost if cuda else 0.0
    # They are no labels of rounds, but cost as much.
    dev = run_plan.dev_labels
    labels = (run_plan.labels + dev) * cost_per_pair
    return [
        *rows,
        *([("labels of dev pairs", f"{dev:,}")] if dev else []),
        ("cost of labels", f"{labels:,.2f}"),
        ("cost of GPU-hours", f"{machines:,.2f} {mark}"),
        ("total cost", f"{labels + machines:,.2f} {mark}"),
    ]


def warnings(run_plan: Plan) -> list[str]:
    """Return a line for each assumed constant in a time, and one if the number of cores was not measured."""
    constants, cores = run_plan.setting.constants, run_plan.setting.cluster.cpus_per_shard
    speeds: dict[str, Speed] = {name: getattr(constants, name) for name in sorted(run_plan.time.assumed)}
    lines = [f"not measured: {name} = {one.value:.3g} per second ({one.source})" for name, one in speeds.items()]
    if cores != constants.threads:
        lines.append(
            f"assumed: speeds scale linearly from {constants.threads} measured threads to {cores:g} (`cpus_per_shard`)"
        )
    return lines


def time_words(time: Time) -> str:
    """Format a time in a suitable unit, with m (measured) or a (assumed); 0 is -."""
    seconds = time.seconds
    if not seconds:
        return "-"
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit} {'m' if time.measured else 'a'}"
    return f"{seconds:,.{0 if seconds >= 10 else 2}f} s {'m' if time.measured else 'a'}"


def size_words(size: float) -> str:
    """Format bytes in a suitable unit, by powers of 1024."""
    power = max(0, min(4, int(math.log(max(1.0, size), 1024))))
    return f"{size / 1024**power:,.1f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
