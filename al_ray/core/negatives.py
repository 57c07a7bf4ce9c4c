"""Mined pairs as negatives (paper 004, 2): guards against those that are positives, and random ones mixed in."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.limits import refuse_beyond
from al_ray.core.mining import DRAWN, NOTHING, Mined, Miner, Pool, once
from al_ray.core.pairs import Keys, Mask, Pairs, Rows, is_in
from al_ray.core.scoring import Floats

SURPLUS = 4
"""So many times as many candidates are looked at as are wanted, so that what the guards leave is enough."""


@dataclass(frozen=True)
class NegativesConfig:
    """How many negatives are mined, and what guards them."""

    per_text: int = 5
    """Negatives of every text, fewer where the guards leave fewer."""
    random_share: float = 0.0
    """This share of them is drawn from all candidates, so that training meets what a search over all pairs meets
    (paper 004, 2.1)."""
    first_rank: int = 1
    """Leave out the nearest candidates before this rank: among them are most positives that nobody labelled."""
    last_rank: int | None = None
    """Leave out what is beyond this rank; four times per-text when not given."""
    ceiling: float | None = None
    """Leave out what the miner scores above this."""
    margin: float | None = None
    """Leave out what is not below a text's known positives, the lowest of them, by at least so much in the miner's
    score."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        refuse_beyond((
            (self.per_text, "--per-text", 1, 100_000),
            (self.random_share, "--random-share", 0, 1),
            (self.first_rank, "--first-rank", 1, 10**9),
            (self.last_rank, "--last-rank", 1, 10**9),
            (self.ceiling, "--ceiling", -1e9, 1e9),
            (self.margin, "--margin", 0, 1e9),
        ))  # fmt: skip
        if self.depth < self.first_rank:
            raise BadOption(f"--last-rank {self.depth} is before --first-rank {self.first_rank}; give a larger one")

    @property
    def depth(self) -> int:
        """The last rank that is looked at."""
        return self.last_rank or self.first_rank - 1 + SURPLUS * self.per_text

    @property
    def drawn(self) -> int:
        """How many of a text's negatives are drawn."""
        return round(self.random_share * self.per_text)


@dataclass(frozen=True)
class Known:
    """What is known of a pool: positives (n, 2), and (texts,) the component of every text, which pairs make."""

    positives: Pairs
    component: Rows


def labelled(mined: Mined, pool: Pool, known: Known) -> Mask:
    """(n,) whether a mined pair is a known positive itself."""
    return is_in(pool.keys(mined.pairs), np.unique(pool.keys(known.positives)))


def related(mined: Mined, known: Known) -> Mask:
    """(n,) whether both texts of a mined pair are of one component: a positive, if matching is transitive."""
    return known.component[mined.pairs[:, 0]] == known.component[mined.pairs[:, 1]]


def floors(miner: Miner, pool: Pool, known: Known) -> Floats:
    """(texts,) the lowest score that the miner gives a known positive of each query; infinite where it has none."""
    both = np.concatenate([known.positives, known.positives[:, ::-1]])
    both = both[is_in(both[:, 0], pool.queries) & is_in(both[:, 1], pool.candidates)]
    lowest = np.full(len(pool.texts), np.inf)
    np.fmin.at(lowest, both[:, 0], miner.scores(both))
    return lowest


def guarded(mined: Mined, pool: Pool, known: Known, config: NegativesConfig, floor: Floats) -> Mined:
    """What the guards leave: no known positive, no pair of one component, none beyond ranks, ceiling or margin.

    floor: see `floors`; for the margin alone. Of a draw, ranks say nothing, nor do scores that are NaN.
    """
    drawn, scores = mined.ranks == DRAWN, mined.scores
    fine = ~labelled(mined, pool, known) & ~related(mined, known)
    fine &= drawn | ((mined.ranks >= config.first_rank) & (mined.ranks <= config.depth))
    if config.ceiling is not None:
        fine &= ~(scores > config.ceiling)
    if config.margin is not None:
        fine &= ~(scores > floor[mined.pairs[:, 0]] - config.margin)
    return mined.kept(fine)


def first_of_each(mined: Mined, count: int) -> Mined:
    """The first `count` pairs of every query, in the order they stand in."""
    order = np.argsort(mined.pairs[:, 0], kind="stable")
    query: Rows = mined.pairs[order, 0]
    starts: Rows = np.searchsorted(query, query)
    within: Rows = np.arange(len(order)) - starts
    return mined.kept(np.sort(order[within < count]))


def negatives(miner: Miner, chance: Miner, pool: Pool, known: Known, config: NegativesConfig) -> Mined:
    """The negatives of every query: the miner's best after the guards, and a share that `chance` draws.

    Of a pool whose texts are queries and candidates, (a, b) may come of a and of b: see `core.mining.once`.
    """
    floor = floors(miner, pool, known) if config.margin is not None else np.empty(0)
    return chosen(miner.mined(config.depth), chance, pool, known, config, floor)


def chosen(offered: Mined, chance: Miner, pool: Pool, known: Known, config: NegativesConfig, floor: Floats) -> Mined:
    """The same of what a miner offered, `config.depth` for each query, with the floors that the margin needs."""
    hard = first_of_each(guarded(offered, pool, known, config, floor), config.per_text - config.drawn)
    # So many more that enough are left when all of the mined ones are drawn, and some that are guarded against.
    spare = (
        guarded(chance.mined(config.per_text + config.drawn), pool, known, config, floor) if config.drawn else NOTHING
    )
    own, mined = (pairs[:, 0] * len(pool.texts) + pairs[:, 1] for pairs in (spare.pairs, hard.pairs))
    fresh = spare.kept(~is_in(own, np.sort(mined)))
    return Mined.joined([hard, first_of_each(fresh, config.drawn)])


@dataclass(frozen=True)
class Truth:
    """How many mined pairs are positives in truth, and how many somebody stated to be none; the rest are not stated."""

    pairs: int
    positives: int
    stated: int

    @staticmethod
    def of(mined: Mined, pool: Pool, positives: Keys, stated: Keys) -> "Truth":
        """positives, stated: sorted keys of the pool."""
        keys = pool.keys(mined.pairs)
        return Truth(len(keys), int(is_in(keys, positives).sum()), int(is_in(keys, stated).sum()))


def truths(
    offered: Mined, best: Mined, pool: Pool, known: Known, per_text: int, keys: tuple[Keys, Keys]
) -> dict[str, Truth]:
    """What comes of no guard, of leaving out known positives, of leaving out their components too, and of all guards.

    offered: by the miner. best: `chosen` of it, each pair once. keys: of positives and stated negatives.
    """
    apart = offered.kept(~labelled(offered, pool, known))
    strangers = apart.kept(~related(apart, known))
    kept = {"none": offered, "labelled": apart, "component": strangers}
    cut = {name: once(first_of_each(mined, per_text), pool) for name, mined in kept.items()}
    return {name: Truth.of(mined, pool, *keys) for name, mined in {**cut, "all": best}.items()}
