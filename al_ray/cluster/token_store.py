"""What shards and trainer read: token ids of all texts and the rows of every part, made once and kept with the run."""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from al_ray.cluster.actors import BundleSlots, run_in_worker
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import WriteErrors
from al_ray.core.pairs import Rows
from al_ray.core.task import Corpus, Task, strings_at
from al_ray.datasets.pair_rules import write_rule
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.encoder import learn_words, refuse_prompts, untrained
from al_ray.encoders.prompts import Side
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath, Uri, put_folder, storage_path

logger = logging.getLogger(__name__)

ENCODER = "encoder.json"  # How the encoder makes vectors, for people.
LAST = "left/starts.npy"  # Of an object store's pool folder: the object that is written last.


def parts_of(task: Task) -> dict[tuple[str, str], str]:
    """(split, side) -> part: its side (a symmetric task has one) and a digest of its rows; equal rows are one part."""
    parts = {}
    for split in task.splits.values():
        parts[split.name, "left"] = _part("left", split.space.left)
        parts[split.name, "right"] = _part("left" if task.symmetric else "right", split.space.right)
    return parts


def pool_folder(task: Task, encoder: EncoderConfig, out: StoragePath) -> StoragePath:
    """Where a run keeps them: its name holds all that decides the token ids."""
    prompts = [encoder.prompts] if encoder.prompts else []
    decides = json.dumps([task.digest, encoder.encoder, encoder.max_length, *prompts])
    return out.resolve() / "pool" / hashlib.sha256(decides.encode()).hexdigest()[:16]


def prepare_pool(
    task_folder: StoragePath,
    task: Task,
    encoder: EncoderConfig,
    out: StoragePath,
    cluster: ClusterConfig,
    room: BundleSlots | None = None,
) -> StoragePath:
    """The pool folder, made by a worker if it is not there; BadOption for prompts that cannot be used."""
    refuse_prompts(encoder, task.symmetric)
    folder = pool_folder(task, encoder, out)
    if not (folder / LAST if isinstance(folder, Uri) else folder).exists():
        run_in_worker(write_pool, str(task_folder.resolve()), encoder, str(folder), config=cluster, room=room)
    if (folder / ENCODER).exists():
        # Said by the driver, because nobody sees the log of a worker.
        logger.info("encoder %s: %s", encoder.encoder, read_json(folder / ENCODER, ["description"])["description"])
    return folder


def write_pool(task_folder: str, encoder: EncoderConfig, folder: str) -> None:
    """Tokenise the task's texts and write them with the rows of its parts; written aside, then renamed, or put."""
    task, to = read_task(storage_path(task_folder)), storage_path(folder)
    if isinstance(to, Uri):
        with WriteErrors(to), tempfile.TemporaryDirectory(prefix="al_ray-") as local:
            _write(task, encoder, Path(local))
            put_folder(Path(local), to, LAST)
        return
    aside = Path(f"{folder}.{os.getpid()}")
    try:
        with WriteErrors(folder):
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            _write(task, encoder, aside)
            _settle(aside, to)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write(task: Task, encoder: EncoderConfig, aside: Path) -> None:
    """What a pool folder holds."""
    learn_words(_trained_on(task), encoder, aside)
    base = untrained(encoder, aside)
    if task.symmetric:
        base.use_left_prompt()
    write_json(aside / ENCODER, {"description": base.description})
    sides: tuple[tuple[Side, Corpus], ...] = (("left", task.left), ("right", task.right))
    for side, corpus in sides:
        if side == "right" and task.symmetric:
            continue
        (aside / side).mkdir()
        tokens = base.tokenise(corpus.texts, side)
        limit = base.config.max_length
        full = int((tokens.lengths(np.arange(len(tokens))) >= limit).sum())
        logger.info("%s: %d texts, %d of %d word pieces, the limit", side, len(tokens), full, limit)
        tokens.write(aside / side)
    if task.rule is not None:
        write_rule(task.rule, aside, task.symmetric)
    for (split, side), part in parts_of(task).items():
        space = task.splits[split].space
        np.save(aside / f"{part}.npy", space.left if side == "left" else space.right)


def _trained_on(task: Task) -> list[str]:
    """The texts of the train split, the left ones first, each side in order of rows; a symmetric task has one side."""
    if "train" not in task.splits:
        return []
    space = task.splits["train"].space
    texts = strings_at(task.left.texts, space.left)
    return texts if task.symmetric else [*texts, *strings_at(task.right.texts, space.right)]


def _settle(aside: Path, folder: Path) -> None:
    try:
        os.rename(aside, folder)
    except OSError:
        # A worker that Ray ran again after it had done its work, or another run's: what stands there is the same.
        if not folder.is_dir():
            raise


def _part(side: str, rows: Rows) -> str:
    return f"{side}-{hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()[:12]}"
