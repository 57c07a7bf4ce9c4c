"""Mine negatives with every miner, and print how many are positives."""

from collections.abc import Iterator

from al_ray.apps.papers.mining.options import MiningConfig
from al_ray.apps.papers.mining.pipeline import Truths, mine_all, open_job
from al_ray.cli._shared.progress import Progress
from al_ray.core.text_table import format_columns


def run_command(options: MiningConfig) -> None:
    """Mine with every miner, and print the table."""
    job = open_job(options)
    mine, pool = job.mine, job.mine.pool
    print(f"{len(mine.known.positives):,} of {len(mine.positives):,} positives known, {len(pool.queries):,} texts "
          f"mined for among {len(pool.candidates):,}", flush=True)  # fmt: skip
    progress = Progress()
    results = mine_all(job, progress)
    progress.close()
    print(format_columns([("miner", "guards", "pairs", "positives", "%", "stated negatives"), *_rows(results)]))
    if options.out is not None:
        print(f"results: {options.out}")


def _rows(results: Truths) -> Iterator[tuple[str, ...]]:
    for name, lines in results.items():
        for guard, one in lines.items():
            share = f"{100 * one.positives / one.pairs:.2f}" if one.pairs else "-"
            yield name, guard, f"{one.pairs:,}", f"{one.positives:,}", share, f"{one.stated:,}"
