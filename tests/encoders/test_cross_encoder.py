"""Cross-encoders of four families: encoded pairs, training, saved models and errors."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLNetConfig,
)

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadFile, BadOption, TrainingFailed
from al_ray.core.labels import Model
from al_ray.core.scorer import cross_entropy
from al_ray.encoders.cross_encoder import CrossEncoder, PairShard, PairShardSpec
from al_ray.training.checkpoint import Checkpoint
from al_ray.training.cross_encoder import PairTrainer, PairTrainerSpec, train
from al_ray.training.optimizer import Step
from al_ray.training.saved_model import read_model

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
PAIRS = [("ab", "c"), ("hello there", "you"), ("a", "b"), ("what now", "nothing much at all"), ("x y z", "")]
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
FAMILIES = {
    "bert": (BertConfig, {**SMALL, "max_position_embeddings": 40}),
    "roberta": (RobertaConfig, {**SMALL, "max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 0}),
    "albert": (AlbertConfig, {**SMALL, "embedding_size": 8, "max_position_embeddings": 40}),
    "xlnet": (XLNetConfig, {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16}),
}
LABELS = np.array([0, 1, 0, 1, 0], dtype=np.uint8)
FAST = TrainingConfig(epochs=2, batch=4, learning_rate=1e-3)


def tokenizer_of(family: str) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are letters; XLNet pads on the left and ends with [CLS], in a segment of its own."""
    pieces = {piece: number for number, piece in enumerate([*SPECIAL, *map(chr, range(97, 123))])}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]", continuing_subword_prefix=""))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    single, pair = {
        "xlnet": ("$A [SEP] [CLS]:2", "$A [SEP] $B:1 [SEP]:1 [CLS]:2"),
        "roberta": ("[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]"),
    }.get(family, ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    segments = [] if family == "roberta" else ["token_type_ids"]
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        padding_side="left" if family == "xlnet" else "right",
        model_input_names=["input_ids", *segments, "attention_mask"],
    )  # fmt: skip
    return fast


@pytest.fixture(scope="module", params=FAMILIES)
def base(request, tmp_path_factory) -> EncoderConfig:
    """A small random encoder of each family, saved with its tokenizer."""
    kind, sizes = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        # Wide weights, so that a pair's score depends on all that is in it.
        model = AutoModel.from_config(kind(vocab_size=30, initializer_range=0.5, **sizes))
    model.save_pretrained(folder)
    tokenizer_of(request.param).save_pretrained(folder)
    return EncoderConfig(encoder=str(folder), encoder_layers=None, max_length=16, encoder_batch=4, threads=1)


def trained(base: EncoderConfig, folder: Path, config: TrainingConfig = FAST, seed: int = 0, count: int = 10):
    """Return the trained model and the steps before it."""
    pairs = (PAIRS * 2)[:count]
    labels = np.tile(LABELS, 2)[:count]
    labels.setflags(write=False)
    return drain(PairTrainer(PairTrainerSpec(base, config, seed)).train(pairs, labels, str(folder)))


def drain(stream: Iterator[Step | Model]) -> tuple[Model, list[Step]]:
    """Return the last and the earlier values that a training yields."""
    events = list(stream)
    assert isinstance(events[-1], Model)
    return events[-1], [step for step in events if isinstance(step, Step)]


def test_every_family_scores_a_pair_alone_as_in_a_batch(base):
    model = CrossEncoder.base(base, 0)
    together = model.scores(PAIRS, 5)
    alone = np.concatenate([model.scores([pair], 1) for pair in PAIRS])
    assert together == pytest.approx(alone, abs=1e-4)
    assert len(np.unique(together.round(4))) == len(PAIRS)
    other_way = model.scores([(right, left) for left, right in PAIRS], 5)
    assert np.abs(other_way - together).max() > 1e-3, "a pair has an order"


def test_every_family_starts_from_pre_trained_weights_and_a_head_of_the_seed(base):
    one, same, other = (CrossEncoder.base(base, seed) for seed in (0, 0, 1))
    assert one.digest() == same.digest() != other.digest()
    body = getattr(one.transformer, one.transformer.base_model_prefix).state_dict()
    pretrained = AutoModel.from_pretrained(base.encoder).state_dict()
    shared = [name for name in body if not name.startswith("pooler.")]
    assert len(shared) > 5
    assert all(torch.equal(body[name], pretrained[name]) for name in shared)


def test_every_saved_family_is_loaded_with_the_same_scores(base, tmp_path):
    model, _ = trained(base, tmp_path / "model")
    shard = PairShard(PairShardSpec(batch=4, threads=1))
    loaded = CrossEncoder.saved(model.path)
    assert loaded.digest() == model.digest
    assert loaded.max_length == 16
    assert shard.scores(model, PAIRS).tolist() == loaded.scores(PAIRS, 4).tolist()
    assert read_model(tmp_path / "model") == model
    in_half = PairShard(PairShardSpec(batch=4, threads=1, arithmetic="bf16")).scores(model, PAIRS)
    assert in_half == pytest.approx(loaded.scores(PAIRS, 4), abs=0.15)
    assert in_half.tolist() != loaded.scores(PAIRS, 4).tolist()
    with pytest.raises(BadFile, match="not those the run made"):
        PairShard(PairShardSpec(4, 1)).scores(replace(model, digest="0"), PAIRS)


def test_every_family_learns(base, tmp_path):
    model, steps = trained(base, tmp_path / "model", replace(FAST, epochs=40, learning_rate=3e-3))
    # Ten pairs in batches of four: the last two of an epoch are dropped.
    assert [step.step for step in steps] == list(range(1, 81))
    scores = CrossEncoder.saved(model.path).scores(PAIRS, 4)
    assert cross_entropy(scores, LABELS) < 0.2
    assert model.scorer is not None
    assert model.scorer.loss == pytest.approx(np.mean([step.loss for step in steps[-2:]]))
    assert model.scorer.logit(scores).tolist() == scores.tolist()


def test_an_interrupted_training_ends_with_the_same_weights_and_losses(base, tmp_path):
    whole, steps = trained(base, tmp_path / "whole" / "model")
    spec = PairTrainerSpec(base, FAST, 0, checkpoint_seconds=0.0)
    pairs, labels = PAIRS * 2, np.tile(LABELS, 2)
    cut = PairTrainer(spec).train(pairs, labels, str(tmp_path / "cut" / "model"))
    for _ in range(3):
        next(cut)
    assert (tmp_path / "cut" / "training.safetensors").exists()
    model, again = drain(PairTrainer(spec).train(pairs, labels, str(tmp_path / "cut" / "model")))
    assert (model.digest, model.scorer) == (whole.digest, whole.scorer)
    assert again == steps
    assert not (tmp_path / "cut" / "training.safetensors").exists()
    # An existing model is not trained again.
    assert list(PairTrainer(spec).train(pairs, labels, str(tmp_path / "cut" / "model"))) == [model]


def test_the_seed_decides_head_order_and_dropout(base, tmp_path):
    digests = [trained(base, tmp_path / str(n) / "model", seed=seed)[0].digest for n, seed in enumerate((0, 0, 1))]
    assert digests[0] == digests[1] != digests[2]


def test_dropout_is_on_and_depends_on_the_seed_of_the_training_alone(letters, tmp_path):
    digests = []
    for ambient, dropout in ((1, True), (2, True), (2, False)):
        model = CrossEncoder.base(letters, 0)
        if not dropout:
            for part in model.transformer.modules():
                if isinstance(part, torch.nn.Dropout):
                    part.p = 0.0
        checkpoint = Checkpoint(tmp_path / "none", "", 1e6)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(ambient)
            assert len(list(train(model, (PAIRS * 2, np.tile(LABELS, 2)), FAST, 0, checkpoint))) == 4
        digests.append(model.digest())
    assert digests[0] == digests[1] != digests[2]


def test_a_gradient_is_that_of_the_mean_loss_of_a_batch(base):
    one, twin, labels = CrossEncoder.base(base, 0), CrossEncoder.base(base, 0), LABELS
    loss = one.gradients(PAIRS * 2, np.tile(labels, 2))
    logits = torch.stack([twin.logits(twin.encoded([pair]), np.array([0]))[0] for pair in PAIRS])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(labels.astype(np.float32)))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-4)
    for own, other in zip(one.transformer.parameters(), twin.transformer.parameters(), strict=True):
        assert (own.grad is None) == (other.grad is None)
        if own.grad is not None:
            torch.testing.assert_close(own.grad, other.grad, rtol=1e-3, atol=1e-5)


def test_the_longer_text_of_a_long_pair_is_truncated(letters):
    model = CrossEncoder.base(replace(letters, max_length=10), 0)
    before = model.digest()
    # [CLS] 5 letters [SEP] 2 letters [SEP]: 10 tokens.
    assert model.encoded([("abcdefgh", "xy")])["input_ids"] == model.encoded([("abcde", "xy")])["input_ids"]
    model.scores([("abcdefgh", "xy")], 1)
    assert model.digest() == before, "scoring does not change the model"


def test_scores_are_in_the_order_of_the_pairs_for_any_lengths(letters):
    model = CrossEncoder.base(letters, 0)
    pairs = [("a" * n, "b") for n in (9, 1, 5, 3, 7)]
    assert model.scores(pairs, 2) == pytest.approx(model.scores(pairs[::-1], 5)[::-1], abs=1e-5)


def test_sentence_transformers_loads_what_was_trained(letters, tmp_path):
    model, _ = trained(letters, tmp_path / "model")
    theirs = sentence_transformers.CrossEncoder(model.path, device="cpu")
    loaded = theirs.predict(PAIRS, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    assert CrossEncoder.saved(model.path).scores(PAIRS, 8) == pytest.approx(loaded, abs=1e-5)


def test_the_packaged_encoder_is_a_base(minilm):
    config = EncoderConfig(encoder=minilm, encoder_layers=2, max_length=128, encoder_batch=4, threads=1)
    model = CrossEncoder.base(config, 0)
    assert model.transformer.config.num_hidden_layers == 2
    segments = model.encoded([("how are you", "fine")])["token_type_ids"][0]
    # [CLS] how are you [SEP] | fine [SEP]
    assert segments == [0] * 5 + [1] * 2
    assert np.isfinite(model.scores(PAIRS, 4)).all()


def test_more_tokens_than_positions_are_refused(base):
    if "xlnet" in base.encoder:
        assert CrossEncoder.base(replace(base, max_length=200), 0).max_length == 200, "its positions are unlimited"
        return
    # RoBERTa counts its 42 positions from that of its padding, so the first is not used.
    most = 41 if "roberta" in base.encoder else 40
    assert CrossEncoder.base(replace(base, max_length=most), 0).max_length == most
    with pytest.raises(BadOption, match=f"`max_length={most + 1}`"):
        CrossEncoder.base(replace(base, max_length=most + 1), 0)
    # Before it is on a GPU, where it would be an error for good: here there is none, and nobody notices.
    with pytest.raises(BadOption, match=f"`max_length={most + 1}`"):
        CrossEncoder.base(replace(base, max_length=most + 1), 0, "cuda:0")


def test_a_folder_that_holds_no_cross_encoder_is_refused(base, tmp_path):
    with pytest.raises(BadFile, match=r"lacks [0-9]+ weights|does not have exactly one logit"):
        CrossEncoder.saved(base.encoder)
    with pytest.raises(BadFile, match="cannot be loaded"):
        CrossEncoder.saved(str(tmp_path))


def test_a_loss_that_is_not_finite_ends_the_training(letters, tmp_path):
    with pytest.raises(TrainingFailed, match=r"lower `TrainConfig\.training"):
        trained(letters, tmp_path / "model", TrainingConfig(epochs=50, batch=4, learning_rate=1e6, clip_norm=1e30))
