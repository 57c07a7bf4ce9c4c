"""What the fields of texts hold: guessed by their values, or given by the user; and which fields two sides share.

The first of these rules that holds is the type of a field, by at most SAMPLED values of each side, empty ones apart:

1. date: 9 of 10 values are dates (field_values.py).
2. code: 9 of 10 values look like identifiers. These are digits, or digits and letters, in at most four words of six
   parts in all, none of them a long word (pslx350h, 0-395-19395-8, sw1a 1aa, +61 2 9555 1234). If they are numbers
   alone they must be long (at least 5 digits without a decimal sign) or begin with 0, have nearly the same length, and
   mostly be distinct.
3. number: 9 of 10 values are numbers (field_values.py).
4. category: there are few distinct values, each occurs 20 times on average, and they are short.
5. name: the values are short: at most 40 characters and 5 words in 19 of 20.
6. text: all else, and a field without any value.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast, get_args

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.task import Corpus, Fields, FieldType
from al_ray.datasets.field_values import parse_date, parse_number

SAMPLED = 5_000
MOSTLY, NEARLY_ALL = 0.9, 0.95
# Occurrences of a category on average, and its longest values.
REPEATED, SHORT = 20, 40
NAME_WORDS = 5
PARTS = re.compile(r"[\w+#]+")
LONG_WORD = re.compile(r"[^\W\d]{5,}")
LONG_NUMBER = re.compile(r"\d{5,}|0\d+")


@dataclass(frozen=True)
class FieldPair:
    """A field that both sides have: its name (on the left), its type, and its place among the fields of each side."""

    name: str
    type: FieldType
    left: int
    right: int


def field_pairs(left: Corpus, right: Corpus) -> tuple[FieldPair, ...]:
    """Return the fields that both sides have: by name if all names are equal, else by place if they are as many.

    () if the sides have another number of fields, or if each text is one column. Types are guessed where they are not
    known, as in older task folders.
    """
    places = _shared(left, right)
    if not places:
        return ()
    assert left.fields is not None
    types = left.fields.types or types_of(left, right)
    return tuple(FieldPair(left.fields.names[one], types[one], one, other) for one, other in places)


def types_of(left: Corpus, right: Corpus) -> tuple[FieldType, ...]:
    """Guess the types of the fields of the left texts, by the values of both sides where both have the field."""
    if left.fields is None:
        return ()
    partner = dict(_shared(left, right)) if right is not left else {}
    columns, others = _sampled(left), _sampled(right) if partner else []
    return tuple(
        guess_type([*column, *(others[partner[place]] if place in partner else ())])
        for place, column in enumerate(columns)
    )


def with_types(left: Corpus, right: Corpus, given: Mapping[str, FieldType]) -> tuple[Corpus, Corpus]:
    """Return both sides with the types of their fields: the given ones by name, else those known, else guesses.

    A field that both sides have is given by its name on the left, and has one type.
    """
    one = _typed(left, (left.fields.types if left.fields else ()) or types_of(left, right), given)
    if right is left:
        return one, one
    other = _typed(right, (right.fields.types if right.fields else ()) or types_of(right, left), given)
    places = _shared(left, right)
    if places and one.fields is not None and other.fields is not None:
        types = {at: one.fields.types[place] for place, at in places}
        other = replace(other, fields=replace(other.fields, types=tuple(types[at] for at in sorted(types))))
    return one, other


def describe_types(left: Corpus, right: Corpus) -> tuple[str, ...]:
    """Return the lines of the report on what the fields were taken for."""
    sides = [("fields", left)] if right is left or _shared(left, right) else [("left", left), ("right", right)]
    return tuple(
        f"{name}: {', '.join(map(' is '.join, zip(corpus.fields.names, corpus.fields.types, strict=True)))} (to change "
        "a type: `fields='NAME:TYPE'`)"
        for name, corpus in sides
        if corpus.fields is not None
    )


def parse_types(words: Sequence[str], columns: Sequence[str]) -> dict[str, FieldType]:
    """Return the types by column that --fields gives, as NAME:TYPE; BadOption for what does not exist."""
    there, types = ", ".join(map(repr, columns)), get_args(FieldType)
    if len(columns) < 2:
        raise BadOption(f"`fields` goes with several `text_columns`; the one column {there} is a text")
    given = dict[str, FieldType]()
    for word in words:
        name, _, kind = word.rpartition(":")
        if not name or kind not in types:
            raise BadOption(f"`fields` has {word!r}; give NAME:TYPE, where TYPE is one of {', '.join(types)}")
        if name not in columns:
            raise BadOption(f"`fields` names {name!r}, which is no text column; these are: {there}")
        if name in given:
            raise BadOption(f"`fields` gives {name!r} twice; give each column one type")
        given[name] = cast(FieldType, kind)
    return given


def guess_type(values: Sequence[str]) -> FieldType:
    """Return the type of a field with these values; see the rules above."""
    there = [value for value in map(str.strip, values) if value]
    if not there:
        return "text"
    if _share([parse_date(value) is not None for value in there]) >= MOSTLY:
        return "date"
    numbers = [parse_number(value) is not None for value in there]
    if _are_codes(there, numbers):
        return "code"
    if _share(numbers) >= MOSTLY:
        return "number"
    lengths = np.array([len(value) for value in there])
    distinct = len({value.casefold() for value in there})
    if distinct * REPEATED <= len(there) and np.quantile(lengths, NEARLY_ALL) <= SHORT:
        return "category"
    short = [len(value) <= SHORT and len(value.split()) <= NAME_WORDS for value in there]
    return "name" if _share(short) >= NEARLY_ALL else "text"


def _are_codes(values: Sequence[str], numbers: Sequence[bool]) -> bool:
    if _share([_like_code(value) for value in values]) < MOSTLY:
        return False
    if _share(numbers) < MOSTLY:
        return True
    # Whole numbers: identifiers are long or begin with 0, are about as long as each other, and seldom repeat.
    digits = [value for value, number in zip(values, numbers, strict=True) if number]
    lengths = np.array([len(value) for value in digits])
    alike = lengths.max() - np.quantile(lengths, 1 - NEARLY_ALL) <= 1
    zeros = any(value.startswith("0") and value.isdigit() and len(value) > 1 for value in digits)
    long = _share([LONG_NUMBER.fullmatch(value) is not None for value in digits]) >= MOSTLY
    return (long and alike and len(set(digits)) * 2 > len(digits)) or (zeros and bool(lengths.min() == lengths.max()))


def _like_code(value: str) -> bool:
    digits = sum(map(str.isdigit, value))
    parts = len(PARTS.findall(value))
    return digits > 0 and len(value) <= SHORT and len(value.split()) <= 4 and parts <= 6 and not LONG_WORD.search(value)


def _share(mask: Sequence[bool]) -> float:
    return sum(mask) / len(mask) if mask else 0.0


def _sampled(corpus: Corpus) -> list[list[str]]:
    """Return values of each field, of texts that lie evenly in the corpus."""
    assert corpus.fields is not None
    rows = np.unique(np.linspace(0, max(len(corpus) - 1, 0), min(SAMPLED, len(corpus))).astype(np.int64))
    cells = corpus.cells(rows)
    return [[row[place] for row in cells] for place in range(len(corpus.fields.names))]


def _shared(left: Corpus, right: Corpus) -> list[tuple[int, int]]:
    """Return the places (left, right) of the fields that both sides have."""
    if left.fields is None or right.fields is None or len(left.fields.names) != len(right.fields.names):
        return []
    names, others = left.fields.names, right.fields.names
    if len(set(names)) == len(names) and set(names) == set(others):
        return [(place, others.index(name)) for place, name in enumerate(names)]
    return [(place, place) for place in range(len(names))]


def _typed(corpus: Corpus, types: Sequence[FieldType], given: Mapping[str, FieldType]) -> Corpus:
    fields: Fields | None = corpus.fields
    if fields is None:
        return corpus
    chosen = tuple(given.get(name, kind) for name, kind in zip(fields.names, types, strict=True))
    return replace(corpus, fields=replace(fields, types=chosen))
