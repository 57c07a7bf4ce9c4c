"""Types for tyro, so that --help shows groups with headings, and a sentence, default and bounds for each option."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, make_dataclass
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from al_ray.cli._shared.blocks import Block
from al_ray.cli._shared.option_types import PathOrUri, Uri
from al_ray.core.config.bounds import RARE, Between, Group, Rare, annotations
from al_ray.core.config.encoder import EncoderOptions

SPEC = PrimitiveConstructorSpec
# Prefix of the generated field that holds the options of a heading.
GROUP = "group_"


def to_tyro(kind: Any, default: Any = None, without: Sequence[str] = ()) -> Any:
    """Return the type to give to tyro for a dataclass, or for a union of dataclasses that are subcommands.

    It has the flags of `kind`, required ones first. tyro puts each dataclass in a box of its own, so the options of a
    base class with a HEADING, and fields with a Group, move into generated dataclasses. default: a value of `kind`, or
    values of some of its fields by name. without: fields that are no flags, with dots for fields of fields; so are
    those that a Block leaves out.
    The metadata of the fields of the type say the same as tyro gets, for al_ray/cli/_help/groups.py.
    """
    if get_origin(kind) in (Union, UnionType):
        return reduce(or_, (to_tyro(member, default) for member in get_args(kind)))
    if get_origin(kind) is Annotated:
        inner, *extras = get_args(kind)
        return Annotated[(to_tyro(inner), *extras)]
    places = list(_places(kind, default, without))
    left_out = {place.field.name: place.initial for place in places if place.left_out}
    groups: dict[str, list[Any]] = {"": []}
    for place in sorted(places, key=lambda place: not _is_required(place.field)):
        if not place.left_out:
            groups.setdefault(_heading(place.kind, place.field.name), []).append(_row(place))
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
    return _composed(value.ORIGINAL, value)


def _composed(kind: Any, value: Any) -> Any:
    """Return a value of a dataclass, or of a block that is merged into it, from what tyro has parsed."""
    content: dict[str, Any] = {}
    for one in fields(kind):
        block, heading = block_of(kind, one.name), _heading(kind, one.name)
        if one.name in value.LEFT_OUT:
            content[one.name] = value.LEFT_OUT[one.name]
        elif block.merged:
            content[one.name] = _composed(get_type_hints(kind)[one.name], value)
        else:
            option = getattr(getattr(value, f"{GROUP}{heading}") if heading else value, one.name)
            content[one.name] = from_tyro(option) if hasattr(option, "ORIGINAL") else option
    return kind(**content)


@dataclass(frozen=True)
class _Place:
    """A field of a dataclass or of a block that is merged into it, and what is known of its options."""

    kind: Any
    """The class that has the field."""
    field: Field[Any]
    hint: Any
    initial: Any
    without: tuple[str, ...]
    """Fields of the field that are no flags."""
    left_out: bool


def _places(kind: Any, default: Any, without: Sequence[str]) -> Iterator[_Place]:
    """Yield the fields of a dataclass in their order, those of merged blocks in the place of the block."""
    hints = get_type_hints(kind, include_extras=True)
    unknown = {name.partition(".")[0] for name in without} - set(hints)
    assert not unknown, f"{kind.__name__} has no field {', '.join(unknown)}"
    for one in fields(kind):
        block = block_of(kind, one.name)
        prefix = f"{one.name}."
        inside = *block.without, *(name.removeprefix(prefix) for name in without if name.startswith(prefix))
        if not block.merged:
            initial = _initial(one, default)
            yield _Place(kind, one, hints[one.name], initial, inside, one.name in without)
            continue
        by_name = default is None or isinstance(default, dict)
        given = {**one.metadata.get("defaults", {}), **(default or {})} if by_name else getattr(default, one.name)
        yield from _places(get_args(hints[one.name])[0], given, inside)


@cache
def block_of(kind: Any, name: str) -> Block:
    """Return the block that a field of a dataclass is; one of all fields, if it is not marked."""
    return next((extra for extra in annotations(kind)[name] if isinstance(extra, Block)), Block())


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


def _row(place: _Place) -> tuple[Any, ...]:
    """Return the name, type and default of a field of the generated class."""
    one, hint, initial = place.field, place.hint, place.initial
    sentence = " ".join(one.metadata.get("help", documentation(place.kind).get(one.name, "")).split())
    inner, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if is_dataclass(inner):
        sentence = sentence or inspect.cleandoc(inner.__doc__ or "")
        sentence, heading = " ".join(sentence.split()), block_of(place.kind, one.name).heading or None
        box = tyro.conf.arg(name=heading, help=sentence)
        options = to_tyro(inner, None if initial is MISSING else initial, place.without)
        about = {"heading": heading, "sentence": sentence, "rare": RARE in extras}
        others = [extra for extra in extras if not isinstance(extra, Rare | Block)]
        about["prefix"] = tyro.conf.OmitArgPrefixes not in extras
        return one.name, Annotated[(options, *others, box)], field(metadata=about)
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
