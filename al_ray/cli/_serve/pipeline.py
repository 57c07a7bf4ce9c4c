"""Check what is given, serve, and print where."""

from dataclasses import replace
from pathlib import Path

from al_ray.apps.http.address import refuse_open
from al_ray.apps.http.token import read_token
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.server import plan, run_server
from al_ray.cli._serve.options import Options
from al_ray.core.config.serialization import part


def run_command(options: Options) -> None:
    """Serve until the process is told to stop; with --dry-run only check."""
    token = read_token(options.token_file, "--token-file")
    refuse_open(options.host, token)
    own = part(options, ServeOptions)
    # Replicas may have another working folder. A link stays one: what it leads to may change.
    model, known = (path.absolute() if isinstance(path, Path) else path for path in (own.model, own.known))
    own = replace(own, model=model, known=known, store=own.store.absolute())
    if options.dry_run:
        print(*plan(own).lines(own), sep="\n")
        print("token: " + ("none, which only this machine's own address allows" if token is None else "given"))
        return
    for line in run_server(own, options.host, options.port, token):
        print(line, flush=True)
