"""How a text below the commands names what a user can give: in backticks, as Python.

`search.index` is an option, `RunConfig.search.index` the same of that class, `al_ray.import_labels(run='runs/x')` what
to call, where ... stands for what was given, and `al-ray annotate --run runs/x` a command that no function does. What
has a value to quote is written by these functions. A command shows flags instead (al_ray/cli/_shared/called.py).
"""

import shlex
from collections.abc import Sequence
from typing import Any, cast

BACKTICK = "\\x60"
"""A backtick in a value, as Python and bash read it within quotes."""


class Code(str):
    """Python that stands for a value: `Code("FILE")` for a file that is not known yet, or a call."""


def option(name: str, value: Any) -> str:
    """Return an option with a value: `search.index='Flat'`. name: with dots and underscores, and its class or not."""
    return f"`{name}={_literal(value)}`"


def call(function: str, **arguments: Any) -> str:
    """Return a call of a public function of al_ray, arguments by name; those that are None are left out."""
    return f"`al_ray.{function}({_arguments(arguments)})`"


def options_of(kind: str, recipe: str | None = None, **values: Any) -> Code:
    """Return a value of a public class of options, as an argument of a call; values that are None are left out.

    recipe: the name of a recipe, whose options come last.
    """
    last = "" if recipe is None else f"**al_ray.recipe({_literal(recipe)})"
    return Code(f"al_ray.{kind}({', '.join(filter(None, [_arguments(values), last]))})")


def run_at(path: Any) -> Code:
    """Return the run in a folder, as an argument of a call; a command shows the folder."""
    return Code(f"al_ray.load_run({_literal(path)})")


def config_at(path: Any, **changes: Any) -> Code:
    """Return the options of the run in a folder with changes, as an argument of a call; None changes nothing."""
    config, words = f"{run_at(path)}.config", _arguments(changes)
    return Code(f"dataclasses.replace({config}, {words})" if words else config)


def command(name: str, **options: Any) -> str:
    """Return a command that no function of al_ray does; options that are None or False are left out, True is a flag."""
    words = [f"al-ray {name}"]
    for option, value in options.items():
        if value is not None and value is not False:
            words += [f"--{option.replace('_', '-')}", *([] if value is True else [_shell_word(value)])]
    return f"`{' '.join(words)}`"


def _arguments(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_literal(value)}" for name, value in values.items() if value is not None)


def _literal(value: Any) -> str:
    """Return a value as Python: numbers, booleans and sequences as such, all else, as a path or a URI, as a string."""
    if isinstance(value, Code):
        return value
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, cast(Sequence[Any], value)))}]"
    return repr(value if isinstance(value, int | float) else str(value)).replace("`", BACKTICK)


def _shell_word(value: Any) -> str:
    """Return a value as a word of bash without a backtick."""
    text = str(value)
    if isinstance(value, Code):
        return text
    if "`" not in text:
        return shlex.quote(text)
    return "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("`", BACKTICK) + "'"
