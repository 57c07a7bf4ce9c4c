"""Read Quora Question Pairs: the TSV of the first release, or the layout of GLUE (paper, 3.1.2)."""

from pathlib import Path

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.graph import components
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, Task
from al_ray.core.text import same_text
from al_ray.datasets.splitting import Shares, deal, hold_out, symmetric_task, unseen
from al_ray.datasets.tsv import OR_SKIP, BadRowLog, BadRows, Report, TextTable, find_fault, read_rows

HEADER = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")


def read_qqp(
    path: Path,
    bad_rows: BadRows,
    seed: int,
    shares: Shares = (0.5, 0.25, 0.25),
    held_out: int | None = None,
) -> tuple[Task, Report]:
    """Read the task from a TSV file, or from a folder with GLUE's train.tsv and dev.tsv (its test.tsv has no labels).

    A question is identified by its qid; GLUE has those of the first release. Positives are all pairs inside a component
    of positive pairs. A component of positive AND negative pairs lies in one split; `shares` are those of questions.

    held_out: for paraphrase retrieval (paper 002, 4.1.2): about this many positives in dev and in test, whose questions
    do not occur in train. Then only components of positives lie in one split, and train has all other questions.
    """
    questions, faults = TextTable(), BadRowLog(bad_rows, OR_SKIP)
    stated: list[tuple[int, int]] = []
    labels: list[bool] = []
    for file in _files(path):
        rows = read_rows(file, HEADER, _fault, faults)
        stated += [(questions.row(row[1], row[3]), questions.row(row[2], row[4])) for row in rows]
        labels += [row[5] == "1" for row in rows]
    pairs, positive = np.array(stated, dtype=np.int64).reshape(-1, 2), np.array(labels, dtype=np.bool_)
    if not len(pairs):
        raise BadFile(f"{path} holds no labelled pair; give `source` the release's TSV or GLUE's folder")
    corpus = Corpus(tuple(questions.rows), tuple(questions.texts))
    matched = components(len(corpus), pairs[positive])
    if held_out is None:
        drawn = split_of = deal(components(len(corpus), pairs), shares, generator(seed, "split"))
    else:
        drawn = hold_out(matched, held_out, generator(seed, "held-out"))
        split_of = unseen(drawn, same_text(corpus.texts))
    task = symmetric_task("qqp", corpus, matched, pairs[~positive], split_of)
    inside = matched[pairs[~positive, 0]] == matched[pairs[~positive, 1]]
    settled = {
        "labelled pairs taken": len(pairs),
        "rows that repeat a pair": len(pairs) - len(np.unique(np.sort(pairs, axis=1), axis=0)),
        "negative rows inside a component of positives (the closure wins)": int(inside.sum()),
        "question ids with a second text (the first is used)": questions.disagreements,
        "questions of dev and test that occur in train (in no split)": int((split_of != drawn).sum()),
        "texts under more than one question id (kept apart, as labelled)": len(corpus) - len(set(corpus.texts)),
    }
    return task, Report(tuple(faults.skipped), settled)


def _files(path: Path) -> list[Path]:
    """Return the files with labels."""
    if not path.is_dir():
        return [path]
    if (path / "train.tsv").is_file():
        return [path / "train.tsv", path / "dev.tsv"]
    files = sorted(path.glob("*.tsv"))
    if len(files) != 1:
        raise BadFile(f"{path} holds neither GLUE's train.tsv and dev.tsv nor one TSV file; give `source` the file")
    return files


def _fault(row: list[str]) -> str | None:
    """Return the fault of a row of six columns, or None; the full release has a few faulty rows."""
    itself = f"it pairs question {row[1]} with itself" if row[1] == row[2] else None
    return find_fault(row, HEADER, required=(1, 2, 3, 4)) or itself
