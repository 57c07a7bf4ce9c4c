"""The journal and the store: what was acknowledged is there, whatever a killed process leaves after it."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from al_ray.apps.serving import store as module
from al_ray.apps.serving.answers import PutCounts, RemovedCounts
from al_ray.apps.serving.journal import Change, append_change, journal_reader, open_journal, read_changes
from al_ray.apps.serving.store import (
    ABOUT,
    CHANGES,
    KnownText,
    Source,
    StoreWriter,
    apply,
    make_store,
    read_store,
)
from al_ray.core.errors import BadFile, BadOption, FolderInUse, WrongFolder

SOURCE = Source("known.csv", "d" * 64, symmetric=True)
FIRST = {"a": KnownText("how do i swim", 3), "b": KnownText("why")}
ids = st.sampled_from(["a", "b", "c", "\u2028 d\x1c"])
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
requests = st.lists(
    st.one_of(
        st.lists(st.tuples(ids, texts), min_size=1, max_size=3, unique_by=lambda pair: pair[0]),
        st.lists(ids, min_size=1, max_size=3, unique=True),
    ),
    max_size=4,
)


def make(folder: Path) -> Path:
    make_store(folder, SOURCE, dict(FIRST))
    return folder


def carry_out(store: StoreWriter, request: list) -> None:
    if isinstance(request[0], tuple):
        store.put(request)
    else:
        store.remove(request)


# Every change is synced to the disk, which takes its time.
@settings(max_examples=20, deadline=None)
@given(requests, st.integers(0, 10**6), st.booleans())
def test_acknowledged_changes_are_there_after_a_cut_at_any_byte_of_a_later_one(asked, cut, restarts):
    with tempfile.TemporaryDirectory() as root:
        folder = make(Path(root) / "store")
        store, expected = StoreWriter(folder), dict(FIRST)
        for request in asked:
            carry_out(store, request)
            # The slow twin: a dict.
            for one, *text in [(pair,) if isinstance(pair, str) else pair for pair in request]:
                if not text:
                    expected.pop(one, None)
                elif one not in expected or expected[one].text != text[0]:
                    expected[one] = KnownText(text[0])
            if restarts:
                store.close()
                store = StoreWriter(folder)
            assert read_store(folder).texts == expected
        # One more change, of which a killed process has written only the first bytes.
        number, end = store.number, (folder / CHANGES).stat().st_size
        store.put([("z", "\nnot acknowledged\n")])
        store.close()
        whole = (folder / CHANGES).read_bytes()
        (folder / CHANGES).write_bytes(whole[: end + cut % (len(whole) - end)])
        assert read_store(folder).texts == expected
        again = StoreWriter(folder)
        assert (again.texts, again.number) == (expected, number)
        again.put([("y", "after")])
        again.close()
        assert read_store(folder).texts == {**expected, "y": KnownText("after")}


def test_a_reader_sees_each_change_once_and_no_half_of_one(tmp_path):
    path = tmp_path / "log"
    writer, reader = open_journal(path, 0, 0), journal_reader(path)
    assert read_changes(reader) == []
    one = append_change(writer, [("a", "x")], ())
    assert read_changes(reader) == [one] == [Change(1, (("a", "x"),))]
    whole = path.read_bytes()
    two = append_change(writer, (), ["a"])
    longer = path.read_bytes()
    path.write_bytes(longer[:-1])
    assert read_changes(reader) == []
    path.write_bytes(longer)
    assert read_changes(reader) == [two] == [Change(2, (), ("a",))]
    assert read_changes(reader) == []
    path.write_bytes(whole)
    with pytest.raises(BadFile, match=r"has .* bytes and had"):
        read_changes(reader)
    writer.close()


@pytest.mark.parametrize("place", [0, 12, -2], ids=["checksum", "content", "end"])
def test_damage_of_a_complete_change_is_an_error_with_its_place(tmp_path, place):
    store = StoreWriter(make(tmp_path / "store"))
    store.put([("c", "one")])
    store.close()
    content = bytearray((tmp_path / "store" / CHANGES).read_bytes())
    content[place] ^= 1
    (tmp_path / "store" / CHANGES).write_bytes(bytes(content))
    with pytest.raises(BadFile, match=r"changes.log, byte 0: the change 1 is damaged; restore the file"):
        read_store(tmp_path / "store")


def test_a_missing_change_is_an_error(tmp_path):
    store = StoreWriter(make(tmp_path / "store"))
    store.put([("c", "one")])
    store.put([("d", "two")])
    store.close()
    path = tmp_path / "store" / CHANGES
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    with pytest.raises(BadFile, match="change 2 stands where change 1 belongs"):
        read_store(tmp_path / "store")


def test_the_next_writer_makes_one_table_of_all_changes(tmp_path):
    store = StoreWriter(make(tmp_path / "store"))
    assert store.put([("a", "how do i swim"), ("b", "who"), ("c", "new")]) == PutCounts(1, 1, 1, 1)
    assert store.remove(["b", "nobody"]) == RemovedCounts(2, 1, 1)
    assert store.number == 2
    # Nothing changes, so nothing is written.
    store.put([("c", "new")])
    store.remove(["b"])
    assert store.number == 2
    store.close()
    StoreWriter(tmp_path / "store").close()
    names = {path.name for path in (tmp_path / "store").iterdir()} - {".lock"}
    assert names == {ABOUT, CHANGES, "texts-2.jsonl"}
    content = read_store(tmp_path / "store")
    assert (content.changes, content.texts) == ([], {"a": FIRST["a"], "c": KnownText("new")})


def test_one_process_writes_a_store(tmp_path):
    store = StoreWriter(make(tmp_path / "store"))
    with pytest.raises(FolderInUse):
        StoreWriter(tmp_path / "store")
    store.close()
    with pytest.raises(BadOption, match=r"holds no store.json; make the store"):
        StoreWriter(tmp_path / "none")


def test_a_store_is_not_made_where_something_else_is(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(WrongFolder, match="is no store and not empty"):
        make_store(tmp_path, SOURCE, FIRST)


@pytest.mark.parametrize("left", ["log", "part of a table", "table", "part of store.json"])
def test_a_store_whose_making_was_stopped_is_made_by_the_same_command(tmp_path, left):
    made = make(tmp_path / "whole")
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / CHANGES).touch()
    if left != "log":
        half = (made / "texts-0.jsonl").read_bytes()[:9]
        (folder / (".texts-0.jsonl.77" if left == "part of a table" else "texts-0.jsonl")).write_bytes(half)
    if left == "part of store.json":
        (folder / f".{ABOUT}.77").write_text("{")
    make(folder)
    assert read_store(folder).texts == FIRST


def test_a_log_with_changes_and_without_its_store_is_kept(tmp_path):
    store = StoreWriter(make(tmp_path / "store"))
    store.put([("c", "one")])
    store.close()
    (tmp_path / "store" / ABOUT).unlink()
    with pytest.raises(WrongFolder, match="is no store and not empty"):
        make(tmp_path / "store")
    assert b"one" in (tmp_path / "store" / CHANGES).read_bytes()


def test_a_reader_notices_that_a_change_was_taken_back_and_another_stands_there(tmp_path):
    writer, reader = open_journal(tmp_path / "log", 0, 0), journal_reader(tmp_path / "log")
    end = writer.offset
    append_change(writer, [("a", "x")], ())
    read_changes(reader)
    writer.close()
    # As after a failed sync: the next writer begins where the last acknowledged change ends.
    writer = open_journal(tmp_path / "log", 0, end)
    append_change(writer, [("a", "y")], ())
    with pytest.raises(BadFile, match="change 1 is another one than before"):
        read_changes(reader)
    writer.close()


def test_a_damaged_table_or_store_is_an_error(tmp_path):
    folder = make(tmp_path / "store")
    (folder / "texts-0.jsonl").write_text('{"id": "a", "text": "other", "cluster": null}\n')
    with pytest.raises(BadFile, match=r"texts-0.jsonl is not as it was written; restore it"):
        read_store(folder)
    (folder / ABOUT).write_text('{"source": {}, "snapshot": {}}')
    with pytest.raises(BadFile, match=r"store.json is not what this al_ray wrote"):
        read_store(folder)


def test_a_change_that_cannot_be_written_is_not_made(tmp_path, monkeypatch):
    store = StoreWriter(make(tmp_path / "store"))
    store.put([("c", "one")])
    before = (tmp_path / "store" / CHANGES).read_bytes()

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(BadFile, match=r"changes.log cannot be written \(No space left on device\)"):
        store.put([("d", "two")])
    monkeypatch.undo()
    # Whether that sync reached the disk is unknown: only a new writer writes again.
    assert "changes.log cannot be written" in store.broken
    with pytest.raises(BadFile, match="start again"):
        store.put([("d", "two")])
    store.close()
    assert (tmp_path / "store" / CHANGES).read_bytes() == before
    assert set(read_store(tmp_path / "store").texts) == {"a", "b", "c"}


def test_a_change_is_made_even_if_the_table_after_it_cannot_be_written(tmp_path, monkeypatch, caplog):
    store = StoreWriter(make(tmp_path / "store"))

    def full(*_: object) -> None:
        raise BadFile("no room")

    monkeypatch.setattr(module, "EVERY", 1)
    monkeypatch.setattr(module, "in_one_step", full)
    assert store.put([("c", "one")]).added == 1
    assert "the table of all known texts was not written: no room" in caplog.text
    monkeypatch.undo()
    store.close()
    assert "c" in read_store(tmp_path / "store").texts


def test_a_writer_begins_although_no_table_can_be_written(tmp_path, caplog):
    store = StoreWriter(make(tmp_path / "store"))
    store.put([("c", "one")])
    store.close()
    # In the way of the table, which no file can replace.
    (tmp_path / "store/texts-1.jsonl/x").mkdir(parents=True)
    again = StoreWriter(tmp_path / "store")
    assert "the table of all known texts was not written: " in caplog.text
    assert again.put([("d", "two")]).added == 1
    again.close()
    assert set(read_store(tmp_path / "store").texts) == {"a", "b", "c", "d"}


def test_a_text_that_is_put_unchanged_keeps_its_cluster():
    known = dict(FIRST)
    apply(known, Change(1, (("a", "how do i swim"), ("b", "who"))))
    assert known == {"a": FIRST["a"], "b": KnownText("who", None)}
