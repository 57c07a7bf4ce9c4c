"""The encoder of a model that answers requests."""

from al_ray.apps.matching.model import MatchingModel
from al_ray.encoders.encoder import TextEncoder, load, saved


def load_encoder(model: MatchingModel, symmetric: bool, device: str) -> TextEncoder:
    """Load the encoder of a model. symmetric: whether there is one set of texts, which have the prompt of left ones."""
    if model.run is None and model.model.path:
        encoder = saved(model.model.path, model.config.encoding, device)
    else:
        encoder = load(model.model, model.config.encoding, model.path, device)
    if symmetric:
        encoder.use_left_prompt()
    return encoder
