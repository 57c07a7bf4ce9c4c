"""Options of the command demo."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """The demonstration."""

    out: Path = Path(".demo")
    """Folder of the task and the runs."""
    texts: int = 4000
    """Questions of the task; half of them are in the training pool."""
    encoder: str = "all-MiniLM-L6-v2"
    """As in the command run."""
    first_batch: int = 128
    """As in the command run."""
    rounds: int = 3
    """As in the command run."""
