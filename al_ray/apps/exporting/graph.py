"""An encoder as one ONNX graph: token ids and their mask -> unit vectors, of any number and length of texts.

torch.onnx traces by torch.export here. Its older tracer takes Python numbers, such as the number of texts in the
pooling, for constants.
"""

import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from al_ray.apps.exporting.session import quiet
from al_ray.core.errors import BadOption
from al_ray.encoders.products import use_torch
from al_ray.encoders.transformer import Encoder

INPUTS, OUTPUT = ("input_ids", "attention_mask"), "sentence_embedding"
EXTERNAL = 2**30  # Bytes of weights above which they lie in a file of their own: an ONNX file has 2 GB at most.
OTHER = "give `format='sentence-transformers'`"


class EncoderGraph(torch.nn.Module):
    """All that follows the tokenizer: transformer, pooling, Dense layers and normalisation."""

    def __init__(self, encoder: Encoder) -> None:
        """Copy the parts of an encoder. BadOption if the two sides are pooled in different ways."""
        super().__init__()
        # The length of a prompt that the pooling leaves out is a constant of the graph.
        left, right = (encoder.tokenise(["a"], side).prompt for side in ("left", "right"))
        if left != right:
            raise BadOption(
                f"the pooling of {encoder.config.encoder} leaves out prompts, and those of left and right texts have "
                f"different lengths ({left} and {right} tokens), which one ONNX graph cannot do; {OTHER}"
            )
        self.transformer = copy.deepcopy(encoder.transformer)
        use_torch(self.transformer)
        self.layers, self.pooling, self.prompt = copy.deepcopy(encoder.modules.layers), encoder.modules.pooling, left

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """(r, l) token ids, padded on the right, and (r, l) 1 for tokens, 0 for padding -> unit vectors (r, d)."""
        hidden = self.transformer(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        pooled = self.pooling(hidden, attention_mask.bool(), self.prompt)
        return torch.nn.functional.normalize(self.layers(pooled))


def write_graph(encoder: Encoder, path: Path) -> int:
    """Write the graph of an encoder, and return its opset; BadOption if torch cannot export it."""
    graph = EncoderGraph(encoder).eval()
    # Two texts, one of them padded: torch would take a size of 1 for a constant.
    length = min(8, encoder.config.max_length)
    ids, mask = torch.full((2, length), encoder.pad), torch.ones((2, length), dtype=torch.int64)
    mask[1, length // 2 :] = 0
    weights = sum(one.numel() * one.element_size() for one in graph.parameters())
    sizes = {name: {0: "batch", 1: "length"} for name in INPUTS}
    options: dict[str, Any] = {"external_data": weights > EXTERNAL, "verbose": False}
    try:
        with quiet():
            torch.onnx.export(
                graph, (ids, mask), path, input_names=INPUTS, output_names=[OUTPUT], dynamo=True, dynamic_shapes=sizes,
                **options,
            )  # fmt: skip
    except torch.onnx.OnnxExporterError as error:
        # Its own message is advice to developers of the exporter.
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise BadOption(f"torch cannot export {encoder.config.encoder} as an ONNX graph ({reason}); {OTHER}") from error
    return _without_traces(path)


def _without_traces(path: Path) -> int:
    """Remove the traces of the Python code, with paths of this machine, from each node; return the opset."""
    # By name, because the package belongs to an extra.
    onnx = import_module("onnx")
    model = onnx.load(str(path), load_external_data=False)
    for part in (model.graph, *model.graph.node, *model.graph.value_info, *model.functions):
        part.ClearField("metadata_props")
    onnx.save(model, str(path))
    return next(one.version for one in model.opset_import if not one.domain)
