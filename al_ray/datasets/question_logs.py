"""Logs of questions and their answers -> a task: questions of one answer are paraphrases (paper 002, 4.1.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa

from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.pairs import as_pairs
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, Task
from al_ray.core.text import coherence, same_text
from al_ray.datasets.splitting import Numbers, Shares, symmetric_task
from al_ray.datasets.tables.columns import BadRowLog, as_mask, compute
from al_ray.datasets.tables.format_options import TableOptions
from al_ray.datasets.tables.reader import read_table
from al_ray.datasets.tables.texts import require_texts
from al_ray.datasets.tsv import Report


@dataclass(frozen=True, kw_only=True)
class QuestionLogs(TableOptions):
    """A table with a question and its answer a row."""

    source: Path
    """Parquet, CSV, TSV or JSON lines."""
    question_column: str = "question"
    """Column of the questions; those that differ in case and white space alone are one."""
    answer_column: str = "answer"
    """Column of the answers, of any type: a text, or an answer's id."""
    coherence: Annotated[float, Between(0, 1)] = 0.1
    """Clusters less coherent than this are no clusters (Eq. 4-5): many questions of one generic answer."""
    split: str = "0.8,0.1,0.1"
    """Shares of the CLUSTERS that train, dev and test get."""
    seed: int = 0
    """Names the draw that splits the clusters."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any file is read."""
        check_bounds(self)


def read_logs(asked: QuestionLogs, shares: Shares) -> tuple[Task, Report]:
    """The task of a log: its positives are all pairs of questions of one coherent cluster.

    A question of several answers stays with one of train's clusters, before one of dev's, before one of test's: so none
    of dev and test occurs in train. What is in no cluster is in train, without a pair, for an index to hold.
    """
    faults = BadRowLog(asked.bad_rows)
    sheet = read_table(asked.source, [asked.question_column, asked.answer_column], asked.reading, faults)
    sheet = sheet.with_cells(question=sheet.cells[asked.question_column], answer=sheet.cells[asked.answer_column])
    sheet = require_texts(sheet, "question", [asked.question_column], faults)
    empty = as_mask(compute.is_null(sheet.cells["answer"]))
    sheet = sheet.reject(empty, lambda _: f"its answer (column {asked.answer_column!r}) is empty", faults)
    number = same_text(sheet.cells["question"].to_pylist())
    first = np.unique(number, return_index=True)[1]
    texts = sheet.cells["question"].take(pa.array(first)).to_pylist()
    groups = answered(number, sheet.cells["answer"].dictionary_encode().indices.to_numpy().astype(np.int64))
    several = [group for group in groups if len(group) > 1]
    kept = [group for group in several if coherence([texts[row] for row in group]) >= asked.coherence]
    component, split_of, held = dealt(len(texts), kept, shares, generator(asked.seed, "split"))
    corpus = Corpus(tuple(str(row) for row in range(len(texts))), tuple(texts))
    task = symmetric_task(asked.source.stem, corpus, component, as_pairs([], []), split_of)
    settled = {
        "rows taken": len(sheet),
        "different questions": len(texts),
        "clusters of two questions or more": len(several),
        f"clusters less coherent than {asked.coherence:g} (their questions are in no cluster)": len(several)
        - len(kept),
        "questions in more than one cluster (train's stands before dev's, dev's before test's)": held,
    }
    return task, Report(tuple(faults.skipped), settled)


def answered(question: Numbers, answer: Numbers) -> list[list[int]]:
    """(n,) questions and their (n,) answers, by number -> the different questions of each answer, both in order."""
    pairs = np.unique(np.stack([answer, question], axis=1), axis=0)
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    return [group.tolist() for group in np.split(pairs[:, 1], starts[1:])]


def dealt(
    texts: int, groups: Sequence[Sequence[int]], shares: Shares, rng: np.random.Generator
) -> tuple[Numbers, Numbers, int]:
    """Clusters of rows below `texts` -> (texts,) components, (texts,) splits, and how many rows several clusters want.

    As many clusters as the shares say go to each split, in random order; they take their rows in the order of splits.
    """
    order = rng.permutation(len(groups))
    ends = np.round(np.cumsum(shares) * len(groups)).astype(np.int64)
    component, split_of = np.arange(texts), np.zeros(texts, dtype=np.int64)
    taken, wanted = np.zeros(texts, dtype=np.bool_), np.zeros(texts, dtype=np.bool_)
    for place, number in enumerate(order.tolist()):
        rows = np.array(groups[number])
        free = rows[~taken[rows]]
        wanted[rows[taken[rows]]] = True
        taken[free] = True
        component[free] = texts + number
        split_of[free] = np.searchsorted(ends, place, side="right")
    return component, split_of, int(wanted.sum())
