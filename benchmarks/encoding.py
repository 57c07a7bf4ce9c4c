"""Texts per second of our encoder and of SentenceTransformer.encode with default settings and the same weights."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.encoder import EncoderConfig, MaxLength, Threads
from al_ray.datasets.task_folder import read_texts
from al_ray.encoders.pretrained import MINILM
from al_ray.encoders.tokens import batches
from al_ray.encoders.transformer import Encoder
from benchmarks.timing import Figure, seconds


@dataclass(frozen=True)
class Encode:
    """Texts per second of our encoder and of SentenceTransformer.encode with default settings and the same weights."""

    task: Path
    """Task folder whose right texts are encoded."""
    texts: Annotated[int, Between(1, 10_000_000)] = 2000
    """Number of texts, evenly spaced among the task's."""
    encoder: str = MINILM
    """As in jobs.run."""
    max_length: MaxLength = 64
    """As in jobs.run."""
    threads: Threads = 2
    """Threads of each encoder."""
    repeats: Annotated[int, Between(1, 10_000)] = 5
    """Runs of each, in turn; medians are printed."""
    out: Path | None = None
    """JSON file for the figures."""

    def figures(self) -> list[Figure]:
        """encode_vs_sentence_transformers = their time / ours, bf16_vs_fp32 = ours / ours in bf16; with tokenising."""
        check_bounds(self)
        torch.set_num_threads(self.threads)
        corpus = read_texts(self.task, "right")
        texts = [corpus[row] for row in np.linspace(0, len(corpus) - 1, min(self.texts, len(corpus))).astype(int)]
        encoder = Encoder.base(EncoderConfig(self.encoder, None, self.max_length, 64, self.threads))
        with tempfile.TemporaryDirectory() as folder:
            encoder.save(Path(folder))
            sentence_transformer = SentenceTransformer(folder, device="cpu")

        config, parts = replace(encoder.config, arithmetic="bf16"), (encoder.modules, encoder.prompts)
        bf16 = Encoder(encoder.transformer, encoder.tokenizer, config, "cpu", *parts)

        def encode_ours(encoder: Encoder) -> None:
            tokens = encoder.tokenise(texts)
            for batch in batches(tokens, np.arange(len(tokens)), encoder.config.encoder_batch):
                encoder.embed(tokens, batch)

        def encode_theirs() -> None:
            sentence_transformer.encode(texts, show_progress_bar=False)

        # The first run of each warms up.
        times = [
            tuple(seconds(one) for one in (lambda: encode_ours(encoder), encode_theirs, lambda: encode_ours(bf16)))
            for _ in range(self.repeats + 1)
        ][1:]
        return [
            Figure("ours_texts_per_second", tuple(len(texts) / ours for ours, _, _ in times)),
            Figure("theirs_texts_per_second", tuple(len(texts) / theirs for _, theirs, _ in times)),
            Figure("encode_vs_sentence_transformers", tuple(theirs / ours for ours, theirs, _ in times)),
            Figure("bf16_vs_fp32", tuple(ours / half for ours, _, half in times)),
        ]
