"""A month at work: precision and recall by day of a model whose texts change, with and without relabelling.

Rows of a synthetic task are dealt over the days, and a model is trained on those of day 0. From some day on a growing
share of the new rows comes from a source that leaves out vowels, in some words of each row. Without relabelling the
model of day 0 matches every day. With relabelling docs/nightly.py does the work of every night, and the truth answers
what it suggests. A night is run at the end of each week, with all rows of the week: as matches do not depend on what
was matched together, the figures of a day are those of a night every day.
"""

import csv
import logging
import runpy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import al_ray
from al_ray.cluster.session import session
from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import MaxLength, Threads
from al_ray.encoders.pretrained import MINILM
from al_ray.storage.files import read_parquet, write_pictures, write_text
from al_ray.training.saved_model import input_digest
from benchmarks.row_file import Row, append_rows, read_rows
from studies.month_report import COLUMNS, FIXED, RELABELLED, draw
from studies.month_stream import Stream, make_stream

logger = logging.getLogger(__name__)

WEEK = 7
"""Days from one batch to the next."""
ROUNDS = 2
"""Rounds of the first model."""
TRAINING = replace(al_ray.recipe("tuned")["training"], frozen_layers=0)
"""The recipe tuned, which trains the embeddings too: the new words are unknown."""
NIGHTLY = Path(__file__).resolve().parents[1] / "docs" / "nightly.py"


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
    """CSV file to which two lines are added for each day, week by week. Rerun the same command to resume."""
    picture: Path | None = None
    """Picture to write, as PATH.png and PATH.svg."""

    def results(self) -> list[Row]:
        """Simulate the days that the file does not have yet, and return the rows of all days."""
        check_bounds(self)
        rows = list[Row]()
        for seed in self.seeds:
            known = read_rows(self.out, COLUMNS)
            own = [row for row in known if (row["options"], row["seed"]) == (self.digest, str(seed))]
            rows += own
            there = {int(row["day"]) for row in own}
            weeks = [range(first, min(first + WEEK, self.days + 1)) for first in range(1, self.days + 1, WEEK)]
            todo = [week for week in weeks if not there.issuperset(week)]
            for week in _simulate(self, seed, todo) if todo else ():
                append_rows(self.out, COLUMNS, week)
                rows += week
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

    def stream(self, seed: int) -> Stream:
        """Return the rows of a seed."""
        short = [self.abbreviated(day) for day in range(1, self.days + 1)]
        return make_stream(self.known, self.rows, short, self.words, seed)


def _simulate(options: Month, seed: int, weeks: Sequence[range]) -> Iterator[list[Row]]:
    """Yield two rows for each day of some weeks, week by week."""
    with session(ClusterConfig()):
        simulation = _Simulation(options, seed)
        simulation.train_first()
        for week in weeks:
            yield simulation.week(week)


class _Simulation:
    """The month of one seed, in a folder of its own."""

    def __init__(self, options: Month, seed: int) -> None:
        self.options, self.seed = options, seed
        self.folder = (options.work / f"{options.digest}-{seed}").resolve()
        self.stream = options.stream(seed)
        script = runpy.run_path(str(NIGHTLY))
        self.night = script["night"]
        self.job = script["Nightly"](
            run=self.folder / "run",
            known=self.folder / "known.csv",
            inbox=self.folder / "inbox",
            work=self.folder / "nightly",
            suggest=options.suggest,
            after=WEEK * options.rows,
        )

    def week(self, days: range) -> list[Row]:
        """Do the work of a week, and return two rows for each day."""
        warnings = self._night(days)
        number = self.job.last
        matches = read_parquet(self.job.round(number) / "matches" / "matches.parquet")
        found = np.array([matches[name].to_pylist() for name in ("left_id", "right_id")], dtype=np.int64).T
        rows = list[Row]()
        for day in days:
            rows.append(self._row(FIXED, day, 0, self._found_by_first(day), warnings))
            rows.append(self._row(RELABELLED, day, number, found, warnings))
        return rows

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

    def train_first(self) -> None:
        """Train the model of day 0; the truth answers its batches as people do."""
        options, task = self.options, self.folder / "task"
        known = self.stream.write(range(1), self.job.known)
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

    def _night(self, days: range) -> int:
        """Answer the batch that waits, put the rows of a week into the inbox, and return the number of warnings."""
        name, job = f"days-{days[0]:02d}-{days[-1]:02d}.csv", self.job
        # After a stop the night goes on with what it had.
        if not (job.work / "rows" / name).exists():
            batch = job.round(job.last + 1) / "batch" / "suggested.csv"
            if batch.exists():
                write_text(job.round(job.last + 1) / "labelled.csv", self._answered(batch))
            self.stream.write(days, job.inbox / name)
        warnings = 0
        for line in self.night(job):
            warnings += line.startswith("drift") and not line.startswith("drift: none")
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
