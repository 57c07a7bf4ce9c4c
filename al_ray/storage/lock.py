"""One writer a folder: a lock of the operating system on a disk, a lease on an object store."""

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
from al_ray.storage.places import Place, Uri

logger = logging.getLogger(__name__)

NAME = ".lock"
BEAT = 10.0  # Seconds between two signs of life of a lease.
BEATS = 3  # Without one for so many beats its owner is held for dead.


@contextmanager
def locked(folder: Place, patience: float = 0.0) -> Iterator[None]:
    """The folder, made if it is not there, for one process at a time; FolderInUse when another has it.

    patience: seconds to wait for that other one; a lease has a patience of its own.
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
    """An object that its owner writes anew every BEAT seconds, with a number that rises; deleted when it is given back.

    It promises: of processes that find another's living lease, none writes. A lease whose number stands still for
    BEATS beats is taken over, so that a killed process keeps a folder no longer than that. Of several that come at
    once the last to write its name has it, and the others see that a fifth of a beat later. An owner that was held up
    (suspended, or cut off from the store) and then finds another's name is interrupted, and ends with FolderInUse.

    It does not promise: that an owner held up for longer writes nothing in the beat until it finds out, nor that two
    which come at once are told apart when a request of one of them takes longer than a fifth of a beat.
    """

    def __init__(self, folder: Uri) -> None:
        """The folder that is wanted; nothing is asked yet."""
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
        """See to it that an interruption of ours is heard: a shell starts what it puts behind it deaf to Ctrl+C."""
        self.deaf = threading.current_thread() is threading.main_thread() and (
            signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        )
        if self.deaf:
            signal.signal(signal.SIGINT, self._interrupted)

    def _interrupted(self, *_: object) -> None:
        if self.lost:
            raise KeyboardInterrupt

    def _refuse_living(self) -> None:
        """FolderInUse when there is a lease whose number rises; else it is no more than a dead one's."""
        stood = self._read()
        if stood is None:
            return
        owner, seconds = _owner(stood), BEATS * BEAT
        logger.warning("%s was locked by %s; looking for %.0f s whether that lives", self.folder, owner, seconds)
        for _ in range(BEATS):
            sleep(BEAT)
            stands = self._read()
            if stands is None:
                return
            if stands != stood:
                raise _in_use(self.folder, _owner(stands))
        logger.warning("%s is dead: its lock is taken over", owner)

    def _live(self) -> None:
        while not self.ended.wait(BEAT):
            try:
                self.lost = self._other()
                if self.lost:
                    # As Ctrl+C does, for it also wakes a thread that waits.
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
        """Who has the lease, if it is not we."""
        stands = self._read()
        if stands is None:
            return "a process that has ended"
        return "" if self.name.encode() in stands else _owner(stands)

    def _read(self) -> bytes | None:
        try:
            return self.at.read_bytes()
        except BadFile:
            # Not there, or only just gone; or no answer, which is told again.
            if self.at.is_file():
                raise
            return None


def _owner(content: bytes) -> str:
    try:
        return str(json.loads(content)["owner"])
    except (ValueError, KeyError, TypeError):
        return "another process"


def _in_use(folder: Place, owner: str) -> FolderInUse:
    return FolderInUse(f"{folder} is being written by {owner}; wait for it, or give another --out")
