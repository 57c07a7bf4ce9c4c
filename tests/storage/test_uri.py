"""Places: one contract for local folders and an object store; what only URIs have: joins, copies near by, leases."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadFile, BadOption, FolderInUse, WrongFolder
from al_ray.core.scorer import Scorer
from al_ray.core.task import Fields
from al_ray.datasets.strings import as_strings
from al_ray.datasets.task_folder import read_task, read_texts, write_task
from al_ray.encoders.transformer import Encoder
from al_ray.storage import download as near
from al_ray.storage import lock
from al_ray.storage.download import fetched
from al_ray.storage.fence import lock_content, lock_owner
from al_ray.storage.files import in_one_step, read_json, read_parquet, write_json, write_parquet, write_text
from al_ray.storage.lock import Lease, locked
from al_ray.storage.uri import StoragePath, Uri, local_path, put_folder, stamp_of, storage_path
from al_ray.training.checkpoint import Checkpoint
from al_ray.training.saved_model import read_model, write_model
from tests.storage.s3 import Server, served


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as started:
        yield started


@pytest.fixture
def bucket(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Uri:
    """A folder of the test's own; copies of it lie with the test."""
    monkeypatch.setattr(near.tempfile, "tempdir", str(tmp_path))
    found = storage_path(server.uri(tmp_path.name))
    assert isinstance(found, Uri)
    return found


@pytest.fixture(params=[True, False], ids=["conditional", "plain"])
def conditional(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the store has conditional writes that al_ray knows."""
    if not request.param:
        monkeypatch.setattr(Uri, "conditional_store", lambda _: None)
    return request.param


@pytest.fixture(params=["path", "uri"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> StoragePath:
    """A folder of either kind, which is not there yet."""
    return tmp_path / "root" if request.param == "path" else request.getfixturevalue("bucket") / "root"


def puts(server: Server) -> list[str]:
    return [line for line in server.requests if not line.startswith(("GET", "HEAD"))]


def test_what_is_written_is_there_and_can_be_read(root: StoragePath):
    file = root / "round-001" / "record.json"
    assert not any((file.exists(), file.is_file(), file.parent.exists(), root.is_dir()))
    write_json(file, {"one": 1})
    assert (file.exists(), file.is_file(), file.is_dir()) == (True, True, False)
    assert (root.exists(), root.is_file(), root.is_dir(), file.parent.is_dir()) == (True, False, True, True)
    assert read_json(file, ["one"]) == {"one": 1}
    write_text(file, "two\n")
    assert (file.read_text(), file.read_bytes()) == ("two\n", b"two\n")
    assert (file.name, file.parent.name, file.parent.parent) == ("record.json", "round-001", root)
    assert root in file.parents
    write_text(root / "empty", "")
    assert (root / "empty").read_bytes() == b""


def test_a_stamp_changes_with_the_file_and_stays_while_it_stays(root: StoragePath):
    path = root / "file.txt"
    assert stamp_of(path) is None
    write_text(path, "one")
    first = stamp_of(path)
    assert first is not None
    assert stamp_of(path) == first
    write_text(path, "longer")
    assert stamp_of(path) not in (None, first)
    path.unlink()
    assert stamp_of(path) is None


def test_a_folder_tells_its_own_files_alone(root: StoragePath):
    for name in ("a-2.x", "a-1.x", "b-1.x", "deep/a-3.x"):
        write_text(root / name, name)
    assert sorted(file.name for file in root.glob("a-*.x")) == ["a-1.x", "a-2.x"]
    assert list((root / "none").glob("*")) == []
    (root / "a-1.x").unlink()
    (root / "a-1.x").unlink(missing_ok=True)
    assert [file.name for file in root.glob("a-*.x")] == ["a-2.x"]


def test_what_is_not_there_or_damaged_is_named(root: StoragePath):
    with pytest.raises(BadFile, match=r"config\.json"):
        read_json(root / "config.json")
    table = pa.table({"a": [1, 2]})
    write_parquet(root / "a.parquet", table)
    assert read_parquet(root / "a.parquet", table.schema) == table
    content = (root / "a.parquet").read_bytes()
    write_text(root / "a.parquet", content[:-9].decode("latin-1"))
    with pytest.raises(BadFile, match=r"a\.parquet.* cannot be read"):
        read_parquet(root / "a.parquet")


def test_a_writing_that_fails_leaves_what_stood_there(root: StoragePath):
    write_text(root / "state.json", "before")

    def half(aside: Path) -> None:
        aside.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(BadFile, match=r"state\.json.* cannot be written \(No space left on device\)"):
        in_one_step(root / "state.json", half)
    assert [(file.name, file.read_text()) for file in root.glob("*")] == [("state.json", "before")]


def test_a_task_is_the_same_from_everywhere(root: StoragePath, make_task):
    task, other = make_task(False), make_task(True)
    write_text(root / "beside", "a task makes no parents")
    assert write_task(task, root / "task", {})
    assert not write_task(task, root / "task", {})
    with pytest.raises(WrongFolder, match="holds another task"):
        write_task(other, root / "task", {})
    assert read_task(root / "task").digest == task.digest
    assert read_texts(root / "task", "right") == list(task.right.texts)
    (root / "task" / "dev" / "left.parquet").unlink()
    with pytest.raises(BadFile, match=r"dev/left.parquet.* is missing; move .*/task.* away"):
        read_task(root / "task")


def test_a_task_replaces_the_remainder_of_a_dead_writer_and_nothing_else(bucket: Uri, make_task, make_ruled):
    """It deletes what is no object of the task: a run given by mistake as --out would lose its labels."""
    task, ruled = make_task(True), make_ruled(False)
    left = replace(ruled.left, fields=Fields(("text",), as_strings(ruled.left.texts).lengths()[:, None]))
    assert write_task(replace(ruled, left=left), bucket / "task", {})
    (bucket / "task" / "task.json").unlink()
    write_text(bucket / "task" / "same-values.parquet", "half")
    assert {"left-fields.parquet", "right-groups.parquet"} <= {path.name for path in (bucket / "task").glob("*")}
    assert write_task(task, bucket / "task", {})
    assert read_task(bucket / "task").digest == task.digest
    assert {path.name for path in (bucket / "task").glob("*")} == {"left.parquet", "task.json"}
    for name in ("round-001/answers-00001.parquet", "runs/first/left.parquet", "notes.txt"):
        folder = bucket / name.partition(".")[0].replace("/", "-")
        write_text(folder / "left.parquet", "half")
        write_text(folder / name, "what somebody paid for")
        with pytest.raises(WrongFolder, match="exists and holds something else; choose another `out`"):
            write_task(task, folder, {})
        assert (folder / name).read_text() == "what somebody paid for"


def test_a_model_is_the_same_from_everywhere(root: StoragePath, letters: EncoderConfig):
    encoder, folder = Encoder.base(letters), root / "model"
    assert read_model(folder) is None
    for made_from in ("these", "those"):
        made = write_model(encoder, Scorer(9.0, -8.0, 0.1), folder, made_from)
        assert read_model(folder, made_from) == made
    assert read_model(folder, "these") is None
    assert Encoder.saved(made.path, letters).digest() == made.digest == encoder.digest()
    assert list(folder.glob("*.safetensors"))


def test_a_training_is_kept_everywhere(root: StoragePath):
    weights = torch.nn.Linear(2, 1)
    optimiser = torch.optim.AdamW(weights.parameters())
    kept = Checkpoint(root / "training.safetensors", "these labels", 0)
    assert kept.read() == (0, {})
    for taken in (3, 7):
        kept.write({"head": weights.state_dict()}, optimiser, taken)
    again = Checkpoint(kept.path, "these labels", 0)
    taken, parts = again.read()
    assert taken == 7
    assert torch.equal(parts["head"]["weight"], weights.weight)
    assert Checkpoint(kept.path, "other labels", 0).read() == (0, {})
    again.drop()
    assert not kept.path.exists()


def test_a_folder_has_one_writer(root: StoragePath, monkeypatch):
    renewed, renew = threading.Event(), Lease._renew

    def noted(lease: Lease) -> str:
        lost = renew(lease)
        renewed.set()
        return lost

    def sleep(_: float) -> None:
        """Until the owner has renewed its lease, however busy the machine is."""
        renewed.clear()
        assert renewed.wait(600)

    monkeypatch.setattr(lock, "BEAT", 0.05)
    monkeypatch.setattr(lock, "sleep", sleep)
    monkeypatch.setattr(Lease, "_renew", noted)
    for _ in range(2):
        with locked(root):
            with pytest.raises(FolderInUse, match="is being written by"), locked(root):
                pass
            write_text(root / "state.json", "mine")


KEY = st.text("abcäz09-_.%&= ", min_size=1).filter(lambda name: name.strip("."))


@given(st.lists(KEY, min_size=1, max_size=3), st.sampled_from(["", "region=eu-west-1", "scheme=http&region=a"]))
def test_a_uri_is_what_its_text_says_and_joins_before_its_query(names, query):
    text = f"s3://bucket/{'/'.join(names)}" + (f"?{query}" if query else "")
    uri = storage_path(text)
    assert str(uri) == text
    assert storage_path(str(uri / "x.json")) == uri / "x.json"
    assert uri / "" == uri
    assert (uri / "x.json").parent == uri.resolve() == uri
    assert str(uri / "x.json") == text.partition("?")[0] + "/x.json" + (f"?{query}" if query else "")
    assert [str(up) for up in uri.parents][-1] == "s3://bucket" + (f"?{query}" if query else "")


@pytest.mark.parametrize("uri", ["s3://bucket/runs/first", "gs://bucket", "s3a://bucket/x"])
def test_a_uri_that_pathlib_made_a_local_path_is_refused(uri: str):
    """Path("s3://bucket/run") is s3:/bucket/run, a folder on the disk of this machine."""
    with pytest.raises(BadOption, match=r"^\w+:/bucket.* is a URI; give it as a text such as s3://"):
        storage_path(str(Path(uri)))
    for path in (uri, Path(uri)):
        with pytest.raises(BadOption, match=r"^--out .* is a URI; give a local path$"):
            local_path(path, "--out")
    assert local_path("c:/run", "--out") == Path("c:/run")


def test_a_path_stays_a_path():
    assert storage_path("a/b?c") == Path("a/b?c")
    assert fetched(Path("a")) == Path("a")


@pytest.mark.parametrize("text", ["s3://", "s3:///", "s3://?region=a", "s3://bucket//run", "file:///tmp/run"])
def test_a_uri_that_names_nothing_is_refused(text):
    with pytest.raises(BadOption, match="is not a path on an object store"):
        storage_path(text)


@pytest.mark.parametrize("text", ["x3://bucket/run", "s3://bucket/run?colour=red"])
def test_a_store_that_nobody_knows_is_refused(text):
    with pytest.raises(BadOption, match=r"is not an object store \("):
        storage_path(text).exists()


def test_a_lease_that_is_lost_while_it_is_given_back_interrupts_nobody(bucket: Uri, monkeypatch):
    lease, renewing, interrupted = Lease(bucket), threading.Event(), list[object]()

    def renew() -> str:
        renewing.set()
        assert lease.ended.wait(600)
        return "another"

    def held() -> None:
        assert renewing.wait(600)
        # So long is its thread waited for.
        monkeypatch.setattr(lock, "BEAT", 600.0)

    monkeypatch.setattr(lock, "BEAT", 0.01)
    monkeypatch.setattr(lock.signal, "pthread_kill", lambda *thread: interrupted.append(thread))
    monkeypatch.setattr(lease, "_renew", renew)
    with pytest.raises(FolderInUse, match="is being written by another"), lease:
        held()
    assert not interrupted


@pytest.mark.parametrize(
    "uri",
    [
        "s3://somebody:hunter2@bucket/run",
        # Secret keys of AWS may have slashes.
        "s3://somebody:hunter2/more@bucket/run",
        "s3://somebody:/hunter2@bucket/run",
        "s3://somebody:12/hunter2@bucket/run",
        "s3://somebody:hunter2//more@bucket/run",
        "s3://hunter2@bucket/run",
        "s3://bucket/run?secret_key=hunter2",
        "s3://bucket/run?region=x&X-Amz-Signature=hunter2",
        "s3://bucket/run?endpoint_override=http://somebody:hunter2@10.0.0.7:9000",
        "s3://bucket/run?endpoint_override=http%3A%2F%2Fsomebody%3Ahunter2%4010.0.0.7",
        "abfs://container/run?sig=hunter2",
        "abfs://container/run?client_secret=hunter2",
    ],
)
def test_a_secret_in_a_uri_is_refused_and_not_said(uri: str):
    with pytest.raises(BadOption, match=r"holds a .*AWS_SECRET_ACCESS_KEY") as refused:
        storage_path(uri)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/mail@2026/run",
        "hdfs://name:8020/run",
        "s3://bucket/run?endpoint_override=10.0.0.7:9000&scheme=http&region=us-east-1",
        "gs://bucket/secret_key/run?project_id=p",
    ],
)
def test_what_only_looks_like_a_secret_is_taken(uri: str):
    assert str(storage_path(uri)) == uri


def test_a_bucket_that_is_not_there_is_named(bucket: Uri):
    nowhere = Uri("s3", "nowhere/run", bucket.query)
    assert not nowhere.exists()
    with pytest.raises(BadFile, match=r"s3://nowhere/run/a.*NO_SUCH_BUCKET.*check the bucket, its address and your"):
        write_text(nowhere / "a", "a")


def test_a_file_is_one_put_and_a_folder_is_whole_once_its_last_object_is(bucket: Uri, server: Server, tmp_path: Path):
    before = len(puts(server))
    write_text(bucket / "state.json", "{}")
    write_text(bucket / "state.json", "{ }")
    assert puts(server)[before:] == [f"PUT /{bucket.path}/state.json"] * 2
    local = tmp_path / "local"
    for name in ("z.bin", "last.json", "deep/a.bin"):
        (local / name).parent.mkdir(parents=True, exist_ok=True)
        (local / name).write_text(name)
    write_text(bucket / "model" / "stale.bin", "")
    write_text(bucket / "model" / "last.json", "")
    before = len(puts(server))
    put_folder(local, bucket / "model", "last.json")
    assert server.names(f"{bucket.path.partition('/')[2]}/model") == ["deep/a.bin", "last.json", "z.bin"]
    there = f"/{bucket.path}/model"
    # pyarrow keeps the folder's mark as it deletes.
    assert [line for line in puts(server)[before:] if line != f"PUT {there}/"] == [
        f"DELETE {there}/last.json",
        f"DELETE {there}/stale.bin",
        *(f"PUT {there}/{name}" for name in ("deep/a.bin", "z.bin", "last.json")),
    ]


def test_a_folder_is_downloaded_once_a_node_until_it_changes(bucket: Uri, server: Server):
    write_text(bucket / "pool" / "left" / "ids", "old ids")
    write_text(bucket / "pool" / "rows", "rows")
    found: list[Path] = []
    both = [threading.Thread(target=lambda: found.append(fetched(bucket / "pool"))) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    (copy,) = set(found)
    assert (copy / "left" / "ids").read_text() == "old ids"
    assert sum(line == f"GET /{bucket.path}/pool/rows" for line in server.requests) == 1
    write_text(bucket / "pool" / "left" / "ids", "newer ids")
    os.utime(copy, (0, 0))
    again = fetched(bucket / "pool")
    assert (again / "left" / "ids").read_text() == "newer ids"
    assert not copy.exists(), "what nobody asked for in a day is forgotten"
    with pytest.raises(BadFile, match="does not exist; restore it"):
        fetched(bucket / "none")


def test_what_is_left_out_is_not_downloaded_and_its_changes_download_nothing_again(bucket: Uri, server: Server):
    write_text(bucket / "pool" / "left" / "ids", "ids")
    write_text(bucket / "pool" / "grams-1" / "left" / "columns", "many")
    copy = fetched(bucket / "pool", ("candidates", "grams-*"))
    assert [path.name for path in copy.rglob("*") if path.is_file()] == ["ids"]
    write_text(bucket / "pool" / "candidates" / "keys", "more")
    assert fetched(bucket / "pool", ("candidates", "grams-*")) == copy
    assert sum(line == f"GET /{bucket.path}/pool/left/ids" for line in server.requests) == 1
    assert not [line for line in server.requests if line.startswith("GET") and line.endswith(("/columns", "/keys"))]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["deleted", "emptied"])
def test_a_copy_that_lacks_a_file_or_its_end_is_downloaded_again(bucket: Uri, damage):
    """As after a program that cleans the folder of temporary files, or after a power cut."""
    write_text(bucket / "pool" / "left" / "ids", "ids")
    write_text(bucket / "pool" / "rows", "rows")
    copy = fetched(bucket / "pool")
    damage(copy / "left" / "ids")
    assert fetched(bucket / "pool") == copy
    assert {path.name: path.read_text() for path in copy.rglob("*") if path.is_file()} == {"ids": "ids", "rows": "rows"}


def test_what_another_process_moves_while_unused_copies_are_deleted_is_passed_over(tmp_path: Path, monkeypatch):
    (tmp_path / "being-downloaded").mkdir()

    def now() -> float:
        (tmp_path / "being-downloaded").rename(tmp_path / "downloaded")
        return 0.0

    monkeypatch.setattr(near, "time", SimpleNamespace(time=now))
    near._delete_unused(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["downloaded"]


def dead(bucket: Uri, beat: int = 5) -> None:
    """Leave a lease as a killed process does, or one that lives and has counted so far."""
    content = {"owner": "process 7 on far-away", "name": "another", "beat": beat}
    (bucket / ".lock").write_bytes(json.dumps(content).encode())


def test_a_dead_lease_is_taken_over_after_three_beats(bucket: Uri, conditional, monkeypatch):
    dead(bucket)
    slept: list[float] = []
    monkeypatch.setattr(lock, "sleep", slept.append)
    with locked(bucket):
        assert json.loads((bucket / ".lock").read_bytes())["owner"].startswith(f"process {os.getpid()} on ")
        assert slept == [10.0] * 3 + [2.0] * (not conditional)
    assert not (bucket / ".lock").exists()


@pytest.mark.parametrize("last", [1, 3])
def test_a_living_lease_is_refused(bucket: Uri, conditional, monkeypatch, last):
    dead(bucket)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == last:
            dead(bucket, 6)

    monkeypatch.setattr(lock, "sleep", sleep)
    with pytest.raises(FolderInUse, match="is being written by process 7 on far-away"), locked(bucket):
        pass
    assert len(slept) == last
    assert json.loads((bucket / ".lock").read_bytes())["beat"] == 6, "it was left alone"


@pytest.mark.parametrize("rest", [b"", b"\x00\xff\x90", b'": 5}'])
def test_a_lock_replaced_while_it_is_read_still_names_its_owner(rest):
    """pyarrow asks for the length first, and returns so many bytes of the new content, whatever follows it."""
    content = lock_content("name", 1)
    assert lock_owner(content + rest) == json.loads(content)["owner"]
    assert lock_owner(content[:20]) == lock_owner(b"[1]") == "another process"


def test_a_lease_given_back_meanwhile_is_free(bucket: Uri, conditional, monkeypatch):
    dead(bucket)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            (bucket / ".lock").unlink()

    monkeypatch.setattr(lock, "sleep", sleep)
    with locked(bucket):
        assert slept == [10.0] + [2.0] * (not conditional)


def test_of_two_that_come_at_once_the_last_to_write_has_it(bucket: Uri, monkeypatch):
    monkeypatch.setattr(Uri, "conditional_store", lambda _: None)
    monkeypatch.setattr(lock, "sleep", lambda _: dead(bucket))
    with pytest.raises(FolderInUse, match="far-away"), locked(bucket):
        pass
    assert (bucket / ".lock").exists(), "it is the other's"


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["in front", "behind"])
def interruptions(request: pytest.FixtureRequest) -> Iterator[object]:
    """What a shell lets a process in front of it hear, and one behind it."""
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, before)


def test_a_lease_is_renewed_and_its_owner_stopped_when_another_took_it(
    bucket: Uri, conditional, monkeypatch, interruptions
):
    monkeypatch.setattr(lock, "BEAT", 0.05)
    lease, slept_on = Lease(bucket), list[bool]()

    def held_up() -> None:
        while (lease.fence or lease).beats < 3:
            assert lease.thread.is_alive()
        # More than once: a renewal that is just on its way writes over it. The interruption ends the loop.
        for _ in range(300):
            dead(bucket)
            threading.Event().wait(0.2)
        slept_on.append(True)

    with pytest.raises(FolderInUse, match="far-away"), lease:
        held_up()
    assert not slept_on
    assert signal.getsignal(signal.SIGINT) == interruptions
    assert (bucket / ".lock").exists()
