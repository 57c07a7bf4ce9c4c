"""A forest gives the same bits as ten lines of numpy, and says exactly what each comparison adds."""

import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from al_ray.core.rng import generator
from al_ray.matcher import forest as forests
from al_ray.matcher.forest import Forest
from al_ray.matcher.model import Features
from al_ray.matcher.model_file import write_model
from tests.matcher.labelled import NAMES, examples, fitted


@pytest.fixture(scope="module")
def forest() -> Forest:
    return fitted()


def plain(forest: Forest, features: Features, folder: Path) -> npt.NDArray[np.float64]:
    """p by the ten lines of numpy of docs/matcher.md, from the file alone."""
    write_model(folder / "matcher.safetensors", forest, "trees")
    page = (Path(__file__).parents[2] / "docs/matcher.md").read_text(encoding="utf-8")
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "load_file" in one]
    values: dict[str, Any] = {"np": np, "features": features}
    with chdir(folder):
        exec(code, values)
    return values["p"]


def followed(forest: Forest, row: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """What each comparison adds for one row: every step of every path, one by one."""
    added = np.zeros(len(row))
    for start in forest.starts[:-1].tolist():
        node = start
        while (column := forest.feature[node]) >= 0:
            child = node + 1 if row[column] <= forest.threshold[node] else forest.right[node]
            added[column] += float(forest.value[child]) - float(forest.value[node])
            node = child
    return added


def stump(threshold: float, low: float, high: float) -> Forest:
    """One tree of one question: cosine <= threshold?"""
    return Forest(
        NAMES,
        np.array([0, 3], dtype=np.int32),
        np.array([0, -1, -1], dtype=np.int16),
        np.array([threshold, 0, 0], dtype=np.float32),
        np.array([2, -1, -1], dtype=np.int32),
        np.array([0.25, low, high], dtype=np.float32),
    )


def test_a_row_on_the_threshold_goes_left():
    third = np.float32(1 / 3)
    x = np.array([[third, 0, 0], [np.nextafter(third, np.float32(1)), 0, 0]], dtype=np.float32)
    tree = stump(1 / 3, 0.125, 0.75)
    assert tree.probability(x).tolist() == [0.125, 0.75]
    # 0.25 at the root: the cosine takes 0.125, or adds 0.5.
    assert tree.contributions(x).base == 0.25
    assert tree.contributions(x).values.tolist() == [[-0.125, 0, 0], [0.5, 0, 0]]


def test_ten_lines_of_numpy_give_the_same_bits(forest: Forest, tmp_path: Path):
    x, _ = examples(500, 1)
    # Among them rows that are on a threshold, or one step beside it.
    cuts = forest.threshold[forest.feature == 0][:500]
    on = np.repeat(x[:1], 3 * len(cuts), axis=0)
    on[:, 0] = np.concatenate([cuts, np.nextafter(cuts, np.float32(9)), np.nextafter(cuts, np.float32(-9))])
    both = np.concatenate([x, on])
    assert forest.probability(both).tobytes() == plain(forest, both, tmp_path).tobytes()


def test_the_order_of_the_trees_changes_no_bit(forest: Forest):
    """Sums of multiples of 2^-24 are exact, so others may add the trees in any order."""
    x, _ = examples(300, 2)
    each = np.stack([part.probability(x) for part in trees_of(forest)])
    shuffled = generator(0, "order").permutation(each)
    assert (shuffled.sum(axis=0) / 300).tobytes() == forest.probability(x).tobytes()


def trees_of(forest: Forest) -> list[Forest]:
    """Each tree as a forest of its own."""
    parts = [slice(*ends) for ends in zip(forest.starts[:-1].tolist(), forest.starts[1:].tolist(), strict=True)]
    return [
        Forest(
            NAMES,
            np.array([0, part.stop - part.start], dtype=np.int32),
            forest.feature[part],
            forest.threshold[part],
            np.where(forest.feature[part] >= 0, forest.right[part] - part.start, -1).astype(np.int32),
            forest.value[part],
        )
        for part in parts
    ]


@pytest.mark.parametrize("group", [1, 100, 1 << 15])
def test_contributions_follow_every_path(forest: Forest, group: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forests, "GROUP", group)
    x, _ = examples(20, 3)
    found = forest.contributions(x)
    expected = np.stack([followed(forest, row) for row in x]) / forest.trees
    assert found.values.tobytes() == expected.tobytes()
    roots = [float(forest.value[start]) for start in forest.starts[:-1]]
    assert found.base == sum(roots) / 300


@given(
    st.lists(st.tuples(*[st.floats(-1, 1, width=32)] * 3, st.booleans()), min_size=1, max_size=40),
    st.integers(0, 1),
)
@settings(max_examples=25, deadline=None)
def test_p_is_the_base_and_all_that_the_comparisons_add(rows: list[tuple[float, float, float, bool]], seed: int):
    forest = fitted(count=30, seed=seed)
    x = np.array([row[:3] for row in rows], dtype=np.float32)
    p, found = forest.probability(x), forest.contributions(x)
    # Exact before the division by 300: all are multiples of 2^-24.
    counts = np.round((found.base * 300 + (found.values * 300).sum(axis=1)) * 2**24)
    assert counts.tolist() == np.round(p * 300 * 2**24).tolist()
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), p, atol=1e-15, rtol=0)
    assert ((p >= 0) & (p <= 1)).all()


def test_nobody_writes_into_a_forest(forest: Forest):
    with pytest.raises(ValueError, match="read-only"):
        forest.value[0] = 1
