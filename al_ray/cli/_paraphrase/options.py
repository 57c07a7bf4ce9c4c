"""The options of the subcommands of paraphrase."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from al_ray.apps.paraphrase.options import ParaphraseConfig
from al_ray.core.config.bounds import Between


@dataclass(frozen=True, kw_only=True)
class Train(ParaphraseConfig):
    """Train an encoder on a task's positives; the same command goes on after the last whole epoch."""

    out: Path
    """Folder of the model: made if it is not there, gone on with if it is."""
    device: str = "cpu"
    """Where it is trained: cpu, or cuda:0."""


@dataclass(frozen=True)
class Index:
    """Encode all questions of the task and index them by squared distance."""

    run: Path
    """Folder of a model that jobs.paraphrase train has made."""
    index: str | None = None
    """A Faiss index-factory string: Flat is exact. The paper's IVF2000,Flat with cells as full as its own were
    (278 questions) when not given."""
    nprobe: Annotated[int | None, Between(1, 1_000_000)] = None
    """Cells that an IVF index looks into for each query: as few as --least-recall wants when not given (the paper does
    not say)."""
    least_recall: Annotated[float, Between(0, 1)] = 0.95
    """The share of the 10 nearest questions that the index must find, measured on 1,000 of them; a warning below it."""
    shards: int = 1
    """More than 1: so many actors of Ray encode the questions, and later search, each its part; Flat and IVFx,Flat find
    the same."""
    shared_storage: bool = False
    """Every node of the cluster mounts the folder; asked for where there are several nodes, and kept with the index."""


@dataclass(frozen=True)
class Search:
    """Find the indexed questions nearest to a question, or to each of a file."""

    run: Path
    """Folder of a model with an index."""
    question: str | None = None
    """A question, in quotes."""
    questions: Path | None = None
    """A UTF-8 text file with a question a line; empty lines are left out."""
    count: Annotated[int, Between(1, 10_000)] = 10
    """How many to find for each."""
    out: Path | None = None
    """JSON-lines file for what is found, a line a question; printed when not given."""


@dataclass(frozen=True)
class Evaluate:
    """P@1, P@10 and MRR over the first 20 found for each question of a split, and the time of a query."""

    run: Path
    """Folder of a model with an index."""
    split: Literal["dev", "test"] = "dev"
    """Choose by dev; look at test at the end."""
    timed: Annotated[int, Between(1, 1_000_000)] = 1_000
    """So many of the questions, drawn at random, are asked one by one to take the time."""


@dataclass(frozen=True)
class Compare:
    """Put evaluated models beside each other; of those that differ in the seed alone, the mean (least to greatest)."""

    runs: tuple[Path, ...]
    """Folders of models that jobs.paraphrase evaluate has measured, of one task and by one kind of index."""
    split: Literal["dev", "test"] = "dev"
    """Choose by dev; look at test at the end."""
    by: str | None = None
    """An option that is a number, such as smoothing or batch: its values are the x axis of the picture."""
    out: Path | None = None
    """The picture, OUT.svg and OUT.png; with --by."""
