"""The model without labels: the untrained encoder of a run, whose score is the cosine."""

from typing import Any

from al_ray.core.config.encoder import EncoderConfig, family_of
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.scorer import Scorer
from al_ray.encoders.encoder import untrained
from al_ray.storage.uri import StoragePath
from al_ray.training.saved_model import scorer_fields

OUTCOME = "untrained"
UNTRAINED = Scorer(weight=1.0, bias=-2.0, loss=0.0, outcome=OUTCOME)
"""Fitted to no label: p rises with the cosine, is below 1/2 at every cosine, and is no probability."""


def untrained_model(run: StoragePath, encoding: EncoderConfig, digest: str | None) -> Model:
    """Return the model without labels of a run; it has no folder.

    digest: of the weights that the run measured, which the encoder must still have when it is loaded; None if the run
    did not record it. BadOption for an encoder whose weights are random before they are trained.
    """
    if not family_of(encoding.encoder).pretrained:
        raise BadOption(
            f"{run} has the encoder {encoding.encoder}, whose weights are random before training, so that round 0 is "
            "no model; give another round"
        )
    return Model("", digest or untrained(encoding, run).digest(), UNTRAINED)


def is_untrained(model: Model) -> bool:
    """Return whether a model is one that `untrained_model` makes."""
    return model.scorer is not None and model.scorer.outcome == OUTCOME


def untrained_scorer(model: Model) -> dict[str, Any]:
    """Return what scorer.json has of the model without labels, for an export."""
    return {**scorer_fields(UNTRAINED), "digest": model.digest, "made_from": OUTCOME}
