"""The command mine: python -m jobs.mine --task TASK

The miners know a share of the training positives (--known); all positives decide how many mined pairs are false
negatives. With --out, the known positives and each miner's negatives become a table of labels: python -m jobs.train
--labels OUT/bm25.parquet. Every option: --help.
"""

from al_ray.api.papers.options import MiningConfig
from al_ray.cli._shared.entry import parse_options
from al_ray.cli._shared.progress import Progress

OPTIONS = MiningConfig


def main() -> None:
    """Parse the options, mine with every miner and print a table."""
    options = parse_options(OPTIONS, "mine", "Mine negatives of a task, and report how many of them are positives.")
    from al_ray.api.papers.mining import count_line, mine_table, open_mining

    job, progress = open_mining(options), Progress()
    print(count_line(job), flush=True)
    table = mine_table(job, progress)
    progress.close()
    print(table)
    if options.out is not None:
        print(f"results: {options.out}")
