"""The thresholds at which an audit by score measures precision and recall."""

from collections.abc import Iterator, Sequence
from math import isfinite

import numpy as np

from al_ray.apps.audit.folder import Record
from al_ray.core.errors import BadOption
from al_ray.core.scorer import Scorer, ceiling_words
from al_ray.metrics.audit.score_bands import BandAudit


def measured_at(
    at_cosine: Sequence[float], at_p: Sequence[float], record: Record, bands: BandAudit, calibrated: Scorer | None
) -> Iterator[float]:
    """Yield the cosines to measure at: those given, or else the ends of bands and the model's boundary.

    at_p: probabilities of the scorer that was fitted to drawn pairs (calibrated), or, if there is none, scores of the
    trained model; with a matcher its p. BadOption for thresholds that the ranked pairs do not reach.
    """
    scorer = record.scorer
    if at_cosine and scorer is not None and scorer.matcher:
        raise BadOption("`at_cosine`: the scores of this audit are p of a matcher (docs/matcher.md); give `at_p`")
    for cosine in at_cosine:
        if not isfinite(cosine):
            raise BadOption(f"`at_cosine` is {cosine}; give cosines, as an estimate without this option prints them")
        bands.check_ranked(cosine)
        yield cosine
    if at_p and (scorer is None or not (calibrated or scorer).weight):
        raise BadOption("`at_p`: this model gives no score that rises with the cosine; give `at_cosine`")
    for p in at_p:
        if not 0 < p < 1:
            raise BadOption(f"`at_p` is {p}; give scores between 0 and 1")
        assert scorer is not None
        of_p = calibrated or scorer
        if p >= of_p.ceiling:
            raise BadOption(f"`at_p` is {p:g}, and {ceiling_words(of_p.ceiling)}; give a lower one")
        cosine = of_p.score_at(p)
        if not bands.reaches(cosine):
            lowest, highest = (float(of_p.probability(np.array(end))) for end in (bands.floor, bands.cosines[0]))
            raise BadOption(
                f"`at_p` is {p:g}, and the {bands.reach:,} ranked pairs reach from p = {highest:.3g} down to "
                f"{lowest:.3g}: pairs below are not ranked; give a p above that, or draw another audit with a larger "
                "`top` and another `out`"
            )
        yield cosine
    if not at_cosine and not at_p:
        yield from bands.edges
        if scorer is not None and isfinite(scorer.boundary):
            yield scorer.boundary
