"""Speeds of machines, each with its source, and times that record which of these speeds were only assumed."""

import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.naming import Code, call
from al_ray.storage.files import read_json

CPU, CUDA = "cpu", "cuda"
MEASURE = call("plan", options=Code("al_ray.PlanOptions(measure=True, constants=FILE)"))
FIX = f"make it with: {MEASURE}"


@dataclass(frozen=True)
class Speed:
    """An amount per second (for `libraries`: bytes).

    measured: False if derived from peak figures or assumed. source: where and when it was measured, or its derivation.
    """

    value: float
    measured: bool
    source: str


@dataclass(frozen=True)
class Constants:
    """Speeds of a machine, as measured by `python -m jobs.plan --measure`; stage_times.py uses them.

    [device]: work of the GPU, or of the CPU without one. [host]: work of the CPU in any case, because this version has
    no GPU path for it (counting and rescoring).
    """

    device: str  # cpu or cuda: where the speeds of the device were measured.
    machine: str  # Name of the machine.
    threads: int  # Threads used in the measurement.
    embed: Speed  # Floating-point operations of a forward pass, with batches as in a run [device].
    layers: Speed  # Layers of a forward pass launched, whatever their size [device].
    train: Speed  # Floating-point operations of forward and backward passes [device].
    optimiser: Speed  # Parameters clipped and updated by AdamW [device].
    product: Speed  # Multiply-adds of the blocked matrix product of the exact join [device].
    compare: Speed  # Cosines compared with the bounds of the exact join [device].
    meetings: Speed  # Pairs of blocks joined by the exact join, whatever their size [device and host].
    flat: Speed  # Multiply-adds of a Faiss Flat search for 109 neighbours [device].
    ivf: Speed  # Multiply-adds of a Faiss IVF search in the cells it probes [device].
    host_product: Speed  # Multiply-adds of a matrix product in float32 [host].
    count: Speed  # Pairs counted in an exact evaluation, besides their product [host].
    rescore: Speed  # Multiply-adds of float64 products of gathered pairs [host, one thread].
    sort: Speed  # Candidates sorted and deduplicated [host, one thread].
    tokenise: Speed  # Tokens made from texts [host, one process].
    transfer: Speed  # Bytes that an actor receives from others [measured on one machine only].
    grams: Speed  # Products of two weights added up by a search for 3-grams [host].
    comparisons: Speed  # Comparisons of two values, such as of two names [host].
    trees: Speed  # Candidates whose p a forest computes [host].
    libraries: Speed  # Bytes of a process that has imported torch and Faiss (not a speed).

    @property
    def dates(self) -> tuple[str, ...]:
        """Return the day of the measurement; nothing if the device was not measured."""
        return (self.embed.source.partition(",")[0],) if self.embed.measured else ()


ABOUT = ("device", "machine", "threads")
SPEEDS = tuple(f.name for f in fields(Constants) if f.name not in ABOUT)
LATER = ("grams", "comparisons", "trees")
"""Speeds that files of earlier versions lack: of runs with a matcher."""


@dataclass(frozen=True)
class Time:
    """Seconds, and the names of the constants in them that were not measured."""

    seconds: float = 0.0
    assumed: frozenset[str] = frozenset()

    def __add__(self, other: "Time") -> "Time":
        return Time(self.seconds + other.seconds, self.assumed | other.assumed)

    def times(self, factor: float) -> "Time":
        """Return the time multiplied by a factor."""
        return replace(self, seconds=self.seconds * factor)

    @property
    def measured(self) -> bool:
        """Return whether every constant in it was measured."""
        return not self.assumed


def time_of(amount: float, constants: Constants, name: str, workers: float = 1.0) -> Time:
    """Return the time of an amount of work at a constant's speed, shared evenly by workers; 0 of no work."""
    if not amount:
        return Time()
    speed = cast(Speed, getattr(constants, name))
    return Time(amount / speed.value / workers, frozenset() if speed.measured else frozenset([name]))


def longest(*times: Time) -> Time:
    """Return the longest of concurrent times; constants assumed in any of them count as assumed."""
    return Time(max(time.seconds for time in times), frozenset[str]().union(*(time.assumed for time in times)))


def as_content(constants: Constants, date: str) -> dict[str, Any]:
    """Return the content of a `--constants` file. date: of the measurement."""
    about = {name: getattr(constants, name) for name in ABOUT}
    return {**about, "date": date, "constants": {name: asdict(getattr(constants, name)) for name in SPEEDS}}


def from_content(content: Any, path: str) -> Constants:
    """Return the constants in a file's content; BadFile names the file and the fault."""
    try:
        speeds = dict[str, Any](content["constants"].items())
        # A file of an earlier version.
        old = [name for name in LATER if name not in speeds]
        speeds |= {name: asdict(replace(getattr(BUILT_IN_CPU, name), measured=False)) for name in old}
        unknown = sorted(set(speeds) ^ set(SPEEDS))
        if unknown:
            raise BadFile(f"{path}: {', '.join(unknown)} is unknown or missing; {FIX}")
        read = {name: Speed(float(s["value"]), s["measured"], str(s["source"])) for name, s in speeds.items()}
        constants = Constants(content["device"], str(content["machine"]), int(content["threads"]), **read)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadFile(f"{path} holds no constants ({type(error).__name__}: {error}); {FIX}") from error
    for name, speed in read.items():
        if not (math.isfinite(speed.value) and speed.value > 0) or speed.measured not in (True, False):
            raise BadFile(f"{path}: {name} is {speed.value}, measured {speed.measured}; {FIX}")
    if constants.device not in (CPU, CUDA) or constants.threads < 1:
        raise BadFile(f"{path}: device {constants.device!r} with {constants.threads} threads; {FIX}")
    return constants


def read_constants(path: Path | None, device: str, built_in: str) -> Constants:
    """Return the speeds in a file, or the built-in ones of that name. BadOption if they are of another device."""
    if path is None:
        return BUILT_IN[built_in]
    try:
        content = read_json(path)
    except BadFile as error:
        raise BadFile(f"{path} cannot be read; {FIX}") from error
    constants = from_content(content, str(path))
    if constants.device != device:
        raise BadOption(f"{path} was measured on {constants.device}, and the shards are on {device}; {FIX}")
    return constants


# By `python -m jobs.plan --measure --max-length 64`, 06:19 UTC, all-MiniLM-L6-v2: the fastest of four runs, because
# other load on the machine halved all speeds that use two threads.
EPYC = "2026-11-21, 2 cores of an AMD EPYC, no GPU, 2 threads"
EPYC_SPEEDS = (
    *(("embed", 1.8e11), ("layers", 890.0), ("train", 1.5e11), ("optimiser", 9.4e8), ("product", 1.05e11)),
    *(("compare", 5.4e9), ("meetings", 1.05e4), ("flat", 1.03e11), ("ivf", 2.2e10), ("host_product", 8.4e10)),
    *(("count", 4.3e7), ("rescore", 3.8e8), ("sort", 5.5e6), ("tokenise", 2.3e5), ("libraries", 4.65e8)),
)
# By the same command on 2026-11-28.
MATCHER_EPYC = "2026-11-28, 2 cores of an AMD EPYC, no GPU, 2 threads"
MATCHER_SPEEDS = (("grams", 3.2e8), ("comparisons", 3.7e6), ("trees", 1.2e5))
PUT = "a put of 205 MB into Ray's store took 0.16 s on one machine; a network was not measured"
BUILT_IN_CPU = Constants(
    *(CPU, "2 cores of an AMD EPYC", 2),
    transfer=Speed(1.3e9, False, PUT),
    **{name: Speed(value, True, EPYC) for name, value in EPYC_SPEEDS},
    **{name: Speed(value, True, MATCHER_EPYC) for name, value in MATCHER_SPEEDS},
)


@dataclass(frozen=True)
class Card:
    """Published peak rates of a GPU: dense bfloat16 and float32 operations, and bytes of memory traffic, per second."""

    name: str
    bfloat16: float
    float32: float
    bandwidth: float


H200 = Card("H200", 989e12, 67e12, 4.8e12)
A100 = Card("A100", 312e12, 19.5e12, 2.0e12)


def assumed_constants(card: Card) -> Constants:
    """Return assumed constants of a GPU: shares of its peak rates, marked as not measured; the host is the CPU above.

    Small encoders with batches of 64 are bound by kernel launches: about 40 kernels for a layer, 12 microseconds each
    from Python. The exact join moves about 20 bytes for a cosine (product, two comparisons, positions), an AdamW step
    with clipping about 44 bytes for a parameter.
    """

    def share(percent: float, peak: float, what: str) -> Speed:
        return Speed(percent / 100 * peak, False, f"assumed {percent:g}% of {card.name}'s peak {what}, not measured")

    traffic, bfloat16 = "memory traffic", "in bfloat16"
    host = {
        name: replace(speed, measured=False, source=f"taken from the CPU of {speed.source}; the host was not measured")
        for name in ("host_product", "count", "rescore", "sort", "tokenise", *LATER, "libraries")
        for speed in [cast(Speed, getattr(BUILT_IN_CPU, name))]
    }
    speeds: dict[str, Speed] = {
        **host,
        "embed": share(40, card.bfloat16, bfloat16),
        "layers": Speed(2000.0, False, "assumed 0.5 ms per layer to launch its kernels from Python, not measured"),
        "train": share(30, card.bfloat16, bfloat16),
        "optimiser": share(50, card.bandwidth / 44, f"{traffic} at 44 bytes per parameter"),
        "product": share(40, card.bfloat16 / 2, "in float16"),
        "compare": share(60, card.bandwidth / 20, f"{traffic} at 20 bytes per cosine"),
        "meetings": Speed(2000.0, False, "assumed 0.5 ms to copy a block and launch its kernels, not measured"),
        "flat": share(40, card.float32 / 2, "in float32"),
        "ivf": share(30, card.bandwidth / 4, f"{traffic} at 4 bytes per number"),
        "transfer": Speed(1e9, False, "assumed 1 GB/s into an actor through Ray's store and a network, not measured"),
    }
    return Constants(CUDA, f"{card.name} (never measured)", BUILT_IN_CPU.threads, **speeds)


BUILT_IN = {CPU: BUILT_IN_CPU, "h200": assumed_constants(H200), "a100": assumed_constants(A100)}
