"""Progress of long work: bars when stderr is a terminal, a plain line every ten seconds otherwise."""

import logging
import sys
import time

from tqdm import tqdm

logger = logging.getLogger(__name__)

SECONDS = 10.0


class Progress:
    """Told of a stage, how much of it is done and how much there is."""

    def __init__(self) -> None:
        """Nothing under way."""
        self.stage, self.total, self.said = "", -1, 0.0
        self.bar: tqdm | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show it."""
        if (stage, total) != (self.stage, self.total) and sys.stderr.isatty():
            self.close()
            self.bar = tqdm(total=total, desc=stage, leave=False, file=sys.stderr)
        if (stage, total) != (self.stage, self.total):
            self.stage, self.total, self.said = stage, total, time.monotonic()
        if self.bar is not None:
            self.bar.update(done - self.bar.n)
        elif time.monotonic() - self.said > SECONDS:
            self.said = time.monotonic()
            logger.info("%s: %s of %s", stage, f"{done:,}", f"{total:,}")

    def close(self) -> None:
        """Clear the bar away."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
