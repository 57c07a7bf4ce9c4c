"""python -m jobs.match: the command `al-ray match`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.match import main

if __name__ == "__main__":
    run_process(main)
