"""All trackers, by the name of their option.

To add a tracker, write a module with a function as those of TRACKERS, add it here, and its option to TrackerOptions
(core/config/trackers.py). Single runs and grids then have it.
"""

from collections.abc import Callable, Mapping

from al_ray.core.config.trackers import TrackerOptions
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.trackers import mlflow, tensorboard, wandb
from al_ray.runs.trackers.port import Track
from al_ray.storage.uri import StoragePath

TRACKERS: Mapping[str, Callable[[str], Track]] = {"mlflow": mlflow.tracking, "wandb": wandb.tracking}
"""Make the tracker that an option names, by its value; BadOption if it cannot be used now."""


def tracking(options: TrackerOptions, events: Callable[[RunFolder, str], StoragePath]) -> Track:
    """Return what writes a run to TensorBoard and to the trackers that the options name; BadOption as above.

    events: returns the folder of TensorBoard's events of a run and its group.
    """
    given = {name: getattr(options, name) for name in TRACKERS}
    named = [TRACKERS[name](value) for name, value in given.items() if value is not None]
    tracks = [tensorboard.tracking(events), *named]

    def track(folder: RunFolder, group: str) -> None:
        for one in tracks:
            one(folder, group)

    return track
