"""Make new texts by inserting or substituting words (paper 003).

The words come from the nearest input embeddings of an encoder, among the words of the pool, or from a masked language
model, which sees the rest of the text. One of the ten best words is drawn at random.
"""

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from transformers import AutoModelForMaskedLM

from al_ray.apps.papers.mining.lexical import terms
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.encoders.pretrained import Loading, from_safetensors, load_transformer

BEST = 10
WORD = re.compile(r"[^\W_]+")
BLOCK = 1024  # Words whose cosines with all others are computed at a time.

Span = tuple[int, int]


class Source(Protocol):
    """A source of words."""

    def offers(self, texts: Sequence[str], spans: Sequence[Sequence[Span]], insert: bool) -> list[list[list[str]]]:
        """Return for every span of every text at most BEST words, best first, without the word of the span itself.

        insert: whether the words are for insertion before the word, or to replace it.
        """
        ...


class Embeddings:
    """The words of some texts whose mean input embedding is nearest by cosine."""

    def __init__(self, config: EncoderConfig, texts: Sequence[str]) -> None:
        """Embed the words of these texts by the encoder's table of tokens."""
        transformer, tokenizer = load_transformer(config)
        self.words = sorted({word for text in texts for word in terms(text)})
        self.numbers = {word: number for number, word in enumerate(self.words)}
        table = transformer.get_input_embeddings().weight.detach().cpu().numpy().astype(np.float64)
        tokens = tokenizer(self.words, add_special_tokens=False)["input_ids"] if self.words else []
        vectors = np.array([table[ids].mean(axis=0) if ids else np.zeros(table.shape[1]) for ids in tokens])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True) if len(vectors) else vectors
        self.vectors = vectors / np.maximum(norms, 1e-12)
        self.near: dict[str, list[str]] = {}

    def offers(self, texts: Sequence[str], spans: Sequence[Sequence[Span]], insert: bool) -> list[list[list[str]]]:
        """Return the nearest words, the same for insertion and substitution."""
        words = [[text[start:end].lower() for start, end in own] for text, own in zip(texts, spans, strict=True)]
        self._look_up({word for own in words for word in own} - set(self.near))
        return [[self.near[word] for word in own] for own in words]

    def _look_up(self, words: set[str]) -> None:
        known = sorted(words & set(self.numbers))
        self.near |= {word: [] for word in words}
        for start in range(0, len(known), BLOCK):
            rows = np.array([self.numbers[word] for word in known[start : start + BLOCK]])
            cosines = self.vectors[rows] @ self.vectors.T
            cosines[np.arange(len(rows)), rows] = -np.inf
            # A stable sort: ties in alphabetical order.
            best = np.argsort(-cosines, axis=1, kind="stable")[:, : min(BEST, len(self.words) - 1)]
            self.near |= {self.words[row]: [self.words[at] for at in own] for row, own in zip(rows, best, strict=True)}


class Masked:
    """Words that a masked language model predicts for a masked word, or for a mask before a word."""

    def __init__(self, config: EncoderConfig, device: str = "cpu") -> None:
        """Load the masked language model of the encoder; BadOption if its folder has none."""
        base, self.tokenizer = load_transformer(config)
        self.device, self.config = device, config
        fix = "give a folder or hub name of a masked language model, or `words_from='embeddings'`"
        if self.tokenizer.mask_token is None:
            raise BadOption(f"`words_from='masked'`: the tokenizer of {config.encoder} has no mask; {fix}")
        with Loading(f"the masked language model of {config.encoder!r}", BadOption, fix):
            model, missing = from_safetensors(AutoModelForMaskedLM, base.config.name_or_path)
        if missing:
            raise BadOption(f"`words_from='masked'`: {config.encoder} has no head for masked words; {fix}")
        self.model = model.to(device).eval()
        # Only tokens that are whole words. BERT marks the tokens inside a word (##); other families mark first tokens.
        tokens = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        first = "" if any(token.startswith("##") for token in tokens) else "[Ġ▁]"
        self.whole = np.flatnonzero([re.fullmatch(first + WORD.pattern, token) is not None for token in tokens])

    def offers(self, texts: Sequence[str], spans: Sequence[Sequence[Span]], insert: bool) -> list[list[list[str]]]:
        """Mask all spans of a text at once, and return the predicted words."""
        offers: list[list[list[str]]] = []
        for start in range(0, len(texts), self.config.encoder_batch):
            batch = slice(start, start + self.config.encoder_batch)
            offers += self._predict(texts[batch], spans[batch], insert)
        return offers

    @torch.inference_mode()
    def _predict(self, texts: Sequence[str], spans: Sequence[Sequence[Span]], insert: bool) -> list[list[list[str]]]:
        mask = self.tokenizer.mask_token
        masked = [
            replace_spans(text, own, [f"{mask} {text[start:end]}" if insert else mask for start, end in own])
            for text, own in zip(texts, spans, strict=True)
        ]
        inputs = self.tokenizer(
            masked, padding=True, truncation=True, max_length=self.config.max_length, return_tensors="pt"
        ).to(self.device)
        logits = self.model(**inputs).logits.float()
        offers: list[list[list[str]]] = []
        for row, (text, own) in enumerate(zip(texts, spans, strict=True)):
            places = (inputs["input_ids"][row] == self.tokenizer.mask_token_id).nonzero()[:, 0].tolist()
            # A mask that was truncated with the end of a long text gets no words.
            words = [
                self._best(logits[row, place].cpu().numpy(), text[slice(*span)])
                for place, span in zip(places, own, strict=False)
            ]
            offers.append(words + [[]] * (len(own) - len(words)))
        return offers

    def _best(self, logits: np.ndarray, own: str) -> list[str]:
        order = self.whole[np.argsort(-logits[self.whole], kind="stable")]
        words = [self.tokenizer.decode([int(at)]).strip() for at in order[: BEST + 1]]
        return [word for word in words if word.lower() != own.lower()][:BEST]


def reword(texts: Sequence[str], source: Source, insert: bool, share: float, rng: np.random.Generator) -> list[str]:
    """Change a random share of each text's words, at least one; a word for which the source has none stays.

    insert: whether a new word is inserted before each of these words, or replaces it.
    """
    spans: list[list[Span]] = []
    for text in texts:
        words = [match.span() for match in WORD.finditer(text)]
        count = min(len(words), max(1, round(share * len(words))))
        chosen = np.sort(rng.choice(len(words), size=count, replace=False)) if words else []
        spans.append([words[at] for at in chosen])
    new_texts: list[str] = []
    for text, own, offered in zip(texts, spans, source.offers(texts, spans, insert), strict=True):
        words = [text[start:end] for start, end in own]
        drawn = [several[int(rng.integers(len(several)))] if several else "" for several in offered]
        new = [word if not one else f"{one} {word}" if insert else one for one, word in zip(drawn, words, strict=True)]
        new_texts.append(replace_spans(text, own, new))
    return new_texts


def replace_spans(text: str, spans: Sequence[Span], new: Sequence[str]) -> str:
    """Replace spans of a text, which are in order and do not overlap, by new strings."""
    parts, end = [], 0
    for (start, after), word in zip(spans, new, strict=True):
        parts += [text[end:start], word]
        end = after
    return "".join([*parts, text[end:]])
