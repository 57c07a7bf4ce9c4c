"""Figures of the candidates of a run with a matcher: `candidates` of metrics.jsonl and record.json, by split.

number, matches                of candidates of the split, and of its known matches
recall                         share of these among the candidates, by cosine, by 3-grams and by both; null without any
cosine_average_precision       AP of the cosine alone over all pairs of the split
untrained_average_precision    of a run that trains the encoder, too: the same by the encoder before any training

`presumed`, which is no split, has the presumed non-matches of the round (runs/presumed_figures.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from al_ray.core.task import SPLITS
from al_ray.metrics.error_examples import main_split
from al_ray.runs.presumed_figures import presumed_by_training, presumed_figures

BOTH, COSINE, UNTRAINED = "both", "cosine_average_precision", "untrained_average_precision"


@dataclass(frozen=True)
class CandidateRecall:
    """Of known matches, the share among the candidates by each way and by any; and how many candidates there are.

    None for a split without known matches.
    """

    candidates: int
    matches: int
    by_way: Mapping[str, float | None]

    def as_dict(self) -> dict[str, Any]:
        """Return the dict that JSON files hold."""
        return {"number": self.candidates, "matches": self.matches, "recall": dict(self.by_way)}

    def words(self, split: str) -> str:
        """Return a sentence on the candidates of a split."""
        counted, both = f"candidates of {split}: {self.candidates:,} pairs", self.by_way.get(BOTH)
        if both is None:
            return f"{counted}; no match is known there, so their recall is not known"
        ways = ", ".join(
            f"{100 * share:.1f}% by {way}" for way, share in self.by_way.items() if way != BOTH and share is not None
        )
        return f"{counted}, with {100 * both:.1f}% of the {self.matches:,} known matches ({ways})"

    def warning(self, split: str, least: float) -> str | None:
        """Return what to do if the candidates have a smaller share of the known matches than `least`; else None."""
        both = self.by_way.get(BOTH)
        if both is None or both >= least:
            return None
        return (
            f"the candidates of {split} have {both:.3f} of the known matches, less than {least:g} "
            "(`RunConfig.candidates.least_recall`), and the others rank below all candidates: in a new run raise "
            "`candidates.cosine` and `candidates.trigrams`, and `candidates.more_of_dense` for large groups"
        )


@dataclass(frozen=True)
class CandidateFigures:
    """The recall of the candidates of a split, and AP of the cosine alone over all its pairs.

    untrained: the same by the encoder before any training; None if it is not trained.
    """

    recall: CandidateRecall
    cosine: float
    untrained: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the dict that JSON files hold."""
        known = {} if self.untrained is None else {UNTRAINED: self.untrained}
        return {**self.recall.as_dict(), COSINE: self.cosine, **known}


def candidate_figures(line: Mapping[str, Any]) -> dict[str, CandidateFigures]:
    """Return split -> figures of a line of metrics.jsonl, or of record.json; empty without a matcher.

    ValueError, TypeError, KeyError or AttributeError if they are no such figures.
    """
    found: dict[str, CandidateFigures] = {}
    for split, content in line.get("candidates", {}).items():
        if split in SPLITS:
            by_way = {str(way): None if share is None else _finite(share) for way, share in content["recall"].items()}
            recall = CandidateRecall(int(content["number"]), int(content["matches"]), by_way)
            untrained = _finite(content[UNTRAINED]) if UNTRAINED in content else None
            found[split] = CandidateFigures(recall, _finite(content[COSINE]), untrained)
    return found


def main_figures(line: Mapping[str, Any]) -> CandidateFigures | None:
    """Return the figures of the split whose metrics represent a run; None without a matcher or a measured split."""
    found = candidate_figures(line)
    split = main_split(found)
    return None if split is None else found[split]


def candidate_scalars(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of candidates as trackers name them, such as candidates/dev/cosine_average_precision.

    With them the share of matches among presumed non-matches, also those of a training.
    """
    scalars: dict[str, float] = {}
    for split, one in candidate_figures(line).items():
        shares = {f"recall/{way}": share for way, share in one.recall.by_way.items() if share is not None}
        numbers = {"number": one.recall.candidates, **shares, COSINE: one.cosine}
        numbers |= {} if one.untrained is None else {UNTRAINED: one.untrained}
        scalars |= {f"candidates/{split}/{name}": float(number) for name, number in numbers.items()}
    both = {"candidates/presumed": presumed_figures(line), "presumed": presumed_by_training(line)}
    shares = {name: figures.share for name, figures in both.items() if figures is not None}
    return scalars | {f"{name}/share": share for name, share in shares.items() if share is not None}


def _finite(value: Any) -> float:
    """Return the value as a finite float; ValueError or TypeError if it is none."""
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{value} is not a finite number")
    return number
