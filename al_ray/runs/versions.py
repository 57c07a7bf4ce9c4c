"""Runs that another version of al_ray began."""

import logging

from al_ray import __version__
from al_ray.storage.files import written_by
from al_ray.storage.uri import StoragePath

# config.json has the version from 0.2.0 on.
OTHER_SETS = (
    "%s was begun by al_ray 0.1.0: its labels, options and models hold, but evaluation sets are drawn anew; estimated "
    "figures of the next rounds are not comparable with those before (docs/versions.md)"
)
logger = logging.getLogger(__name__)


def began_elsewhere(path: StoragePath, rounds: int) -> bool:
    """Return whether the config.json of a run was written by another version; log what that means for its next rounds.

    rounds: that have a batch. A run of a later version is refused when the file is read.
    """
    if not path.exists() or (version := written_by(path)) == __version__:
        return False
    if version is None and rounds:
        logger.warning(OTHER_SETS, path.parent)
    return True
