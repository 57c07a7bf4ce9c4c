"""Training on paraphrases: early stopping, going on from a checkpoint, and the index by distance."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from al_ray.apps.papers.mining.negatives import KnownMatches
from al_ray.apps.papers.paraphrase.index import QuestionSearch
from al_ray.apps.papers.paraphrase.options import Epoch, ParaphraseConfig, best_epoch, has_ended, scaled_index
from al_ray.apps.papers.paraphrase.pairs import known_of
from al_ray.apps.papers.paraphrase.training import MetricTraining, negative_distances
from al_ray.core.errors import BadFile, BadOption, TrainingFailed
from al_ray.core.vectors import Block
from al_ray.datasets.synthetic import synthetic_task
from al_ray.encoders.cnn import Cnn
from al_ray.encoders.encoder import embed_rows
from al_ray.encoders.vocabulary import Vocabulary
from al_ray.search.faiss_index import DistanceIndex, exact_nearest, set_threads
from al_ray.training.bi_encoder import forward
from al_ray.training.checkpoint import Checkpoint

CONFIG = ParaphraseConfig(
    task="task", encoder="cnn-8", batch=16, epochs=3, patience=9, max_length=20, encoder_batch=16, threads=1
)
TASK = synthetic_task(900, 0)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    set_threads(1)


def training(config: ParaphraseConfig = CONFIG) -> MetricTraining:
    encoder = Cnn.base(config.encoding, Vocabulary.of(TASK.left.texts, bins=20), seed=config.seed)
    tokens = encoder.tokenise(TASK.left.texts)
    return MetricTraining(encoder, tokens, known_of(TASK, config), config, lambda *_: None)


def kept(folder, seconds: float = 0.0) -> Checkpoint:
    return Checkpoint(folder / "training.safetensors", "this", seconds)


def figures(epochs: list[Epoch]) -> list[Epoch]:
    return [replace(epoch, seconds=0.0) for epoch in epochs]


def of(*aucs: float) -> list[Epoch]:
    return [Epoch(number, 1.0, auc, 1, 1, 0.0) for number, auc in enumerate(aucs, start=1)]


def test_a_training_stops_so_many_epochs_after_its_best():
    config = replace(CONFIG, epochs=9, patience=2)
    assert best_epoch(of(0.5, 0.7, 0.7, 0.6)).epoch == 2
    assert [has_ended(of(0.5, 0.7, 0.6, 0.7)[:count], config) for count in range(5)] == [False] * 4 + [True]
    assert has_ended(of(*range(9)), config)


def test_an_index_has_cells_as_full_as_the_papers():
    # 2000 cells for 556,107 questions are 278.05 a cell: 99,328 / 278.05 = 357.2.
    assert [scaled_index(count) for count in (556_107, 99_328, 417, 400)] == [
        "IVF2000,Flat",
        "IVF357,Flat",
        "Flat",
        "Flat",
    ]
    assert scaled_index(420) == "IVF2,Flat"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"smoothing": 0.0},
        {"distance": "euclidean"},
        {"loss": "triplet-random"},
        {"loss": "triplet-hard"},
        {"loss": "triplet-mined"},
        {"loss": "triplet-mined", "miner": "bm25", "distance": "euclidean"},
    ],
    ids=str,
)
def test_each_loss_falls_and_tells_the_pairs_it_learns_from_apart_better(changes, tmp_path):
    made = training(replace(CONFIG, **changes))
    pairs, far = made.known.pairs, np.roll(np.arange(len(made.known.pairs)), 50)
    apart = made.known.component != made.known.component[far]
    negatives = np.stack([pairs[apart, 0], pairs[far[apart], 1]], axis=1)
    made.known = replace(made.known, positives=pairs, negatives=negatives)
    before = made.roc_auc()
    first, *_, last = list(made.epochs([], kept(tmp_path)))
    assert last.loss < first.loss
    assert before < 0.95 < last.roc_auc


def test_a_batch_holds_two_pairs_of_a_cluster_only_where_that_is_asked_for(tmp_path):
    taken = {}
    for same in (False, True):
        made = training(replace(CONFIG, same_cluster=same, epochs=1))
        met, known = [], dict(zip(map(tuple, made.known.pairs.tolist()), made.known.component.tolist(), strict=True))
        loss = made.loss
        made.loss = lambda pairs, draws, met=met, loss=loss: met.append(pairs) or loss(pairs, draws)
        (epoch,) = made.epochs([], kept(tmp_path / str(same)))
        clusters = [[known[tuple(pair)] for pair in pairs.tolist()] for pairs in met]
        taken[same] = epoch.pairs
        assert any(len(set(batch)) < len(batch) for batch in clusters) == same
    assert taken[True] == len(made.known.pairs) // 16 * 16 >= taken[False]


def test_a_training_that_goes_on_ends_as_one_that_never_stopped(tmp_path):
    whole, halves = training(), training()
    wanted = list(whole.epochs([], kept(tmp_path / "whole")))
    stream = halves.epochs([], kept(tmp_path / "halves"))
    past = [next(stream), next(stream)]
    # The second epoch was told, and its process died before it was kept: it is made again.
    stream.close()
    again = training()
    found = list(again.epochs(past, kept(tmp_path / "halves")))
    assert [epoch.epoch for epoch in found] == [2, 3]
    assert figures([past[0], *found]) == figures(wanted)
    assert again.encoder.digest() == whole.encoder.digest()


def test_the_weights_of_the_best_epoch_are_left(tmp_path):
    made = training(replace(CONFIG, learning_rate=0.5, patience=2, epochs=4))
    digests, aucs = [], []
    for epoch in made.epochs([], kept(tmp_path)):
        digests.append(made.encoder.digest())
        aucs.append(epoch.roc_auc)
    assert made.encoder.digest() == digests[int(np.argmax(aucs))]
    assert int(np.argmax(aucs)) < len(aucs) - 1, "or the test says nothing"


def test_a_training_that_diverges_ends_in_an_error_that_names_the_rate(tmp_path):
    made = training(replace(CONFIG, learning_rate=1e6))
    made.encoder.network.get_parameter("projection.weight").data.mul_(1e18)
    with pytest.raises(TrainingFailed, match="lower `learning_rate`, which is 1000000"):
        list(made.epochs([], kept(tmp_path)))


def test_weights_that_diverged_in_the_last_step_are_no_model():
    made = training()
    made.encoder.network.get_parameter("projection.weight").data.fill_(float("nan"))
    with pytest.raises(TrainingFailed, match="distances on dev is nan; lower `learning_rate`"):
        made.roc_auc()


def test_a_checkpoint_without_its_lines_of_metrics_is_refused(tmp_path):
    list(training(replace(CONFIG, epochs=1)).epochs([], kept(tmp_path)))
    with pytest.raises(BadFile, match="is of epoch 1"):
        list(training().epochs([], kept(tmp_path)))


def test_the_watched_pairs_are_of_dev_and_of_different_clusters():
    known, dev = known_of(TASK, CONFIG), TASK.splits["dev"]
    assert known.positives is dev.positives
    assert np.isin(known.negatives, dev.space.left).all()
    positive = {tuple(pair) for pair in dev.positives.tolist()}
    assert not positive & {tuple(sorted(pair)) for pair in known.negatives.tolist()}
    assert len(known.negatives) > 9 * len(dev.positives)


def squared(vectors: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    return ((vectors[pairs[:, 0]] - vectors[pairs[:, 1]]) ** 2).sum(axis=1)


def test_roc_auc_is_of_squared_distances():
    made = training()
    vectors = embed_rows(made.encoder, made.tokens, np.arange(len(made.tokens)), unit=False).astype(np.float64)
    near = [((vectors[a] - vectors[b]) ** 2).sum() for a, b in made.known.positives]
    far = [((vectors[a] - vectors[b]) ** 2).sum() for a, b in made.known.negatives]
    assert made.roc_auc() == pytest.approx(np.mean([(one < far).mean() for one in near]), abs=1e-9)
    pairs = made.known.positives
    rows = np.arange(len(made.tokens))
    np.testing.assert_allclose(negative_distances(vectors.astype(np.float32), rows, pairs), -np.array(near), rtol=1e-12)


def test_a_batch_is_encoded_in_passes_of_like_length_in_the_order_of_its_rows():
    made, rows = training(), np.array([5, 3, 3, 90, 41, 7])
    with torch.no_grad():
        found = forward(made.encoder, made.tokens, rows, 2).numpy()
        for row, vector in zip(rows, found, strict=True):
            np.testing.assert_allclose(made.encoder.forward(made.tokens, np.array([row]))[0], vector, atol=1e-5)


@pytest.mark.parametrize("factory", ["Flat", "IVF4,Flat"])
def test_an_index_finds_what_a_double_loop_finds(factory, tmp_path):
    vectors, queries = (
        np.random.default_rng(seed).normal(size=(size, 5)).astype(np.float32) for seed, size in ((0, 200), (1, 9))
    )
    DistanceIndex.build(vectors, factory).set_nprobe(4).write(tmp_path / "index.faiss")
    index = DistanceIndex.read(tmp_path / "index.faiss")
    apart, places = index.nearest(queries, 6)
    wanted = ((queries[:, None] - vectors) ** 2).sum(axis=2)
    assert places.tolist() == np.argsort(wanted, axis=1)[:, :6].tolist()
    np.testing.assert_allclose(apart, np.sort(wanted, axis=1)[:, :6], rtol=1e-4)
    assert index.nearest(queries, 500)[1].shape == (9, 200)
    apart, places = exact_nearest(Block(np.arange(200)[::-1], vectors[::-1]), queries, 6, "l2")
    assert places.tolist() == np.argsort(wanted, axis=1)[:, :6].tolist()
    np.testing.assert_allclose(apart, np.sort(wanted, axis=1)[:, :6], rtol=1e-4)


def test_an_ivf_index_keeps_how_many_cells_it_looks_into(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(400, 5)).astype(np.float32)
    DistanceIndex.build(vectors, "IVF8,Flat").set_nprobe(1).write(tmp_path / "index.faiss")
    apart, places = DistanceIndex.read(tmp_path / "index.faiss").nearest(vectors[:20], 400)
    assert 0 < (places >= 0).sum() < 20 * 400
    assert (np.isinf(apart) == (places < 0)).all()


def test_an_index_gives_the_numbers_that_its_vectors_were_given_and_of_equally_near_ones_the_least(tmp_path):
    vectors = np.array([[0.0], [3.0], [3.0], [9.0]], dtype=np.float32)
    index = DistanceIndex.build(vectors, "Flat", rows=np.array([70, 50, 20, 90]))
    apart, places = index.nearest(np.array([[2.0]], dtype=np.float32), 3)
    # (2 - 3)^2 twice, (2 - 0)^2.
    assert (apart.tolist(), places.tolist()) == ([[1.0, 1.0, 4.0]], [[20, 50, 70]])


def test_what_is_no_index_is_told(tmp_path):
    with pytest.raises(BadOption, match="`index` 'Flatt' on 3 vectors"):
        DistanceIndex.build(np.zeros((3, 2), np.float32), "Flatt")
    (tmp_path / "index.faiss").write_bytes(b"nothing")
    for name in ("index.faiss", "gone"):
        with pytest.raises(BadFile, match="make it again"):
            DistanceIndex.read(tmp_path / name)


def test_a_question_finds_itself_first_at_no_distance():
    made = training()
    index = DistanceIndex.build(embed_rows(made.encoder, made.tokens, np.arange(len(made.tokens)), unit=False), "Flat")
    found = QuestionSearch(made.encoder, index).nearest(TASK.left.texts[:7], 3)
    np.testing.assert_allclose(found.distances[:, 0], 0.0, atol=1e-3)
    assert [TASK.left.texts[row] for row in found.places[:, 0]] == list(TASK.left.texts[:7])
    assert min(found.encoding, found.searching) > 0


def test_mined_negatives_are_of_other_clusters_and_change_with_the_weights():
    made = training(replace(CONFIG, loss="triplet-mined", sample=40))
    component = made.known.known.component
    one, again, other = (made.mine(number) for number in (1, 1, 2))
    assert one.pairs.tolist() == again.pairs.tolist() != other.pairs.tolist(), "mined anew every epoch"
    assert (component[one.pairs[:, 0]] != component[one.pairs[:, 1]]).all()
    assert set(one.pairs[:, 0]) == set(made.known.pairs[:, 0]), "every first question has some"
    assert np.isin(one.pairs[:, 1], TASK.split("train").space.left).all()
    hard, drawn = (one.select(one.ranks > 0).pairs, one.select(one.ranks == 0).pairs)
    assert len(hard) == 4 * len(drawn)
    vectors = embed_rows(made.encoder, made.tokens, np.arange(len(TASK.left)), unit=False)
    assert squared(vectors, hard).mean() < 0.8 * squared(vectors, drawn).mean()
    with torch.no_grad():
        made.encoder.network.get_parameter("projection.weight").add_(
            torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
        )
    assert made.mine(1).pairs.tolist() != one.pairs.tolist()


def test_the_loss_against_mined_negatives_is_the_triplet_loss_of_each():
    made = training(replace(CONFIG, loss="triplet-mined", margin=2.0))
    pairs = made.known.pairs[:5]
    mined = made.mine(1)
    several = [mined.pairs[mined.pairs[:, 0] == query, 1] for query in pairs[:, 0].tolist()]
    mined = mined.select(np.isin(mined.pairs[:, 1], [own[0] for own in several]) & (mined.ranks > 0))
    mined = mined.select(np.unique(mined.pairs[:, 0], return_index=True)[1])
    known = pairs[np.isin(pairs[:, 0], mined.pairs[:, 0])]
    assert len(known)
    vectors = embed_rows(made.encoder, made.tokens, np.arange(len(TASK.left)), unit=False)
    negative = mined.pairs[np.searchsorted(mined.pairs[:, 0], known[:, 0])]
    wanted = np.maximum(squared(vectors, known) - squared(vectors, negative) + 2.0, 0).mean()
    found = made.against(known, mined, np.random.default_rng(0))
    assert float(found.detach()) == pytest.approx(wanted, rel=1e-4)


def test_a_question_has_a_negative_as_long_as_one_is_outside_its_component():
    made = training(replace(CONFIG, loss="triplet-mined", miner="random"))
    pool, component = made.known.pool, np.zeros(len(TASK.left), dtype=np.int64)
    other = pool.candidates[-2:]
    component[other] = 1
    made.known = replace(made.known, known=KnownMatches(made.known.pairs, component))
    mined = made.mine(1)
    assert set(mined.pairs[:, 0]) == set(pool.queries)
    assert (component[mined.pairs[:, 0]] != component[mined.pairs[:, 1]]).all()
    made.known = replace(made.known, known=KnownMatches(made.known.pairs, np.zeros_like(component)))
    with pytest.raises(BadOption, match=r"questions have no negative, such as .*; prepare a task of more clusters"):
        made.mine(1)
