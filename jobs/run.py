"""python -m jobs.run: the command `al-ray run`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.run import main

if __name__ == "__main__":
    run_process(main)
