"""Augmented SBERT (paper 003): a cross-encoder that learnt from gold pairs labels silver ones for a bi-encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

import numpy as np

from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.mining.miners import MinedPairs, Pool, Ranks, Words
from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.config.encoder import EncoderConfig, EncoderOptions
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption
from al_ray.core.labels import STATED
from al_ray.core.pairs import Keys, Pairs, Rows
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats

Sampler = Literal[
    "random", "bm25", "tfidf", "neighbours", "bm25+neighbours", "uncertainty", "insertion", "substitution"
]
BINS = 10


@dataclass(frozen=True)
class Scored:
    """Pairs (n, 2) of a pool's rows with scores (n,) from 0 (no match) to 1."""

    pairs: Pairs
    scores: Floats

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class Gold:
    """Pairs whose scores are known: those of `train` to learn from, and others by split to measure by.

    pool: where new pairs are looked for; its texts, which are distinct, are all there are. name: of the data.
    """

    name: str
    pool: Pool
    train: Scored
    measured: Mapping[str, Scored]

    @property
    def excluded(self) -> Keys:
        """Sorted keys of all of these pairs, none of which becomes silver."""
        return np.unique(self.pool.keys(np.concatenate([self.train.pairs, *(s.pairs for s in self.measured.values())])))

    def subset(self, count: int | None, whole_pool: bool, seed: int) -> "Gold":
        """So many of the training pairs, drawn; all without a count. BadOption where there are not so many.

        whole_pool: pairs are still looked for in the whole pool, not only among first and second texts of those pairs.
        """
        if count is not None and count > len(self.train):
            raise BadOption(
                f"--gold-pairs {count:,} are more than the {len(self.train):,} that there are; ask for fewer"
            )
        drawn = generator(seed, "gold-subset").permutation(len(self.train))[:count]
        kept = np.sort(drawn)
        train = Scored(self.train.pairs[kept], self.train.scores[kept])
        if whole_pool:
            return replace(self, train=train)
        sides = (np.unique(side) for side in train.pairs.T)
        return replace(self, train=train, pool=Pool(self.pool.texts, *sides))


@dataclass(frozen=True)
class Silver:
    """Pairs of texts (n,) that nobody labelled, each with where it came from.

    sources (n,): the sampler. similarities, ranks (n,): as in core.mining.Mined. scores (n,): the cross-encoder's, from
    0 to 1; NaN before it has seen them.
    """

    texts: tuple[tuple[str, str], ...]
    sources: Words
    similarities: Floats
    ranks: Ranks
    scores: Floats

    def __len__(self) -> int:
        return len(self.texts)

    @staticmethod
    def of(mined: MinedPairs, texts: Sequence[str]) -> "Silver":
        """Mined pairs of rows of these texts, not labelled yet."""
        left, right = (cast(list[int], side.tolist()) for side in mined.pairs.T)
        pairs = tuple((texts[one], texts[other]) for one, other in zip(left, right, strict=True))
        return Silver(pairs, mined.sources, mined.scores, mined.ranks, np.full(len(pairs), np.nan))

    def select(self, places: Rows) -> "Silver":
        """Some of them, by place."""
        texts = tuple(self.texts[place] for place in cast(list[int], places.tolist()))
        return Silver(texts, self.sources[places], self.similarities[places], self.ranks[places], self.scores[places])


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(EncoderOptions):
    """One augmentation: options with the source's defaults (paper 003)."""

    gold: str | None = None
    """stsb:FOLDER, the STS benchmark; or give --task and --labels."""
    task: str | None = None
    """A task folder made by jobs.prepare; its labels are scores 0 and 1."""
    labels: str | None = None
    """With --task: a run folder, a table of labels, or stated."""
    gold_pairs: Annotated[int | None, Between(2, 10**9)] = None
    """Take only so many gold pairs, drawn by the seed; all when not given."""
    pool: Literal["gold", "all"] = "gold"
    """Where new pairs are looked for: gold: among the texts of the gold pairs that are taken, the first ones with the
    second ones, as in the source; all: among all training texts, which are then unlabelled data."""
    sampler: Sampler = "random"
    """Which pairs become silver: random, bm25, tfidf, neighbours (of the teacher's untrained encoder), bm25+neighbours,
    uncertainty (of four times as many of the three, those that the cross-encoder scores nearest 1/2), or insertion and
    substitution (gold pairs with a text of other words)."""
    per_text: Annotated[int, Between(1, 100_000)] = 5
    """Candidates of every first text (the source: 5); of insertion and substitution, new texts of a gold pair."""
    most_per_bin: Annotated[int | None, Between(1, 10**9)] = None
    """Keep at most so many silver pairs of every tenth of the scores, drawn: silver in balance. All when not given."""
    words_from: Literal["embeddings", "masked"] = "embeddings"
    """Where insertion and substitution have words from: the nearest input embeddings of the teacher's encoder, or its
    masked language model, which its folder must have."""
    changed: Annotated[float, Between(0, 1)] = 0.3
    """Share of a text's words that insertion and substitution change, one at least."""
    encoder: str = "cnn"
    """The student, a bi-encoder: cnn, cnn-N, or any encoder of jobs.run."""
    fresh_layers: Annotated[int, Between(0, 1_000)] = 0
    """Draw the weights of the student's last so many layers anew, so that it knows less of the task."""
    words: Annotated[int, Between(0, 100_000_000)] = 50_000
    """Words that cnn knows by themselves, the most frequent of the pool; all others share 5,000 bins."""
    teacher: str = "all-MiniLM-L6-v2"
    """What the cross-encoder starts from, under a fresh head: any encoder of jobs.train --model concat."""
    teacher_layers: Annotated[int | None, Between(1, 1_000)] = None
    """Keep only the teacher's first so many layers; all when not given."""
    same_steps: bool = False
    """Train one student more, of gold alone with as many steps as the augmented one: what comes of steps alone."""
    seed: Seed = 0
    """Random seed."""
    batch: Annotated[int, Between(2, 1_000_000)] = 16
    """Pairs in a step, of students and teacher."""
    epochs: Annotated[int, Between(1, 100_000)] = 1
    """The student's passes over its pairs."""
    learning_rate: Annotated[float, Between(0, 1e6)] = 2e-5
    """The student's peak rate. On STSb 3e-4 was best on dev, for cnn and for a small transformer (docs/augment.md)."""
    warmup: Annotated[float, Between(0, 1)] = 0.15
    """Share of the student's steps in which the rate climbs."""
    teacher_epochs: Annotated[int, Between(1, 100_000)] = 1
    """The cross-encoder's passes over the gold pairs."""
    teacher_rate: Annotated[float, Between(0, 1e6)] = 2e-5
    """The cross-encoder's peak rate."""
    teacher_warmup: Annotated[float, Between(0, 1)] = 0.4
    """Share of the cross-encoder's steps in which the rate climbs."""
    weight_decay: Annotated[float, Between(0, 1e6)] = 0.01
    """AdamW's, of students and teacher (what the source's library has by itself)."""
    slice_pairs: int = 4096
    """Pairs labelled and kept at a time; a labelling that was stopped goes on after the last one kept."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        check_bounds(self)
        if (self.gold is None) == (self.task is None) or (self.task is None) != (self.labels is None):
            raise BadOption("say where gold is: --gold stsb:FOLDER, or --task TASK with --labels RUN, FILE or stated")
        # The teacher's training checks how its options go together.
        assert self.teaching

    @property
    def teaching(self) -> TrainConfig:
        """The cross-encoder's training, as jobs.train --model concat has it."""
        recipe = TrainingConfig(
            epochs=self.teacher_epochs, learning_rate=self.teacher_rate, warmup=self.teacher_warmup,
            weight_decay=self.weight_decay, bias_correction=True,
        )  # fmt: skip
        computing = replace(part(self, EncoderOptions), encoder=self.teacher, encoder_layers=self.teacher_layers)
        return TrainConfig(
            task=self.task or "gold", labels=self.labels or STATED, seed=self.seed, concat_batch=self.batch,
            slice_pairs=self.slice_pairs, training=recipe, **vars(computing),
        )  # fmt: skip

    @property
    def encoding(self) -> EncoderConfig:
        """The options that decide a student's vector."""
        return EncoderConfig(**vars(part(self, EncoderOptions)))

    @property
    def learning(self) -> TrainingConfig:
        """The student's training."""
        return TrainingConfig(
            epochs=self.epochs, batch=self.batch, learning_rate=self.learning_rate, warmup=self.warmup,
            weight_decay=self.weight_decay, bias_correction=True,
        )  # fmt: skip


@dataclass(frozen=True)
class Line:
    """What came of one model: its name, how many pairs of gold and silver it learnt from in how many steps, and rho.

    spearman: by split, of its scores with those that are known.
    """

    model: str
    gold: int
    silver: int
    steps: int
    spearman: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**self.__dict__, "spearman": dict(self.spearman)}
