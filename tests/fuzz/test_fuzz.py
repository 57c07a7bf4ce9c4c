"""A few inputs of every reader: each is read, or refused by an error that names the file, within limits.

`make fuzz INPUTS=100000` reads more of them (tests/fuzz/__main__.py).
"""

import shutil
from pathlib import Path

import pytest

from al_ray.core.errors import BadFile
from tests.fuzz import harness, limits
from tests.fuzz.readers import READERS, Reader

EACH = 12
"""Inputs of a reader whose share is 1."""


@pytest.fixture(scope="module")
def work(sound: Path, tmp_path_factory) -> Path:
    return Path(shutil.copytree(sound, tmp_path_factory.mktemp("fuzz") / "work"))


@pytest.mark.parametrize("name", READERS)
def test_what_is_damaged_is_read_or_refused_by_name(sound, work, monkeypatch, name):
    monkeypatch.chdir(work)
    assert harness.run_damage(name, -1, {}).outcome in ("read", "refused")
    results = [harness.run_input(name, number, sound) for number in range(max(3, round(EACH * READERS[name].share)))]
    faults = [f"input {one.number} of {name}: {one.fault}" for one in results if one.fault]
    assert not faults, "\n\n".join(faults)


def _raises(path: Path) -> None:
    raise KeyError("number")


def _fails_otherwise(path: Path) -> None:
    raise TypeError("a number")


def _names_nothing(path: Path) -> None:
    raise BadFile("it cannot be read; restore it")


def _takes_memory(path: Path) -> None:
    bytearray(4 * limits.MEMORY)


def _never_ends(path: Path) -> None:
    while True:
        pass


def _writes(path: Path) -> None:
    path.with_name("beside").write_text("x")


def _differs(path: Path, read: object) -> None:
    assert read == "something else"


@pytest.mark.parametrize(
    ("reader", "fault"),
    [
        (Reader("fz-table.csv", _raises), "KeyError: 'number'"),
        (Reader("fz-table.csv", _names_nothing), "the error names no file"),
        (Reader("fz-table.csv", _takes_memory), "MiB more memory"),
        (Reader("fz-table.csv", _never_ends), "TooLong"),
        (Reader("fz-table.csv", _fails_otherwise), "TypeError"),
        (Reader("fz-table.csv", str, check=_differs), "AssertionError"),
        (Reader("fz-store", lambda folder: _writes(folder / "store.json")), "reading has changed the folder"),
    ],
)
def test_a_reader_that_breaks_a_promise_fails(sound, work, monkeypatch, reader, fault):
    monkeypatch.chdir(work)
    monkeypatch.setattr(limits, "CPU_SECONDS", 1.0)
    monkeypatch.setattr(limits, "MEMORY", 2**25)
    monkeypatch.setitem(READERS, "broken", reader)
    result = harness.run_input("broken", 0, sound)
    assert result.outcome == "failed"
    assert fault in result.fault
    monkeypatch.chdir("/")
    shutil.rmtree(work / "fz-store")
    shutil.copytree(sound / "fz-store", work / "fz-store")


def test_an_input_is_the_same_in_every_process_and_after_a_failure_it_is_read_from_its_folder(sound, tmp_path):
    damage = harness.damage_of("csv", 7, sound)
    assert damage == harness.damage_of("csv", 7, sound) != harness.damage_of("csv", 8, sound)
    place = harness.keep(harness.Result("csv", 7, "failed", {**damage, "gone": None}, "a fault"), tmp_path)
    assert harness.kept(place) == ("csv", 7, {**damage, "gone": None})
