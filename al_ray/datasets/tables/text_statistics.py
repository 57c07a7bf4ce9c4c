"""Statistics of texts before encoding: lengths, duplicates, and how many are truncated."""

from collections.abc import Iterator

import numpy as np

from al_ray.core.naming import option
from al_ray.datasets.tables.columns import Cells, compute

# How BERT's pre-tokenizer splits: each punctuation mark and each Han character is a word, other characters form words.
# It drops control characters and accents, so they neither split words nor are words.
PARTS = r"\s\p{Z}\p{P}\p{Han}!-/:-@\[-`{-~"
WORDS_AND_MARKS = rf"[\p{{P}}!-/:-@\[-`{{-~]|\p{{Han}}|[^{PARTS}\p{{C}}\p{{M}}\x{{fffd}}][^{PARTS}]*"
SPECIAL_PIECES = 2


def describe_lengths(texts: Cells, max_length: int) -> Iterator[str]:
    """Yield a line on lengths, and one on truncated texts if there are any."""
    letters = compute.utf8_length(texts).to_numpy()
    median, most = np.percentile(letters, [50, 95], method="inverted_cdf")
    yield f"characters: median {median:,}, 95% of texts up to {most:,}, longest {letters.max():,}"
    cut = count_truncated(texts, max_length)
    if cut:
        yield (
            f"texts cut at {option('max_length', max_length)}: at least {cut:,} (counts words and punctuation; "
            "encoders rarely have fewer tokens, often more)"
        )


def count_truncated(texts: Cells, max_length: int) -> int:
    """Count the texts with more words and punctuation marks than `max_length` less two special tokens."""
    room = max_length - SPECIAL_PIECES
    long = texts.filter(compute.greater(compute.utf8_length(texts), room))
    counts = compute.count_substring_regex(long, WORDS_AND_MARKS).to_numpy()
    return int((counts > room).sum())


def count_duplicates(texts: Cells) -> int:
    """Count the texts that also stand in an earlier row."""
    return len(texts) - compute.count_distinct(texts).as_py()
