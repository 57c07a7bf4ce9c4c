"""python -m jobs.mine: the command `al-ray mine`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.mine import main

if __name__ == "__main__":
    run_process(main)
