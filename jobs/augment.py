"""python -m jobs.augment: the command `al-ray augment`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.augment import main

if __name__ == "__main__":
    run_process(main)
