"""Texts to vectors by an exported folder, as a program without torch does it: by tokenizers and onnxruntime."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from al_ray.core.errors import BadOption
from al_ray.core.progress import OnProgress, no_progress
from al_ray.core.vectors import Vectors
from al_ray.encoders.prompts import Prompts, Side
from al_ray.encoders.transformer import Encoder

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
INSTALL = "pip install 'al-ray[onnx]'"
TOKENIZER, BATCH = "tokenizer.json", 32


@contextmanager
def quiet() -> Iterator[None]:
    """Drop warnings and log lines of tools that write graphs: they are about their own parts and steps."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def require_packages() -> None:
    """Raise BadOption if a package of the extra onnx is not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise BadOption(f"`format='onnx'` needs the package {missing[0]}, which is not installed: {INSTALL}")


def write_tokenizer(encoder: Encoder, folder: Path) -> None:
    """Write tokenizer.json, which truncates at the encoder's maximum length and pads a batch on the right."""
    if not encoder.tokenizer.is_fast:
        raise BadOption(
            f"the tokenizer of {encoder.config.encoder} has no tokenizer.json; give `format='sentence-transformers'`"
        )
    tokenizer = Tokenizer.from_str(encoder.tokenizer.backend_tokenizer.to_str())
    side = encoder.tokenizer.truncation_side
    tokenizer.enable_truncation(encoder.config.max_length, direction=side)
    tokenizer.enable_padding(direction="right", pad_id=encoder.pad, pad_token=encoder.tokenizer.pad_token or "[PAD]")
    tokenizer.save(str(folder / TOKENIZER))


class OnnxEncoder:
    """A graph with its tokenizer and its prompts."""

    def __init__(self, graph: Path, prompts: Prompts, threads: int) -> None:
        """Load a graph, and the tokenizer beside it. prompts: before left and before right texts."""
        # By name, because the package belongs to an extra.
        runtime = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = runtime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self.tokenizer, self.prompts = Tokenizer.from_file(str(graph.parent / TOKENIZER)), prompts

    def encode(
        self, texts: Sequence[str], side: Side = "left", batch: int = BATCH, watch: OnProgress = no_progress
    ) -> Vectors:
        """Encode n texts of a side, `batch` at a time in their order: unit vectors (n, d), float32."""
        prompt, vectors = self.prompts.of_side(side), list[Vectors]()
        for start in range(0, len(texts), batch):
            encoded = self.tokenizer.encode_batch([prompt + text for text in texts[start : start + batch]])
            ids = np.array([one.ids for one in encoded], dtype=np.int64)
            mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
            vectors.append(self.session.run(None, {"input_ids": ids, "attention_mask": mask})[0])
            watch("encode by onnxruntime", min(start + batch, len(texts)), len(texts))
        return np.concatenate(vectors)
