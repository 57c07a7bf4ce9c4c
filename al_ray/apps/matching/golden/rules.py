"""The rules by which the value of a field of a golden record is chosen among those of the records of its cluster.

Each rule gives every record a rank, and the value of the record with the highest rank is taken. Records without a value
come last, and ties go to the first record in the order of ids. Ranks are compared within a cluster alone, so clusters
can be processed in parts.
"""

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from al_ray.apps.matching.golden.times import TimeColumns
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.pairs import Mask, Rows
from al_ray.core.scorer import Floats

EVERY = "*"
"""Stands for all text columns that have no rule of their own."""


@dataclass(frozen=True)
class Members:
    """The (n,) records of whole clusters, in the order of records.

    clusters: (n,) the number of each record's cluster. cells: a column or a field -> its cells (n,), "" for none.
    filled, characters: (n,) how many of the fields of golden records are not empty, and how many characters they have.
    canonical: (n,) whether a record is the canonical one of its cluster. times: how to read the columns of dates.
    """

    clusters: Rows
    cells: Callable[[str], Sequence[str]]
    filled: Rows
    characters: Rows
    canonical: Mask
    times: TimeColumns


@dataclass(frozen=True)
class FieldRule:
    """How the value of one field is chosen. column: whose cells decide, "" for none. order: of `first`, best first."""

    kind: str
    column: str = ""
    order: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the rule as it is given."""
        order = f"={','.join(self.order)}" if self.order else ""
        return f"{self.kind}:{self.column}{order}" if self.column else self.kind

    def ranks(self, members: Members, values: Sequence[str]) -> Floats:
        """Return the rank (n,) of each record, the highest for the best. values: (n,) of the field."""
        return GOLDEN_RULES[self.kind].ranks(self, members, values)


Ranks = Callable[[FieldRule, Members, Sequence[str]], Floats]


@dataclass(frozen=True)
class GoldenRule:
    """A kind of rule. form: what follows its name, "" for nothing. summary: for help, after "the value"."""

    form: str
    summary: str
    ranks: Ranks

    def parse(self, kind: str, rest: str) -> FieldRule | None:
        """Return the rule of this kind with what follows its name; None if that has another form."""
        if self.form == "":
            return None if rest else FieldRule(kind)
        if self.form == ":COLUMN":
            return FieldRule(kind, rest[1:]) if len(rest) > 1 else None
        column, _, value = rest[1:].rpartition("=")
        return FieldRule(kind, column, (value.strip(),)) if column and value.strip() else None


def _frequency(rule: FieldRule, members: Members, values: Sequence[str]) -> Floats:
    pairs = list(zip(members.clusters.tolist(), values, strict=True))
    counts = Counter(pairs)
    return np.array([counts[pair] for pair in pairs], dtype=np.float64)


def _lengths(rule: FieldRule, members: Members, values: Sequence[str]) -> Floats:
    return np.array([len(value) for value in values], dtype=np.float64)


def _times(rule: FieldRule, members: Members, values: Sequence[str]) -> Floats:
    """Return the time of each record; one without a time comes last."""
    return members.times.read(rule.column, members.cells(rule.column), -np.inf)


def _times_backwards(rule: FieldRule, members: Members, values: Sequence[str]) -> Floats:
    return -members.times.read(rule.column, members.cells(rule.column), np.inf)


def _priorities(rule: FieldRule, members: Members, values: Sequence[str]) -> Floats:
    places = {value: len(rule.order) - at for at, value in reversed(list(enumerate(rule.order)))}
    return np.array([places.get(cell, 0) for cell in members.cells(rule.column)], dtype=np.float64)


def _completeness(rule: FieldRule, members: Members, values: Sequence[str]) -> Floats:
    # The share of characters is below 1, so it only orders records with as many fields.
    return members.filled + members.characters / (members.characters.max(initial=0) + 1.0)


def _canonical(rule: FieldRule, members: Members, values: Sequence[str]) -> Floats:
    return members.canonical.astype(np.float64)


GOLDEN_RULES: Mapping[str, GoldenRule] = {
    "most-frequent": GoldenRule("", "that most records have", _frequency),
    "longest": GoldenRule("", "with the most characters", _lengths),
    "newest": GoldenRule(":COLUMN", "of the record whose date or number in COLUMN is the highest", _times),
    "oldest": GoldenRule(":COLUMN", "of the record whose date or number in COLUMN is the lowest", _times_backwards),
    "first": GoldenRule(
        ":COLUMN=VALUE,VALUE", "of the record whose COLUMN has the value that is named first", _priorities
    ),
    "complete": GoldenRule(
        "", "of the record with the most fields that are not empty, then the most characters", _completeness
    ),
    "canonical": GoldenRule("", "of the canonical record, which stands for the cluster", _canonical),
}


def golden_help() -> str:
    """Return the --help of --golden."""
    rules = "; ".join(f"{name}{rule.form}: the value {rule.summary}" for name, rule in GOLDEN_RULES.items())
    return (
        "Write golden.csv and golden.parquet, one record for each cluster, with these fields: text columns, or other "
        f"columns of both tables. {EVERY} stands for the text columns that have no rule of their own. {rules}. An "
        "empty value is taken only if all are empty; ties go to the least id (docs/golden.md)."
    )


@dataclass(frozen=True)
class GoldenRules:
    """The rules of golden records. fields: rules by field, in the order in which they are given, EVERY among them."""

    fields: Mapping[str, FieldRule]

    @classmethod
    def parse(cls, words: str) -> "GoldenRules":
        """Read rules as `golden` has them; BadOption for other words."""
        fields = dict[str, FieldRule]()
        last = ""
        for part in next(csv.reader([words], skipinitialspace=True), []):
            name, equals, rest = map(str.strip, part.partition("="))
            if not equals and name and last and fields[last].order:
                # A further value of `first`.
                fields[last] = FieldRule(fields[last].kind, fields[last].column, (*fields[last].order, name))
                continue
            rule = _parse_rule(rest)
            if rule is None or not name:
                raise BadOption(f"{option('golden', words)}: {part!r} is no rule; give {_forms()}")
            if name in fields:
                raise BadOption(f"{option('golden', words)} has two rules of {name!r}; give each field one")
            fields[name], last = rule, name
        if not fields:
            raise BadOption(f"{option('golden', words)} has no rule; give {_forms()}")
        return cls(fields)

    def columns(self, text_columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the tables that the rules read besides the text columns, each once."""
        fields = [name for name in self.fields if name != EVERY and name not in text_columns]
        return tuple(dict.fromkeys([*fields, *(rule.column for rule in self.fields.values() if rule.column)]))

    @property
    def time_columns(self) -> dict[str, str]:
        """Return the columns whose dates or numbers decide, each with one of the rules that read it."""
        rules = self.fields.values()
        return {rule.column: str(rule) for rule in rules if GOLDEN_RULES[rule.kind].ranks in (_times, _times_backwards)}


def _parse_rule(words: str) -> FieldRule | None:
    kind = words.partition(":")[0]
    return GOLDEN_RULES[kind].parse(kind, words[len(kind) :]) if kind in GOLDEN_RULES else None


def _forms() -> str:
    """Return what can be given."""
    rules = ", ".join(name + rule.form for name, rule in GOLDEN_RULES.items())
    return f"FIELD=RULE, of which several are separated by commas, where RULE is one of {rules}"
