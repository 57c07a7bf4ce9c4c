"""python -m jobs.grid: the command `al-ray grid`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.grid import main

if __name__ == "__main__":
    run_process(main)
