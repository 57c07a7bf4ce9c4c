"""Pairs and texts as the page shows them: with their ids, and with the words marked in which two texts differ."""

from dataclasses import dataclass

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.folder import Matches
from al_ray.apps.reporting.html import short
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.task import Corpus, Task, strings_at
from al_ray.core.text import Part, differences
from al_ray.matcher.waterfall import Waterfall, waterfall

LONGEST_ID = 80
"""Maximum number of characters of an id that is shown."""


@dataclass(frozen=True)
class ShownText:
    """A text with its id; parts: None if texts are not shown (--no-texts)."""

    id: str
    parts: tuple[Part, ...] | None


@dataclass(frozen=True)
class ShownPair:
    """A pair of texts. rank: from 1, None for a pair that is no match, as are score and probability.

    why: what each comparison of a matcher adds, None without --why.
    """

    left: ShownText
    right: ShownText
    score: float | None = None
    probability: float | None = None
    by_label: bool = False
    rank: int | None = None
    why: Waterfall | None = None


@dataclass(frozen=True)
class TextReader:
    """Reads the texts of a task for the page. texts: whether they are shown, or only their ids."""

    task: Task
    texts: bool

    def pairs(self, pairs: Pairs) -> list[tuple[ShownText, ShownText]]:
        """Return the texts of (n, 2) pairs, with the words marked that only one of the two has."""
        ids = self.task.ids_of(pairs)
        if not self.texts:
            return [(_shown(left), _shown(right)) for left, right in zip(*ids, strict=True)]
        return [
            (_shown(left_id, differences(short(left), right)), _shown(right_id, differences(short(right), left)))
            for left_id, right_id, left, right in zip(*ids, *self.task.texts_of(pairs), strict=True)
        ]

    def matches(self, matches: Matches, at: Rows) -> tuple[ShownPair, ...]:
        """Return the matches at (k,) positions."""
        p = None if matches.probabilities is None else matches.probabilities[at].tolist()
        scores, by_label = matches.scores[at].tolist(), matches.by_label[at].tolist()
        found = [None] * len(at) if matches.reasons is None else matches.reasons.at(at)
        why = [None if one is None else waterfall(one) for one in found]
        columns = zip(scores, p or [None] * len(at), by_label, (at + 1).tolist(), why, strict=True)
        return tuple(
            ShownPair(*texts, *figures) for texts, figures in zip(self.pairs(matches.pairs[at]), columns, strict=True)
        )

    def nodes(self, nodes: Rows) -> list[ShownText]:
        """Return the texts of (n,) nodes, without marks; of two tables the ids say which."""
        if self.task.symmetric:
            return self.rows(self.task.left, nodes)
        shown = list[ShownText]()
        of, tables = Nodes(self.task), Nodes(self.task).tables(nodes)
        texts = [(Part(short(text)),) for text in of.texts(nodes)] if self.texts else [None] * len(nodes)
        for table, name, parts in zip(tables, of.ids(nodes), texts, strict=True):
            shown.append(_shown(f"{table}: {name}", parts))
        return shown

    def rows(self, corpus: Corpus, rows: Rows) -> list[ShownText]:
        """Return the texts of (n,) rows of a corpus, without marks."""
        texts = [(Part(short(text)),) for text in strings_at(corpus.texts, rows)] if self.texts else [None] * len(rows)
        return [_shown(name, parts) for name, parts in zip(strings_at(corpus.ids, rows), texts, strict=True)]


def _shown(name: str, parts: tuple[Part, ...] | None = None) -> ShownText:
    return ShownText(short(name, LONGEST_ID), parts)
