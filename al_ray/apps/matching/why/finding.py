"""Find why matches have their p: the features that the shards have of them, and the matcher of the model."""

from collections.abc import Iterator

import numpy as np

from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.matching.why.reasons import Reasons
from al_ray.cluster.candidates.sharded_candidates import ShardedCandidates
from al_ray.core.errors import BadOption
from al_ray.core.pairs import Pairs
from al_ray.core.scorer import Floats
from al_ray.core.task import Split
from al_ray.matcher.model_file import read_model
from al_ray.storage.uri import storage_path

PAIRS = 2**16  # Pairs whose features the shards send at a time.


def check_why(why: bool, model: MatchingModel) -> None:
    """Raise BadOption for `why` of a model without a matcher."""
    if not why or model.model.matcher is not None:
        return
    of, fix = str(model.path), "a run that was made with `RunConfig.matcher='on'`"
    others = ", ".join(map(str, _rounds_with_matcher(model)))
    if others:
        of = f"round {model.round} of {of}{'' if model.round else ', the untrained encoder,'}"
        fix = f"`round` with one of those that have a matcher: {others}"
    raise BadOption(
        f"`why` says what each comparison of a matcher adds to p, and {of} has no matcher: its score is one cosine; "
        f"leave out `why`, or give {fix}"
    )


def _rounds_with_matcher(model: MatchingModel) -> Iterator[int]:
    """Yield the complete rounds of the model's run that have a matcher; none for a model that lies in no run."""
    if model.run is not None:
        for number in range(1, model.run.last + 1):
            if model.run.model(number).matcher is not None:
                yield number


def reasons_of(
    candidates: ShardedCandidates, split: Split, model: MatchingModel, pairs: Pairs, scores: Floats
) -> Reasons:
    """(n, 2) matches of a split with the scores (n,) that users see -> why they have them.

    candidates: those of the split are prepared. The score of a pair that is no candidate is 0 (match_texts).
    """
    assert model.model.matcher is not None
    matcher = read_model(storage_path(model.model.matcher.path), candidates.names)
    parts = [candidates.features_of(split, pairs[start : start + PAIRS]) for start in range(0, len(pairs), PAIRS)]
    features = np.concatenate([np.empty((0, len(candidates.names)), dtype=np.float32), *parts])
    return Reasons(matcher, features, scores > 0)
