"""Errors a person can mend. Each message names the place and the cure; a job prints it as one line and exits with 2.

AlRayError
├── BadOption           an option, or a combination of options, that cannot be
├── BadFile             a file that is missing, unreadable, or does not hold what it should
├── MissingSplit        a task has no pairs in the split that was asked for
├── WrongFolder         a folder that belongs to another config, task or encoder, or that is not what it should be
├── FolderInUse         a run folder that another process is writing
├── TrainingFailed      a training that ended without a usable model
├── OracleFailed        an oracle that gives no answer that can be read
├── CostReached         labels that would cost more than was allowed
├── NoPlace             actors that the cluster cannot place
└── Lost                an actor that died as often as it was started again
LabelsAwaited           no error: a run that waits for people; its message says what to do, and a job exits with 0
"""

from types import TracebackType


class AlRayError(Exception):
    """Base of all errors that a person can mend."""


class BadOption(AlRayError):
    """An option, or a combination of options, that cannot be."""


class BadFile(AlRayError):
    """A file that is missing, unreadable, or does not hold what it should."""


class MissingSplit(AlRayError):
    """A task has no pairs in the split that was asked for."""


class WrongFolder(AlRayError):
    """A folder that belongs to another config, task or encoder, or that is not what it should be."""


class FolderInUse(AlRayError):
    """A run folder that another process is writing."""


class TrainingFailed(AlRayError):
    """A training that ended without a usable model."""


class OracleFailed(AlRayError):
    """An oracle that gives no answer that can be read."""


class CostReached(AlRayError):
    """Labels that would cost more than was allowed."""


class NoPlace(AlRayError):
    """Actors that the cluster cannot place."""


class Lost(AlRayError):
    """An actor that died as often as it was started again."""


class LabelsAwaited(Exception):
    """No error: a run that waits for people. Everything is kept; the message says what to do."""


class Written:
    """Around code that writes to a place: what the disk refuses becomes BadFile, with the place and the cure.

    The writers in Rust (safetensors, tokenizers) tell of the disk by errors of their own, whose words end alike.
    """

    def __init__(self, place: object) -> None:
        self.place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OSError) or (isinstance(error, Exception) and "(os error " in str(error)):
            reason = (error.strerror if isinstance(error, OSError) else "") or str(error).splitlines()[0]
            raise BadFile(
                f"{self.place} cannot be written ({reason}); make room or give another place, then go on"
            ) from error
