"""Ids of clusters that stay: cases worked by hand, a slow twin, and that an id is never given twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.matching.clusters.ids import Merge, Split, number_clusters
from al_ray.core.errors import BadOption

LABELS = st.integers(1, 12).flatmap(lambda n: st.lists(st.integers(0, 5), min_size=n, max_size=n))
HISTORY = st.integers(1, 10).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), min_size=2, max_size=5)
)


def numbered(labels, old_ids, next_id):
    return number_clusters(np.array(labels, dtype=np.int64), np.array(old_ids, dtype=np.int64), next_id)


def twin(labels, old_ids, next_id):
    """The rule as it is written, over sets."""
    clusters = {label: {row for row, at in enumerate(labels) if at == label} for label in labels}
    olds = {old: {row for row, at in enumerate(old_ids) if at == old} for old in old_ids if old >= 0}
    by_row = sorted(clusters.values(), key=min)
    aims = {old: max(by_row, key=lambda cluster: (len(cluster & texts), -min(cluster))) for old, texts in olds.items()}
    ids = [-1] * len(labels)
    for cluster in by_row:
        claims = [(-len(olds[old] & cluster), old) for old, aim in aims.items() if aim == cluster]
        number = min(claims)[1] if claims else next_id
        next_id += not claims
        for row in cluster:
            ids[row] = number
    return ids, next_id


def test_a_first_clustering_is_numbered_by_lowest_rows():
    result = numbered([4, 9, 4, 0], [-1] * 4, 10)
    assert result.ids.tolist() == [10, 11, 10, 12]
    assert result.next_id == 13
    assert result.new.tolist() == [10, 11, 12]
    assert (result.splits, result.merges, result.gone.tolist()) == ((), (), [])


def test_no_text_has_no_ids():
    result = numbered([], [], 3)
    assert (result.ids.tolist(), result.next_id, result.new.tolist()) == ([], 3, [])


def test_the_larger_part_of_a_split_cluster_keeps_its_id():
    result = numbered([0, 1, 1, 1], [5, 5, 5, -1], 8)
    assert result.ids.tolist() == [8, 5, 5, 5]
    assert result.splits == (Split(5, (5, 8)),)
    assert (result.new.tolist(), result.gone.tolist(), result.merges) == ([8], [], ())


def test_of_equal_parts_the_one_with_the_lowest_row_keeps_the_id():
    # The label of the lowest row is the higher one.
    assert numbered([7, 2, 7, 2], [5, 5, 5, 5], 8).ids.tolist() == [5, 8, 5, 8]


def test_a_merged_cluster_takes_the_id_of_most_texts():
    result = numbered([0, 0, 0, 0], [2, 6, 6, -1], 8)
    assert result.ids.tolist() == [6, 6, 6, 6]
    assert result.merges == (Merge(6, (2, 6)),)
    assert (result.new.tolist(), result.gone.tolist(), result.splits) == ([], [2], ())
    # One text of each: the lower id.
    assert numbered([0, 0], [6, 2], 8).ids.tolist() == [2, 2]


def test_an_id_whose_most_texts_joined_another_cluster_does_not_name_the_rest():
    # Of 7's three texts two went to 5's cluster: {3, 4, 5, 6} of 5 and {0, 1} of 7 in one, {2} of 7 in another.
    result = numbered([0, 0, 1, 0, 0, 0, 0], [7, 7, 7, 5, 5, 5, 5], 9)
    assert result.ids.tolist() == [5, 5, 9, 5, 5, 5, 5]
    assert result.splits == (Split(7, (5, 9)),)
    assert result.merges == (Merge(5, (5, 7)),)
    assert (result.new.tolist(), result.gone.tolist()) == ([9], [7])


def test_an_id_that_is_not_below_the_next_one_is_refused():
    with pytest.raises(BadOption, match="the next id 4 is in use; give at least 7"):
        numbered([0, 1], [6, -1], 4)


@given(LABELS, st.data())
def test_ids_and_events_equal_a_slow_twin(labels, data):
    old_ids = data.draw(st.lists(st.integers(-1, 6), min_size=len(labels), max_size=len(labels)))
    result = numbered(labels, old_ids, 7)
    ids = result.ids.tolist()
    assert (ids, result.next_id) == twin(labels, old_ids, 7)
    olds = sorted({old for old in old_ids if old >= 0})
    shared = {(old, new) for old, new in zip(old_ids, ids, strict=True) if old >= 0}
    parts = [Split(old, tuple(sorted(new for at, new in shared if at == old))) for old in olds]
    unions = [Merge(new, tuple(sorted(old for old, at in shared if at == new))) for new in sorted(set(ids))]
    assert list(result.splits) == [split for split in parts if len(split.new_ids) > 1]
    assert list(result.merges) == [merge for merge in unions if len(merge.old_ids) > 1]
    assert result.new.tolist() == sorted(set(ids) - set(olds))
    assert result.gone.tolist() == sorted(set(olds) - set(ids))


@given(LABELS)
def test_the_same_clusters_keep_every_id_whatever_their_labels(labels):
    first = numbered(labels, [-1] * len(labels), 0)
    again = numbered([-label for label in labels], first.ids, first.next_id)
    assert again.ids.tolist() == first.ids.tolist()
    assert again.next_id == first.next_id
    assert (again.splits, again.merges, len(again.new), len(again.gone)) == ((), (), 0, 0)


@given(HISTORY)
def test_an_id_that_is_gone_is_never_used_again(history):
    ids, next_id, gone = np.full(len(history[0]), -1), 0, set[int]()
    for labels in history:
        result = numbered(labels, ids, next_id)
        assert not gone & set(result.ids.tolist())
        assert result.new.tolist() == list(range(next_id, result.next_id))
        # One id for each cluster, and one cluster for each id.
        assert (
            len(set(zip(labels, result.ids.tolist(), strict=True))) == len(set(labels)) == len(set(result.ids.tolist()))
        )
        gone |= set(result.gone.tolist())
        ids, next_id = result.ids, result.next_id
