"""Match texts over HTTP by a trained model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from al_ray.apps.http.address import require_token
from al_ray.apps.http.token import read_token
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.server import plan, run_server


def serve(options: ServeOptions, *, host: str = "127.0.0.1", port: int = 8000, dry_run: bool = False) -> Iterator[str]:
    """Serve until SIGTERM or SIGINT; yield lines about what happens: the address when it is ready, each new model.

    It works while the lines are read, as in `for line in al_ray.serve(options): print(line)`, on Ray Serve, in the main
    thread of a process. On SIGHUP the model is loaded anew: the best of the run by then. host, port: the address to
    listen on. dry_run: yield what would be loaded, and write nothing.

    Examples:
        >>> table = folder / "questions.csv"
        >>> options = al_ray.ServeOptions(
        ...     model=folder / "run", known=table, store=folder / "store", id_column="id", text_columns="text"
        ... )
        >>> [line.partition(":")[0] for line in al_ray.serve(options, dry_run=True)]
        ['model', 'chosen', 'cutoff', 'known texts', 'search', 'token']

    Raises:
        BadOption: if options do not fit to the model, an address that others can reach has no token, or is used.
        BadFile: if a table or a file of the model cannot be read; the message names the row.
        WrongFolder: if the store was made from other texts.
    """
    token = read_token(options.token_file, "`token_file`")
    require_token(host, token)
    # Replicas may have another working folder. A link stays one: what it leads to may change.
    model, known = (path.absolute() if isinstance(path, Path) else path for path in (options.model, options.known))
    options = replace(options, model=model, known=known, store=options.store.absolute())
    if not dry_run:
        yield from run_server(options, host, port, token)
        return
    yield from plan(options).lines(options)
    yield "token: " + ("none, which only this machine's own address allows" if token is None else "given")
