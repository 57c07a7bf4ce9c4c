"""The STS benchmark: pairs of sentences with a score from 0 to 5, here as fractions from 0 to 1 (paper 003).

The source's code makes whole numbers of the scores before it trains its cross-encoder (`int(float(score))`, of scores
from 0 to 1: 0 for all but the highest); we do not.
"""

from pathlib import Path

import numpy as np

from al_ray.apps.augmentation.options import Gold, Scored
from al_ray.apps.mining.miners import Pool
from al_ray.core.errors import BadFile
from al_ray.core.pairs import as_pairs
from al_ray.core.task import SPLITS
from al_ray.datasets.tsv import TextTable

SCORE, FIRST, SECOND = 4, 5, 6
"""Columns of genre, file, year, id, score, sentence1, sentence2, and in some rows more."""
HIGHEST = 5.0


def read_stsb(folder: Path) -> Gold:
    """The pairs of sts-{train,dev,test}.csv: tab-separated, quoting off. A sentence is one text wherever it stands.

    The pool is the source's: first sentences of train with second ones.
    """
    texts, found = TextTable(), dict[str, Scored]()
    for split in SPLITS:
        path = folder / f"sts-{split}.csv"
        try:
            lines = path.read_bytes().decode("utf-8").split("\n")
        except OSError as error:
            raise BadFile(f"{path} cannot be read ({error.strerror}); give --gold stsb:FOLDER of its files") from error
        except UnicodeDecodeError as error:
            raise BadFile(f"{path} is not UTF-8 ({error.reason} at byte {error.start}); restore it") from error
        rows = [_parsed(f"{path}:{number}", line) for number, line in enumerate(lines, start=1) if line.strip()]
        if not rows:
            raise BadFile(f"{path} holds no pair; restore it")
        left, right = (
            [texts.row(text, text) for text in side] for side in zip(*(pair for _, pair in rows), strict=True)
        )
        found[split] = Scored(as_pairs(left, right), np.array([score for score, _ in rows]) / HIGHEST)
    train = found.pop("train")
    pool = Pool(tuple(texts.texts), np.unique(train.pairs[:, 0]), np.unique(train.pairs[:, 1]))
    return Gold("stsb", pool, train, found)


def _parsed(place: str, line: str) -> tuple[float, tuple[str, str]]:
    row = line.removesuffix("\r").split("\t")
    if len(row) <= SECOND:
        raise BadFile(f"{place}: it has {len(row)} columns, not {SECOND + 1} or more; restore the file")
    try:
        score = float(row[SCORE])
    except ValueError:
        score = -1.0
    if not 0 <= score <= HIGHEST:
        raise BadFile(f"{place}: its score is {row[SCORE]!r}, not a number from 0 to 5; restore the file")
    one, other = row[FIRST].strip(), row[SECOND].strip()
    if not one or not other:
        raise BadFile(f"{place}: a sentence is empty; restore the file")
    return score, (one, other)
