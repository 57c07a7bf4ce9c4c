"""Options of the subcommands of paraphrase."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from al_ray.apps.papers.paraphrase.options import ParaphraseConfig
from al_ray.core.config.bounds import Between
from al_ray.core.config.index import ChosenProbes


@dataclass(frozen=True, kw_only=True)
class Train(ParaphraseConfig):
    """Train an encoder on a task's positives; rerun the same command to resume after the last complete epoch."""

    out: Path
    """Folder of the model. If it holds this training, the training is resumed."""
    device: str = "cpu"
    """Device of the training: cpu, or cuda:0."""


@dataclass(frozen=True)
class Index:
    """Encode all questions of the task and index them by squared distance."""

    run: Path
    """Folder of a model (paraphrase train)."""
    index: str | None = None
    """Faiss index-factory string: Flat is exact. Default: IVFx,Flat with the paper's 278
    questions per cell."""
    nprobe: ChosenProbes = None
    """Cells of an IVF index that each query searches (the paper does not say). Default: the fewest that reach
    --least-recall."""
    least_recall: Annotated[float, Between(0, 1)] = 0.95
    """Warn when the index finds a smaller share of the 10 nearest questions, measured on 1,000 questions."""
    shards: int = 1
    """Ray actors that encode and later search the questions, each its part. Results of Flat and IVFx,Flat do not depend
    on it."""
    shared_storage: bool = False
    """All nodes mount the folder. Required on a cluster of several nodes; stored with the index."""


@dataclass(frozen=True)
class Search:
    """Find the indexed questions nearest to a question, or to each of a file."""

    run: Path
    """Folder of a model with an index."""
    question: str | None = None
    """A question, in quotes."""
    questions: Path | None = None
    """UTF-8 text file with one question per line; empty lines are skipped."""
    count: Annotated[int, Between(1, 10_000)] = 10
    """Number of questions to find for each."""
    out: Path | None = None
    """JSON-lines file of the results, one line per question. Default: they are printed."""


@dataclass(frozen=True)
class Evaluate:
    """P@1, P@10 and MRR over the 20 nearest questions of each question of a split, and the time of a query."""

    run: Path
    """Folder of a model with an index."""
    split: Literal["dev", "test"] = "dev"
    """Split. Tune on dev; measure test once, at the end."""
    timed: Annotated[int, Between(1, 1_000_000)] = 1_000
    """Number of questions, drawn at random, that are searched one by one to measure the time of a query."""


@dataclass(frozen=True)
class Compare:
    """Compare evaluated models: the mean (minimum to maximum) of those that differ in the seed alone."""

    runs: tuple[Path, ...]
    """Folders of evaluated models (paraphrase evaluate), of one task and with one kind of index."""
    split: Literal["dev", "test"] = "dev"
    """Split. Tune on dev; measure test once, at the end."""
    by: str | None = None
    """Numeric option, such as smoothing or batch, that is the x axis of the plot; with --out."""
    out: Path | None = None
    """Path of the plot without extension, for OUT.svg and OUT.png; with --by."""
