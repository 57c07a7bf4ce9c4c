"""Use mined pairs as negatives (paper 004, 2): filter out likely positives and mix in random pairs."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from al_ray.apps.papers.mining.miners import DRAWN, NO_PAIRS, MinedPairs, Miner, Pool, deduplicate
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.pairs import Keys, Mask, Pairs, Rows, is_in
from al_ray.core.scorer import Floats

SURPLUS = 4
"""Candidates looked at for each negative, so that enough are left after the filters."""


@dataclass(frozen=True)
class NegativesConfig:
    """How many negatives to mine, and which filters to apply."""

    per_text: Annotated[int, Between(1, 100_000)] = 5
    """Negatives of each text, fewer if the filters leave fewer."""
    random_share: Annotated[float, Between(0, 1)] = 0.0
    """Share of the negatives drawn at random from all candidates, so that training also sees the easy pairs of a search
    over all pairs (paper 004, 2.1); of each text's negatives the nearest whole number."""
    first_rank: Annotated[int, Between(1, 10**9)] = 1
    """Skip the candidates before this rank: most unlabelled positives are among the nearest."""
    last_rank: Annotated[int | None, Between(1, 10**9)] = None
    """Skip the candidates after this rank; default: four times per-text ranks."""
    ceiling: Annotated[float | None, Between(-1e9, 1e9)] = None
    """Skip candidates that the miner scores above this."""
    margin: Annotated[float | None, Between(0, 1e9)] = None
    """Skip candidates whose score is not at least this much below the lowest score of the text's known positives."""

    def __post_init__(self) -> None:
        """Validate options."""
        check_bounds(self)
        if self.depth < self.first_rank:
            last, first = option("last_rank", self.depth), option("first_rank", self.first_rank)
            raise BadOption(f"{last} is before {first}; give a larger one")

    @property
    def depth(self) -> int:
        """Return the last rank that is used."""
        return self.last_rank or self.first_rank - 1 + SURPLUS * self.per_text

    @property
    def drawn(self) -> int:
        """Return how many of a text's negatives are random."""
        return round(self.random_share * self.per_text)


@dataclass(frozen=True)
class KnownMatches:
    """Known positives (n, 2) of a pool, and the connected component (texts,) that they put each text in."""

    positives: Pairs
    component: Rows


def is_known_positive(mined: MinedPairs, pool: Pool, known: KnownMatches) -> Mask:
    """Return (n,) whether each mined pair is a known positive."""
    return is_in(pool.keys(mined.pairs), np.unique(pool.keys(known.positives)))


def in_one_component(mined: MinedPairs, known: KnownMatches) -> Mask:
    """Return (n,) whether both texts of a pair are in one component: a positive, if matching is transitive."""
    return known.component[mined.pairs[:, 0]] == known.component[mined.pairs[:, 1]]


def lowest_positive_scores(miner: Miner, pool: Pool, known: KnownMatches) -> Floats:
    """Return (texts,) the lowest score that the miner gives a known positive of each query; inf if there is none."""
    both = np.concatenate([known.positives, known.positives[:, ::-1]])
    both = both[is_in(both[:, 0], pool.queries) & is_in(both[:, 1], pool.candidates)]
    lowest = np.full(len(pool.texts), np.inf)
    np.fmin.at(lowest, both[:, 0], miner.scores(both))
    return lowest


def filter_mined(
    mined: MinedPairs, pool: Pool, known: KnownMatches, config: NegativesConfig, floor: Floats
) -> MinedPairs:
    """Drop known positives, pairs within one component, and pairs outside the ranks, the ceiling or the margin.

    floor: see `lowest_positive_scores`; only the margin needs it. Random pairs have no rank, and NaN scores pass.
    """
    drawn, scores = mined.ranks == DRAWN, mined.scores
    passed = ~is_known_positive(mined, pool, known) & ~in_one_component(mined, known)
    passed &= drawn | ((mined.ranks >= config.first_rank) & (mined.ranks <= config.depth))
    if config.ceiling is not None:
        passed &= ~(scores > config.ceiling)
    if config.margin is not None:
        passed &= ~(scores > floor[mined.pairs[:, 0]] - config.margin)
    return mined.select(passed)


def first_per_query(mined: MinedPairs, count: int) -> MinedPairs:
    """Return the first `count` pairs of every query, in their order."""
    order = np.argsort(mined.pairs[:, 0], kind="stable")
    query: Rows = mined.pairs[order, 0]
    starts: Rows = np.searchsorted(query, query)
    within: Rows = np.arange(len(order)) - starts
    return mined.select(np.sort(order[within < count]))


def mine_negatives(miner: Miner, chance: Miner, pool: Pool, known: KnownMatches, config: NegativesConfig) -> MinedPairs:
    """Return the negatives of every query: the miner's best after the filters, and a random share from `chance`.

    If texts are both queries and candidates, a pair may come twice, as (a, b) and (b, a): see `miners.deduplicate`.
    """
    return choose_negatives(miner, miner.mine(config.depth), chance, pool, known, config)


def choose_negatives(
    miner: Miner, offered: MinedPairs, chance: Miner, pool: Pool, known: KnownMatches, config: NegativesConfig
) -> MinedPairs:
    """Return the negatives among the pairs that a miner offered, `config.depth` of each query."""
    floor = lowest_positive_scores(miner, pool, known) if config.margin is not None else np.empty(0)
    hard = first_per_query(filter_mined(offered, pool, known, config, floor), config.per_text - config.drawn)
    # More than needed, because some may be mined pairs, and some are filtered out.
    spare = chance.mine(config.per_text + config.drawn) if config.drawn else NO_PAIRS
    spare = filter_mined(spare, pool, known, config, floor)
    own, mined = (pairs[:, 0] * len(pool.texts) + pairs[:, 1] for pairs in (spare.pairs, hard.pairs))
    fresh = spare.select(~is_in(own, np.sort(mined)))
    return MinedPairs.concatenate([hard, first_per_query(fresh, config.drawn)])


def draw_outside(queries: Rows, pool: Pool, known: KnownMatches, count: int, rng: np.random.Generator) -> MinedPairs:
    """Draw up to `count` candidates of each query outside its component; none if all candidates are inside."""
    pairs, component = [NO_PAIRS.pairs], known.component
    for one in np.unique(component[queries]).tolist():
        outside = pool.candidates[component[pool.candidates] != one]
        for query in queries[component[queries] == one].tolist():
            drawn = rng.choice(outside, size=min(count, len(outside)), replace=False)
            pairs.append(np.stack([np.full(len(drawn), query), drawn], axis=1))
    return MinedPairs.unranked(np.concatenate(pairs), "random")


@dataclass(frozen=True)
class FalseNegatives:
    """How many mined pairs are true positives, and how many are stated negatives; the rest have no label."""

    pairs: int
    positives: int
    stated: int


def count_false_negatives(
    offered: MinedPairs, best: MinedPairs, pool: Pool, known: KnownMatches, per_text: int, labels: tuple[Keys, Keys]
) -> dict[str, FalseNegatives]:
    """Count without filters, without known positives, also without pairs of one component, and with all filters.

    offered: mined pairs. best: `choose_negatives` of it, deduplicated. labels: sorted keys of the positives
    and of the stated negatives in the pool.
    """
    unknown = offered.select(~is_known_positive(offered, pool, known))
    unrelated = unknown.select(~in_one_component(unknown, known))
    filtered = {"none": offered, "labelled": unknown, "component": unrelated}
    cut = {name: deduplicate(first_per_query(mined, per_text), pool) for name, mined in filtered.items()}
    keys = {name: pool.keys(mined.pairs) for name, mined in {**cut, "all": best}.items()}
    return {name: FalseNegatives(len(own), *(int(is_in(own, of).sum()) for of in labels)) for name, own in keys.items()}
