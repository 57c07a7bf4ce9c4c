"""A fence: writes below a folder of S3 that only the process with the folder's lock can make.

The lock is an object that its owner creates, renews and takes over by conditional writes alone. So of several processes
one gets it, and an owner whose lock was taken over cannot renew it any more. It renews before each write, and learns so
that it is the owner no longer. The write itself is conditional on what the object was before the renewal: if the
process is suspended between the two and another takes over and writes, its own write is refused.
"""

import json
import os
import socket
import threading
import uuid

from al_ray.core.errors import FolderInUse
from al_ray.storage.conditional import ConditionalStore, NoConditions, Refused


class Fence:
    """The lock of a folder by conditional writes, and writes that depend on it. Threads may share it."""

    def __init__(self, store: ConditionalStore, key: str) -> None:
        """Prepare to take the lock, an object of this key, without a request; its folder is what is locked."""
        self.store, self.key = store, key
        self.name, self.beats, self.tag, self.lost = uuid.uuid4().hex, 0, None, ""
        self.requests = threading.Lock()

    def take(self, tag: str | None) -> bool:
        """Take the lock if its object has this tag still (None: if there is none); FolderInUse if it has another.

        Returns whether the store honours conditions: otherwise the lock may be another's, and nothing is fenced.
        """
        self.tag = tag
        try:
            self.prove()
        except NoConditions:
            return False
        return self.store.honours_conditions(self.key, lock_content(self.name, self.beats), self.name)

    def prove(self) -> None:
        """Renew the lock; FolderInUse if another process has taken it over."""
        with self.requests:
            if not self.lost:
                self.beats += 1
                try:
                    self.tag = self.store.write(self.key, lock_content(self.name, self.beats), self.tag, self.name)
                except Refused:
                    content = self.store.read(self.key)
                    self.lost = "a process that has ended" if content is None else lock_owner(content[0])
            if self.lost:
                raise in_use(self.store.uri(self.key.rpartition("/")[0]), self.lost)

    def write(self, key: str, content: bytes, new: bool) -> None:
        """Write an object; FolderInUse if another process has taken over the lock, or writes the object meanwhile.

        new: there must be no such object.
        """
        tag = None if new else self.store.tag(key)
        # After the tag was read: whatever another owner writes from here on changes it.
        self.prove()
        try:
            self.store.write(key, content, tag, uuid.uuid4().hex)
        except Refused as error:
            raise FolderInUse(
                f"{self.store.uri(key)} was written by another process at the same time, and is left as that wrote it; "
                "wait for that process, then rerun the same command"
            ) from error


def lock_content(name: str, beat: int) -> bytes:
    """Return the content of a lock of this process: its name, unique, and a number that rises as it is renewed."""
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    return json.dumps({"owner": owner, "name": name, "beat": beat}).encode()


def lock_owner(content: bytes) -> str:
    """Return who wrote a lock, for messages.

    pyarrow reads an object that is replaced meanwhile in its old length: bytes of no meaning may follow the lock.
    """
    try:
        return str(json.JSONDecoder().raw_decode(content.decode(errors="replace"))[0]["owner"])
    except (ValueError, KeyError, TypeError):
        return "another process"


def in_use(folder: object, owner: str) -> FolderInUse:
    """Return the error for a folder that another process has locked."""
    return FolderInUse(f"{folder} is being written by {owner}; wait for it, or give another folder")
