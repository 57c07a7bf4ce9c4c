"""Texts with other words, put in or in place of theirs: paper 003's other route to new pairs.

The words come from the nearest input embeddings of an encoder, among the words of the pool, which are on its topic; or
from a masked language model, which sees the rest of the text. Of the ten best one is drawn.
"""

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from transformers import AutoModelForMaskedLM
from transformers.utils import logging as transformers_logging

from al_ray.apps.mining.lexical import terms
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.encoders.transformer import Encoder, Loading

BEST = 10
WORD = re.compile(r"[^\W_]+")
BLOCK = 1024  # Words whose cosines with all others are made at a time.

Span = tuple[int, int]


class Source(Protocol):
    """Where words come from."""

    def offers(self, texts: Sequence[str], spans: Sequence[Sequence[Span]], insert: bool) -> list[list[list[str]]]:
        """Texts and some word spans of each -> for every span at most BEST words, the best first, never its own.

        insert: they are to stand before the word; or else in place of it.
        """
        ...


class Embeddings:
    """Words whose mean input embedding is nearest by cosine, among those of the texts it was made of."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        """Embed the words of these texts."""
        self.words = sorted({word for text in texts for word in terms(text)})
        self.numbers = {word: number for number, word in enumerate(self.words)}
        table = encoder.transformer.get_input_embeddings().weight.detach().cpu().numpy().astype(np.float64)
        pieces = encoder.tokenizer(self.words, add_special_tokens=False)["input_ids"] if self.words else []
        vectors = np.array([table[ids].mean(axis=0) if ids else np.zeros(table.shape[1]) for ids in pieces])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True) if len(vectors) else vectors
        self.vectors = vectors / np.maximum(norms, 1e-12)
        self.near: dict[str, list[str]] = {}

    def offers(self, texts: Sequence[str], spans: Sequence[Sequence[Span]], insert: bool) -> list[list[list[str]]]:
        """The same words before a word as in place of it: they are of its field."""
        asked = [[text[start:end].lower() for start, end in own] for text, own in zip(texts, spans, strict=True)]
        self._look_up({word for own in asked for word in own} - set(self.near))
        return [[self.near[word] for word in own] for own in asked]

    def _look_up(self, words: set[str]) -> None:
        known = sorted(words & set(self.numbers))
        self.near |= {word: [] for word in words}
        for start in range(0, len(known), BLOCK):
            rows = np.array([self.numbers[word] for word in known[start : start + BLOCK]])
            cosines = self.vectors[rows] @ self.vectors.T
            cosines[np.arange(len(rows)), rows] = -np.inf
            # A stable sort: of equal cosines the word that is first in the alphabet.
            best = np.argsort(-cosines, axis=1, kind="stable")[:, : min(BEST, len(self.words) - 1)]
            self.near |= {self.words[row]: [self.words[at] for at in own] for row, own in zip(rows, best, strict=True)}


class Masked:
    """The words that a masked language model gives where a word is hidden, or where a new one is to stand."""

    def __init__(self, config: EncoderConfig, device: str = "cpu") -> None:
        """Load the encoder's own language model; BadOption where its folder has none."""
        base = Encoder.base(config)
        self.tokenizer, self.device, self.config = base.tokenizer, device, config
        cure = "give a folder or hub name of a masked language model, or --words-from embeddings"
        if self.tokenizer.mask_token is None:
            raise BadOption(f"--words-from masked: the tokenizer of {config.encoder} has no mask; {cure}")
        transformers_logging.disable_progress_bar()
        level = transformers_logging.get_verbosity()
        transformers_logging.set_verbosity_error()
        try:
            with Loading(f"the masked language model of {config.encoder!r}", BadOption, cure):
                self.model, report = AutoModelForMaskedLM.from_pretrained(
                    base.transformer.config.name_or_path, use_safetensors=True, trust_remote_code=False,
                    dtype=torch.float32, output_loading_info=True,
                )  # fmt: skip
        finally:
            transformers_logging.set_verbosity(level)
        if report["missing_keys"]:
            raise BadOption(f"--words-from masked: {config.encoder} has no head for masked words; {cure}")
        self.model = self.model.to(device).eval()
        # Whole words alone: what a text may hold by itself.
        pieces = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        # Of families that do not mark what goes on in a word, but what begins one, only that may stand by itself.
        begins = "" if any(piece.startswith("##") for piece in pieces) else "[Ġ▁]"
        self.whole = np.flatnonzero([re.fullmatch(begins + WORD.pattern, piece) is not None for piece in pieces])

    def offers(self, texts: Sequence[str], spans: Sequence[Sequence[Span]], insert: bool) -> list[list[list[str]]]:
        """All spans of a text are hidden at once."""
        found: list[list[list[str]]] = []
        for start in range(0, len(texts), self.config.encoder_batch):
            here = slice(start, start + self.config.encoder_batch)
            found += self._of_batch(texts[here], spans[here], insert)
        return found

    @torch.inference_mode()
    def _of_batch(self, texts: Sequence[str], spans: Sequence[Sequence[Span]], insert: bool) -> list[list[list[str]]]:
        mask = self.tokenizer.mask_token
        hidden = [
            spelt(text, own, [f"{mask} {text[start:end]}" if insert else mask for start, end in own])
            for text, own in zip(texts, spans, strict=True)
        ]
        inputs = self.tokenizer(
            hidden, padding=True, truncation=True, max_length=self.config.max_length, return_tensors="pt"
        ).to(self.device)
        logits = self.model(**inputs).logits.float()
        found: list[list[list[str]]] = []
        for row, (text, own) in enumerate(zip(texts, spans, strict=True)):
            places = (inputs["input_ids"][row] == self.tokenizer.mask_token_id).nonzero()[:, 0].tolist()
            # A mask that was cut off with the end of a long text gets no words.
            offered = [
                self._best(logits[row, place].cpu().numpy(), text[slice(*span)])
                for place, span in zip(places, own, strict=False)
            ]
            found.append(offered + [[]] * (len(own) - len(offered)))
        return found

    def _best(self, logits: np.ndarray, own: str) -> list[str]:
        order = self.whole[np.argsort(-logits[self.whole], kind="stable")]
        words = [self.tokenizer.decode([int(at)]).strip() for at in order[: BEST + 1]]
        return [word for word in words if word.lower() != own.lower()][:BEST]


def reworded(texts: Sequence[str], source: Source, insert: bool, share: float, rng: np.random.Generator) -> list[str]:
    """Each text with this share of its words changed, one at least; as it was where no word is offered.

    insert: a new word stands before each of those; or else in place of it.
    """
    spans: list[list[Span]] = []
    for text in texts:
        words = [found.span() for found in WORD.finditer(text)]
        count = min(len(words), max(1, round(share * len(words))))
        chosen = np.sort(rng.choice(len(words), size=count, replace=False)) if words else []
        spans.append([words[at] for at in chosen])
    found: list[str] = []
    for text, own, offered in zip(texts, spans, source.offers(texts, spans, insert), strict=True):
        words = [text[start:end] for start, end in own]
        drawn = [several[int(rng.integers(len(several)))] if several else "" for several in offered]
        new = [word if not one else f"{one} {word}" if insert else one for one, word in zip(drawn, words, strict=True)]
        found.append(spelt(text, own, new))
    return found


def spelt(text: str, spans: Sequence[Span], new: Sequence[str]) -> str:
    """A text with other letters in place of some spans, which are in order and apart."""
    parts, end = [], 0
    for (start, after), word in zip(spans, new, strict=True):
        parts += [text[end:start], word]
        end = after
    return "".join([*parts, text[end:]])
