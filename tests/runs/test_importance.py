"""round-NNN/importance.json: written in order, read as written, refused if damaged."""

import json

import numpy as np
import pytest

from al_ray.api.run_printout import format_importance
from al_ray.core.errors import BadFile
from al_ray.runs.importance import FILE, Importance, read_importance, write_importance


def test_what_adds_most_comes_first_and_is_read_as_written(tmp_path):
    assert read_importance(tmp_path) is None
    write_importance(tmp_path, ("cosine", "price: log difference", "a: equal"), np.array([0.1, 0.25, 0.1]), 1_200)
    found = read_importance(tmp_path)
    assert found == Importance(("price: log difference", "cosine", "a: equal"), (0.25, 0.1, 0.1), 1_200)
    assert found is not None
    assert format_importance(found) == (
        "what changes p most (on average over the 1,200 labelled pairs): price: difference 0.250; "
        "similarity of meaning (cosine) 0.100; a: equal 0.100"
    )


def test_the_line_has_five_of_many():
    found = Importance(tuple(f"a{row}: equal" for row in range(9)), (0.1,) * 9, 60)
    assert format_importance(found).count("; ") == 4
    assert "a4: equal" in format_importance(found)
    assert "a5" not in format_importance(found)


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", '{"pairs": 3}', '{"pairs": "3", "comparisons": []}', '{"pairs": 3, "comparisons": []}',
        '{"pairs": 3, "comparisons": [{"name": "a"}]}', '{"pairs": 3, "comparisons": ["a"]}',
        json.dumps({"pairs": 3, "comparisons": [{"name": "a", "adds": "0.5"}]}),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_with_a_fix(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(BadFile, match=r"importance\.json.*restore it"):
        read_importance(tmp_path)
