"""Mined negatives of a task, and how many of them are positives in truth: python -m jobs.mine --task TASK

Half of the training positives (--known) are told to the miners; all of them are the truth. With --out, the known
positives and each miner's negatives are a table of labels: python -m jobs.train --labels OUT/bm25.parquet. Every
option: --help.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from al_ray.apps.mining.options import MiningConfig
from al_ray.cli._shared.entry import PathOrUri, options
from al_ray.cli._shared.progress import Progress
from al_ray.core.text_table import format_columns

if TYPE_CHECKING:
    from al_ray.apps.mining.pipeline import Truths


@dataclass(frozen=True, kw_only=True)
class Options(MiningConfig):
    """Mine negatives and report the share of false negatives."""

    out: PathOrUri | None = None
    """Folder for a table of labels of each miner and for the results. Default: nothing is written."""
    run: PathOrUri | None = None
    """Run whose last model the miner `model` uses. Default: --encoder, untrained."""


def main(given: Options | None = None) -> None:
    """Mine by every miner, and print the table."""
    about = "Negatives of a task by several miners, and how many are positives."
    parsed: Options = given or options(Options, "mine", about)
    from al_ray.apps.mining.pipeline import mine_all, open_job

    job = open_job(parsed)
    mine, pool = job.mine, job.mine.pool
    print(f"{len(mine.known.positives):,} of {len(mine.positives):,} positives known, {len(pool.queries):,} texts "
          f"mined for among {len(pool.candidates):,}", flush=True)  # fmt: skip
    watch = Progress()
    results = mine_all(job, watch)
    watch.close()
    print(table(results))
    if parsed.out is not None:
        print(f"results: {parsed.out}")


def table(results: "Truths") -> str:
    """Format a row for each miner and guard."""
    return format_columns([("miner", "guards", "pairs", "positives", "%", "stated negatives"), *_rows(results)])


def _rows(results: "Truths") -> Iterator[tuple[str, ...]]:
    for name, lines in results.items():
        for guard, one in lines.items():
            share = f"{100 * one.positives / one.pairs:.2f}" if one.pairs else "-"
            yield name, guard, f"{one.pairs:,}", f"{one.positives:,}", share, f"{one.stated:,}"
