"""Index the questions of a task by a trained model, search among them, and evaluate the search."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from al_ray.apps.papers.paraphrase import index
from al_ray.apps.papers.paraphrase.folder import ParaphraseFolder, write_about
from al_ray.apps.papers.paraphrase.index import IndexSpec, QuestionSearch, RecallTarget, SearchResult, index_file
from al_ray.apps.papers.paraphrase.options import scaled_index
from al_ray.apps.papers.paraphrase.sharded_index import build_sharded_index, open_sharded_index
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.graph import components_of_texts
from al_ray.core.naming import command
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, Task, strings_at
from al_ray.core.text import same_text
from al_ray.encoders.encoder import TextEncoder, saved
from al_ray.metrics import ranking
from al_ray.metrics.ranking import DEPTH
from al_ray.search.faiss_index import DistanceIndex, set_threads
from al_ray.storage.atomic_folder import whole
from al_ray.storage.lock import locked

AT_ONCE = 4_096  # Questions of a file searched at a time.


def make_index(
    run: Path, factory: str | None, target: RecallTarget, cluster: ClusterConfig, watch: OnProgress
) -> tuple[ParaphraseFolder, dict[str, Any], int]:
    """Encode all questions of the task, index them by squared distance, and replace an earlier index of the folder.

    factory: a Faiss index-factory string; the paper's IVF2000,Flat, scaled to the number of questions, if None. With
    more than one shard, actors of Ray encode and index. Returns the folder, the record of the index, and the number of
    questions.
    """
    folder = ParaphraseFolder(run.resolve())
    # Before a lock would make the folder.
    task, (encoder, digest) = folder.task(), loaded(folder)
    count = len(task.left)
    factory = scaled_index(count) if factory is None else factory
    with locked(run), whole(folder.index) as aside:
        tokens = aside / "tokens"
        tokens.mkdir()
        encoder.tokenise(task.left.texts).write(tokens)
        spec = IndexSpec(str(folder.model), folder.config().encoding, str(tokens), str(aside), factory)
        if cluster.shards > 1:
            recall = build_sharded_index(spec, count, target, cluster, watch)
        else:
            recall = index.build_index(spec, count, target, watch)
        shutil.rmtree(tokens)
        about = {"index": factory, **asdict(recall), "digest": digest, "shards": cluster.shards}
        write_about(aside, {**about, "shared_storage": cluster.shared_storage}, task.left)
    return folder, about, count


def search_questions(run: Path, texts: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Return {question, found: [{id, distance, text}]} of each text: its `count` nearest indexed questions."""
    with opened(run) as (questions, corpus, _):
        return [line for part in parts(texts) for line in _described(part, questions.nearest(part, count), corpus)]


def evaluate_search(run: Path, split: str, timed: int) -> dict[str, Any]:
    """Compute P@1, P@10 and MRR over the 20 nearest questions of each question of a split, and the time of a query.

    timed: number of random questions that are searched one by one to measure the time.
    """
    task = ParaphraseFolder(run).task()
    with opened(run) as (questions, corpus, about):
        metrics = search_metrics(task, split, questions, timed)
        return {**metrics, "index": {**about, "questions": len(corpus)}}


def search_metrics(task: Task, split: str, questions: QuestionSearch, timed: int) -> dict[str, Any]:
    """Search among the task's questions with those of a split; equal texts are one question, whatever their ids.

    Questions of dev and test whose text is in train, too, are left out: the model was trained on their paraphrases.
    """
    same = same_text(task.left.texts)
    component = components_of_texts(same, np.concatenate([one.positives for one in task.splits.values()]))
    rows = ranking.queries_with_matches(component, same, task.with_known_pairs(split).space.left)
    every = len(rows)
    if split != "train" and "train" in task.splits:
        rows = rows[~np.isin(same[rows], same[task.split("train").space.left])]
    if not len(rows):
        raise BadOption(f"no {split} question has a paraphrase in other words; prepare a task that has")
    texts = strings_at(task.left.texts, rows)
    # A text that is in the index several times would otherwise leave fewer than DEPTH others.
    depth = DEPTH + int(np.bincount(same)[same[rows]].max())
    nearest = np.concatenate([questions.nearest(part, depth).places for part in parts(texts)])
    nearest = ranking.exclude_queries(nearest, rows, same, DEPTH)
    ranks = ranking.first_match_ranks(nearest, component[nearest] == component[rows][:, None])
    return {
        "split": split,
        "queries": len(rows),
        "queries_left_out": every - len(rows),
        "precision_at_1": ranking.precision_at(ranks, 1),
        "precision_at_10": ranking.precision_at(ranks, 10),
        "mean_reciprocal_rank": ranking.mean_reciprocal_rank(ranks),
        "query": _query_time(questions, texts, timed),
    }


def _query_time(questions: QuestionSearch, texts: list[str], count: int) -> dict[str, float]:
    """Time random queries one by one, from text to rows: milliseconds, and Faiss's share of the time."""
    rows = generator(0, "timed-queries").permutation(len(texts))[:count].tolist()
    queries = [texts[row] for row in rows]
    questions.nearest(queries[:1], DEPTH)  # Warms up.
    each = [questions.nearest([text], DEPTH) for text in queries]
    whole_times = np.array([one.encoding + one.searching for one in each])
    return {
        "count": len(each),
        "mean_ms": float(1e3 * whole_times.mean()),
        "p95_ms": float(1e3 * np.quantile(whole_times, 0.95)),
        "faiss_share": float(sum(one.searching for one in each) / whole_times.sum()),
    }


def loaded(folder: ParaphraseFolder) -> tuple[TextEncoder, str]:
    """Load the trained encoder with its threads fixed, and its digest; BadOption if it is not trained to its end."""
    config, about = folder.config(), folder.trained()
    if about is None:
        again = command("paraphrase train", out=folder.path)
        raise BadOption(f"{folder.path} is not trained to its end; run: {again} with its options")
    torch.set_num_threads(config.threads)
    set_threads(config.threads)
    encoder = saved(str(folder.model), config.encoding)
    if encoder.digest() != about["digest"]:
        raise BadFile(f"the weights in {folder.model} are not those that were trained; restore the folder")
    return encoder, about["digest"]


@contextmanager
def opened(run: Path) -> Iterator[tuple[QuestionSearch, Corpus, dict[str, Any]]]:
    """Open a model's index, its questions and its record; actors of its shards end with the context."""
    folder = ParaphraseFolder(run.resolve())
    encoder, _ = loaded(folder)
    about, corpus = folder.indexed()
    paths = [folder.index / index_file(shard) for shard in range(about["shards"])]
    with ExitStack() as stack:
        if len(paths) > 1:
            cluster = ClusterConfig(shards=len(paths), shared_storage=about["shared_storage"])
            searched = stack.enter_context(open_sharded_index(paths, encoder.config.threads, cluster))
        else:
            searched = DistanceIndex.read(paths[0])
        if len(searched) != len(corpus):
            raise BadFile(f"{folder.index} is not whole; make it again: {command('paraphrase index', run=run)}")
        yield QuestionSearch(encoder, searched), corpus, about


def parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield slices of at most AT_ONCE texts."""
    return (texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE))


def _described(texts: Sequence[str], result: SearchResult, corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Yield the nearest questions of each text, in the form of a JSON line."""
    for text, distances, places in zip(texts, result.distances.tolist(), result.places.tolist(), strict=True):
        near = [(distance, row) for distance, row in zip(distances, places, strict=True) if row >= 0]
        rows = [{"id": corpus.ids[row], "distance": distance, "text": corpus.texts[row]} for distance, row in near]
        yield {"question": text, "found": rows}
