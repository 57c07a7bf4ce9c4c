"""Completion of commands and options in a shell: `al-ray --print-completion bash`."""

import io
from contextlib import redirect_stdout, suppress
from dataclasses import make_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any

import tyro

from al_ray.cli._help.groups import subcommands
from al_ray.cli._shared.help import to_tyro
from al_ray.cli._shared.registry import COMMANDS, options_of
from al_ray.core.errors import BadOption

SHELLS = ("bash", "zsh", "fish")


def completion_script(shell: str) -> str:
    """Return the script that completes `al-ray` in a shell, by tyro; BadOption for another shell."""
    if shell not in SHELLS:
        raise BadOption(f"--print-completion needs the name of a shell; give one of {', '.join(SHELLS)}")
    program = reduce(or_, (_command(name) for name in COMMANDS))
    script = io.StringIO()
    with redirect_stdout(script), suppress(SystemExit):
        tyro.cli(program, prog="al-ray", args=["--tyro-write-completion", shell, "-"], config=(tyro.conf.DisallowNone,))
    return script.getvalue()


def _command(name: str) -> Any:
    """Return the type of a command as a subcommand of al-ray; its own subcommands are those of a field."""
    options = to_tyro(options_of(name))
    if subcommands(options):
        options = make_dataclass(name, [("command", tyro.conf.OmitSubcommandPrefixes[options])])
    return Annotated[options, tyro.conf.subcommand(name)]
