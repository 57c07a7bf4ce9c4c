"""Simulate audits by score: how often intervals hold the truth, and how often pairs match where p is high."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.encoder import Threads
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Scorer
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.ranking_quality import average_precision
from al_ray.metrics.audit.recalibration import refit_to_bands, reliability_bins
from al_ray.metrics.audit.score_bands import BandAudit
from studies.simulated_rankings import (
    FallingShare,
    Ranking,
    draw_audit,
    draw_earlier,
    trained_scorer,
    wikiqa_ranking,
)

logger = logging.getLogger(__name__)

KINDS = {
    "good": FallingShare(0.97, 400, 4),
    "middling": FallingShare(0.85, 400, 1.5),
    "bad": FallingShare(0.35, 1000, 1),
    "long-tail": FallingShare(1.0, 200, 40, 0.001),
}
WIKIQA = "wikiqa"
# Of rankings: how many pairs are ranked one by one, and how many matches were known before.
COVERAGE = (
    *(("good", 1_000, 0), ("good", 1_000, 100), ("middling", 1_000, 0), ("middling", 100_000, 0)),
    *(("bad", 10_000, 0), ("long-tail", 100_000, 0)),
    *((WIKIQA, 1_000, 0), (WIKIQA, 10_000, 0), (WIKIQA, 1_000, 20)),
)
RELIABILITY = ("good", "middling", "bad", WIKIQA)
AUDIT = 300
# Labels of a round, and of how many rounds before as many are known.
FITS = {"100": (100, 0), "300": (300, 0), "100, after 200 of earlier rounds": (100, 2)}
TRAINED = "as trained"
TOP = 1_000
RANGES = {"p >= 0.99": (0.99, 1.0), "p >= 0.9": (0.9, 1.0), "0.5 <= p < 0.9": (0.5, 0.9)}

Row = dict[str, Any]
Table = Literal["coverage", "reliability"]
Name = Literal["good", "middling", "bad", "long-tail", "wikiqa"]


@dataclass(frozen=True)
class SimulateAudits:
    """Coverage of the intervals of audits by score, and reliability of p before and after the recalibration."""

    tables: tuple[Table, ...] = ("coverage", "reliability")
    """Tables to compute: coverage of the intervals of average precision, and reliability of p."""
    rankings: tuple[Name, ...] = ("good", "middling", "bad", "long-tail", "wikiqa")
    """Rankings, of which wikiqa needs --wikiqa. The draws of one do not depend on the others."""
    draws: Annotated[int, Between(1, 100_000)] = 200
    """Audits of each ranking, of seeds 0, 1, ..."""
    pairs: Annotated[int, Between(20_000, 100_000_000)] = 200_000
    """Pairs of a synthetic ranking."""
    wikiqa: Path | None = None
    """Folder with WikiQA-{train,dev,test}.tsv, whose dev pairs are ranked by the untrained all-MiniLM-L6-v2."""
    cache: Path | None = None
    """.npz file of WikiQA's ranking; written if it does not exist."""
    threads: Threads = 1
    """Threads of the encoder."""
    out: Path | None = None
    """JSON file for the tables."""

    def results(self) -> dict[str, list[Row]]:
        """Return the rows of both tables."""
        check_bounds(self)
        wikiqa = None
        if self.wikiqa is not None and WIKIQA in self.rankings:
            wikiqa = wikiqa_ranking(self.wikiqa, self.cache, self.threads)
        names = set(self.rankings) if wikiqa is not None else set(self.rankings) - {WIKIQA}

        def drawn(name: str) -> Iterator[tuple[Ranking, np.random.Generator]]:
            for seed in range(self.draws):
                rng = generator(seed, "simulated-audit")
                ranking = KINDS[name].ranking(self.pairs, rng) if name in KINDS else wikiqa
                assert ranking is not None
                yield ranking, rng

        results: dict[str, list[Row]] = {table: [] for table in self.tables}
        for name, top, known in COVERAGE if "coverage" in self.tables else ():
            if name in names:
                figures = [cover(ranking, top, known, rng) for ranking, rng in drawn(name)]
                results["coverage"].append({"ranking": name, "ranked": top, "known": known, **_means(figures)})
                logger.info("%s", results["coverage"][-1])
        for name in RELIABILITY if "reliability" in self.tables else ():
            if name in names:
                rows = summed([calibrate(ranking, rng) for ranking, rng in drawn(name)])
                results["reliability"] += [{"ranking": name, **row} for row in rows]
                logger.info("%s", rows)
        return results


def cover(ranking: Ranking, top: int, known: int, rng: np.random.Generator) -> Row:
    """Estimate average precision from an audit; known: matches that were labelled before."""
    before = np.sort(rng.choice(np.flatnonzero(ranking.matches), known, replace=False))
    audit, cosines, _ = draw_audit(ranking, AUDIT, top, rng, before)
    every = np.arange(len(ranking.cosines))
    reach = np.union1d(np.delete(every, before)[:top], before)
    truth, of_all = ranking.average_precision(reach), ranking.average_precision(every)
    found, over_all = (average_precision(audit, cosines, rng, all_pairs) for all_pairs in (False, True))
    if found is None or over_all is None:
        return {}
    return {
        "truth": truth,
        "estimate": found.value,
        "low": found.low,
        "high": found.high,
        "held": found.low <= truth <= found.high,
        "held_over_all": over_all.low <= of_all <= over_all.high,
    }


def calibrate(ranking: Ranking, rng: np.random.Generator) -> dict[str, Row]:
    """Return for each fit the shares of matches in ranges of p, and how many reliability bins hold the truth."""
    trained, none = trained_scorer(ranking, rng), np.empty(0, dtype=np.int64)
    rows = {TRAINED: shares(ranking, trained) if trained.weight > 0 else {}}
    for name, (labels, rounds) in FITS.items():
        known = draw_earlier(ranking, labels, rounds, TOP, rng) if rounds else none
        audit, cosines, _ = draw_audit(ranking, labels, TOP, rng, known)
        scorer = refit_to_bands(audit, cosines)
        # As runs/dev_labels.py has it.
        rows[name] = {"fitted": scorer is not None and scorer.outcome != "separable"}
        if scorer is not None and scorer.outcome != "separable":
            rows[name] |= shares(ranking, scorer) | bins_held(ranking, audit, scorer, cosines, rng)
    return rows


def shares(ranking: Ranking, scorer: Scorer) -> Row:
    """Return the number of pairs in each range of p, how many of them match, and the sum of their p."""
    row: Row = {}
    for name, (low, high) in RANGES.items():
        start, stop = ranking.first(scorer, high), ranking.first(scorer, low)
        matches = int(ranking.counts[stop] - ranking.counts[start])
        expected = float(scorer.probability(ranking.cosines[start:stop]).sum())
        row[name] = {"pairs": stop - start, "matches": matches, "expected": expected}
    return row


def bins_held(
    ranking: Ranking, audit: BandAudit, scorer: Scorer, cosines: Floats, rng: np.random.Generator
) -> dict[str, int]:
    """Count the reliability bins, and those whose 95% interval holds the share of matches in truth."""
    bins, held = reliability_bins(audit, scorer, cosines, rng), 0
    for row in bins:
        start, stop = ranking.first(scorer, row.high), ranking.first(scorer, row.low)
        truth = (ranking.counts[stop] - ranking.counts[start]) / max(1, stop - start)
        held += row.share_low <= truth <= row.share_high
    return {"bins": len(bins), "bins_held": int(held)}


def summed(draws: Sequence[Mapping[str, Row]]) -> list[Row]:
    """Return a row for each fit: means of the counts of pairs, and the share of bins whose interval held the truth."""
    rows: list[Row] = []
    for name in draws[0]:
        own = [draw[name] for draw in draws]
        row: Row = {"fit": name, "fitted": float(np.mean([draw.get("fitted", True) for draw in own]))}
        for part in RANGES:
            row[part] = _means([draw[part] for draw in own if part in draw])
        bins, held = (sum(draw.get(count, 0) for draw in own) for count in ("bins", "bins_held"))
        rows.append({**row, "held": held / bins if bins else None})
    return rows


def _means(rows: Sequence[Row]) -> Row:
    """Return the mean of each figure over the rows that have figures, and the number of these rows."""
    rows = [row for row in rows if row]
    return {"draws": len(rows), **{name: float(np.mean([row[name] for row in rows])) for name in (rows or [{}])[0]}}


def format_tables(results: Mapping[str, Sequence[Row]]) -> str:
    """Format the tables; shares in percent."""
    formats = {"coverage": _coverage_table, "reliability": _reliability_table}
    return "\n\n".join(formats[name](rows) for name, rows in results.items())


def _coverage_table(coverage: Sequence[Row]) -> str:
    rows: list[tuple[str, ...]] = [
        ("ranking", "ranked", "known", "truth", "estimate", "interval", "held", "held, over all pairs")
    ]
    for row in coverage:
        figures = (f"{100 * row[name]:.1f}" for name in ("truth", "estimate"))
        interval = f"{100 * row['low']:.1f} to {100 * row['high']:.1f}"
        held = (f"{row[name]:.0%}" for name in ("held", "held_over_all"))
        rows.append((row["ranking"], f"{row['ranked']:,}", f"{row['known']:,}", *figures, interval, *held))
    return format_columns(rows)


def _reliability_table(reliability: Sequence[Row]) -> str:
    names = (f"{name}: pairs, mean p, match" for name in RANGES)
    rows: list[tuple[str, ...]] = [("ranking", "labels", "fitted", *names, "held")]
    for row in reliability:
        held = "-" if row["held"] is None else f"{row['held']:.0%}"
        fitted = "-" if row["fit"] == TRAINED else f"{row['fitted']:.0%}"
        rows.append((row["ranking"], row["fit"], fitted, *(_range(row[name]) for name in RANGES), held))
    return format_columns(rows)


def _range(figures: Row) -> str:
    if not figures.get("pairs"):
        return "-"
    mean, share = (figures[name] / figures["pairs"] for name in ("expected", "matches"))
    return f"{figures['pairs']:,.1f}, {mean:.1%}, {share:.1%}"
