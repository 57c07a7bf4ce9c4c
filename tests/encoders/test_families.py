"""A family of encoders is added by its class, an entry of FAMILIES and one of LOADERS; each keeps the contract."""

from dataclasses import replace

import numpy as np
import pytest

from al_ray.core.config.encoder import FAMILIES, EncoderConfig, EncoderFamily, family_name
from al_ray.core.errors import BadOption
from al_ray.encoders.cnn import Cnn
from al_ray.encoders.encoder import (
    LOADERS,
    check_frozen_layers,
    check_prompts,
    embed_rows,
    learn_words,
    saved,
    untrained,
    with_left_prompt,
)
from al_ray.encoders.vocabulary import Vocabulary
from al_ray.runs.auto_recipe import compares_texts
from al_ray.training.untrained_model import untrained_model

TEXTS = ["how many cats", "how many dogs", "a red cat"]
CONFIG = EncoderConfig(encoder="seven", max_length=12, encoder_batch=8, threads=1)


class Seven(Cnn):
    """Of seven filters over a vocabulary that it brings along."""

    @staticmethod
    def untrained(config, pool, device="cpu", seed=0):
        return Seven(Cnn.base(replace(config, encoder="cnn-7"), Vocabulary.of(TEXTS), device, seed).network,
                     Vocabulary.of(TEXTS), config, device)  # fmt: skip


@pytest.fixture(autouse=True)
def seven(monkeypatch):
    monkeypatch.setitem(FAMILIES, "seven", EncoderFamily(lambda name: name == "seven"))
    monkeypatch.setitem(LOADERS, "seven", Seven)


def test_each_family_has_a_loader_and_the_names_that_no_other_claims_are_of_transformers():
    assert [*FAMILIES] == [*LOADERS]
    names = ("cnn", "cnn-9", "cnn-", "cnnx", "seven", "random-bert", "org/model")
    assert [family_name(name) for name in names] == ["cnn", "cnn", *["transformer"] * 2, "seven", *["transformer"] * 2]


def test_an_added_family_is_loaded_saved_and_trained_as_the_others(tmp_path):
    learn_words(TEXTS, CONFIG, tmp_path)
    assert not list(tmp_path.iterdir()), "it brings its words"
    encoder = untrained(CONFIG, tmp_path)
    assert isinstance(encoder, Seven)
    vectors = embed_rows(encoder, encoder.tokenise(TEXTS), np.arange(3))
    encoder.save(tmp_path)
    again = saved(str(tmp_path), CONFIG)
    np.testing.assert_array_equal(embed_rows(again, again.tokenise(TEXTS), np.arange(3)), vectors)
    assert with_left_prompt(CONFIG) == CONFIG


def test_what_an_added_family_lacks_is_refused_without_its_name_elsewhere(tmp_path):
    with pytest.raises(BadOption, match="encoder seven has no prompts"):
        check_prompts(replace(CONFIG, prompt_left="query: "), symmetric=True)
    with pytest.raises(BadOption, match="encoder seven has no layers"):
        check_frozen_layers(CONFIG, 1)
    with pytest.raises(BadOption, match="has the encoder seven, whose weights are random"):
        untrained_model(tmp_path, CONFIG, None)
    assert not compares_texts("seven")
