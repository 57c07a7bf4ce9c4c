"""The options of jobs.demo."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """The demonstration."""

    out: Path = Path(".demo")
    """Folder of the task and the runs."""
    texts: int = 4000
    """Questions of the task, half of them in the training pool."""
    encoder: str = "all-MiniLM-L6-v2"
    """As in jobs.run."""
    first_batch: int = 128
    """As in jobs.run."""
    rounds: int = 3
    """As in jobs.run."""
