"""The folder of an export.

export.json              format, model, and how its vectors are made; the command replaces a folder only if it has this
scorer.json              w and b of the scorer, a of the neighbourhood score, thresholds, calibration
README.md                the model card
model.onnx               format onnx: the graph, from token ids to vectors (model.onnx.data: weights beyond 1 GiB)
tokenizer.json           format onnx: the tokenizer, with truncation and padding
model-int8.onnx          int8: the same graph with int8 weights
model.safetensors, ...   format sentence-transformers: the model folder
matcher.safetensors      of a run with a matcher: the matcher; and what comparisons need: fields and frequencies, in
records.safetensors
matcher.py               the same: p from comparisons by numpy
matcher.onnx             the same with format onnx
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from al_ray.core.errors import BadOption, WrongFolder
from al_ray.core.naming import option
from al_ray.storage.files import check_fields, file_in, read_json
from al_ray.storage.uri import StoragePath

RECORD, CARD, GRAPH, INT8 = "export.json", "README.md", "model.onnx", "model-int8.onnx"
FOREST_GRAPH, NUMPY_CODE = "matcher.onnx", "matcher.py"
NEEDED = ("format", "digest", "made_from")


def local_folder(out: StoragePath) -> Path:
    """Return the folder of an export, without symbolic links; BadOption for an object store."""
    if not isinstance(out, Path):
        raise BadOption(f"{option('out', out)} is on an object store; give a local folder, and copy it there")
    # Replacing the link would leave its target as it was.
    return out.resolve() if out.is_symlink() else out


def read_export(out: Path, digest: str, kind: str) -> dict[str, Any] | None:
    """Return export.json of an earlier export of the same model and format, None if the folder is empty or absent.

    WrongFolder if the folder holds something else, or something beside the export.
    """
    if not (out / RECORD).exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise WrongFolder(f"{out} is there and is no export (it has no {RECORD}); choose another `out`")
        return None
    record = read_json(out / RECORD, NEEDED)
    if record["digest"] != digest:
        raise WrongFolder(f"{out} holds an export of another model; choose another `out`")
    if record["format"] != kind:
        raise WrongFolder(f"{out} holds an export with {option('format', record['format'])}; choose another `out`")
    if "files" not in record:
        # Of an earlier version.
        return record
    fix = f"move {out} away, and export again"
    check_fields(out / RECORD, record, {"files": list}, fix)
    own = {file_in(out, name, out / RECORD, fix) for name in record["files"]}
    others = sorted(path.name for path in out.iterdir() if path not in own)
    if others:
        raise WrongFolder(
            f"{out} is an export, with {', '.join(others)} beside it; move that away, or choose another `out`"
        )
    return record


def is_whole(out: Path, record: Mapping[str, Any]) -> bool:
    """Return whether an export has all its files; False for one of an earlier version, which does not list them."""
    return "files" in record and all((out / name).exists() for name in record["files"])
