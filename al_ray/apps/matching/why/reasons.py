"""What each comparison adds to the p of matches, from the features that the shards have."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from al_ray.apps.matching.model import MatchingModel
from al_ray.cluster.candidates.sharded_candidates import ShardedCandidates
from al_ray.core.errors import BadOption
from al_ray.core.pairs import Mask, Pairs, Rows
from al_ray.core.scorer import Floats
from al_ray.core.task import Split
from al_ray.matcher.explanation import Explanation, explain
from al_ray.matcher.model import Features, Model
from al_ray.matcher.model_file import read_model
from al_ray.storage.uri import storage_path

PAIRS = 2**16  # Pairs whose features the shards send at a time.


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


def refuse_why(why: bool, model: MatchingModel) -> None:
    """Raise BadOption for --why of a model without a matcher."""
    if why and model.model.matcher is None:
        raise BadOption(
            f"--why says what each comparison of a matcher adds to p, and {model.path} has no matcher: its score is "
            "one cosine; leave out --why, or give a run that was made by jobs.run --matcher on"
        )


def reasons_of(
    candidates: ShardedCandidates, split: Split, model: MatchingModel, pairs: Pairs, scores: Floats
) -> Reasons:
    """(n, 2) matches of a split with the scores (n,) that users see -> why they have them.

    candidates: those of the split are prepared. A score below 0 is of no candidate (core/two_stage_score.py).
    """
    assert model.model.matcher is not None
    matcher = read_model(storage_path(model.model.matcher.path), candidates.names)
    parts = [candidates.features_of(split, pairs[start : start + PAIRS]) for start in range(0, len(pairs), PAIRS)]
    features = np.concatenate([np.empty((0, len(candidates.names)), dtype=np.float32), *parts])
    return Reasons(matcher, features, scores >= 0)
