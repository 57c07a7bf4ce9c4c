"""What a run would need, before anything starts: memory, time of every stage, labels and cost (jobs.plan prints it).

Formulas: core/stages.py for time, core/footprint.py for memory; constants: core/speeds.py. Every time says whether all
constants in it were measured.
"""

import math
from dataclasses import dataclass, replace

from al_ray.core.config import ClusterConfig, RunConfig
from al_ray.core.errors import BadOption
from al_ray.core.footprint import Memory, memory
from al_ray.core.limits import refuse_beyond
from al_ray.core.speeds import CUDA, Constants, Speed, Time
from al_ray.core.stages import (
    MOST,
    Setting,
    Sizes,
    embedded,
    measured_splits,
    neighbours,
    scored_pairs,
    searched,
    tokenised,
    trained,
)

STAGES = ("prepare", "embed", "search", "label", "train", "evaluate")
LEGEND = "m: every constant in it was measured; a: some were assumed, and are named below"
Rows = list[tuple[str, ...]]


def counts(pairs: int, mode: str, limit: int) -> bool:
    """Whether evaluation counts all pairs of a split: as told, or by its size (PoolEvaluator.exact)."""
    return pairs <= limit if mode == "auto" else mode == "exact"


@dataclass(frozen=True)
class Round:
    """The times of a round's stages, and the labels it buys; round 0 is what comes before the first."""

    number: int
    labels: int
    times: dict[str, Time]

    @property
    def time(self) -> Time:
        """Of the whole round: its stages follow each other."""
        return sum(self.times.values(), Time())


@dataclass(frozen=True)
class Plan:
    """A run, foreseen."""

    setting: Setting
    memory: tuple[Memory, ...]
    rounds: tuple[Round, ...]

    @property
    def labels(self) -> int:
        """In all."""
        return sum(made.labels for made in self.rounds)

    @property
    def time(self) -> Time:
        """From start to end."""
        return sum((made.time for made in self.rounds), Time())

    def stage(self, name: str) -> Time:
        """Of all rounds together."""
        return sum((made.times[name] for made in self.rounds), Time())

    @property
    def units(self) -> float:
        """GPUs, or cores where there are none, that the run holds: of the shards and of the training's workers."""
        return (self.setting.shards + self.setting.config.training.workers) * self.setting.cluster_share

    def busy(self, stage: str) -> float:
        """How many of them work in a stage, as if all through it. An evaluation is counted by CPUs; people label."""
        share, shards = self.setting.cluster_share, self.setting.shards
        cuda = self.setting.constants.device == CUDA
        return {
            "prepare": 0 if cuda else share,
            "embed": shards * share,
            "search": shards * share,
            "label": 0,
            "train": self.setting.config.training.workers * share,
            "evaluate": 0 if cuda else shards * share,
        }[stage]

    def hours(self) -> dict[str, float]:
        """Hours of GPUs (cores) held; used; idle while the trainer works; idle otherwise. The last three add up."""
        seconds = {name: self.stage(name).seconds for name in STAGES}
        used = sum(seconds[name] * self.busy(name) for name in STAGES)
        waiting = seconds["train"] * (self.units - self.busy("train"))
        held = self.units * sum(seconds.values())
        figures = {"held": held, "used": used, "idle, the trainer works": waiting, "idle, else": held - used - waiting}
        return {name: value / 3600 for name, value in figures.items()}


def plan(setting: Setting) -> Plan:
    """Every round of a run in its order: embed, search, label, train, embed what is measured, evaluate (core/loop.py).

    Labels take no time here: people's is not known. An evaluation that is estimated makes its sets before round 1, by a
    search under the untrained encoder.
    """
    config, sizes = setting.config, setting.sizes
    if setting.labels[-1] > sizes.pairs:
        raise BadOption(f"{setting.labels[-1]:,} labels of {sizes.pairs:,} pairs; give fewer --rounds or more --texts")
    measures = len(config.evaluation.splits)
    splits = embedded(setting, sizes.evaluation, sizes.evaluation_right).times(measures)
    near = Time()
    if not setting.counted:
        sides = sizes.evaluation, sizes.evaluation_right
        near = neighbours(setting, *sides, config.evaluation.near_neighbours, 0)
        near += setting.on_thread(scored_pairs(setting), "sort")
        near = near.times(measures)
    before = {"prepare": tokenised(setting), "embed": Time() if setting.counted else splits, "search": near}
    rounds = [Round(0, 0, {name: before.get(name, Time()) for name in STAGES})]
    for number, batch in enumerate(config.batches, start=1):
        asks = config.strategy not in ("random", "stated") and not (config.seeding == "stated" and number == 1)
        times: dict[str, Time] = {name: Time() for name in STAGES}
        if asks:
            times["embed"] = embedded(setting, sizes.texts, sizes.right)
            times["search"] = searched(setting, batch)
        times["embed"] += splits
        times["train"] = trained(setting, setting.labels[number - 1])
        times["evaluate"] = measured_splits(setting)
        rounds.append(Round(number, batch, times))
    return Plan(setting, tuple(memory(setting)), tuple(rounds))


def cluster_of(gpus: float, each: float, shards: int | None, cores: float, trainers: int = 1) -> ClusterConfig:
    """So many shards of `each` GPUs as there is room for beside the trainers, which take as much; BadOption if none.

    shards: so many instead; and as told where there are no GPUs, or 1.
    """
    refuse_beyond(((gpus, "--gpus", 0, 1000), (cores, "--cpus-per-shard", 1, 1000), (shards, "--shards", 1, 1000)))
    if not gpus:
        return ClusterConfig(shards=shards or 1, cpus_per_shard=cores)
    refuse_beyond([(each, "--gpus-per-shard", 0.01, 100)])
    # Ray takes shares of one GPU, or whole ones.
    room = int(gpus * int(1 / each)) if each <= 1 else int(gpus / each)
    if (shards or 1) + trainers > room:
        raise BadOption(
            f"{gpus:g} GPUs hold {room} actors of {each:g}, and {(shards or 1) + trainers} are asked for, "
            f"{'the trainer' if trainers == 1 else f'{trainers} training workers'} among them; give more --gpus, fewer "
            "--shards or a smaller --gpus-per-shard"
        )
    return ClusterConfig(shards=shards or room - trainers, cpus_per_shard=cores, gpus_per_shard=each)


def setting_of(config: RunConfig, sizes: Sizes, cluster: ClusterConfig, constants: Constants) -> Setting:
    """What `auto` takes, settled by sizes."""
    if sizes.tokens > config.max_length:
        raise BadOption(f"--tokens is {sizes.tokens:g}, and texts are cut at --max-length {config.max_length}")
    asked = config.evaluation
    return Setting(
        config.settled(sizes.pairs),
        sizes,
        cluster,
        constants,
        counts(sizes.evaluation_pairs, asked.mode, asked.exact_pairs),
    )


def reasons(made: Plan, told: RunConfig) -> list[str]:
    """What search and evaluation would be, and why; `told` is the config before `auto` was settled."""
    sizes = made.setting.sizes
    searches = sizes.pairs, told.search.exact_pairs, "--search.exact-pairs"
    kind = replace(told, search=replace(told.search, kind="auto")).settled(sizes.pairs).search.kind
    measures = sizes.evaluation_pairs, told.evaluation.exact_pairs, "--evaluation.exact-pairs"
    mode = "exact" if counts(measures[0], "auto", measures[1]) else "estimate"
    once = "; buys its whole budget at once" if told.once else ""
    return [
        f"strategy: {told.strategy}{once}; labels take no time here: people's is not known",
        f"search: {_settled(told.search.kind, kind, *searches)}",
        f"evaluation: {_settled(told.evaluation.mode, mode, *measures)}",
    ]


def _settled(told: str, auto: str, pairs: int, limit: int, option: str) -> str:
    why = f"{pairs:,} pairs are {'at most' if pairs <= limit else 'more than'} {option} {limit:,}"
    return f"{auto}, by auto: {why}" if told == "auto" else f"{told}, as told; auto would take {auto}: {why}"


def memory_rows(made: Plan) -> Rows:
    """Each holder's needs, and their sums by place."""
    rows: Rows = [("of each", "what", "where", "memory")]
    for holder in dict.fromkeys(part.holder for part in made.memory):
        own = [part for part in made.memory if part.holder == holder]
        rows += [(holder, part.what, part.where, size_words(part.bytes)) for part in own if part.bytes]
        for where in sorted({part.where for part in own if part.bytes}):
            rows.append((holder, "in all", where, size_words(sum(p.bytes for p in own if p.where == where))))
    return rows


def time_rows(made: Plan) -> Rows:
    """A line a round and one of the run; m: all constants in it were measured, a: some were assumed."""
    rows: Rows = [("round", "labels", *STAGES, "in all")]
    for one in made.rounds:
        times = [time_words(one.times[name]) for name in STAGES]
        rows.append((str(one.number), f"{one.labels:,}", *times, time_words(one.time)))
    stages = [time_words(made.stage(name)) for name in STAGES]
    return [*rows, ("run", f"{made.labels:,}", *stages, time_words(made.time))]


def cost_rows(made: Plan, label_cost: float, gpu_hour_cost: float) -> Rows:
    """Hours held, used and idle, and what labels and GPUs cost."""
    refuse_beyond(((label_cost, "--label-cost", 0, MOST), (gpu_hour_cost, "--gpu-hour-cost", 0, MOST)))
    cuda, mark = made.setting.constants.device == CUDA, "m" if made.time.measured else "a"
    unit = "GPU-hours" if cuda else "core-hours"
    hours = made.hours()
    rows: Rows = [(f"{unit} {name}", f"{value:,.2f} {mark}") for name, value in hours.items()]
    machines = hours["held"] * gpu_hour_cost if cuda else 0.0
    return [
        *rows,
        ("cost of labels", f"{made.labels * label_cost:,.2f}"),
        ("cost of GPU-hours", f"{machines:,.2f} {mark}"),
        ("cost in all", f"{made.labels * label_cost + machines:,.2f} {mark}"),
    ]


def warnings(made: Plan) -> list[str]:
    """A line for each constant that enters a time and that nobody measured, and one for cores that were not tried."""
    constants, cores = made.setting.constants, made.setting.cluster.cpus_per_shard
    found: dict[str, Speed] = {name: getattr(constants, name) for name in sorted(made.time.assumed)}
    lines = [f"not measured: {name} = {one.value:.3g} a second ({one.source})" for name, one in found.items()]
    if cores != constants.threads:
        lines.append(f"assumed: what {constants.threads} threads did grows evenly to {cores:g} (--cpus-per-shard)")
    return lines


def time_words(time: Time) -> str:
    """Seconds in the unit that suits them, and m or a; nothing to do is -."""
    seconds = time.seconds
    if not seconds:
        return "-"
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit} {'m' if time.measured else 'a'}"
    return f"{seconds:,.{0 if seconds >= 10 else 2}f} s {'m' if time.measured else 'a'}"


def size_words(size: float) -> str:
    """Bytes in the unit that suits them, by powers of 1024."""
    power = max(0, min(4, int(math.log(max(1.0, size), 1024))))
    return f"{size / 1024**power:,.1f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
