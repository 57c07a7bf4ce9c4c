"""Generate a task of any size: questions with paraphrase clusters and near misses.

A FAMILY is a table of two entities, which differ in one word (their variant), and three intents. Each of its six cells
is a CLUSTER of one to six questions with the same meaning in different words. Two cells in one row or column of the
table are near misses: the same question about the other entity, or another question about the same entity, often in the
same words. A family lies in one split, so that its near misses can be stated negatives. The number of families grows
with the task, so that about 1 pair in N is positive. Splits have the same intents and phrases, but different entities.

All is drawn in parts of PART, so that memory grows by some 40 bytes a text; the texts are written when they are read.
Tasks of more than SHORT_NAMES texts need more entities: most of their names have a middle, as in Alderenarch.

With 4,000 texts and seed 0, all-MiniLM-L6-v2 has AP 0.33 (dev) and 0.28 (test) untrained, its first two layers 0.08 and
0.07. A change of the questions of a seed makes earlier results incomparable.
"""

import logging
from collections.abc import Iterator
from itertools import combinations
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.pairs import Keys, PairSpace
from al_ray.core.rng import generator
from al_ray.core.task import SPLITS, Corpus, Split, Task
from al_ray.datasets.splitting import Numbers, deal_sizes
from al_ray.datasets.synthetic_questions import ENTITIES, Bytes, Ints, Questions, base_counts
from al_ray.datasets.synthetic_vocabulary import DOMAINS
from al_ray.datasets.task_folder import sealed

LEAST, MOST = 100, 100_000_000
SHORT_NAMES = 10_000_000
SHARES = (0.5, 0.25, 0.25)
INTENTS = 3
CELLS = ENTITIES * INTENTS
# Near misses of a family: pairs of its cells in one row or column of the table.
NEAR = [(a, b) for a, b in combinations(range(CELLS), 2) if a // INTENTS == b // INTENTS or a % INTENTS == b % INTENTS]
# Probability of 1, 2 ... 6 questions in a cluster: a question has 0.9 partners, so 1 pair in 1.1 N is positive.
SIZES = (0.80, 0.11, 0.05, 0.02, 0.013, 0.007)
# Probability that an entity is written in its second form.
SECOND_FORM = 0.1
# What is drawn at once. No draw depends on it: a generator gives the same numbers in parts.
PART = 2**18
Scalar = TypeVar("Scalar", bound=np.generic)

log = logging.getLogger(__name__)


def synthetic_task(texts: int, seed: int) -> Task:
    """Return a symmetric task of exactly `texts` distinct questions, with as many stated near misses as positives."""
    if not LEAST <= texts <= MOST:
        raise BadOption(f"`texts` is {texts}; give {LEAST} to {MOST}")
    questions, splits = _draw_splits(texts, seed)
    corpus = Corpus(questions.ids(), questions.texts())
    log.info("computing the digest of their texts")
    return sealed("synthetic", True, corpus, corpus, splits)


def _draw_splits(texts: int, seed: int) -> tuple[Questions, dict[str, Split]]:
    questions, families, positives, negatives = _draw(texts, generator(seed, "synthetic"))
    log.info("splitting them")
    split_of_family = deal_sizes(families, SHARES, generator(seed, "split")).astype(np.int8)
    split_of = np.empty(texts, dtype=np.int8)
    for part in _parts(texts):
        split_of[part] = split_of_family[questions.entity[part] // ENTITIES]
    return questions, {name: _split(name, split_of, positives, negatives) for name in SPLITS}


def _split(name: str, split_of: Bytes, positives: Keys, negatives: Keys) -> Split:
    """Return a split; split_of: (n,) of all texts. positives, negatives: sorted keys, each within one split."""
    number, width = SPLITS.index(name), len(split_of)
    rows = np.flatnonzero(split_of == number)
    space = PairSpace(rows, rows, width, symmetric=True)
    own = (keys[split_of[keys // width] == number] for keys in (positives, negatives))
    return Split(name, space, *map(space.pairs, own))


def _draw(texts: int, rng: np.random.Generator) -> tuple[Questions, Numbers, Keys, Keys]:
    """Draw the questions, the number of questions of each family, and the sorted keys of positives and negatives."""
    log.info("drawing clusters of %s questions, and their near misses", f"{texts:,}")
    sizes = _cluster_sizes(texts, rng)
    starts = np.cumsum(sizes, dtype=np.int32) - sizes
    near = _near_misses(sizes, starts, rng)
    # Questions are shuffled, so that a row does not reveal its cluster: question q has row place[q].
    place = _moved(np.arange(texts, dtype=np.int32), _shuffled(texts, rng))
    negatives = _keys(place, *near)
    del near
    positives = _positives(sizes, starts, place)
    log.info("drawing the words of %s questions of %s clusters", f"{texts:,}", f"{len(sizes):,}")
    questions = _questions(sizes, starts, place, rng)
    families = np.add.reduceat(sizes, np.arange(0, len(sizes), CELLS), dtype=np.int64)
    return questions, families, positives, negatives


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, min(start + PART, count)) for start in range(0, count, PART))


def _shuffled(count: int, rng: np.random.Generator) -> Ints:
    """Draw what rng.permutation(count) draws, in half the memory."""
    order = np.arange(count, dtype=np.int32)
    rng.shuffle(order)
    return order


def _moved(values: npt.NDArray[Scalar], to: Ints) -> npt.NDArray[Scalar]:
    """Return an array (n,) with value i in place to[i]."""
    moved = np.empty_like(values)
    for part in _parts(len(to)):
        moved[to[part]] = values[part]
    return moved


def _cluster_sizes(texts: int, rng: np.random.Generator) -> Bytes:
    """Draw sizes of clusters; the last one is reduced so that they add up to `texts`."""
    sizes = np.empty(texts, dtype=np.int8)
    for part in _parts(texts):
        sizes[part] = rng.choice(np.arange(1, len(SIZES) + 1), size=part.stop - part.start, p=SIZES)
    ends = np.cumsum(sizes, dtype=np.int32)
    count = int(np.searchsorted(ends, texts)) + 1
    sizes[count - 1] -= ends[count - 1] - texts
    return sizes[:count].copy()


def _near_misses(sizes: Bytes, starts: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw pairs of questions of two cells in one row or column of a family: (n,) left and (n,) right questions.

    sizes, starts: (cells,) number of questions of each cell, and its first question.
    """
    whole, rest = divmod(len(sizes), CELLS)
    # The last family may be incomplete: its near misses follow those of a whole one in the table.
    last = [pair for pair in NEAR if max(pair) < rest]
    table = np.array(NEAR + last)
    positives = int((sizes * (sizes - 1) // 2).sum())
    chosen = _shuffled(whole * len(NEAR) + len(last), rng)[:positives].copy()
    drawn = np.empty(len(chosen), dtype=np.int32), np.empty(len(chosen), dtype=np.int32)
    for side, questions in enumerate(drawn):
        for part in _parts(len(chosen)):
            family, number = np.divmod(chosen[part], len(NEAR))
            cell = family * CELLS + table[number + np.where(family == whole, len(NEAR), 0), side]
            questions[part] = starts[cell] + rng.integers(0, sizes[cell].astype(np.int64))
    return drawn


def _keys(place: Ints, left: Ints, right: Ints) -> Keys:
    """Return the sorted keys (n,) of pairs of questions (n,), (n,)."""
    keys = np.empty(len(left), dtype=np.int64)
    for part in _parts(len(left)):
        rows = place[left[part]].astype(np.int64), place[right[part]].astype(np.int64)
        keys[part] = np.minimum(*rows) * len(place) + np.maximum(*rows)
    keys.sort()
    return keys


def _positives(sizes: Bytes, starts: Ints, place: Ints) -> Keys:
    """Return the sorted keys of all pairs of questions of one cell."""
    left, right = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.int32)]
    for size in range(2, len(SIZES) + 1):
        first = starts[sizes == size]
        for one, other in combinations(range(size), 2):
            left.append(first + np.int32(one))
            right.append(first + np.int32(other))
    return _keys(place, np.concatenate(left), np.concatenate(right))


def _questions(sizes: Bytes, starts: Ints, place: Ints, rng: np.random.Generator) -> Questions:
    """Draw the words of all questions."""
    texts, families, long = len(place), -(-len(sizes) // CELLS), len(place) > SHORT_NAMES
    base = np.empty(families, dtype=np.int32)
    for domain, count in enumerate(base_counts(long).tolist()):
        own = base[domain :: len(DOMAINS)]
        own[:] = _shuffled(count, rng)[: len(own)]
    intents = np.empty((families, INTENTS), dtype=np.int8)
    for part in _parts(families):
        intents[part] = _orders(part, len(DOMAINS[0].intents), rng)[:, :INTENTS]
    template, entity = np.empty(texts, dtype=np.int16), np.empty(texts, dtype=np.int32)
    for part in _parts(len(sizes)):
        # Questions of one cluster have different phrases, so that no two are equal.
        cell = np.repeat(np.arange(part.start, part.stop), sizes[part])
        question = np.arange(len(cell)) + int(starts[part.start])
        phrase = _orders(part, len(SIZES), rng)[cell - part.start, question - starts[cell]]
        family, (own, intent) = cell // CELLS, np.divmod(cell % CELLS, INTENTS)
        subject = (family % len(DOMAINS)) * len(DOMAINS[0].intents) + intents[family, intent]
        template[question] = subject * len(SIZES) + phrase
        entity[question] = family * ENTITIES + own
    frames = len(DOMAINS[0].frames)
    for part in _parts(texts):
        template[part] = template[part] * frames + rng.integers(0, frames, part.stop - part.start)
    for part in _parts(texts):
        template[part] = template[part] * 2 + (rng.random(part.stop - part.start) < SECOND_FORM)
    return Questions(_moved(template, place), _moved(entity, place), base, long)


def _orders(part: slice, width: int, rng: np.random.Generator) -> Numbers:
    """Draw an order of `width` things for each member of a part: (members, width)."""
    return np.argsort(rng.random((part.stop - part.start, width), dtype=np.float32), axis=1)
