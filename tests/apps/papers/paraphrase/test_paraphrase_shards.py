"""An index in shards, without Ray: however many there are, it finds the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.apps.papers.paraphrase.index import (
    NEAREST,
    ROUNDING,
    IndexRecall,
    IndexShard,
    IndexSpec,
    RecallTarget,
    SearchShard,
    SearchSpec,
    build_index,
    choose_nprobe,
    index_file,
)
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.datasets.synthetic import synthetic_task
from al_ray.encoders.cnn import Cnn
from al_ray.encoders.encoder import embed_rows
from al_ray.encoders.vocabulary import Vocabulary
from al_ray.search.faiss_index import DistanceIndex
from al_ray.search.merge import merge_neighbors

TEXTS = synthetic_task(300, 0).left.texts
CONFIG = EncoderConfig("cnn-8", None, 20, 64, 1)
ENCODER = Cnn.base(CONFIG, Vocabulary.of(TEXTS))
TOKENS = ENCODER.tokenise(TEXTS)
VECTORS = embed_rows(ENCODER, TOKENS, np.arange(len(TEXTS)), unit=False)


@pytest.fixture
def spec(tmp_path) -> IndexSpec:
    """Of a whole index by 8 cells."""
    for name in ("model", "tokens", "out"):
        (tmp_path / name).mkdir()
    ENCODER.save(tmp_path / "model")
    TOKENS.write(tmp_path / "tokens")
    paths = (str(tmp_path / name) for name in ("model", "tokens", "out"))
    model, tokens, out = paths
    return IndexSpec(model, CONFIG, tokens, out, "IVF8,Flat")


def searched(spec: IndexSpec, shards: int, count: int) -> tuple[list[list[float]], list[list[int]]]:
    """What an index of so many shards finds for every fifth question."""
    made = [IndexShard(replace(spec, shard=shard, shards=shards)) for shard in range(shards)]
    size = made[0].sample_size()
    trained = made[0].train_index(*(shard.sample(size) for shard in made)) if size else None
    for shard in made:
        shard.write(trained, nprobe=3)
    parts = [SearchShard(SearchSpec(str(Path(spec.out) / index_file(shard)), 1)) for shard in range(shards)]
    assert sum(part.size() for part in parts) == len(TEXTS)
    apart, places = merge_neighbors([part.nearest(VECTORS[::5], count) for part in parts], count, "l2")
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
    made = build_index(spec, len(TEXTS), RecallTarget(3, 0.1), lambda *news: heard.append(news))
    assert made.nprobe == 3
    assert [done for _, done, _ in heard] == [64, 128, 192, 256, 300]
    assert {(stage, total) for stage, _, total in heard} == {("encode", 300)}
    alone = SearchShard(SearchSpec(str(Path(spec.out) / index_file(0)), 1)).nearest(VECTORS[::5], 12)
    assert alone[1].tolist() == searched(spec, 2, 12)[1]


def probing(spec: IndexSpec, shards: int, wanted: RecallTarget) -> IndexRecall:
    """What becomes of an index of so many shards."""
    made = [IndexShard(replace(spec, shard=shard, shards=shards)) for shard in range(shards)]
    size = made[0].sample_size()
    trained = made[0].train_index(*(shard.sample(size) for shard in made)) if size else None
    return choose_nprobe(
        lambda method, *arguments: [getattr(shard, method)(*arguments) for shard in made], trained, wanted
    )


@pytest.mark.parametrize("shards", [1, 3])
def test_the_recall_is_the_share_of_the_nearest_others_that_an_index_finds(spec, shards):
    apart = ((VECTORS[:, None].astype(np.float64) - VECTORS) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    tenth = np.sort(apart, axis=1)[:, NEAREST - 1] + ROUNDING * (VECTORS**2).sum(axis=1)
    index = DistanceIndex.build(VECTORS, "IVF8,Flat").set_nprobe(2)
    rows = [[row for row in found if row not in (-1, one)] for one, found in enumerate(index.nearest(VECTORS, 300)[1])]
    hits = [min(NEAREST, int((apart[one, row] <= tenth[one]).sum())) for one, row in enumerate(rows)]
    found = probing(spec, shards, RecallTarget(2, 0.0))
    assert found.nprobe == 2
    assert found.recall == pytest.approx(np.sum(hits) / (300 * NEAREST))
    assert 0.3 < found.recall < 0.9, "or the test says nothing"


def warned(caplog) -> list[str]:
    """What our code warned of: threads of other modules may log, too."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("al_ray")]


@pytest.mark.parametrize("least", [0.6, 0.95, 1.0])
def test_as_few_cells_are_looked_into_as_reach_the_recall(spec, least, caplog):
    recalls = [probing(spec, 1, RecallTarget(nprobe, 0.0)).recall for nprobe in range(1, 9)]
    assert recalls == sorted(recalls)
    found = probing(spec, 2, RecallTarget(None, least))
    fewest = 1 + int(np.argmax(np.array(recalls) >= least))
    assert (found.nprobe, found.recall) == (fewest, pytest.approx(recalls[fewest - 1]))
    assert not warned(caplog)


def test_an_index_that_finds_too_little_is_told_of(spec, caplog):
    assert probing(spec, 1, RecallTarget(1, 0.9)).nprobe == 1
    assert "less than `least_recall=0.9`: raise `nprobe`" in caplog.text
    caplog.clear()
    coded = probing(replace(spec, factory="IVF8,PQ2x2"), 1, RecallTarget(None, 0.9))
    assert (coded.nprobe, "try `index='Flat'`" in caplog.text) == (8, True)
    assert coded.recall < 0.9
    caplog.clear()
    assert probing(replace(spec, factory="Flat"), 2, RecallTarget(None, 1.0)) == IndexRecall(None, 1.0)
    assert probing(replace(spec, factory="HNSW8"), 1, RecallTarget(None, 0.5)).recall > 0.5
    assert not warned(caplog)


def test_a_shard_that_starts_again_makes_its_vectors_again_and_tells_of_as_many(spec):
    shard = IndexShard(replace(spec, shards=2))
    told = list(shard.encode())
    assert list(shard.encode()) == told == [64, 64, 44]
    anew = IndexShard(replace(spec, shards=2)).sample(50)
    np.testing.assert_array_equal(anew.vectors, shard.sample(50).vectors)
    assert set(anew.rows % 6) == {0}


def test_a_kind_of_index_that_faiss_does_not_know_is_refused_before_anything_is_encoded(spec):
    with pytest.raises(BadOption, match="`index` 'IVFx' on 0 vectors"):
        IndexShard(replace(spec, factory="IVFx")).sample_size()
