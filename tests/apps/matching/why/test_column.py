"""The column `why`: p is the base and the sum of what the comparisons add, and the strongest come first."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from al_ray.apps.matching.folder import CHUNK_OF_WHY, MATCHES, Matches, write_matches
from al_ray.apps.matching.why.column import SHOWN, WHY, in_words, why_column
from al_ray.apps.matching.why.reasons import Reasons
from al_ray.apps.matching.written import read_matches
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Corpus, Task
from al_ray.matcher.explanation import explain
from al_ray.matcher.splines import Splines
from al_ray.storage.formulas import FormulaCells
from tests.matcher.labelled import NAMES, examples, fitted


def reasons(count: int = 30, unknown: tuple[int, ...] = (4, 7)) -> Reasons:
    features, _ = examples(count, 9)
    return Reasons(fitted(), features, ~np.isin(np.arange(count), unknown))


def slow_twin(of: Reasons, row: int) -> list[dict] | None:
    """Pair by pair: each comparison with its value and what it adds, in order of size."""
    if not of.known[row]:
        return None
    (one,) = explain(of.model, of.features[row : row + 1])
    return [
        {"comparison": part.name, "value": None if part.value == -1 and part.name != "cosine" else part.value,
         "adds": part.adds}
        for part in one.parts
    ]  # fmt: skip


def test_p_is_the_base_and_the_sum_of_the_column():
    of, places = reasons(), np.array([3, 4, 20, 7, 0])
    column = why_column(of, places)
    assert column.type == WHY.type
    p = of.model.probability(of.features[places])
    for parts, known, expected in zip(column.to_pylist(), of.known[places], p, strict=True):
        assert (parts is not None) == known
        if parts is not None:
            assert of.base + sum(part["adds"] for part in parts) == pytest.approx(expected, abs=1e-15)


def test_the_column_is_that_of_a_loop_over_the_matches():
    of = reasons()
    assert why_column(of, np.arange(30)).to_pylist() == [slow_twin(of, row) for row in range(30)]
    assert why_column(of, np.arange(0)).to_pylist() == []
    nothing = replace(of, known=np.zeros(30, dtype=np.bool_))
    assert why_column(nothing, np.arange(2)).to_pylist() == [None, None]


def test_a_missing_value_is_null_and_a_cosine_of_minus_one_is_not():
    # The two others have no curve, so all is added by the first: log-odds 2 at -1.
    knots, heights = np.tile(np.arange(-1.0, 4.0), (3, 1)), np.zeros((3, 5))
    heights[0, 0] = 2
    model = Splines(NAMES, knots, heights, np.zeros(1))
    of = Reasons(model, np.full((1, 3), -1, dtype=np.float32), np.ones(1, dtype=np.bool_))
    (parts,) = why_column(of, np.arange(1)).to_pylist()
    assert [part["value"] for part in parts] == [-1, None, None]
    # 1 / (1 + e^-2) - 1/2
    assert [part["adds"] for part in parts] == pytest.approx([0.3807970779778823, 0, 0])
    (words,) = in_words(pa.chunked_array([why_column(of, np.arange(1))])).to_pylist()
    assert words == (
        "similarity of meaning (cosine) -1.00 (+0.381); price: relative difference missing (+0.000); "
        "title: similarity of spelling missing (+0.000)"
    )


def test_the_sheet_has_the_strongest_in_words():
    of = reasons()
    sheet = in_words(pa.chunked_array([why_column(of, np.arange(30))])).to_pylist()
    for row, words in enumerate(sheet):
        twin = slow_twin(of, row)
        assert (words is None) == (twin is None)
        if twin is not None:
            assert words.count("; ") == SHOWN - 1
            assert words.split("(")[-1] == f"{twin[2]['adds']:+.3f})"


def test_files_have_the_column_in_parts_and_are_read_as_those_without_it(tmp_path):
    count = 2 * CHUNK_OF_WHY + 5
    features = np.tile(examples(100, 3)[0], (count // 100 + 1, 1))[:count]
    of = Reasons(fitted(), features, np.arange(count) % 3 > 0)
    side = Corpus(tuple(map(str, range(count))), ("x",) * count)
    task = Task("t", False, side, side, {}, "")
    no = np.zeros(count, dtype=np.bool_)
    pairs = np.stack([np.arange(count)] * 2, axis=1)
    scores = of.model.probability(features)
    plain = Matches(ScoredPairs(pairs, scores), None, no, no)
    for texts in (True, False):
        write_matches(tmp_path / "matches", replace(plain, reasons=of), task, texts, FormulaCells(False))
        stored = pq.read_table(tmp_path / "matches.parquet")
        assert stored.schema.names == [*MATCHES.names, *(("left_text", "right_text") if texts else ()), "why"]
        at = np.array([0, 1, CHUNK_OF_WHY - 1, CHUNK_OF_WHY, CHUNK_OF_WHY + 1, count - 1])
        assert stored["why"].take(pa.array(at)).to_pylist() == [slow_twin(of, row) for row in at.tolist()]
        sheet = pyarrow.csv.read_csv(tmp_path / "matches.csv")
        assert sheet["why"][1].as_py() == in_words(stored["why"].slice(1, 1))[0].as_py()
        assert sheet["why"][0].as_py() in (None, "")
        (tmp_path / "match.json").write_text('{"assign": "all"}')
        assert read_matches(tmp_path).scores.tolist() == scores.tolist()
    write_matches(tmp_path / "matches", plain, task, False, FormulaCells(False))
    assert pq.read_table(tmp_path / "matches.parquet").schema.names == MATCHES.names
