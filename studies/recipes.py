"""Compare recipes of training by folds of a train split: AP over all pairs of texts that a model has not seen."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import torch

from al_ray.cli._shared.blocks import Block
from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.config.encoder import EncoderConfig, MaxLength, Threads
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.graph import components
from al_ray.core.neighbourhood import means_in
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Labels
from al_ray.core.text_table import format_columns
from al_ray.core.vectors import Vectors
from al_ray.datasets.splitting import deal
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.encoder import TextEncoder, embed_rows, untrained
from al_ray.encoders.hardware import settle_training
from al_ray.encoders.pretrained import MINILM
from al_ray.metrics.average_precision import average_precision, count_scores
from al_ray.storage.uri import storage_path
from al_ray.training.bi_encoder import train
from al_ray.training.saved_model import input_digest
from benchmarks.row_file import Row, append_rows, read_rows
from studies.vector_cache import Sides, cached, origin_of

logger = logging.getLogger(__name__)

FOLDS = 3
SETTINGS = ("recipe", "options", "layers", "labels", "seed")
"""Columns that identify a training. options: digest of the texts, the encoder and the options."""
CHOICES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Neighbourhoods of which AP is measured."""
AP = {choice: f"a={choice:g}" for choice in CHOICES}
COLUMNS = (*SETTINGS, "positives", "seconds", *AP.values())
"""positives: among the labels. seconds: of training. AP in percent by neighbourhood; a task of one set of
texts has only the cosine."""


@dataclass(frozen=True)
class Recipes:
    """AP of one recipe of training on texts that it has not seen, for several seeds."""

    task: Path
    """Task folder; of its labels only those of train are used."""
    name: str = "trial"
    """Name of the recipe in the table, which tells recipes also by a digest of their options."""
    encoder: str = MINILM
    """As in jobs.run."""
    encoder_layers: Annotated[int | None, Between(1, 1_000)] = None
    """As in jobs.run."""
    max_length: MaxLength = 64
    """As in jobs.run."""
    labels: Annotated[int, Between(16, 1_000_000)] = 2_048
    """Labelled pairs: the nearest ones under the untrained encoder."""
    seeds: tuple[Seed, ...] = (0, 1, 2)
    """Seed s holds out the fold s mod 3, and decides the order of the pairs."""
    # Each recipe is trained once, from the untrained encoder, and its refit is not looked at.
    training: Annotated[TrainingConfig, Block(without=("start", "worst_loss", "tries"))] = field(
        default_factory=TrainingConfig
    )
    texts: Annotated[int, Between(100, 1_000_000)] = 10_000
    """Texts that are drawn of a task of one set, in whole components of stated pairs."""
    threads: Threads = 2
    """Threads of the encoder."""
    cache: Path | None = None
    """File of the untrained encoder's vectors (.npz); written if it does not exist. One per task, encoder and number of
    threads, and not one of `simulate`."""
    out: Path | None = None
    """CSV file to which a line is added for each seed. Rerun the same command to resume."""

    def results(self) -> list[Row]:
        """Run what the file does not have yet, and return a row for each seed: AP in percent by neighbourhood."""
        check_bounds(self)
        torch.set_num_threads(self.threads)
        settle_training("cpu")
        known, trial, rows = read_rows(self.out, COLUMNS), Trial(self), list[Row]()
        for seed in self.seeds:
            settings = self._settings(seed, trial.origin)
            found = next((row for row in known if settings.items() <= row.items()), None)
            if found is None:
                found = settings | trial.run(seed)
                logger.info("%s", " ".join(found.values()))
                append_rows(self.out, COLUMNS, [found])
            rows.append(found)
        return rows

    def _settings(self, seed: int, origin: str) -> Row:
        """Return the columns that identify a run; origin: digest of the texts and the encoder."""
        layers = "all" if self.encoder_layers is None else str(self.encoder_layers)
        digest = input_digest([origin, self.training.digested()])[:8]
        values = (self.name, digest, layers, str(self.labels), str(seed))
        return dict(zip(SETTINGS, values, strict=True))

    @property
    def encoding(self) -> EncoderConfig:
        """The options of the encoder."""
        return EncoderConfig(self.encoder, self.encoder_layers, self.max_length, threads=self.threads)


class Trial:
    """Trains on two folds of the texts of a train split, and measures on the third."""

    def __init__(self, options: Recipes) -> None:
        """Read the task, and tokenise its texts."""
        self.options, task = options, read_task(options.task)
        self.split, self.symmetric = task.split("train"), task.symmetric
        self.origin = origin_of(task, options.encoding, options.texts if task.symmetric else 0)
        encoder = self._untrained()
        left = encoder.tokenise(list(task.left.texts), "left")
        self.tokens = left, left if task.symmetric else encoder.tokenise(list(task.right.texts), "right")

    def run(self, seed: int) -> Row:
        """Train and measure; return the positives among the labels, seconds of training, and AP."""
        pairs, labels = self.labelled(seed)
        encoder, started = self._untrained(), perf_counter()
        for _ in train(encoder, self.tokens, (pairs, labels), self.options.training, [seed, 0, 1]):
            pass
        row = {"positives": str(int(labels.sum())), "seconds": f"{perf_counter() - started:.0f}"}
        measured = dict(self._measured(encoder, seed % FOLDS))
        figures = {
            column: f"{100 * measured[choice]:.2f}" if choice in measured else "" for choice, column in AP.items()
        }
        return row | figures

    @cached_property
    def folds(self) -> tuple[Rows, Rows]:
        """The fold of each left and right text, -1 for one that is not used. All texts of stated pairs are in one."""
        stated = np.concatenate([self.split.positives, self.split.stated_negatives])
        lefts, rng = 0 if self.symmetric else len(self.tokens[0]), generator(0, "splits")
        component = components(lefts + len(self.tokens[1]), stated + np.array([0, lefts]))
        used = np.unique(stated + np.array([0, lefts]))
        if self.symmetric:
            each, sizes = np.unique(component[used], return_counts=True)
            order = rng.permutation(len(each))
            drawn = each[order[: np.searchsorted(np.cumsum(sizes[order]), self.options.texts)]]
            used = used[np.isin(component[used], drawn)]
        folds = np.full(len(component), -1)
        folds[used] = deal(component[used], (1 / 3, 1 / 3, 1 / 3), rng)
        return (folds, folds) if self.symmetric else (folds[:lefts], folds[lefts:])

    def labelled(self, seed: int) -> tuple[Pairs, Labels]:
        """Return the nearest pairs outside the fold that is held out, and their labels."""
        left, right = (np.flatnonzero((fold >= 0) & (fold != seed % FOLDS)) for fold in self.folds)
        cosines = self._frozen[0][left] @ self._frozen[1][right].T
        if self.symmetric:
            cosines[np.tril_indices(len(left))] = -np.inf
        pairs = int(np.isfinite(cosines).sum())
        if self.options.labels > pairs:
            raise BadOption(f"--labels is {self.options.labels}; give at most {pairs:,}, all pairs outside a fold")
        nearest = np.sort(np.argpartition(cosines, -self.options.labels, axis=None)[-self.options.labels :])
        pairs = as_pairs(left[nearest // len(right)], right[nearest % len(right)])
        return pairs, np.isin(self.split.space.keys(pairs), self.split.positive_keys).astype(np.uint8)

    @cached_property
    def _frozen(self) -> Sides:
        """The vectors of the untrained encoder."""
        used = [np.flatnonzero(fold >= 0) for fold in self.folds]
        return cached(self.options.cache, self.origin, lambda: self._embedded(self._untrained(), used))

    def _measured(self, encoder: TextEncoder, fold: int) -> Iterator[tuple[float, float]]:
        """Yield neighbourhoods with AP in [0, 1] over all pairs of a fold."""
        held = [np.flatnonzero(folds == fold) for folds in self.folds]
        left, right = (vectors[rows] for vectors, rows in zip(self._embedded(encoder, held), held, strict=True))
        inside = self.split.positives[np.isin(self.split.positives[:, 0], held[0])]
        matches = np.zeros((len(left), len(right)), dtype=bool)
        matches[np.searchsorted(held[0], inside[:, 0]), np.searchsorted(held[1], inside[:, 1])] = True
        others = np.triu(~matches, k=1) if self.symmetric else ~matches
        cosines, means = left.astype(np.float64) @ right.T.astype(np.float64), means_in(right, left)
        for choice in CHOICES[:1] if self.symmetric else CHOICES:
            scores = cosines - choice * means[:, None]
            yield choice, average_precision(count_scores(scores[matches], [scores[others]]), np.ones(1))

    def _untrained(self) -> TextEncoder:
        return untrained(self.options.encoding, storage_path("."))

    def _embedded(self, encoder: TextEncoder, rows: list[Rows]) -> Sides:
        """Encode rows of both sides."""
        sides = list[Vectors]()
        for tokens, own in zip(self.tokens[: len(rows) - self.symmetric], rows, strict=False):
            vectors = np.zeros((len(tokens), encoder.dimension), dtype=np.float32)
            vectors[own] = embed_rows(encoder, tokens, own)
            sides.append(vectors)
        return sides[0], sides[-1]


def format_rows(rows: Sequence[Row]) -> str:
    """Format a line for each seed; AP in percent."""
    return format_columns([COLUMNS, *(tuple(row[name] for name in COLUMNS) for row in rows)])
