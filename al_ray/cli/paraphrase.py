"""The command paraphrase: python -m jobs.paraphrase {train|index|search|evaluate|compare} ...

python -m jobs.prepare qqp --source quora.tsv --held-out-pairs 5000 --out TASK
python -m jobs.paraphrase train --task TASK --out RUN
python -m jobs.paraphrase index --run RUN
python -m jobs.paraphrase search --run RUN --question "How do I learn to swim?"
python -m jobs.paraphrase evaluate --run RUN --split dev
python -m jobs.paraphrase compare --runs RUN RUN --split dev
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from al_ray.api import papers
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.entry import parse_options
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.index import ChosenProbes
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.text_table import format_columns


@dataclass(frozen=True, kw_only=True)
class Train(papers.ParaphraseConfig):
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


OPTIONS = Train | Index | Search | Evaluate | Compare


def main() -> None:
    """Parse the options and run the subcommand."""
    about = "Question paraphrase retrieval: train an encoder by metric learning, index questions, search among them."
    run_command(parse_options(OPTIONS, "paraphrase", about))


def run_command(options: Train | Index | Search | Evaluate | Compare) -> None:
    """Check the bounds of the options, run the subcommand and print its results."""
    check_bounds(options)
    progress = Progress()
    match options:
        case Train():

            def on_epoch(line: str) -> None:
                progress.close()
                print(line, flush=True)

            print(
                papers.train_encoder(
                    part(options, papers.ParaphraseConfig), options.out, options.device, progress, on_epoch
                )
            )
        case Index():
            cluster = ClusterConfig(shards=options.shards, shared_storage=options.shared_storage)
            lines = papers.index_questions(
                options.run, options.index, options.nprobe, options.least_recall, cluster, progress
            )
            progress.close()
            print(*map(as_called, lines), sep="\n")
        case Search():
            found = papers.search_questions(options.run, texts_of(options), options.count)
            if options.out is None:
                print_found(found)
                return
            papers.write_text(options.out, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found))
            print(f"wrote the results of {len(found):,} questions to {options.out}")
        case Evaluate():
            print(*map(as_called, papers.evaluate_model(options.run, options.split, options.timed)), sep="\n")
        case Compare():
            if (options.by is None) != (options.out is None):
                raise BadOption("--by and --out make a plot together; give both or neither")
            print(*papers.compare_models(options.runs, options.split, options.by, options.out), sep="\n")


def print_found(found: Iterable[dict[str, Any]]) -> None:
    """Print each question with the nearest ones."""
    for line in found:
        print(line["question"])
        rows = [(f"{one['distance']:.3f}", one["id"], one["text"]) for one in line["found"]]
        print(format_columns([("distance", "id", "question"), *rows]))


def texts_of(options: Search) -> list[str]:
    """Return the question, or the questions of the file."""
    if (options.question is None) == (options.questions is None):
        raise BadOption("give --question TEXT or --questions FILE")
    if options.questions is None:
        lines = [options.question or ""]
    else:
        try:
            lines = options.questions.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(
                f"{options.questions} cannot be read ({error}); give a UTF-8 file with one question per line"
            ) from error
    texts = [text.strip() for text in lines if text.strip()]
    if not texts:
        raise BadOption(f"{options.questions or '--question'} is empty; give a question")
    return texts
