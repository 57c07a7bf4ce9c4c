"""What happens in a trial: its scenario, its faults and their moments, drawn from a seed and the trial's number."""

from dataclasses import asdict, dataclass
from random import Random
from typing import Any

MOMENTS = (
    *("start", "shard", "batch 1", "call 1", "call 3", "labels 1", "trainer", "model 1", "round 1", "batch 2"),
    *("call 6", "labels 2", "model 2", "round 2"),
)
MOMENTS_OF = {
    "match": ("start", "shard", "into", "into shard"),
    "grid": ("start", "cell", "call 1", "trainer", "call 6", "round 1", "call 10", "round 3"),
    "serve": ("start", "replica", "ready", "change 5", "change 10", "change 20"),
}
"""Moments of a run in their order: a process or a file is there, so many calls were answered."""
KINDS: dict[str, dict[str, int]] = {
    "run": {
        "kill driver": 5,
        "kill shard": 4,
        "kill trainer": 3,
        "kill all actors": 2,
        "pause driver": 3,
        "stop shard": 2,
        "pause shard": 2,
        "stop trainer": 1,
        "pause trainer": 2,
        "starve shard": 1,
        "kill node": 4,
        "lose node": 1,
        "drain node": 3,
        "stop raylet": 1,
        "kill GCS": 1,
        "kill oracle server": 3,
        "spoil answers": 4,
    },
    "run on S3": {
        "kill driver": 5,
        "kill shard": 2,
        "kill trainer": 2,
        "pause driver": 2,
        "kill node": 2,
        "kill oracle server": 1,
        "spoil answers": 2,
        "cut S3 off": 5,
        "spoil upload": 12,
    },
    "run on a small disk": {"fill disk": 4, "kill driver": 2, "kill shard": 1, "spoil answers": 1},
    "run with people": {
        "kill driver": 5,
        "pause driver": 2,
        "kill shard": 2,
        "kill trainer": 2,
        "kill node": 2,
        "drain node": 1,
    },
    "match": {
        "kill driver": 5,
        "pause driver": 1,
        "kill shard": 3,
        "stop shard": 1,
        "pause shard": 2,
        "kill node": 2,
        "drain node": 1,
    },
    "run with trainers": {
        "kill driver": 3,
        "kill trainer": 6,
        "pause trainer": 3,
        "stop trainer": 2,
        "kill all actors": 1,
        "kill shard": 1,
        "kill node": 3,
        "drain node": 1,
    },
    "run with an LLM": {
        "kill driver": 6,
        "pause driver": 1,
        "kill shard": 1,
        "kill node": 2,
        "kill oracle server": 3,
        "spoil answers": 6,
    },
    "grid": {
        "kill driver": 5,
        "pause driver": 1,
        "kill cell": 4,
        "kill shard": 2,
        "kill trainer": 2,
        "kill all actors": 1,
        "kill node": 3,
        "drain node": 1,
    },
    "serve": {
        "kill driver": 4,
        "pause driver": 1,
        "kill replica": 4,
        "pause replica": 2,
        "kill writer": 4,
        "pause writer": 2,
        "kill interface": 2,
        "kill controller": 2,
        "kill proxy": 2,
        "kill node": 3,
        "drain node": 2,
        "stop raylet": 1,
        "kill GCS": 1,
    },
}
"""Scenario -> kind of fault -> its share."""
SHARES = {"run": 5, "run on S3": 3, "run on a small disk": 1, "run with people": 2, "match": 2, "serve": 4}
SHARES |= {"run with trainers": 2, "run with an LLM": 2, "grid": 2}
QUIET = {
    "run with people": ("run with people",),
    "match": ("run", "match"),
    "run with trainers": ("run with trainers",),
    "run with an LLM": ("run with an LLM",),
    "grid": ("grid",),
}
"""The trials without faults that come before those of a scenario; by default that of a run."""
ANSWERS = ("500", "garbage", "drop", "slow", "count", "text", "nothing", "word", "confidence", "empty")
RAW_ANSWERS = ("500", "429", "garbage", "drop", "cut", "few", "word", "numbers", "malformed", "refusal")
"""How a language model's reply is spoilt."""
UPLOADS = ("late", "refused", "cut", "unanswered")
OBJECTS = (
    *("answers-00001.parquet", "answers-00002.parquet", "answers-00004.parquet", "batch.parquet", "labels.parquet"),
    *("examples.parquet", "fit.parquet", "record.json", "metrics.jsonl", "state.json"),
    *("model.safetensors", "scorer.json"),
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A fault that strikes `delay` seconds after a moment; seconds: how long it lasts, where it passes.

    target: a number of an actor or node, or what is spoilt and how.
    """

    kind: str
    moment: str
    delay: float = 0.0
    seconds: float = 0.0
    target: str = "0"


@dataclass(frozen=True)
class Plan:
    """A trial: its number, its scenario and its faults by their moments."""

    seed: int
    number: int
    scenario: str
    faults: tuple[Fault, ...] = ()

    @property
    def name(self) -> str:
        """Return a name for its files."""
        return f"{self.seed}-{self.number}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def plan_of(seed: int, number: int) -> Plan:
    """Return trial `number` of a seed; the same everywhere."""
    chance = Random(f"{seed}-{number}")
    (scenario,) = chance.choices(list(SHARES), list(SHARES.values()))
    faults = [_fault(chance, scenario) for _ in range(chance.choice([2, 3, 3, 4, 5]))]
    moments = moments_of(scenario)
    return Plan(seed, number, scenario, tuple(sorted(faults, key=lambda fault: moments.index(fault.moment))))


def base(scenario: str) -> str:
    """Return the scenario whose quiet trial shows what one is to come to."""
    return QUIET.get(scenario, ("run",))[-1]


def moments_of(scenario: str) -> tuple[str, ...]:
    """Return the moments of a scenario in the order in which they come."""
    return MOMENTS_OF.get(scenario, MOMENTS)


def _fault(chance: Random, scenario: str) -> Fault:
    kinds = KINDS[scenario]
    (kind,) = chance.choices(list(kinds), list(kinds.values()))
    moment, target = chance.choice(moments_of(scenario)), str(chance.randrange(4))
    if kind == "spoil answers":
        ways = RAW_ANSWERS if scenario == "run with an LLM" else ANSWERS
        moment, target = chance.choice(MOMENTS[:10]), " ".join(chance.choices(ways, k=chance.randint(1, 4)))
    elif kind == "spoil upload":
        moment, target = "start", f"{chance.choice(OBJECTS)} {chance.choice(UPLOADS)}"
    elif "trainer" in kind and scenario != "grid":
        moment = chance.choice(["trainer", "labels 1", "labels 2"])
    return Fault(kind, moment, round(chance.expovariate(1.0), 2), round(chance.uniform(0.5, 8.0), 1), target)
