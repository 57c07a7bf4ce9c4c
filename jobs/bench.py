"""Speed, as ratios measured in one run, so that a machine's noise cancels: python -m jobs.bench encode --task TASK"""

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro
from sentence_transformers import SentenceTransformer

from al_ray.core.config import EncoderConfig, refuse_beyond
from al_ray.data.files import refuse_folder, write_json
from al_ray.data.tables import read_texts
from al_ray.model.encoder import MINILM, Encoder
from al_ray.model.tokens import Tokens, batches
from jobs.entry import job, options


@dataclass(frozen=True)
class Options:
    """Texts a second, ours and SentenceTransformer.encode at its default settings: the same weights in one process."""

    what: tyro.conf.Positional[Literal["encode"]]
    """encode: texts a second."""
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


def main() -> None:
    """Measure, print, write."""
    asked: Options = options(Options, "bench", "Speed, as ratios measured in one run.")
    refuse_beyond(
        (
            (asked.texts, "--texts", 1, 10_000_000),
            (asked.max_length, "--max-length", 3, 1_000_000),
            (asked.threads, "--threads", 1, 1_024),
            (asked.repeats, "--repeats", 1, 10_000),
        )
    )
    if asked.out is not None:
        refuse_folder("--out", asked.out)
    figures = encode(asked)
    print("  ".join(f"{name} {value:,.4g}" for name, value in figures.items()))
    if asked.out is not None:
        write_json(asked.out, figures)


def encode(asked: Options) -> dict[str, float]:
    """encode_vs_sentence_transformers = their time / ours, tokenising included in both."""
    torch.set_num_threads(asked.threads)
    every = read_texts(asked.task, "right")
    texts = [every[row] for row in np.linspace(0, len(every) - 1, min(asked.texts, len(every))).astype(int)]
    ours = Encoder.base(EncoderConfig(asked.encoder, None, asked.max_length, 64, asked.threads, "fp32"))
    with tempfile.TemporaryDirectory() as folder:
        ours.save(Path(folder))
        theirs = SentenceTransformer(folder, device="cpu")

    def encode_ours() -> None:
        tokens = Tokens.of([ids for block in ours.tokenise(texts) for ids in block])
        for batch in batches(tokens, np.arange(len(tokens)), ours.config.batch):
            ours.embed(tokens, batch)

    def encode_theirs() -> None:
        theirs.encode(texts, show_progress_bar=False)

    times = [(_seconds(encode_ours), _seconds(encode_theirs)) for _ in range(asked.repeats + 1)][1:]
    return {
        "ours_texts_per_second": len(texts) / statistics.median(ours for ours, _ in times),
        "theirs_texts_per_second": len(texts) / statistics.median(theirs for _, theirs in times),
        "encode_vs_sentence_transformers": statistics.median(theirs / ours for ours, theirs in times),
    }


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    job(main)
