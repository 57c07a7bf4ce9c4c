"""Mine the negatives of a task with every miner, and count how many of them are positives."""

from collections.abc import Iterator

from al_ray.apps.papers.mining.options import MiningConfig
from al_ray.apps.papers.mining.pipeline import MiningJob, Truths, mine_all, open_job
from al_ray.core.progress import OnProgress
from al_ray.core.text_table import format_columns


def open_mining(config: MiningConfig) -> MiningJob:
    """Read the task and draw the known positives, after all checks that can fail before any work.

    Raises:
        BadOption: for options that the task does not fit.
        BadFile: for a task that cannot be read.
    """
    return open_job(config)


def count_line(job: MiningJob) -> str:
    """Return how many positives are known, and the texts that are mined for and among, in words."""
    mine, pool = job.mine, job.mine.pool
    return (
        f"{len(mine.known.positives):,} of {len(mine.positives):,} positives known, {len(pool.queries):,} texts "
        f"mined for among {len(pool.candidates):,}"
    )


def mine_table(job: MiningJob, on_progress: OnProgress) -> str:
    """Mine with every miner, write the tables of labels if a folder is given, and format a row for each and its guards.

    on_progress: called with a stage, how much of it is done, and how much there is.
    """
    head = ("miner", "guards", "pairs", "positives", "%", "stated negatives")
    return format_columns([head, *_rows(mine_all(job, on_progress))])


def _rows(results: Truths) -> Iterator[tuple[str, ...]]:
    for name, lines in results.items():
        for guard, one in lines.items():
            share = f"{100 * one.positives / one.pairs:.2f}" if one.pairs else "-"
            yield name, guard, f"{one.pairs:,}", f"{one.positives:,}", share, f"{one.stated:,}"
