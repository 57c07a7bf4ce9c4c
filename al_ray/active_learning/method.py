"""The name of a labelling method in tables and legends."""

from collections.abc import Sequence
from dataclasses import dataclass

from al_ray.active_learning.strategies import STRATEGIES


@dataclass(frozen=True)
class Method:
    """How a run chose its pairs. once: it labelled the whole budget before its only training."""

    strategy: str
    seeding: str = "retrieval"
    once: bool = False

    @property
    def rank(self) -> tuple[int, str, str, bool]:
        """Sort key of tables and legends."""
        return STRATEGIES[self.strategy].rank, self.strategy, self.seeding, self.once

    def words(self, others: Sequence["Method"] = ()) -> str:
        """Return the name with its marks: (oracle) if it knows all positives, (stated seed), (trained once).

        others: the methods beside it; (trained once) is shown only where one of them differs in that alone.
        """
        both = any((one.strategy, one.seeding) == (self.strategy, self.seeding) and one != self for one in others)
        seeded = " (stated seed)" if self.seeding == "stated" else ""
        oracle = " (oracle)" if STRATEGIES[self.strategy].knows_positives else ""
        return self.strategy + oracle + seeded + (" (trained once)" if self.once and both else "")
