"""Export of a trained model for other programs: python -m jobs.export --model RUN --format FORMAT --out DIR

As a folder of sentence-transformers or as an ONNX graph, with scorer and model card (docs/export.md)
"""

from al_ray.cli._export.options import Options
from al_ray.cli._shared.entry import parse_options

OPTIONS = Options


def main() -> None:
    """Parse the options, export and print."""
    options = parse_options(OPTIONS, "export", "A trained model as sentence-transformers or ONNX, with a model card.")
    from al_ray.cli._export.pipeline import run_command

    run_command(options)
