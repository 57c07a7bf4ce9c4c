"""The reference of a matcher: what comparisons depend on beside the pool at hand, frozen when the matcher is trained.

Weights of 3-grams and words, and rarities of values, are made of counts over all texts of a task. A matcher keeps
those of its own task, with the names and types of its fields. So these comparisons of two records are the same numbers
whatever other records they are matched with. How a pair stands among the pairs of its two texts is of the pool at hand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.pairs import Rows
from al_ray.core.task import Corpus, Fields, FieldType
from al_ray.datasets.field_types import field_pairs, types_of
from al_ray.matcher.comparisons.frequencies import Frequencies
from al_ray.matcher.comparisons.frequency_arrays import frequency_arrays
from al_ray.matcher.comparisons.records import Field
from al_ray.search.lexical.grams import COLUMNS, DEFINITION
from al_ray.search.lexical.weights import DocumentFrequencies, GramWeights
from al_ray.training.saved_model import input_digest

Places = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Sides:
    """The fields of left and of right texts, in the order of their cells; () for texts of one column.

    symmetric: both sides are the same texts.
    """

    left: tuple[Field, ...]
    right: tuple[Field, ...]
    symmetric: bool

    @staticmethod
    def of(left: Corpus, right: Corpus) -> "Sides":
        """Return those of two corpora; types are guessed where they are not known."""
        one = _fields(left, right)
        return Sides(one, one if right is left else _fields(right, left), right is left)

    @property
    def shared(self) -> tuple[tuple[Field, ...], Places]:
        """Return the fields that both sides have, which are compared, and their places among those of each side."""
        left = _empty(self.left)
        pairs = field_pairs(left, left if self.symmetric else _empty(self.right))
        places = tuple(one.left for one in pairs), tuple(one.right for one in pairs)
        return tuple(Field(one.name, one.type) for one in pairs), places

    def typed(self, left: Corpus, right: Corpus) -> tuple[Corpus, Corpus]:
        """Return two corpora whose fields have these types: by name, or by place if no name is one of these.

        BadOption if a field is lacking, or if there are others.
        """
        one = _typed(left, self.left)
        return one, one if right is left else _typed(right, self.right)


@dataclass(frozen=True, eq=False)
class Reference:
    """Fields, and how often values, words and 3-grams occur in the texts of a matcher's task.

    frequencies: of the shared fields, and of whole texts. grams: of 3-grams. most: a 3-gram in more texts than this has
    no weight. dense: the cosine of dense texts (search/dense_texts.py); None if no text has more candidates.
    """

    sides: Sides
    frequencies: Frequencies
    grams: DocumentFrequencies
    most: int
    dense: float | None = None

    def weights(self, columns: Rows | None = None) -> GramWeights:
        """Return the weights of 3-grams; one that was not counted is the rarest, as a word that was not.

        columns: (k,) the 3-grams of the texts at hand, so that matrices of weights have no more columns than these
        need; None for any. No weight depends on it.
        """
        return GramWeights(self.grams, self.most, np.arange(COLUMNS) if columns is None else columns)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 digest of all of it."""
        fields = [[[field.name, field.type] for field in side] for side in (self.sides.left, self.sides.right)]
        arrays = frequency_arrays(self.frequencies)
        values = [DEFINITION, fields, self.sides.symmetric, self.grams.texts, self.most, list(arrays)]
        values += [] if self.dense is None else [self.dense]
        sizes = [len(array) for array in arrays.values()]
        return input_digest([*values, sizes], *(array.astype("<i8") for array in (self.grams.counts, *arrays.values())))


def _fields(corpus: Corpus, other: Corpus) -> tuple[Field, ...]:
    if corpus.fields is None:
        return ()
    types = corpus.fields.types or types_of(corpus, other)
    return tuple(Field(name, kind) for name, kind in zip(corpus.fields.names, types, strict=True))


def _empty(fields: Sequence[Field]) -> Corpus:
    """Return a corpus without texts of these fields."""
    if not fields:
        return Corpus((), ())
    types: tuple[FieldType, ...] = tuple(field.type for field in fields)
    cells = np.empty((0, len(fields)), dtype=np.int64)
    return Corpus((), (), Fields(tuple(field.name for field in fields), cells, types))


def _typed(corpus: Corpus, known: Sequence[Field]) -> Corpus:
    names, wanted = () if corpus.fields is None else corpus.fields.names, tuple(field.name for field in known)
    if len(names) != len(wanted) or set(names) & set(wanted) not in (set(), set(wanted)):
        lacking = ", ".join(_only(wanted, names)) if names else ""
        raise BadOption(
            f"the matcher compares the fields {', '.join(wanted) or 'of one text'}, and the texts have "
            f"{', '.join(names) or 'one text'}{f' (without {lacking})' if lacking else ''}; name as many text columns, "
            "in the same order (`MatchOptions.text_columns`)"
        )
    if corpus.fields is None:
        return corpus
    types: tuple[FieldType, ...] = tuple(field.type for field in known)
    if set(names) == set(wanted):
        by_name = dict(zip(wanted, types, strict=True))
        return replace(corpus, fields=replace(corpus.fields, types=tuple(by_name[name] for name in names)))
    # By place, under the names by which the matcher knows them.
    return replace(corpus, fields=replace(corpus.fields, names=wanted, types=types))


def _only(names: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    return (name for name in names if name not in others)
