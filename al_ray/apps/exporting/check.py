"""Whether a graph gives the vectors of torch: on texts of the run, on a text that is truncated, and on single texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.exporting.session import OnnxEncoder
from al_ray.apps.matching.model import MatchingModel
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.naming import option
from al_ray.core.progress import OnProgress
from al_ray.core.task import strings_at
from al_ray.core.vectors import Vectors
from al_ray.encoders.encoder import embed_rows
from al_ray.encoders.prompts import Side
from al_ray.encoders.transformer import Encoder

TEXTS = 1000
LIMIT = 1e-4


@dataclass(frozen=True)
class CheckTexts:
    """Texts of each side, and what they are, for people."""

    sides: dict[Side, list[str]]
    source: str

    def __len__(self) -> int:
        return sum(map(len, self.sides.values()))


@dataclass(frozen=True)
class Differences:
    """Largest absolute differences between torch and a graph: of a component of a vector, and of a cosine."""

    texts: int
    source: str
    component: float
    cosine: float

    def check(self, what: str) -> None:
        """Raise BadOption if a difference is above the limit, or is not a number."""
        if not max(self.component, self.cosine) <= LIMIT:
            raise BadOption(
                f"the ONNX graph of {what} differs from torch by {self.component:.2g} in a component and by "
                f"{self.cosine:.2g} in a cosine, more than {LIMIT:g}; give "
                "`format='sentence-transformers'`"
            )

    @property
    def record(self) -> dict[str, Any]:
        """Return what export.json says of the check."""
        return {
            "texts": self.texts, "source": self.source,
            "largest_component": self.component, "largest_cosine": self.cosine,
        }  # fmt: skip


def describe_check(check: Mapping[str, Any]) -> str:
    """Return in words what export.json says of the check."""
    return (
        f"{check['texts']:,} texts ({check['source']}): {check['largest_component']:.2g} in a component, "
        f"{check['largest_cosine']:.2g} in a cosine"
    )


def read_check_texts(file: Path | None, model: MatchingModel, encoder: Encoder) -> CheckTexts:
    """Return the texts to compare: of the file, else train texts of the run, else made of the encoder's vocabulary."""
    if file is not None:
        return CheckTexts({"left": read_lines(file)}, f"of {file}")
    if model.run is None:
        return CheckTexts({"left": _made_texts(encoder)}, "made of the vocabulary")
    task, space = model.task, model.task.split("train").space
    if task.symmetric:
        sides: dict[Side, list[str]] = {"left": strings_at(task.left.texts, _some(space.left, TEXTS))}
    else:
        left = _some(space.left, max(TEXTS // 2, TEXTS - len(space.right)))
        right = _some(space.right, TEXTS - len(left))
        sides = {"left": strings_at(task.left.texts, left), "right": strings_at(task.right.texts, right)}
    return CheckTexts(sides, "of the train split")


def measure_differences(encoder: Encoder, exported: OnnxEncoder, texts: CheckTexts, watch: OnProgress) -> Differences:
    """Compare the vectors of torch and of a graph, and all cosines of these texts.

    The graph takes batches of texts of mixed lengths, torch batches of texts of like lengths. A text beyond the maximum
    length is added to each side, and it and the first text are also encoded alone.
    """
    pairs = list[tuple[Vectors, Vectors]]()
    for side, given in texts.sides.items():
        some = [*given, _long(given, encoder.config.max_length)]
        tokens = encoder.tokenise(some, side)
        watch("encode by torch", 0, len(some))
        by_torch = embed_rows(encoder, tokens, np.arange(len(some)))
        pairs.append((by_torch, exported.encode(some, side, watch=watch)))
        alone = [some[0], some[-1]]
        pairs.append((by_torch[[0, -1]], exported.encode(alone, side, batch=1)))
    one, other = (np.concatenate(vectors).astype(np.float64) for vectors in zip(*pairs, strict=True))
    component, cosine = np.abs(one - other).max(), np.abs(one @ one.T - other @ other.T).max()
    return Differences(len(texts), texts.source, float(component), float(cosine))


def _some(rows: np.ndarray, count: int) -> np.ndarray:
    """(n,) rows -> at most `count` of them, evenly spaced."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(np.int64))]


def _long(texts: Sequence[str], tokens: int) -> str:
    """Return a text with more words than a number of tokens."""
    words = " ".join(texts).split() or ["a"]
    return " ".join(words * (tokens // len(words) + 1))


def _made_texts(encoder: Encoder) -> list[str]:
    """Return TEXTS texts of words of the vocabulary, of 1 word up to about the maximum length.

    Without chance: each text takes the next words, in steps that are no divisor of the vocabulary's size.
    """
    special = set(encoder.tokenizer.all_special_tokens)
    # Pieces of words have signs before them, such as ## or a mark of a space.
    words = sorted(
        {name.lstrip("#\u2581\u0120") for name in encoder.tokenizer.get_vocab() if name not in special} - {""}
    )
    # A word is one or a few tokens.
    longest = max(2, encoder.config.max_length // 2)
    lengths = [1 + number * 7 % longest for number in range(TEXTS)]
    starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    return [
        " ".join(words[(start + place) * 7919 % len(words)] for place in range(length))
        for start, length in zip(starts, lengths, strict=False)
    ]


def read_lines(file: Path) -> list[str]:
    """Return the first TEXTS lines of a file that are not empty."""
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadFile(
            f"{option('texts', file)} cannot be read ({reason}); give a UTF-8 file with one text a line"
        ) from error
    if not lines:
        raise BadFile(f"{option('texts', file)} has no text; give a UTF-8 file with one text a line")
    return lines[:TEXTS]
