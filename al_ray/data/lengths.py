"""What can be said of texts before an encoder sees them: how long they are, how many are alike, how many are cut."""

from collections.abc import Iterator

import numpy as np

from al_ray.data.sheet import Cells, compute

# What BERT's splitter parts: punctuation marks and Han signs each for themselves, and whatever else stands together.
# Control characters and accents it leaves out, so they neither part nor make a word.
PARTS = r"\s\p{Z}\p{P}\p{Han}!-/:-@\[-`{-~"
WORDS_AND_MARKS = rf"[\p{{P}}!-/:-@\[-`{{-~]|\p{{Han}}|[^{PARTS}\p{{C}}\p{{M}}\x{{fffd}}][^{PARTS}]*"
SPECIAL_PIECES = 2


def lengths(texts: Cells, max_length: int) -> Iterator[str]:
    """A line on lengths, and one on texts that are cut where there are some."""
    letters = compute.utf8_length(texts).to_numpy()
    median, most = np.percentile(letters, [50, 95], method="inverted_cdf")
    yield f"characters: median {median:,}, 95% of texts up to {most:,}, longest {letters.max():,}"
    cut = surely_cut(texts, max_length)
    if cut:
        yield (
            f"texts cut at --max-length {max_length}: at least {cut:,} (words and marks are counted; "
            "an encoder's word pieces are hardly ever fewer, often more)"
        )


def surely_cut(texts: Cells, max_length: int) -> int:
    """How many texts have more words and marks than an encoder takes word pieces, its two special ones aside."""
    room = max_length - SPECIAL_PIECES
    long = texts.filter(compute.greater(compute.utf8_length(texts), room))
    counts = compute.count_substring_regex(long, WORDS_AND_MARKS).to_numpy()
    return int((counts > room).sum())


def duplicates(texts: Cells) -> int:
    """How many texts stand in an earlier row too."""
    return len(texts) - compute.count_distinct(texts).as_py()
