"""Peak memory of a process."""

import resource


def peak_memory() -> int:
    """Return the largest resident memory that this process has had, in bytes; mapped files count."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
