"""python -m jobs.train: the command `al-ray train`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.train import main

if __name__ == "__main__":
    run_process(main)
