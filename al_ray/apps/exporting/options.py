"""Options of the command export."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from al_ray.core.errors import BadOption

Format = Literal["sentence-transformers", "onnx"]
FOLDER: Format = "sentence-transformers"


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """In which format a model is exported, and what is said and checked of it."""

    format: Format
    """sentence-transformers: a folder that SentenceTransformer loads; onnx: an ONNX graph and a tokenizer, which run
    without torch (needs the extra onnx)."""
    int8: bool = False
    """With --format onnx: also write a graph with int8 weights, and measure what it costs in AP on dev."""
    texts: Path | None = None
    """With --format onnx: file of texts on which the graph is compared with torch, one a line. Default: train texts of
    the run; of a copied model texts made of its vocabulary."""
    licence: str | None = None
    """Licence of the exported model, for the model card: an identifier such as apache-2.0."""

    def __post_init__(self) -> None:
        """Raise BadOption for options that need an ONNX graph."""
        for given, name in ((self.int8, "`int8`"), (self.texts is not None, "`texts`")):
            if given and self.format == FOLDER:
                raise BadOption(f"{name} is about an ONNX graph; give `format='onnx'`, or leave it out")
        if self.licence is not None and not self.licence.strip():
            raise BadOption("`licence` is empty; give an identifier such as apache-2.0, or leave it out")
