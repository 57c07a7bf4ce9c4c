"""python -m jobs.annotate: the command `al-ray annotate`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.annotate import main

if __name__ == "__main__":
    run_process(main)
