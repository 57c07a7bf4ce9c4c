"""Fit w and b of a scorer to the labels of bands of score, and show how often pairs match by the fitted p.

The chance with which a pair was drawn depends on its cosine alone, so the labels are an unbiased sample of how often
pairs of a cosine match. So w and b of p = sigmoid(w * cosine + b) are fitted without the weights of the sampling,
which would be needed if the chances depended on anything else. With them a label of the rest, which stands for
thousands of times as many pairs as one of the first band, would decide: in simulations of 300 labels 53 to 73% of the
pairs matched to which such a fit gave p >= 0.99. Numbers and shares of matches are estimated with the weights, by band.

Pairs that were labelled before were not drawn by their cosine. In the fit each of them weighs as much as the share of
its band that was drawn and answered, so that what counts of a cosine still depends on nothing else. If the model was
trained on them, their scores say more of their labels than those of other pairs do: use BandAudit.without_known.

If the share of matches stops rising below 1, the fit has a ceiling (ceiling.py).
"""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Floats, Scorer, refit
from al_ray.metrics.audit.ceiling import with_ceiling
from al_ray.metrics.audit.score_bands import BandAudit
from al_ray.metrics.calibration import Bin

ENDS = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)


def refit_to_bands(audit: BandAudit, cosines: Floats) -> Scorer | None:
    """Fit w > 0, b and perhaps a ceiling to the labelled and the known pairs; (n,) cosines of the drawn pairs.

    None if the drawn labels are all yes or all no, or if matches do not become more frequent with the cosine.
    """
    # Labels of different cells represent different numbers of pairs, which are not known here.
    assert audit.model is None
    answered = np.isin(audit.labels, (NO, YES))
    if len(np.unique(audit.labels[answered])) < 2:
        return None
    weights = np.concatenate([np.ones(int(answered.sum())), _known_weights(audit)])
    x = np.concatenate([cosines[answered], audit.known_cosines])[weights > 0]
    labels = np.concatenate([audit.labels[answered], audit.known_labels])[weights > 0]
    scorer = refit(x, labels, weights=weights[weights > 0])
    if scorer.outcome == "fitted":
        scorer = with_ceiling(scorer, x, labels, weights[weights > 0])
    return scorer if scorer.weight > 0 else None


def _known_weights(audit: BandAudit) -> Floats:
    """Return for each known pair (k,) the share of its band's pairs that were drawn and labelled yes or no."""
    parts = [audit.part(band, band) for band in audit.bands]
    rates = np.array([part.answered / part.size for part in parts])
    ranks = np.searchsorted(-audit.cosines, -audit.known_cosines, side="left")
    band = np.searchsorted([stop for _, stop in audit.bands], ranks, side="right")
    return rates[np.minimum(band, len(rates) - 1)]


def reliability_bins(audit: BandAudit, scorer: Scorer, cosines: Floats, rng: np.random.Generator) -> list[Bin]:
    """Return the reliability table of a scorer with w > 0: ranked pairs by p, then all others in one bin.

    cosines: (n,) of the drawn pairs. share: estimated from the labels, with its 95% interval; the pairs and their mean
    p are exact, but for the mean p of the others, which is that of those drawn. Known pairs are in the bin of their p.
    A bin without a label in some band is left out.
    """
    floor = 0.0 if audit.total == audit.reach else float(scorer.probability(np.array(audit.floor)))
    ranked_p, known_p = scorer.probability(audit.cosines), scorer.probability(audit.known_cosines)
    matches, bins = audit.known_labels == YES, list[Bin]()
    for low, high in pairwise(ENDS):
        # Descending p: the ranks of a bin are those between the counts above both ends.
        start = 0 if high == 1 else int((ranked_p >= high).sum())
        stop = int((ranked_p >= low).sum())
        known = (known_p >= max(low, floor)) & ((known_p < high) | (high == 1))
        p = np.concatenate([ranked_p[start:stop], known_p[known]])
        share = audit.share_between(start, stop, rng, matches[known]) if len(p) else None
        if share is not None:
            bins.append(Bin(max(low, floor), high, float(len(p)), float(p.mean()), share.value, share.low, share.high))
    known = known_p < floor
    others, size = cosines[(audit.ranks >= audit.reach) & ~np.isnan(cosines)], audit.total - audit.reach
    share = audit.share_between(audit.reach, audit.total, rng, matches[known]) if len(others) else None
    if share is not None:
        number = size + int(known.sum())
        mean = (size * float(scorer.probability(others).mean()) + float(known_p[known].sum())) / number
        bins.insert(0, Bin(0.0, floor, float(number), mean, share.value, share.low, share.high))
    return bins


def recalibration(audit: BandAudit, source: str, split: str, scorer: Scorer, bins: Sequence[Bin]) -> dict[str, Any]:
    """Return the calibrated scorer and its evidence, as scorer.json holds them; source: of the labels."""
    labels = np.concatenate([audit.labels[np.isin(audit.labels, (NO, YES))], audit.known_labels])
    return {
        "source": source,
        "split": split,
        "pairs": audit.total + len(audit.known_labels),
        "labels": len(labels),
        "matches": int((labels == YES).sum()),
        "weight": scorer.weight,
        "bias": scorer.bias,
        **({"ceiling": scorer.ceiling} if scorer.ceiling < 1 else {}),
        "boundary": scorer.boundary if isfinite(scorer.boundary) else None,
        "outcome": scorer.outcome,
        "reliability": [row.as_dict() for row in bins],
    }
