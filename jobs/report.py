"""python -m jobs.report: the command `al-ray report`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.report import main

if __name__ == "__main__":
    run_process(main)
