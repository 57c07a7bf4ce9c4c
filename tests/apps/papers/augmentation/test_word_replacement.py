"""Texts with other words: which words are offered, where they are inserted, and what stays."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast

from al_ray.apps.papers.augmentation.word_replacement import BEST, Embeddings, Masked, reword
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadOption

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ant", "bee", "cat", "dog", "##s", "."]
VECTORS = {"ant": [1.0, 0.0], "bee": [0.9, 0.1], "cat": [0.0, 1.0], "dog": [0.2, 0.9], "##s": [0.0, 0.0]}


def saved(folder, head: bool) -> EncoderConfig:
    """A BERT of six words; its masked language model always predicts cat, then bee."""
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=2, num_hidden_layers=1, num_attention_heads=1, intermediate_size=2,
        max_position_embeddings=12,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = BertForMaskedLM(config)
        table = torch.tensor([VECTORS.get(piece, [0.1, 0.1]) for piece in PIECES])
        model.bert.embeddings.word_embeddings.weight.copy_(table)
        model.cls.predictions.transform.dense.weight.zero_()
        bias = {"##s": 9.0, ".": 8.0, "[SEP]": 7.0, "cat": 5.0, "bee": 4.0}
        model.cls.predictions.bias.copy_(torch.tensor([bias.get(piece, 0.0) for piece in PIECES]))
    saved = model if head else BertModel(config)
    saved.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)  # fmt: skip
    return EncoderConfig(encoder=str(folder), encoder_layers=None, max_length=12, encoder_batch=2, threads=1)


@pytest.fixture(scope="module")
def headed(tmp_path_factory) -> EncoderConfig:
    return saved(tmp_path_factory.mktemp("masked"), head=True)


def test_the_nearest_embeddings_are_offered_best_first(headed):
    source = Embeddings(headed, ["ant, bee", "cat dog", "ants"])
    # A word is the mean of its tokens: ants is [0.5, 0], which has the direction of ant.
    # bee is [0.9, 0.1]: to ant and ants 0.994, to dog 0.298, to cat 0.110.
    offers = source.offers(["A Bee!", "cat gnu"], [[(2, 5)], [(0, 3), (4, 7)]], False)
    assert offers[0] == [["ant", "ants", "dog", "cat"]]
    assert offers[1][0][0] == "dog"
    assert offers[1][1] == [], "a word that no text of the pool has"


def test_a_masked_model_offers_whole_words_that_are_not_the_same(headed):
    source = Masked(headed)
    texts, spans = ["bee dog.", "ant", "cat"], [[(0, 3), (4, 7)], [(0, 3)], [(0, 3)]]
    offers = source.offers(texts, spans, False)
    assert [[words[:2] for words in own] for own in offers] == [
        [["cat", "ant"], ["cat", "bee"]],
        [["cat", "bee"]],
        [["bee", "ant"]],
    ]
    assert all(len(words) <= BEST and "s" not in words and "." not in words for own in offers for words in own)
    long = " ".join(["ant"] * 14)
    cut = source.offers([long], [[(0, 3), (52, 55)]], False)[0]
    assert cut[0][0] == "cat"
    assert cut[1] == [], "what is cut off gets no words"


class Says:
    """Offers the same word everywhere, and none for `gnu`."""

    def __init__(self) -> None:
        self.calls = 0

    def offers(self, texts, spans, insert):
        self.calls += sum(map(len, spans))
        return [
            [[] if text[slice(*span)] == "gnu" else ["new"] for span in own]
            for text, own in zip(texts, spans, strict=True)
        ]


def test_words_are_inserted_or_replaced_at_their_places():
    rng = np.random.default_rng(0)
    assert reword(["a-b (c)!"], Says(), False, 1.0, rng) == ["new-new (new)!"]
    assert reword(["a-b (c)!"], Says(), True, 1.0, rng) == ["new a-new b (new c)!"]
    assert reword(["gnu a", "?", ""], Says(), False, 1.0, rng) == ["gnu new", "?", ""]


@pytest.mark.parametrize(("share", "changed"), [(0.0, 1), (0.3, 3), (1.0, 10)])
def test_the_given_share_of_the_words_is_changed_and_at_least_one(share, changed):
    text = " ".join("abcdefghij")
    new = reword([text], Says(), False, share, np.random.default_rng(0))[0]
    assert new.split().count("new") == changed
    others = {reword([text], Says(), False, share, np.random.default_rng(seed))[0] for seed in range(9)}
    assert len(others) > 1 or share == 1.0


def test_an_encoder_without_a_masked_language_model_is_refused(tmp_path, letters):
    with pytest.raises(BadOption, match="has no head for masked words; give a folder"):
        Masked(saved(tmp_path, head=False))
    with pytest.raises(BadOption, match="has no mask; give a folder"):
        Masked(letters)
