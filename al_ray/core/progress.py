"""The type of progress callbacks."""

from collections.abc import Callable

OnProgress = Callable[[str, int, int], None]
"""Called with the name of a stage, the amount done, and the total."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Ignore progress."""
