"""A result is read back only for the values that it was made from, and only when it was written to its end."""

import json

import pyarrow as pa
import pytest

from al_ray.core.errors import BadFile
from al_ray.storage.files import read_parquet
from al_ray.storage.result_cache import ResultCache, key_of, read_about, write_tables

TABLE = pa.table({"key": [3, 1, 2]})


def test_a_result_is_read_only_for_what_it_was_made_from(tmp_path):
    cache = ResultCache(tmp_path / "results")
    assert cache.read("ap", {"model": "a"}) is None
    cache.write("ap", {"model": "a"}, {"value": 0.1 + 0.2})
    assert cache.read("ap", {"model": "a"}) == {"value": 0.1 + 0.2}
    assert cache.read("ap", {"model": "b"}) is None
    cache.write("ap", {"model": "b"}, 1)
    assert (cache.read("ap", {"model": "a"}), cache.read("ap", {"model": "b"})) == (None, 1)


def test_a_key_stands_for_values_in_any_order():
    assert key_of({"seed": 0, "task": "a"}) == key_of({"task": "a", "seed": 0})
    assert key_of({"seed": 0, "task": "a"}) != key_of({"seed": 1, "task": "a"})


def test_tables_are_there_once_their_description_is(tmp_path):
    place, made_from = tmp_path / key_of({"task": "a"}), {"task": "a"}
    assert read_about(place, made_from, ["count"]) is None
    write_tables(place, made_from, {"pairs.parquet": TABLE}, {"count": 3})
    assert read_about(place, made_from, ["count"]) == {"made_from": {"task": "a"}, "count": 3}
    assert read_parquet(place / "pairs.parquet").equals(TABLE)
    with pytest.raises(BadFile, match="lacks recall"):
        read_about(place, made_from, ["recall"])
    (place / "set.json").write_text(json.dumps({"made_from": {"task": "b"}, "count": 3}))
    with pytest.raises(BadFile, match=f"not made from the values in the hash of its folder's name; remove {place}"):
        read_about(place, made_from, ["count"])
    # Killed before the last file.
    (place / "set.json").unlink()
    assert read_about(place, made_from, ["count"]) is None
