"""What is done with a trained paraphrase model: index questions, search among them, measure the search."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from al_ray.cluster.questions import index_sharded, sharded
from al_ray.core.config import ClusterConfig, generator
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.limits import refuse_beyond
from al_ray.core.paraphrase import scaled
from al_ray.core.retrieval import (
    DEPTH,
    askable,
    first_match,
    mean_reciprocal_rank,
    others,
    precision_at,
)
from al_ray.core.task import Corpus, Task
from al_ray.core.words import same_text
from al_ray.data.clusters import components
from al_ray.data.files import write_json, write_text
from al_ray.data.paraphrase_folder import ParaphraseFolder, write_about
from al_ray.model.encoders import TextEncoder, saved
from al_ray.model.neighbours import ByDistance, set_threads
from al_ray.model.questions import (
    NEAREST,
    Found,
    IndexSpec,
    Probing,
    Questions,
    index_alone,
    index_file,
    tokens_of,
)
from al_ray.storage.lock import locked
from al_ray.storage.whole import whole
from jobs.entry import aligned
from jobs.progress import Progress

AT_ONCE = 4_096  # Questions of a file searched at a time.


@dataclass(frozen=True)
class Index:
    """Encode all questions of the task and index them by squared distance."""

    run: Path
    """Folder of a model that jobs.paraphrase train has made."""
    index: str | None = None
    """A Faiss index-factory string: Flat is exact. The paper's IVF2000,Flat with cells as full as its own were
    (278 questions) when not given."""
    nprobe: int | None = None
    """Cells that an IVF index looks into for each query: as few as --least-recall wants when not given (the paper does
    not say)."""
    least_recall: float = 0.95
    """The share of the 10 nearest questions that the index must find, measured on 1,000 of them; a warning below it."""
    shards: int = 1
    """More than 1: so many actors of Ray encode the questions, and later search, each its part; Flat and IVFx,Flat find
    the same."""
    shared_storage: bool = False
    """Every node of the cluster mounts the folder; asked for where there are several nodes, and kept with the index."""

    def carry_out(self) -> None:
        """Make the index, or make it again."""
        refuse_beyond(
            [
                (1 if self.nprobe is None else self.nprobe, "--nprobe", 1, 1_000_000),
                (self.least_recall, "--least-recall", 0, 1),
            ]
        )
        wanted = Probing(self.nprobe, self.least_recall)
        cluster = ClusterConfig(shards=self.shards, shared_storage=self.shared_storage)
        folder = ParaphraseFolder(self.run.resolve())
        # Before a lock would make the folder.
        task, (encoder, digest) = folder.task(), loaded(folder)
        factory = scaled(len(task.left)) if self.index is None else self.index
        with locked(self.run), whole(folder.index) as aside:
            tokens = aside / "tokens"
            tokens.mkdir()
            tokens_of(encoder, task.left.texts).write(tokens)
            spec = IndexSpec(str(folder.model), folder.config().encoding, str(tokens), str(aside), factory)
            watch = Progress()
            if self.shards > 1:
                made = index_sharded(spec, len(task.left), wanted, cluster, watch)
            else:
                made = index_alone(spec, len(task.left), wanted, watch)
            watch.close()
            shutil.rmtree(tokens)
            about = {"index": factory, **asdict(made), "digest": digest, "shards": self.shards}
            write_about(aside, {**about, "shared_storage": self.shared_storage}, task.left)
        print(f"{len(task.left):,} questions in {folder.index}", of_index(about), sep="\n")


@dataclass(frozen=True)
class Search:
    """Find the indexed questions nearest to a question, or to each of a file."""

    run: Path
    """Folder of a model with an index."""
    question: str | None = None
    """A question, in quotes."""
    questions: Path | None = None
    """A UTF-8 text file with a question a line; empty lines are left out."""
    count: int = 10
    """How many to find for each."""
    out: Path | None = None
    """JSON-lines file for what is found, a line a question; printed when not given."""

    def carry_out(self) -> None:
        """Search, and print or write what was found."""
        refuse_beyond([(self.count, "--count", 1, 10_000)])
        texts = self.texts()
        with opened(self.run) as (questions, corpus, _):
            lines = [line for part in parts(texts) for line in told(part, questions.nearest(part, self.count), corpus)]
        if self.out is not None:
            write_text(self.out, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
            print(f"{len(lines):,} questions searched for: {self.out}")
            return
        for line in lines:
            print(line["question"])
            rows = [(f"{one['distance']:.3f}", one["id"], one["text"]) for one in line["found"]]
            print(aligned([("distance", "id", "question"), *rows]))

    def texts(self) -> list[str]:
        """What is asked."""
        if (self.question is None) == (self.questions is None):
            raise BadOption("give --question TEXT or --questions FILE")
        if self.questions is None:
            asked = [self.question or ""]
        else:
            try:
                asked = self.questions.read_text(encoding="utf-8-sig").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise BadFile(
                    f"{self.questions} cannot be read ({error}); give a UTF-8 file, a question a line"
                ) from error
        texts = [text.strip() for text in asked if text.strip()]
        if not texts:
            raise BadOption(f"{self.questions or '--question'} is empty; give a question")
        return texts


@dataclass(frozen=True)
class Evaluate:
    """P@1, P@10 and MRR over the first 20 found for each question of a split, and the time of a query."""

    run: Path
    """Folder of a model with an index."""
    split: Literal["dev", "test"] = "dev"
    """Choose by dev; look at test at the end."""
    timed: int = 1_000
    """So many of the questions, drawn at random, are asked one by one to take the time."""

    def carry_out(self) -> None:
        """Measure, print, and write evaluation-SPLIT.json."""
        refuse_beyond([(self.timed, "--timed", 1, 1_000_000)])
        task = ParaphraseFolder(self.run).task()
        with opened(self.run) as (questions, corpus, about):
            figures = self.figures(task, questions, corpus)
        figures["index"] = {**about, "questions": len(corpus)}
        path = self.run / f"evaluation-{self.split}.json"
        write_json(path, figures)
        print(of_evaluation(figures))
        print(f"results: {path}")

    def figures(self, task: Task, questions: Questions, corpus: Corpus) -> dict[str, Any]:
        """What the search comes to."""
        pairs = np.concatenate([split.positives for split in task.splits.values()])
        component, same = components(len(corpus), pairs), same_text(corpus.texts)
        asked = askable(component, same, task.measurable(self.split).space.left)
        if not len(asked):
            raise BadOption(f"no {self.split} question has a paraphrase in other words; prepare a task that has")
        texts = [corpus.texts[row] for row in asked]
        # A text that stands in the index several times would otherwise leave fewer than DEPTH others.
        depth = DEPTH + int(np.bincount(same)[same[asked]].max())
        found = np.concatenate([questions.nearest(part, depth).places for part in parts(texts)])
        found = others(found, asked, same, DEPTH)
        ranks = first_match(found, component[found] == component[asked][:, None])
        return {
            "split": self.split,
            "queries": len(asked),
            "precision_at_1": precision_at(ranks, 1),
            "precision_at_10": precision_at(ranks, 10),
            "mean_reciprocal_rank": mean_reciprocal_rank(ranks),
            "query": timed(questions, texts, self.timed),
        }


def timed(questions: Questions, texts: list[str], count: int) -> dict[str, float]:
    """Milliseconds of a query asked alone, from text to rows, and the share of all time that was Faiss's."""
    drawn = generator(0, "timed-queries").permutation(len(texts))[:count].tolist()
    asked = [texts[row] for row in drawn]
    questions.nearest(asked[:1], DEPTH)  # Warms up.
    each = [questions.nearest([text], DEPTH) for text in asked]
    whole_times = np.array([one.encoding + one.searching for one in each])
    return {
        "count": len(each),
        "mean_ms": float(1e3 * whole_times.mean()),
        "p95_ms": float(1e3 * np.quantile(whole_times, 0.95)),
        "faiss_share": float(sum(one.searching for one in each) / whole_times.sum()),
    }


def of_evaluation(figures: dict[str, Any]) -> str:
    """The figures as a table and a line."""
    names = ("precision_at_1", "precision_at_10", "mean_reciprocal_rank")
    query = figures["query"]
    return "\n".join([
        aligned([("split", "queries", "P@1", "P@10", "MRR"), (
            figures["split"], f"{figures['queries']:,}", *(f"{figures[name]:.4f}" for name in names)
        )]),
        f"a query: {query['mean_ms']:.2f} ms (95% within {query['p95_ms']:.2f}), {query['faiss_share']:.0%} in Faiss",
        of_index(figures["index"]),
    ])  # fmt: skip


def of_index(about: dict[str, Any]) -> str:
    """What an index finds."""
    cells = "" if about["nprobe"] is None else f", --nprobe {about['nprobe']}"
    return f"index {about['index']}{cells}: finds {about['recall']:.1%} of the {NEAREST} nearest"


def loaded(folder: ParaphraseFolder) -> tuple[TextEncoder, str]:
    """The trained encoder, its threads fixed, and its digest; an error that names the cure when there is none."""
    config, about = folder.config(), folder.trained()
    if about is None:
        raise BadOption(f"{folder.path} is not trained to its end; run: python -m jobs.paraphrase train --out ...")
    torch.set_num_threads(config.threads)
    set_threads(config.threads)
    encoder = saved(str(folder.model), config.encoding)
    if encoder.digest() != about["digest"]:
        raise BadFile(f"the weights in {folder.model} are not those that were trained; restore the folder")
    return encoder, about["digest"]


@contextmanager
def opened(run: Path) -> Iterator[tuple[Questions, Corpus, dict[str, Any]]]:
    """A model's index, its questions, and what is said of it; its shards, if it has several, end with the context."""
    folder = ParaphraseFolder(run.resolve())
    encoder, _ = loaded(folder)
    about, corpus = folder.indexed()
    paths = [folder.index / index_file(shard) for shard in range(about["shards"])]
    with ExitStack() as stack:
        if len(paths) > 1:
            cluster = ClusterConfig(shards=len(paths), shared_storage=about["shared_storage"])
            index = stack.enter_context(sharded(paths, encoder.config.threads, cluster))
        else:
            index = ByDistance.read(paths[0])
        if len(index) != len(corpus):
            raise BadFile(f"{folder.index} is not whole; make it again: python -m jobs.paraphrase index --run {run}")
        yield Questions(encoder, index), corpus, about


def parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Texts, so many at a time."""
    return (texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE))


def told(texts: Sequence[str], found: Found, corpus: Corpus) -> Iterator[dict[str, Any]]:
    """What was found for each of the texts."""
    for text, apart, places in zip(texts, found.apart.tolist(), found.places.tolist(), strict=True):
        near = [(one, row) for one, row in zip(apart, places, strict=True) if row >= 0]
        rows = [{"id": corpus.ids[row], "distance": one, "text": corpus.texts[row]} for one, row in near]
        yield {"question": text, "found": rows}
