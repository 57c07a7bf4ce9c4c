"""Frequencies come back from their arrays, and damaged arrays are refused."""

import numpy as np
import pytest

from al_ray.core.errors import BadFile
from al_ray.matcher.comparisons.frequencies import frequencies_of
from al_ray.matcher.comparisons.frequency_arrays import frequencies_from, frequency_arrays
from al_ray.matcher.comparisons.record_comparer import RecordComparer
from al_ray.matcher.comparisons.records import Field, Records

FIELDS = [Field("name", "name"), Field("price", "number")]
RECORDS = Records(["smith 5", "smith 6", "zaleski"], (["smith", "smith", "zaleski"], ["5", "6", ""]))


def test_frequencies_come_back():
    frequencies = frequencies_of(FIELDS, RECORDS)
    again = frequencies_from(frequency_arrays(frequencies), 2, "f.npz", "make it again")
    pairs = np.array([[0, 0], [0, 1], [2, 2]])
    one, other = (RecordComparer(FIELDS, RECORDS, RECORDS, shares) for shares in (frequencies, again))
    np.testing.assert_array_equal(one.compare(pairs), other.compare(pairs))
    assert again.columns[0].values.total == 3


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("0.values.keys", [2, 1], "0.values holds no counts; make it again"),
        ("0.values.keys", [-2, 1], "0.values holds no counts"),
        ("0.values.keys", [1], "0.values holds no counts"),
        ("0.values.counts", [0, 1], "0.values holds no counts"),
        ("0.values.counts", [1, 4], "0.values holds no counts"),
        ("0.values.total", [], "0.values holds no counts"),
        ("2.words.total", [[1]], "2.words holds no counts"),
        ("3.words.total", [1], "f.npz does not hold the frequencies of 2 fields; make it again"),
    ],
)
def test_damaged_arrays_are_refused(name, array, message):
    arrays = frequency_arrays(frequencies_of(FIELDS, RECORDS)) | {name: np.array(array, dtype=np.int64)}
    with pytest.raises(BadFile, match=message):
        frequencies_from(arrays, 2, "f.npz", "make it again")


def test_counts_of_another_type_are_refused():
    arrays = frequency_arrays(frequencies_of(FIELDS, RECORDS))
    floats = {**arrays, "0.words.counts": arrays["0.words.counts"].astype(np.float64)}
    with pytest.raises(BadFile, match=r"0.words holds no counts"):
        frequencies_from(floats, 2, "f.npz", "make it again")  # pyright: ignore[reportArgumentType]
