"""One writer for each folder: a file lock on a disk, a lease on an object store."""

import json
import logging
import os
import signal
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from types import TracebackType

from filelock import FileLock, Timeout

from al_ray.core.errors import BadFile, FolderInUse, WrongFolder
from al_ray.storage.uri import StoragePath, Uri

logger = logging.getLogger(__name__)

NAME = ".lock"
BEAT = 10.0  # Seconds between two renewals of a lease.
BEATS = 3  # Missed renewals after which the owner counts as dead.


@contextmanager
def locked(folder: StoragePath, patience: float = 0.0) -> Iterator[None]:
    """Lock a folder, which is created if missing, for one process at a time; FolderInUse if another has it.

    patience: seconds to wait for the other process; a lease always waits BEATS * BEAT.
    """
    if isinstance(folder, Uri):
        with Lease(folder):
            yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / NAME, timeout=patience)
        lock.acquire()
    except Timeout as error:
        raise _in_use(folder, "another process") from error
    except OSError as error:
        raise WrongFolder(f"{folder} cannot be written ({error.strerror}); give another --out") from error
    try:
        yield
    finally:
        lock.release()


class Lease:
    """A lock file that its owner rewrites every BEAT seconds with an increasing number, and deletes at the end.

    Guarantees: a process that finds the live lease of another does not write. A lease that is not renewed for BEATS
    beats is taken over, so a killed process locks a folder no longer than that. If several processes come at once, the
    last to write its name wins, and the others notice after a fifth of a beat. An owner that was suspended or cut off
    from the store, and then finds another's name, is interrupted and ends with FolderInUse.

    Not guaranteed: an owner suspended for longer may still write during the beat until it notices; and two processes
    that come at once may both win if a request of one takes longer than a fifth of a beat.
    """

    def __init__(self, folder: Uri) -> None:
        """Prepare to lock this folder, without a request to the store."""
        self.folder, self.at = folder, folder / NAME
        self.owner = f"process {os.getpid()} on {socket.gethostname()}"
        self.name, self.beats, self.lost, self.deaf = uuid.uuid4().hex, 0, "", False
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> None:
        self._refuse_living()
        self._beat()
        sleep(BEAT / 5)
        other = self._other()
        if other:
            raise _in_use(self.folder, other)
        self._listen()
        self.thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ended.set()
        self.thread.join(BEAT)
        if self.deaf:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self.lost:
            raise _in_use(self.folder, self.lost) from error
        if not self._other():
            self.at.unlink(missing_ok=True)

    def _listen(self) -> None:
        """Handle SIGINT, by which `_live` stops the process: shells start background processes with SIGINT ignored."""
        self.deaf = threading.current_thread() is threading.main_thread() and (
            signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        )
        if self.deaf:
            signal.signal(signal.SIGINT, self._interrupted)

    def _interrupted(self, *_: object) -> None:
        if self.lost:
            raise KeyboardInterrupt

    def _refuse_living(self) -> None:
        """FolderInUse if there is a lease that is still renewed; one that is not belongs to a dead process."""
        before = self._read()
        if before is None:
            return
        owner, seconds = _owner(before), BEATS * BEAT
        logger.warning(
            "%s was locked by %s; waiting %.0f s to see whether it is still alive", self.folder, owner, seconds
        )
        for _ in range(BEATS):
            sleep(BEAT)
            now = self._read()
            if now is None:
                return
            if now != before:
                raise _in_use(self.folder, _owner(now))
        logger.warning("%s is dead: taking over its lock", owner)

    def _live(self) -> None:
        while not self.ended.wait(BEAT):
            try:
                self.lost = self._other()
                if self.lost:
                    # SIGINT, because it also wakes a waiting main thread.
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    return
                self._beat()
            except BadFile as error:
                logger.warning("the lock could not be renewed: %s", error)

    def _beat(self) -> None:
        self.beats += 1
        content = {"owner": self.owner, "name": self.name, "beat": self.beats}
        self.at.write_bytes(json.dumps(content).encode())

    def _other(self) -> str:
        """Return who has the lease; "" if it is this process."""
        content = self._read()
        if content is None:
            return "a process that has ended"
        return "" if self.name.encode() in content else _owner(content)

    def _read(self) -> bytes | None:
        try:
            return self.at.read_bytes()
        except BadFile:
            # The object is missing or was just deleted; any other failure of the store is raised.
            if self.at.is_file():
                raise
            return None


def _owner(content: bytes) -> str:
    try:
        return str(json.loads(content)["owner"])
    except (ValueError, KeyError, TypeError):
        return "another process"


def _in_use(folder: StoragePath, owner: str) -> FolderInUse:
    return FolderInUse(f"{folder} is being written by {owner}; wait for it, or give another --out")
