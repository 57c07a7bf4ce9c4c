"""The options of a command in groups, read from the type that is given to tyro."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

GENERAL = "general"
"""The group of options that have no heading."""


@dataclass(frozen=True)
class Option:
    """An option of a command, as --help shows it."""

    path: str
    """The field, with dots: training.learning_rate."""
    flags: tuple[str, ...]
    """--option, and --no-option of a switch; none of a positional argument."""
    value: str
    """What is given after the flag: INT; "" of a switch."""
    sentence: str
    hint: str
    """The default and the bounds, in brackets, or (required)."""
    required: bool
    rare: bool
    """Whether --help all alone shows it."""

    @property
    def usage(self) -> str:
        """The flags and the value, as on a command line."""
        return " ".join(filter(None, (", ".join(self.flags), self.value)))


@dataclass(frozen=True)
class OptionGroup:
    """The options under a heading, those that are rarely needed included."""

    name: str
    sentence: str
    """What they are about, or ""."""
    options: tuple[Option, ...]

    @property
    def usual(self) -> tuple[Option, ...]:
        """The options that are not rarely needed."""
        return tuple(option for option in self.options if not option.rare)


def subcommands(kind: Any) -> dict[str, Any]:
    """Return the subcommands of a type that `to_tyro` made, by name; {} of one without."""
    if get_origin(kind) not in (Union, UnionType):
        return {}
    return {_name(member): _unwrapped(member)[0] for member in get_args(kind)}


def option_groups(kind: Any) -> list[OptionGroup]:
    """Return the groups of a dataclass that `to_tyro` made, in the order of its fields, the general one first."""
    sentences, options = {GENERAL: ""}, {GENERAL: list[Option]()}
    for name, sentence, option in _options(kind, GENERAL, "", "", False):
        sentences[name] = sentences.get(name, "") or sentence
        options.setdefault(name, []).append(option)
    return [OptionGroup(name, sentences[name], tuple(members)) for name, members in options.items() if members]


def _options(kind: Any, name: str, sentence: str, prefix: str, rare: bool) -> Iterator[tuple[str, str, Option]]:
    """Yield each option of a dataclass with the name and the sentence of its group.

    prefix: of the options, "training." for example. rare: whether all of them are rarely needed.
    """
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        about, (inner, extras) = one.metadata, _unwrapped(hints[one.name])
        seldom = rare or about.get("rare", False)
        if "prefix" in about:
            deeper = f"{prefix}{one.name}." if about["prefix"] else prefix
            group = about["heading"] or f"{prefix}{one.name}".replace("_", "-")
            yield from _options(inner, group, about.get("sentence", ""), deeper, seldom)
        elif tyro.conf.Suppress not in extras:
            yield name, sentence, _option(one, hints[one.name], prefix, seldom)


def _option(one: Field[Any], hint: Any, prefix: str, rare: bool) -> Option:
    """Return an option from its field, whose type has what tyro needs."""
    path, (inner, extras) = f"{prefix}{one.name}", _unwrapped(hint)
    name, required = path.replace("_", "-"), one.default is MISSING
    if inner is bool:
        head, _, last = name.rpartition(".")
        flags, value, shown = (f"--{name}", f"--{head}{'.' if head else ''}no-{last}"), "", str(one.default)
    else:
        made = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(hint, {tyro.conf.DisallowNone}))
        assert isinstance(made, PrimitiveConstructorSpec), f"{name}: tyro cannot read {hint}"
        positional = tyro.conf.Positional in extras
        flags, value = () if positional else (f"--{name}",), one.name.upper() if positional else made.metavar
        shown = "" if required else " ".join(map(shlex.quote, map(str, made.str_from_instance(one.default))))
    limits = "(required)" if required else one.metadata["hint"](shown)
    return Option(path, flags, value, one.metadata["sentence"], limits, required, rare)


def _unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without its annotations, and these."""
    return (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())


def _name(member: Any) -> str:
    """Return the name of a subcommand: the one that it is given, or that of its class in tyro's form."""
    inner, extras = _unwrapped(member)
    given = [extra.name for extra in extras if getattr(extra, "name", None)]
    return given[0] if given else re.sub(r"(?<=[a-z])(?=[A-Z])", "-", inner.__name__).lower()
