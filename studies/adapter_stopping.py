"""What could end a run early, round by round: its gain in AP with an interval, and how alike two models call pairs.

Agreement is Cohen's kappa on pairs without a label, as Bloodgood and Vijay-Shanker (2009) stop by it.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from al_ray.core.candidates import HIGHEST
from al_ray.core.labels import Model, State
from al_ray.core.pairs import NO_KEYS, Pairs
from al_ray.core.task import Split
from al_ray.metrics.bootstrap import Replicates
from al_ray.metrics.evaluation import Evaluation
from studies.adapter_services import UNTRAINED, AdapterModels, ExactSearch, neighbourhood_of

PAIRS = 5_000
"""Pairs on which models are compared: the nearest of the measured split under the untrained encoder."""
SIGNS = ("gain", "gain_low", "gain_high", "kappa")
Calls = npt.NDArray[np.bool_]


@dataclass
class StopSigns:
    """Compares each round with the one before. measured: the split whose pairs are called and on which AP is known."""

    models: AdapterModels
    measured: Split
    _average_precision: Replicates | None = None
    _calls: Calls | None = None
    _pairs: Pairs | None = field(default=None, repr=False)

    def of(self, state: State, evaluation: Evaluation) -> dict[str, str]:
        """Return the columns SIGNS of a round, empty in a round without one before, or without a model."""
        now = evaluation.over_queries
        row: dict[str, str] = dict.fromkeys(SIGNS, "")
        if now is not None and self._average_precision is not None:
            interval = (now - self._average_precision).interval
            assert interval is not None, "there are positives"
            ends = (interval.value, interval.low, interval.high)
            row |= {name: f"{end:.6f}" for name, end in zip(SIGNS, ends, strict=False)}
        self._average_precision = now
        calls = None if state.model is None else self._call(state.model)
        if calls is not None and self._calls is not None:
            row["kappa"] = f"{kappa(self._calls, calls):.6f}"
        self._calls = calls
        return row

    def _call(self, model: Model) -> Calls:
        """Return which pairs a model calls matches."""
        if self._pairs is None:
            search = ExactSearch(self.models, self.measured)
            nearest = search.least(UNTRAINED, HIGHEST, PAIRS, NO_KEYS)
            self._pairs = self.measured.space.pairs(nearest.keys)
        assert model.scorer is not None
        return self.models.scores(model, self.measured, neighbourhood_of(model), self._pairs) >= model.scorer.boundary


def kappa(one: Calls, other: Calls) -> float:
    """Cohen's kappa of two calls (n,) of the same pairs: 1 if they are alike, 0 if as alike as by chance."""
    alike, shares = float((one == other).mean()), (float(one.mean()), float(other.mean()))
    chance = shares[0] * shares[1] + (1 - shares[0]) * (1 - shares[1])
    return 1.0 if chance == 1 else (alike - chance) / (1 - chance)
