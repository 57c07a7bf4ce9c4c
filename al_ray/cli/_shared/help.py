"""Dataclasses as tyro shows them: groups with headings, a sentence for each option, its default and its bounds."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import tyro

from al_ray.core.config.bounds import Between, Group, annotations

# Before the name of a field that holds the options under a heading of their own.
GROUP = "group_"


def shown(kind: Any, default: Any = None) -> Any:
    """Return the type to give to tyro for a dataclass, or for a union of dataclasses that are subcommands.

    It has the flags of `kind`. tyro puts each dataclass in a box of its own, so the options of a base class with a
    HEADING, and fields with a Group, move into dataclasses made for them. default: a value of `kind`.
    """
    if get_origin(kind) in (Union, UnionType):
        return reduce(or_, (shown(member) for member in get_args(kind)))
    if get_origin(kind) is Annotated:
        inner, *extras = get_args(kind)
        return Annotated[(shown(inner), *extras)]
    groups: dict[str, list[Any]] = {"": []}
    hints, sentences = get_type_hints(kind, include_extras=True), documentation(kind)
    for one in fields(kind):
        about = " ".join(one.metadata.get("help", sentences.get(one.name, "")).split())
        row = _row(one, hints[one.name], about, _initial(one, default))
        groups.setdefault(_heading(kind, one.name), []).append(row)
    rows = groups.pop("")
    for heading, options in groups.items():
        made = make_dataclass(heading, options, kw_only=True, namespace={"__doc__": ""})
        box = (f"{GROUP}{heading}", Annotated[tyro.conf.OmitArgPrefixes[made], tyro.conf.arg(name=heading)])
        # The options of a base class come before the sections, those of a Group are rarely needed: last.
        rows.insert(0 if heading in _class_headings(kind) else len(rows), box)
    return make_dataclass(kind.__name__, rows, kw_only=True, namespace={"__doc__": kind.__doc__, "SHOWN": kind})


def restored(value: Any) -> Any:
    """Return a value of a type that `shown` made as a value of the dataclass that it was made of."""
    kind = value.SHOWN
    content: dict[str, Any] = {}
    for one in fields(kind):
        heading = _heading(kind, one.name)
        given = getattr(getattr(value, f"{GROUP}{heading}") if heading else value, one.name)
        content[one.name] = restored(given) if hasattr(given, "SHOWN") else given
    return kind(**content)


@cache
def documentation(kind: Any) -> dict[str, str]:
    """Return the docstrings under the fields of a dataclass and of its bases."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(cast(type, base)))).body[0]).body
            for one, after in pairwise(body):
                if isinstance(one, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(one.target, ast.Name):
                    found[one.target.id] = str(cast(ast.Constant, after.value).value)
    return found


@cache
def _heading(kind: Any, name: str) -> str:
    """The heading of a field: of its Group, or of the class that declares it first; "" for the first box."""
    for extra in annotations(kind)[name]:
        if isinstance(extra, Group):
            return extra.name
    declaring = next(base for base in reversed(kind.__mro__) if name in getattr(base, "__annotations__", {}))
    return vars(declaring).get("HEADING", "")


def _class_headings(kind: Any) -> set[str]:
    return {vars(base)["HEADING"] for base in kind.__mro__ if "HEADING" in vars(base)}


def _initial(one: Field[Any], default: Any) -> Any:
    """The default of a field: that of the default value, or that of the class; MISSING for a required option."""
    if default is not None and getattr(default, one.name) is not tyro.MISSING:
        return getattr(default, one.name)
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _row(one: Field[Any], hint: Any, about: str, initial: Any) -> tuple[Any, ...]:
    """The name, type and default of a field of the made class."""
    inner, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if is_dataclass(inner):
        about = about or inspect.cleandoc(inner.__doc__ or "")
        named = tyro.conf.arg(name=one.metadata.get("heading"), help=" ".join(about.split()))
        return one.name, Annotated[(shown(inner, None if initial is MISSING else initial), *extras, named)]
    bounds = [extra for extra in extras if isinstance(extra, Between)]
    spoken = tyro.conf.arg(help=about, help_behavior_hint=_hint(initial, bounds))
    kept = [extra for extra in extras if not isinstance(extra, Between | Group)]
    given = {} if initial is MISSING else {"default": initial}
    return one.name, Annotated[(inner, *kept, spoken)], field(**given)


def _hint(initial: Any, bounds: list[Between]) -> Callable[[str], str]:
    """What stands after the sentence: the default, and the bounds of a number."""
    limits = "".join(
        # A large upper bound only guards against overflow.
        f"; at least {bound.low:,.15g}" if bound.high > 1e5 else f"; {bound.low:,.15g} to {bound.high:,.15g}"
        for bound in bounds
    )
    return lambda label: f"(optional{limits})" if initial in (None, ()) else f"(default: {label}{limits})"
