"""Make a task of logs of questions and answers: questions of one answer are paraphrases (paper 002, 4.1.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa

from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.pairs import as_pairs
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, LabelsAre, Task
from al_ray.core.text import coherence, same_text
from al_ray.datasets.splitting import Numbers, Shares, symmetric_task
from al_ray.datasets.tables.columns import as_mask, compute
from al_ray.datasets.tables.format_options import TableOptions
from al_ray.datasets.tables.reader import read_table
from al_ray.datasets.tables.texts import require_texts
from al_ray.datasets.tsv import OR_SKIP, BadRowLog, Report


@dataclass(frozen=True, kw_only=True)
class QuestionLogs(TableOptions):
    """A table with a question and its answer in each row."""

    source: Path
    """Parquet, CSV, TSV or JSON lines."""
    question_column: str = "question"
    """Column of the questions; questions that differ only in case and white space are one question."""
    answer_column: str = "answer"
    """Column of the answers, of any type: a text or an id."""
    coherence: Annotated[float, Between(0, 1)] = 0.1
    """Minimum coherence of a cluster (Eq. 4-5); less coherent ones are many questions with one generic answer."""
    labels_are: LabelsAre = "partial"
    """complete: questions without a common answer are negatives, so average precision over all pairs can be measured.
    partial: such pairs are unknown."""
    split: str = "0.8,0.1,0.1"
    """Shares of the CLUSTERS in train, dev and test."""
    seed: int = 0
    """Random seed of the split of the clusters."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self)


def read_logs(options: QuestionLogs, shares: Shares) -> tuple[Task, Report]:
    """Read the task of a log: its positives are all pairs of questions of one coherent cluster.

    A question of several clusters belongs to one of train if there is one, else of dev, else of test. So no question of
    dev or test occurs in train. Questions in no cluster are in train without a positive, as texts of an index.
    """
    faults = BadRowLog(options.bad_rows, OR_SKIP)
    sheet = read_table(options.source, [options.question_column, options.answer_column], options.reading, faults)
    sheet = sheet.with_cells(question=sheet.cells[options.question_column], answer=sheet.cells[options.answer_column])
    sheet = require_texts(sheet, "question", [options.question_column], faults)
    empty = as_mask(compute.is_null(sheet.cells["answer"]))
    sheet = sheet.reject(empty, lambda _: f"its answer (column {options.answer_column!r}) is empty", faults)
    number = same_text(sheet.cells["question"].to_pylist())
    first = np.unique(number, return_index=True)[1]
    texts = sheet.cells["question"].take(pa.array(first)).to_pylist()
    groups = group_by_answer(number, sheet.cells["answer"].dictionary_encode().indices.to_numpy().astype(np.int64))
    several = [group for group in groups if len(group) > 1]
    coherent = [group for group in several if coherence([texts[row] for row in group]) >= options.coherence]
    component, split_of, shared = split_clusters(len(texts), coherent, shares, generator(options.seed, "split"))
    corpus = Corpus(tuple(str(row) for row in range(len(texts))), tuple(texts))
    task = symmetric_task(options.source.stem, corpus, component, as_pairs([], []), split_of)
    settled = {
        "rows taken": len(sheet),
        "different questions": len(texts),
        "clusters of two questions or more": len(several),
        f"clusters less coherent than {options.coherence:g} (not used)": len(several) - len(coherent),
        "questions in more than one cluster (used in train, else in dev, else in test)": shared,
    }
    return task, Report(tuple(faults.skipped), settled)


def group_by_answer(question: Numbers, answer: Numbers) -> list[list[int]]:
    """Return the distinct questions of each answer, both in order; question, answer: (n,) numbers of each row."""
    pairs = np.unique(np.stack([answer, question], axis=1), axis=0)
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    return [group.tolist() for group in np.split(pairs[:, 1], starts[1:])]


def split_clusters(
    texts: int, groups: Sequence[Sequence[int]], shares: Shares, rng: np.random.Generator
) -> tuple[Numbers, Numbers, int]:
    """Split clusters of rows below `texts`; return components (texts,), splits (texts,) and the number of shared rows.

    Clusters are taken in random order: first those of train, then of dev, then of test, in the given shares. A row of
    several clusters belongs to the first of them.
    """
    order = rng.permutation(len(groups))
    ends = np.round(np.cumsum(shares) * len(groups)).astype(np.int64)
    component, split_of = np.arange(texts), np.zeros(texts, dtype=np.int64)
    taken, shared = np.zeros(texts, dtype=np.bool_), np.zeros(texts, dtype=np.bool_)
    for place, number in enumerate(order.tolist()):
        rows = np.array(groups[number])
        free = rows[~taken[rows]]
        shared[rows[taken[rows]]] = True
        taken[free] = True
        component[free] = texts + number
        split_of[free] = np.searchsorted(ends, place, side="right")
    return component, split_of, int(shared.sum())
