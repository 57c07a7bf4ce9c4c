"""What shards and trainers read: token ids of all texts, and the batches of every part, written once for a run.

Token ids are written in chunks, by one worker or several, and a writer that is started again goes on with the chunks
that are missing.
"""

import hashlib
import json
import logging
from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from al_ray.cluster.places import BundleSlots
from al_ray.cluster.workers import run_in_worker, stream_from_workers
from al_ray.core.chunks import texts_in_chunk
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig, family_of
from al_ray.core.errors import BadFile, WriteErrors
from al_ray.core.labels import Model
from al_ray.core.naming import Code, call
from al_ray.core.pairs import Mask, Pairs, Rows
from al_ray.core.progress import OnProgress, no_progress
from al_ray.core.task import Task, strings_at
from al_ray.datasets.pair_rules import write_rule
from al_ray.datasets.task_folder import read_about, read_task, read_texts
from al_ray.encoders.encoder import TextEncoder, check_prompts, learn_words, untrained
from al_ray.encoders.prompts import Side
from al_ray.encoders.tokens import StoredTokens, batch_order, fetched_tokens, has_chunk, store_array
from al_ray.search.coverage import Coverage, CoverageCount, check_coverage, prompt_length
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath, storage_path

logger = logging.getLogger(__name__)

# How the encoder makes vectors, for people, and the mean number of tokens. The folder is complete with it: it is
# written last.
ENCODER = "encoder.json"
SOURCE = "source.json"  # The digest of the encoder by which token ids are made.
UNTRAINED = "untrained-{}.json"  # The digest of the encoder with which runs of these options begin.
Chunk = tuple[Side, int, int, int]
"""A chunk of token ids: the side, its number, and from which row to which it has the texts."""


def parts_of(task: Task) -> dict[tuple[str, str], str]:
    """(split, side) -> part: its side (a symmetric task has one) and a digest of its rows; equal rows are one part."""
    parts = {}
    for split in task.splits.values():
        parts[split.name, "left"] = _part("left", split.space.left)
        parts[split.name, "right"] = _part("left" if task.symmetric else "right", split.space.right)
    return parts


def pool_folder(task: Task, encoder: EncoderConfig, out: StoragePath) -> StoragePath:
    """Where a run keeps them: its name holds all that decides the token ids and their files."""
    prompts = [encoder.prompts] if encoder.prompts else []
    chunks = [texts_in_chunk(len(task.left)), texts_in_chunk(len(task.right))]
    decides = json.dumps([*chunks, task.digest, encoder.encoder, encoder.max_length, *prompts])
    return out.resolve() / "pool" / hashlib.sha256(decides.encode()).hexdigest()[:16]


def prepare_pool(
    task_folder: StoragePath,
    task: Task,
    encoder: EncoderConfig,
    out: StoragePath,
    cluster: ClusterConfig,
    slots: BundleSlots | None = None,
    watch: OnProgress = no_progress,
) -> StoragePath:
    """Return the pool folder, written by workers if it is not complete; BadOption for prompts that cannot be used."""
    check_prompts(encoder, task.symmetric)
    folder = pool_folder(task, encoder, out)
    if not (folder / ENCODER).is_file():
        source = str(task_folder.resolve()), encoder, str(folder)
        chunks = _chunks(task)
        workers = min(cluster.shards, len(chunks))
        # A side of one chunk is not worth two starts of workers.
        if workers > 1 and any(number for _, number, *_ in chunks):
            # Before the token ids, which need the words of an encoder that brings none.
            run_in_worker(write_base, *source, config=cluster, slots=slots)
            shares = [(*source, task.digest, tuple(chunks[worker::workers])) for worker in range(workers)]
            total = sum(stop - start for _, _, start, stop in chunks)
            for done in accumulate(stream_from_workers(write_tokens, shares, cluster, slots)):
                watch("tokenise", done, total)
        run_in_worker(write_pool, *source, config=cluster, slots=slots)
    about = read_json(folder / ENCODER, ["description"])
    # Logged by the driver, because nobody sees the log of a worker.
    logger.info("encoder %s: %s", encoder.encoder, about["description"])
    coverage = read_coverage(folder)
    if coverage is not None:
        check_coverage(coverage, encoder)
    return folder


def read_coverage(folder: StoragePath) -> Coverage | None:
    """Return what the encoder sees of the texts of a pool folder; None if it is not there, or of an earlier version."""
    path = folder / ENCODER
    content = read_json(path, ["description"]).get("coverage") if path.is_file() else None
    try:
        return None if content is None else Coverage.of_dict(content)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadFile(f"{path} is damaged ({error!r}); delete {folder} and run again") from error


def same_tokens(folder: StoragePath, symmetric: bool, pairs: Pairs) -> Mask:
    """Return (n,) which of (n, 2) pairs have the same token ids on both sides, by the files of a pool folder."""
    numbers, columns = dict[bytes, int](), list[Rows]()
    for side, column in zip(("left", "left" if symmetric else "right"), pairs.T, strict=True):
        rows, places = np.unique(column, return_inverse=True)
        contents = StoredTokens(fetched_tokens(folder) / side).take(rows).contents() if len(rows) else ()
        own = [numbers.setdefault(content, len(numbers)) for content in contents]
        columns.append(np.array(own, dtype=np.int64)[places])
    return columns[0] == columns[1]


def check_same_encoder(folder: StoragePath, encoder: EncoderConfig, untrained: Model, out: StoragePath) -> None:
    """Raise BadFile if the encoder is another than when a run first used the pool folder.

    Otherwise its models would be trained from other weights, or with token ids of another tokenizer. out: the run.
    """
    options = hashlib.sha256(json.dumps(encoder.digested()).encode()).hexdigest()[:16]
    path = folder / UNTRAINED.format(options)
    if not path.exists():
        write_json(path, {"digest": untrained.digest})
    elif read_json(path, ["digest"])["digest"] != untrained.digest:
        raise BadFile(
            f"the encoder {encoder.encoder} has changed since {out} began ({path}): its weights, tokenizer or pooling; "
            "restore it, or start a new run and take the labels along "
            f"({call('import_labels', run=Code('NEW'), task=Code('TASK'), labels=out)})"
        )


def write_pool(task_folder: str, encoder: EncoderConfig, folder: str) -> None:
    """Write the missing files of a pool folder: words, token ids, and the batches of each part."""
    to = storage_path(folder)
    if (to / ENCODER).is_file():
        return
    task = read_task(storage_path(task_folder))
    # Loaded once: to load an encoder takes longer than to tokenise a thousand texts.
    base, chunks = _write_base(task_folder, encoder, folder), _chunks(task)
    for _ in write_tokens(task_folder, encoder, folder, task.digest, tuple(chunks), base):
        pass
    tokens, count, every = fetched_tokens(to), 0, 0
    coverage = CoverageCount(base.unknown, base.special, encoder.max_length)
    for side in dict.fromkeys(side for side, *_ in chunks):
        stored, limit = StoredTokens(tokens / side), encoder.max_length
        corpus = task.left if side == "left" else task.right
        lengths, texts = stored.lengths(), len(corpus)
        if len(lengths) != texts:
            raise BadFile(
                f"{to / side} has token ids of {len(lengths):,} of {texts:,} texts; delete {to} and run again"
            )
        count, every = count + int(lengths.sum()), every + texts
        prompt = prompt_length(base, "left" if side == "left" else "right")
        for chunk in stored.chunks:
            coverage.add(chunk, prompt)
        full = int((lengths >= limit).sum())
        logger.info("%s: %d texts, %d of them with %d word pieces, the limit", side, len(lengths), full, limit)
        for (split, own), part in parts_of(task).items():
            if part.startswith(f"{side}-"):
                space = task.splits[split].space
                rows = space.left if own == "left" else space.right
                store_array(to / f"{part}.npy", batch_order(lengths[rows], rows))
    found = coverage.result(task.left.texts, *([] if task.symmetric else [task.right.texts]))
    about = {"description": base.description, "mean_tokens": count / max(1, every), "coverage": found.as_dict}
    write_json(to / ENCODER, about)


def write_base(task_folder: str, encoder: EncoderConfig, folder: str) -> None:
    """Write what tokenising needs, and the rule of which pairs can match."""
    _write_base(task_folder, encoder, folder)


def _write_base(task_folder: str, encoder: EncoderConfig, folder: str) -> TextEncoder:
    """Do what `write_base` does, and return the encoder."""
    task, to = read_task(storage_path(task_folder)), storage_path(folder)
    if family_of(encoder.encoder).learns_words:
        with WriteErrors(folder):
            learn_words(_trained_on(task), encoder, to)
    if task.rule is not None:
        write_rule(task.rule, to, task.symmetric)
    base = _tokeniser(task.symmetric, encoder, to)
    made_by = {"encoder": base.digest()}
    if (to / SOURCE).is_file() and read_json(to / SOURCE) != made_by:
        # By an encoder of the same name, which has been exchanged since.
        for stale in (path for side in ("left", "right") for path in (to / side).glob("*.npy")):
            stale.unlink(missing_ok=True)
    write_json(to / SOURCE, made_by)
    return base


def write_tokens(
    task_folder: str,
    encoder: EncoderConfig,
    folder: str,
    digest: str,
    chunks: tuple[Chunk, ...],
    base: TextEncoder | None = None,
) -> Iterator[int]:
    """Write chunks of token ids, unless they are there; yield the number of texts of each.

    base: the encoder of these options, as `_write_base` returns it; loaded if None.

    BadFile if the task of the folder has another digest, as where nodes have different folders of one name.
    """
    source, to = storage_path(task_folder), storage_path(folder)
    about = read_about(source)
    if about["digest"] != digest:
        raise BadFile(
            f"{source} holds another task on this node than where the run was started; copy the same folder to every "
            "node, or prepare the task at a URI"
        )
    base = base or _tokeniser(about["symmetric"], encoder, to)
    for side, number, start, stop in chunks:
        if not has_chunk(to / side, number):
            base.tokenise(read_texts(source, side, np.arange(start, stop)), side).write(to / side, number)
        yield stop - start


def _tokeniser(symmetric: bool, encoder: EncoderConfig, folder: StoragePath) -> TextEncoder:
    base = untrained(encoder, folder)
    if symmetric:
        base.use_left_prompt()
    return base


def _chunks(task: Task) -> list[Chunk]:
    """Return the chunks of token ids of a task."""
    sides: dict[Side, int] = {"left": len(task.left)}
    if not task.symmetric:
        sides["right"] = len(task.right)
    chunks = list[Chunk]()
    for side, texts in sides.items():
        size = texts_in_chunk(texts)
        for number, start in enumerate(range(0, max(1, texts), size)):
            chunks.append((side, number, start, min(start + size, texts)))
    return chunks


def _trained_on(task: Task) -> list[str]:
    """The texts of the train split, the left ones first, each side in order of rows; a symmetric task has one side."""
    if "train" not in task.splits:
        return []
    space = task.splits["train"].space
    texts = strings_at(task.left.texts, space.left)
    return texts if task.symmetric else [*texts, *strings_at(task.right.texts, space.right)]


def _part(side: str, rows: Rows) -> str:
    return f"{side}-{hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()[:12]}"
