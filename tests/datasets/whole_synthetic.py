"""A slow twin of the synthetic task: all draws at once, all texts as Python strings.

It is the code by which the tasks of docs/results.md were made. `al_ray.datasets.synthetic` draws the same in parts.
"""

from collections.abc import Iterator

import numpy as np

from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, Task
from al_ray.datasets.splitting import Numbers, deal, symmetric_task
from al_ray.datasets.synthetic_vocabulary import DOMAINS

SHARES = (0.5, 0.25, 0.25)
ENTITIES, INTENTS = 2, 3
CELLS = ENTITIES * INTENTS
SIZES = (0.80, 0.11, 0.05, 0.02, 0.013, 0.007)
SECOND_FORM = 0.1


def whole_synthetic_task(texts: int, seed: int, names: list[str]) -> Task:
    """Return the task of this number of texts and seed; names: of the entities."""
    rng = generator(seed, "synthetic")
    sizes = _cluster_sizes(texts, rng)
    cell = np.repeat(np.arange(len(sizes)), sizes)
    negatives = _near_misses(sizes, rng)
    # Questions are shuffled, so that a row does not reveal its cluster: row r is question order[r].
    order = rng.permutation(texts)
    place = np.empty_like(order)
    place[order] = np.arange(texts)
    corpus = Corpus(tuple(f"s{row}" for row in range(texts)), tuple(_questions(cell, sizes, order, names, rng)))
    split_of = deal(cell[order] // CELLS, SHARES, generator(seed, "split"))
    return symmetric_task("synthetic", corpus, cell[order], place[negatives], split_of)


def _cluster_sizes(texts: int, rng: np.random.Generator) -> Numbers:
    """Draw sizes of clusters; the last one is reduced so that they add up to `texts`."""
    sizes = rng.choice(np.arange(1, len(SIZES) + 1), size=texts, p=SIZES)
    ends = np.cumsum(sizes)
    count = int(np.searchsorted(ends, texts)) + 1
    sizes[count - 1] -= ends[count - 1] - texts
    return sizes[:count]


def _near_misses(sizes: Numbers, rng: np.random.Generator) -> Pairs:
    """Draw pairs of questions of two cells in one row or column of a family."""
    cells = np.arange(len(sizes))
    first = cells - cells % CELLS
    entity, intent = np.divmod(cells % CELLS, INTENTS)
    other_intent = first + entity * INTENTS + (intent + 1) % INTENTS
    other_entity = first + (entity + 1) % ENTITIES * INTENTS + intent
    left, right = np.concatenate([cells, cells]), np.concatenate([other_intent, other_entity])
    # A cycle of two cells gives one pair, not two; the last family may be incomplete.
    low, high = np.minimum(left, right), np.maximum(left, right)
    left, right = np.divmod(np.unique((low * len(sizes) + high)[high < len(sizes)]), len(sizes))
    positives = int((sizes * (sizes - 1) // 2).sum())
    chosen = rng.permutation(len(left))[:positives]
    starts = np.cumsum(sizes) - sizes
    sides = (starts[side[chosen]] + rng.integers(0, sizes[side[chosen]]) for side in (left, right))
    return as_pairs(*sides)


def _questions(
    cell: Numbers, sizes: Numbers, order: Numbers, names: list[str], rng: np.random.Generator
) -> Iterator[str]:
    """Yield the questions in this order; cell: (n,) the cell of each question."""
    families = int(cell[-1]) // CELLS + 1
    entities = _entities(families, names, rng)
    intents = np.argsort(rng.random((families, len(DOMAINS[0].intents)), dtype=np.float32), axis=1)[:, :INTENTS]
    # Questions of one cluster have different phrases, so that no two are equal.
    number = np.arange(len(cell)) - (np.cumsum(sizes) - sizes)[cell]
    phrase = np.argsort(rng.random((len(sizes), len(SIZES)), dtype=np.float32), axis=1)[cell, number]
    family, (entity, intent) = cell // CELLS, np.divmod(cell % CELLS, INTENTS)
    frames = len(DOMAINS[0].frames)
    template = (family % len(DOMAINS)) * len(DOMAINS[0].intents) + intents[family, intent]
    template = (template * len(SIZES) + phrase) * frames + rng.integers(0, frames, len(cell))
    form = (rng.random(len(cell)) < SECOND_FORM).astype(np.int64)
    entity = (family * ENTITIES + entity) * 2 + form
    before, after = _templates()
    for t, e in zip(template[order].tolist(), entity[order].tolist(), strict=True):
        yield before[t] + entities[e] + after[t]


def _templates() -> tuple[list[str], list[str]]:
    """Return the text before and after the entity for each domain, intent, phrase and frame, numbered in that order."""
    whole = [
        frame.format(phrase)
        for domain in DOMAINS
        for phrases in domain.intents
        for phrase in phrases
        for frame in domain.frames
    ]
    before, after = zip(*(text.split("{x}") for text in whole), strict=True)
    return list(before), list(after)


def _entities(families: int, names: list[str], rng: np.random.Generator) -> list[str]:
    """Draw the entities of each family, each in its two forms. Family f is of domain f mod 5; entities are distinct."""
    entities = [""] * (families * ENTITIES * 2)
    for number, domain in enumerate(DOMAINS):
        members = range(number, families, len(DOMAINS))
        shape = (len(names), len(domain.kinds), len(domain.variants) // ENTITIES)
        bases = np.unravel_index(rng.permutation(np.prod(shape))[: len(members)], shape)
        for family, name, kind, part in zip(members, *(base.tolist() for base in bases), strict=True):
            for entity in range(ENTITIES):
                variant = domain.variants[part * ENTITIES + entity]
                for form, words in enumerate(domain.forms):
                    text = words.format(name=names[name], kind=domain.kinds[kind], variant=variant)
                    entities[(family * ENTITIES + entity) * 2 + form] = text
    return entities
