"""Matching whose pool is a few loops in this process: all else is what the command runs."""

import csv
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.matching import model as opened
from al_ray.apps.matching import pipeline, search
from al_ray.apps.matching.incremental import rectangle
from al_ray.apps.matching.incremental.order import task_of
from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.candidates import Candidates
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.labels import Model
from al_ray.core.pairs import Keys, Pairs, Rows, as_pairs
from al_ray.core.progress import no_progress
from al_ray.core.scorer import Floats, Scorer
from al_ray.core.task import Corpus, Split
from al_ray.datasets.task_folder import write_task
from al_ray.search.join.best_of_each import BestPartners

Table = dict[str, str]


def score(one: str, other: str) -> float:
    """The share of letters that both texts have, to a tenth, so that many are equal."""
    return round(10 * len(set(one) & set(other)) / max(1, len(set(one) | set(other)))) / 10


class LoopPool:
    """What a pool answers: the scores of pairs of texts."""

    def __init__(self, config: RunConfig, task: Any) -> None:
        self.search, self.task = config.search, task

    def scores(self, model: Model, split: Split, pairs: Pairs) -> Floats:
        texts = self.task.texts_of(pairs)
        return np.array([score(*both) for both in zip(*texts, strict=True)], dtype=np.float64)


class LoopSearch:
    """The search of a pool, which looks at every pair."""

    def __init__(self, pool: LoopPool, split: Split, on_recall: Any = None, config: Any = None) -> None:
        self.pool, self.split, self.config = pool, split, config or pool.search

    def scored(self, excluded: Keys) -> list[tuple[int, int, float]]:
        space, task = self.split.space, self.pool.task
        every = [(a, b) for a in space.left.tolist() for b in space.right.tolist() if a < b or not space.symmetric]
        keys = space.keys(as_pairs([a for a, _ in every], [b for _, b in every]))
        kept = [pair for pair, out in zip(every, np.isin(keys, excluded).tolist(), strict=True) if not out]
        return [(a, b, score(task.left.texts[a], task.right.texts[b])) for a, b in kept]

    def least_of_each(self, model: Model, queries: list[Any]) -> list[Candidates]:
        found = list[Candidates]()
        for query in queries:
            rows = sorted((-s, a, b) for a, b, s in self.scored(query.excluded) if -s <= query.limit)[: query.count]
            keys = self.split.space.keys(as_pairs([a for _, a, _ in rows], [b for *_, b in rows]))
            found.append(Candidates(keys, np.array([-s for s, *_ in rows], dtype=np.float64)))
        return found

    def count_partners(self, model: Model, rows: Rows, lowest: float, excluded: Keys) -> Rows:
        above = [(a, b) for a, b, s in self.scored(excluded) if s >= lowest]
        ends = [row for pair in above for row in (pair if self.split.space.symmetric else pair[:1])]
        return np.array([ends.count(row) for row in rows.tolist()], dtype=np.int64)

    def best_of_each(self, model: Model, excluded: Keys) -> tuple[BestPartners, BestPartners]:
        sides: tuple[dict[int, tuple[float, int]], ...] = {}, {}
        for a, b, s in self.scored(excluded):
            for side, row, partner in ((0, a, b), (0 if self.split.space.symmetric else 1, b, a)):
                sides[side][row] = max(sides[side].get(row, (-2.0, 0)), (s, -partner))
        left, right = (
            BestPartners(
                np.array(sorted(side), dtype=np.int64),
                np.array([-side[row][1] for row in sorted(side)], dtype=np.int64),
                np.array([side[row][0] for row in sorted(side)], dtype=np.float64),
            )
            for side in sides
        )
        return left, left if self.split.space.symmetric else right


class Matcher:
    """The two commands on tables that are dictionaries, with a model whose run has the labels that are given."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.labels = folder, list[tuple[str, str, int]]()
        # Of each side the columns tax and source by id; empty where none are given.
        self.cells = dict[str, dict[str, tuple[str, str]]]()
        pool = lambda config, cluster, task, *_, **__: nullcontext(LoopPool(config, task))  # noqa: E731
        monkeypatch.setattr(search, "PoolSearch", LoopSearch)
        monkeypatch.setattr(pipeline, "session", lambda *_, **__: nullcontext())
        monkeypatch.setattr(pipeline, "deploy_pool", pool)
        monkeypatch.setattr(rectangle, "deploy_pool", pool)
        monkeypatch.setattr(opened, "open_model", lambda *_: self.model)

    def trained_on(self, left: Table, right: Table | None = None) -> "Matcher":
        """Take these texts as those of the run."""
        one = corpus(left)
        self.task = task_of("task", one, one if right is None else corpus(right), right is None)
        write_task(self.task, self.folder / "run-task", {})
        return self

    @property
    def model(self) -> MatchingModel:
        ids = list(self.task.left.ids), list(self.task.right.ids)
        pairs = np.array([[ids[0].index(a), ids[1].index(b)] for a, b, _ in self.labels], dtype=np.int64)
        labels = np.array([label for *_, label in self.labels], dtype=np.uint8)
        ledger = SimpleNamespace(labelled=lambda: SimpleNamespace(pairs=pairs.reshape(-1, 2), labels=labels))
        run: Any = SimpleNamespace(task=self.task, ledger=ledger)
        model, config = Model("model", "d" * 64, Scorer(1.0, -0.5)), RunConfig(task=str(self.folder / "run-task"))
        return MatchingModel(self.folder / "run", config, model, None, {}, run, 1)

    def match(self, out: str, left: Table, right: Table | None = None, **options: Any) -> pipeline.MatchResult:
        """Match tables in one command."""
        tables = self.tables(left=left, right=right) | {"text_columns": "text", "id_column": "id", "drift": False}
        return pipeline.match_texts(
            MatchOptions(**(tables | options)), self.model, self.folder / out, ClusterConfig(), no_progress
        )

    def into(self, out: str, **options: Any) -> pipeline.MatchResult:
        """Match tables into a folder: left, right, and options."""
        tables = {side: table for side, table in options.items() if side in ("left", "right")}
        given = MatchOptions(**(options | self.tables(**tables)))
        return pipeline.match_into(given, self.folder / out, ClusterConfig(), no_progress)

    def tables(self, **sides: Table | None) -> dict[str, Any]:
        paths = dict[str, Any]()
        for side, table in sides.items():
            if table is not None:
                paths[side] = self.folder / f"{side}.csv"
                with paths[side].open("w", newline="", encoding="utf-8") as file:
                    rows = [(one, *self.cells.get(side, {}).get(one, ("", ""))) for one in table]
                    texts = [(one, table[one], *more) for one, *more in rows]
                    csv.writer(file).writerows([("id", "text", "tax", "source"), *texts])
        return paths

    def rows(self, place: str) -> list[dict[str, str]]:
        with (self.folder / place).open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def matches(self, out: str) -> dict[frozenset[str], float]:
        """The scores of the matches in a folder, by the ids of both texts."""
        rows = self.rows(f"{out}/matches.csv")
        return {frozenset((row["left_id"], row["right_id"])): float(row["score"]) for row in rows}

    def clusters(self, out: str) -> dict[str, int]:
        return {row["id"]: int(row["cluster"]) for row in self.rows(f"{out}/clusters.csv")}


def corpus(table: Table) -> Corpus:
    return Corpus(tuple(table), tuple(table.values()))
