"""Cross-encoders: a sequence classifier with one logit over "x1 [SEP] x2" (paper, 3, as "concatenation models").

Any Hugging Face encoder can be the base: BERT, XLNet, RoBERTa, ALBERT or another. The head is always a new one. The
tokenizer decides separators, segments and the side of the padding. In a symmetric task a pair has one order, the lower
row first, in training and in scoring; the paper does not mention the other order.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from al_ray.core.config.encoder import Arithmetic, EncoderConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Model
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats, Labels
from al_ray.encoders.pretrained import Loading, from_safetensors, load_transformer
from al_ray.encoders.transformer import (
    check_weights_digest,
    digest_of,
    mixed,
    rules_digest,
    save_transformer,
    settle_network,
)
from al_ray.storage.download import fetched
from al_ray.storage.uri import storage_path

PASS = 8  # Pairs in one forward pass of training on a CPU; pairs of similar length need little padding.

Texts = Sequence[tuple[str, str]]
"""(left text, right text) of each pair."""


class CrossEncoder:
    """A sequence classifier with one logit, its tokenizer, and the maximum length of a pair."""

    def __init__(
        self, transformer: Any, tokenizer: Any, max_length: int, device: str = "cpu", arithmetic: Arithmetic = "auto"
    ) -> None:
        """See `base` and `saved`, which load the parts."""
        self.transformer = transformer.to(device).eval()
        settle_network(self.transformer, arithmetic, device)
        self.tokenizer, self.max_length = tokenizer, max_length
        self.device = device
        self.arithmetic: Arithmetic = arithmetic
        # A copy, because a call stores its limit in the tokenizer, which would change the digest and the saved files.
        self._caller = copy.deepcopy(tokenizer)

    @staticmethod
    def base(config: EncoderConfig, seed: int, device: str = "cpu") -> "CrossEncoder":
        """Load the pre-trained encoder by name and add a head of random weights, drawn by `seed`."""
        pretrained, tokenizer = load_transformer(config)
        options = copy.deepcopy(pretrained.config)
        options.num_labels = 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            with Loading(f"encoder {config.encoder!r}", BadOption, "give one for which transformers has a classifier"):
                transformer = AutoModelForSequenceClassification.from_config(options, dtype=torch.float32)
        body = getattr(transformer, transformer.base_model_prefix)
        missing, _ = body.load_state_dict(pretrained.state_dict(), strict=False)
        assert not missing, missing
        # On the CPU: an invalid position makes a GPU context unusable.
        CrossEncoder(transformer, tokenizer, config.max_length).check_max_length(config.encoder)
        return CrossEncoder(transformer, tokenizer, config.max_length, device, config.arithmetic)

    @staticmethod
    def saved(folder: str, device: str = "cpu", arithmetic: Arithmetic = "auto") -> "CrossEncoder":
        """Load a model that `save` wrote, from a path or a URI; BadFile if it cannot be loaded."""
        local = str(fetched(storage_path(folder)))
        with Loading(f"the model in {folder}", BadFile, "restore the folder"):
            transformer, missing = from_safetensors(AutoModelForSequenceClassification, local)
            tokenizer = AutoTokenizer.from_pretrained(local, trust_remote_code=False)
        if missing or transformer.config.num_labels != 1:
            lack = f"lacks {len(missing)} weights ({missing[0]}, ...)" if missing else "does not have exactly one logit"
            raise BadFile(f"the model in {folder} {lack}; restore it, or train one: `al_ray.train_cross_encoder`")
        return CrossEncoder(transformer, tokenizer, int(tokenizer.model_max_length), device, arithmetic)

    def check_max_length(self, name: str) -> None:
        """BadOption if a pair of the maximum length has more tokens than the transformer has positions."""
        tokens = torch.full((1, self.max_length), int(self.tokenizer.pad_token_id or 0) + 1)
        try:
            with torch.inference_mode():
                self.transformer(input_ids=tokens, attention_mask=torch.ones_like(tokens))
        except (IndexError, RuntimeError) as error:
            raise BadOption(
                f"{option('max_length', self.max_length)} is beyond the positions of {name}; lower it"
            ) from error

    def encoded(self, pairs: Texts) -> dict[str, list[list[int]]]:
        """Tokenise (n,) pairs: input name of the transformer -> n lists, not padded.

        In a pair that is too long the longer text is truncated.
        """
        left, right = [one for one, _ in pairs], [other for _, other in pairs]
        inputs = self._caller(left, right, truncation="longest_first", max_length=self.max_length)
        return {name: inputs[name] for name in self.tokenizer.model_input_names if name in inputs}

    def logits(self, encoded: dict[str, list[list[int]]], rows: Rows) -> torch.Tensor:
        """(r,) rows of encoded pairs, as one batch -> (r,) logits; with gradients if they are enabled."""
        padded = self._caller.pad(
            {name: [values[row] for row in rows.tolist()] for name, values in encoded.items()}, return_tensors="pt"
        )
        inputs = {name: values.to(self.device) for name, values in padded.items()}
        with mixed(self.arithmetic, self.device):
            return self.transformer(**inputs).logits[:, 0].float()

    @torch.inference_mode()
    def scores(self, pairs: Texts, batch: int) -> Floats:
        """(n,) pairs -> (n,) logits, computed in batches of `batch` pairs in the order of `by_length`."""
        encoded, logits = self.encoded(pairs), np.empty(len(pairs))
        order = by_length(encoded)
        for start in range(0, len(pairs), batch):
            rows = order[start : start + batch]
            logits[rows] = self.logits(encoded, rows).cpu().numpy()
        return logits

    def gradients(self, pairs: Texts, labels: Labels | Floats) -> torch.Tensor:
        """Add the gradients of a batch's mean cross-entropy, and return that loss (nats per pair), on the device."""
        encoded, targets = self.encoded(pairs), torch.from_numpy(labels.astype(np.float32))
        total = torch.zeros((), device=self.device)
        order = by_length(encoded)
        size = PASS if self.device == "cpu" else len(pairs)
        for start in range(0, len(pairs), size):
            rows = order[start : start + size]
            target = targets[torch.from_numpy(rows)].to(self.device)
            summed = torch.nn.functional.binary_cross_entropy_with_logits(
                self.logits(encoded, rows), target, reduction="sum"
            )
            (summed / len(pairs)).backward()
            total += summed.detach()
        return total / len(pairs)

    def digest(self) -> str:
        """Return the digest of everything that decides a score before rounding: weights, tokenizer, maximum length."""
        return digest_of([rules_digest(self.tokenizer, self.max_length)], self.transformer)

    def save(self, folder: Path) -> None:
        """Write files that sentence_transformers.CrossEncoder(folder) loads into an existing, empty folder."""
        save_transformer(self.transformer, self.tokenizer, self.max_length, folder)


def by_length(encoded: dict[str, list[list[int]]]) -> Rows:
    """Return the rows of encoded pairs in the order of their lengths, ties by row."""
    lengths = [len(ids) for ids in encoded["input_ids"]]
    return np.argsort(np.array(lengths, dtype=np.int64), kind="stable")


@dataclass(frozen=True)
class PairShardSpec:
    """Options of a PairShard: pairs in a forward pass, CPU threads, device and arithmetic."""

    batch: int
    threads: int
    device: str = "cpu"
    arithmetic: Arithmetic = "auto"


class PairShard:
    """Scores pairs of texts by a cross-encoder. A plain class, which cluster/ makes an actor."""

    def __init__(self, spec: PairShardSpec) -> None:
        """Set the number of threads; the model is loaded by the first call."""
        torch.set_num_threads(spec.threads)
        self.spec = spec
        self.cached: tuple[str, CrossEncoder] | None = None

    def scores(self, model: Model, pairs: Texts) -> Floats:
        """(n,) pairs -> (n,) logits; BadFile if the folder has other weights than the model's."""
        if self.cached is None or self.cached[0] != model.digest:
            loaded = CrossEncoder.saved(model.path, self.spec.device, self.spec.arithmetic)
            check_weights_digest(model, loaded.digest())
            self.cached = model.digest, loaded
        return self.cached[1].scores(pairs, self.spec.batch)
