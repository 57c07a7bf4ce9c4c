"""Fences: of processes that come at once one gets the lock, and one that lost it writes nothing."""

import json
import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import moto.s3.responses
import numpy as np
import pytest

from al_ray.core.errors import BadFile, FolderInUse
from al_ray.core.labels import YES, Batch, make_answers
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import opened
from al_ray.storage import lock
from al_ray.storage.conditional import Refused
from al_ray.storage.files import read_json, write_json
from al_ray.storage.lock import Lease, locked
from al_ray.storage.uri import Uri, storage_path
from tests.storage.s3 import Server, served

Reply = Any
WRITE = moto.s3.responses.S3Response.put_object


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as started:
        yield started


@pytest.fixture
def folder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Uri:
    """A folder of the test's own; nobody waits to see whether the owner of a lock is alive."""
    monkeypatch.setattr(lock, "sleep", lambda seconds: None)
    found = storage_path(server.uri(tmp_path.name))
    assert isinstance(found, Uri)
    return found


def served_by(monkeypatch: pytest.MonkeyPatch, put: Callable[[Any], Reply]) -> None:
    """Have the server answer each PUT of an object so."""
    monkeypatch.setattr(moto.s3.responses.S3Response, "put_object", put)


def owner(folder: Uri) -> tuple[Lease, Uri]:
    """Lock a folder as a driver does that renews nothing by itself; the lease, and the folder with its fence."""
    lease = Lease(folder)
    lease.take(lease.require_expired())
    assert lease.fence is not None
    return lease, Uri(folder.scheme, folder.path, folder.query, lease.fence)


def everything(server: Server, folder: Uri) -> dict[str, bytes]:
    """All objects but the lock."""
    path = folder.path.partition("/")[2]
    return {name: server.content(f"{path}/{name}") for name in server.names(path) if name != ".lock"}


@pytest.mark.parametrize("before", ["no lock", "a dead one"])
def test_of_processes_that_come_at_once_one_gets_the_lock(before: str, folder: Uri):
    if before == "a dead one":
        owner(folder)
    both = [Lease(folder), Lease(folder)]
    tags = [lease.require_expired() for lease in both]
    assert tags[0] == tags[1]
    both[0].take(tags[0])
    with pytest.raises(FolderInUse, match=r"is being written by process \d+ on .*; wait for it"):
        both[1].take(tags[1])
    assert both[0].fence is not None
    both[0].fence.prove()


def test_an_owner_renews_after_an_interrupted_renewal_whose_tag_it_never_saw(folder: Uri):
    lease, _ = owner(folder)
    assert lease.fence is not None
    tag = lease.fence.tag
    lease.fence.prove()
    lease.fence.tag = tag
    lease.fence.prove()
    assert not lease.fence.lost


@pytest.mark.parametrize("content", [b"", b"\x80", b'{"owner": "process 7 on far-away"}'])
def test_an_owner_whose_lock_another_wrote_is_told_who(content: bytes, folder: Uri):
    lease, fenced = owner(folder)
    (folder / ".lock").write_bytes(content)
    for _ in range(2):
        with pytest.raises(FolderInUse, match="far-away" if b"far" in content else "written by another process"):
            write_json(fenced / "state.json", 1)
    (folder / ".lock").unlink()
    assert lease._renew(), "what is lost stays lost"
    assert not (folder / "state.json").exists()


def test_a_driver_that_was_cut_off_and_came_back_writes_nothing(folder: Uri, server: Server, task):
    _, early = owner(folder)
    space = task.split("train").space
    batch = Batch(space.pairs(space.at(np.arange(4))), np.zeros(4), "seed")
    stale = Ledger(early, task)
    stale.add_batch(1, batch)
    answers = make_answers(np.arange(4), np.full(4, YES, dtype=np.uint8), "judge")
    stale.add_answers(1, answers)
    write_json(early / "state.json", {"round": 0})
    _, late = owner(folder)
    before = everything(server, folder)
    assert sorted(before) == ["round-001/answers-00001.parquet", "round-001/batch.parquet", "state.json"]
    for write in (
        stale.prove_lock,
        lambda: stale.add_answers(1, answers),
        lambda: stale.add_batch(2, batch),
        lambda: stale.seal(1),
        lambda: stale.close(1),
        lambda: write_json(early / "state.json", {"round": 1}),
        lambda: write_json(early / "new.json", {}),
    ):
        with pytest.raises(FolderInUse, match="is being written by process"):
            write()
    assert everything(server, folder) == before
    ledger = Ledger(late, task)
    ledger.seal(1)
    assert ledger.correct(batch.pairs[:1], np.zeros(1, dtype=np.uint8)) == 1
    write_json(late / "state.json", {"round": 1})
    assert read_json(folder / "state.json") == {"round": 1}


@pytest.mark.parametrize("name", ["answers", "state.json"])
def test_a_driver_suspended_between_its_proof_and_its_write_writes_over_nothing(name: str, folder: Uri, task):
    """The other takes over and writes the same object after the proof; the late write comes after both."""
    _, early = owner(folder)
    space = task.split("train").space
    batch = Batch(space.pairs(space.at(np.arange(4))), np.zeros(4), "seed")
    Ledger(early, task).add_batch(1, batch)
    write_json(early / "state.json", {"round": 0})

    def write(path: Uri, value: int) -> None:
        if name == "answers":
            labels = np.full(4, value, dtype=np.uint8)
            Ledger(path, task).add_answers(1, make_answers(np.arange(4), labels, f"driver {value}"))
        else:
            write_json(path / name, {"round": value})

    fence, suspended = early.fence, list[bool]()
    assert fence is not None
    proof = fence.prove

    def proved_and_suspended() -> None:
        proof()
        if not suspended:
            suspended.append(True)
            write(owner(folder)[1], 1)

    fence.prove = proved_and_suspended
    with pytest.raises(FolderInUse, match="written by another process at the same time, and is left as that wrote it"):
        write(early, 0)
    assert suspended
    if name == "answers":
        (piece,) = Ledger(folder, task).answers(1)
        assert (piece.by, piece.labels.tolist()) == ("driver 1", [1] * 4)
    else:
        assert read_json(folder / name) == {"round": 1}


def test_a_write_whose_reply_was_lost_is_known_again(folder: Uri, monkeypatch):
    """botocore sends it again, and the second one finds the object there already, or changed."""
    _, fenced = owner(folder)
    seen = list[str]()

    def first_reply_lost(self: Any) -> Reply:
        seen.append(self.parse_key_name())
        reply = WRITE(self)
        return (503, {}, "") if seen.count(seen[-1]) in (1, 3) else reply

    served_by(monkeypatch, first_reply_lost)
    for value in (1, 2):
        write_json(fenced / "state.json", value)
        assert read_json(folder / "state.json") == value
    assert [seen.count(name) for name in sorted(set(seen))] == [4, 4], "each write was sent twice"


def test_a_conflict_is_tried_again_and_not_without_end(folder: Uri, monkeypatch):
    _, fenced = owner(folder)
    conflict, left = (409, {}, "<Error><Code>ConditionalRequestConflict</Code></Error>"), [2]

    def put(self: Any) -> Reply:
        if self.parse_key_name().endswith(".lock"):
            return WRITE(self)
        left[0] -= 1
        return conflict if left[0] >= 0 else WRITE(self)

    served_by(monkeypatch, put)
    write_json(fenced / "state.json", 1)
    assert left == [-1]
    left[0] = 3
    with pytest.raises(BadFile, match=r"state.json.* is being written by another process"):
        write_json(fenced / "state.json", 2)
    assert read_json(folder / "state.json") == 1


CONDITIONS = ("If-Match", "If-None-Match")


def ignored(self: Any) -> Reply:
    self.headers = {name: value for name, value in self.headers.items() if name not in CONDITIONS}
    return WRITE(self)


def half_ignored(self: Any) -> Reply:
    self.headers = {name: value for name, value in self.headers.items() if name != "If-Match"}
    return WRITE(self)


def not_implemented(self: Any) -> Reply:
    if any(name in self.headers for name in CONDITIONS):
        return 501, {}, "<Error><Code>NotImplemented</Code><Message>A header is not implemented</Message></Error>"
    return WRITE(self)


@pytest.mark.parametrize("put", [ignored, half_ignored, not_implemented])
def test_a_store_without_conditional_writes_has_the_lease_and_it_is_said_once(put, folder: Uri, monkeypatch, caplog):
    served_by(monkeypatch, put)
    slept = list[float]()
    monkeypatch.setattr(lock, "sleep", slept.append)
    with caplog.at_level(logging.WARNING, "al_ray"), locked(folder) as path:
        assert isinstance(path, Uri)
        assert path.fence is None
        write_json(path / "state.json", 1)
        write_json(path / "state.json", 2)
        owner_of = json.loads((folder / ".lock").read_bytes())["owner"]
    assert slept == [2.0]
    assert [record.message for record in caplog.records if record.name.startswith("al_ray")] == [
        f"{folder} is on a store without conditional writes: start no second process on it within seconds of this one "
        "(docs/storage.md, One writer)"
    ]
    assert owner_of.startswith("process ")
    assert not (folder / ".lock").exists()


def test_a_run_folder_is_fenced_and_its_paths_are_so_in_this_process_alone(folder: Uri, task):
    with opened(folder, task) as journal:
        for path in (journal.path, journal.round(1), journal.dev_labels.ledger.path, *journal.round(2).parents[:1]):
            assert isinstance(path, Uri)
            assert path.fence is not None
        sent = pickle.loads(pickle.dumps(journal.path))
        assert sent == journal.path == folder
        assert sent.fence is None
        write_json(journal.path / "state.json", {"round": 0})
    assert not (folder / ".lock").exists()


def test_a_store_that_cannot_be_reached_or_has_no_such_bucket_is_told_of(folder: Uri):
    _, fenced = owner(folder)
    assert fenced.fence is not None
    with pytest.raises(Refused):
        fenced.fence.store.write(f"{folder.key}/none", b"", '"1"', "me")
    nowhere = Uri("s3", "nowhere/run", folder.query).conditional_store()
    gone = Uri("s3", "bucket/run", "endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1").conditional_store()
    assert nowhere is not None
    assert gone is not None
    with pytest.raises(BadFile, match=r"s3://nowhere/run/a\?.* cannot be written .*NoSuchBucket.*check the bucket"):
        nowhere.write("run/a", b"", None, "me")
    with pytest.raises(BadFile, match=r"s3://nowhere/run/a\?.* cannot be read"):
        nowhere.read("run/a")
    for request in (gone.read, gone.tag):
        with pytest.raises(BadFile, match=r"s3://bucket/run/a\?.* cannot be read .*127.0.0.1:1"):
            request("run/a")
