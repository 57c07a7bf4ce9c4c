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
from al_ray.metrics.agreement import Agreement, Counts, cohen_kappa, estimate_alpha, fleiss_kappa, tabulate
from al_ray.metrics.average_precision import Estimate
from al_ray.oracles.page_log import PageAnswer, PageAnswers


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
    found = estimate_alpha(counts, generator(seed, "page-alpha"))
    return SheetAgreement(len(shared), share, fleiss_kappa(first_two), found, len(second), second.count(YES))


def _first_two(of: Mapping[str, PageAnswer]) -> list[PageAnswer]:
    return sorted(of.values(), key=lambda answer: answer.first)[:2]


def label_counts(pairs: Iterable[Mapping[str, PageAnswer]]) -> Counts:
    """Return (n, 3) counts: how many people gave pair i the label j."""
    return np.array([np.bincount([one.label for one in of.values()], minlength=OPEN) for of in pairs], dtype=np.int64)


def disputed(page: PageAnswers) -> list[str]:
    """Return the codes of the pairs on which people disagree, those that nobody has settled first."""
    codes = [code for code in page.answers if page.disputed(code)]
    return list(chain((c for c in codes if c not in page.settled), (c for c in codes if c in page.settled)))
