"""Write ids and texts of synthetic questions block by block, from numbers of templates and entities."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from al_ray.core.pairs import Rows
from al_ray.datasets.strings import AT_ONCE, Block, Strings, compute
from al_ray.datasets.synthetic_vocabulary import DOMAINS, ENDS, MIDDLES, STARTS

Bytes = npt.NDArray[np.int8]
Shorts = npt.NDArray[np.int16]
Ints = npt.NDArray[np.int32]

ENTITIES = 2
SLOTS = ("name", "kind", "variant")
KINDS = np.array([len(domain.kinds) for domain in DOMAINS])
VARIANTS = np.array([len(domain.variants) for domain in DOMAINS])
# Blocks of texts that stay in memory after they were read.
CACHED = 8


def names(long: bool) -> list[str]:
    """Return the names of entities; long: four times as many, of which three quarters have a middle."""
    return [start + middle + end for start in STARTS for middle in MIDDLES[: None if long else 1] for end in ENDS]


def base_counts(long: bool) -> Rows:
    """Return the number of bases (5,) of each domain: a base is a name, a kind, and a variant for each entity."""
    return len(names(long)) * KINDS * (VARIANTS // ENTITIES)


@dataclass(frozen=True, eq=False)
class Questions:
    """n questions, in the order of rows: 6 bytes each, and 4 for each family.

    template: (n,) numbers of `_templates`. entity: (n,) 2 f + e for entity e of family f, which is of domain f mod 5.
    base: (families,) numbers below `base_counts(long)`, which are distinct within a domain.
    """

    template: Shorts
    entity: Ints
    base: Ints
    long: bool

    def ids(self) -> Strings:
        """Return the ids (n,), which are written when they are read: s and the row."""
        return Strings(self._sizes(), self._ids)

    def texts(self) -> Strings:
        """Return the texts (n,), which are written when they are read."""
        return Strings(self._sizes(), lru_cache(CACHED)(self._texts))

    def _sizes(self) -> list[int]:
        whole, rest = divmod(len(self.template), AT_ONCE)
        return [AT_ONCE] * whole + [rest] * bool(rest)

    def _ids(self, block: int) -> Block:
        rows = np.arange(block * AT_ONCE, min((block + 1) * AT_ONCE, len(self.template)))
        return _join([pa.array(["s"], pa.large_string())[0], pa.array(rows).cast(pa.large_string())])

    def _texts(self, block: int) -> Block:
        rows = slice(block * AT_ONCE, (block + 1) * AT_ONCE)
        family, entity = np.divmod(self.entity[rows], ENTITIES)
        domain = family % len(DOMAINS)
        # As np.unravel_index of the base in (names, kinds, variants / 2), but with another shape for each domain.
        base, part = np.divmod(self.base[family], (VARIANTS // ENTITIES)[domain])
        name, kind = np.divmod(base, KINDS[domain])
        words, starts = _words(self.long)
        number = starts[:, domain] + np.stack([name, kind, part * ENTITIES + entity])
        literals, slots = _templates()
        template, columns = pa.array(self.template[rows]), list[Block]()
        for place, literal in enumerate(literals):
            columns.append(literal.take(template))
            if place < len(SLOTS):
                slot = slots[place][self.template[rows]]
                columns.append(words.take(pa.array(number[slot, np.arange(len(slot))])))
        return _join(columns)


def _join(columns: list[Block]) -> Block:
    return compute.binary_join_element_wise(*columns, pa.scalar("", pa.large_string()))


@cache
def _words(long: bool) -> tuple[Block, Rows]:
    """Return all names, kinds and variants, and where those of each slot and domain (3, 5) begin."""
    own = names(long)
    kinds = [kind for domain in DOMAINS for kind in domain.kinds]
    variants = [variant for domain in DOMAINS for variant in domain.variants]
    starts = np.zeros((len(SLOTS), len(DOMAINS)), dtype=np.int64)
    starts[1] = len(own) + np.cumsum(KINDS) - KINDS
    starts[2] = len(own) + len(kinds) + np.cumsum(VARIANTS) - VARIANTS
    return pa.array([*own, *kinds, *variants], pa.large_string()), starts


@cache
def _templates() -> tuple[list[Block], list[Bytes]]:
    """Return the templates in the order of domain, intent, phrase, frame and form.

    A template is a literal, a word, a literal, a word, a literal, a word and a literal. Returns its literals, four
    arrays (templates,), and which of SLOTS the three words fill, three arrays (templates,).
    """
    parts = [
        re.split(r"\{(\w+)\}", frame.format(phrase).format(x=form))
        for domain in DOMAINS
        for phrases in domain.intents
        for phrase in phrases
        for frame in domain.frames
        for form in domain.forms
    ]
    columns = list(zip(*parts, strict=True))
    literals = [pa.array(column, pa.large_string()) for column in columns[::2]]
    return literals, [np.array([SLOTS.index(slot) for slot in column], dtype=np.int8) for column in columns[1::2]]
