"""How fast machines are: constants, each with where it comes from, and times that know which of them were assumed."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from al_ray.core.errors import BadFile

CPU, CUDA = "cpu", "cuda"
CURE = "make it with: python -m jobs.plan --measure --constants FILE"


@dataclass(frozen=True)
class Speed:
    """So much a second (of `libraries`: so much); `measured` is False for what is derived from peak figures or assumed.

    source: where and when it was measured, or what it was derived from.
    """

    value: float
    measured: bool
    source: str


@dataclass(frozen=True)
class Constants:
    """What a machine does in a second, as `python -m jobs.plan --measure` finds out; see the stages for their use.

    Those of `device` are done by the GPU where there is one; those of the host by the CPU beside it, as the code of
    this version has it (counting and rescoring have no GPU path).
    """

    device: str
    """cpu or cuda: what the constants of the device were measured on."""
    machine: str
    """Its name in words."""
    threads: int
    """Cores that worked when these were measured."""
    embed: Speed
    """Floating-point operations of a forward pass, batches as in a run [device]."""
    layers: Speed
    """Layers of a forward pass started, whatever their size [device]."""
    train: Speed
    """Floating-point operations of forward and backward passes [device]."""
    optimiser: Speed
    """Parameters clipped and moved by AdamW [device]."""
    product: Speed
    """Multiply-adds of a blocked matrix product of vectors, as the exact join makes it [device]."""
    compare: Speed
    """Cosines compared with the bounds of the exact join [device]."""
    meetings: Speed
    """Meetings of two blocks in the exact join, whatever their size [device and host]."""
    flat: Speed
    """Multiply-adds of a Faiss Flat search for 109 neighbours [device]."""
    ivf: Speed
    """Multiply-adds of a Faiss IVF search within the cells it looks into [device]."""
    host_product: Speed
    """Multiply-adds of a matrix product in float32 [host]."""
    count: Speed
    """Pairs put into the tally of all pairs, besides their product [host]."""
    rescore: Speed
    """Multiply-adds of float64 products of gathered pairs [host, one thread]."""
    sort: Speed
    """Candidates sorted and made distinct [host, one thread]."""
    tokenise: Speed
    """Word pieces made of texts [host, one process]."""
    transfer: Speed
    """Bytes that an actor receives from others [one machine where it was measured]."""
    libraries: Speed
    """Bytes of a process that has imported torch and Faiss (not a speed)."""


ABOUT = ("device", "machine", "threads")
SPEEDS = tuple(f.name for f in fields(Constants) if f.name not in ABOUT)


@dataclass(frozen=True)
class Time:
    """Seconds, and the names of the constants in them that nobody measured."""

    seconds: float = 0.0
    assumed: frozenset[str] = frozenset()

    def __add__(self, other: "Time") -> "Time":
        return Time(self.seconds + other.seconds, self.assumed | other.assumed)

    def times(self, factor: float) -> "Time":
        """So many times as long."""
        return replace(self, seconds=self.seconds * factor)

    @property
    def measured(self) -> bool:
        """Whether every constant in it was measured."""
        return not self.assumed


def time_of(amount: float, constants: Constants, name: str, workers: float = 1.0) -> Time:
    """An amount of work at a constant's speed by `workers` that share it evenly. No work asks no constant."""
    if not amount:
        return Time()
    found = cast(Speed, getattr(constants, name))
    return Time(amount / found.value / workers, frozenset() if found.measured else frozenset([name]))


def longest(*times: Time) -> Time:
    """Work done side by side: as long as the longest; what might have been the longest was assumed too."""
    return Time(max(time.seconds for time in times), frozenset[str]().union(*(time.assumed for time in times)))


def as_content(constants: Constants, date: str) -> dict[str, Any]:
    """What the file of `--constants` holds."""
    made: dict[str, Any] = {"device": constants.device, "machine": constants.machine, "threads": constants.threads}
    speeds: dict[str, Any] = {}
    for name in SPEEDS:
        found = cast(Speed, getattr(constants, name))
        speeds[name] = {"value": found.value, "measured": found.measured, "source": found.source}
    return {**made, "date": date, "constants": speeds}


def from_content(content: Any, path: str) -> Constants:
    """The constants of a file; BadFile names it and what is wrong in it."""
    try:
        speeds = dict[str, Any](content["constants"].items())
        unknown = sorted(set(speeds) ^ set(SPEEDS))
        if unknown:
            raise BadFile(f"{path}: {', '.join(unknown)} is unknown or missing; {CURE}")
        read = {name: Speed(float(s["value"]), s["measured"], str(s["source"])) for name, s in speeds.items()}
        constants = Constants(content["device"], str(content["machine"]), int(content["threads"]), **read)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadFile(f"{path} holds no constants ({type(error).__name__}: {error}); {CURE}") from error
    for name, found in read.items():
        if not (math.isfinite(found.value) and found.value > 0) or found.measured not in (True, False):
            raise BadFile(f"{path}: {name} is {found.value}, measured {found.measured}; {CURE}")
    if constants.device not in (CPU, CUDA) or constants.threads < 1:
        raise BadFile(f"{path}: device {constants.device!r} with {constants.threads} threads; {CURE}")
    return constants


EPYC = "2026-11-21, 2 cores of an AMD EPYC, no GPU, 2 threads"


def _epyc(value: float) -> Speed:
    return Speed(value, True, EPYC)


# By `python -m jobs.plan --measure --max-length 64`, 06:19 UTC, all-MiniLM-L6-v2. The quietest of four runs in a row:
# while others used the machine too, it gave half as much of everything that takes two threads.
BUILT_IN_CPU = Constants(
    device=CPU,
    machine="2 cores of an AMD EPYC",
    threads=2,
    embed=_epyc(1.8e11),
    layers=_epyc(890.0),
    train=_epyc(1.5e11),
    optimiser=_epyc(9.4e8),
    product=_epyc(1.05e11),
    compare=_epyc(5.4e9),
    meetings=_epyc(1.05e4),
    flat=_epyc(1.03e11),
    ivf=_epyc(2.2e10),
    host_product=_epyc(8.4e10),
    count=_epyc(4.3e7),
    rescore=_epyc(3.8e8),
    sort=_epyc(5.5e6),
    tokenise=_epyc(2.3e5),
    transfer=Speed(
        1.3e9, False, "a put of 205 MB into Ray's store took 0.16 s on one machine; a network was not measured"
    ),
    libraries=_epyc(4.65e8),
)


@dataclass(frozen=True)
class Card:
    """Published peaks of a GPU: dense bfloat16 and float32 operations a second, bytes of memory traffic a second."""

    name: str
    bfloat16: float
    float32: float
    bandwidth: float


H200 = Card("H200", 989e12, 67e12, 4.8e12)
A100 = Card("A100", 312e12, 19.5e12, 2.0e12)


def assumed(card: Card) -> Constants:
    """A GPU that nobody has measured: shares of the published peaks, said so in each source; its host is the CPU above.

    Small encoders in batches of 64 wait for the start of their kernels, not for arithmetic: a layer is some 40 of them,
    from Python 12 microseconds each. The exact join reads and writes about 20 bytes a cosine (the product, two
    comparisons, the places); an AdamW step with clipping about 44 bytes a parameter.
    """

    def share(percent: float, peak: float, what: str) -> Speed:
        return Speed(percent / 100 * peak, False, f"assumed {percent:g}% of {card.name}'s peak {what}, not measured")

    traffic, bfloat16 = "memory traffic", "in bfloat16"
    host = {
        name: replace(found, measured=False, source=f"taken from the CPU of {found.source}; the host was not measured")
        for name in ("host_product", "count", "rescore", "sort", "tokenise", "libraries")
        for found in [cast(Speed, getattr(BUILT_IN_CPU, name))]
    }
    speeds: dict[str, Speed] = {
        **host,
        "embed": share(40, card.bfloat16, bfloat16),
        "layers": Speed(2000.0, False, "assumed 0.5 ms a layer to start its kernels from Python, not measured"),
        "train": share(30, card.bfloat16, bfloat16),
        "optimiser": share(50, card.bandwidth / 44, f"{traffic} at 44 bytes a parameter"),
        "product": share(40, card.bfloat16 / 2, "in float16"),
        "compare": share(60, card.bandwidth / 20, f"{traffic} at 20 bytes a cosine"),
        "meetings": Speed(2000.0, False, "assumed 0.5 ms to copy a block and start its kernels, not measured"),
        "flat": share(40, card.float32 / 2, "in float32"),
        "ivf": share(30, card.bandwidth / 4, f"{traffic} at 4 bytes a number"),
        "transfer": Speed(1e9, False, "assumed 1 GB/s into an actor through Ray's store and a network, not measured"),
    }
    return Constants(CUDA, f"{card.name} (never measured)", BUILT_IN_CPU.threads, **speeds)


BUILT_IN = {CPU: BUILT_IN_CPU, "h200": assumed(H200), "a100": assumed(A100)}
