"""Dev pairs of a run: their labels and estimates in its folder; where they are drawn is passed in."""

import logging
from collections.abc import Callable

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.ports import Oracle
from al_ray.core.labels import Model
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.runs.dev_labels import format_estimate
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import RunFolder

logger = logging.getLogger(__name__)

DrawPairs = Callable[[int, Model], tuple[DrawnPairs, BandScores]]
"""Draws the dev pairs for the model of a round, from a pool (cluster/score_sample.py)."""


class FolderDevSampler:
    """The DevSampler of the loop, on the folder of a run."""

    def __init__(self, config: RunConfig, journal: RunFolder, oracle: Oracle, draw: DrawPairs | None = None) -> None:
        """oracle: labels pairs of dev. draw: None while nothing is to be drawn."""
        self.config, self.journal, self.labels, self.oracle = config, journal, journal.dev_labels, oracle
        self.draw_pairs = draw

    @property
    def ledger(self) -> Ledger:
        """The drawn pairs and their labels."""
        return self.labels.ledger

    def draw(self, number: int, model: Model) -> None:
        """Draw pairs by the score of the model of a round, and store them."""
        assert self.draw_pairs is not None
        self.labels.add(number, *self.draw_pairs(number, model))

    def estimate(self) -> None:
        """Write the estimates that are missing, and log them."""
        for figures in self.labels.estimate_missing(self.journal.model, self.config.seed):
            logger.info("%s", format_estimate(figures))
