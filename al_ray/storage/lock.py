"""One writer for each folder: a file lock on a disk, a lease on an object store."""

import logging
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import sleep
from types import TracebackType

from filelock import FileLock, Timeout

from al_ray.core.errors import BadFile, FolderInUse, WrongFolder
from al_ray.storage.fence import Fence, in_use, lock_content, lock_owner
from al_ray.storage.files import remove_unfinished
from al_ray.storage.uri import StoragePath, Uri

logger = logging.getLogger(__name__)

NAME = ".lock"
BEAT = 10.0  # Seconds between two renewals of a lease.
BEATS = 3  # Missed renewals after which the owner counts as dead.


@contextmanager
def locked(folder: StoragePath, patience: float = 0.0) -> Iterator[StoragePath]:
    """Lock a folder, which is created if missing, for one process at a time; FolderInUse if another has it.

    Yields the folder; on an object store with conditional writes it has a fence, and so has every path made from it.
    What killed processes were writing directly in a folder on a disk is removed.
    patience: seconds to wait for the other process; a lease always waits BEATS * BEAT.
    """
    if isinstance(folder, Uri):
        with Lease(folder) as fenced:
            yield fenced
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / NAME, timeout=patience)
        lock.acquire()
    except Timeout as error:
        raise in_use(folder, "another process") from error
    except OSError as error:
        raise WrongFolder(f"{folder} cannot be written ({error.strerror}); give another folder") from error
    try:
        remove_unfinished(folder)
        yield folder
    finally:
        lock.release()


class Lease:
    """A lock file that its owner rewrites every BEAT seconds with an increasing number, and deletes at the end.

    A process that finds the live lease of another does not write. A lease that is not renewed for BEATS beats is taken
    over, so a killed process locks a folder no longer than that. An owner that was suspended or cut off from the store,
    and whose lease another took over, is interrupted and ends with FolderInUse.

    With conditional writes (storage/fence.py) one process gets the lease, however many ask at once, and an owner that
    has lost it cannot write with the fence any more.

    Without them (other stores than S3, and servers of S3 that refuse or ignore conditions) the last of several that
    come at once to write its name wins, and the others notice after a fifth of a beat. Not guaranteed there: an owner
    suspended for longer may still write during the beat until it notices; and two processes that come at once may both
    win if a request of one takes longer than a fifth of a beat.
    """

    def __init__(self, folder: Uri) -> None:
        """Prepare to lock this folder, without a request to the store."""
        self.folder, self.at = folder, folder / NAME
        self.name, self.beats, self.lost, self.deaf = uuid.uuid4().hex, 0, "", False
        self.fence: Fence | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Uri:
        self.take(self.require_expired())
        self._listen()
        self.thread.start()
        return replace(self.folder, fence=self.fence)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.ended.set()
            self.thread.join(BEAT)
        except KeyboardInterrupt:
            # From `_live`, after a write had learned of the loss, too.
            if not self.lost:
                raise
        if self.deaf:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self.lost:
            raise in_use(self.folder, self.lost) from error
        # Renewed once more: nobody takes it over between that and its deletion.
        if not self._renew():
            self.at.unlink(missing_ok=True)

    def require_expired(self) -> str | None:
        """Return the tag of a lease that nobody renews, None if there is none; FolderInUse if it is renewed.

        The tag changes whenever the object does.
        """
        content, before = self._read()
        if before is None:
            return None
        owner, seconds = lock_owner(content), BEATS * BEAT
        logger.warning(
            "%s was locked by %s; waiting %.0f s to see whether it is still alive", self.folder, owner, seconds
        )
        for _ in range(BEATS):
            sleep(BEAT)
            content, now = self._read()
            if now is None:
                return None
            if now != before:
                raise in_use(self.folder, lock_owner(content))
        logger.warning("%s is dead: taking over its lock", owner)
        return before

    def take(self, tag: str | None) -> None:
        """Take the lease that has this tag, None if there was none; FolderInUse if another process has it by now."""
        store = self.at.conditional_store()
        fence = None if store is None else Fence(store, self.at.key)
        if fence is not None and fence.take(tag):
            self.fence = fence
            return
        logger.warning(
            "%s is on a store without conditional writes: start no second process on it within seconds of this one "
            "(docs/storage.md, One writer)",
            self.folder,
        )
        self._beat()
        sleep(BEAT / 5)
        other = self._other()
        if other:
            raise in_use(self.folder, other)

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

    def _live(self) -> None:
        while not self.ended.wait(BEAT):
            try:
                self.lost = self._renew()
                # A beat for the main thread to learn of it by a write of its own; without a fence writes would go on.
                if self.lost and not self.ended.wait(0.0 if self.fence is None else BEAT):
                    # SIGINT, because it also wakes a waiting main thread.
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                if self.lost:
                    return
            except BadFile as error:
                logger.warning("the lock could not be renewed: %s", error)

    def _renew(self) -> str:
        """Renew the lease and return ""; if another process has it, return that one."""
        if self.fence is not None:
            with suppress(FolderInUse):
                self.fence.prove()
            return self.fence.lost
        other = self._other()
        if not other:
            self._beat()
        return other

    def _beat(self) -> None:
        self.beats += 1
        self.at.write_bytes(lock_content(self.name, self.beats))

    def _other(self) -> str:
        """Return who has the lease; "" if it is this process."""
        content, tag = self._read()
        if tag is None:
            return "a process that has ended"
        return "" if self.name.encode() in content else lock_owner(content)

    def _read(self) -> tuple[bytes, str | None]:
        """Return content and tag of the lease; b"" and None if there is none."""
        store = self.at.conditional_store()
        if store is not None:
            return store.read(self.at.key) or (b"", None)
        try:
            content = self.at.read_bytes()
            # The number in it rises with each renewal.
            return content, content.decode(errors="replace")
        except BadFile:
            # The object is missing or was just deleted; any other failure of the store is raised.
            if self.at.is_file():
                raise
            return b"", None
