"""The least time that one GPU needs for each stage of a run, by operations and bytes: python -m studies roofline

Prints the tables of docs/roofline.md, which has the formulas; with --write it puts them there. Peak rates are the
published ones; the host's time and the last column are those of `jobs.plan`. Nothing here was measured on a GPU.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from al_ray.apps.planning import stage_times
from al_ray.apps.planning.hardware import H200, Card, Constants, Time, assumed_constants
from al_ray.apps.planning.options import PlanOptions
from al_ray.apps.planning.plan import setting_of, time_words
from al_ray.apps.planning.setting import Setting
from al_ray.core.config.sections import SearchConfig
from al_ray.search.faiss_index import LEAST_SAMPLE, SAMPLE_PER_CELL
from al_ray.search.kmeans import ITERATIONS

PAGE = Path(__file__).resolve().parents[1] / "docs/roofline.md"
H100 = replace(H200, name="H100", bandwidth=3.35e12)
CARDS = (H100, H200)
PCIE = 64e9  # Bytes per second in one direction: PCIe 5.0 with 16 lanes.
ON_GPU = ("embed", "train", "exact", "flat", "ivf", "transfer")
PASSES = 1  # Forward passes of a training step on a GPU: one for both sides.
CELLS, PROBED = 4096, 64
QQP_STEPS = 82_000
QQP_TOKENS = (14, 31, 128)
HEAD = ("stage", "operations", "bytes", "compute", "memory", "activations", "host", "bound", "plan, H200")


@dataclass(frozen=True)
class Work:
    """Work of a stage: operations of a kind, bytes that go through memory (of kind PCIe: over that), and activations.

    Activations may stay in a GPU's cache of 50 MB instead. planned: its time in a plan.
    """

    stage: str
    kind: str
    operations: float
    traffic: float
    activations: float
    planned: Callable[[Setting], Time]

    def compute(self) -> float:
        """Seconds of the operations at the peak rate, which both cards share."""
        return self.operations / {"bf16": H200.bfloat16, "fp32": H200.float32}.get(self.kind, inf)

    def moved(self, amount: float, card: Card) -> float:
        """Seconds of an amount of bytes."""
        return amount / (PCIE if self.kind == "PCIe" else card.bandwidth)


def pool(kind: str = "exact", index: str = "Flat", evaluation: int = 2) -> PlanOptions:
    """The worked size: a million texts on a GPU, and a trainer on another."""
    search = SearchConfig(kind=kind, index=index, nprobe=PROBED)  # pyright: ignore[reportArgumentType]
    return PlanOptions(
        texts=1_000_000, evaluation_texts=evaluation, tokens=16, max_length=32, gpus=2, rounds=1, search=search
    )


def bert(tokens: int) -> PlanOptions:
    """QQP in 10 rounds from 2,048 labels, with BERT-base."""
    return PlanOptions(texts=275_000, dim=768, layers=12, tokens=tokens, max_length=128, gpus=2, rounds=10)


def setting(options: PlanOptions, constants: Constants) -> Setting:
    """The inputs of the formulas of jobs.plan."""
    return setting_of(options, options.sizes, options.workers, constants)


def host_alone(constants: Constants) -> Constants:
    """The same machine with a GPU that computes and copies in no time: what is left is the host's."""
    return replace(constants, **{name: replace(getattr(constants, name), value=inf) for name in ON_GPU})


def layer_weights(options: PlanOptions) -> float:
    """Weights of the matrix products of all layers."""
    return 12.0 * options.sizes.width**2 * options.sizes.layers


def activations(options: PlanOptions, texts: float) -> float:
    """Bytes that the layers of a forward pass read and write: 120 for a number of a token's vector, in each layer.

    Without fused kernels: 24 for four casts, 36 for six products, 8 for attention, 16 for the GELU, 20 for two sums and
    16 for two layer norms.
    """
    sizes = options.sizes
    return 120.0 * sizes.layers * sizes.width * sizes.tokens * texts


def embedding(options: PlanOptions) -> Iterator[Work]:
    """A pass over all texts, and its copies. Every batch casts the weights to bf16 (6 bytes) and reads them (2)."""
    sizes, texts = options.sizes, options.sizes.texts
    weights = 8.0 * layer_weights(options) * math.ceil(texts / options.encoder_batch)
    work = texts * sizes.operations, weights, activations(options, texts)
    yield Work("embed", "bf16", *work, lambda run: stage_times.embed_time(run, texts, None))
    yield Work("copies of embed", "PCIe", 0, texts * (9.0 * sizes.tokens + 4.0 * sizes.dim), 0, lambda _: Time())


def step(options: PlanOptions) -> Work:
    """A training step: a forward pass, and twice as much backward, over both texts of each pair.

    44 bytes of a parameter for AdamW and clipping. Of a weight, in each pass: a cast (6), two reads (4), a gradient in
    bf16 (2) and its cast (6); and 12 to add the gradients of two passes.
    """
    sizes, batch = options.sizes, options.training.batch
    weights = 44.0 * sizes.parameters + (18.0 * PASSES + 12.0 * (PASSES - 1)) * layer_weights(options)

    def planned(run: Setting) -> Time:
        whole = stage_times.train_time(run, batch).seconds - stage_times.encode_time(run, 2 * batch).seconds
        return Time(whole / options.training.epochs)

    return Work(
        "training step", "bf16", 6 * batch * sizes.operations, weights, 3 * activations(options, 2 * batch), planned
    )


def searches(options: PlanOptions) -> Iterator[Work]:
    """The exact join, and two indexes."""
    sizes, texts = options.sizes, options.sizes.texts

    def planned(run: Setting) -> Time:
        return stage_times.search_time(run, texts, None)

    yield Work("exact join", "bf16", 1.0 * texts**2 * sizes.dim, 10.0 * texts**2, 0, planned)
    yield Work("knn, Flat", "fp32", 2.0 * texts**2 * sizes.dim, 8.0 * texts**2, 0, planned)
    sample, probed = min(texts, max(LEAST_SAMPLE, SAMPLE_PER_CELL * CELLS)), texts * PROBED / CELLS
    product = ((ITERATIONS * sample + 2 * texts) * CELLS + texts * probed) * sizes.dim
    yield Work(f"knn, IVF{CELLS}", "fp32", 2.0 * product, 4.0 * texts * probed * sizes.dim, 0, planned)


def works() -> Iterator[tuple[Work, PlanOptions]]:
    """All stages of the worked size, each with the options of its plan."""
    exact = pool()
    sizes, measured = exact.sizes, pool(evaluation=exact.sizes.texts)
    scored = 2.0 * stage_times.scored_pairs(setting(measured, assumed_constants(H200))) * sizes.dim
    join, flat, cells = searches(exact)
    yield Work("tokenise", "host", 0, 0, 0, stage_times.tokenize_time), exact
    yield from ((work, exact) for work in (*embedding(exact), step(exact), join))
    yield flat, pool("knn")
    yield cells, pool("knn", f"IVF{CELLS},Flat")
    yield Work("exact count", "host", 2.0 * sizes.texts**2 * sizes.dim, 0, 0, _evaluated(counted=True)), measured
    yield Work("sampled scoring", "host", scored, 0, 0, _evaluated(counted=False)), measured
    yield Work("checkpoint", "PCIe", 0, 12.0 * sizes.parameters, 0, lambda _: Time()), exact


def _evaluated(*, counted: bool) -> Callable[[Setting], Time]:
    return lambda run: stage_times.evaluate_time(replace(run, counted=counted))


def row(work: Work, options: PlanOptions, times: float = 1.0) -> list[str]:
    """The cells of a line. The bound leaves activations out."""
    constants = assumed_constants(H200)
    host, planned = (work.planned(setting(options, one)).seconds for one in (host_alone(constants), constants))
    where, bounds = "PCIe" if work.kind == "PCIe" else "memory", list[str]()
    for card in CARDS:
        least = {"compute": work.compute(), where: work.moved(work.traffic, card), "host": host}
        bounds.append(max(least, key=lambda name: least[name]))
    moved = (
        " / ".join(dict.fromkeys(words(work.moved(amount, card) * times) for card in CARDS))
        for amount in (work.traffic, work.activations)
    )
    amounts = (power(amount * times) for amount in (work.operations, work.traffic + work.activations))
    bound = " / ".join(dict.fromkeys(bounds))
    return [
        work.stage,
        *amounts,
        words(work.compute() * times),
        *moved,
        words(host * times),
        bound,
        words(planned * times),
    ]


def power(amount: float) -> str:
    """Format an amount with two digits."""
    mantissa, _, exponent = f"{amount:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}" if amount else "-"


def words(seconds: float) -> str:
    """Format a time with two digits below ten seconds."""
    for unit, size in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if 0 < seconds < (1000 * size if size < 1 else 10):
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return time_words(Time(seconds)).removesuffix(" m")


def table(rows: list[list[str]]) -> str:
    """Format rows as Markdown."""
    lines = [HEAD, ["---"] * len(HEAD), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables() -> dict[str, str]:
    """The tables by name."""
    rows = list[list[str]]()
    for tokens in QQP_TOKENS:
        options, work = bert(tokens), step(bert(tokens))
        rows.append(row(replace(work, stage=f"step of {tokens} tokens"), options))
        rows.append(row(replace(work, stage=f"{QQP_STEPS:,} steps"), options, QQP_STEPS))
    return {"pool": table([row(work, options) for work, options in works()]), "qqp": table(rows)}


def with_tables(page: str) -> str:
    """Replace the tables of the page, each of which follows a comment with its name, up to an empty line."""
    for name, text in tables().items():
        page = re.sub(rf"(<!-- table {name} -->\n\n)(\|.*\n)*", lambda found, text=text: f"{found[1]}{text}\n", page)
    return page


@dataclass(frozen=True)
class Roofline:
    """The least time that one GPU needs for each stage of a run, by operations and bytes."""

    write: bool = False
    """Write the tables into docs/roofline.md, too."""

    def results(self) -> str:
        """Return the tables, which the page then has where that is wanted."""
        if self.write:
            PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return "\n\n".join(tables().values())
