"""An actor has a shard, and streams as many numbers of its embedding whatever the shard has left to do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.cluster.candidates.owning import pool_actor
from al_ray.cluster.pool.shard_actor import as_words
from al_ray.core.labels import Model
from tests.search.test_shard import pool
from tests.search.test_vector_files import keeping


@given(st.lists(st.integers(1, 50)), st.integers(1, 20), st.data())
def test_words_are_the_same_whatever_the_work_tells_of(counts, words, data):
    whole = sum(counts)
    found = list(as_words(iter(counts), whole, words))
    assert (sum(found), len(found)) == (whole, words)
    told = counts[: data.draw(st.integers(0, len(counts)))]
    assert list(as_words(iter(told), whole, words)) == found
    assert list(as_words(iter([whole]), whole, words)) == found


def test_words_come_while_the_work_goes_on():
    # Of 10 texts in 2 words the first is due after 5.
    work = iter([4, 4, 2])
    words = as_words(work, 10, 2)
    assert next(words) == 5
    assert list(work) == [2]


@pytest.fixture
def actor(tmp_path, letters, task):
    made = keeping(task, tmp_path, letters)
    return lambda: pool_actor(type(made.shards[0]))(made.shards[0].spec), made.model, made.part("train", "left")


def test_an_embedding_streams_as_many_words_when_it_is_asked_again(actor):
    make, model, part = actor
    first, again = make(), make()
    words = list(first.embed(model, part))
    assert sum(words) == first.size(part) > len(words) > 2
    # There already; stored by another actor; and made on the way, as for a peer.
    assert list(first.embed(model, part)) == list(again.embed(model, part)) == words
    other = make()
    assert other.texts_of(model, part).vectors.tobytes() == first.texts_of(model, part).vectors.tobytes()
    assert list(other.embed(model, part)) == words


def test_an_actor_answers_as_its_shard_does(tmp_path, letters, task):
    made = pool(task, tmp_path, letters, 1)
    (shard,), right = made.shards, made.part("train", "right")
    mine = pool_actor(type(shard))(shard.spec)
    ((_, queries),) = list(made.blocks("train"))[:1]
    pairs = np.column_stack([queries.rows[:3], shard.texts_of(made.model, right).rows[:3]])
    arguments = made.model, right, queries
    for method, more in (("nearest", (4,)), ("exact_nearest", (4,)), ("cosines", (pairs,))):
        answers = [getattr(one, method)(*arguments, *more) for one in (mine, shard)]
        assert [np.asarray(one).tobytes() for one in answers[0]] == [np.asarray(one).tobytes() for one in answers[1]]
    assert mine.shard.has_index(right)
    # Other weights drop what was made by these.
    assert not mine.shard.has_vectors(Model("", "0" * 64), right)
    assert not mine.shard.has_index(right)


def test_the_name_of_what_makes_an_actor_is_that_of_the_shard(actor):
    make, *_ = actor
    assert pool_actor(type(make().shard)).__name__ == "PoolShard"
