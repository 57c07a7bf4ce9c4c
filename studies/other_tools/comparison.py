"""al_ray, Splink and dedupe on the same tables with the same labels: precision, recall, F1 and seconds of each."""

import csv
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal

from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.config.encoder import MaxLength
from al_ray.core.text_table import format_columns
from benchmarks.row_file import Row, append_rows, read_rows
from studies.other_tools.scoring import Pair, PairSet, measure, read_pairs
from studies.other_tools.shop_tables import COLUMNS as SHOP_COLUMNS
from studies.other_tools.shop_tables import shop_tables, write_csv
from tests.guides import ROOT
from tests.journeys.products import MATCHES

logger = logging.getLogger(__name__)

PROGRAMS = Path(__file__).parent
PAIR = ("left_id", "right_id")
COLUMNS = (
    *("tables", "seed", "labels", "tool", "found", "precision", "recall", "f1"),
    *("precision_unlabelled", "recall_unlabelled", "f1_unlabelled", "seconds"),
)
"""Columns in _unlabelled are of the pairs that were not labelled. seconds: wall time of all commands of a tool."""


@dataclass(frozen=True)
class OtherTools:
    """Compare al_ray with Splink and dedupe, each of which is called in an environment of its own."""

    out: Path
    """Folder of tables, runs and results (results.csv). Rerun the same command to resume."""
    splink: Path | None = None
    """Python that has splink; without it Splink is left out."""
    dedupe: Path | None = None
    """Python that has dedupe; without it dedupe is left out."""
    tables: tuple[Literal["products", "shops"], ...] = ("products", "shops")
    """products: docs/products.csv, one table. shops: two synthetic tables, made anew for each seed."""
    seeds: tuple[Seed, ...] = (0, 1, 2)
    """Seeds of the synthetic tables and of the tools."""
    rows: Annotated[int, Between(100, 1_000)] = 1_000
    """Rows of each synthetic table."""
    rounds: Annotated[int, Between(1, 100)] = 5
    """Rounds of al_ray on the synthetic tables; one less on docs/products.csv."""
    batch: Annotated[int, Between(10, 10_000)] = 60
    """Labels of a round."""
    max_length: MaxLength = 32
    """As in jobs.run."""

    def results(self) -> list[Row]:
        """Run what results.csv does not have yet, and return its rows."""
        check_bounds(self)
        path, rows = self.out / "results.csv", list[Row]()
        for name in self.tables:
            for seed in self.seeds:
                known = [row for row in read_rows(path, COLUMNS) if (row["tables"], row["seed"]) == (name, str(seed))]
                trial = Trial(self, name == "products", (self.out / f"{name}-{seed}").absolute(), seed)
                for tool, pairs, seconds in trial.runs({row["tool"] for row in known}):
                    row = {"tables": name, "seed": str(seed), "tool": tool} | trial.measured(pairs, seconds)
                    logger.info("%s", " ".join(row.values()))
                    append_rows(path, COLUMNS, [row])
                    known.append(row)
                rows += known
        return rows


@dataclass(frozen=True)
class Trial:
    """One set of tables in a folder, and the commands of all tools on it."""

    options: OtherTools
    one_table: bool
    folder: Path
    seed: int

    def runs(self, known: set[str]) -> Iterator[tuple[str, PairSet, float]]:
        """Yield tool and rule, matches and seconds of each way that is not known."""
        if not (self.folder / "truth.csv").exists():
            self._write_tables()
        learning = self._timed("labels", self._buying())
        for tool, (run, *options) in self._al_ray().items():
            if tool not in known:
                more = self._timed("tuned", self._tuning()) if run == "tuned" else 0.0
                out = tool.replace(" ", "-")
                command = ["-m", "jobs.match", "--model", run, *self._sides(), *options, "--out", out]
                seconds = self._call([sys.executable, *command])
                yield tool, self._matches_of(self.folder / out, tool), learning + more + seconds
        for tool, command in self._others().items():
            if tool not in known:
                out = self.folder / f"{tool.replace(' ', '-')}.csv"
                seconds = self._call([*command, *self._sides(), "--seed", str(self.seed), "--out", str(out)])
                yield tool, read_pairs(out, self.one_table), seconds

    def measured(self, pairs: PairSet, seconds: float) -> Row:
        """Return the figures of found pairs, in percent: of all, and of those without a label."""
        truth = read_pairs(self.folder / "truth.csv", self.one_table)
        labelled = read_pairs(self.folder / "labels.csv", self.one_table)
        row = {"labels": str(len(labelled)), "found": str(len(pairs)), "seconds": f"{seconds:.0f}"}
        for suffix, without in (("", frozenset[Pair]()), ("_unlabelled", labelled)):
            figures = measure(pairs, truth, without)
            for name in ("precision", "recall", "f1"):
                row[name + suffix] = f"{100 * getattr(figures, name):.1f}"
        return row

    def _write_tables(self) -> None:
        """Write left.csv, perhaps right.csv, and truth.csv, which is written last."""
        if self.one_table:
            # Prices of docs/products.csv are drawn at random, so nothing can be learned of them.
            with (ROOT / "docs" / "products.csv").open(newline="", encoding="utf-8") as file:
                rows = [
                    {"id": row["sku"], "title": row["title"], "brand": row["brand"]} for row in csv.DictReader(file)
                ]
            write_csv(self.folder / "left.csv", tuple(rows[0]), rows)
            matches = sorted((min(pair), max(pair)) for pair in MATCHES)
        else:
            tables = shop_tables(self.options.rows, self.seed)
            write_csv(self.folder / "left.csv", SHOP_COLUMNS, tables.ours)
            write_csv(self.folder / "right.csv", SHOP_COLUMNS, tables.theirs)
            matches = tables.matches
        write_csv(self.folder / "truth.csv", PAIR, [dict(zip(PAIR, pair, strict=True)) for pair in matches])

    def _timed(self, name: str, commands: list[str]) -> float:
        """Run jobs once; return their seconds, which are kept for the next call of this or a later process."""
        path = self.folder / f"seconds-{name}.txt"
        if not path.exists():
            path.write_text(str(sum(self._call([sys.executable, "-m", *words.split()]) for words in commands)))
        return float(path.read_text())

    def _buying(self) -> list[str]:
        """The jobs by which al_ray chooses pairs, has them labelled by the truth, trains, and writes labels.csv."""
        columns = "title,brand" if self.one_table else "title,brand,price"
        prepare = f"--id-column id --text-columns {columns} --labels truth.csv --label-columns left_id,right_id"
        batches = f"--rounds {self.options.rounds - self.one_table} --first-batch {self.options.batch} --growth 1"
        return [
            f"jobs.prepare pairs {' '.join(self._sides())} {prepare} --labels-are complete --split 1,0,0 --out task",
            f"jobs.run --task task --out run --oracle simulated {batches} {self._common()}",
            "jobs.labels export --run run --every-column --out labels.csv",
        ]

    def _tuning(self) -> list[str]:
        """The jobs that train on the same labels by the other recipe."""
        return [
            "jobs.labels import --run tuned --task task --labels run",
            f"jobs.run --task task --out tuned --oracle simulated --recipe tuned --rounds 1 {self._common()}",
        ]

    def _common(self) -> str:
        return f"--seed {self.seed} --max-length {self.options.max_length} --evaluation.splits"

    def _al_ray(self) -> dict[str, list[str]]:
        """The run and the rule of jobs.match; the first is its default, or has the one option that it needs."""
        if self.one_table:
            return {
                "al_ray at boundary": ["run", "--at-boundary"],
                "al_ray clusters": ["run", "--at-boundary"],
                "al_ray tuned at boundary": ["tuned", "--at-boundary"],
            }
        return {
            "al_ray mutual": ["run"],
            "al_ray mutual at boundary": ["run", "--assign", "mutual", "--at-boundary"],
            "al_ray tuned mutual": ["tuned"],
            "al_ray tuned mutual at boundary": ["tuned", "--assign", "mutual", "--at-boundary"],
        }

    def _others(self) -> dict[str, list[str]]:
        """The commands of the other tools, without what all of them are given.

        After the thresholds of their documentation come others, as the labelled pairs are no random sample, and so the
        probabilities that are learned of them are wrong.
        """
        commands: dict[str, list[str]] = {}
        count, labels = str(len(read_pairs(self.folder / "labels.csv", self.one_table))), ["--labels", "labels.csv"]
        if self.options.dedupe is not None:
            program = [str(self.options.dedupe), str(PROGRAMS / "dedupe_matches.py")]
            commands["dedupe same labels"] = [*program, *labels]
            commands["dedupe own labels"] = own = [*program, "--ask", count, "--truth", "truth.csv"]
            commands["dedupe same labels at 0.9"] = [*program, *labels, "--threshold", "0.9"]
            commands["dedupe own labels at 0.1"] = [*own, "--threshold", "0.1"]
        if self.options.splink is not None:
            matches = str(len(read_pairs(self.folder / "truth.csv", self.one_table)))
            program = [str(self.options.splink), str(PROGRAMS / "splink_matches.py"), "--matches", matches]
            commands["Splink same labels"] = [*program, *labels]
            commands["Splink no labels"] = program
            rule = [] if self.one_table else ["--one-to-one"]
            for threshold in (("0.95",) if rule else ()) + ("0.5", "0.2"):
                last = [*rule, "--threshold", threshold]
                commands[f"Splink same labels{', one-to-one' if rule else ''} at {threshold}"] = [
                    *program,
                    *labels,
                    *last,
                ]
                commands[f"Splink no labels{', one-to-one' if rule else ''} at {threshold}"] = [*program, *last]
        return commands

    def _matches_of(self, out: Path, tool: str) -> PairSet:
        """Read the matches of al_ray, or all pairs of its clusters."""
        if not tool.endswith("clusters"):
            return read_pairs(out / "matches.csv", self.one_table)
        members: dict[str, list[str]] = {}
        with (out / "clusters.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                members.setdefault(row["cluster"], []).append(row["id"])
        return frozenset(pair for ids in members.values() for pair in combinations(sorted(ids), 2))

    def _sides(self) -> list[str]:
        return ["--left", "left.csv", *([] if self.one_table else ["--right", "right.csv"])]

    def _call(self, command: list[str]) -> float:
        """Run a command in the folder, and return its seconds."""
        # dedupe iterates over sets of words: their order must not change between runs.
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1"}
        started = perf_counter()
        with (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n")
            log.flush()
            subprocess.run(command, cwd=self.folder, env=environment, stdout=log, stderr=subprocess.STDOUT, check=True)
        return perf_counter() - started


def format_results(rows: list[Row]) -> str:
    """Format rows as a table."""
    return format_columns([list(COLUMNS), *([row[column] for column in COLUMNS] for row in rows)])
