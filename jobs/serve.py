"""python -m jobs.serve: the command `al-ray serve`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.serve import main

if __name__ == "__main__":
    run_process(main)
