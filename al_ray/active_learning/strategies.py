"""Query strategies: one registry of named functions that choose the pairs of a round (paper, 4.1, 4.2 and 5.2).

A strategy is a pure function from a RoundRequest to candidates. To add one, write the function, here or in a file of
its own, and add a line to STRATEGIES: options, help, reports and the contract tests read the registry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from al_ray.active_learning.round_request import RoundRequest
from al_ray.core.candidates import HIGHEST, Candidates, Order
from al_ray.core.errors import BadOption
from al_ray.core.pairs import Keys, is_in
from al_ray.core.task import Split

UNRANKED = 100
"""Rank of a strategy that is in none of the paper's tables."""


@dataclass(frozen=True)
class Strategy:
    """A function that chooses pairs, and its properties on which other modules depend.

    choose: returns at most `size` distinct unlabelled pairs of the pool, in the order in which they are labelled.
    summary: what it chooses, in a few words, for --help.
    uses_model: chooses by the model of the previous round. Its first round is the seed set, and it trains in every
        round. Any other strategy labels its whole budget before the only training, unless train_every_budget.
    searches: searches the pool; any other strategy samples at random.
    by_rounds: can spread its budget over rounds; False for one sample of the whole budget even with
        train_every_budget.
    knows_positives: uses all positives of the pool, which are unknown before labelling (5.4); needs the simulated
        oracle, and is marked "(oracle)" in reports.
    takes_all_stated: takes every stated pair of the task whatever the budget, so the task must have some, and their
        number is the number of labels.
    matches: name of the strategy whose run gives the numbers of positives and negatives (--matched, --match); in a
        grid its runs wait for that strategy's.
    rank: its position in the paper's tables.
    """

    choose: Callable[[RoundRequest], Candidates]
    summary: str
    uses_model: bool = False
    searches: bool = True
    by_rounds: bool = True
    knows_positives: bool = False
    takes_all_stated: bool = False
    matches: str | None = None
    rank: int = UNRANKED


def stated(split: Split) -> Keys:
    """Return the sorted keys of all positives of the split and all its stated negatives (3.1.2)."""
    return np.union1d(split.positive_keys, split.space.keys(split.stated_negatives))


def without_cosines(keys: Keys) -> Candidates:
    """Make candidates of (n,) keys, in this order, with NaN for their unknown cosines."""
    return Candidates(keys, np.full(len(keys), np.nan))


def uncertainty(request: RoundRequest) -> Candidates:
    """Choose the pairs whose cosine is nearest to the decision boundary (uncertainty sampling, 4.2)."""
    return request.search(request.trained, Order(request.boundary), request.size, request.labelled)


def adaptive(request: RoundRequest) -> Candidates:
    """Choose the pairs of highest cosine under the latest model."""
    return request.search(request.trained, HIGHEST, request.size, request.labelled)


def static(request: RoundRequest) -> Candidates:
    """Choose the pairs of highest cosine under the untrained encoder; also the seed set of 4.2.3."""
    return request.search(request.untrained(), HIGHEST, request.size, request.labelled)


def random(request: RoundRequest) -> Candidates:
    """Sample uniformly from the unlabelled pairs of the pool; take all of them if fewer than `size` are left."""
    left = request.split.space.total - len(request.labelled)
    rng = request.rng("random", request.number)
    return without_cosines(request.split.space.draw(min(request.size, left), request.labelled, rng))


def all_stated(request: RoundRequest) -> Candidates:
    """Take every positive and every stated negative (5.2), in one round or by rounds; the last round takes the rest."""
    if request.once:
        return without_cosines(stated(request.split))
    return without_cosines(_stated_left(request)[: None if request.last else request.size])


def stated_seed(request: RoundRequest) -> Candidates:
    """Sample the seed set from the stated pairs (5.7), in the order in which `all_stated` takes them by rounds."""
    return without_cosines(_stated_left(request)[: request.size])


def _stated_left(request: RoundRequest) -> Keys:
    """Return the unlabelled stated pairs in a random order that is the same in every round."""
    keys = request.rng("stated-seed", 0).permutation(stated(request.split))
    return keys[~is_in(keys, request.labelled)]


def stratified_match(request: RoundRequest) -> Candidates:
    """Sample as many positives and as many negatives as --matched says (5.4)."""
    if request.matched is None:
        raise BadOption(
            "`strategy='stratified-match'` draws as many positives and negatives as a run; give `match=RUN`"
        )
    return _stratified(request, *request.matched)


def stratified_all(request: RoundRequest) -> Candidates:
    """Take all positives, and fill the budget with negatives, but take at least as many negatives as positives (5.4).

    The first case is the paper's WikiQA, the second its QQP.
    """
    positives = len(request.split.positive_keys)
    return _stratified(request, positives, max(request.budget - positives, positives))


def _stratified(request: RoundRequest, positives: int, negatives: int) -> Candidates:
    """Sample positives and negatives separately, each uniformly, and shuffle them together."""
    split, known = request.split, request.split.positive_keys
    if positives > len(known):
        raise BadOption(f"`matched` asks for {positives:,} positives, and {split.name} has {len(known):,}")
    rng = request.rng("stratified", 0)
    chosen = rng.choice(known, positives, replace=False)
    others = split.space.draw(min(negatives, split.space.total - len(known)), known, rng)
    return without_cosines(rng.permutation(np.concatenate([chosen, others])))


STRATEGIES: Mapping[str, Strategy] = {
    "uncertainty": Strategy(uncertainty, "pairs nearest the decision boundary", uses_model=True, rank=6),
    "adaptive": Strategy(adaptive, "the highest cosines under the latest model", uses_model=True, rank=5),
    "static": Strategy(static, "the highest cosines under the untrained encoder", rank=2),
    "random": Strategy(random, "a uniform draw of the pool", searches=False, rank=0),
    "stated": Strategy(
        all_stated, "all stated pairs, whatever the budget", searches=False, takes_all_stated=True, rank=1
    ),
    "stratified-match": Strategy(
        stratified_match,
        "a draw of as many positives and negatives as another run labelled",
        searches=False,
        by_rounds=False,
        knows_positives=True,
        matches="uncertainty",
        rank=3,
    ),
    "stratified-all": Strategy(
        stratified_all,
        "all positives and a draw of negatives",
        searches=False,
        by_rounds=False,
        knows_positives=True,
        rank=4,
    ),
}
"""All strategies by name, in the order of --help."""

if TYPE_CHECKING:
    StrategyName = str
else:
    # A type checker cannot read a Literal made at run time; RunConfig refuses unknown names.
    StrategyName = Literal[tuple(STRATEGIES)]


def budgets_help() -> str:
    """Return the --help of --train-every-budget."""
    able = ", ".join(name for name, strategy in STRATEGIES.items() if not strategy.uses_model and strategy.by_rounds)
    return (
        f"{able}: label and train round by round, too, so that all can be compared at equal labels. The pairs of "
        "static, in the order of the untrained encoder, and of stated are those that they label at once; those of "
        "random are another uniform draw of as many. Others are not changed by it."
    )


def strategies_help() -> str:
    """Return the --help of --strategy: what each one takes, which train once, and which use oracle information."""
    summaries = "; ".join(f"{name}: {strategy.summary}" for name, strategy in STRATEGIES.items())
    once = ", ".join(name for name, strategy in STRATEGIES.items() if not strategy.uses_model)
    oracle = ", ".join(name for name, strategy in STRATEGIES.items() if strategy.knows_positives)
    return (
        f"How pairs are chosen (paper, 4 and 5). {summaries}. {once} label the whole budget before the only training. "
        f"{oracle} use all positives, which nobody knows before labelling: oracle information (5.4)."
    )
