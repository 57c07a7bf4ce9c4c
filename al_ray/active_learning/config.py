"""The options of an active-learning run: frozen, each with its default, its bounds and a sentence for --help."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log
from typing import Annotated, Literal, cast

from al_ray.active_learning.strategies import STRATEGIES, StrategyName, budgets_help, strategies_help
from al_ray.core.config.bounds import RARE, Between, Group, Seed, check_bounds
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.oracle import oracle_forms, oracle_kind, oracle_name, oracles_help
from al_ray.core.config.sections import CandidatesConfig, EvaluationConfig, ScoringConfig, SearchConfig, TrainingConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.task import SPLITS

# Labels of a round: beyond any budget, and few enough for an array of pairs.
MOST_LABELS = 1_000_000_000
# First batch and growth, by who labels: people, or anything else (the paper's).
PEOPLE, MACHINE = (50, 1.0), (2048, 1.5)
PAPER = Group("experiments")
"""The heading of options that reproduce comparisons of the paper."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(EncoderConfig):
    """One active-learning run."""

    task: str
    """Task folder made by the command prepare."""
    # Help that is derived from a registry of strategies or oracles stands in metadata: a docstring cannot be computed.
    strategy: StrategyName = field(default="uncertainty", metadata={"help": strategies_help()})
    seed: Seed = 0
    """Random seed."""
    rounds: Annotated[int, Between(1, 10_000)] = 4
    """k: rounds of selection, labelling and training (the paper: 10 on QQP, 4 on WikiQA)."""
    # None is replaced by the default of the oracle: people cannot label thousands of pairs before the first training.
    first_batch: Annotated[int, Between(1, MOST_LABELS)] = cast(int, None)
    """n_1: labels of the first round. Default: 50 if people label (--oracle file, page), else 2,048. It may change when
    a run is resumed: it holds from the next batch on."""
    growth: Annotated[float, Between(1, 1_000)] = cast(float, None)
    """Growth of the batch: round i labels n_1 * growth^(i-1) pairs. Default: 1 if people label, else 1.5. It may change
    when a run is resumed."""
    choose_ahead: Annotated[bool, Group("oracle"), RARE] = False
    """Choose the pairs of a round before those of the round before are labelled, so that people need not wait while a
    model learns (with small batches: --first-batch 10). Each choice knows the labels of one round fewer."""
    dev_labels: Annotated[int, Between(0, 1_000_000)] = 0
    """Pairs of dev to draw and label after each round, by the same oracle, to measure the model where not all matches
    of dev are known. These labels come on top of those of the rounds. It may change when a run is resumed."""
    oracle: str = field(default="simulated", metadata={"help": oracles_help()})
    seeding: Annotated[Literal["retrieval", "stated"], PAPER, RARE] = "retrieval"
    """Seed set, the first batch: the most similar pairs (4.2.3), or a random sample of the stated pairs (5.7)."""
    matched: Annotated[tuple[int, int] | None, PAPER, RARE] = None
    """For stratified-match: the numbers of positives and negatives to draw; --match RUN takes them from a run."""
    train_every_budget: Annotated[bool, PAPER, RARE] = field(default=False, metadata={"help": budgets_help()})
    matcher: Annotated[Literal["on", "off", "auto"], Group("candidates")] = "off"
    """on: the encoder stays as it is, and every round a matcher learns from the labels to rank candidates, by
    comparisons of their fields (docs/matcher.md). off: every round trains the encoder, whose cosine ranks pairs. auto:
    on for a task whose texts have several fields, else off; config.json records which."""
    encoder_every: Annotated[int, Between(0, 10_000), Group("candidates")] = 0
    """With a matcher: after every how many rounds the encoder is trained, too, on all labels; 0: never. Then all texts
    are embedded, and candidates found, again."""
    candidates: CandidatesConfig = field(default_factory=CandidatesConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    scoring: ScoringConfig = field(default_factory=ScoringConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        """Raise BadOption for options that are out of bounds or do not go together."""
        # The strategy and the oracle come first, because the other checks look them up.
        if self.strategy not in STRATEGIES:
            raise BadOption(f"`strategy` is {self.strategy!r}; give one of {', '.join(STRATEGIES)}")
        if oracle_name(self.oracle) is None:
            raise BadOption(f"`oracle` is {self.oracle!r}; give {oracle_forms()}")
        sizes = PEOPLE if oracle_kind(self.oracle).people else MACHINE
        for name, value in zip(("first_batch", "growth"), sizes, strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        check_bounds(self)
        self.training.losses.check_unused_options(self.training.loss)
        # In logarithms, because the product may overflow.
        if log(self.first_batch) + (self.rounds - 1) * log(self.growth) > log(MOST_LABELS):
            raise BadOption(
                f"{option('first_batch', self.first_batch)}, {option('growth', self.growth)} and "
                f"{option('rounds', self.rounds)} ask for more than {MOST_LABELS:,} labels in a round; lower one of "
                "them"
            )
        splits = self.evaluation.splits
        if not set(splits) <= set(SPLITS) or len(set(splits)) < len(splits):
            raise BadOption(f"`evaluation.splits` is {' '.join(splits)!r}; give {', '.join(SPLITS)}, each once at most")
        bands = self.evaluation.bands
        if any(higher <= lower for higher, lower in pairwise((2.0, *bands, -2.0))):
            raise BadOption(f"`evaluation.bands` is {' '.join(map(str, bands))}; give cosines, the highest first")
        for value, name in ((self.task, "`task`"), (self.encoder, "`encoder`"), (self.search.index, "`search.index`")):
            if not value.strip() or "\0" in value:
                raise BadOption(f"{name} is {value!r}; give a value, or leave it out if it has a default")
        self._check_strategy_options()

    def _check_strategy_options(self) -> None:
        """Raise BadOption for options that the strategy cannot use."""
        if STRATEGIES[self.strategy].knows_positives and not oracle_kind(self.oracle).knows_positives:
            raise BadOption(
                f"{option('strategy', self.strategy)} knows all positives, as `oracle='simulated'` does; give that"
            )
        if self.matched is not None and (min(self.matched) < 0 or not sum(self.matched)):
            raise BadOption(f"`matched` is {' '.join(map(str, self.matched))}; give how many positives and negatives")
        if self.choose_ahead and not (oracle_kind(self.oracle).people or oracle_kind(self.oracle).knows_positives):
            raise BadOption(
                f"`choose_ahead` is for people who label; leave it out with {option('oracle', self.oracle)}"
            )
        if self.scoring.both_sides and self.search.index != "Flat":
            raise BadOption(
                f"{option('search.index', self.search.index)} finds the nearest by cosine alone, and with "
                "`scoring.neighbourhood_sides='both'` others have the highest scores; leave one of them out"
            )
        if self.matcher == "on":
            self._check_matcher_options()
        elif self.encoder_every:
            raise BadOption(
                "`encoder_every` is of a run with `matcher='on'`, and without a matcher every round trains the "
                "encoder; give `matcher='on'`, or leave it out"
            )
        if self.seeding == "stated" and not STRATEGIES[self.strategy].uses_model:
            raise BadOption(
                f"`seeding='stated'` starts a model, and {option('strategy', self.strategy)} asks none; leave it out"
            )

    def _check_matcher_options(self) -> None:
        """Raise BadOption for options that a matcher cannot use."""
        if self.search.index != "Flat":
            raise BadOption("`matcher='on'` finds candidates by comparing all vectors; leave out `search.index`")
        if self.search.ordered_pairs:
            raise BadOption("`matcher='on'` ranks each pair once; leave out `search.ordered_pairs`")
        if self.scoring.weight != 0:
            raise BadOption(
                "`matcher='on'` has the neighbourhood among its comparisons; leave out `scoring.neighbourhood`"
            )
        if self.training != TrainingConfig() and not self.encoder_every:
            raise BadOption(
                "`matcher='on'` does not train the encoder; leave out all options of training, or train it every N "
                "rounds (`RunConfig.encoder_every=N`)"
            )

    def settled(self, pairs: int) -> "RunConfig":
        """Replace `auto` for a pool of `pairs` pairs: by size alone, because speed differs between machines."""
        if self.search.kind != "auto":
            return self
        kind: Literal["knn", "exact"] = "exact" if pairs <= self.search.exact_pairs else "knn"
        return replace(self, search=replace(self.search, kind=kind))

    @property
    def trains_encoder(self) -> bool:
        """Whether rounds train the encoder."""
        return self.matcher == "off" or self.encoder_every > 0

    @property
    def trainers(self) -> int:
        """How many actors train the encoder: none if a matcher learns in its place, on the driver."""
        return self.training.workers if self.trains_encoder else 0

    @property
    def encoding(self) -> EncoderConfig:
        """The options of the encoder alone."""
        return part(self, EncoderConfig)

    @property
    def batches(self) -> tuple[int, ...]:
        """Labels of each round: n_1 * growth^(i-1) (5.1), or the whole budget in one round."""
        # Rounded before int() truncates: 1000 * 1.7^2 is 2889.9999... in floats.
        sizes = tuple(int(round(self.first_batch * self.growth**number, 6)) for number in range(self.rounds))
        if self.matched is not None and STRATEGIES[self.strategy].matches:
            return (sum(self.matched),)
        return (sum(sizes),) if self.once else sizes

    @property
    def once(self) -> bool:
        """Whether the whole budget is labelled before the first training, which is the only one."""
        strategy = STRATEGIES[self.strategy]
        return not strategy.uses_model and not (self.train_every_budget and strategy.by_rounds)
