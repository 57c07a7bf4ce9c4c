"""Precision and recall of an audit by score if labels are wrong as often as two people disagree.

Both are taken to err independently, and as often on matches as on other pairs: with a share e of wrong answers they
differ on 2 e (1 - e) of the pairs. If a share q of labels is yes, then (q - e) / (1 - 2 e) of the pairs match (Rogan
and Gladen, American Journal of Epidemiology 107, 1978). Intervals take quantiles over joint draws of e and q from exact
limits of a share, as in false_positives.py; each end is the wider one of those with both limits of e, which moves some
parts up and others down. Wrong labels vary even where every pair of a band is labelled, so q is that of an infinite
population.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from al_ray.core.scorer import Floats
from al_ray.metrics.audit.false_positives import OPPOSITE, End, estimate, possible_share
from al_ray.metrics.audit.score_bands import AnyPart, BandAudit
from al_ray.metrics.average_precision import Estimate

ENDS: tuple[End, End] = ("low", "high")
MOST_APART = 0.48
"""Share of pairs on which people differ, above which their answers carry almost no information (at 1/2, none)."""


@dataclass(frozen=True)
class TwoAnswers:
    """Of `pairs` that two people answered with yes or no, both gave `alike` the same answer.

    labels: how many labels the audit has, those that two people gave alike included.
    """

    pairs: int
    alike: int
    labels: int

    def wrong(self, differing: Floats) -> Floats:
        """Return (n,) shares of wrong labels where people differ on such shares (n,) of the pairs.

        A label that two people gave alike is wrong only if both are.
        """
        apart = np.minimum(differing, MOST_APART)
        error = (1 - np.sqrt(1 - 2 * apart)) / 2
        both = self.alike / self.labels
        return (1 - both) * error + both * error**2 / (1 - apart)

    @property
    def rate(self) -> Floats:
        """Return the share of wrong labels as an array of one."""
        return self.wrong(np.array([1 - self.alike / self.pairs]))

    def draws(self, end: End, rng: np.random.Generator) -> Floats:
        """Draw shares of wrong labels from an exact limit of the share of pairs on which people differ."""
        return self.wrong(possible_share(self.pairs - self.alike, self.pairs, end, rng))


@dataclass(frozen=True)
class WithErrors:
    """Precision, recall over all pairs, and that among the ranked and known ones; None as in `AtThreshold`."""

    precision: Estimate | None
    recall: Estimate | None
    recall_of_reach: Estimate | None


def with_errors(audit: BandAudit, threshold: float, answers: TwoAnswers, rng: np.random.Generator) -> WithErrors:
    """Estimate at a threshold, corrected for wrong labels; labels known before count as they are."""
    # Labels of different cells represent different numbers of pairs, which are not known here.
    assert audit.model is None
    cut = audit.rank_of(threshold)
    above, below = audit.parts(0, cut), audit.parts(cut, audit.total)
    near = below[:-1] if audit.total > audit.reach else below
    known, pairs = audit.known_matches(threshold), audit.pairs_at(threshold)
    return WithErrors(
        _ratio(above, None, (known[0], pairs), answers, rng) if pairs else None,
        _ratio(above, below, known, answers, rng),
        _ratio(above, near, known, answers, rng),
    )


def _ratio(
    above: Sequence[AnyPart],
    below: Sequence[AnyPart] | None,
    known: tuple[int, int],
    answers: TwoAnswers,
    rng: np.random.Generator,
) -> Estimate | None:
    """Estimate matches above over matches above and below; if `below` is None, over known[1] pairs."""
    if any(np.isnan(part.share) for part in [*above, *(below or [])]):
        return None

    def ratio(upper: Floats, lower: Floats | None, nothing: float) -> Floats:
        every = np.full_like(upper, known[1]) if lower is None else upper + lower
        return np.where(every > 0, upper / np.where(every > 0, every, 1.0), nothing)

    def matches(parts: Sequence[AnyPart], wrong: Floats, own: int, end: End | None) -> Floats:
        shares = (
            np.full_like(wrong, part.share) if end is None else possible_share(part.matches, part.answered, end, rng)
            for part in parts
        )
        true = (np.clip((share - wrong) / (1 - 2 * wrong), 0, 1) for share in shares)
        return own + sum((part.size * one for part, one in zip(parts, true, strict=True)), np.zeros(len(wrong)))

    def with_share(wrong: Floats, end: End | None) -> Floats:
        upper = matches(above, wrong, known[0], end)
        lower = None if below is None else matches(below, wrong, known[1], None if end is None else OPPOSITE[end])
        return ratio(upper, lower, float(end == "high"))

    def figure(end: End) -> Floats:
        few, many = (np.sort(with_share(answers.draws(of, rng), end)) for of in ENDS)
        return np.minimum(few, many) if end == "low" else np.maximum(few, many)

    return estimate(float(with_share(answers.rate, None)[0]), figure)
