"""Files of a shard's candidates: what was written is read, and what is damaged is refused with what fixes it."""

from pathlib import Path

import numpy as np
import pytest

from al_ray.core.errors import BadFile
from al_ray.search.candidate_files import finish, has_candidates, read_candidates, write_features, write_found

NAMES = ("cosine", "price: difference")


@pytest.fixture
def folder(tmp_path) -> Path:
    keys = np.array([3, 8, 9], dtype=np.int64)
    arrays = {"keys": keys, "cosines": np.array([0.1, 0.2, 0.3]), "ways": np.array([1, 2, 3], dtype=np.uint8)}
    write_found(tmp_path, {**arrays, "left": np.zeros((4, 4)), "right": np.ones((5, 4))})
    write_features(tmp_path, 0, np.arange(6, dtype=np.float32).reshape(3, 2))
    assert not has_candidates(tmp_path)
    finish(tmp_path, NAMES)
    return tmp_path


def test_what_was_written_is_read(folder):
    assert has_candidates(folder)
    read = read_candidates(folder)
    assert read.keys.tolist() == [3, 8, 9]
    assert read.cosines.tolist() == [0.1, 0.2, 0.3]
    assert read.ways.tolist() == [1, 2, 3]
    assert [chunk.tolist() for chunk in read.features] == [[[0, 1], [2, 3], [4, 5]]]
    assert read.names == NAMES
    assert (read.left.shape, read.right.shape) == ((4, 4), (5, 4))


FILES = ("keys.npy", "cosines.npy", "ways.npy", "left.npy", "right.npy", "features-00000.npy", "names.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "junk"])
def test_a_damaged_file_is_refused_with_its_fix(folder, name, damage):
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"empty": b"", "cut": content[:-3], "junk": b"junk" * 99}[damage])
    if (name, damage) == ("names.json", "missing"):
        assert not has_candidates(folder)
        return
    with pytest.raises(BadFile, match=f"delete {folder} and run again"):
        read_candidates(folder)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("keys.npy", np.array([3, 9, 8])),
        ("keys.npy", np.array([3.0, 8.0, 9.0])),
        ("keys.npy", np.array([3, 8])),
        ("cosines.npy", np.array([0.1, np.nan, 0.3])),
        ("cosines.npy", np.array([[0.1, 0.2, 0.3]])),
        ("ways.npy", np.array([1, 2, 3])),
        ("left.npy", np.zeros(4)),
        ("features-00000.npy", np.zeros((3, 3), dtype=np.float32)),
        ("features-00000.npy", np.zeros((3, 2))),
        ("features-00000.npy", np.full((3, 2), np.nan, dtype=np.float32)),
        ("features-00000.npy", np.array(7.0, dtype=np.float32)),
    ],
)
def test_an_array_of_another_kind_is_refused(folder, name, array):
    np.save(folder / name, array)
    with pytest.raises(BadFile, match=f"delete {folder} and run again"):
        read_candidates(folder)


@pytest.mark.parametrize("content", ['{"names": 5}', '{"names": [1]}', "[]", "{}", '{"names": ["cosine"]}'])
def test_names_that_are_none_are_refused(folder, content):
    (folder / "names.json").write_text(content)
    with pytest.raises(BadFile, match=f"delete {folder} and run again"):
        read_candidates(folder)
