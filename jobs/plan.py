"""python -m jobs.plan: the command `al-ray plan`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.plan import main

if __name__ == "__main__":
    run_process(main)
