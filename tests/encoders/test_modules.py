"""Folders of sentence-transformers: pooling, Dense and prompts give its vectors, and the rest is refused by name."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, LayerNorm, Normalize, Pooling, Transformer
from transformers import AutoModel, AutoTokenizer, Qwen2Config, T5Config

from al_ray.api.models import PairModel
from al_ray.apps.papers.augmentation.student import StudentSpec, StudentTrainer
from al_ray.apps.papers.mining.dense import PoolVectors
from al_ray.apps.papers.mining.miners import Pool
from al_ray.cluster.token_store import pool_folder, prepare_pool, write_pool
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Labelled, Model
from al_ray.core.pairs import as_pairs
from al_ray.core.scorer import Scorer
from al_ray.datasets.task_folder import write_task
from al_ray.encoders.cnn import Cnn
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import Encoder
from al_ray.encoders.vocabulary import Vocabulary
from al_ray.training.trainer import Trainer, TrainerSpec

TEXTS = ["a short one", "Zwei, drei - 45!", "", "x", "much longer than twenty-four word pieces in any tokenizer " * 20]
E5 = {"query": "query: ", "passage": "passage: "}
WIDTH = 32


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a small transformer and its tokenizer, and no modules."""
    folder = tmp_path_factory.mktemp("bert")
    encoder = Encoder.base(EncoderConfig("random-bert", 2, 24, 8, 1))
    encoder.transformer.save_pretrained(folder)
    encoder.tokenizer.model_max_length = 24
    encoder.tokenizer.save_pretrained(folder)
    return str(folder)


Make = Callable[..., tuple[SentenceTransformer, EncoderConfig]]


@pytest.fixture
def make(bert: str, tmp_path: Path) -> Make:
    """Make a folder of sentence-transformers of these modules, and the options that load it."""

    def made(*modules: torch.nn.Module, **options: Any) -> tuple[SentenceTransformer, EncoderConfig]:
        torch.manual_seed(3)
        model = SentenceTransformer(modules=[Transformer(bert, max_seq_length=24), *modules], device="cpu", **options)
        model.save_pretrained(str(tmp_path / "folder"), create_model_card=False)
        return model, EncoderConfig(str(tmp_path / "folder"), None, 24, 8, 1)

    return made


def vectors_of(encoder: Encoder, texts: list[str] = TEXTS, side: Any = "left") -> np.ndarray:
    tokens = encoder.tokenise(texts, side)
    return encoder.embed(tokens, np.arange(len(texts)))


def theirs(model: SentenceTransformer, **options: Any) -> np.ndarray:
    """Their vectors at unit length."""
    return model.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False, **options)


def dense(inputs: int, outputs: int, activation: torch.nn.Module, bias: bool = True) -> Dense:
    torch.manual_seed(outputs)
    return Dense(inputs, outputs, bias, activation)


KINDS: dict[str, Callable[[], list[torch.nn.Module]]] = {
    "mean": lambda: [Pooling(WIDTH, "mean")],
    "cls": lambda: [Pooling(WIDTH, "cls"), Normalize()],
    "last token": lambda: [Pooling(WIDTH, "lasttoken"), Normalize()],
    "Dense": lambda: [Pooling(WIDTH, "mean"), dense(WIDTH, 7, torch.nn.Tanh())],
    "two Dense": lambda: [
        *(Pooling(WIDTH, "mean"), dense(WIDTH, 48, torch.nn.Identity(), False)),
        *(dense(48, 20, torch.nn.GELU()), Normalize()),
    ],
    "Normalize before Dense": lambda: [Pooling(WIDTH, "cls"), Normalize(), dense(WIDTH, 9, torch.nn.ReLU())],
}


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_sentence_transformers(make, kind):
    model, config = make(*KINDS[kind]())
    encoder = Encoder.base(config)
    assert encoder.dimension == model.get_embedding_dimension()
    assert vectors_of(encoder) == pytest.approx(theirs(model), abs=1e-5)


def test_the_last_token_of_a_decoder_is_that_of_sentence_transformers(bert, tmp_path):
    torch.manual_seed(4)
    sizes: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    decoder = AutoModel.from_config(Qwen2Config(vocab_size=300, num_key_value_heads=2, initializer_range=0.5, **sizes))
    decoder.save_pretrained(tmp_path / "decoder")
    tokenizer = AutoTokenizer.from_pretrained(bert, padding_side="left")
    tokenizer.save_pretrained(tmp_path / "decoder")
    parts = [Transformer(str(tmp_path / "decoder"), max_seq_length=24), Pooling(WIDTH, "lasttoken"), Normalize()]
    model = SentenceTransformer(modules=parts, device="cpu")
    model.save_pretrained(str(tmp_path / "folder"), create_model_card=False)
    encoder = Encoder.base(EncoderConfig(str(tmp_path / "folder"), None, 24, 8, 1))
    assert vectors_of(encoder) == pytest.approx(theirs(model), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_has_the_same_vectors_here_and_in_sentence_transformers(make, kind, tmp_path):
    _, config = make(*KINDS[kind](), prompts=E5)
    encoder = Encoder.base(config)
    (tmp_path / "saved").mkdir()
    encoder.save(tmp_path / "saved")
    again, model = Encoder.saved(str(tmp_path / "saved"), config), SentenceTransformer(str(tmp_path / "saved"))
    assert again.digest() == encoder.digest()
    assert vectors_of(again).tobytes() == vectors_of(encoder).tobytes()
    # Their vectors are of unit length without being told, and the prompts are those of the two sides.
    assert model.encode(TEXTS) == pytest.approx(vectors_of(encoder), abs=1e-5)
    assert model.encode_query(TEXTS) == pytest.approx(vectors_of(encoder), abs=1e-5)
    assert model.encode_document(TEXTS) == pytest.approx(vectors_of(encoder, side="right"), abs=1e-5)


def test_each_side_has_the_prompt_of_the_folder(make):
    model, config = make(Pooling(WIDTH, "mean"), prompts=E5)
    encoder = Encoder.base(config)
    assert (
        encoder.description == "mean pooling, prompt 'query: ' before left texts, prompt 'passage: ' before right texts"
    )
    left, right = vectors_of(encoder), vectors_of(encoder, side="right")
    assert left == pytest.approx(theirs(model, prompt_name="query"), abs=1e-5)
    assert right == pytest.approx(theirs(model, prompt_name="passage"), abs=1e-5)
    assert np.abs(left - right).max() > 0.01


@pytest.mark.parametrize(
    ("prompts", "default", "expected"),
    [
        ({}, None, ("", "")),
        ({"query": "Q ", "document": ""}, None, ("Q ", "")),
        ({"query": "Q ", "document": "D ", "passage": "P "}, "query", ("Q ", "D ")),
        ({"sts": "S ", "other": "O "}, "sts", ("S ", "S ")),
        ({"sts": "S ", "other": "O "}, None, ("", "")),
        ({"query": "", "document": "D "}, None, ("", "D ")),
        ({"query": "word", "document": "D "}, "query", ("word", "D ")),
    ],
)
def test_the_default_prompts_are_those_named_query_and_document_and_else_the_default_one(
    make, prompts, default, expected
):
    _, config = make(Pooling(WIDTH, "mean"), prompts=prompts, default_prompt_name=default)
    encoder = Encoder.base(config)
    assert (encoder.prompts.left, encoder.prompts.right) == expected
    assert encoder.sided == (expected[0] != expected[1])
    one = Encoder.base(Encoder.with_left_prompt(config))
    assert (one.prompts.left, one.prompts.right) == (expected[0], expected[0])


def test_prompts_are_given_by_name_or_as_a_text(make):
    model, config = make(Pooling(WIDTH, "mean"), prompts={**E5, "sts": "similar: "})
    named = Encoder.base(replace(config, prompt_left="sts", prompt_right=""))
    assert (named.prompts.left, named.prompts.right) == ("similar: ", "")
    one = Encoder.base(Encoder.with_left_prompt(named.config))
    assert (one.prompts.left, one.prompts.right) == ("similar: ", "similar: ")
    written = Encoder.base(replace(config, prompt_left="similar: ", prompt_right="of a ship: "))
    assert vectors_of(written) == pytest.approx(theirs(model, prompt_name="sts"), abs=1e-5)
    assert vectors_of(written, side="right") == pytest.approx(theirs(model, prompt="of a ship: "), abs=1e-5)
    # A name that the folder does not have is a slip, and no text.
    # Also before any weights are read.
    for check in (Encoder.base, Encoder.check_prompts):
        with pytest.raises(BadOption, match=r"`prompt_left` passge: .*its prompts are document, passage, query, sts"):
            check(replace(config, prompt_left="passge"))
    Encoder.check_prompts(replace(config, prompt_left="sts", prompt_right="any text"))
    # What cannot be read on this machine is left to one that can.
    Encoder.check_prompts(replace(config, encoder="/nowhere/at-all", prompt_left="passge"))


@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken"])
def test_a_pooling_may_leave_out_the_prompt(make, mode, tmp_path):
    model, config = make(Pooling(WIDTH, mode, include_prompt=False), prompts={"query": "a prompt: "})
    encoder = Encoder.base(config)
    tokens = encoder.tokenise(TEXTS)
    # [CLS] and eight letters and signs.
    assert tokens.prompt == len(["[CLS]", *"aprompt:"])
    assert vectors_of(encoder) == pytest.approx(theirs(model, prompt_name="query"), abs=1e-5)
    (tmp_path / "tokens").mkdir()
    tokens.write(tmp_path / "tokens")
    again = encoder.embed(Tokens.read(tmp_path / "tokens"), np.arange(len(TEXTS)))
    assert again.tobytes() == vectors_of(encoder).tobytes()
    (tmp_path / "saved").mkdir()
    encoder.save(tmp_path / "saved")
    saved = SentenceTransformer(str(tmp_path / "saved"))
    assert saved.encode(TEXTS) == pytest.approx(vectors_of(encoder), abs=1e-5)


def test_a_transformer_in_a_folder_of_its_own_and_a_pooling_of_an_older_version_are_read(make, bert, tmp_path):
    model, config = make(Pooling(WIDTH, "cls"))
    folder = Path(config.encoder)
    (folder / "0_Transformer").mkdir()
    for path in [path for path in folder.iterdir() if path.is_file() and path.name != "modules.json"]:
        path.rename(folder / "0_Transformer" / path.name)
    types = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling")]
    listed = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in types]
    (folder / "modules.json").write_text(json.dumps(listed))
    legacy = {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(legacy))
    assert vectors_of(Encoder.base(config)) == pytest.approx(theirs(model), abs=1e-5)


def test_lower_case_is_that_of_the_folder(make):
    _, config = make(Pooling(WIDTH, "mean"))
    folder = Path(config.encoder)
    cased = json.loads((folder / "tokenizer.json").read_text())
    cased["normalizer"] = None
    (folder / "tokenizer.json").write_text(json.dumps(cased))
    about = json.loads((folder / "sentence_bert_config.json").read_text())
    texts = ["aBc", "abc", "ABC"]
    for lower in (True, False):
        (folder / "sentence_bert_config.json").write_text(json.dumps({**about, "do_lower_case": lower}))
        ours, model = vectors_of(Encoder.base(config), texts), SentenceTransformer(str(folder), device="cpu")
        assert ours == pytest.approx(model.encode(texts, normalize_embeddings=True), abs=1e-5)
        assert (np.abs(ours[0] - ours[1]).max() < 1e-6) == lower


def test_without_the_network_a_name_on_the_hub_is_used_only_if_all_that_decides_its_vectors_is_cached(
    make, tmp_path, monkeypatch
):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    model, config = make(Pooling(WIDTH, "cls"), dense(WIDTH, 7, torch.nn.Tanh()), prompts=E5)
    cache = tmp_path / "hub" / "models--nobody--bert"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("0123")
    shutil.copytree(config.encoder, cache / "snapshots" / "0123")
    named = replace(config, encoder="nobody/bert")
    assert vectors_of(Encoder.base(named)) == pytest.approx(theirs(model, prompt_name="query"), abs=1e-5)
    # As an earlier version cached it: without what it did not read.
    (cache / "snapshots" / "0123" / "modules.json").unlink()
    with pytest.raises(BadOption, match=r"modules\.json is not in the cache of the hub"):
        Encoder.base(named)
    (cache / ".no_exist" / "0123").mkdir(parents=True)
    (cache / ".no_exist" / "0123" / "modules.json").touch()
    assert Encoder.base(named).description == "mean pooling, no prompt"


def edited(folder: str, name: str, **changes: Any) -> None:
    path = Path(folder) / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("mode", ["max", "weightedmean", "mean_sqrt_len_tokens", ("mean", "cls")])
def test_another_pooling_is_refused_by_name(make, mode):
    _, config = make(Pooling(WIDTH, mode))
    name = mode if isinstance(mode, str) else " and ".join(mode)
    with pytest.raises(BadOption, match=f"has the pooling {name}; al_ray supports .*mean, cls or lasttoken"):
        Encoder.base(config)


def test_other_modules_and_settings_are_refused_by_name(make):
    _, config = make(Pooling(WIDTH, "mean"), LayerNorm(WIDTH))
    with pytest.raises(BadOption, match=r"has the module LayerNorm in its modules\.json"):
        Encoder.base(config)
    # A cross-encoder uses the transformer alone.
    assert CrossEncoder.base(config, 0).max_length == 24
    for name, file, changes in (
        ("activation builtins.eval", "2_Dense/config.json", {"activation_function": "builtins.eval"}),
        ("residual connection", "2_Dense/config.json", {"use_residual": True}),
        ("query_length 9", "sentence_bert_config.json", {"query_length": 9}),
        ("is a SparseEncoder", "config_sentence_transformers.json", {"model_type": "SparseEncoder"}),
    ):
        _, config = make(Pooling(WIDTH, "mean"), dense(WIDTH, 7, torch.nn.Tanh()))
        Encoder.base(config)
        edited(config.encoder, file, **changes)
        with pytest.raises(BadOption, match=name):
            Encoder.base(config)


def test_code_that_comes_with_a_folder_and_a_transformer_alone_are_refused(make):
    _, config = make(Pooling(WIDTH, "mean"))
    path = Path(config.encoder) / "modules.json"
    first, *others = json.loads(path.read_text())
    path.write_text(json.dumps([{**first, "type": "custom_st.Transformer"}, *others]))
    with pytest.raises(BadOption, match=r"custom_st\.Transformer with code of its own"):
        Encoder.base(config)
    path.write_text(json.dumps([first]))
    with pytest.raises(BadOption, match="no Pooling"):
        Encoder.base(config)


def test_a_dense_layer_whose_weights_are_no_safetensors_is_refused(make):
    _, config = make(Pooling(WIDTH, "mean"), dense(WIDTH, 7, torch.nn.Tanh()))
    weights = Path(config.encoder) / "2_Dense" / "model.safetensors"
    torch.save(load_file(weights), weights.with_name("pytorch_model.bin"))
    weights.unlink()
    with pytest.raises(BadFile, match=r"no 2_Dense/model\.safetensors"):
        Encoder.base(config)


def test_digests_name_what_is_not_the_default(make, bert):
    plain = Encoder.base(EncoderConfig(bert, None, 24, 8, 1))

    def digest(*modules: torch.nn.Module, **options: Any) -> str:
        config = make(*modules, **options)[1]
        # The same name, so that the options are equal.
        encoder = Encoder.base(config)
        encoder.config = replace(config, encoder=bert)
        return encoder.digest()

    mean = digest(Pooling(WIDTH, "mean"), Normalize())
    assert mean == plain.digest(), "a folder of the default has the digest of a folder without modules"
    others = {
        digest(Pooling(WIDTH, "cls")),
        digest(Pooling(WIDTH, "mean"), prompts=E5),
        digest(Pooling(WIDTH, "mean", include_prompt=False), prompts=E5),
        digest(Pooling(WIDTH, "mean"), dense(WIDTH, 7, torch.nn.Tanh())),
        digest(Pooling(WIDTH, "mean"), dense(WIDTH, 7, torch.nn.ReLU())),
    }
    assert len(others | {mean}) == 6


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_dense_layer_is_trained_and_a_symmetric_task_has_one_prompt(make, symmetric, tmp_path):
    _, config = make(Pooling(WIDTH, "cls"), dense(WIDTH, 7, torch.nn.Tanh()), prompts=E5)
    base = Encoder.base(config)
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        base.tokenise(["how tall", "how high", "who was it", "where is it"], side).write(tmp_path / side)
    labelled = Labelled(
        as_pairs([0, 2, 0, 1], [1, 3, 3, 2]), np.array([1, 0, 0, 0], np.uint8), np.ones(4, np.int32), ("random",) * 4
    )
    training = TrainingConfig(batch=2, epochs=2, learning_rate=1e-2, worst_loss=9.0)
    trainer = Trainer(TrainerSpec(str(tmp_path), config, training, 0, symmetric))
    *_, model = trainer.train(labelled, 1, None, str(tmp_path / "model"))
    assert isinstance(model, Model)
    before, after = (load_file(f"{folder}/2_Dense/model.safetensors") for folder in (config.encoder, model.path))
    assert np.abs((before["linear.weight"] - after["linear.weight"]).numpy()).max() > 1e-3
    saved, outside = Encoder.saved(model.path, config), SentenceTransformer(model.path, device="cpu")
    assert saved.digest() == model.digest
    assert (saved.prompts.left, saved.prompts.right) == ("query: ", "query: " if symmetric else "passage: ")
    pairs = PairModel(saved, Scorer(1.0, 0.0, 0.1, "fitted"))
    assert pairs.encode(TEXTS) == pytest.approx(outside.encode_query(TEXTS), abs=1e-5)
    assert pairs.encode(TEXTS, "right") == pytest.approx(outside.encode_document(TEXTS), abs=1e-5)
    cosines = (outside.encode_query(TEXTS) * outside.encode_document(TEXTS[::-1])).sum(axis=1)
    assert pairs.cosines(TEXTS, TEXTS[::-1]) == pytest.approx(cosines, abs=1e-5)
    with pytest.raises(BadOption, match="side is 'query'; give one of left, right"):
        pairs.encode(TEXTS, "query")  # type: ignore[arg-type]


def test_the_token_ids_of_a_run_have_the_prompt_of_their_side_and_say_so(make, make_task, tmp_path):
    _, config = make(Pooling(WIDTH, "mean"), prompts=E5)
    encoder = Encoder.base(config)
    for symmetric, said in (
        (False, "mean pooling, prompt 'query: ' before left texts, prompt 'passage: ' before right texts"),
        (True, "mean pooling, prompt 'query: ' before all texts"),
    ):
        task, pool = make_task(symmetric), tmp_path / f"pool-{symmetric}"
        write_task(task, tmp_path / f"task-{symmetric}", {})
        write_pool(str(tmp_path / f"task-{symmetric}"), config, str(pool))
        assert json.loads((pool / "encoder.json").read_text())["description"] == said
        assert Tokens.read(pool / "left").ids.tolist() == encoder.tokenise(task.left.texts).ids.tolist()
        if not symmetric:
            right = encoder.tokenise(task.right.texts, "right")
            assert Tokens.read(pool / "right").ids.tolist() == right.ids.tolist()


def test_options_of_prompts_name_the_pool_and_the_digest_and_fit_the_task_and_the_encoder(make_task, letters, tmp_path):
    task, given = make_task(True), replace(letters, prompt_left="query: ")
    names = {pool_folder(task, one, tmp_path).name for one in (letters, given, replace(letters, prompt_left=""))}
    assert len(names) == 3
    assert "prompts" not in letters.digested()
    assert given.digested()["prompts"] == ["query: ", None]
    with pytest.raises(BadOption, match=r"a symmetric task has no right texts; give `RunConfig\.prompt_left`"):
        prepare_pool(tmp_path, task, replace(letters, prompt_right="x y"), tmp_path, ClusterConfig())
    with pytest.raises(BadOption, match="encoder cnn has no prompts; leave `prompt_left`"):
        Cnn.base(replace(given, encoder="cnn", encoder_layers=None), Vocabulary.of(["a"]))


def test_queries_and_candidates_of_two_sides_are_mined_with_their_own_prompts(make):
    _, config = make(Pooling(WIDTH, "mean"), prompts=E5)
    encoder, texts = Encoder.base(config), ("ant", "bee", "cat", "ants", "bees")
    pool = Pool(texts, np.array([0, 2]), np.array([3, 4]))
    vectors = PoolVectors.encode(encoder, pool, symmetric=False)
    assert vectors.vectors_of(np.array([0, 2])) == pytest.approx(vectors_of(encoder, ["ant", "cat"]), abs=1e-6)
    right = vectors_of(encoder, ["ants", "bees"], "right")
    assert vectors.vectors_of(np.array([3, 4])) == pytest.approx(right, abs=1e-6)
    alike = PoolVectors.encode(encoder, pool)
    assert alike.vectors_of(np.array([3])) == pytest.approx(vectors_of(encoder, ["ants"]), abs=1e-6)


def test_a_student_has_the_left_prompt_for_all_texts(make):
    _, config = make(Pooling(WIDTH, "mean"), prompts=E5)
    student = StudentTrainer(StudentSpec(config, TrainingConfig(), 0)).untrained([])
    assert not student.sided
    assert student.description == "mean pooling, prompt 'query: ' before all texts"


def test_an_encoder_decoder_is_refused_by_name(bert, tmp_path):
    config = T5Config(vocab_size=300, d_model=WIDTH, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    AutoModel.from_config(config).save_pretrained(tmp_path / "t5")
    AutoTokenizer.from_pretrained(bert).save_pretrained(tmp_path / "t5")
    with pytest.raises(BadOption, match=r"is an encoder-decoder \(t5\)"):
        Encoder.base(EncoderConfig(str(tmp_path / "t5"), None, 24, 8, 1))
