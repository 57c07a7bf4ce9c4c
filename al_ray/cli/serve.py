"""The command serve: python -m jobs.serve --model RUN --known FILE --store DIR

The known texts change by PUT and DELETE, each on disk before it is acknowledged (docs/serve.md)
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import al_ray
from al_ray.cli._shared.entry import as_called, fail, parse_options
from al_ray.core.config.bounds import Between
from al_ray.core.config.serialization import part


@dataclass(frozen=True, kw_only=True)
class ServeCommand(al_ray.ServeOptions):
    """Match texts over HTTP."""

    host: str = "127.0.0.1"
    """Address to listen on. An address that other machines can reach needs a token."""
    port: Annotated[int, Between(1, 65_535)] = 8000
    """Port to listen on."""
    dry_run: bool = False
    """Check all that is given, print what would be loaded, and stop. Nothing is written."""


OPTIONS = ServeCommand


def main() -> None:
    """Parse the options, serve until the process is told to stop, and print where; with --dry-run only check."""
    options = parse_options(OPTIONS, "serve", "Match texts over HTTP by a trained model, on Ray Serve.")
    if find_spec("fastapi") is None:
        fail("Ray Serve is not installed here; install al_ray with its extra serve (docs/install.md)")
    own = part(options, al_ray.ServeOptions)
    for line in al_ray.serve(own, host=options.host, port=options.port, dry_run=options.dry_run):
        print(as_called(line), flush=True)
