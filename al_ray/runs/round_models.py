"""Read the model of a round from its record.json."""

from collections.abc import Mapping
from typing import Any

from al_ray.core.errors import BadFile
from al_ray.core.labels import MATCHER, REFERENCE, Model, SavedMatcher, SavedReference
from al_ray.core.scorer import Scorer
from al_ray.storage.files import read_json, trained_encoder
from al_ray.storage.uri import StoragePath, storage_path

# Fields of the model in record.json, with their types.
MODEL = {**dict.fromkeys(("weight", "bias", "loss"), (int, float)), **dict.fromkeys(("outcome", "digest"), str)}


def model_content(model: Model) -> dict[str, Any]:
    """Return what record.json has of a model: its digest, its scorer, and the digests of what a matcher needs.

    encoder_round: the round that trained the encoder of a matcher, if one did.
    """
    assert model.scorer is not None
    content: dict[str, Any] = {"digest": model.digest, **model.scorer.as_dict()}
    if model.matcher is not None:
        content["encoder_digest"] = model.matcher.encoder
        if model.path:
            content["encoder_round"] = model.encoder_round
        saved = model.matcher.reference
        return content if saved is None else {**content, "reference_digest": saved.digest}
    # As earlier versions wrote it.
    return {name: value for name, value in content.items() if name != "matcher" and (value or name != "both_sides")}


def scorer_of(content: Mapping[str, Any]) -> Scorer:
    """Return the scorer of what record.json has of a model; KeyError or TypeError if it is none."""
    fields = {name: content[name] for name in Scorer.__dataclass_fields__ if name in content}
    return Scorer(**{"weight": content["weight"], "bias": content["bias"], **fields})


def read_model_of(folder: StoragePath) -> Model:
    """Return the model of the folder of a complete round."""
    path = folder / "record.json"
    model = read_json(path, ["model"])["model"]
    if not isinstance(model, dict) or not all(isinstance(model.get(name), MODEL[name]) for name in MODEL):
        raise BadFile(f"{path} does not describe the model of the round; restore it")
    # An absolute path, because an actor may have another working directory.
    weights = (folder / "model").resolve()
    scorer = scorer_of(model)
    if not scorer.matcher:
        return Model(str(weights), model["digest"], scorer)
    encoder = trained_encoder(weights, model, path)
    # Earlier versions kept no frequencies.
    known = model.get("reference_digest")
    reference = None if known is None else SavedReference(str(weights / REFERENCE), str(known))
    matcher = SavedMatcher(str(weights / MATCHER), str(model.get("encoder_digest")), reference)
    return Model("" if encoder is None else str(encoder), model["digest"], scorer, matcher)


def weight_folders(folder: StoragePath) -> list[StoragePath]:
    """Return where a complete round has weights: its model folder, and that of the encoder of its matcher."""
    encoder = read_model_of(folder).path
    return [folder / "model", *([storage_path(encoder)] if encoder else [])]
