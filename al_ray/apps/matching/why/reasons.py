"""What each comparison adds to the p of matches."""

from dataclasses import dataclass
from typing import Any

from al_ray.core.pairs import Mask, Rows
from al_ray.matcher.explanation import Explanation, explain
from al_ray.matcher.model import Features, Model


@dataclass(frozen=True)
class Reasons:
    """Why the matches of a folder have their p.

    model: the matcher. features: (n, F) of the matches. known: (n,) whether the matcher decided about the match; labels
    and rules also match pairs that are no candidates, which have no p.
    """

    model: Model
    features: Features
    known: Mask

    @property
    def base(self) -> float:
        """Return p of a pair of which no comparison is known; p of each match is this and what the comparisons add."""
        return self.model.contributions(self.features[:0]).base

    @property
    def record(self) -> dict[str, Any]:
        """Return what match.json says of it."""
        return {"base": self.base, "explained": int(self.known.sum())}

    def at(self, places: Rows) -> list[Explanation | None]:
        """(k,) places of matches -> why each has its p; None for a match without p."""
        found = iter(explain(self.model, self.features[places[self.known[places]]]))
        return [next(found) if known else None for known in self.known[places].tolist()]
