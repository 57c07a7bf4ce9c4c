"""How far people agree: of each person with the others, and of all on a sheet.

Only pairs that were drawn for two answers (--page.overlap) tell. With --confirm-matches a second person answers the
pairs that were answered yes: agreement beyond chance on these is negative, however well people agree on all pairs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.rng import generator
from al_ray.metrics.agreement import (
    DRAWS,
    PRIOR,
    TAIL,
    Agreement,
    Counts,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    tabulate,
)
from al_ray.metrics.average_precision import Estimate, Floats
from al_ray.oracles.page_log import PageAnswer, PageAnswers

LEAST = 10
"""Pairs below which alpha is not given."""


@dataclass(frozen=True)
class PersonAnswers:
    """The answers of a person, and their agreement with the others on the drawn pairs that both have answered."""

    name: str
    yes: int
    no: int
    unsure: int
    with_others: Agreement

    @property
    def total(self) -> int:
        """Return how many answers they are."""
        return self.yes + self.no + self.unsure


@dataclass(frozen=True)
class SheetAgreement:
    """The agreement on the n pairs of a sheet that were drawn for two answers, and that two people or more answered.

    share: of these pairs on which all agree. fleiss: of the first two answers to each. alpha: Krippendorff's, of
    nominal labels, with a 95% interval. None where nothing tells agreement from chance.
    first_yes: pairs, drawn or not, that have a second answer and whose first one is yes. confirmed: how many of these
    have the second answer yes.
    """

    n: int
    share: float | None
    fleiss: float | None
    alpha: Estimate | None
    first_yes: int
    confirmed: int


def people(sheets: Iterable[PageAnswers], seed: int) -> list[PersonAnswers]:
    """Return everybody who has answered a pair of these sheets, by name."""
    pages = list(sheets)
    pairs = [of for page in pages for of in page.answers.values()]
    drawn = [of for page in pages for of in _drawn(page)]
    names = sorted({name for of in pairs for name in of})
    return [_person(name, pairs, drawn, seed) for name in names]


def _drawn(page: PageAnswers) -> list[dict[str, PageAnswer]]:
    """Return the answers to each pair that was drawn for two answers."""
    return [of for code, of in page.answers.items() if code in page.doubled]


def _person(
    name: str, pairs: list[dict[str, PageAnswer]], drawn: list[dict[str, PageAnswer]], seed: int
) -> PersonAnswers:
    own = [of[name].label for of in pairs if name in of]
    beside = [
        (of[name].label, other.label)
        for of in drawn
        if name in of
        for other in of.values()
        if other.by != name
    ]  # fmt: skip
    labels = np.array(beside, dtype=np.int64).reshape(-1, 2)
    agreement = cohen_kappa(tabulate(labels[:, 0], labels[:, 1], OPEN), generator(seed, "page-kappa"))
    return PersonAnswers(name, own.count(YES), own.count(NO), own.count(UNSURE), agreement)


def sheet_agreement(page: PageAnswers, seed: int) -> SheetAgreement:
    """Return how far people agree on a sheet."""
    second = [two[1].label for of in page.answers.values() if len(of) > 1 and (two := _first_two(of))[0].label == YES]
    shared = [of for of in _drawn(page) if len(of) > 1]
    if not shared:
        return SheetAgreement(0, None, None, None, len(second), second.count(YES))
    counts = label_counts(shared)
    first_two = label_counts([{one.by: one for one in _first_two(of)} for of in shared])
    share = float((counts.max(1) == counts.sum(1)).mean())
    found = alpha(counts, generator(seed, "page-alpha"))
    return SheetAgreement(len(shared), share, fleiss_kappa(first_two), found, len(second), second.count(YES))


def _first_two(of: Mapping[str, PageAnswer]) -> list[PageAnswer]:
    return sorted(of.values(), key=lambda answer: answer.number)[:2]


def label_counts(pairs: Iterable[Mapping[str, PageAnswer]]) -> Counts:
    """Return (n, 3) counts: how many people gave pair i the label j."""
    return np.array([np.bincount([one.label for one in of.values()], minlength=OPEN) for of in pairs], dtype=np.int64)


def alpha(counts: Counts, rng: np.random.Generator) -> Estimate | None:
    """Return Krippendorff's alpha of nominal labels with its 95% interval.

    counts: (n, k), how many people gave pair i the label j, two or more in all. None if there is one label only, or
    fewer than LEAST pairs.

    The interval is that of `cohen_kappa`, for any number of people: alpha under shares of pairs drawn from their
    posterior, with half a pair added for each two labels that occur, in both orders. A bootstrap has no width where all
    agree, however few they are.
    """
    value = krippendorff_alpha(counts) if len(counts) >= LEAST else None
    if value is None:
        return None
    labels = np.eye(counts.shape[1], dtype=np.int64)[np.flatnonzero(counts.sum(0))]
    prior = (labels[:, None] + labels).reshape(-1, counts.shape[1])
    seen, times = np.unique(counts, axis=0, return_counts=True)
    shares = rng.dirichlet([*times, *[PRIOR] * len(prior)], DRAWS)
    draws = _alphas(np.concatenate([seen, prior]), len(counts) * shares)
    low, high = np.quantile(draws, [TAIL, 1 - TAIL])
    return Estimate(value, min(float(low), value), max(float(high), value))


def _alphas(counts: Counts, weights: Floats) -> Floats:
    """Return (d,) alphas of rows of counts (n, k), each of which stands for weights[:, row] pairs; weights: (d, n)."""
    labels = counts.sum(1)
    totals, total = weights @ counts, weights @ labels
    # As in `krippendorff_alpha`: ordered pairs of unlike labels.
    observed = weights @ ((labels**2 - (counts**2).sum(1)) / (labels - 1))
    return 1 - observed * (total - 1) / (total**2 - (totals**2).sum(1))


def disputed(page: PageAnswers) -> list[str]:
    """Return the codes of the pairs on which people disagree, those that nobody has settled first."""
    codes = [code for code in page.answers if page.disputed(code)]
    return list(chain((c for c in codes if c not in page.settled), (c for c in codes if c in page.settled)))
