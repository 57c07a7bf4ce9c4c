"""Texts a second, ours and SentenceTransformer.encode at its default settings: the same weights in one process."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from al_ray.core.config import EncoderConfig
from al_ray.core.limits import refuse_beyond
from al_ray.data.tables import read_texts
from al_ray.model.encoder import MINILM, Encoder
from al_ray.model.tokens import Tokens, batches
from jobs.bench_figures import Figure, seconds


@dataclass(frozen=True)
class Encode:
    """Texts a second, ours and SentenceTransformer.encode at its default settings: the same weights in one process."""

    task: Path
    """Task folder whose right texts are encoded."""
    texts: int = 2000
    """How many, evenly spread over the task's."""
    encoder: str = MINILM
    """As in jobs.run."""
    max_length: int = 64
    """As in jobs.run."""
    threads: int = 2
    """Threads of either."""
    repeats: int = 5
    """Runs of each, in turn; medians are printed."""
    out: Path | None = None
    """JSON file with the figures."""

    def figures(self) -> list[Figure]:
        """encode_vs_sentence_transformers = their time / ours, bf16_vs_fp32 = ours / ours in bf16; with tokenising."""
        refuse_beyond((
            (self.texts, "--texts", 1, 10_000_000),
            (self.max_length, "--max-length", 3, 1_000_000),
            (self.threads, "--threads", 1, 1_024),
            (self.repeats, "--repeats", 1, 10_000),
        ))  # fmt: skip
        torch.set_num_threads(self.threads)
        every = read_texts(self.task, "right")
        texts = [every[row] for row in np.linspace(0, len(every) - 1, min(self.texts, len(every))).astype(int)]
        encoder = Encoder.base(EncoderConfig(self.encoder, None, self.max_length, 64, self.threads, "fp32"))
        with tempfile.TemporaryDirectory() as folder:
            encoder.save(Path(folder))
            sentence_transformer = SentenceTransformer(folder, device="cpu")

        half = Encoder(encoder.transformer, encoder.tokenizer, replace(encoder.config, arithmetic="bf16"))

        def encode_ours(encoder: Encoder) -> None:
            tokens = Tokens.of([ids for block in encoder.tokenise(texts) for ids in block])
            for batch in batches(tokens, np.arange(len(tokens)), encoder.config.batch):
                encoder.embed(tokens, batch)

        def encode_theirs() -> None:
            sentence_transformer.encode(texts, show_progress_bar=False)

        # The first run of each warms up.
        times = [
            tuple(seconds(one) for one in (lambda: encode_ours(encoder), encode_theirs, lambda: encode_ours(half)))
            for _ in range(self.repeats + 1)
        ][1:]
        return [
            Figure("ours_texts_per_second", tuple(len(texts) / ours for ours, _, _ in times)),
            Figure("theirs_texts_per_second", tuple(len(texts) / theirs for _, theirs, _ in times)),
            Figure("encode_vs_sentence_transformers", tuple(theirs / ours for ours, theirs, _ in times)),
            Figure("bf16_vs_fp32", tuple(ours / half for ours, _, half in times)),
        ]
