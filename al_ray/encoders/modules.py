"""The modules that follow the transformer in a sentence-transformers folder: pooling, Dense and Normalize.

`modules.json` names the modules in their order. A folder without it is mean-pooled, as sentence-transformers does. A
module or a setting that would give other vectors here than in sentence-transformers is refused by its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast, get_args

import torch
from huggingface_hub import try_to_load_from_cache
from safetensors.torch import load_file, save_file
from transformers.utils.hub import cached_file

from al_ray.core.errors import BadFile, BadOption
from al_ray.storage.files import read_json, write_json

PoolingMode = Literal["mean", "cls", "lasttoken"]
MODES: tuple[str, ...] = get_args(PoolingMode)
# Folders of older versions of sentence-transformers have a field for each mode.
LEGACY = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS: dict[str, type[torch.nn.Module]] = {
    kind.__name__: kind
    for kind in (
        *(torch.nn.Identity, torch.nn.Tanh, torch.nn.ReLU, torch.nn.GELU, torch.nn.SiLU, torch.nn.Sigmoid),
        *(torch.nn.ELU, torch.nn.LeakyReLU, torch.nn.Mish, torch.nn.Softplus),
    )
}
SUPPORTED = "al_ray supports Transformer, Pooling (mean, cls or lasttoken), Dense and Normalize, in this order"
# Settings of the transformer that change its input or output, with the values that change nothing.
TRANSFORMER_SETTINGS = {
    "transformer_task": (None, "feature-extraction"),
    "module_output_name": (None, "token_embeddings"),
    "method_output_name": (None, "last_hidden_state"),
    **dict.fromkeys(
        ("processing_kwargs", "tokenizer_args", "processor_kwargs", "query_length", "document_length"), (None, {})
    ),
    "query_expansion": (None, False),
}
KIND = "sentence_transformers.models."


@dataclass(frozen=True)
class Pooling:
    """How the vectors of a text's tokens become one vector: their mean, or that of the first or the last token.

    include_prompt: whether the tokens of the prompt count, too.
    """

    mode: PoolingMode = "mean"
    include_prompt: bool = True

    def __call__(self, hidden: torch.Tensor, mask: torch.Tensor, prompt: int) -> torch.Tensor:
        """(r, l, d) vectors of tokens, (r, l) mask of the tokens, padded on the right -> (r, d).

        prompt: number of first tokens of every text that are the prompt's. A text without other tokens is the zero
        vector, or for `cls` its first token, as in sentence-transformers.
        """
        hidden = hidden.float()
        if prompt and not self.include_prompt:
            mask = mask & (torch.arange(mask.shape[1], device=mask.device) >= prompt)
        if self.mode == "mean":
            weights = mask[..., None].to(torch.float32)
            return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
        rows, positions = torch.arange(len(mask), device=mask.device), torch.arange(mask.shape[1], device=mask.device)
        if self.mode == "cls":
            return hidden[rows, mask.int().argmax(dim=1)]
        return hidden[rows, (mask * positions).argmax(dim=1)] * mask.any(dim=1, keepdim=True)


class Dense(torch.nn.Module):
    """A linear layer and its activation."""

    def __init__(self, inputs: int, outputs: int, bias: bool, activation: str) -> None:
        """activation: one of ACTIVATIONS."""
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs, bias=bias)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """(r, inputs) -> (r, outputs)."""
        return self.activation(self.linear(vectors))

    @property
    def config(self) -> dict[str, Any]:
        """Return the content of its config.json in a folder of sentence-transformers."""
        kind = type(self.activation)
        return {
            "in_features": self.linear.in_features,
            "out_features": self.linear.out_features,
            "bias": "bias" in self.linear.state_dict(),
            "activation_function": f"{kind.__module__}.{kind.__qualname__}",
        }


class Normalize(torch.nn.Module):
    """Division by the length, before a Dense layer; after the last one every encoder divides."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """(r, d) -> (r, d) unit vectors."""
        return torch.nn.functional.normalize(vectors)


@dataclass(frozen=True)
class Modules:
    """The modules of a folder. transformer: its subfolder, or "". lowercase: whether texts are lower-cased first.

    layers: Dense and Normalize after the pooling, without a last Normalize.
    """

    transformer: str = ""
    lowercase: bool = False
    pooling: Pooling = Pooling()
    layers: torch.nn.Sequential = field(default_factory=torch.nn.Sequential)

    def dimension(self, hidden: int) -> int:
        """Return the dimension of a vector for a transformer of that width."""
        dense = [layer for layer in self.layers if isinstance(layer, Dense)]
        return dense[-1].linear.out_features if dense else hidden

    @property
    def description(self) -> str:
        """Return a phrase for people: `cls pooling, Dense 384 to 256 (Tanh)`."""
        pooling = f"{self.pooling.mode} pooling" + ("" if self.pooling.include_prompt else " without the prompt")
        dense = (layer for layer in self.layers if isinstance(layer, Dense))
        layers = (
            f"Dense {one.linear.in_features} to {one.linear.out_features} ({type(one.activation).__name__})"
            for one in dense
        )
        return ", ".join([pooling, *layers])

    @property
    def digested(self) -> dict[str, Any]:
        """Return what decides vectors besides weights, less what is the default: digests name files on disk."""
        pooling = {"pooling": self.pooling.mode} if self.pooling.mode != "mean" else {}
        prompt = {} if self.pooling.include_prompt else {"include_prompt": False}
        layers = [layer.config if isinstance(layer, Dense) else "Normalize" for layer in self.layers]
        return {**pooling, **prompt, **({"layers": layers} if layers else {})}

    def write(self, folder: Path, hidden: int) -> None:
        """Write modules.json and the folders of the modules into a folder. hidden: width of the transformer."""
        excluded = {} if self.pooling.include_prompt else {"include_prompt": False}
        parts: list[tuple[str, dict[str, Any]]] = [
            ("Pooling", {"embedding_dimension": hidden, "pooling_mode": self.pooling.mode, **excluded}),
            *((type(one).__name__, one.config if isinstance(one, Dense) else {}) for one in self.layers),
            ("Normalize", {}),
        ]
        listed = [{"idx": 0, "name": "0", "path": "", "type": f"{KIND}Transformer"}]
        for number, (kind, config) in enumerate(parts, start=1):
            path = folder / f"{number}_{kind}"
            path.mkdir(exist_ok=True)
            write_json(path / "config.json", config)
            listed.append({"idx": number, "name": str(number), "path": path.name, "type": KIND + kind})
        write_json(folder / "modules.json", listed)
        for number, layer in enumerate(self.layers, start=2):
            if isinstance(layer, Dense):
                weights = {name: value.detach().cpu().contiguous() for name, value in layer.state_dict().items()}
                save_file(weights, folder / f"{number}_Dense" / "model.safetensors")


def read_modules(folder: str) -> Modules | None:
    """Read the modules of a local folder or of a name on the hub, None if it names none.

    BadOption for what is not supported.
    """
    listed = read_file(folder, "modules.json")
    if listed is None:
        return None
    if not isinstance(listed, list) or not all(isinstance(module, dict) for module in listed):
        raise BadFile(f"encoder {folder!r}: modules.json is no list of modules; restore it")
    kinds = [_kind(folder, module) for module in listed]
    paths = [str(module.get("path", "")) for module in listed]
    for path in paths:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise BadFile(f"encoder {folder!r} has the path {path!r} in its modules.json, outside of it; restore it")
    if kinds[:2] != ["Transformer", "Pooling"] or not set(kinds[2:]) <= {"Dense", "Normalize"}:
        other = [kind for kind, allowed in zip(kinds, ("Transformer", "Pooling"), strict=False) if kind != allowed]
        other += [kind for kind in kinds[2:] if kind not in ("Dense", "Normalize")] or ["no Pooling"]
        raise BadOption(f"encoder {folder!r} has the module {other[0]} in its modules.json; {SUPPORTED}")
    layers = torch.nn.Sequential()
    for kind, path in zip(kinds[2:], paths[2:], strict=True):
        layers.append(_dense(folder, path) if kind == "Dense" else Normalize())
    while len(layers) and isinstance(layers[-1], Normalize):
        del layers[-1]
    lowercase = _lowercase(folder, paths[0])
    return Modules(paths[0], lowercase, _pooling(folder, paths[1]), layers)


def find_file(folder: str, name: str, subfolder: str = "") -> Path | None:
    """Return the path of a file of a local folder or of a name on the hub, None if there is none; OSError offline."""
    path = cached_file(folder, name, subfolder=subfolder, _raise_exceptions_for_missing_entries=False)
    if path is not None:
        return Path(path)
    whole = f"{subfolder}/{name}" if subfolder else name
    if not Path(folder).is_dir() and try_to_load_from_cache(folder, whole) is None:
        raise OSError(f"{whole} is not in the cache of the hub, and the hub cannot be reached")
    return None


def read_file(folder: str, name: str, subfolder: str = "") -> Any:
    """Return the content of a JSON file, None if there is none."""
    path = find_file(folder, name, subfolder)
    return None if path is None else read_json(path, fix="restore the folder, or give another `encoder`")


def read_settings(folder: str, name: str, subfolder: str = "") -> dict[str, Any] | None:
    """Return the content of a JSON file with settings by name, None if there is none; BadFile for anything else."""
    settings = read_file(folder, name, subfolder)
    if settings is not None and not isinstance(settings, dict):
        raise BadFile(f"encoder {folder!r}: {subfolder}/{name} holds no settings by name; restore it")
    return settings


def _kind(folder: str, module: Mapping[str, Any]) -> str:
    """Return the name of a module's class; BadOption for code that comes with the folder."""
    package, _, kind = str(module.get("type", "")).rpartition(".")
    if package.partition(".")[0] != "sentence_transformers":
        raise BadOption(f"encoder {folder!r} has the module {module.get('type')} with code of its own; {SUPPORTED}")
    return kind


def _lowercase(folder: str, subfolder: str) -> bool:
    """Read the settings of the transformer: whether texts are lower-cased; BadOption for others that matter."""
    settings = read_settings(folder, "sentence_bert_config.json", subfolder) or {}
    text = settings.get("modality_config", {"text": {}}).get("text", {"method_output_name": "no text"})
    settings["method_output_name"] = text.get("method_output_name")
    for name, harmless in TRANSFORMER_SETTINGS.items():
        if settings.get(name) not in harmless:
            raise BadOption(
                f"encoder {folder!r} has {name} {settings[name]!r} in its sentence_bert_config.json, which al_ray does "
                "not support; give another `encoder`"
            )
    return bool(settings.get("do_lower_case"))


def _pooling(folder: str, subfolder: str) -> Pooling:
    """Read the settings of the pooling."""
    settings = read_settings(folder, "config.json", subfolder)
    if settings is None:
        raise BadFile(f"encoder {folder!r} has no {subfolder}/config.json of its pooling; restore it")
    modes = settings.get("pooling_mode") or [mode for name, mode in LEGACY.items() if settings.get(name)] or "mean"
    modes = [modes] if isinstance(modes, str) else list(modes)
    mode = " and ".join(map(str, modes))
    if mode not in MODES:
        raise BadOption(f"encoder {folder!r} has the pooling {mode}; {SUPPORTED}")
    return Pooling(cast(PoolingMode, mode), bool(settings.get("include_prompt", True)))


def _dense(folder: str, subfolder: str) -> Dense:
    """Read a Dense layer with its weights, which must be in safetensors."""
    settings = read_settings(folder, "config.json", subfolder)
    weights = find_file(folder, "model.safetensors", subfolder)
    if settings is None or weights is None:
        lack = "config.json" if settings is None else "model.safetensors"
        raise BadFile(f"encoder {folder!r} has no {subfolder}/{lack} of its Dense layer; restore it")
    path = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = path.rpartition(".")[2]
    inner = [settings.get(name) for name in ("module_input_name", "module_output_name")]
    if not path.startswith("torch.nn.") or activation not in ACTIVATIONS:
        names = ", ".join(ACTIVATIONS)
        raise BadOption(f"encoder {folder!r} has the activation {path} in {subfolder}; al_ray supports {names}")
    if settings.get("use_residual") or not set(inner) <= {None, "sentence_embedding"}:
        what = "a residual connection" if settings.get("use_residual") else "an input or output other than the vector"
        raise BadOption(f"encoder {folder!r} has {what} in its Dense layer {subfolder}, which al_ray does not support")
    with torch.random.fork_rng(devices=[]):
        layer = Dense(
            int(settings["in_features"]), int(settings["out_features"]), bool(settings.get("bias", True)), activation
        )
    layer.load_state_dict(load_file(weights))
    return layer
