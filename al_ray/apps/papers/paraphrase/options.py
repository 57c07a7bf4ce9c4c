"""Options of question paraphrase retrieval, with the defaults of paper 002, 4.2."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from al_ray.core.config.bounds import RARE, Between, Seed, check_bounds
from al_ray.core.config.encoder import EncoderBatch, EncoderConfig, MaxLength, Threads
from al_ray.core.errors import BadOption
from al_ray.core.naming import option

CELLS, QUESTIONS = 2_000, 556_107
"""The paper's index: IVF2000,Flat over 556,107 questions."""
LOSSES_OF = {
    "smoothing": ("sdml",),
    "margin": ("triplet-random", "triplet-hard", "triplet-mined"),
    "miner": ("triplet-mined",),
    "sample": ("triplet-mined",),
}
"""The losses that use an option."""


@dataclass(frozen=True)
class ParaphraseConfig:
    """Train an encoder on pairs of paraphrases."""

    task: str
    """A task folder of one set of questions, made by jobs.prepare (qqp --held-out-pairs, logs, pairs, synthetic)."""
    encoder: str = "cnn"
    """cnn (300 filters), cnn-N (N filters: the paper does not say how many), or any encoder of jobs.run."""
    words: Annotated[int, Between(0, 100_000_000)] = 50_000
    """Vocabulary size of cnn: the most frequent words of the train split; all others share 5,000 hash bins."""
    loss: Literal["sdml", "triplet-random", "triplet-hard", "triplet-mined"] = "sdml"
    """sdml: smoothed deep metric learning (3.1); triplet-random, triplet-hard: with a random other question of the
    batch as the negative, or with the nearest (3); triplet-mined: with one that --miner finds in the train split."""
    miner: Literal["model", "bm25", "tfidf", "random"] = "model"
    """How triplet-mined finds negatives, in every epoch. model: the nearest by the current weights among --sample
    questions; bm25, tfidf: by shared words. One in five is random; none is of the question's own cluster."""
    sample: Annotated[int, Between(1, 1_000_000)] = 100
    """Random questions per question and epoch among which --miner model searches."""
    distance: Annotated[Literal["squared", "euclidean"], RARE] = "squared"
    """The paper's SSD and EUC. The index uses squared distance either way: the order is the same."""
    smoothing: Annotated[float, Between(0, 1)] = 0.3
    """eps of Eq. 3; 0 is plain cross-entropy. For sdml only."""
    margin: Annotated[float, Between(0, 1e6)] = 0.5
    """alpha of Eq. 1, for the triplet losses only."""
    batch: Annotated[int, Between(2, 1_000_000)] = 512
    """N: pairs per batch; each has the second questions of the N - 1 others as negatives."""
    same_cluster: Annotated[bool, RARE] = False
    """Allow two pairs of one cluster in a batch; their questions then count as negatives of each other."""
    learning_rate: Annotated[float, Between(0, 1e6)] = 1e-3
    """Learning rate of Adam (4.2). On QQP's subset 3e-4 was better on dev with three losses (docs/paraphrase.md)."""
    epochs: Annotated[int, Between(1, 100_000)] = 50
    """Maximum number of passes over the pairs."""
    patience: Annotated[int, Between(1, 100_000)] = 3
    """Stop after this many epochs without a better ROC AUC on dev; the best epoch's weights are saved."""
    negatives: Annotated[int, Between(1, 100_000), RARE] = 10
    """Random negative pairs of dev questions per positive pair, for the ROC AUC."""
    seed: Seed = 0
    """Random seed of the initial weights and of training."""
    max_length: MaxLength = 64
    """Maximum number of words (or tokens) per question; longer ones are truncated."""
    encoder_batch: EncoderBatch = 256
    """Questions of similar length encoded at a time, in training and for the index."""
    threads: Threads = 2
    """Threads of the encoder. Changes the last bits of vectors."""

    def __post_init__(self) -> None:
        """Validate options."""
        check_bounds(self)
        for value, name in ((self.task, "`task`"), (self.encoder, "`encoder`")):
            if not value.strip() or "\0" in value:
                raise BadOption(f"{name} is {value!r}; give a value, or leave it out if it has a default")

    def check_unused_options(self) -> None:
        """Raise BadOption for an option other than its default that the loss or the miner does not use."""
        for one in fields(self):
            value = getattr(self, one.name)
            if value == one.default or one.name not in LOSSES_OF:
                continue
            first, *others = LOSSES_OF[one.name]
            of, there = " and ".join([option("loss", first), *others]), self.loss
            if self.loss in LOSSES_OF[one.name]:
                if one.name != "sample" or self.miner == "model":
                    continue
                of, there = option("miner", "model"), self.miner
            raise BadOption(
                f"{option(one.name, value)} is of {of}, and that is {there}; give the one, or leave out the other"
            )

    @property
    def encoding(self) -> EncoderConfig:
        """Return the options on which vectors depend."""
        return EncoderConfig(self.encoder, None, self.max_length, self.encoder_batch, self.threads)


@dataclass(frozen=True)
class Epoch:
    """Result of a pass over the pairs.

    loss: mean over batches. roc_auc: on dev, after the epoch. batches, pairs: trained on. seconds: of the whole epoch.
    """

    epoch: int
    loss: float
    roc_auc: float
    batches: int
    pairs: int
    seconds: float


def best_epoch(epochs: list[Epoch]) -> Epoch:
    """Return the epoch with the highest ROC AUC; of equal ones the earliest."""
    return max(epochs, key=lambda one: (one.roc_auc, -one.epoch))


def has_ended(epochs: list[Epoch], config: ParaphraseConfig) -> bool:
    """Return whether all epochs are done, or `patience` of them after the best."""
    stalled = bool(epochs) and len(epochs) - best_epoch(epochs).epoch >= config.patience
    return stalled or len(epochs) >= config.epochs


def scaled_index(questions: int) -> str:
    """Return the index factory string: cells as large as the paper's (278 questions), Flat if that makes one cell."""
    cells = round(CELLS * questions / QUESTIONS)
    return f"IVF{cells},Flat" if cells > 1 else "Flat"
