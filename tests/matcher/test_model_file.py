"""The file of a matcher: what is written is read, and damaged or hostile bytes are BadFile that names the file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from al_ray.core.errors import BadFile, BadOption
from al_ray.matcher import model_file
from al_ray.matcher.learner import LEARNERS
from al_ray.matcher.model import Model
from al_ray.matcher.model_file import NAME, read_model, write_model
from tests.matcher.labelled import NAMES, examples, fitted

Values = dict[str, Any]


@pytest.fixture(scope="module", params=LEARNERS)
def content(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small model of each learner."""
    path = tmp_path_factory.mktemp("matcher") / NAME
    x, y = examples(30)
    write_model(path, LEARNERS[request.param].fit(x, y, np.ones(30), NAMES, 0), request.param)
    return path.read_bytes()


@pytest.fixture(scope="module")
def forest() -> bytes:
    """The bytes of a forest of one tree: 0 asks for the cosine, 2 for the price; 1, 3 and 4 are leaves."""
    arrays = {
        "starts": np.array([0, 5], dtype=np.int32),
        "feature": np.array([0, -1, 1, -1, -1], dtype=np.int16),
        "threshold": np.array([0.5, 0, 0.25, 0, 0], dtype=np.float32),
        "right": np.array([2, -1, 4, -1, -1], dtype=np.int32),
        "value": np.array([0.5, 0.25, 0.75, 1, 0], dtype=np.float32),
    }
    return save(arrays, {"matcher": json.dumps(ABOUT)})


ABOUT: Values = {"format": 1, "learner": "trees", "names": list(NAMES), "al_ray": "0.1.0"}


def test_what_is_written_is_read(tmp_path: Path):
    path, forest = tmp_path / "folder" / NAME, fitted()
    write_model(path, forest, "trees")
    x, _ = examples(100, 1)
    found = read_model(path, NAMES)
    assert found.names == NAMES
    assert found.probability(x).tobytes() == forest.probability(x).tobytes()
    assert found.contributions(x).values.tobytes() == forest.contributions(x).values.tobytes()
    first = path.read_bytes()
    write_model(path, found, "trees")
    assert path.read_bytes() == first, "the same model gives the same bytes"


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path):
    for path in (tmp_path / NAME, tmp_path):
        with pytest.raises(BadFile, match=rf"{path} cannot be read .*; train anew"):
            read_model(path, fix="train anew")


def test_no_damage_does_more_than_raise_bad_file(content: bytes, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("damaged") / NAME
    x, _ = examples(20, 2)

    @given(st.data())
    @settings(max_examples=300, deadline=None)
    def damaged(data: st.DataObject) -> None:
        wrong = bytearray(content)
        for _ in range(data.draw(st.integers(1, 4))):
            # Half of the damage is in the header.
            end = data.draw(st.sampled_from([min(len(wrong), 400), len(wrong)]))
            at = data.draw(st.integers(0, max(0, end - 1)))
            kind = data.draw(st.sampled_from(["cut", "change", "insert", "remove"]))
            if kind == "cut":
                del wrong[at:]
            elif kind == "insert":
                wrong[at:at] = data.draw(st.binary(min_size=1, max_size=9))
            elif kind == "remove":
                del wrong[at : at + data.draw(st.integers(1, 9))]
            elif wrong:
                wrong[min(at, len(wrong) - 1)] = data.draw(st.integers(0, 255))
        path.write_bytes(wrong)
        model = read_or_error(path)
        if isinstance(model, str):
            assert str(path) in model
            assert "restore it" in model
            return
        # What is read can be used, and gives numbers from 0 to 1.
        p = model.probability(np.resize(x, (20, len(model.names))).astype(np.float32))
        assert ((p >= 0) & (p <= 1)).all()

    damaged()


def read_or_error(path: Path) -> Model | str:
    """The model, or what BadFile says; any other error is a failure of the test."""
    try:
        return read_model(path)
    except BadFile as error:
        return str(error)


def changed(content: bytes, name: str, at: int, value: object) -> bytes:
    """The file with one number of an array replaced."""
    arrays = {key: array.copy() for key, array in load(content).items()}
    arrays[name][at] = value
    return save(arrays, {"matcher": json.dumps(ABOUT)})


@pytest.mark.parametrize(
    ("name", "at", "value", "reason"),
    [
        ("right", 2, 2, "leads out of its tree, or back"),
        ("right", 2, 0, "leads out of its tree, or back"),
        ("right", 2, 3, "leads out of its tree, or back"),
        ("right", 2, 5, "leads out of its tree, or back"),
        ("right", 2, -9, "leads out of its tree, or back"),
        ("right", 0, 4, "no parent, or two"),
        ("right", 1, 4, "a child of a leaf"),
        ("feature", 0, 3, "columns that are not of the 3"),
        ("feature", 0, -2, "columns that are not of the 3"),
        ("feature", 4, 0, "leads out of its tree, or back"),
        ("threshold", 0, np.nan, "threshold is not finite"),
        ("threshold", 0, np.inf, "threshold is not finite"),
        ("value", 1, np.nan, "from 0 to 1"),
        ("value", 1, 1.5, "from 0 to 1"),
        ("value", 1, -0.5, "from 0 to 1"),
        ("value", 1, 2**-25, "multiple of 2"),
        ("starts", 0, 1, "starts does not rise from 0"),
        ("starts", 1, 0, "starts does not rise from 0"),
        ("starts", 1, 4, "feature is int16 of shape"),
        ("starts", 1, 2**31 - 1, "feature is int16 of shape"),
    ],
)
def test_a_forest_that_is_none_is_refused(
    forest: bytes, tmp_path: Path, name: str, at: int, value: object, reason: str
):
    path = tmp_path / NAME
    path.write_bytes(forest)
    assert read_model(path).probability(np.zeros((1, 3), np.float32)).tolist() == [0.25]
    path.write_bytes(changed(forest, name, at, value))
    with pytest.raises(BadFile, match=rf"{path} is damaged \(.*{reason}.*\); restore it, or train the matcher again"):
        read_model(path)


def test_trees_do_not_share_nodes(tmp_path: Path):
    """Two trees of three nodes; the right child of the first is a node of the second."""
    arrays = {
        "starts": np.array([0, 3, 6], dtype=np.int32),
        "feature": np.array([0, -1, -1] * 2, dtype=np.int16),
        "threshold": np.zeros(6, dtype=np.float32),
        "right": np.array([4, -1, -1, 5, -1, -1], dtype=np.int32),
        "value": np.zeros(6, dtype=np.float32),
    }
    (tmp_path / NAME).write_bytes(save(arrays, {"matcher": json.dumps(ABOUT)}))
    with pytest.raises(BadFile, match="leads out of its tree"):
        read_model(tmp_path / NAME)


def without(name: str) -> Callable[[Values], Values]:
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without("value"), "value is missing"),
        (lambda arrays: {**arrays, "value": arrays["value"].astype(np.float64)}, "value is float64"),
        (lambda arrays: {**arrays, "value": arrays["value"][:-1]}, "value is float32 of shape"),
        (lambda arrays: {**arrays, "right": arrays["right"][:, None]}, "right is int32 of shape"),
        (lambda arrays: {**arrays, "starts": arrays["starts"][:1]}, "starts does not rise"),
        (lambda arrays: {**arrays, "starts": arrays["starts"][:0]}, "starts does not rise"),
    ],
)
def test_arrays_of_other_shapes_are_refused(
    forest: bytes, tmp_path: Path, change: Callable[[Values], Values], reason: str
):
    path = tmp_path / NAME
    path.write_bytes(save(change(load(forest)), {"matcher": json.dumps(ABOUT)}))
    with pytest.raises(BadFile, match=reason):
        read_model(path)


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ("", "cannot be read as a matcher"),
        ("null", "lacks format"),
        ("[" * 100_000, "cannot be read as a matcher"),
        ({**ABOUT, "format": 2}, "has format 2, and this al_ray reads 1"),
        ({**ABOUT, "format": "1"}, "has '1' as format"),
        ({**ABOUT, "learner": "pickle"}, "has learner 'pickle', not one of trees"),
        ({**ABOUT, "learner": "splines"}, "knots is missing"),
        ({**ABOUT, "names": []}, r"has \[\] as names"),
        ({**ABOUT, "names": ["a", "a", "b"]}, "as names"),
        ({**ABOUT, "names": ["a", "b", 3]}, "as names"),
        ({**ABOUT, "names": ["a"]}, "columns that are not of the 1"),
        ({**ABOUT, "al_ray": "99.0"}, "was written by al_ray 99.0"),
    ],
)
def test_a_description_of_something_else_is_refused(forest: bytes, tmp_path: Path, about: object, reason: str):
    path = tmp_path / NAME
    path.write_bytes(save(load(forest), {"matcher": about if isinstance(about, str) else json.dumps(about)}))
    with pytest.raises(BadFile, match=reason):
        read_model(path)


def test_a_file_of_tensors_of_something_else_is_refused(forest: bytes, tmp_path: Path):
    (tmp_path / NAME).write_bytes(save(load(forest)))
    with pytest.raises(BadFile, match="lacks format"):
        read_model(tmp_path / NAME)
    header = b'{"__metadata__":null}'
    (tmp_path / NAME).write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(BadFile, match="lacks format"):
        read_model(tmp_path / NAME)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ((NAMES[1], NAMES[0], NAMES[2]), "has the comparisons in another order"),
        ((*NAMES[:2], "born: days apart"), "it lacks 'born: days apart' and has 'title: Jaro-Winkler'"),
        (NAMES[:2], "it has 'title: Jaro-Winkler'"),
        ((*NAMES, "x"), "it lacks 'x'"),
    ],
)
def test_a_matcher_of_other_comparisons_is_refused(forest: bytes, tmp_path: Path, names: tuple[str, ...], reason: str):
    path = tmp_path / NAME
    path.write_bytes(forest)
    with pytest.raises(BadFile, match=f"{reason}; use the fields it was trained with, or restore"):
        read_model(path, names)


def test_a_file_that_is_too_large_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / NAME
    write_model(path, fitted(), "trees")
    monkeypatch.setattr(model_file, "LARGEST", 1000)
    with pytest.raises(BadFile, match="more than 1000 bytes"):
        read_model(path)
    with pytest.raises(BadOption, match="at most 1000"):
        write_model(path, fitted(), "trees")
