"""Match texts over HTTP by a trained model: python -m jobs.serve --model RUN --known FILE --store DIR

The known texts change by PUT and DELETE, each on disk before it is acknowledged (docs/serve.md)
"""

from importlib.util import find_spec

from al_ray.cli._serve.options import Options
from al_ray.cli._shared.entry import fail, parse_options

OPTIONS = Options


def main() -> None:
    """Parse the options, serve and print where."""
    options = parse_options(OPTIONS, "serve", "Match texts over HTTP by a trained model, on Ray Serve.")
    if find_spec("fastapi") is None:
        fail("Ray Serve is not installed here; install al_ray with its extra serve (docs/install.md)")
    from al_ray.cli._serve.pipeline import run_command

    run_command(options)
