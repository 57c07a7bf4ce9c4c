"""How every job starts and ends: options, log lines on stderr, and one line for an error a person can mend."""

import io
import logging
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, NoReturn

import tyro

from al_ray.core.errors import AlRayError, LabelsAwaited


def job(main: Callable[[], None]) -> None:
    """Run a job's body; an AlRayError becomes one line `error: ...` on stderr and exit code 2, a wait for people 0."""
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    try:
        main()
    except LabelsAwaited as wait:
        print(wait)
        print(f"then go on: {shlex.join(['python', '-m', f'jobs.{Path(sys.argv[0]).stem}', *sys.argv[1:]])}")
    except AlRayError as error:
        fail(str(error))


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
            # tyro draws a box: its words are the lines without the frame, up to the hint on --help.
            lines = [line.strip("│ ") for line in said.getvalue().splitlines() if line.startswith("│")]
            words = " ".join(" ".join(line for line in lines if line.strip("─")).split())
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
