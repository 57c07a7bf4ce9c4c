"""why.json of a batch: what is written is what is read, and a damaged file names itself."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from al_ray.core.errors import BadFile
from al_ray.matcher.explanation import explain
from al_ray.matcher.explanation_file import FILE, read_explanations, write_explanations
from tests.matcher.labelled import examples, fitted


def test_what_is_written_is_what_is_read(tmp_path):
    features, matcher = examples(60)[0], fitted(60)
    found = explain(matcher, features[:7])
    write_explanations(tmp_path / "round-002", found, matcher.names)
    assert read_explanations(tmp_path / "round-002", 7) == found
    assert read_explanations(tmp_path, 7) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content["pairs"].pop(),
        lambda content: content["pairs"][0]["adds"].pop(),
        lambda content: content["pairs"][0].pop("p"),
        lambda content: content["names"].append("more"),
        lambda content: content.pop("base"),
        lambda content: content["pairs"][0]["values"].__setitem__(0, "much"),
    ],
)
def test_a_damaged_file_is_told_of(tmp_path, damage: Callable[[Any], object]):
    features, matcher = examples(60)[0], fitted(60)
    write_explanations(tmp_path, explain(matcher, features[:3]), matcher.names)
    content = json.loads((tmp_path / FILE).read_text())
    damage(content)
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(BadFile, match=r"why\.json.*remove it"):
        read_explanations(tmp_path, 3)
