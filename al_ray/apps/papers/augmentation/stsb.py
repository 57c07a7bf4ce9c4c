"""The STS benchmark: pairs of sentences with scores from 0 to 5, rescaled to 0 to 1 (paper 003).

The source's code truncates the rescaled scores before it trains its cross-encoder (`int(float(score))`: 0 for all but
the highest). We do not.
"""

from pathlib import Path

import numpy as np

from al_ray.apps.papers.augmentation.options import Gold, Scored
from al_ray.apps.papers.mining.miners import Pool
from al_ray.core.errors import BadFile
from al_ray.core.pairs import as_pairs
from al_ray.core.task import SPLITS
from al_ray.datasets.tsv import TextTable

SCORE, FIRST, SECOND = 4, 5, 6
"""Columns: genre, file, year, id, score, sentence1, sentence2, and more in some rows."""
HIGHEST = 5.0


def read_stsb(folder: Path) -> Gold:
    """Read sts-{train,dev,test}.csv (tab-separated, no quoting); equal sentences are one text. BadFile if not valid.

    The pool is that of the source: first sentences of train with second sentences of train.
    """
    texts, scored = TextTable(), dict[str, Scored]()
    for split in SPLITS:
        path = folder / f"sts-{split}.csv"
        try:
            lines = path.read_bytes().decode("utf-8").split("\n")
        except OSError as error:
            raise BadFile(
                f"{path} cannot be read ({error.strerror}); give `gold='stsb:FOLDER'` with its files"
            ) from error
        except UnicodeDecodeError as error:
            raise BadFile(f"{path} is not UTF-8 ({error.reason} at byte {error.start}); restore it") from error
        rows = [_parsed(f"{path}:{number}", line) for number, line in enumerate(lines, start=1) if line.strip()]
        if not rows:
            raise BadFile(f"{path} holds no pair; restore it")
        left, right = (
            [texts.row(text, text) for text in side] for side in zip(*(pair for _, pair in rows), strict=True)
        )
        scored[split] = Scored(as_pairs(left, right), np.array([score for score, _ in rows]) / HIGHEST)
    train = scored.pop("train")
    pool = Pool(tuple(texts.texts), np.unique(train.pairs[:, 0]), np.unique(train.pairs[:, 1]))
    return Gold("stsb", pool, train, scored)


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
