"""Which pairs are suggested for labels: the rule by hand, laws, and options that are refused."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.drift.measure import judged_directions
from al_ray.apps.drift.suggestions import PAIRS_OF_TEXT, select_pairs, suggestion_lines
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.errors import BadOption
from al_ray.core.pairs import as_pairs
from al_ray.storage.uri import storage_path

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 2)), max_size=40)


def test_pairs_of_texts_unlike_training_come_first_and_then_the_closest():
    pairs = as_pairs([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
    assert select_pairs(pairs, np.array([0, 1, 0, 2, 1]), True, 9).tolist() == [3, 1, 4, 0, 2]
    assert select_pairs(pairs, np.array([0, 1, 0, 2, 1]), True, 2).tolist() == [3, 1]


def test_a_text_is_in_three_pairs_at_most():
    # Text 0 is in all of them but the last; in two sides right text 0 is another than left text 0.
    pairs, none = as_pairs([0, 0, 0, 0, 5], [1, 2, 3, 4, 0]), np.zeros(5, dtype=int)
    assert select_pairs(pairs, none, True, 5).tolist() == [0, 1, 2]
    assert select_pairs(pairs, none, False, 5).tolist() == [0, 1, 2, 4]


@given(PAIRS, st.booleans(), st.integers(1, 12))
def test_no_pair_that_could_come_earlier_is_left_out(rows, symmetric, count):
    pairs = as_pairs([row[0] for row in rows], [row[1] + (0 if not symmetric else 10) for row in rows])
    unlike = np.array([row[2] for row in rows], dtype=int)
    chosen = select_pairs(pairs, unlike, symmetric, count).tolist()
    assert len(chosen) == len(set(chosen)) <= count
    ranks = [(-unlike[place], place) for place in chosen]
    assert ranks == sorted(ranks)
    texts = [text for place in chosen for text in (("left", pairs[place, 0]), ("right", pairs[place, 1]))]
    assert max(map(texts.count, texts), default=0) <= PAIRS_OF_TEXT
    # What is left out would come later, or one of its texts is full.
    for place in set(range(len(rows))) - set(chosen):
        late = len(chosen) == count and (-unlike[place], place) > max(ranks)
        full = any(
            texts.count(text) == PAIRS_OF_TEXT for text in (("left", pairs[place, 0]), ("right", pairs[place, 1]))
        )
        assert late or full


def test_best_partners_are_judged_only_where_matches_are_in_the_samples_alike():
    assert judged_directions(1.0, 0.6) == ("higher", "lower")
    # Fewer new texts have their match in the sample, so lower cosines say nothing; and the other way round.
    assert judged_directions(1.0, 0.2) == ("higher",)
    assert judged_directions(0.1, 0.5) == ("lower",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"suggest": 0}, "`suggest` is 0; give at least 1"),
        ({"suggest": 10_001}, "`suggest` is 10,?001; give at most 10,?000"),
        ({"suggest": 5, "drift": False}, "leave one of them out"),
        ({"suggest": 5, "split": "dev"}, "those of dev are held out; leave out `suggest`"),
    ],
)
def test_what_cannot_be_suggested_is_refused_with_a_fix(given, message):
    with pytest.raises(BadOption, match=message):
        MatchOptions(left=Path("texts.csv"), **given)


def test_suggestions_on_an_object_store_are_labelled_in_a_local_copy():
    suggested = {"kept": False, "asked": 2, "pairs": 2, "unlike_training": 0, "closest_to": "the cutoff"}
    record = {"model": {"run": "runs/r"}, "suggested": {**suggested, "in_task_of_run": True}}
    _, copy, page, sheet, use = suggestion_lines(record, storage_path("s3://bucket/matches"))
    assert copy == (
        "people label on a local disk: copy match.json, suggested.* and label-studio.xml of s3://bucket/matches into a "
        "folder DIR there"
    )
    assert page == "label them on a page: `al-ray annotate --matches DIR`"
    assert sheet == "or fill the column label of DIR/suggested.csv with yes, no or unsure"
    assert use == "then: `al_ray.import_labels(run='runs/r', labels='DIR')`"
    assert not [line for line in suggestion_lines(record, Path("matches")) if "copy" in line]
