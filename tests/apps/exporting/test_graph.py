"""Every kind of pooling and layer as an ONNX graph, on batches of mixed lengths; what a graph cannot do is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from al_ray.apps.exporting import graph
from al_ray.apps.exporting.graph import EncoderGraph, write_graph
from al_ray.apps.exporting.session import OnnxEncoder, write_tokenizer
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.encoders import products
from al_ray.encoders.modules import Dense, Modules, Normalize, Pooling
from al_ray.encoders.products import ATTENTION, OneDnnLinear
from al_ray.encoders.prompts import Prompts
from al_ray.encoders.transformer import Encoder

TEXTS = ["a", "how to swim", "x y z " * 30, "the first king of the north", "ab"]
CONFIG = EncoderConfig(encoder="random-bert", encoder_layers=1, max_length=24, threads=1)


def encoder_with(pooling: Pooling, prompts: Prompts, *layers: torch.nn.Module, config=CONFIG) -> Encoder:
    plain = Encoder.base(config)
    modules = Modules(pooling=pooling, layers=torch.nn.Sequential(*layers))
    return Encoder(plain.transformer, plain.tokenizer, config, modules=modules, prompts=prompts)


def compare(encoder: Encoder, folder: Path) -> None:
    write_tokenizer(encoder, folder)
    assert write_graph(encoder, folder / "model.onnx") >= 17
    assert b".py" not in (folder / "model.onnx").read_bytes()
    exported = OnnxEncoder(folder / "model.onnx", encoder.prompts, 1)
    for side in ("left", "right"):
        expected = encoder.embed(encoder.tokenise(TEXTS, side), np.arange(len(TEXTS)))
        for batch in (1, 3, 5):
            assert exported.encode(TEXTS, side, batch=batch) == pytest.approx(expected, abs=1e-6)


def test_first_token_and_dense_layers_and_weights_beside_the_graph(tmp_path, monkeypatch):
    monkeypatch.setattr(graph, "EXTERNAL", 0)
    layers = Normalize(), Dense(32, 8, True, "Mish"), Dense(8, 4, False, "GELU")
    compare(encoder_with(Pooling("cls"), Prompts("query: ", "of "), *layers), tmp_path)
    weights = sum(one.numel() * 4 for one in EncoderGraph(encoder_with(Pooling(), Prompts())).parameters())
    assert (tmp_path / "model.onnx.data").stat().st_size > weights / 2


def test_last_token_and_linear_layers_of_onednn(tmp_path, monkeypatch):
    monkeypatch.setattr(products, "prefers_onednn", products.has_onednn)
    # The small layers of tests are for torch otherwise.
    monkeypatch.setattr(products, "LEAST", 0)
    encoder = encoder_with(Pooling("lasttoken"), Prompts())
    if not products.has_onednn():
        pytest.skip("torch has no oneDNN here")
    assert any(type(part) is OneDnnLinear for part in encoder.transformer.modules())
    compare(encoder, tmp_path)
    # The encoder is as it was.
    assert any(type(part) is OneDnnLinear for part in encoder.transformer.modules())


def test_mean_without_the_tokens_of_prompts_of_one_length(tmp_path):
    encoder = encoder_with(Pooling("mean", include_prompt=False), Prompts("query", "quere"))
    assert encoder.tokenise(["a"]).prompt > 1
    compare(encoder, tmp_path)


def test_attention_of_bf16_is_that_of_torch_in_a_graph(tmp_path):
    encoder = encoder_with(Pooling(), Prompts(), config=replace(CONFIG, arithmetic="bf16"))
    assert encoder.transformer.config._attn_implementation == ATTENTION
    assert EncoderGraph(encoder).transformer.config._attn_implementation == "sdpa"
    assert encoder.transformer.config._attn_implementation == ATTENTION


def test_prompts_of_two_lengths_that_the_pooling_leaves_out_are_refused():
    encoder = encoder_with(Pooling("mean", include_prompt=False), Prompts("query", ""))
    with pytest.raises(BadOption, match="one ONNX graph cannot do; give `format='sentence-transformers'`"):
        EncoderGraph(encoder)


def test_what_torch_cannot_export_is_refused_by_the_reason(tmp_path):
    class Numbers(torch.nn.Module):
        def forward(self, vectors: torch.Tensor) -> torch.Tensor:
            return vectors * (2 if bool(vectors.sum() > 0) else 1)

    with pytest.raises(BadOption, match=r"torch cannot export random-bert as an ONNX graph \(.*data-dependent"):
        write_graph(encoder_with(Pooling(), Prompts(), Numbers()), tmp_path / "model.onnx")
