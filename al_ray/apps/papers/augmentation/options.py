"""Augmented SBERT (paper 003): a cross-encoder trained on gold pairs labels silver pairs to train a bi-encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, cast

import numpy as np

from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.papers.mining.miners import MinedPairs, Pool, Ranks, Words
from al_ray.core.config.bounds import RARE, Between, Seed, check_bounds
from al_ray.core.config.encoder import EncoderConfig, EncoderOptions
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption
from al_ray.core.labels import STATED
from al_ray.core.naming import option
from al_ray.core.pairs import Pairs, Rows
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
    """Pairs with known scores: `train` for training, `measured` for evaluation, by split.

    pool: where new pairs are sampled; its texts are distinct and include those of all pairs. name: of the data.
    """

    name: str
    pool: Pool
    train: Scored
    measured: Mapping[str, Scored]

    @property
    def pairs(self) -> Pairs:
        """Return (n, 2) all pairs with known scores, which must not become silver."""
        return np.concatenate([self.train.pairs, *(scored.pairs for scored in self.measured.values())])

    def subset(self, count: int | None, whole_pool: bool, seed: int) -> "Gold":
        """Return `count` random training pairs, or all without a count; BadOption if there are fewer.

        whole_pool: whether the pool stays as it is; otherwise it has only the first and second texts of these pairs.
        """
        if count is not None and count > len(self.train):
            raise BadOption(
                f"{option('gold_pairs', count)} are more than the {len(self.train):,} gold pairs; give fewer"
            )
        rows = np.sort(generator(seed, "gold-subset").permutation(len(self.train))[:count])
        train = Scored(self.train.pairs[rows], self.train.scores[rows])
        if whole_pool:
            return replace(self, train=train)
        sides = (np.unique(side) for side in train.pairs.T)
        return replace(self, train=train, pool=Pool(self.pool.texts, *sides))


@dataclass(frozen=True)
class Silver:
    """Silver pairs of texts (n,) and where they come from.

    sources (n,): name of the sampler. similarities, ranks (n,): scores and ranks of MinedPairs. scores (n,): by the
    cross-encoder, from 0 to 1; NaN before it has labelled them.
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
        """Return mined pairs of rows of these texts, without scores."""
        left, right = (cast(list[int], side.tolist()) for side in mined.pairs.T)
        pairs = tuple((texts[one], texts[other]) for one, other in zip(left, right, strict=True))
        return Silver(pairs, mined.sources, mined.scores, mined.ranks, np.full(len(pairs), np.nan))

    def select(self, places: Rows) -> "Silver":
        """Return some of the pairs, by place."""
        texts = tuple(self.texts[place] for place in cast(list[int], places.tolist()))
        return Silver(texts, self.sources[places], self.similarities[places], self.ranks[places], self.scores[places])


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(EncoderOptions):
    """Augmented SBERT, with the defaults of its source (paper 003)."""

    gold: str | None = None
    """Gold pairs: stsb:FOLDER, the STS benchmark; or give --task and --labels."""
    task: str | None = None
    """A task folder made by jobs.prepare; labels become scores 0 and 1."""
    labels: str | None = None
    """Labels of --task: a run folder, a table of labels, or stated."""
    gold_pairs: Annotated[int | None, Between(2, 10**9)] = None
    """Number of gold pairs to use, drawn at random. Default: all."""
    pool: Literal["gold", "all"] = "gold"
    """Where new pairs are sampled. gold: first texts of the used gold pairs with second texts, as in the source; all:
    all training texts, which then are unlabelled data."""
    sampler: Sampler = "random"
    """Source of silver pairs: random, bm25, tfidf, neighbours (by the teacher's untrained encoder), bm25+neighbours,
    uncertainty (of four times as many pairs of bm25, neighbours and random those whose cross-encoder scores are nearest
    1/2), insertion or substitution (gold pairs in which words of one text are replaced)."""
    per_text: Annotated[int, Between(1, 100_000)] = 5
    """Candidates of each first text (the source: 5); for insertion and substitution, new texts of each gold pair."""
    most_per_bin: Annotated[int | None, Between(1, 10**9)] = None
    """Maximum number of silver pairs in each tenth of the scores, drawn at random for balance. Default: no limit."""
    words_from: Literal["embeddings", "masked"] = "embeddings"
    """Source of the words of insertion and substitution: the nearest input embeddings of the teacher's encoder, or its
    masked language model, which must be in its folder."""
    changed: Annotated[float, Between(0, 1)] = 0.3
    """Share of a text's words that insertion and substitution change; at least one."""
    encoder: str = "cnn"
    """Encoder of the student, a bi-encoder: cnn, cnn-N, or any encoder of jobs.run."""
    fresh_layers: Annotated[int, Between(0, 1_000), RARE] = 0
    """Number of the student's last layers whose weights are replaced by random ones, for a weaker start."""
    words: Annotated[int, Between(0, 100_000_000), RARE] = 50_000
    """Size of cnn's vocabulary, the most frequent words of the pool; all other words share 5,000 bins."""
    teacher: str = "all-MiniLM-L6-v2"
    """Encoder from which the cross-encoder starts, with a new head: any encoder of jobs.train --model concat."""
    teacher_layers: Annotated[int | None, Between(1, 1_000)] = None
    """Number of the teacher's layers to keep, counted from the first. Default: all."""
    same_steps: bool = False
    """Train one more student on gold alone with the steps of the augmented one, to see the effect of more steps."""
    seed: Seed = 0
    """Random seed."""
    batch: Annotated[int, Between(2, 1_000_000)] = 16
    """Pairs per training step, of students and teacher."""
    epochs: Annotated[int, Between(1, 100_000)] = 1
    """Epochs of the student."""
    learning_rate: Annotated[float, Between(0, 1e6)] = 2e-5
    """Peak learning rate of the student. On STSb 3e-4 was best on dev, for cnn and a small BERT (docs/augment.md)."""
    warmup: Annotated[float, Between(0, 1), RARE] = 0.15
    """Share of the student's steps that are warm-up."""
    teacher_epochs: Annotated[int, Between(1, 100_000)] = 1
    """Epochs of the cross-encoder."""
    teacher_rate: Annotated[float, Between(0, 1e6)] = 2e-5
    """Peak learning rate of the cross-encoder."""
    teacher_warmup: Annotated[float, Between(0, 1), RARE] = 0.4
    """Share of the cross-encoder's steps that are warm-up."""
    weight_decay: Annotated[float, Between(0, 1e6), RARE] = 0.01
    """Weight decay of AdamW, for students and teacher (the default of the source's library)."""
    slice_pairs: Annotated[int, RARE] = 4096
    """Pairs labelled and stored at a time. A rerun resumes after the last stored slice."""

    def __post_init__(self) -> None:
        """Validate options."""
        check_bounds(self)
        if (self.gold is None) == (self.task is None) or (self.task is None) != (self.labels is None):
            raise BadOption(
                "give the gold pairs: `gold='stsb:FOLDER'`, or `task=TASK` with `labels=RUN`, a table or stated"
            )
        # TrainConfig validates the teacher's options.
        assert self.teaching

    def check_unused_options(self) -> None:
        """Raise BadOption for an option other than its default that the sampler does not use."""
        plain = (AugmentConfig.words_from, AugmentConfig.changed)
        if self.sampler not in ("insertion", "substitution") and (self.words_from, self.changed) != plain:
            raise BadOption(
                "`words_from` and `changed` are for `sampler='insertion'` and `sampler='substitution'`; leave them out"
            )

    @property
    def teaching(self) -> TrainConfig:
        """Return the options of the cross-encoder, as those of jobs.train --model concat."""
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
        """Return the options of the student's encoder."""
        return EncoderConfig(**vars(part(self, EncoderOptions)))

    @property
    def learning(self) -> TrainingConfig:
        """Return the options of the student's training."""
        return TrainingConfig(
            epochs=self.epochs, batch=self.batch, learning_rate=self.learning_rate, warmup=self.warmup,
            weight_decay=self.weight_decay, bias_correction=True,
        )  # fmt: skip


@dataclass(frozen=True)
class Line:
    """Results of a model: its name, numbers of gold and silver training pairs and of steps, and Spearman's rho.

    spearman: by split, of the model's scores with the known ones.
    """

    model: str
    gold: int
    silver: int
    steps: int
    spearman: Mapping[str, float]
