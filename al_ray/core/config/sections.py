"""Sections of a run's options: search, training, evaluation."""

from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Literal

from al_ray.core.config.bounds import RARE, Between, Seed
from al_ray.core.config.index import NEIGHBOURS, PROBES, Neighbours, Probes
from al_ray.core.config.losses import LOSSES, LossConfig, LossName, losses_help
from al_ray.core.errors import BadOption
from al_ray.core.naming import option

MOST_NEAR_PAIRS = 10_000_000
# What auto stands for in a task of one set of texts (docs/matcher.md).
OF_DENSE, MORE, PRESUMED = 400, 2.0, 300
# Options of TrainingConfig that are in digests only where they are not the default.
LATE = ("frozen_layers", "head", "head_start", "interpolation", "l2_sp", "presumed")
INITIAL = 10.0, -50.0
Sides = Literal["left", "both"]


@dataclass(frozen=True)
class SearchConfig:
    """The search for the pairs to label next."""

    kind: Literal["knn", "exact", "auto"] = "knn"
    """knn: search the m nearest right texts of every left text, by Faiss (paper, 4.2.2). exact: search all pairs. auto:
    exact for pools of up to --search.exact-pairs pairs, else knn; config.json records which."""
    exact_pairs: Annotated[int, Between(0, 2**62), RARE] = 20_000_000_000
    """Largest pool, in pairs, that auto searches exactly."""
    neighbours: Neighbours = NEIGHBOURS
    """m: candidates of each left text (the paper: 1000 on QQP, 100 on WikiQA)."""
    index: str = "Flat"
    """Faiss index-factory string: Flat is exact; IVF1000,Flat is of the kind that the authors used."""
    nprobe: Probes = PROBES
    """Cells of an IVF index that each query searches (the authors' program: 10)."""
    least_recall: Annotated[float, Between(0, 1), RARE] = 0.9
    """Warn when the recall of the index is below this. The recall is measured and recorded every round."""
    block: Annotated[int, Between(1, 1_000_000), RARE] = 1024
    """Left texts searched at a time; an exact search on GPUs takes 16 times as many."""
    ordered_pairs: Annotated[bool, RARE] = False
    """Label (a, b) and (b, a) of a symmetric task separately, as the authors' program did (docs/departures.md, 1)."""


@dataclass(frozen=True)
class ScoringConfig:
    """The score by which pairs are ranked."""

    neighbourhood: Annotated[float | Literal["auto", "off"], Between(0, 1)] = "off"
    """a: subtract from each cosine a times the mean cosine of its left text with the 5 nearest right texts, so that
    scores of different left texts compare. off: the score is the cosine (the paper). For tasks of two sets of texts;
    0.5 added 4 to 8 points of AP on WikiQA (docs/neighbourhood.md). auto: in each round the number by which the labels
    of all batches so far are likely, from 0.5 on; off for a task of one set, unless both sides count."""
    neighbourhood_sides: Sides = "left"
    """both: also subtract a times the mean cosine of the right text with its 5 nearest left texts. It is for tasks of
    one set of texts, too, where it is the same for (x, y) and (y, x). Without labels and with a = 0.5 it added 7 to 44
    points of AP on tables of records, and took 16 to 30 on questions of Quora (docs/neighbourhood.md)."""

    def __post_init__(self) -> None:
        """Raise BadOption for a word that is no choice, and for sides without a number."""
        if isinstance(self.neighbourhood, str) and self.neighbourhood not in ("auto", "off"):
            raise BadOption(f"`scoring.neighbourhood` is {self.neighbourhood!r}; give a number, auto or off")
        if self.both_sides and self.weight == 0:
            raise BadOption(
                "`scoring.neighbourhood_sides='both'` is about a neighbourhood, and there is none; give "
                "`scoring.neighbourhood`, such as 0.5, or leave it out"
            )

    @property
    def both_sides(self) -> bool:
        """Whether the neighbourhood of the right text is subtracted, too."""
        return self.neighbourhood_sides == "both"

    @property
    def weight(self) -> float | None:
        """The number a: 0 for off, None for auto."""
        if self.neighbourhood == "auto":
            return None
        return 0.0 if self.neighbourhood == "off" else self.neighbourhood


@dataclass(frozen=True)
class CandidatesConfig:
    """The candidates of --matcher on: the pairs that the matcher ranks, above all others."""

    cosine: Annotated[int, Between(5, 10_000)] = 20
    """Candidates of each left text by cosine: its nearest right texts."""
    trigrams: Annotated[int, Between(5, 10_000)] = 20
    """Candidates of each left text by character 3-grams (cosine of TF-IDF)."""
    of_right: Annotated[int, Between(5, 10_000)] = 5
    """Candidates of each right text by either way: its nearest left texts. In a task of one set of texts a text has
    those of a left text alone."""
    of_dense: Annotated[int | Literal["auto"], Between(0, 10_000), RARE] = "auto"
    """Candidates by cosine, at most, of a text that has more near ones than 95% of the others, as one of a large group
    of equal texts has. auto: 400 in a task of one set of texts, whose groups may be large, and 0, which is none beyond
    --candidates.cosine, in one of two sets."""
    more_of_dense: Annotated[float | Literal["auto"], Between(0, 1_000), RARE] = "auto"
    """How many more candidates a text may get by --candidates.of-dense, on average over the texts of train: as many
    texts have more of them as this allows, from 5% of all up to 30%. auto: 2, and in a run that an al_ray without this
    option began 0, which is 5%."""
    presumed: Annotated[int | Literal["auto"], Between(0, 1_000_000), RARE] = "auto"
    """Far candidates without a label that the matcher takes for non-matches, each of weight 0.3. They are never stored
    as labels. Each round says how many of them match, as far as that is known, and warns above 1%. auto: 300 in a task
    of one set of texts, and 0 in one of two sets."""
    least_recall: Annotated[float, Between(0, 1), RARE] = 0.9
    """Warn when the candidates have a smaller share of the known matches than this. It is measured before the first
    round, and recorded with each."""

    def dense(self, symmetric: bool) -> int:
        """Return the most candidates by cosine of a dense text, in a task of one set of texts or of two; 0: no more."""
        if self.of_dense == "auto":
            return OF_DENSE if symmetric else 0
        return self.of_dense

    @property
    def more(self) -> float:
        """Return how many more candidates a text may have, on average. A run has a number, but for one of before it."""
        return 0.0 if self.more_of_dense == "auto" else self.more_of_dense

    def far(self, symmetric: bool) -> int:
        """Return how many far candidates are presumed to be non-matches, in a task of one set of texts or of two."""
        if self.presumed == "auto":
            return PRESUMED if symmetric else 0
        return self.presumed


@dataclass(frozen=True)
class TrainingConfig:
    """Training of the bi-encoder, by default as the paper trains CosineBERT (A.1 and Table 7)."""

    epochs: Annotated[int, Between(1, 100_000)] = 2
    """Epochs over all labelled pairs, every round (Table 7)."""
    start: Literal["pretrained", "previous"] = "pretrained"
    """Initial weights of each round's training: the pre-trained ones (A.1), or those of the previous round."""
    batch: Annotated[int, Between(2, 1_000_000)] = 16
    """Pairs per step of each worker; a last partial batch is dropped (Table 7)."""
    workers: Annotated[int, Between(1, 1_024)] = 1
    """Data-parallel processes, each with --cpus-per-shard and --gpus-per-shard. A step takes workers * batch pairs, and
    equals the step of one worker with a batch of that size."""
    learning_rate: Annotated[float, Between(0, 1e6)] = 2e-5
    """Peak learning rate of the encoder (Table 7)."""
    epsilon: Annotated[float, Between(1e-30, 1), RARE] = 1e-6
    """AdamW's epsilon (Table 7)."""
    weight_decay: Annotated[float, Between(0, 1e6), RARE] = 0.0
    """AdamW's weight decay (Table 7)."""
    warmup: Annotated[float, Between(0, 1), RARE] = 0.1
    """Share of the steps with linear warmup; then the learning rate decays linearly to 0."""
    head_rate: Annotated[float, Between(0, 1e12), RARE] = 1e4
    """Learning rate of w and b relative to the encoder's (A.1)."""
    initial_weight: Annotated[float, Between(0, 1e6), RARE] = INITIAL[0]
    """Initial w, the weight of the batch-normalised cosine (the authors' program)."""
    initial_bias: Annotated[float, Between(-1e6, 1e6), RARE] = INITIAL[1]
    """Initial b, the bias (the authors' program)."""
    bias_correction: Annotated[bool, RARE] = False
    """Adam's bias correction; the authors' optimiser has none."""
    clip_norm: Annotated[float, Between(1e-12, 1e30), RARE] = 1.0
    """Maximum norm of the gradient over all parameters."""
    worst_loss: Annotated[float, Between(0, 1e6), RARE] = 0.6
    """A training whose refitted loss stays above this is repeated with another order of the pairs."""
    tries: Annotated[int, Between(1, 100), RARE] = 3
    """Number of such trainings before the run fails."""
    loss: LossName = field(default="bce", metadata={"help": losses_help()})
    losses: Annotated[LossConfig, RARE] = field(default_factory=LossConfig)
    frozen_layers: Annotated[int | Literal["half"], Between(0, 1_000)] = 0
    """Do not train the embeddings and this many layers of the transformer, counted from the first; 0: train all. half:
    half of its layers, rounded down; none is frozen in an encoder that has one layer or none, or whose layers al_ray
    does not find (ALBERT). A line of the log says how many."""
    head: Annotated[Literal["batch-norm", "cosine"], RARE] = "batch-norm"
    """The logit of a pair in training. batch-norm: w times the batch-normalised cosine, plus b (A.1). cosine: w times
    the cosine, plus b, as when pairs are scored."""
    head_start: Annotated[Literal["fixed", "refit"], RARE] = "fixed"
    """Initial w and b. fixed: --training.initial-weight and --training.initial-bias. refit: fitted to up to 1,024 of
    the labelled pairs under the initial encoder."""
    interpolation: Annotated[float, Between(0, 1), RARE] = 1.0
    """Weights of each round's model: this share of the trained ones, and the rest of those that the training began from
    (Wortsman et al. 2022, Robust fine-tuning of zero-shot models). 1: the trained ones alone (docs/recipes.md)."""
    l2_sp: Annotated[float, Between(0, 1e9), RARE] = 0.0
    """Decay of the encoder's weights towards those that the training began from, as weight decay is towards 0: each
    step takes the learning rate times this share of the way back (L2-SP, Li, Grandvalet and Davoine 2018, decoupled as
    in AdamW). 1,000 and 3,000 were measured, at a rate of 2e-5 (docs/recipes.md)."""
    presumed: Annotated[float, Between(0, 100), RARE] = 0.0
    """Pairs of the pool without a label, drawn at random, that a training takes for non-matches: this many for each
    label. They are never stored as labels, and the scorer is not fitted to them. Each round says how many of them
    match, as far as that is known, and warns above 1% (docs/recipes.md)."""

    def __post_init__(self) -> None:
        """Raise BadOption for options of the head that the loss does not use, and for a word that is no choice."""
        if self.loss not in LOSSES:
            raise BadOption(f"`training.loss` is {self.loss!r}; give one of {', '.join(LOSSES)}")
        if isinstance(self.frozen_layers, str) and self.frozen_layers != "half":
            raise BadOption(f"`training.frozen_layers` is {self.frozen_layers!r}; give a number or half")
        if self.l2_sp * self.learning_rate > 1:
            raise BadOption(
                f"`training.l2_sp={self.l2_sp:g}` times `training.learning_rate={self.learning_rate:g}` is above 1, so "
                f"a step would go back beyond the initial weights; give at most {1 / self.learning_rate:g}"
            )
        headless, start = not LOSSES[self.loss].trains_head, (self.initial_weight, self.initial_bias)
        if start != INITIAL and (headless or self.head_start == "refit"):
            cause = (
                f"{option('training.loss', self.loss)} uses no head"
                if headless
                else "`training.head_start='refit'` fits w and b"
            )
            raise BadOption(f"{cause}; leave out `training.initial_weight` and `training.initial_bias`")
        if not headless:
            return
        if self.head != "batch-norm":
            raise BadOption(
                f"{option('training.loss', self.loss)} uses no head; leave out {option('training.head', self.head)}"
            )
        if self.head_start != "fixed":
            raise BadOption(
                f"{option('training.loss', self.loss)} uses no head; leave out "
                f"{option('training.head_start', self.head_start)}"
            )

    def pairs(self, labels: int) -> int:
        """Return the number of pairs of a training on this number of labels, presumed non-matches included."""
        return labels + round(self.presumed * labels)

    @property
    def content(self) -> dict[str, Any]:
        """All options by name; those of LATE only if they differ from their default, as earlier versions lack them."""
        return {
            one.name: value
            for one, value in zip(fields(self), asdict(self).values(), strict=True)
            if one.name not in LATE or value != one.default
        }

    def digested(self) -> dict[str, Any]:
        """The options that decide trained weights, as their digest takes them.

        With bce `loss` and `losses` are left out, so that digests are those of versions before other losses.
        """
        late = ("loss", "losses") if self.loss == "bce" else ()
        return {name: value for name, value in self.content.items() if name not in late}


@dataclass(frozen=True)
class EvaluationConfig:
    """The measurement of average precision over all pairs."""

    splits: tuple[str, ...] = ("dev",)
    """Splits measured after every training. Tune on dev; measure test once, at the end."""
    mode: Literal["auto", "exact", "estimate"] = "auto"
    """exact: score every pair. estimate: weight a sample (paper, A.2). auto: exact for pools of up to
    --evaluation.exact-pairs pairs, else estimate."""
    exact_pairs: Annotated[int, Between(0, 2**62), RARE] = 2_000_000_000
    """Largest pool, in pairs, that auto measures exactly."""
    near_neighbours: Annotated[int, Between(1, 1_000_000), RARE] = 100
    """The near negatives are this many nearest neighbours of each left text under the untrained encoder (A.2)."""
    near_pairs: Annotated[int | None, Between(1, 2**40), RARE] = None
    """Maximum number of near negatives of each band, drawn at random. Default: ten million; the paper takes all."""
    bands: Annotated[tuple[float, ...], RARE] = ()
    """Cosines of the untrained encoder, highest first, that divide the near negatives into strata."""
    random_pairs: Annotated[int, Between(1, 2**40)] = 10_000_000
    """Size of the random stratum (A.2); all pairs of a smaller pool."""
    seed: Seed = 0
    """Random seed of the sampled pairs. Use the same seed for runs to be compared."""
    examples: Annotated[int, Between(0, 10_000)] = 20
    """Error examples to keep of each kind: highest negatives, lowest positives, pairs nearest the boundary."""

    @property
    def most_near_pairs(self) -> int:
        """Return the maximum number of near negatives of each band. One shard merges those that are drawn."""
        return MOST_NEAR_PAIRS if self.near_pairs is None else self.near_pairs

    def counts_all(self, pairs: int) -> bool:
        """Return whether every pair of a split is counted: by `mode`, and in auto by the split's number of pairs."""
        return pairs <= self.exact_pairs if self.mode == "auto" else self.mode == "exact"
