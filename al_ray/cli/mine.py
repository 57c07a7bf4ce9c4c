"""The command mine: python -m jobs.mine --task TASK

The miners know a share of the training positives (--known); all positives decide how many mined pairs are false
negatives. With --out, the known positives and each miner's negatives become a table of labels: python -m jobs.train
--labels OUT/bm25.parquet. Every option: --help.
"""

from al_ray.api import papers
from al_ray.cli._shared.entry import parse_options
from al_ray.cli._shared.progress import Progress

OPTIONS = papers.MiningConfig


def main() -> None:
    """Parse the options, mine with every miner and print a table."""
    about = "Mine negatives of a task, and report how many of them are positives."
    run_command(parse_options(OPTIONS, "mine", about))


def run_command(options: papers.MiningConfig) -> None:
    """Mine with every miner, and print the table."""
    job, progress = papers.open_mining(options), Progress()
    print(papers.count_line(job), flush=True)
    table = papers.mine_table(job, progress)
    progress.close()
    print(table)
    if options.out is not None:
        print(f"results: {options.out}")
