"""An index in shards, without Ray: however many there are, it finds the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.core.config import EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.core.retrieval import merged
from al_ray.data.synthetic import synthetic_task
from al_ray.model.cnn import Cnn
from al_ray.model.paraphrase import embedded
from al_ray.model.questions import (
    IndexShard,
    IndexSpec,
    SearchShard,
    SearchSpec,
    index_alone,
    index_file,
    tokens_of,
)
from al_ray.model.words import Vocabulary

TEXTS = synthetic_task(300, 0).left.texts
CONFIG = EncoderConfig("cnn-8", None, 20, 64, 1, "fp32")
ENCODER = Cnn.base(CONFIG, Vocabulary.of(TEXTS))
TOKENS = tokens_of(ENCODER, TEXTS)
VECTORS = embedded(ENCODER, TOKENS, np.arange(len(TEXTS)))


@pytest.fixture
def spec(tmp_path) -> IndexSpec:
    """Of a whole index by 8 cells."""
    for name in ("model", "tokens", "out"):
        (tmp_path / name).mkdir()
    ENCODER.save(tmp_path / "model")
    TOKENS.write(tmp_path / "tokens")
    paths = (str(tmp_path / name) for name in ("model", "tokens", "out"))
    model, tokens, out = paths
    return IndexSpec(model, CONFIG, tokens, out, "IVF8,Flat", nprobe=3)


def searched(spec: IndexSpec, shards: int, count: int) -> tuple[list[list[float]], list[list[int]]]:
    """What an index of so many shards finds for every fifth question."""
    made = [IndexShard(replace(spec, shard=shard, shards=shards)) for shard in range(shards)]
    size = made[0].sample_size()
    learnt = made[0].learnt(*(shard.sample(size) for shard in made)) if size else None
    for shard in made:
        shard.write(learnt)
    parts = [SearchShard(SearchSpec(str(Path(spec.out) / index_file(shard)), 1)) for shard in range(shards)]
    assert sum(part.size() for part in parts) == len(TEXTS)
    apart, places = merged([part.nearest(VECTORS[::5], count) for part in parts], count)
    return apart.tolist(), places.tolist()


# 300 questions in batches of 64 are 5 batches: the sixth shard has none.
@pytest.mark.parametrize("shards", [2, 6])
@pytest.mark.parametrize("factory", ["IVF8,Flat", "Flat"])
def test_shards_find_together_what_one_finds_alone(spec, factory, shards):
    spec = replace(spec, factory=factory)
    alone, together = searched(spec, 1, 12), searched(spec, shards, 12)
    assert together[1] == alone[1]
    np.testing.assert_allclose(together[0], alone[0], rtol=0, atol=0 if factory.startswith("IVF") else 1e-5)


def test_flat_finds_what_a_double_loop_finds(spec):
    wanted = ((VECTORS[::5, None].astype(np.float64) - VECTORS) ** 2).sum(axis=2)
    places = searched(replace(spec, factory="Flat"), 3, 5)[1]
    found = np.take_along_axis(wanted, np.array(places), axis=1)
    np.testing.assert_allclose(found, np.sort(wanted, axis=1)[:, :5], atol=1e-4)


def test_a_process_alone_writes_the_same_index_and_tells_of_its_progress(spec):
    heard = []
    index_alone(spec, len(TEXTS), lambda *news: heard.append(news))
    assert [done for _, done, _ in heard] == [64, 128, 192, 256, 300]
    assert {(stage, total) for stage, _, total in heard} == {("encode", 300)}
    alone = SearchShard(SearchSpec(str(Path(spec.out) / index_file(0)), 1)).nearest(VECTORS[::5], 12)
    assert alone[1].tolist() == searched(spec, 2, 12)[1]


def test_a_shard_that_starts_again_makes_its_vectors_again_and_tells_of_as_many(spec):
    shard = IndexShard(replace(spec, shards=2))
    told = list(shard.encode())
    assert list(shard.encode()) == told == [64, 64, 44]
    anew = IndexShard(replace(spec, shards=2)).sample(50)
    np.testing.assert_array_equal(anew.vectors, shard.sample(50).vectors)
    assert set(anew.rows % 6) == {0}


def test_a_kind_of_index_that_faiss_does_not_know_is_refused_before_anything_is_encoded(spec):
    with pytest.raises(BadOption, match="--index 'IVFx' on 0 vectors"):
        IndexShard(replace(spec, factory="IVFx")).sample_size()
