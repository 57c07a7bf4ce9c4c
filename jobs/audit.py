"""python -m jobs.audit: the command `al-ray audit`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.audit import main

if __name__ == "__main__":
    run_process(main)
