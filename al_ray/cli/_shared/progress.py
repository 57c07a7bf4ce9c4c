"""Progress of long work: a bar if stderr is a terminal, otherwise a plain line every ten seconds."""

import logging
import sys
import time

from tqdm import tqdm

logger = logging.getLogger(__name__)

SECONDS = 10.0


class Progress:
    """Callback that shows a stage, how much of it is done and how much there is."""

    def __init__(self) -> None:
        """Start without a stage."""
        self.stage, self.total, self.logged = "", -1, 0.0
        self.bar: tqdm | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Update the bar, or log a line."""
        if (stage, total) != (self.stage, self.total) and sys.stderr.isatty():
            self.close()
            self.bar = tqdm(total=total, desc=stage, leave=False, file=sys.stderr)
        if (stage, total) != (self.stage, self.total):
            self.stage, self.total, self.logged = stage, total, time.monotonic()
        if self.bar is not None:
            self.bar.update(done - self.bar.n)
        elif time.monotonic() - self.logged > SECONDS:
            self.logged = time.monotonic()
            logger.info("%s: %s of %s", stage, f"{done:,}", f"{total:,}")

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
