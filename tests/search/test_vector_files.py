"""Vectors of 32 and 16 bits; in memory, mapped, kept and read back: the answers are the same, and no others."""

import shutil
from collections.abc import Generator
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core import chunks
from al_ray.core.candidates import NO_CANDIDATES, Order
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import SearchConfig
from al_ray.core.errors import BadFile
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS
from al_ray.core.vectors import Vectors, dots, round_to_halves
from al_ray.encoders.transformer import Encoder
from al_ray.metrics.average_precision import counts_above, thresholds_of
from al_ray.metrics.bootstrap import QueryBootstrap
from al_ray.metrics.estimator import CountRequest
from al_ray.search import vector_files
from al_ray.search.join.exact_join import UNIT, ExactJoin, hosts
from al_ray.search.join.least_pairs import JoinQuery
from al_ray.search.knn_merge import KnnRequest, select, shortlist
from al_ray.search.shard import PoolShard
from al_ray.search.vector_files import GIB, VectorStore, single
from al_ray.storage.uri import storage_path
from tests.search.test_shard import Pool, pool
from tests.storage.s3 import served

ORDER, COUNT = Order(0.9), 50
KINDS = ["fp32", "fp16"]


def stored(made: Pool, **where) -> Pool:
    """The same pool on new shards, which keep their vectors elsewhere."""
    return replace(made, shards=[PoolShard(replace(shard.spec, **where)) for shard in made.shards])


def indexed(made: Pool, index: str) -> list:
    """The least pairs among the nearest by an index that all shards share."""
    model, split, right = made.model, made.task.split("train"), made.part("train", "right")
    rows = np.sort(np.concatenate([shard.rows(right) for shard in made.shards]))
    sample = [shard.vectors_of(model, right, rows) for shard in made.shards]
    learnt = None if index == "Flat" else made.shards[-1].train_index(None, *sample)
    request, found = KnnRequest(split.space, made.task.symmetric, 4, ORDER, COUNT), NO_CANDIDATES
    for _, block in made.blocks("train"):
        answers = [shard.nearest(model, right, block, 4 + made.task.symmetric, learnt) for shard in made.shards]
        listed = shortlist(request, inf, block.rows, NO_KEYS, answers)
        cosines = [shard.cosines(model, right, block, listed.pairs) for shard in made.shards]
        found = found.joined(select(request, listed, cosines)).least(ORDER, COUNT)
    return list(zip(found.keys.tolist(), found.cosines.tolist(), strict=True))


def joined(made: Pool) -> list:
    """The least pairs of all."""
    model, left, right = made.model, made.part("train", "left"), made.part("train", "right")
    wanted = JoinQuery(ORDER, COUNT, made.task.split("train").space.width, made.task.symmetric)
    blocks = [shard.block(model, right, 0, len(shard.rows(right))) for shard in made.shards]
    workers = [ExactJoin([wanted], [NO_KEYS]) for _ in made.shards]
    for number, own in enumerate(made.shards):
        visitor = own.block(model, left, 0, len(own.rows(left)))
        for host in hosts(number, len(blocks)).tolist() if made.task.symmetric else range(len(blocks)):
            workers[host].add(visitor, blocks[host])
    found = [candidates for worker in workers for candidates in worker.results()]
    best = NO_CANDIDATES.joined(*found).least(ORDER, COUNT)
    return list(zip(best.keys.tolist(), best.cosines.tolist(), strict=True))


def counted(made: Pool, thresholds) -> list[int]:
    """How many negatives reach each threshold."""
    split, right = made.task.split("train"), made.part("train", "right")
    request = CountRequest(thresholds, QueryBootstrap(np.arange(len(made.task.left)), made.task.symmetric, thresholds))
    counts = [
        shard.count_negatives(made.model, right, block, split.positives, request).above
        for _, block in made.blocks("train")
        for shard in made.shards
    ]
    return np.sum(counts, axis=0).tolist()


@pytest.mark.parametrize("vectors", KINDS)
def test_answers_are_those_of_double_loops_wherever_vectors_are(tmp_path, letters, task, vectors):
    search = SearchConfig(neighbours=4, block=25, index="IVF4,Flat", nprobe=2)
    encoder, flat = replace(letters, vectors=vectors), replace(search, index="Flat")
    cosines = pool(task, tmp_path, encoder, 1).cosines("train")
    pairs = {pair: cosine for pair, cosine in cosines.items() if not task.symmetric or pair[0] < pair[1]}
    space, positives = task.split("train").space, {tuple(pair) for pair in task.split("train").positives.tolist()}
    keys = {int(space.keys(np.array([pair]))[0]): cosine for pair, cosine in pairs.items()}
    order = sorted(keys, key=lambda key: (float(ORDER.cost(np.array([keys[key]]))[0]), key))
    wanted = [(key, keys[key]) for key in order[:COUNT]]
    thresholds = thresholds_of(np.array([pairs[pair] for pair in positives]))
    negatives = np.array([cosine for pair, cosine in pairs.items() if pair not in positives])
    found = []
    for shards in (1, 2, 3):
        memory = pool(task, tmp_path, encoder, shards, search)
        # The last two are one after the other: what the first kept is read back.
        wheres = {}, {"mapped_above": 0}, {"keep_vectors": True}, {"keep_vectors": True}
        for where in wheres:
            made = stored(memory, **where)
            assert joined(made) == wanted
            assert counted(made, thresholds) == counts_above(thresholds, negatives).tolist()
            by_flat = stored(pool(task, tmp_path, encoder, shards, flat), **where)
            found.append((indexed(made, "IVF4,Flat"), indexed(by_flat, "Flat")))
    assert len(found[0][0]) == len(found[0][1]) == COUNT
    assert all(each == found[0] for each in found)
    least = pool(task, tmp_path, encoder, 2, flat).least(task.split("train"), space, ORDER, COUNT, NO_KEYS)
    assert [key for key, _ in found[0][1]] == least.keys.tolist()


def moved(width: int) -> float:
    """How far rounding a vector of length 1 to 16 bits moves it: 11 significant bits, or steps of 2^-24 near 0."""
    return 2.0**-11 + sqrt(width) * 2.0**-25


def rounded(vectors: Vectors) -> Vectors:
    found = VectorStore("fp16", inf, {}, 0, 1).empty(vectors.shape)
    found[:] = vectors
    return found


def test_vectors_of_16_bits_are_those_of_32_rounded_once(tmp_path, letters, task):
    pools = [pool(task, tmp_path, replace(letters, vectors=vectors), 2) for vectors in KINDS]
    single, half = (made.vectors("train", "left") for made in pools)
    assert [half[row].tolist() for row in single] == [round_to_halves(single[row][None])[0].tolist() for row in single]
    fine, coarse = (made.cosines("train") for made in pools)
    change = np.array([coarse[pair] - fine[pair] for pair in fine])
    allowed = moved(32) * (2 + moved(32))
    assert 1e-5 < np.abs(change).max() <= allowed + 1e-6 < 1e-3


@given(st.integers(1, 1024), st.sampled_from([1e-6, 0.1, 1.0]), st.integers(0, 2**32 - 1))
def test_rounding_moves_a_cosine_by_no_more_than_its_bound(width, spread, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal(width) * (rng.random((20, width)) < 0.5) + spread * rng.standard_normal((20, width))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    half, (a, b) = rounded(vectors), np.triu_indices(20)
    change = np.abs(dots(half[a], half[b]) - dots(vectors[a], vectors[b]))
    assert change.max() <= moved(width) * (2 + moved(width)) * (1 + 1e-6)
    assert np.linalg.norm(half.astype(np.float64), axis=1).max() <= 1 + moved(width) + 1e-6 < UNIT
    assert single(half).numpy().tolist() == half.tolist()


def test_a_model_is_the_same_whatever_its_vectors_are_held_in(letters):
    assert Encoder.base(letters).digest() == Encoder.base(replace(letters, vectors="fp16")).digest()


@pytest.fixture
def trained(letters, tmp_path) -> list[Model]:
    """Three models, saved: one of them round 1's, and so on."""
    models = []
    for number in range(3):
        encoder = Encoder.base(letters)
        for parameter in encoder.transformer.parameters():
            parameter.data = parameter.data.roll(number + 1, 0)
        (tmp_path / f"model-{number}").mkdir()
        encoder.save(tmp_path / f"model-{number}")
        models.append(Model(str(tmp_path / f"model-{number}"), encoder.digest()))
    return models


def keeping(task, folder: Path, encoder: EncoderConfig, shards: int = 1) -> Pool:
    return stored(pool(task, folder, encoder, shards), keep_vectors=True)


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The kept files: inode and content."""
    found = sorted((folder / "vectors" / "pool").iterdir())
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in found}


@pytest.mark.parametrize("vectors", KINDS)
def test_what_was_kept_is_read_back_without_an_encoder_by_any_number_of_shards(
    tmp_path, letters, task, trained, vectors
):
    encoder, part = replace(letters, vectors=vectors), pool(task, tmp_path, letters, 1).part("train", "left")
    first, again = (keeping(task, tmp_path, encoder, 2).shards[1] for _ in range(2))
    counts = list(first.embed(trained[0], part))
    list(keeping(task, tmp_path, encoder, 2).shards[0].embed(trained[0], part))
    kept = files(tmp_path)
    # No weights: whoever encodes a text now, fails.
    shutil.rmtree(trained[0].path)
    assert list(again.embed(trained[0], part)) == counts
    assert sum(counts) == len(again.rows(part)) > 0
    before, after = (shard.block(trained[0], part, 0, 10_000).vectors for shard in (first, again))
    assert before.dtype == after.dtype == {"fp32": np.float32, "fp16": np.float16}[vectors]
    assert before.tobytes() == after.tobytes()
    for shards in (1, 3):
        others = keeping(task, tmp_path, encoder, shards).shards
        assert sum(sum(shard.embed(trained[0], part)) for shard in others) == len(task.split("train").space.left)
    assert files(tmp_path) == kept
    # Other options of the encoder are other vectors.
    other = replace(encoder, encoder_batch=encoder.encoder_batch + 1)
    with pytest.raises(BadFile):
        list(keeping(task, tmp_path, other, 2).shards[1].embed(trained[0], part))


@pytest.mark.parametrize("lost", [0, 1])
def test_an_embedding_that_is_started_again_encodes_only_the_chunks_that_are_missing(
    tmp_path, letters, task, trained, monkeypatch, lost
):
    part = keeping(task, tmp_path, letters).part("train", "left")
    whole = list(keeping(task, tmp_path, letters).shards[0].embed(trained[0], part))
    assert len(whole) > 2
    kept = files(tmp_path)
    path = tmp_path / "vectors" / "pool" / list(kept)[lost]
    path.unlink()
    again, encoded = keeping(task, tmp_path, letters).shards[0], list[int]()
    monkeypatch.setattr(again, "on_embedded", encoded.append)
    assert list(again.embed(trained[0], part)) == whole
    assert encoded == [whole[lost]]
    assert {name: content for name, (_, content) in files(tmp_path).items()} == {
        name: content for name, (_, content) in kept.items()
    }


def test_shards_that_are_done_encode_the_chunks_of_one_that_is_behind_but_for_its_first(
    tmp_path, letters, task, monkeypatch
):
    small = replace(letters, encoder_batch=2)
    usual, made = pool(task, tmp_path, small, 1).vectors("train", "left"), keeping(task, tmp_path, small, 3)
    part, encoded = made.part("train", "left"), [list[int](), list[int](), list[int]()]
    for shard, counts in zip(made.shards, encoded, strict=True):
        monkeypatch.setattr(shard, "on_embedded", counts.append)
    first, second, third = made.shards
    for shard in (first, second):
        list(shard.embed(made.model, part))
    own = len(third._chunks(part))
    assert own >= 3
    # The third is in its first chunk, or has died there. While the first encodes one, the second encodes all others,
    # and at the end that one too, because it is not there yet.
    one = first.embed_for_others(made.model, part)
    next(one)
    list(second.embed_for_others(made.model, part))
    assert list(one) == list(first.embed_for_others(made.model, part)) == []
    counts = list(third.embed(made.model, part))
    assert len(counts) == own == len(encoded[2]) + own - 1
    assert [len(every) for every in encoded[:2]] == [len(first._chunks(part)) + 1, len(second._chunks(part)) + own - 1]
    found = made.vectors("train", "left")
    assert [found[row].tobytes() for row in usual] == [vector.tobytes() for vector in usual.values()]


def test_shards_that_keep_no_vectors_encode_their_own_alone(tmp_path, letters, task):
    made = pool(task, tmp_path, letters, 2)
    part = made.part("train", "left")
    assert list(made.shards[0].embed_for_others(made.model, part)) == []


def test_chunks_of_several_batches_are_dealt_evenly_and_have_the_same_vectors(tmp_path, letters, task, monkeypatch):
    usual = pool(task, tmp_path, letters, 2).vectors("train", "left")
    monkeypatch.setattr(chunks, "VECTOR_CHUNKS", 2)
    made = keeping(task, tmp_path, letters, 3)
    part, batches = made.part("train", "left"), -(-len(usual) // letters.encoder_batch)
    assert batches > 2
    dealt = [shard._chunks(part) for shard in made.shards]
    assert [[number for number, _ in own] for own in dealt] == [[0], [1], []]
    assert {len(own) for of_shard in dealt for _, own in of_shard} == {batches // 2, -(-batches // 2)}
    found = made.vectors("train", "left")
    assert [found[row].tobytes() for row in usual] == [vector.tobytes() for vector in usual.values()]
    assert len(files(tmp_path)) == 2


DAMAGES = {
    "empty": lambda good, _: b"",
    "a header": lambda good, _: good[:10],
    "the last byte is gone": lambda good, _: good[:-1],
    "half": lambda good, _: good[: len(good) // 2],
    "zeros at the end": lambda good, _: good[:-500] + bytes(500),
    "a bit of a number": lambda good, _: good[:200] + bytes([good[200] ^ 1]) + good[201:],
    "a bit of the header": lambda good, _: good[:20] + bytes([good[20] ^ 1]) + good[21:],
    "another model's": lambda _, other: other,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_kept_file_that_is_not_what_was_written_is_made_again(tmp_path, letters, task, trained, caplog, damage):
    contents, cosines = [], []
    for model in trained[:2]:
        made = replace(keeping(task, tmp_path, letters), model=model)
        cosines.append(made.cosines("train"))
        contents.append(files(tmp_path))
    (good, *_), (other, *_) = ([content for _, content in found.values()] for found in contents)
    assert good != other
    (path, *_) = sorted((tmp_path / "vectors" / "pool").iterdir())
    path.write_bytes(DAMAGES[damage](other, good))
    assert replace(keeping(task, tmp_path, letters), model=trained[1]).cosines("train") == cosines[1]
    assert f"{path.name} is not used" in caplog.text
    assert {name: content for name, (_, content) in files(tmp_path).items()} == {
        name: content for name, (_, content) in contents[1].items()
    }


def test_vectors_of_other_hardware_or_another_pool_are_others(tmp_path, letters, task, monkeypatch):
    part = keeping(task, tmp_path, letters).part("train", "left")
    shard = keeping(task, tmp_path, letters).shards[0]
    model = keeping(task, tmp_path, letters).model
    (_, one), (_, other), *_ = shard._chunks(part)
    # As many texts as in the first chunk, but others.
    keys = {shard._key(model, part, one), shard._key(model, part, other)}
    shard.spec, usual = replace(shard.spec, folder="elsewhere"), shard.spec
    keys.add(shard._key(model, part, one))
    shard.spec = usual
    for hardware in (("NVIDIA H200", "capability 9.0"), ("cpu", "x86_64", "DEFAULT")):
        monkeypatch.setattr(PoolShard, "hardware", lambda _, hardware=hardware: hardware)
        keys.add(shard._key(model, part, one))
    assert len(keys) == 5


def test_only_the_untrained_vectors_and_the_last_weights_are_kept(tmp_path, letters, task, trained):
    part = keeping(task, tmp_path, letters).part("train", "left")
    made = keeping(task, tmp_path, letters, 2)
    for shard in made.shards:
        list(shard.embed(trained[0], part))
    count = len(files(tmp_path))
    for model in (made.model, trained[1], trained[2]):
        list(made.shards[0].embed(model, part))
    names = [name.removesuffix(".npy").split("-left-") for name in files(tmp_path)]
    weights = [(kind, int(rest.rpartition("-")[2]) % 2) for kind, rest in names]
    own = (count + 1) // 2
    assert weights.count((f"trained-{trained[2].digest[:16]}", 0)) == own
    assert weights.count((f"untrained-{made.model.digest[:16]}", 0)) == own
    # The other shard has not changed to these weights yet, and its files stay.
    assert weights.count((f"trained-{trained[0].digest[:16]}", 1)) == count - own
    assert len(weights) == count + own


def test_an_embedding_that_is_broken_off_keeps_the_chunks_that_it_has_finished(tmp_path, letters, task, monkeypatch):
    made = keeping(task, tmp_path, letters)
    (shard,), part = made.shards, made.part("train", "left")
    stream = shard.embed(made.model, part)
    first, _ = next(stream), next(stream)
    assert isinstance(stream, Generator)
    stream.close()
    assert len(files(tmp_path)) == 1
    again, encoded = keeping(task, tmp_path, letters).shards[0], list[int]()
    monkeypatch.setattr(again, "on_embedded", encoded.append)
    assert sum(again.embed(made.model, part)) == len(again.rows(part)) == sum(encoded) + first


def mapped(vectors: Vectors) -> bool:
    under: object = vectors
    while isinstance(under, np.ndarray) and not isinstance(under, np.memmap):
        under = under.base
    return under is not None


def test_what_goes_beyond_the_memory_allowed_is_mapped_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # Room for 100 numbers of 4 bytes.
    store = VectorStore("fp32", 400 / GIB, {}, 0, 1)
    for kind in ("untrained", "trained"):
        store.select(kind, "a")
        for shape, elsewhere in (((6, 10), False), ((5, 10), True), ((4, 10), False), ((1, 1), True), ((0, 9), False)):
            vectors = store.empty(shape)
            assert not list(tmp_path.iterdir())
            vectors[:] = 3
            assert vectors.shape == shape
            assert mapped(vectors) == elsewhere
            assert (vectors == 3).all()


def test_a_mapped_file_has_its_room_from_the_start(tmp_path):
    # A map that meets a full disk would end the process.
    path = tmp_path / "file"
    path.touch()
    vector_files._mapped(path, (1000, 10), np.dtype(np.float32))
    assert path.stat().st_blocks * 512 >= path.stat().st_size > 40_000


def test_an_error_names_the_place_when_nothing_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere" / "at all"))
    (tmp_path / "nowhere").write_text("a file")
    with pytest.raises(BadFile, match="cannot be written"):
        VectorStore("fp32", 0, {}, 0, 1).empty((2, 3))
    store = VectorStore("fp32", 0, {"trained": tmp_path / "nowhere"}, 0, 1)
    store.folder = store.folders["trained"]
    with pytest.raises(BadFile, match="cannot be written"):
        store.keep("left", 0, "", np.zeros((2, 3), np.float32))


def test_a_shard_without_texts_keeps_no_file(tmp_path, letters, task):
    made = keeping(task, tmp_path, letters, 50)
    part = made.part("train", "left")
    counts = [list(shard.embed(made.model, part)) for shard in made.shards]
    assert [] in counts
    assert len(files(tmp_path)) == sum(map(len, counts))
    again = keeping(task, tmp_path, letters, 50)
    assert [list(shard.embed(again.model, part)) for shard in again.shards] == counts


@pytest.mark.parametrize(("shard", "shards", "left"), [(1, 12, [2, 11, 12]), (0, 2, [1, 11, 13])])
def test_a_shard_removes_the_files_of_its_own_chunks_alone(tmp_path, shard, shards, left):
    store = VectorStore("fp32", 0, {"trained": tmp_path}, 0, 1)
    store.select("trained", "a")
    for chunk in (1, 2, 11, 12, 13):
        store.keep("left", chunk, "", np.zeros((1, 1), np.float32))
    VectorStore("fp32", 0, {"trained": tmp_path}, shard, shards).select("trained", "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"trained-a-left-{chunk:05}.npy" for chunk in left]


def test_chunks_on_an_object_store_are_read_by_every_node(tmp_path, letters, task, trained, monkeypatch):
    here, model = pool(task, tmp_path, letters, 1), trained[0]
    part, wanted = here.part("train", "left"), replace(here, model=model).vectors("train", "left")
    with served() as server:
        # The servers of a process have the same objects.
        run = f"run-{task.name}-{task.symmetric}/pool"
        uri = storage_path(server.uri(f"{run}/key"))
        for path in (tmp_path / "pool").rglob("*"):
            if path.is_file():
                (uri / path.relative_to(tmp_path / "pool").as_posix()).put(path)

        def node(name: str, shards: int) -> list[PoolShard]:
            """Shards on a node with a folder of its own for temporary files."""
            (tmp_path / name).mkdir()
            monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))
            spec = replace(here.shards[0].spec, folder=str(uri), keep_vectors=True, shards=shards)
            return [PoolShard(replace(spec, shard=number)) for number in range(shards)]

        for shard in node("first", 2):
            list(shard.embed(model, part))
        names = server.names(f"{run}/vectors/key")
        assert len(names) == len(wanted) // letters.encoder_batch + (len(wanted) % letters.encoder_batch > 0)
        # No weights: whoever encodes a text now, fails.
        shutil.rmtree(model.path)
        found = replace(here, shards=node("second", 3), model=model).vectors("train", "left")
        assert {row: vector.tobytes() for row, vector in found.items()} == {
            row: vector.tobytes() for row, vector in wanted.items()
        }
        for shard in node("third", 3):
            list(shard.embed(here.model, part))
            list(shard.embed(trained[1], part))
        assert {name.split("-left-")[0] for name in server.names(f"{run}/vectors/key")} == {
            f"untrained-{here.model.digest[:16]}", f"trained-{trained[1].digest[:16]}"
        }  # fmt: skip
        assert not [path for path in (tmp_path / "third").iterdir() if path.name.startswith("al_ray-vectors-")]
