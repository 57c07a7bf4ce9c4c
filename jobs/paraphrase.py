"""python -m jobs.paraphrase: the command `al-ray paraphrase`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.paraphrase import main

if __name__ == "__main__":
    run_process(main)
