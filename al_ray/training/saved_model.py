"""Write and read a trained model's folder: weights and scorer.json."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from al_ray.core.errors import BadFile, WriteErrors
from al_ray.core.labels import Model
from al_ray.core.scorer import Scorer
from al_ray.storage.uri import StoragePath, Uri, put_folder

SCORER = "scorer.json"


class SavedWeights(Protocol):
    """What is saved as a model: a bi-encoder or a cross-encoder."""

    def digest(self) -> str:
        """Of everything that decides what it computes."""
        ...

    def save(self, folder: Path) -> None:
        """Into a folder that exists and is empty."""
        ...


def input_digest(values: Sequence[Any], *arrays: np.ndarray) -> str:
    """Return the SHA-256 digest of values, each as JSON, and of arrays' bytes: of everything that decides a model."""
    content = hashlib.sha256("".join(map(json.dumps, values)).encode())
    for array in arrays:
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def write_model(encoder: SavedWeights, scorer: Scorer, folder: StoragePath, made_from: str) -> Model:
    """Save weights and scorer beside the folder and rename, or put them, scorer last: what stands there is whole."""
    model = Model(str(folder), encoder.digest(), scorer)
    content = {
        **asdict(scorer),
        "boundary": scorer.boundary if scorer.weight else None,
        "digest": model.digest,
        "made_from": made_from,
    }
    if isinstance(folder, Uri):
        with WriteErrors(folder), tempfile.TemporaryDirectory(prefix="al_ray-") as local:
            encoder.save(Path(local))
            (Path(local) / SCORER).write_text(json.dumps(content, indent=2) + "\n")
            put_folder(Path(local), folder, SCORER)
        return model
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        with WriteErrors(folder):
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            encoder.save(aside)
            (aside / SCORER).write_text(json.dumps(content, indent=2) + "\n")
            if folder.exists():
                shutil.rmtree(folder)
            aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return model


def read_model(folder: StoragePath, made_from: str | None = None) -> Model | None:
    """The model that `write_model` saved; None when there is none, or it was made from something else."""
    if not (folder / SCORER).exists():
        return None
    try:
        content = json.loads((folder / SCORER).read_text(encoding="utf-8"))
        weight, bias, loss = (float(content[name]) for name in ("weight", "bias", "loss"))
        scorer = Scorer(weight, bias, loss, str(content["outcome"]))
        model, source = Model(str(folder), str(content["digest"]), scorer), content["made_from"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadFile(f"{folder / SCORER} cannot be read ({error!r}); restore it, or move {folder} away") from error
    return model if made_from is None or source == made_from else None
