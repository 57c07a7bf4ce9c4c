"""A month at work: precision and recall by day of a model whose texts change, with and without relabelling.

Rows of a synthetic task are dealt over the days, and a model is trained on those of day 0. From some day on a growing
share of the new rows comes from a source that leaves out vowels, in some words of each row. Without relabelling the
model of day 0 matches every day. With relabelling docs/nightly.py does the work of every night, and the truth answers
what it suggests.
"""

import csv
import logging
import re
import runpy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any
from zlib import crc32

import numpy as np

import al_ray
from al_ray.apps.reporting.plots.style import PALETTE, files_of, legend_below, panel
from al_ray.cluster.session import session
from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import MaxLength, Threads
from al_ray.core.graph import components
from al_ray.core.pairs import Rows
from al_ray.core.rng import generator
from al_ray.core.text_table import format_columns
from al_ray.datasets.synthetic import synthetic_task
from al_ray.encoders.pretrained import MINILM
from al_ray.storage.files import read_parquet, write_pictures, write_text
from al_ray.training.saved_model import input_digest
from benchmarks.row_file import Row, append_rows, read_rows

logger = logging.getLogger(__name__)

ROUNDS = 2
"""Rounds of the first model."""
FIXED, RELABELLED = "fixed", "relabelled"
COUNTS = ("true", "found", "right")
"""Pairs of a day's new rows with all rows up to that day: that match, that were found, and that are both."""
COLUMNS = ("options", "seed", "arm", "day", "rows", "abbreviated", "round", "labels", *COUNTS, "drift")
"""options: digest of all options but the seed. abbreviated: rows of the new source. round: whose model matched. labels:
bought since day 0. drift: figures that the night warned of."""
TRAINING = replace(al_ray.recipe("tuned")["training"], frozen_layers=0)
"""The recipe tuned, which trains the embeddings too: the new words are unknown."""
NIGHTLY = Path(__file__).resolve().parents[1] / "docs" / "nightly.py"


@dataclass(frozen=True)
class Stream:
    """The rows of a month: n texts, and of each its cluster, its day (0: known), and whether it is abbreviated."""

    texts: tuple[str, ...]
    cluster: Rows
    day: Rows
    abbreviated: np.ndarray

    def until(self, day: int) -> Rows:
        """Return the rows that are there on a day."""
        return np.flatnonzero(self.day <= day)

    def write(self, day: int, path: Path) -> Path:
        """Write the rows of a day as a table."""
        rows = np.flatnonzero(self.day == day).tolist()
        lines = [f'{row},"{self.texts[row]}"' for row in rows]
        write_text(path, "\n".join(["id,text", *lines, ""]))
        return path

    def counts(self, day: int, pairs: np.ndarray) -> dict[str, int]:
        """Count COUNTS of a day; pairs: (m, 2) rows of matches that were found, each pair once."""
        pairs = pairs[(self.day[pairs] == day).any(axis=1) & (self.day[pairs] <= day).all(axis=1)]
        right = int((self.cluster[pairs[:, 0]] == self.cluster[pairs[:, 1]]).sum())
        return {"true": self._pairs(day) - self._pairs(day - 1), "found": len(pairs), "right": right}

    def _pairs(self, day: int) -> int:
        """Return the number of matching pairs of all rows that are there on a day."""
        sizes = np.bincount(self.cluster[self.until(day)])
        return int((sizes * (sizes - 1) // 2).sum())


@dataclass(frozen=True)
class Month:
    """A month of new rows with drift: precision and recall of each day, with and without relabelling."""

    work: Path
    """Folder for tables, runs and matches."""
    days: Annotated[int, Between(1, 365)] = 30
    """Number of days."""
    known: Annotated[int, Between(100, 1_000_000)] = 2000
    """Rows of day 0, on which the first model is trained."""
    rows: Annotated[int, Between(5, 100_000)] = 200
    """New rows of a day."""
    calm: Annotated[int, Between(0, 365)] = 5
    """Days without drift, at first."""
    share: Annotated[float, Between(0, 1)] = 0.8
    """Share of abbreviated rows on the last day; it grows linearly after the calm days. 0: no drift."""
    words: Annotated[float, Between(0, 1)] = 0.4
    """Share of the words that an abbreviated row writes without vowels: the same words in all rows."""
    first_labels: Annotated[int, Between(16, 1_000_000)] = 800
    """Labels of the first model, in two rounds."""
    suggest: Annotated[int, Between(1, 10_000)] = 200
    """Pairs that are labelled each week."""
    encoder: str = MINILM
    """As in jobs.run."""
    encoder_layers: Annotated[int | None, Between(1, 1_000)] = None
    """As in jobs.run."""
    max_length: MaxLength = 32
    """As in jobs.run."""
    threads: Threads = 2
    """As in jobs.run."""
    training: al_ray.TrainingConfig = field(default_factory=lambda: TRAINING)
    """As in jobs.run."""
    seeds: tuple[Seed, ...] = (0,)
    """Seeds: of the texts, their order, and of all runs."""
    out: Path | None = None
    """CSV file to which two lines are added for each day. Rerun the same command to resume."""
    picture: Path | None = None
    """Picture to write, as PATH.png and PATH.svg."""

    def results(self) -> list[Row]:
        """Simulate the days that the file does not have yet, and return the rows of all days."""
        check_bounds(self)
        rows = list[Row]()
        with session(ClusterConfig()):
            for seed in self.seeds:
                known = read_rows(self.out, COLUMNS)
                own = [row for row in known if (row["options"], row["seed"]) == (self.digest, str(seed))]
                rows += own
                for day in _Simulation(self, seed).days({row["day"] for row in own}):
                    append_rows(self.out, COLUMNS, day)
                    rows += day
        if self.picture is not None:
            write_pictures(self.picture, draw(rows))
        return rows

    @property
    def digest(self) -> str:
        """Return the digest of all options that decide the rows of a seed."""
        unused = ("work", "seeds", "out", "picture")
        content = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in unused}
        return input_digest([str(content)])[:8]

    def abbreviated(self, day: int) -> int:
        """Return the number of abbreviated rows of a day."""
        progress = max(0, day - self.calm) / max(1, self.days - self.calm)
        return round(self.rows * self.share * progress)


class _Simulation:
    """The month of one seed, in a folder of its own."""

    def __init__(self, options: Month, seed: int) -> None:
        self.options, self.seed = options, seed
        self.folder = (options.work / f"{options.digest}-{seed}").resolve()
        self.stream = make_stream(options, seed)
        script = runpy.run_path(str(NIGHTLY))
        self.night = script["night"]
        self.job = script["Nightly"](
            run=self.folder / "run",
            known=self.folder / "known.csv",
            inbox=self.folder / "inbox",
            work=self.folder / "nightly",
            suggest=options.suggest,
            after=7 * options.rows,
        )

    def days(self, there: set[str]) -> Iterator[list[Row]]:
        """Yield two rows for each day that is not there yet."""
        todo = [day for day in range(1, self.options.days + 1) if str(day) not in there]
        if not todo:
            return
        self._train_first()
        for day in todo:
            warnings = self._night(day)
            number = self.job.last
            matches = read_parquet(self.job.round(number) / "matches" / "matches.parquet")
            found = np.array([matches[name].to_pylist() for name in ("left_id", "right_id")], dtype=np.int64).T
            yield [
                self._row(FIXED, day, 0, self._found_by_first(day), warnings),
                self._row(RELABELLED, day, number, found, warnings),
            ]

    def _row(self, arm: str, day: int, number: int, pairs: np.ndarray, warnings: int) -> Row:
        rows = np.flatnonzero(self.stream.day == day)
        labels = len(al_ray.load_run(self.job.model(number)).labels()) if number else self.options.first_labels
        values = {
            "options": self.options.digest, "seed": self.seed, "arm": arm, "day": day, "rows": len(rows),
            "abbreviated": int(self.stream.abbreviated[rows].sum()), "round": number,
            "labels": labels - self.options.first_labels, **self.stream.counts(day, pairs), "drift": warnings,
        }  # fmt: skip
        row = {name: str(values[name]) for name in COLUMNS}
        logger.info("%s", " ".join(row.values()))
        return row

    def _train_first(self) -> None:
        """Train the model of day 0; the truth answers its batches as people do."""
        options, task = self.options, self.folder / "task"
        known = self.stream.write(0, self.job.known)
        al_ray.prepare(al_ray.OwnTexts(left=known, id_column="id", text_columns="text", split="1,0,0"), task)
        config = al_ray.RunConfig(
            task=str(task), seed=self.seed, oracle="file", rounds=ROUNDS, first_batch=options.first_labels // ROUNDS,
            encoder=options.encoder, encoder_layers=options.encoder_layers, max_length=options.max_length,
            threads=options.threads, training=options.training, evaluation=al_ray.EvaluationConfig(splits=()),
        )  # fmt: skip
        for number in range(1, ROUNDS + 1):
            try:
                al_ray.run(config, self.job.run)
            except al_ray.LabelsAwaited:
                batch = self.job.run / f"round-{number:03d}" / "batch.csv"
                write_text(batch, self._answered(batch))
        al_ray.run(config, self.job.run)

    def _night(self, day: int) -> int:
        """Answer the batch that waits, put the day's rows into the inbox, and return the number of drift warnings."""
        name, job = f"day-{day:02d}.csv", self.job
        # After a stop the night goes on with what it had.
        if not (job.work / "rows" / name).exists():
            batch = job.round(job.last + 1) / "batch" / "suggested.csv"
            if batch.exists():
                write_text(job.round(job.last + 1) / "labelled.csv", self._answered(batch))
            self.stream.write(day, job.inbox / name)
        warnings = 0
        for line in self.night(job):
            warnings += line.startswith("drift")
            logger.info("%s", line)
        return warnings

    def _answered(self, batch: Path) -> str:
        """Return the text of a batch with the labels of the truth."""
        with batch.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = csv.reader(file)
        label, left, right = (header.index(name) for name in ("label", "left_id", "right_id"))
        for row in rows:
            same = self.stream.cluster[int(row[left])] == self.stream.cluster[int(row[right])]
            row[label] = "yes" if same else "no"
        return "\n".join(",".join(f'"{cell}"' for cell in row) for row in [header, *rows]) + "\n"

    @cached_property
    def _first(self) -> Any:
        """The model of day 0, and the vectors of all rows under it."""
        model = al_ray.load_model(self.job.run)
        return model, model.encode(self.stream.texts).astype(np.float64)

    def _found_by_first(self, day: int) -> np.ndarray:
        """Return the pairs (m, 2) of a day's rows with all rows up to that day that the model of day 0 matches."""
        model, vectors = self._first
        new, known = np.flatnonzero(self.stream.day == day), self.stream.until(day)
        above = vectors[new] @ vectors[known].T >= model.boundary
        pairs = np.stack([new[np.nonzero(above)[0]], known[np.nonzero(above)[1]]], axis=1)
        # A pair of two new rows comes twice, and a row with itself.
        return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def make_stream(options: Month, seed: int) -> Stream:
    """Deal the rows of a synthetic task over the days."""
    texts = options.known + options.days * options.rows
    task, rng = synthetic_task(texts, seed), generator(seed, "month")
    cluster = components(texts, np.concatenate([split.positives for split in task.splits.values()]))
    order = rng.permutation(texts)
    day = np.repeat(np.arange(options.days + 1), [options.known] + [options.rows] * options.days)
    short = np.zeros(texts, dtype=np.bool_)
    for number in range(1, options.days + 1):
        # Rows of a day are in an order by chance.
        short[np.flatnonzero(day == number)[: options.abbreviated(number)]] = True
    lines = [task.left.texts[row] for row in order.tolist()]
    lines = [abbreviate(line, options.words) if new else line for line, new in zip(lines, short, strict=True)]
    return Stream(tuple(lines), cluster[order], day, short)


def abbreviate(text: str, share: float) -> str:
    """Leave out all vowels but a first letter, in so great a share of all words: the same words in every text."""

    def written(word: re.Match[str]) -> str:
        chosen = crc32(word[0].lower().encode()) < share * 2**32
        return re.sub(r"\B[aeiou]", "", word[0]) if chosen else word[0]

    return re.sub(r"[A-Za-z]{4,}", written, text)


def ratio(rows: Sequence[Row], of: str) -> float:
    """Return precision (of = "found") or recall (of = "true") over all pairs of the days; NaN without a pair."""
    total = sum(int(row[of]) for row in rows)
    return sum(int(row["right"]) for row in rows) / total if total else float("nan")


def format_weeks(rows: Sequence[Row]) -> str:
    """Format a line for each week and arm, over all seeds: precision and recall in percent."""
    table: list[tuple[str, ...]] = [
        ("days", "arm", "abbreviated %", "drift", "labels", "true", "found", "precision %", "recall %")
    ]
    for first in range(1, max(int(row["day"]) for row in rows) + 1, 7):
        for arm in (FIXED, RELABELLED):
            own = [row for row in rows if row["arm"] == arm and first <= int(row["day"]) < first + 7]
            new = sum(int(row["abbreviated"]) for row in own) / sum(int(row["rows"]) for row in own)
            counts = [f"{sum(int(row[name]) for row in own):,}" for name in ("true", "found")]
            figures = [f"{100 * ratio(own, of):.1f}" for of in ("found", "true")]
            warned = sum(int(row["drift"]) > 0 for row in own)
            labels = max(int(row["labels"]) for row in own)
            days = f"{first}-{max(int(row['day']) for row in own)}"
            table.append((days, arm, f"{100 * new:.0f}", str(warned), str(labels), *counts, *figures))
    return format_columns(table)


def draw(rows: Sequence[Row]) -> dict[str, bytes]:
    """Plot precision and recall by day over all seeds, without and with relabelling: kind -> content."""
    figure, axes = panel("day", "%")
    days = sorted({int(row["day"]) for row in rows})
    for color, (name, of) in zip(PALETTE, (("recall", "true"), ("precision", "found")), strict=False):
        for arm, line in ((FIXED, "--"), (RELABELLED, "-")):
            by_day = [[row for row in rows if row["arm"] == arm and int(row["day"]) == day] for day in days]
            values = [100 * ratio(own, of) for own in by_day]
            axes.plot(days, values, line, color=color, label=f"{name}, {arm}", marker="o", markersize=2.5)
    rounds = {int(row["round"]): int(row["day"]) for row in reversed(rows) if row["arm"] == RELABELLED}
    for number, day in rounds.items():
        if number:
            axes.axvline(day - 0.5, color="0.6", linewidth=0.8)
    axes.set_ylim(0, 100)
    legend_below(figure, axes)
    return files_of(figure)
