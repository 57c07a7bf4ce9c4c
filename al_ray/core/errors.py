"""Errors that a user can fix. A message names the place and what to do; a job prints it on one line and exits with 2.

AlRayError
├── BadOption           an invalid option, or an invalid combination of options
├── BadFile             a file that is missing, cannot be read, or has invalid content
├── MissingSplit        the task has no pairs in the requested split
├── WrongFolder         a folder that belongs to another config, task or encoder, or has unexpected content
├── FolderInUse         a run folder that another process is writing
├── TrainingFailed      a training that ended without a usable model
├── OracleFailed        an oracle whose answers cannot be parsed, or that does not answer
├── CostReached         the next labels would exceed the cost limit
├── LabellingStopped    no labels are requested, because a check by people failed; the run ends with exit code 0
├── NoPlacement         actors for which the cluster has no room
└── ActorLost           an actor that crashed and exceeded its restarts
LabelsAwaited           no error: a run that waits for people; its message says what to do, and a job exits with 0
DryRun                  no error: shows which labels would be requested; a job prints the message and exits with 0
"""

from types import TracebackType

LONGEST = 4_000
"""Characters of a message, about."""


class AlRayError(Exception):
    """Base class of all errors that a user can fix."""

    def __str__(self) -> str:
        """Return the message; the middle of a very long one, such as with the value of a damaged file, is left out."""
        text = super().__str__()
        return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} [...] {text[-LONGEST // 2 :]}"


class BadOption(AlRayError):
    """An invalid option, or an invalid combination of options."""


class BadFile(AlRayError):
    """A file that is missing, cannot be read, or has invalid content."""


class MissingSplit(AlRayError):
    """The task has no pairs in the requested split."""


class WrongFolder(AlRayError):
    """A folder that belongs to another config, task or encoder, or has unexpected content."""


class FolderInUse(AlRayError):
    """A run folder that another process is writing."""


class TrainingFailed(AlRayError):
    """A training that ended without a usable model."""


class OracleFailed(AlRayError):
    """An oracle whose answers cannot be parsed, or that does not answer."""


class CostReached(AlRayError):
    """The next labels would exceed the cost limit."""


class LabellingStopped(AlRayError):
    """No labels are requested, because a check by people failed. The run is stored, and the job exits with 0."""


class NoPlacement(AlRayError):
    """Actors for which the cluster has no room."""


class ActorLost(AlRayError):
    """An actor that crashed and exceeded its restarts."""


class LabelsAwaited(Exception):
    """Raised when a run waits for people to label; no error. The run is stored, and the message says what to do."""


class DryRun(Exception):
    """Raised instead of requesting labels when these were only to be shown; no error. The message shows them."""


class WriteErrors:
    """Context manager for code that writes to `place`: turns errors of the disk into BadFile, with the fix."""

    def __init__(self, place: object) -> None:
        self.place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Writers in Rust (safetensors, tokenizers) raise errors of their own, whose texts all contain "(os error N)".
        if isinstance(error, OSError) or (isinstance(error, Exception) and "(os error " in str(error)):
            reason = (error.strerror if isinstance(error, OSError) else "") or str(error).splitlines()[0]
            raise BadFile(
                f"{self.place} cannot be written ({reason}); make room or give another place, then go on"
            ) from error
