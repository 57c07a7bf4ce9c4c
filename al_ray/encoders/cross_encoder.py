"""Concatenation models: a sequence classifier with one logit over "x1 [SEP] x2" (paper, section 3).

Any Hugging Face encoder serves as a base: BERT, XLNet, RoBERTa, ALBERT or another; the head is always a fresh one. What
two texts become, their order, segments and the side of the padding are the tokenizer's own. In a symmetric task a pair
has one order, that of its rows, in training and in scoring; the paper says nothing of the other order.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging as transformers_logging

from al_ray.core.config.encoder import Arithmetic, EncoderConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats, Labels
from al_ray.encoders.transformer import Encoder, Loading, digest_of, mixed, rules_digest
from al_ray.storage.download import fetched
from al_ray.storage.uri import storage_path

PASS = 8  # Pairs in one forward pass of a training on a CPU, of like length: the least padding.

Texts = Sequence[tuple[str, str]]
"""Pairs of texts, each the left and the right one."""


class CrossEncoder:
    """A sequence classifier with one logit, its tokenizer, and the longest pair it takes."""

    def __init__(
        self, transformer: Any, tokenizer: Any, max_length: int, device: str = "cpu", arithmetic: Arithmetic = "auto"
    ) -> None:
        """Hold the parts; see `base` and `saved`, which load them."""
        self.transformer = transformer.to(device).eval()
        self.tokenizer, self.max_length = tokenizer, max_length
        self.device = device
        self.arithmetic: Arithmetic = arithmetic
        # A call leaves its limit in the tokenizer, which would change the digest and what is saved.
        self._caller = copy.deepcopy(tokenizer)

    @staticmethod
    def base(config: EncoderConfig, seed: int, device: str = "cpu") -> "CrossEncoder":
        """The pre-trained encoder of that name under a head of random weights, which `seed` decides."""
        encoder = Encoder.base(config)
        options = copy.deepcopy(encoder.transformer.config)
        options.num_labels = 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            with Loading(f"encoder {config.encoder!r}", BadOption, "give one of which transformers has a classifier"):
                transformer = AutoModelForSequenceClassification.from_config(options, dtype=torch.float32)
        body = getattr(transformer, transformer.base_model_prefix)
        lacking, _ = body.load_state_dict(encoder.transformer.state_dict(), strict=False)
        assert not lacking, lacking
        made = CrossEncoder(transformer, encoder.tokenizer, config.max_length, device, config.arithmetic)
        made.refuse_too_long(config.encoder)
        return made

    @staticmethod
    def saved(folder: str, device: str = "cpu", arithmetic: Arithmetic = "auto") -> "CrossEncoder":
        """One that `save` wrote, from a path or a URI; BadFile where the folder has lost something."""
        near = str(fetched(storage_path(folder)))
        transformers_logging.disable_progress_bar()
        with Loading(f"the model in {folder}", BadFile, "restore the folder"):
            transformer, report = AutoModelForSequenceClassification.from_pretrained(
                near,
                config=AutoConfig.from_pretrained(near, trust_remote_code=False),
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
            tokenizer = AutoTokenizer.from_pretrained(near, trust_remote_code=False)
        missing = sorted(report["missing_keys"])
        if missing or transformer.config.num_labels != 1:
            lack = f"lacks {len(missing)} weights ({missing[0]}, ...)" if missing else "has not one logit"
            raise BadFile(f"the model in {folder} {lack}; restore it, or train it by python -m jobs.train")
        return CrossEncoder(transformer, tokenizer, int(tokenizer.model_max_length), device, arithmetic)

    def refuse_too_long(self, name: str) -> None:
        """BadOption where the longest pair has more positions than the transformer."""
        pieces = torch.full((1, self.max_length), int(self.tokenizer.pad_token_id or 0) + 1, device=self.device)
        try:
            with torch.inference_mode():
                self.transformer(input_ids=pieces, attention_mask=torch.ones_like(pieces))
        except (IndexError, RuntimeError) as error:
            raise BadOption(f"--max-length {self.max_length} is beyond the positions of {name}; lower it") from error

    def encoded(self, pairs: Texts) -> dict[str, list[list[int]]]:
        """(n,) pairs -> what the tokenizer makes of each, a list for every input of the transformer, not yet padded.

        A pair that is too long loses word pieces of its longer text.
        """
        left, right = [one for one, _ in pairs], [other for _, other in pairs]
        found = self._caller(left, right, truncation="longest_first", max_length=self.max_length)
        return {name: found[name] for name in self.tokenizer.model_input_names if name in found}

    def logits(self, encoded: dict[str, list[list[int]]], rows: Rows) -> torch.Tensor:
        """(r,) rows of what was encoded, as one batch -> (r,) logits; gradients flow if they are on."""
        padded = self._caller.pad(
            {name: [values[row] for row in rows.tolist()] for name, values in encoded.items()}, return_tensors="pt"
        )
        inputs = {name: values.to(self.device) for name, values in padded.items()}
        with mixed(self.arithmetic, self.device):
            return self.transformer(**inputs).logits[:, 0].float()

    @torch.inference_mode()
    def scores(self, pairs: Texts, batch: int) -> Floats:
        """(n,) pairs -> (n,) logits, in batches of like length: by length, then place, cut into runs of `batch`."""
        encoded, found = self.encoded(pairs), np.empty(len(pairs))
        order = by_length(encoded)
        for start in range(0, len(pairs), batch):
            rows = order[start : start + batch]
            found[rows] = self.logits(encoded, rows).cpu().numpy()
        return found

    def gradients(self, pairs: Texts, labels: Labels | Floats) -> float:
        """Add the gradients of a batch's mean cross-entropy, and return it (nats a pair)."""
        encoded, wanted, total = self.encoded(pairs), torch.from_numpy(labels.astype(np.float32)), 0.0
        order = by_length(encoded)
        at_once = PASS if self.device == "cpu" else len(pairs)
        for start in range(0, len(pairs), at_once):
            rows = order[start : start + at_once]
            asked = wanted[torch.from_numpy(rows)].to(self.device)
            summed = torch.nn.functional.binary_cross_entropy_with_logits(
                self.logits(encoded, rows), asked, reduction="sum"
            )
            (summed / len(pairs)).backward()
            total += float(summed.detach())
        return total / len(pairs)

    def digest(self) -> str:
        """Of everything that decides a score before it is rounded: weights, tokenizer, longest pair."""
        return digest_of([rules_digest(self.tokenizer, self.max_length)], self.transformer)

    def save(self, folder: Path) -> None:
        """Write a folder that sentence_transformers.CrossEncoder(folder) loads; it exists and is empty."""
        transformers_logging.disable_progress_bar()
        self.transformer.save_pretrained(folder)
        self.tokenizer.model_max_length = self.max_length
        self.tokenizer.save_pretrained(folder)


def by_length(encoded: dict[str, list[list[int]]]) -> Rows:
    """The rows of what was encoded by length, equal ones by place."""
    lengths = [len(ids) for ids in encoded["input_ids"]]
    return np.argsort(np.array(lengths, dtype=np.int64), kind="stable")


@dataclass(frozen=True)
class PairShardSpec:
    """All that a scorer of pairs is made from: pairs scored at a time, threads, and where and in what it computes."""

    batch: int
    threads: int
    device: str = "cpu"
    arithmetic: Arithmetic = "auto"


class PairShard:
    """Scores pairs of texts by whatever concatenation model it is told. A plain class; cluster/ makes it an actor."""

    def __init__(self, spec: PairShardSpec) -> None:
        """Fix the threads; no model yet."""
        torch.set_num_threads(spec.threads)
        self.spec = spec
        self.held: tuple[str, CrossEncoder] | None = None

    def scores(self, model: Model, pairs: Texts) -> Floats:
        """(n,) pairs -> (n,) logits; BadFile where the folder holds other weights than the model's."""
        return self._loaded(model).scores(pairs, self.spec.batch)

    def _loaded(self, model: Model) -> CrossEncoder:
        if self.held is None or self.held[0] != model.digest:
            found = CrossEncoder.saved(model.path, self.spec.device, self.spec.arithmetic)
            if found.digest() != model.digest:
                raise BadFile(
                    f"{model.path} holds other weights than its record says; restore {json.dumps(model.path)}"
                )
            self.held = model.digest, found
        return self.held[1]
