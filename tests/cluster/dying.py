"""jobs.run, but the driver kills itself as a stage tells of a block: dying.py STAGE WHEN LOG and the job's arguments.

Where these name --labels the job is jobs.train.

WHEN is `first` (the stage's first word) or `last` (the word before its last one). LOG gets the stage, what was done of
it, and what there is. A trainer waits where its driver dies, or it could end the training before it is ended itself.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from al_ray.cli import run as job_of_run
from al_ray.cli import run as run_pipeline
from al_ray.cli import train as job_of_train
from al_ray.cli import train as train_pipeline
from al_ray.cli._shared.entry import run_process
from al_ray.cli._shared.progress import Progress
from al_ray.cluster import training_group
from al_ray.core.labels import Model
from al_ray.storage import lock
from al_ray.training.optimizer import Step
from al_ray.training.trainer import Trainer
from tests.ray_ports import choose_ports

STAGE, WHEN, LOG = sys.argv[1:4]
sys.argv[1:4] = []


class WaitingTrainer(Trainer):
    """Trains up to the step at which the driver dies."""

    def train(self, *arguments, **options) -> Iterator[Step | Model]:
        for event in super().train(*arguments, **options):
            yield event
            if isinstance(event, Step) and event.step == (1 if WHEN == "first" else event.steps - 1):
                threading.Event().wait()


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
    choose_ports()
    run_pipeline.Progress = train_pipeline.Progress = Dying
    if STAGE == "train":
        WaitingTrainer.__name__ = Trainer.__name__
        training_group.Trainer = WaitingTrainer
    # What a lease of the dead is waited for.
    lock.BEAT = 0.2
    run_process(job_of_train.main if "--labels" in sys.argv else job_of_run.main)
