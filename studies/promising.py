"""Simulate audits whose threshold is chosen after a look at the labels: how often does its promise hold?"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.labels import NO, YES
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.guarantee import (
    CutSample,
    Limits,
    MeldedLimits,
    Terms,
    cut_samples,
    highest_complete,
    lowest_precise,
    most_saved,
    precision_p,
    recall_p,
)
from al_ray.metrics.audit.score_bands import BandAudit, allotted, draw_ranks
from al_ray.metrics.audit.second_draw import crossing, with_labels_known
from al_ray.metrics.thresholds import Rule, parse_rule
from studies.promised_populations import Population, SampledAudits, populations

logger = logging.getLogger(__name__)

RULES = ("precision=0.8", "precision=0.5", "ranked-recall=0.7", "recall=0.5", "costs=4,1")
OURS, ESTIMATE, LOW_END, EQUAL, SEQUENCE = "promised", "estimate", "low end of 95%", "equal shares", "one sequence"
TWO_DRAWS = "promised, two draws"

Row = dict[str, Any]
Choice = Callable[[Sequence[CutSample], Rule, float, Limits], int | None]


class StoredLimits(MeldedLimits):
    """Limits whose draws of a part are made once: simulated audits often have equal counts."""

    def __init__(self, rng: np.random.Generator, draws: int) -> None:
        """draws: of each part."""
        super().__init__(rng, draws)
        self.stored: dict[tuple[Any, ...], Floats] = {}

    def sums(self, terms: Terms) -> Floats:
        """Return (draws,) sums; parts at different places of a sum have independent draws."""
        sums = np.zeros(self.draws)
        for place, (weight, part) in enumerate(terms):
            key = place, part, weight > 0
            if key not in self.stored:
                self.stored[key] = super().sums([(1.0 if weight > 0 else -1.0, part)])
            sums += abs(weight) * self.stored[key]
        return sums


@dataclass(frozen=True)
class Promises:
    """How often a promised threshold keeps its word, and the recall that it costs, beside other ways to choose one."""

    rules: tuple[str, ...] = RULES
    """Rules, as --threshold-for of jobs.audit estimate has them."""
    audits: Annotated[int, Between(1, 1_000_000)] = 10_000
    """Audits of each population."""
    budget: Annotated[int, Between(1, 100_000)] = 300
    """Labels of an audit."""
    draws: Annotated[int, Between(100, 1_000_000)] = 1_000
    """Draws of each limit."""
    guarantee: float = 0.95
    """Confidence of the promise."""
    names: tuple[str, ...] = ()
    """Populations; all when not given."""
    others: bool = False
    """Choose in other ways, too, for comparison."""
    second: bool = False
    """Draw half of the labels a second time, above the crossing; for rules of precision alone."""
    seed: Seed = 0
    """Random seed."""
    out: Path | None = None
    """JSON file for the table."""

    def results(self) -> list[Row]:
        """Return a row for each rule, population and way to choose."""
        check_bounds(self)
        rows: list[Row] = []
        for name, population in populations().items():
            for words in self.rules if not self.names or name in self.names else ():
                rule = parse_rule(words)
                rng = generator(self.seed, f"promises-{name}-{rule}")
                own = self._twice(population, rule, rng) if self.second else self._once(population, rule, rng)
                rows += [{"population": name, "rule": words, **row} for row in own]
                logger.info("%s", format_promises(rows[-len(own) :]))
        return rows

    def _once(self, population: Population, rule: Rule, rng: np.random.Generator) -> list[Row]:
        audits = SampledAudits.draw(population, self.budget, self.audits, rng)
        limits, alpha = StoredLimits(rng, self.draws), 1 - self.guarantee
        if rule.kind == "costs":
            return [_saved(audits, rule, alpha, limits)]
        ways = {name: way for name, way in WAYS[rule.kind].items() if self.others or name == OURS}
        chosen: Mapping[str, list[int | None]] = {name: [] for name in ways}
        for row in range(self.audits):
            cuts = audits.audit(row)
            for name, choose in ways.items():
                chosen[name].append(choose(cuts, rule, alpha, limits))
        pairs = {name: [None if at is None else audits.cuts[at].pairs for at in own] for name, own in chosen.items()}
        return [{"way": name, **_kept(population, rule, own)} for name, own in pairs.items()]

    def _twice(self, population: Population, rule: Rule, rng: np.random.Generator) -> list[Row]:
        limits, alpha = StoredLimits(rng, self.draws), 1 - self.guarantee
        pairs = [second_draw(population, rule, self.budget, alpha, limits, rng) for _ in range(self.audits)]
        return [{"way": TWO_DRAWS, **_kept(population, rule, pairs)}]


def second_draw(
    population: Population, rule: Rule, budget: int, alpha: float, limits: Limits, rng: np.random.Generator
) -> int | None:
    """Draw half of the labels by bands and half above the crossing; return how many pairs the promise is about."""
    audit, half = population.unlabelled, budget // 2
    shares = allotted(half, [stop - start for start, stop in audit.bands])
    ranks = np.concatenate([draw_ranks(band, share, rng) for band, share in zip(audit.bands, shares, strict=True)])
    ranks = ranks[ranks < audit.reach]
    first = _labelled(audit, population, ranks, ranks)
    threshold = crossing(first, rule.numbers[0])
    if threshold is None:
        return None
    second, left = with_labels_known(first, threshold)
    if not len(left):
        # Every pair above is labelled: the first draw is enough.
        cuts = cut_samples(first)
        at = lowest_precise(cuts, rule.numbers[0], alpha, limits)
        return None if at is None else cuts[at].pairs
    own = draw_ranks((0, len(left)), min(budget - half, len(left)), rng)
    cuts = cut_samples(_labelled(second, population, own, left[own]))
    at = lowest_precise(cuts, rule.numbers[0], alpha, limits)
    return None if at is None else cuts[at].pairs


def _labelled(audit: BandAudit, population: Population, ranks: Any, rows: Any) -> BandAudit:
    return replace(audit, ranks=ranks, labels=np.where(population.matches[rows], YES, NO).astype(np.uint8))


def _kept(population: Population, rule: Rule, pairs: Sequence[int | None]) -> Row:
    """Return the share of audits whose threshold is as good as the rule, those without one included."""
    target, ranked = rule.numbers[0], rule.kind != "recall"
    counts = sorted({one for one in pairs if one is not None})
    precision = {one: population.precision(one) for one in counts}
    recall = {one: population.recall(one, ranked) for one in counts}
    of_rule = precision if rule.kind == "precision" else recall
    chosen = [one for one in pairs if one is not None]
    false = [of_rule[one] < target - 1e-12 for one in chosen]
    far = [of_rule[one] < target - 0.05 for one in chosen]
    # What is gained: recall where precision is promised, and the other way round.
    of_gain = recall if rule.kind == "precision" else precision
    return {
        "kept": 1 - sum(false) / len(pairs),
        "far": sum(far) / len(pairs),
        "found": len(chosen) / len(pairs),
        "gain": sum(of_gain[one] for one in chosen) / len(pairs),
    }


def _saved(audits: SampledAudits, rule: Rule, alpha: float, limits: Limits) -> Row:
    """Return how often at least as much is saved as promised, and which share of the most that can be saved it is."""
    miss, alarm = rule.numbers
    ranks = np.array([cut.pairs for cut in audits.cuts])
    saved = (miss + alarm) * audits.population.counts[ranks] - alarm * ranks
    most, kept, found, gain = max(float(saved.max()), 1e-12), 0, 0, 0.0
    number = len(audits.yes)
    for row in range(number):
        promised = most_saved(audits.audit(row), rule.numbers, alpha, limits)
        kept += promised is None or bool(saved[promised.at] >= promised.value - 1e-9)
        found += promised is not None
        gain += 0.0 if promised is None else float(saved[promised.at]) / most
    return {"way": OURS, "kept": kept / number, "far": 0.0, "found": found / number, "gain": gain / number}


def _share(cut: CutSample, rule: Rule) -> float:
    """Return the estimate of what a rule is about, by the share of matches in each part."""

    def total(parts: Sequence[Any]) -> float:
        return sum(part.size * part.matches / part.answered if part.answered else 0.0 for part in parts)

    above = total(cut.above)
    if rule.kind == "precision":
        return above / cut.pairs
    below = total(cut.near) + (0.0 if rule.kind == "ranked-recall" else total(cut.rest))
    return above / (above + below) if above + below else 0.0


def _by_estimate(cuts: Sequence[CutSample], rule: Rule, _alpha: float, _limits: Limits) -> int | None:
    good = [at for at, cut in enumerate(cuts) if _share(cut, rule) >= rule.numbers[0]]
    return (good[-1] if rule.kind == "precision" else good[0]) if good else None


def _by_low_end(cuts: Sequence[CutSample], rule: Rule, alpha: float, limits: Limits) -> int | None:
    return _lowest(cuts, rule, alpha / 2, limits)


def _by_equal_shares(cuts: Sequence[CutSample], rule: Rule, alpha: float, limits: Limits) -> int | None:
    return _lowest(cuts, rule, alpha / len(cuts), limits)


def _lowest(cuts: Sequence[CutSample], rule: Rule, alpha: float, limits: Limits) -> int | None:
    good = [at for at, cut in enumerate(cuts) if precision_p(cut, rule.numbers[0], limits) <= alpha]
    return good[-1] if good else None


def _by_one_sequence(cuts: Sequence[CutSample], rule: Rule, alpha: float, limits: Limits) -> int | None:
    """Go down from the first cut at which labels that are all yes would pass, until one fails."""
    last = None
    for at, cut in enumerate(cuts):
        if last is None and precision_p(cut.hopeful(below=False), rule.numbers[0], limits) > alpha / 5:
            continue
        if precision_p(cut, rule.numbers[0], limits) > alpha:
            break
        last = at
    return last


def _ours(cuts: Sequence[CutSample], rule: Rule, alpha: float, limits: Limits) -> int | None:
    return lowest_precise(cuts, rule.numbers[0], alpha, limits)


def _recall_by_equal_shares(cuts: Sequence[CutSample], rule: Rule, alpha: float, limits: Limits) -> int | None:
    good = [at for at, cut in enumerate(cuts) if recall_p(cut, rule, limits) <= alpha / len(cuts)]
    return good[0] if good else None


OF_RECALL: Mapping[str, Choice] = {OURS: highest_complete, EQUAL: _recall_by_equal_shares, ESTIMATE: _by_estimate}
WAYS: Mapping[str, Mapping[str, Choice]] = {
    "precision": {
        OURS: _ours,
        SEQUENCE: _by_one_sequence,
        EQUAL: _by_equal_shares,
        LOW_END: _by_low_end,
        ESTIMATE: _by_estimate,
    },
    "recall": OF_RECALL,
    "ranked-recall": OF_RECALL,
}


def format_promises(rows: Sequence[Row]) -> str:
    """Format the table."""
    lines: list[tuple[str, ...]] = [
        ("population", "rule", "way", "kept its word", "off by over 5 points", "found a threshold", "gain")
    ]
    for row in rows:
        shares = (f"{100 * row[name]:.1f}%" for name in ("kept", "far", "found"))
        lines.append((row["population"], row["rule"], row["way"], *shares, f"{row['gain']:.3f}"))
    return format_columns(lines)
