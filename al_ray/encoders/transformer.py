"""The bi-encoder: the mean of the last layer over a text's tokens, as a unit vector (paper, 4.2.1).

Any Hugging Face encoder can be used; weights are read from safetensors only, and no code is run from the hub. A folder
of sentence-transformers brings its pooling, Dense layers and prompts. One encoder embeds both sides; dropout is off in
training too (A.1). sentence-transformers loads a saved folder and gives the same vectors.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from tokenizers import normalizers
from transformers.utils import logging as transformers_logging

from al_ray.core.config.encoder import Arithmetic, EncoderConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Model
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors
from al_ray.encoders.frozen_layers import FrozenLayers, freeze_layers, half_of, too_many
from al_ray.encoders.modules import Modules, read_file, read_modules
from al_ray.encoders.pretrained import FIX, Loading, folder_of, layer_count, load_parts, load_transformer
from al_ray.encoders.products import use_float32_attention, use_onednn
from al_ray.encoders.prompts import DOCUMENT, QUERY, Prompts, Side, StoredPrompts, read_prompts
from al_ray.encoders.random_bert import RANDOM_BERT
from al_ray.encoders.tokens import Tokens
from al_ray.storage.download import fetched
from al_ray.storage.files import write_json
from al_ray.storage.uri import StoragePath, storage_path

BLOCK = 4096  # Texts in one call of a tokenizer.


def mixed(arithmetic: Arithmetic, device: str) -> torch.autocast:
    """Return the autocast context of a forward pass: bf16 for `bf16`, and for `auto` on a GPU; otherwise disabled."""
    enabled = computes_in_bf16(arithmetic, device)
    return torch.autocast(torch.device(device).type, dtype=torch.bfloat16, enabled=enabled)


def computes_in_bf16(arithmetic: Arithmetic, device: str) -> bool:
    """Return whether a forward pass is in mixed precision."""
    return arithmetic == "bf16" or (arithmetic == "auto" and torch.device(device).type != "cpu")


def settle_network(transformer: Any, arithmetic: Arithmetic, device: str) -> None:
    """Choose the quickest way that a network computes on a CPU."""
    use_onednn(transformer)
    if arithmetic == "bf16" and torch.device(device).type == "cpu":
        use_float32_attention(transformer)


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
        limit = getattr(transformer.config, "max_position_embeddings", -1) - _positions_before_text(transformer)
        if 0 <= limit < config.max_length:
            raise BadOption(
                f"{option('max_length', config.max_length)} is beyond {config.encoder}'s {limit} positions; lower it"
            )
        self.transformer = transformer.to(device).eval()
        self.tokenizer, self.config, self.device = tokenizer, config, device
        self.modules, self.prompts = modules or Modules(), prompts or Prompts()
        layers = self.modules.layers.to(device)
        settle_network(self.transformer, config.arithmetic, device)
        parts = {"transformer": self.transformer, "layers": layers}
        # The module that is trained. Without layers it is the transformer alone, as digests and checkpoints have it.
        self.network: torch.nn.Module = torch.nn.ModuleDict(parts) if len(layers) else self.transformer
        self.pad = int(tokenizer.pad_token_id or 0)
        self.hidden = int(transformer.config.hidden_size)
        self.dimension = self.modules.dimension(self.hidden)

    @staticmethod
    def check_prompts(config: EncoderConfig) -> None:
        """Raise BadOption for the name of a prompt that the folder lacks, if the folder can be read here."""
        stored = _stored_prompts(config.encoder)
        if stored is not None:
            Prompts.of(config, stored)

    @staticmethod
    def with_left_prompt(config: EncoderConfig) -> EncoderConfig:
        """Return options by which right texts have the prompt of left ones, as the texts of a symmetric task have."""
        name = config.prompt_left
        if name is None:
            name = (_stored_prompts(config.encoder) or StoredPrompts()).name_of_left()
        return replace(config, prompt_left=name, prompt_right=name)

    @staticmethod
    def check_frozen_layers(config: EncoderConfig, layers: int) -> None:
        """Raise BadOption for more frozen layers than the encoder has, if its config can be read here."""
        most = layer_count(config)
        if most is not None and layers > most:
            raise too_many(layers, config.encoder, most)

    @staticmethod
    def untrained(config: EncoderConfig, pool: StoragePath, device: str = "cpu", seed: int = 0) -> "Encoder":
        """Load the pre-trained encoder, which depends on no pool and no seed."""
        return Encoder.base(config, device)

    @staticmethod
    def base(config: EncoderConfig, device: str = "cpu") -> "Encoder":
        """Load the pre-trained encoder by name; BadOption or BadFile if it cannot be loaded."""
        if config.encoder == RANDOM_BERT:
            return Encoder(*load_transformer(config), config, device, prompts=Prompts.of(config, StoredPrompts()))
        folder = folder_of(config.encoder)
        with Loading(f"encoder {folder!r}", BadOption, FIX):
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

    @property
    def unknown(self) -> int | None:
        """Return the token id of unknown tokens; None if the tokenizer has none, such as one by bytes."""
        ids = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, self.tokenizer.pad_token_id)
        unknown = self.tokenizer.unk_token_id
        return None if unknown is None or unknown in ids else int(unknown)

    @property
    def special(self) -> frozenset[int]:
        """Return the token ids that stand for no part of a text, such as the first and the last."""
        return frozenset(map(int, self.tokenizer.all_special_ids)) - {self.unknown}

    def freeze(self, layers: FrozenLayers) -> int:
        """Exclude the embeddings and the lowest layers from training; return how many. BadOption for too many."""
        count = half_of(self.transformer) if layers == "half" else layers
        if count:
            freeze_layers(self.transformer, count, self.config.encoder)
        return count

    @cached_property
    def _cutting_tokenizer(self) -> Any:
        """A copy, because a call stores its limit in the tokenizer, which would change the digest and the saved files.

        It is made once: a copy takes longer than the encoding of a text.
        """
        return copy.deepcopy(self.tokenizer)

    def tokenise(self, texts: Sequence[str], side: Side = "left") -> Tokens:
        """Return the token ids of texts with the prompt of their side, at most max_length each."""
        tokenizer, length = self._cutting_tokenizer, self.config.max_length
        prompt, counted = self.prompts.of_side(side), 0
        if prompt and not self.modules.pooling.include_prompt:
            ids = tokenizer(prompt, truncation=True, max_length=length)["input_ids"]
            counted = len(ids) - (ids[-1] in tokenizer.all_special_ids)
        blocks = ([prompt + text for text in texts[start : start + BLOCK]] for start in range(0, len(texts), BLOCK))
        encoded = (tokenizer(block, truncation=True, max_length=length)["input_ids"] for block in blocks)
        return Tokens.of([ids for lists in encoded for ids in lists], counted)

    def forward(self, tokens: Tokens, rows: Rows) -> torch.Tensor:
        """(r,) rows -> vectors (r, d), not of unit length; with gradients if they are enabled."""
        return self.encode(*tokens.padded(rows, self.pad), tokens.prompt)

    def encode(self, ids: torch.Tensor, mask: torch.Tensor, prompt: int) -> torch.Tensor:
        """(r, l) padded token ids and (r, l) mask of the tokens, both on the host -> vectors (r, d), as `forward` does.

        prompt: number of first tokens that the pooling leaves out.
        """
        # Attention without a mask takes fewer operations, and on a GPU a faster kernel.
        full = bool(mask.all())
        # The host does not wait: CUDA has copied unpinned memory when the call returns.
        ids, mask = ids.to(self.device, non_blocking=True), mask.to(self.device, non_blocking=True)
        with mixed(self.config.arithmetic, self.device):
            hidden = self.transformer(input_ids=ids, attention_mask=None if full else mask.long()).last_hidden_state
        # A caller may be in autocast, for several passes.
        with torch.autocast(torch.device(self.device).type, enabled=False):
            return self.modules.layers(self.modules.pooling(hidden, mask, prompt))

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


def _positions_before_text(transformer: Any) -> int:
    """Return how many positions no text uses: RoBERTa and its like count them from behind the padding's number."""
    for name, module in transformer.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.padding_idx) + 1
    return 0


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


def check_weights_digest(model: Model, digest: str, name: str = "") -> None:
    """Raise BadFile unless loaded weights have the digest of the model. name: encoder of a model without path."""
    if digest != model.weights:
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


def _stored_prompts(encoder: str) -> StoredPrompts | None:
    """Return the prompts of an encoder's folder; None if it cannot be read here."""
    folder = folder_of(encoder)
    try:
        has_folder = folder != RANDOM_BERT and read_file(folder, "modules.json") is not None
        return read_prompts(folder) if has_folder else StoredPrompts()
    except (OSError, ValueError):
        return None


def _load_folder(folder: str, layers: int | None) -> tuple[tuple[Any, Any], Modules, StoredPrompts]:
    """Load a transformer and its tokenizer, and read the modules and prompts of its folder."""
    modules = read_modules(folder)
    if modules is None:
        return load_parts(folder, layers), Modules(), StoredPrompts()
    transformer, tokenizer = load_parts(folder, layers, modules.transformer)
    if modules.lowercase:
        lowercase(tokenizer)
    return (transformer, tokenizer), modules, read_prompts(folder)
