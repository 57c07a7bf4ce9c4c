"""python -m jobs.prepare: the command `al-ray prepare`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.prepare import main

if __name__ == "__main__":
    run_process(main)
