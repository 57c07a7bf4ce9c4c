"""Types for tyro, so that --help shows groups with headings, and a sentence, default and bounds for each option."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from al_ray.cli._shared.option_types import PathOrUri, Uri
from al_ray.core.config.bounds import RARE, Between, Group, Rare, annotations
from al_ray.core.config.encoder import EncoderOptions

SPEC = PrimitiveConstructorSpec
# Prefix of the generated field that holds the options of a heading.
GROUP = "group_"


def to_tyro(kind: Any, default: Any = None, unused: Sequence[str] = ()) -> Any:
    """Return the type to give to tyro for a dataclass, or for a union of dataclasses that are subcommands.

    It has the flags of `kind`, required ones first. tyro puts each dataclass in a box of its own, so the options of a
    base class with a HEADING, and fields with a Group, move into generated dataclasses. default: a value of `kind`, or
    values of some of its fields by name. unused: fields that are no flags, as are those in UNUSED of `kind`, with dots
    for fields of fields: they belong to a block of options that several commands share, and this one does not use them.
    The metadata of the fields of the type say the same as tyro gets, for al_ray/cli/_help/groups.py.
    """
    if get_origin(kind) in (Union, UnionType):
        return reduce(or_, (to_tyro(member, default) for member in get_args(kind)))
    if get_origin(kind) is Annotated:
        inner, *extras = get_args(kind)
        return Annotated[(to_tyro(inner), *extras)]
    unused = (*unused, *getattr(kind, "UNUSED", ()))
    left_out = {one.name: _initial(one, default) for one in fields(kind) if one.name in unused}
    groups: dict[str, list[Any]] = {"": []}
    hints, sentences = get_type_hints(kind, include_extras=True), documentation(kind)
    shown = [one for one in fields(kind) if one.name not in left_out]
    for one in sorted(shown, key=lambda one: not _is_required(one)):
        sentence = " ".join(one.metadata.get("help", sentences.get(one.name, "")).split())
        inner = [name.removeprefix(f"{one.name}.") for name in unused if name.startswith(f"{one.name}.")]
        row = _row(one, hints[one.name], sentence, _initial(one, default), inner)
        groups.setdefault(_heading(kind, one.name), []).append(row)
    rows = groups.pop("")
    for heading, options in groups.items():
        group = make_dataclass(heading, options, kw_only=True, namespace={"__doc__": ""})
        # Without a text of its own tyro would look for one in the sources of all classes, in each command.
        block = Annotated[tyro.conf.OmitArgPrefixes[group], tyro.conf.arg(name=heading, help="")]
        box = (f"{GROUP}{heading}", block, field(metadata={"heading": heading, "prefix": False}))
        # The encoder comes before the sections; other groups are rarely needed: last.
        rows.insert(0 if heading == EncoderOptions.HEADING else len(rows), box)
    namespace = {"__doc__": kind.__doc__, "ORIGINAL": kind, "LEFT_OUT": left_out}
    return make_dataclass(kind.__name__, rows, kw_only=True, namespace=namespace)


def from_tyro(value: Any) -> Any:
    """Convert a value of a type that `to_tyro` generated to the dataclass that it was generated from."""
    kind = value.ORIGINAL
    content: dict[str, Any] = dict(value.LEFT_OUT)
    for one in fields(kind):
        if one.name in content:
            continue
        heading = _heading(kind, one.name)
        option = getattr(getattr(value, f"{GROUP}{heading}") if heading else value, one.name)
        content[one.name] = from_tyro(option) if hasattr(option, "ORIGINAL") else option
    return kind(**content)


@cache
def documentation(kind: Any) -> dict[str, str]:
    """Return the docstrings under the fields of a dataclass and of its bases."""
    sentences: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(cast(type, base)))).body[0]).body
            for one, after in pairwise(body):
                if isinstance(one, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(one.target, ast.Name):
                    sentences[one.target.id] = str(cast(ast.Constant, after.value).value)
    return sentences


@cache
def _heading(kind: Any, name: str) -> str:
    """Return the heading of a field: of its Group, or of the class that declares it first; "" for the first box."""
    for extra in annotations(kind)[name]:
        if isinstance(extra, Group):
            return extra.name
    declaring = next(base for base in reversed(kind.__mro__) if name in getattr(base, "__annotations__", {}))
    return vars(declaring).get("HEADING", "")


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _initial(one: Field[Any], default: Any) -> Any:
    """Return the default of a field: from the default value, or from the class; MISSING for a required option."""
    if isinstance(default, dict) and one.name in cast(dict[str, Any], default):
        return default[one.name]
    if isinstance(default, dict):
        default = None
    if default is not None and getattr(default, one.name) is not tyro.MISSING:
        return getattr(default, one.name)
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _row(one: Field[Any], hint: Any, sentence: str, initial: Any, unused: Sequence[str]) -> tuple[Any, ...]:
    """Return the name, type and default of a field of the generated class. unused: fields of the field, see to_tyro."""
    inner, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if is_dataclass(inner):
        sentence = sentence or inspect.cleandoc(inner.__doc__ or "")
        sentence, heading = " ".join(sentence.split()), one.metadata.get("heading")
        box = tyro.conf.arg(name=heading, help=sentence)
        block = to_tyro(inner, None if initial is MISSING else initial, unused)
        about = {"heading": heading, "sentence": sentence, "rare": RARE in extras}
        others = [extra for extra in extras if not isinstance(extra, Rare)]
        about["prefix"] = tyro.conf.OmitArgPrefixes not in extras
        return one.name, Annotated[(block, *others, box)], field(metadata=about)
    if initial is None:
        # A default that the class itself replaces, such as the first batch of people.
        inner = inner | None
    if set(get_args(inner)) - {type(None)} == {Path, Uri} and not any(isinstance(it, SPEC) for it in extras):
        # A path of an options class of the API, which knows no command line.
        path: Any = PathOrUri
        inner = path | None if type(None) in get_args(inner) else path
    bounds = [extra for extra in extras if isinstance(extra, Between)]
    hint = _hint(initial, bounds)
    text = tyro.conf.arg(help=sentence, help_behavior_hint=hint)
    others = [extra for extra in extras if not isinstance(extra, Between | Group | Rare)]
    about = {"sentence": sentence, "hint": hint, "rare": RARE in extras}
    default: dict[str, Any] = {} if initial is MISSING else {"default": initial}
    return one.name, Annotated[(inner, *others, text)], field(**default, metadata=about)


def _hint(initial: Any, bounds: list[Between]) -> Callable[[str], str]:
    """Return what follows the sentence: the default, and the bounds of a number."""
    limits = "".join(
        # A large upper bound only guards against overflow.
        f"; at least {bound.low:,.15g}" if bound.high > 1e5 else f"; {bound.low:,.15g} to {bound.high:,.15g}"
        for bound in bounds
    )
    return lambda label: f"(optional{limits})" if initial in (None, ()) else f"(default: {label}{limits})"
