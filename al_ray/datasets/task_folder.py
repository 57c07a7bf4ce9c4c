"""Write and read task folders: Parquet tables and task.json.

task.json                            name, symmetric, digest, labels_are, splits with their counts, provenance, format
left.parquet right.parquet           id, text (no right.parquet when symmetric)
left-fields.parquet right-fields...  a column per field: characters of its cell in each text, and the field's type (only
                                     if several columns were joined to the texts; not part of the digest)
rule.json *-groups... *-values...    which pairs can match (only if not all can; datasets/pair_rules.py)
SPLIT/left.parquet right.parquet     row: the texts of the split, by their row above (no right.parquet when symmetric)
SPLIT/positives.parquet              left, right: rows of the task's texts, in order of key
SPLIT/stated_negatives.parquet       the same columns
"""

import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa

from al_ray.core.errors import BadFile, WriteErrors, WrongFolder
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Rows
from al_ray.core.task import SPLITS, Corpus, LabelsAre, Split, Task
from al_ray.datasets.corpus_file import (
    ROWS_IN_GROUP,
    fix_for,
    read_rows,
    stored_corpus,
    stored_texts,
    write_corpus,
    write_rows,
)
from al_ray.datasets.field_files import fields_path, read_fields, write_fields
from al_ray.datasets.pair_rules import add_rule, read_rule, write_rule, write_values
from al_ray.datasets.strings import add_strings
from al_ray.storage.files import (
    aside_of,
    read_json,
    remove_unfinished,
    stamped,
    write_root,
)
from al_ray.storage.uri import StoragePath, Uri, put_folder

FORMAT = 1
# Fields of task.json that every version has written, with their types; splits: counts by name.
FIELDS = {"digest": str, "format": int, "name": str, "splits": dict, "symmetric": bool}
ROWS = pa.schema([("row", pa.int64())])
PAIRS = pa.schema([("left", pa.int64()), ("right", pa.int64())])
# Sources whose labels are partial in a task.json of before labels_are; those of published data sets are complete.
PARTIAL = ("prepare pairs", "prepare logs")
# Every object of a task, by its path in the folder.
OBJECTS = re.compile(
    r"task\.json|rule\.json|(left|right)(-fields|-groups)?\.parquet|\w+-values\.parquet"
    rf"|({'|'.join(SPLITS)})/(left|right|positives|stated_negatives)\.parquet"
)

log = logging.getLogger(__name__)


def sealed(
    name: str,
    symmetric: bool,
    left: Corpus,
    right: Corpus,
    splits: Mapping[str, Split],
    rule: PairRule | None = None,
) -> Task:
    """Return a task with its digest. All tasks are made here."""
    return Task(name, symmetric, left, right, splits, _digest(symmetric, left, right, splits, rule), rule=rule)


def counts(split: Split) -> dict[str, int]:
    """Return the counts of a split, as task.json holds them."""
    return {
        "left": len(split.space.left),
        "right": len(split.space.right),
        "pairs": split.space.total,
        "positives": len(split.positives),
        "stated_negatives": len(split.stated_negatives),
    }


def write_task(task: Task, folder: StoragePath, provenance: Mapping[str, Any]) -> bool:
    """Write a task folder atomically; return False if the folder already contains the same task.

    provenance: the command, source and options that made the task, as JSON has them; not part of the digest. The same
    task with another provenance or other `labels_are` changes task.json alone. WrongFolder if the folder contains
    something else.
    """
    if isinstance(folder, Uri):
        return _put_task(task, folder, provenance)
    remove_unfinished(folder.parent, name=folder.name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return _is_same_task(task, folder, provenance)
    aside = aside_of(folder)
    log.info("writing %s", folder)
    try:
        _write_all(task, aside, provenance)
        os.rename(aside, folder)
    except OSError as error:
        raise WrongFolder(f"{folder} cannot be written ({error.strerror or error}); choose another `out`") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return True


def _put_task(task: Task, folder: Uri, provenance: Mapping[str, Any]) -> bool:
    # A folder of a task's objects without task.json is the remainder of a writer that died. It is written again, which
    # deletes what else it has: so a run, or a bucket, must not be taken for one.
    names = (uri.path.removeprefix(f"{folder.path}/") for uri, *_ in folder.objects())
    if folder.is_file() or (folder / "task.json").exists() or not all(map(OBJECTS.fullmatch, names)):
        return _is_same_task(task, folder, provenance)
    log.info("writing %s", folder)
    with WriteErrors(folder), tempfile.TemporaryDirectory(prefix="al_ray-") as local:
        _write_all(task, Path(local), provenance)
        put_folder(Path(local), folder, "task.json")
    return True


def read_task(folder: StoragePath) -> Task:
    """Read the task of a folder, and check its digest.

    Its ids and texts stay in the folder's files, which stay open: they are read once here, and later when needed.
    """
    about = read_about(folder)
    left, right = read_sides(folder)
    rule = read_rule(folder, about["symmetric"], (len(left), len(right)), fix_for(folder))
    bare = Task(about["name"], about["symmetric"], left, right, {}, about["digest"], rule=rule)
    splits = {name: _read_split(folder / name, name, bare) for name in SPLITS if name in about["splits"]}
    task = sealed(bare.name, bare.symmetric, left, right, splits, rule)
    task = replace(task, labels_are=labels_are_of(about, folder))
    if task.digest != about["digest"]:
        raise BadFile(f"{folder}: its tables do not match the digest in task.json; {fix_for(folder)}")
    # A driver keeps its task for hours: what reading all texts once has left in Arrow's memory goes back to the system.
    pa.default_memory_pool().release_unused()
    return task


def read_sides(folder: StoragePath) -> tuple[Corpus, Corpus]:
    """Read the texts of a task and their fields alone, unchecked; in a symmetric task both are one corpus."""
    left = _read_side(folder, "left")
    return left, left if read_about(folder)["symmetric"] else _read_side(folder, "right")


def read_about(folder: StoragePath) -> dict[str, Any]:
    """Read task.json: name, digest and counts, without the tables."""
    path = folder / "task.json"
    try:
        there = path.is_file()
    except OSError as error:
        raise WrongFolder(f"{folder} cannot be read ({error.strerror}); give the folder of a task") from error
    if not there:
        raise WrongFolder(f"{folder} holds no task.json; make a task folder with: `al-ray prepare --help`")
    about = read_json(path, FIELDS, fix_for(folder))
    if about["format"] != FORMAT:
        raise BadFile(f"{path} has format {about['format']}, this al_ray reads {FORMAT}; {fix_for(folder)}")
    if not isinstance(about.get("provenance", {}), dict):
        raise BadFile(f"{path}: its provenance is {about['provenance']!r}, not options by name; {fix_for(folder)}")
    return about


def labels_are_of(about: Mapping[str, Any], folder: StoragePath) -> LabelsAre:
    """Return whether the labels of a task are complete or partial, by the content of task.json; BadFile for others."""
    before = "partial" if about.get("provenance", {}).get("command") in PARTIAL else "complete"
    stated = about.get("labels_are", before)
    if stated not in get_args(LabelsAre):
        raise BadFile(f"{folder / 'task.json'}: labels_are is {stated!r}, not complete or partial; {fix_for(folder)}")
    return stated


def read_texts(folder: StoragePath, side: Literal["left", "right"], rows: Rows | None = None) -> list[str]:
    """Read only the texts of one side, or of some rows of it; in a symmetric task both sides are the same.

    Only the row groups that hold those rows are read, each once.
    """
    name = "left" if read_about(folder)["symmetric"] else side
    texts = stored_texts(folder / f"{name}.parquet")
    return list(texts) if rows is None else texts.take(rows)


def _is_same_task(task: Task, folder: StoragePath, provenance: Mapping[str, Any]) -> bool:
    other = read_about(folder) if (folder / "task.json").is_file() else None
    if other is not None and other["digest"] == task.digest:
        log.info("%s already contains this task", folder)
        # An earlier version wrote neither fields nor values of groups, and the digest does not tell by which columns
        # people see the texts.
        for side, corpus in _sides(task):
            write_fields(corpus.fields, fields_path(folder, side))
        if task.rule is not None:
            write_values(task.rule, folder)
        if labels_are_of(other, folder) != task.labels_are:
            log.info("the labels of %s are %s from now on", folder, task.labels_are)
        # --extend takes the columns, closure and other options of a task from its provenance.
        about = {**other, "labels_are": task.labels_are, "provenance": dict(provenance)}
        if about != other:
            write_root(folder / "task.json", about)
        return False
    holds = f"another task ({other['name']!r}, digest {other['digest'][:12]})" if other else "something else"
    raise WrongFolder(f"{folder} exists and holds {holds}; choose another `out`, or move it away")


def _sides(task: Task) -> Iterator[tuple[str, Corpus]]:
    """Yield the name and the corpus of each side; a symmetric task has one."""
    yield "left", task.left
    if not task.symmetric:
        yield "right", task.right


def _write_all(task: Task, folder: Path, provenance: Mapping[str, Any]) -> None:
    for side, corpus in _sides(task):
        write_corpus(corpus, folder / f"{side}.parquet")
        write_fields(corpus.fields, fields_path(folder, side))
    if task.rule is not None:
        write_rule(task.rule, folder, task.symmetric)
    for name, split in task.splits.items():
        write_rows(folder / name / "left.parquet", ROWS, split.space.left[:, None])
        if not task.symmetric:
            write_rows(folder / name / "right.parquet", ROWS, split.space.right[:, None])
        write_rows(folder / name / "positives.parquet", PAIRS, split.positives)
        write_rows(folder / name / "stated_negatives.parquet", PAIRS, split.stated_negatives)
    about = {
        "format": FORMAT,
        "name": task.name,
        "symmetric": task.symmetric,
        "digest": task.digest,
        "labels_are": task.labels_are,
        "splits": {name: counts(split) for name, split in task.splits.items()},
        "provenance": dict(provenance),
    }
    (folder / "task.json").write_text(json.dumps(stamped(about), indent=2) + "\n", encoding="utf-8")


def _read_side(folder: StoragePath, side: str) -> Corpus:
    """Read the texts of a side, and their fields if there are any."""
    corpus, path = stored_corpus(folder / f"{side}.parquet"), fields_path(folder, side)
    return replace(corpus, fields=read_fields(path, corpus.texts)) if path.is_file() else corpus


def _read_split(folder: StoragePath, name: str, task: Task) -> Split:
    left = read_rows(folder / "left.parquet", ROWS)[:, 0]
    right = left if task.symmetric else read_rows(folder / "right.parquet", ROWS)[:, 0]
    return Split(
        name=name,
        space=task.space(left, right),
        positives=read_rows(folder / "positives.parquet", PAIRS),
        stated_negatives=read_rows(folder / "stated_negatives.parquet", PAIRS),
    )


def _digest(symmetric: bool, left: Corpus, right: Corpus, splits: Mapping[str, Split], rule: PairRule | None) -> str:
    """Return the sha256 of all values in a fixed order, which does not depend on the Parquet encoding."""
    digest = hashlib.sha256(b"symmetric" if symmetric else b"two sides")
    for corpus in (left,) if symmetric else (left, right):
        for strings in (corpus.ids, corpus.texts):
            add_strings(digest, strings)
    for name in SPLITS:
        if name in splits:
            split = splits[name]
            for rows in (split.space.left, split.space.right, split.positives, split.stated_negatives):
                digest.update(f"{name} {rows.shape}".encode())
                for start in range(0, len(rows), ROWS_IN_GROUP):
                    digest.update(rows[start : start + ROWS_IN_GROUP].astype("<i8", copy=False).tobytes())
    if rule is not None:
        add_rule(digest, rule)
    return digest.hexdigest()
