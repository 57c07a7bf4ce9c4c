"""A small BERT with fixed random weights over single letters, for tests: the encoder `random-bert`."""

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from al_ray.core.errors import BadOption
from al_ray.core.naming import option

RANDOM_BERT = "random-bert"


def random_bert(layers: int) -> Any:
    """Make a BertModel; its weights are the same in every process."""
    if layers < 1:
        raise BadOption(f"{option('encoder_layers', layers)}: give at least 1")
    # By the Auto classes: to import BertModel loads 100 MB, in the driver too.
    config = AutoConfig.for_model(
        "bert", vocab_size=len(letters_tokenizer()), hidden_size=32, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=160, initializer_range=0.2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModel.from_config(config)


def letters_tokenizer() -> PreTrainedTokenizerFast:
    """Make its tokenizer, whose tokens are the printable ASCII characters."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = [chr(code) for code in range(33, 127)]
    pieces = {piece: number for number, piece in enumerate(special + letters + [f"##{c}" for c in letters])}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", pieces["[CLS]"]), ("[SEP]", pieces["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
    )  # fmt: skip
