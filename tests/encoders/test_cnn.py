"""The encoder cnn: vectors against a slow twin, the vocabulary, and training."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from al_ray.cluster.token_store import write_pool
from al_ray.core.config.encoder import EncoderConfig, is_cnn
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Labelled, Model
from al_ray.core.scorer import Scorer
from al_ray.core.task import strings_at
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import write_task
from al_ray.encoders.cnn import Cnn, Network, filters_of
from al_ray.encoders.encoder import load, saved, untrained
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.vocabulary import Vocabulary
from al_ray.training.saved_model import write_model
from al_ray.training.trainer import Trainer, TrainerSpec

CONFIG = EncoderConfig(encoder="cnn-7", encoder_layers=None, max_length=12, encoder_batch=8, threads=1)
TEXTS = ["Who is it?", "who was it", "a", "", "zebra"]
KNOWN = Vocabulary.of(TEXTS[:4], bins=3)


def tokens_of(encoder: Cnn, texts: list[str]) -> Tokens:
    return encoder.tokenise(texts)


def twin(encoder: Cnn, ids: list[int]) -> np.ndarray:
    """Word by word, filter by filter: W_p max_i tanh(W x_{i-2:i+2} + b)."""
    state = {name: weight.double().numpy() for name, weight in encoder.network.state_dict().items()}
    words = [state["embedding.weight"][one] for one in ids]
    nothing = np.zeros_like(words[0])
    padded = [nothing, nothing, *words, nothing, nothing]
    greatest = []
    for weight, bias in zip(state["convolution.weight"], state["convolution.bias"], strict=True):
        values = [
            np.tanh(bias + sum(float(weight[:, tap] @ padded[at + tap]) for tap in range(5))) for at in range(len(ids))
        ]
        greatest.append(max(values))
    return state["projection.weight"] @ np.array(greatest)


def test_vectors_are_those_of_the_formula_in_any_batch():
    encoder = Cnn.base(CONFIG, KNOWN)
    with torch.no_grad():
        encoder.network.get_parameter("convolution.bias").add_(torch.linspace(-1, 1, 7))
        vectors = encoder.forward(tokens_of(encoder, TEXTS), np.arange(5)).numpy()
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, twin(encoder, KNOWN.ids(text, 12)), rtol=1e-4, atol=1e-5)


def test_embedded_vectors_are_of_unit_length():
    encoder = Cnn.base(CONFIG, KNOWN)
    vectors = encoder.embed(tokens_of(encoder, TEXTS), np.arange(5))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)


def test_the_most_frequent_words_have_numbers_and_all_others_share_bins():
    # who 2, it 2 (in order of code points: it before who), then was, is, ?, a: once each.
    vocabulary = Vocabulary.of(TEXTS[:4], most=3, bins=5000)
    assert vocabulary.words == ("it", "who", "?")
    assert vocabulary.counts == (2, 2, 1)
    # CRC-32 of "zebra" is 358047158, which leaves 2158 on division by 5000; bins begin at 1, words at 5001.
    assert vocabulary.ids("WHO zebra it", 12) == [5002, 1 + 2158, 5001]
    # A text without a word is the rare word "", whose CRC-32 is 0.
    assert vocabulary.ids(" ", 12) == [1]


def test_a_text_is_truncated_at_the_maximum_length():
    assert len(Cnn.base(replace(CONFIG, max_length=3), KNOWN).vocabulary.ids("a a a a", 3)) == 3
    assert tokens_of(Cnn.base(replace(CONFIG, max_length=3), KNOWN), ["a a a a a"]).lengths(np.arange(1)).tolist() == [
        3
    ]


def test_the_seed_alone_decides_the_weights():
    one, same, other = Cnn.base(CONFIG, KNOWN), Cnn.base(CONFIG, KNOWN), Cnn.base(CONFIG, KNOWN, seed=1)
    assert one.digest() == same.digest() != other.digest()


def test_another_vocabulary_or_length_is_another_digest():
    words = Vocabulary(KNOWN.words[::-1], KNOWN.counts, KNOWN.bins)
    other = Cnn(Cnn.base(CONFIG, KNOWN).network, words, CONFIG)
    digests = {
        Cnn.base(CONFIG, KNOWN).digest(),
        other.digest(),
        Cnn.base(replace(CONFIG, max_length=9), KNOWN).digest(),
    }
    assert len(digests) == 3


def test_it_is_saved_and_loaded_with_its_vocabulary(tmp_path):
    encoder = Cnn.base(CONFIG, KNOWN, seed=4)
    encoder.save(tmp_path)
    again = saved(str(tmp_path), CONFIG)
    assert again.digest() == encoder.digest()
    one, other = (each.embed(tokens_of(encoder, TEXTS), np.arange(5)) for each in (encoder, again))
    np.testing.assert_array_equal(one, other)


def test_vectors_in_bf16_are_near_the_others():
    plain, half = Cnn.base(CONFIG, KNOWN), Cnn.base(replace(CONFIG, arithmetic="bf16"), KNOWN)
    assert plain.digest() != half.digest()
    ours, theirs = (each.embed(tokens_of(each, TEXTS), np.arange(5)) for each in (plain, half))
    assert theirs.dtype == np.float32
    assert 1e-7 < np.abs(1 - np.einsum("nd,nd->n", ours, theirs)).max() < 0.01


@pytest.mark.parametrize("damage", ["no words", "no weights", "cut weights", "other words", "fewer counts"])
def test_a_damaged_folder_is_an_error_with_the_fix(tmp_path, damage):
    Cnn.base(CONFIG, KNOWN).save(tmp_path)
    words, weights = tmp_path / "vocab.json", tmp_path / "model.safetensors"
    about = json.loads(words.read_text())
    if damage == "no words":
        words.unlink()
    elif damage == "no weights":
        weights.unlink()
    elif damage == "cut weights":
        weights.write_bytes(weights.read_bytes()[:-9])
    elif damage == "other words":
        words.write_text(json.dumps({**about, "words": ["a"], "counts": [1]}))
    else:
        words.write_text(json.dumps({**about, "counts": [1]}))
    with pytest.raises(BadFile, match="restore"):
        saved(str(tmp_path), CONFIG)


def test_a_name_gives_the_number_of_filters():
    assert (filters_of("cnn"), filters_of("cnn-600")) == (300, 600)
    assert [name for name in ("cnn", "cnn-9", "cnn-", "cnnx", "./cnn", "random-bert") if is_cnn(name)] == [
        "cnn",
        "cnn-9",
    ]
    with pytest.raises(BadOption, match="give 1 to"):
        filters_of("cnn-0")
    with pytest.raises(BadOption, match="no layers to leave out"):
        Cnn.base(replace(CONFIG, encoder_layers=2), KNOWN)


def test_initial_vectors_of_frequent_words_are_short_and_have_no_common_offset():
    network = Cnn.base(replace(CONFIG, encoder="cnn-50"), Vocabulary.of(["the " * 99 + "zebra"])).network
    the, zebra = network.embedding.weight[-2:].detach().norm(dim=1).tolist()
    # 0.001 / (0.001 + 0.99) to 0.001 / (0.001 + 0.01), of lengths about 17.
    assert the / zebra == pytest.approx((0.011 / 0.991), rel=0.2)
    np.testing.assert_allclose(network.projection.weight.sum(dim=1).detach(), 0.0, atol=1e-5)


def test_untrained_vectors_find_positives_for_the_seed_set():
    task = synthetic_task(2000, 0)
    split = task.splits["train"]
    texts = strings_at(task.left.texts, split.space.left)
    vocabulary, config = Vocabulary.of(texts), replace(CONFIG, encoder="cnn-100", max_length=32)

    def positives_in_seed_set(network: Network) -> int:
        """Positives among the 1,600 most similar pairs."""
        encoder = Cnn(network, vocabulary, config)
        vectors = encoder.embed(tokens_of(encoder, texts), np.arange(len(texts)))
        left, right = np.triu_indices(len(texts), k=1)
        best = np.argsort(-(vectors @ vectors.T)[left, right])[:1600]
        keys = split.space.left[left[best]] * split.space.width + split.space.left[right[best]]
        return int(np.isin(keys, split.positive_keys).sum())

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        initial = Network(vocabulary.size, 100)
    # One pair in 899 is a match: a random choice finds 2, torch's initial weights 20, ours 60.
    assert positives_in_seed_set(initial) < 30
    assert positives_in_seed_set(Cnn.base(config, vocabulary).network) > 45


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """A pool folder of a small task, as a run makes it, and the task."""
    folder, task = tmp_path_factory.mktemp("cnn"), synthetic_task(200, 0)
    write_task(task, folder / "task", {})
    write_pool(str(folder / "task"), CONFIG, str(folder / "pool"))
    return folder / "pool", task


def test_the_pool_folder_has_only_the_words_of_the_train_split(pool):
    folder, task = pool
    texts = [task.left.texts[row] for row in task.splits["train"].space.left]
    assert Vocabulary.read(folder) == Vocabulary.of(texts)
    assert Tokens.read(folder / "left").ids.max() < Vocabulary.read(folder).size


def test_a_trainer_trains_and_saves_it_and_a_pool_loads_the_model(pool, tmp_path):
    folder, task = pool
    split = task.splits["train"]
    pairs = np.concatenate([split.positives[:40], split.stated_negatives[:40]])
    labels = np.repeat(np.array([1, 0], dtype=np.uint8), [len(split.positives[:40]), len(split.stated_negatives[:40])])
    labelled = Labelled(pairs, labels, np.ones(len(pairs), np.int32), ("retrieval",) * len(pairs))
    training = TrainingConfig(epochs=3, learning_rate=1e-3, head_rate=200.0, worst_loss=9.0)
    trainer = Trainer(TrainerSpec(str(folder), CONFIG, training, seed=0, symmetric=True))
    *steps, model = trainer.train(labelled, 1, None, str(tmp_path / "model"))
    assert isinstance(model, Model)
    assert len(steps) == 3 * (len(pairs) // 16)
    base = untrained(CONFIG, folder)
    trained = load(model, CONFIG, folder, "cpu")
    assert trained.digest() == model.digest != base.digest()
    assert isinstance(trained, Cnn)
    # The vector of padding stays zero.
    assert not trained.network.embedding.weight[0].any()


def test_weights_of_another_digest_are_refused(pool, tmp_path):
    encoder = Cnn.base(CONFIG, KNOWN)
    model = write_model(encoder, Scorer(1.0, 0.0, 0.1, "fitted"), tmp_path / "model", "nothing")
    with pytest.raises(BadFile, match="not those the run made"):
        load(replace(model, digest="another"), CONFIG, pool[0], "cpu")
