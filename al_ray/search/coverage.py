"""What an encoder sees of texts: the share of unknown tokens, and different texts with the same token ids.

Two texts with the same token ids have the same vector, whatever the weights, so a model gives them the cosine 1. That
happens where the vocabulary lacks the script of the texts (each word is then one and the same unknown token), where
texts are truncated, and where the tokenizer drops case, accents or spaces, which is what it is for.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from logging import getLogger
from typing import Any

import numpy as np

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.core.pairs import Mask
from al_ray.core.text import without_accents
from al_ray.encoders.encoder import TextEncoder
from al_ray.encoders.prompts import Side
from al_ray.encoders.tokens import Tokens

logger = getLogger(__name__)
FEW = 0.01
"""Share of unknown tokens from which it is reported."""
EXAMPLES = 3
"""Groups of texts with the same token ids that are kept as examples, and texts of each."""


@dataclass(frozen=True)
class Coverage:
    """Numbers of texts, and of their tokens without special ones, of a task or a part of it.

    unknown: unknown tokens. empty: texts without any token. alike: texts with the token ids of another text that reads
    differently (core/text.py). truncated: those of them that are cut at the maximum length. examples: texts with the
    same token ids. sides: (tokens, unknown) of each set of texts; () in files of earlier versions.
    """

    texts: int = 0
    tokens: int = 0
    unknown: int = 0
    empty: int = 0
    alike: int = 0
    truncated: int = 0
    examples: tuple[tuple[str, ...], ...] = field(default=())
    sides: tuple[tuple[int, int], ...] = ()

    @property
    def share(self) -> float:
        """Share of unknown tokens, in [0, 1]."""
        return self.unknown / max(1, self.tokens)

    @property
    def shares(self) -> dict[str, float]:
        """Which texts -> their share of unknown tokens: of left and right texts, or of all if there is one set."""
        if len(self.sides) < 2:
            return {"texts": self.share}
        names = ("left texts", "right texts")
        return {name: unknown / max(1, tokens) for name, (tokens, unknown) in zip(names, self.sides, strict=True)}

    @property
    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return asdict(self)

    @staticmethod
    def of_dict(content: Mapping[str, Any]) -> "Coverage":
        """Return what `as_dict` gave."""
        examples = tuple(map(tuple, content["examples"]))
        sides = tuple((int(tokens), int(unknown)) for tokens, unknown in content.get("sides", ()))
        return Coverage(**{name: int(content[name]) for name in NUMBERS}, examples=examples, sides=sides)


NUMBERS = ("texts", "tokens", "unknown", "empty", "alike", "truncated")


class _Joined:
    """Texts of several corpora by one number, without a copy."""

    def __init__(self, parts: Sequence[Sequence[str]]) -> None:
        self.parts, self.ends = parts, np.cumsum([len(part) for part in parts])

    def __getitem__(self, row: int) -> str:
        part = int(np.searchsorted(self.ends, row, side="right"))
        return self.parts[part][row - (int(self.ends[part - 1]) if part else 0)]


class CoverageCount:
    """Counts texts chunk by chunk, each different text once. Keeps some 20 bytes of each."""

    def __init__(self, unknown: int | None, special: frozenset[int], max_length: int) -> None:
        """unknown, special: token ids; None if the encoder has no unknown token."""
        self.unknown, self.special, self.max_length = unknown, np.array(sorted(special), dtype=np.int32), max_length
        self._parts = list[tuple[np.ndarray, ...]]()

    def add(self, tokens: Tokens, prompt: int = 0) -> None:
        """Count the next texts. prompt: number of their first tokens that are of a prompt (`prompt_length`)."""
        lengths = np.diff(tokens.starts)
        place = np.arange(len(tokens.ids)) - np.repeat(tokens.starts[:-1], lengths)
        # Tokens of a prompt are not of the text.
        text = ~np.isin(tokens.ids, self.special) & (place >= prompt)
        owners = np.repeat(np.arange(len(tokens), dtype=np.int32), lengths)
        own = np.bincount(owners[text], minlength=len(tokens)).astype(np.int32)
        unknown = np.zeros(len(tokens), dtype=np.int32)
        if self.unknown is not None:
            unknown += np.bincount(owners[text & (tokens.ids == self.unknown)], minlength=len(tokens)).astype(np.int32)
        digests = [blake2b(content, digest_size=8).digest() for content in tokens.contents()]
        keys = np.frombuffer(b"".join(digests), dtype=np.int64)
        self._parts.append((keys, own, unknown, lengths >= self.max_length))

    def result(self, *parts: Sequence[str]) -> Coverage:
        """Return the figures of all different texts, which were added in this order: of one side, or of both."""
        if not self._parts:
            return Coverage()
        keys, own, unknown, cut = (np.concatenate(columns) for columns in zip(*self._parts, strict=True))
        first, groups = _distinct(keys, _Joined(parts))
        sides, start = list[tuple[int, int]](), 0
        for part in parts:
            here = np.arange(start, start + len(part))[_distinct(keys[start : start + len(part)], part)[0]]
            sides.append((int(own[here].sum()), int(unknown[here].sum())))
            start += len(part)
        alike, truncated, examples = 0, 0, list[tuple[str, ...]]()
        for group in groups:
            readings = defaultdict[str, list[str]](list)
            for text in group:
                readings[without_accents(text)].append(text)
            if len(readings) > 1:
                alike, truncated = alike + len(group), truncated + int(cut[list(group.values())].sum())
                examples.append(tuple(same[0][:100] for same in list(readings.values())[:EXAMPLES]))
        return Coverage(
            int(first.sum()), int(own[first].sum()), int(unknown[first].sum()), int((own[first] == 0).sum()),
            alike, truncated, tuple(examples[:EXAMPLES]), tuple(sides),
        )  # fmt: skip


def _distinct(keys: np.ndarray, texts: Sequence[str] | _Joined) -> tuple[Mask, list[dict[str, int]]]:
    """(n,) keys of token ids and the texts -> (n,) whether a text is the first of its duplicates, and texts of one key.

    The latter: for each key of several rows, its different texts with their rows.
    """
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    first, groups = np.ones(len(keys), dtype=np.bool_), defaultdict[int, dict[str, int]](dict)
    for row in np.flatnonzero(counts[inverse] > 1).tolist():
        text = texts[row]
        first[row] = groups[int(inverse[row])].setdefault(text, row) == row
    return first, list(groups.values())


class ChangingTexts:
    """The share of unknown tokens of the different texts of a set, from which texts go and into which texts come."""

    def __init__(self, texts: Iterable[str], of: Callable[[Sequence[str]], Coverage], first: Coverage) -> None:
        """texts: that are there now. of: counts different texts. first: its figures of the texts that are there."""
        self._number, self._of = Counter(texts), of
        self._tokens, self._unknown = first.tokens, first.unknown

    @property
    def share(self) -> float:
        """Share of unknown tokens now, in [0, 1]."""
        return self._unknown / max(1, self._tokens)

    def share_after(self, come: Sequence[str], go: Sequence[str]) -> float:
        """Return what the share would be after a change."""
        tokens, unknown = self._after(come, go)
        return unknown / max(1, tokens)

    def change(self, come: Sequence[str], go: Sequence[str]) -> None:
        """Add texts, and take others away."""
        self._tokens, self._unknown = self._after(come, go)
        self._number.update(come)
        self._number.subtract(go)
        for text in go:
            if not self._number[text]:
                del self._number[text]

    def _after(self, come: Sequence[str], go: Sequence[str]) -> tuple[int, int]:
        changes = Counter(come)
        changes.subtract(go)
        new = [text for text, number in changes.items() if number > 0 and not self._number[text]]
        gone = [text for text, number in changes.items() if number < 0 and self._number[text] + number == 0]
        more, less = (self._of(texts) for texts in (new, gone))
        return self._tokens + more.tokens - less.tokens, self._unknown + more.unknown - less.unknown


def check_coverage(coverage: Coverage, encoder: EncoderConfig) -> None:
    """Log which parts of texts an encoder does not see; BadOption if too many of their tokens are unknown to it."""
    for line in coverage_lines(coverage):
        logger.warning("%s", line)
    require_coverage(coverage, encoder)


def require_coverage(coverage: Coverage | None, encoder: EncoderConfig, sides: bool = True) -> None:
    """Raise BadOption if too many tokens of texts are unknown to an encoder, on either side or on both."""
    if coverage is None:
        return
    shares = coverage.shares if sides else {"texts": coverage.share}
    texts, share = max(shares.items(), key=lambda one: one[1])
    if share > encoder.most_unknown:
        raise BadOption(
            f"encoder {encoder.encoder} does not know {share:.0%} of the tokens of the {texts}{_example(coverage)}; "
            f"`RunConfig.most_unknown` (of `al_ray.match` and `al-ray serve`, too) allows {encoder.most_unknown:g}. "
            "Its vocabulary lacks their script: start a run with `RunConfig.encoder=FOLDER` and a model for the "
            "language, such as sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2 or "
            "intfloat/multilingual-e5-small (docs/languages.md)"
        )


def coverage_lines(coverage: Coverage) -> Iterator[str]:
    """Yield what people should know of texts before they label or match them; nothing if all is seen."""
    if max(coverage.shares.values()) >= FEW:
        shares = ", ".join(f"{share:.1%} of the tokens of the {texts}" for texts, share in coverage.shares.items())
        yield f"the encoder does not know {shares} (docs/languages.md)"
    if coverage.empty:
        yield f"texts without a token, which all look the same to the encoder: {coverage.empty:,}"
    if coverage.alike:
        cut = f", {coverage.truncated:,} of them cut at `RunConfig.max_length`" if coverage.truncated else ""
        yield (
            f"different texts with the token ids of another, which the encoder cannot tell apart: {coverage.alike:,}"
            f"{cut}{_example(coverage)}"
        )


def _example(coverage: Coverage) -> str:
    return f", such as {' and '.join(map(repr, coverage.examples[0]))}" if coverage.examples else ""


def prompt_length(encoder: TextEncoder, side: Side) -> int:
    """Return how many first tokens of each text of a side belong to its prompt, with the special tokens before it."""
    ids = encoder.tokenise([""], side).ids.tolist() if encoder.special else []
    while ids and ids[-1] in encoder.special:
        ids.pop()
    return len(ids)
