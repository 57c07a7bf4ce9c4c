"""python -m jobs.reproduce: the command `al-ray reproduce`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.reproduce import main

if __name__ == "__main__":
    run_process(main)
