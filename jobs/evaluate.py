"""python -m jobs.evaluate: the command `al-ray evaluate`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.evaluate import main

if __name__ == "__main__":
    run_process(main)
