"""jobs.run, but the driver kills itself as a stage tells of a block: dying.py STAGE WHEN LOG and the job's arguments.

Where these name --labels the job is jobs.train.

WHEN is `first` (the stage's first word) or `last` (the word before its last one). LOG gets the stage, what was done of
it, and what there is.
"""

import os
import signal
import sys
from pathlib import Path

from al_ray.cli import run as job_of_run
from al_ray.cli import train as job_of_train
from al_ray.cli._run import pipeline as run_pipeline
from al_ray.cli._shared.entry import job
from al_ray.cli._shared.progress import Progress
from al_ray.cli._train import pipeline as train_pipeline
from al_ray.storage import lock

STAGE, WHEN, LOG = sys.argv[1:4]
sys.argv[1:4] = []


class Dying(Progress):
    """Progress that ends its process with SIGKILL, as a machine that is switched off does."""

    before = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        super().__call__(stage, done, total)
        if stage == STAGE and 0 < done < total:
            step, self.before = done - self.before, done
            if WHEN == "first" or done + step >= total:
                Path(LOG).write_text(f"{stage} {done} {total}")
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    run_pipeline.Progress = train_pipeline.Progress = Dying
    # What a lease of the dead is waited for.
    lock.BEAT = 0.2
    job(job_of_train.main if "--labels" in sys.argv else job_of_run.main)
