"""Options of question paraphrase retrieval, with the defaults of paper 002, 4.2."""

from dataclasses import dataclass
from typing import Literal

from al_ray.core.config import EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.core.limits import refuse_beyond

CELLS, QUESTIONS = 2_000, 556_107
"""The paper's index: IVF2000,Flat over so many questions."""


@dataclass(frozen=True)
class ParaphraseConfig:
    """One training of an encoder on pairs of paraphrases."""

    task: str
    """A task folder of one set of questions, made by jobs.prepare (qqp --held-out-pairs, logs, pairs, synthetic)."""
    encoder: str = "cnn"
    """cnn (300 filters), cnn-N (N filters: the paper does not say how many), or any encoder of jobs.run."""
    words: int = 50_000
    """Words that cnn knows by themselves, the most frequent of the train split; all others share 5,000 bins."""
    loss: Literal["sdml", "triplet-random", "triplet-hard", "triplet-mined"] = "sdml"
    """sdml: smoothed deep metric learning (3.1); triplet-random, triplet-hard: with a random other question of the
    batch as the negative, or with the nearest (3); triplet-mined: with one that --miner finds in the train split."""
    miner: Literal["model", "bm25", "tfidf", "random"] = "model"
    """Of triplet-mined, mined anew every epoch: model: the nearest by the weights as they are then, of --sample
    questions; bm25, tfidf: by shared words. One in five is drawn from all; none is of the question's own cluster."""
    sample: int = 100
    """Questions drawn for each question, every epoch, that --miner model looks at."""
    distance: Literal["squared", "euclidean"] = "squared"
    """The paper's SSD and EUC. The index is by squared distance either way: the order is the same."""
    smoothing: float = 0.3
    """eps of Eq. 3; 0 is plain cross-entropy. For sdml alone."""
    margin: float = 0.5
    """alpha of Eq. 1, for the triplet losses alone."""
    batch: int = 512
    """N: pairs of a batch; each has the N - 1 others' second questions as negatives."""
    same_cluster: bool = False
    """Let a batch hold two pairs of one cluster, whose questions are then taken for negatives of each other."""
    learning_rate: float = 1e-3
    """Adam's (4.2). On QQP's subset 3e-4 was better on dev, by three losses (docs/paraphrase.md)."""
    epochs: int = 50
    """At most so many passes over the pairs."""
    patience: int = 3
    """Stop after so many epochs without a better ROC AUC on dev; the best epoch's weights are kept."""
    negatives: int = 10
    """Random pairs of dev questions of different clusters, for each positive one, that the ROC AUC is against."""
    seed: int = 0
    """Names the initial weights and every draw."""
    max_length: int = 64
    """At most so many words (or word pieces) of a question."""
    encoder_batch: int = 256
    """Questions encoded at a time, of like length, in training and for the index."""
    threads: int = 2
    """Threads of an encoder. Part of a vector's last bits."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        refuse_beyond((
            (self.words, "--words", 0, 100_000_000),
            (self.smoothing, "--smoothing", 0, 1),
            (self.margin, "--margin", 0, 1e6),
            (self.batch, "--batch", 2, 1_000_000),
            (self.learning_rate, "--learning-rate", 0, 1e6),
            (self.sample, "--sample", 1, 1_000_000),
            (self.epochs, "--epochs", 1, 100_000),
            (self.patience, "--patience", 1, 100_000),
            (self.negatives, "--negatives", 1, 100_000),
            (self.seed, "--seed", 0, 2**63 - 1),
            (self.max_length, "--max-length", 3, 1_000_000),
            (self.encoder_batch, "--encoder-batch", 1, 1_000_000),
            (self.threads, "--threads", 1, 1_024),
        ))  # fmt: skip
        for value, name in ((self.task, "--task"), (self.encoder, "--encoder")):
            if not value.strip() or "\0" in value:
                raise BadOption(f"{name} is {value!r}; say which, or leave it out where it has a default")

    @property
    def encoding(self) -> EncoderConfig:
        """The options that decide a vector."""
        return EncoderConfig(self.encoder, None, self.max_length, self.encoder_batch, self.threads, "fp32")


@dataclass(frozen=True)
class Epoch:
    """What came of a pass over the pairs.

    loss: mean of its batches. roc_auc: of dev, after it. batches, pairs: taken. seconds: of it all.
    """

    epoch: int
    loss: float
    roc_auc: float
    batches: int
    pairs: int
    seconds: float


def best(epochs: list[Epoch]) -> Epoch:
    """The one with the highest ROC AUC, the earliest of equal ones."""
    return max(epochs, key=lambda one: (one.roc_auc, -one.epoch))


def stopped(epochs: list[Epoch], config: ParaphraseConfig) -> bool:
    """Whether a training is at its end: all epochs are done, or `patience` of them after the best."""
    return len(epochs) >= config.epochs or (len(epochs) - best(epochs).epoch >= config.patience if epochs else False)


def scaled(questions: int) -> str:
    """The Faiss index of so many questions: cells as full as the paper's (278 questions); Flat where that is one."""
    cells = round(CELLS * questions / QUESTIONS)
    return f"IVF{cells},Flat" if cells > 1 else "Flat"
