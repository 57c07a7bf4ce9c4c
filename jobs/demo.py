"""python -m jobs.demo: the command `al-ray demo`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.demo import main

if __name__ == "__main__":
    run_process(main)
