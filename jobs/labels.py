"""python -m jobs.labels: the command `al-ray labels`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.labels import main

if __name__ == "__main__":
    run_process(main)
