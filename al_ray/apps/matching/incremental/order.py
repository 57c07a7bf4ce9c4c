"""Texts in the order of their ids, so that no result depends on the order of the rows of a table."""

from dataclasses import replace

import numpy as np

from al_ray.core.id_order import rows_by_id
from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import NO_PAIRS, Rows
from al_ray.core.task import Corpus, Task
from al_ray.datasets.given_vectors import vectors_at
from al_ray.datasets.splitting import build_splits, whole_space
from al_ray.datasets.strings import reordered
from al_ray.datasets.task_folder import sealed


def corpus_at(corpus: Corpus, rows: Rows) -> Corpus:
    """Return the texts (n,) of (n,) rows, with their ids, fields, columns and vectors."""
    fields = corpus.fields
    if fields is not None:
        fields = replace(fields, lengths=fields.lengths[rows])
    columns = {name: reordered(cells, rows) for name, cells in corpus.columns.items()}
    return Corpus(
        reordered(corpus.ids, rows), reordered(corpus.texts, rows), fields, columns, vectors_at(corpus.vectors, rows)
    )


def task_of(name: str, left: Corpus, right: Corpus, symmetric: bool, rule: PairRule | None = None) -> Task:
    """Return a task of all pairs of texts that a rule allows, without labels."""
    right = left if symmetric else right
    space = replace(whole_space(len(left), len(right), symmetric), rule=rule)
    splits = build_splits(space, np.zeros(len(left), dtype=np.int64), NO_PAIRS, NO_PAIRS)
    return sealed(name, symmetric, left, right, splits, rule)


def sorted_by_id(task: Task) -> Task:
    """Return a task without labels with the texts of each side in the order of their ids."""
    left = rows_by_id(task.left.ids)
    right = left if task.symmetric else rows_by_id(task.right.ids)
    rule = task.rule
    if rule is not None:
        rule = PairRule(
            *(None if codes is None else _moved(codes, left, right) for codes in (rule.same, rule.different))
        )
    one = corpus_at(task.left, left)
    other = one if task.symmetric else corpus_at(task.right, right)
    return task_of(task.name, one, other, task.symmetric, rule)


def _moved(codes: GroupCodes, left: Rows, right: Rows) -> GroupCodes:
    return replace(codes, left=codes.left[left], right=codes.right[right])
