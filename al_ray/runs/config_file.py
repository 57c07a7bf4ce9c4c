"""Read config.json of a run folder, and distinguish it from config.json of other folders."""

from typing import Any

from al_ray.core.errors import WrongFolder
from al_ray.storage.files import check_fields, read_json
from al_ray.storage.uri import StoragePath

# A field that no run has -> what the folder holds.
OTHERS = {
    "labels_digest": "a cross-encoder (`al_ray.train_cross_encoder`)",
    "gold_digest": "an augmentation (`al-ray augment`)",
    "smoothing": "a model of `al-ray paraphrase`",
    "model_type": "a model, and not the run that trained it",
}


def read_config_file(run: StoragePath) -> dict[str, Any]:
    """Return the content of config.json of a run folder; WrongFolder for a folder of another kind."""
    path = run / "config.json"
    content = read_json(path)
    for name, kind in OTHERS.items():
        if isinstance(content, dict) and name in content:
            raise WrongFolder(f"{run} holds {kind}; give the folder of a run")
    check_fields(path, content, ["task_digest"], "restore it, or start again in another `out`")
    return content
