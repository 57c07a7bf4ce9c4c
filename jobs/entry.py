"""How every job starts and ends: options, log lines on stderr, and one line for an error a person can mend."""

import io
import logging
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from al_ray.core.errors import AlRayError, LabelsAwaited
from al_ray.storage.places import Place, Uri, place

PATHS = {
    "--task",
    "--audit",
    "--out",
    "--run",
    "--source",
    "--left",
    "--right",
    "--labels",
    "--scores",
    "--config",
    "--rerank",
    "--like",
    "--questions",
}
# An option that takes a path or a URI.
PathOrUri = Annotated[
    Place,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH|URI",
        instance_from_str=lambda words: place(words[0]),
        is_instance=lambda value: isinstance(value, Path | Uri),
        str_from_instance=lambda value: [str(value)],
    ),
]


def job(main: Callable[[], None]) -> None:
    """Run a job's body; an AlRayError becomes one line `error: ...` on stderr and exit code 2, a wait for people 0."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path that is no UTF-8, or a text that the terminal cannot show, is no reason to end.
        sys.stdout.reconfigure(errors="backslashreplace")
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    for option, value in pairwise([*sys.argv[1:], "-"]):
        # An empty path would be the current folder: some shell variable has no value.
        if (not value and option in PATHS) or option.removesuffix("=") in PATHS - {option}:
            fail(f"{option.removesuffix('=')} is empty; give a path")
    try:
        main()
    except LabelsAwaited as wait:
        print(wait)
        print(f"then go on: {shlex.join(['python', '-m', f'jobs.{Path(sys.argv[0]).stem}', *sys.argv[1:]])}")
    except AlRayError as error:
        fail(str(error))
    except OSError as error:
        # A name that is too long, a folder that may not be looked into: of the path, wherever it was met.
        if error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror}; give another path, or mend its permissions")


def options(kind: Any, name: str, description: str, arguments: Sequence[str] | None = None, default: Any = None) -> Any:
    """The command line as a value of `kind`, a dataclass or a union of them; a bad one ends the job in one line.

    default: a value of `kind` whose fields stand where the line is silent.
    """
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            # Of a union, None is a default that fits no member: tyro warns.
            silent = {} if default is None else {"default": default}
            return tyro.cli(kind, prog=f"python -m jobs.{name}", description=description, args=arguments, **silent)
    except SystemExit as stop:
        if stop.code == 2:
            # tyro draws a box, and where the encoding has none only rules under a title: its words are what is within.
            lines = said.getvalue().splitlines()
            within = [line.strip("│") for line in lines if line.startswith("│")] or lines[1:]
            words = " ".join(" ".join(line for line in within if line.strip(" ─-")).split())
            fail(words or said.getvalue())
        raise


def fail(message: str) -> NoReturn:
    """End the job: one line on stderr, exit code 2."""
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(2)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines of text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
