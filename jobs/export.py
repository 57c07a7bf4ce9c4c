"""python -m jobs.export: the command `al-ray export`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.export import main

if __name__ == "__main__":
    run_process(main)
