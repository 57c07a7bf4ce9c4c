"""The texts of the library as a command shows them: options as flags, and calls as commands.

A text names options and functions in backticks, as Python (al_ray/core/naming.py): `search.index='Flat'` is shown as
--search.index Flat, and `al_ray.close_round(run='runs/x')` as `python -m jobs.labels close --run runs/x`.
"""

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from al_ray.cli._help.groups import option_groups, subcommands
from al_ray.cli._shared.help import to_tyro
from al_ray.cli._shared.registry import COMMANDS, options_of

OF_API = {
    "AuditConfig": "audit sample",
    "ExportOptions": "export",
    "GridConfig": "grid",
    "MatchOptions": "match",
    "OwnTexts": "prepare pairs",
    "RunConfig": "run",
    "ServeOptions": "serve",
    "Synthetic": "prepare synthetic",
    "TrainConfig": "train",
    "close_round": "labels close",
    "compare": "evaluate --against",
    "correct_labels": "labels correct",
    "estimate_audit": "audit estimate",
    "evaluate": "evaluate",
    "export_labels": "labels export",
    "export_model": "export",
    "import_labels": "labels import",
    "match": "match",
    "match_into": "match --into",
    "plan": "plan",
    "prepare": "prepare",
    "report": "report",
    "run": "run",
    "run_grid": "grid",
    "sample_audit": "audit sample",
    "sample_clusters": "audit sample",
    "sample_matches": "audit sample",
    "serve": "serve",
    "train_bi_encoder": "train",
    "train_cross_encoder": "train --model concat",
}
"""A public class of options or function of al_ray, and the command that has its options or does the same."""
parsed = list[Any]()
"""The types by which this process has read its command line, which may be that of another program (benchmarks)."""
OPTION = re.compile(r"(?:([A-Z]\w*)\.)?([a-z]\w*(?:\.[a-z]\w*)*)(?:=([^=].*))?", re.DOTALL)


def program_of(name: str) -> str:
    """Return what the user typed before the options."""
    if sys.argv[0].startswith(("al-ray ", "python -m ")):
        return sys.argv[0]
    return name if " " in name else f"python -m jobs.{name}"


def as_called(text: str) -> str:
    """Return a text of the library in the words of a command line; what is in backticks and no Python of ours is kept.

    A command is shown in the form in which the user called this one: `al-ray NAME` or `python -m jobs.NAME`.
    """
    pieces, done, begin = list[str](), 0, text.find("`")
    while (end := text.find("`", begin + 1)) > begin >= 0:
        words = _in_words(text[begin + 1 : end])
        if words is not None:
            pieces += [text[done:begin], words]
            done, end = end + 1, text.find("`", end + 1)
        # After an unknown text a backtick of a user's value may have come before one of ours.
        begin = end
    called = program_of(Path(sys.argv[0]).stem)
    before_names = called[: max(map(called.rfind, " .")) + 1]
    return "".join([*pieces, text[done:]]).replace("python -m jobs.", before_names)


@cache
def fields_of(command: str) -> frozenset[str]:
    """Return the options of a command as fields with dots; of one with subcommands, of the named one or of all."""
    name, _, chosen = command.partition(" ")
    kind = to_tyro(options_of(name))
    return _paths(subcommands(kind)[chosen] if chosen else kind)


@cache
def _paths(kind: Any) -> frozenset[str]:
    """Return the options of a type that `to_tyro` made, of all its subcommands, as fields with dots."""
    kinds = list(subcommands(kind).values()) or [kind]
    return frozenset(one.path for kind in kinds for group in option_groups(kind) for one in group.options)


def _in_words(code: str) -> str | None:
    """Return what stands between two backticks in the words of a command line; None if it is no Python of ours."""
    try:
        if code.startswith("al-ray "):
            return _command(code.removeprefix("al-ray "))
        if code.startswith("al_ray."):
            return _call(ast.parse(code, mode="eval").body)
        found = OPTION.fullmatch(code)
        return None if found is None else _option(*found.groups())
    # A text of a user can look like ours, and be no Python.
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _command(words: str) -> str | None:
    """Return a command as it is called, or `jobs.NAME` and options if it is not whole."""
    name = words.partition(" ")[0]
    if name not in COMMANDS:
        return None
    if " ... " in words or "-" not in words:
        return f"jobs.{words.replace(' ... ', ' ', 1)}"
    return f"python -m jobs.{words}"


def _call(node: ast.expr) -> str | None:
    """Return the command that does what a function of al_ray does: `jobs.NAME` without arguments, or if ... is one."""
    call = node if isinstance(node, ast.Call) else ast.Call(node, [ast.Constant(...)], [])
    function = ast.unparse(call.func).removeprefix("al_ray.")
    if function not in OF_API or any(ast.unparse(one) != "..." for one in call.args):
        return None
    words = [f"jobs.{OF_API[function]}", *_keywords(call, "")]
    return " ".join(words if call.args else ["python -m", *words])


def _option(kind: str | None, path: str, value: str | None) -> str | None:
    """Return an option as a flag with its value, and after `jobs.NAME` if it is one of a class of another command."""
    called = [re.split("[ .]", program_of(Path(sys.argv[0]).stem))[-1], *sys.argv[1:2]]
    command = OF_API.get(kind or "")
    places = list(COMMANDS) if kind is None else [] if command is None else [command]
    known = kind is None and any(path in _paths(one) for one in parsed)
    if not known and not any(path in fields_of(place) for place in places):
        return None
    words = _flag(path, None if value is None else ast.parse(value, mode="eval").body)
    of_this = command is None or called[: len(command.split())] == command.split()
    return " ".join(words if of_this else [f"jobs.{command}", *words])


def _flag(path: str, value: ast.expr | None) -> list[str]:
    """Return the words of an option: `--no-NAME` of one that is False; of a nested value those of all its fields."""
    head, dot, last = path.replace("_", "-").rpartition(".")
    match value:
        case None | ast.Constant(value=True):
            return [f"--{head}{dot}{last}"]
        case ast.Constant(value=False):
            return [f"--{head}{dot}no-{last}"]
        case ast.List(elts=several) | ast.Tuple(elts=several):
            return [f"--{head}{dot}{last}", *map(_word, several)]
        case ast.Call():
            return list(_keywords(value, f"{path}."))
        case _:
            return [f"--{head}{dot}{last}", _word(value)]


def _keywords(call: ast.Call, prefix: str) -> Iterator[str]:
    """Yield the words of the arguments of a call. An argument that is a class of options is none itself."""
    for one in call.keywords:
        value, changes = _folder_of(one.value)
        if not prefix and isinstance(value, ast.Call):
            changes = value.keywords
        else:
            yield from _flag(f"{prefix}{one.arg}", value)
        for inner in changes:
            # **al_ray.recipe(NAME)
            recipe = inner.arg is None and isinstance(inner.value, ast.Call) and inner.value.args
            yield from _flag("recipe", recipe[0]) if recipe else _flag(str(inner.arg), inner.value)


def _folder_of(value: ast.expr) -> tuple[ast.expr, list[ast.keyword]]:
    """Return the folder of a run that stands in an argument (`run_at` and `config_at` of core/naming.py), and changes.

    Another argument is returned as it is.
    """
    match value:
        case ast.Call(func=ast.Attribute(attr="replace"), args=[inner], keywords=changes):
            return _folder_of(inner)[0], changes
        case ast.Attribute(value=inner, attr="config"):
            return _folder_of(inner)
        case ast.Call(func=ast.Attribute(attr="load_run"), args=[path]):
            return path, []
        case _:
            return value, []


def _word(value: ast.expr) -> str:
    """Return a value as a word of the shell; a name stands for what the user has to give, such as FILE."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return shlex.quote(value.value)
    return ast.unparse(value)
