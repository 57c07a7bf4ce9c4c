"""model.json in the folder of the known texts: the model that answers, by the path of its run and the round."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from al_ray.apps.matching.model import MatchingModel, open_model
from al_ray.apps.serving.text_lines import FIX
from al_ray.core.errors import BadFile
from al_ray.metrics.handover import Choice
from al_ray.storage.files import read_json
from al_ray.storage.uri import storage_path

MODEL = "model.json"


@dataclass(frozen=True)
class ModelName:
    """A model: the path of its run and the round, or of a copy of a model, without a round; and why it was chosen.

    choice: as Choice.as_dict gives it; None for a copy, and in the store of an earlier version.
    """

    path: str
    round: int | None
    choice: Mapping[str, Any] | None = None

    @staticmethod
    def of(model: MatchingModel) -> "ModelName":
        """Return the name of a model, by which it is opened again, also when the run has more rounds."""
        # Where a link leads to now: later it may lead to another run.
        choice = None if model.choice is None else model.choice.as_dict()
        return ModelName(str(model.path.resolve()), model.round, choice)

    def open(self) -> MatchingModel:
        """Open the model; BadOption or BadFile if it cannot match."""
        model = open_model(storage_path(self.path), self.round)
        return model if self.choice is None else replace(model, choice=Choice.of_dict(self.choice))


def read_model_name(folder: Path) -> ModelName:
    """Return the model that a store names."""
    content = read_json(folder / MODEL, {"path": str, "round": int | None}, FIX)
    choice = content.get("choice")
    try:
        # Of an earlier version there is none.
        choice = None if choice is None else Choice.of_dict(choice).as_dict()
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{folder / MODEL}: its choice cannot be read ({error!r}); {FIX}") from error
    return ModelName(content["path"], content["round"], choice)
