"""WikiQA as published (Yang et al. 2015): every question against every sentence of all splits (paper, 3.1.2)."""

from pathlib import Path

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Pairs, PairSpace, Rows, as_pairs, is_in
from al_ray.core.task import SPLITS, Corpus, Split, Task
from al_ray.datasets.task_folder import sealed
from al_ray.datasets.tsv import BadRows, Report, SkippedRow, TextTable, read_rows

HEADER = ("QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label")


def read_wikiqa(folder: Path, bad_rows: BadRows) -> tuple[Task, Report]:
    """The task of a folder that holds WikiQA-{train,dev,test}.tsv.

    A question is known by its QuestionID and a sentence by its SentenceID; the document title stands before the
    sentence, as in the paper's Figure 2. Of a pair with both labels the positive stands.
    """
    questions, sentences = TextTable(), TextTable()
    stated: dict[str, tuple[Pairs, np.ndarray]] = {}
    skipped: list[SkippedRow] = []
    for name in SPLITS:
        rows, left_out = read_rows(folder / f"WikiQA-{name}.tsv", HEADER, _fault, bad_rows)
        skipped += left_out
        left = [questions.row(row[0], row[1]) for row in rows]
        right = [sentences.row(row[4], f"{row[3]} . {row[5]}") for row in rows]
        stated[name] = as_pairs(left, right), np.array([row[6] == "1" for row in rows], dtype=np.bool_)
    _check_apart({name: np.unique(pairs[:, 0]) for name, (pairs, _) in stated.items()}, questions, folder)
    every = np.arange(len(sentences.texts), dtype=np.int64)
    splits = {name: _split(name, pairs, labels, every) for name, (pairs, labels) in stated.items()}
    settled = {
        "question ids with a second text (the first stands)": questions.disagreements,
        "sentence ids with a second text (the first stands)": sentences.disagreements,
        "rows that repeat a pair": sum(len(p) for p, _ in stated.values()) - sum(_stated(s) for s in splits.values()),
    }
    left, right = (Corpus(tuple(table.rows), tuple(table.texts)) for table in (questions, sentences))
    return sealed("wikiqa", False, left, right, splits), Report(tuple(skipped), settled)


def _fault(row: list[str]) -> str | None:
    """What is wrong with a row of seven columns."""
    for column in (0, 1, 3, 4, 5):
        if not row[column].strip():
            return f"its {HEADER[column]} is empty"
    return None if row[6] in ("0", "1") else f"its Label is {row[6]!r}, not 0 or 1"


def _split(name: str, pairs: Pairs, labels: np.ndarray, every: Rows) -> Split:
    """A split whose right side is every sentence; (n, 2) pairs with (n,) labels in file order."""
    space = PairSpace(left=np.unique(pairs[:, 0]), right=every, width=len(every), symmetric=False)
    positives = np.unique(space.keys(pairs[labels]))
    negatives = np.unique(space.keys(pairs[~labels]))
    negatives = negatives[~is_in(negatives, positives)]
    return Split(name, space, space.pairs(positives), space.pairs(negatives))


def _stated(split: Split) -> int:
    return len(split.positives) + len(split.stated_negatives)


def _check_apart(left: dict[str, Rows], questions: TextTable, folder: Path) -> None:
    """No question may be learned from in one split and asked in another."""
    rows, times = np.unique(np.concatenate(list(left.values())), return_counts=True)
    if (times > 1).any():
        id = list(questions.rows)[int(rows[times > 1][0])]
        raise BadFile(f"{folder}: question {id} stands in two splits; take the files as Microsoft published them")
