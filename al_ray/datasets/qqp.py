"""Quora Question Pairs: the first release's TSV, and the layout of GLUE (paper, 3.1.2)."""

from pathlib import Path

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.graph import components
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, Task
from al_ray.core.text import same_text
from al_ray.datasets.splitting import Shares, deal, hold_out, symmetric_task, unseen
from al_ray.datasets.tsv import BadRows, Report, SkippedRow, TextTable, read_rows

HEADER = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")


def read_qqp(
    path: Path,
    bad_rows: BadRows,
    seed: int,
    shares: Shares = (0.5, 0.25, 0.25),
    held_out: int | None = None,
) -> tuple[Task, Report]:
    """The task of a TSV file, or of a folder with GLUE's train.tsv and dev.tsv (its test.tsv has no labels).

    A question is known by its qid: GLUE kept the release's. Positives are all pairs inside a component over positive
    pairs; splits keep components over positive AND negative pairs whole, and share out the questions.

    held_out: for paraphrase retrieval (paper 002, 4.1.2) dev and test have about so many positives each instead, and
    none of their questions occurs in train; splits keep components over positives whole, and train has all the rest.
    """
    questions = TextTable()
    skipped: list[SkippedRow] = []
    stated: list[tuple[int, int]] = []
    labels: list[bool] = []
    for file in _files(path):
        rows, left_out = read_rows(file, HEADER, _fault, bad_rows)
        skipped += left_out
        stated += [(questions.row(row[1], row[3]), questions.row(row[2], row[4])) for row in rows]
        labels += [row[5] == "1" for row in rows]
    pairs, positive = np.array(stated, dtype=np.int64).reshape(-1, 2), np.array(labels, dtype=np.bool_)
    if not len(pairs):
        raise BadFile(f"{path} holds no labelled pair; give --source the release's TSV or GLUE's folder")
    corpus = Corpus(tuple(questions.rows), tuple(questions.texts))
    matched = components(len(corpus), pairs[positive])
    if held_out is None:
        dealt = split_of = deal(components(len(corpus), pairs), shares, generator(seed, "split"))
    else:
        dealt = hold_out(matched, held_out, generator(seed, "held-out"))
        split_of = unseen(dealt, same_text(corpus.texts))
    task = symmetric_task("qqp", corpus, matched, pairs[~positive], split_of)
    inside = matched[pairs[~positive, 0]] == matched[pairs[~positive, 1]]
    settled = {
        "labelled pairs taken": len(pairs),
        "rows that repeat a pair": len(pairs) - len(np.unique(np.sort(pairs, axis=1), axis=0)),
        "negative rows inside a component of positives (the closure wins)": int(inside.sum()),
        "question ids with a second text (the first stands)": questions.disagreements,
        "questions of dev and test that occur in train (in no split)": int((split_of != dealt).sum()),
        "texts under more than one question id (kept apart, as labelled)": len(corpus) - len(set(corpus.texts)),
    }
    return task, Report(tuple(skipped), settled)


def _files(path: Path) -> list[Path]:
    """The labelled files of a source."""
    if not path.is_dir():
        return [path]
    if (path / "train.tsv").is_file():
        return [path / "train.tsv", path / "dev.tsv"]
    found = sorted(path.glob("*.tsv"))
    if len(found) != 1:
        raise BadFile(f"{path} holds neither GLUE's train.tsv and dev.tsv nor one TSV file; give --source the file")
    return found


def _fault(row: list[str]) -> str | None:
    """What is wrong with a row of six columns; the full release has a few of these."""
    for column in (1, 2, 3, 4):
        if not row[column].strip():
            return f"its {HEADER[column]} is empty"
    if row[1] == row[2]:
        return f"it pairs question {row[1]} with itself"
    return None if row[5] in ("0", "1") else f"its is_duplicate is {row[5]!r}, not 0 or 1"
