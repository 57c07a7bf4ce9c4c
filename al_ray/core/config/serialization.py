"""Options as nested plain values, as config.json holds them, and back; and the options of a base class alone."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from al_ray.core.errors import BadOption

Part = TypeVar("Part")


def part(config: Any, kind: type[Part]) -> Part:
    """Return the fields of `kind` of a config that has them all, as an options class has those of its bases."""
    return kind(**{f.name: getattr(config, f.name) for f in fields(cast(Any, kind))})


def as_dict(config: Any) -> dict[str, Any]:
    """A config -> nested plain values, as config.json holds them."""
    return {
        f.name: as_dict(value)
        if is_dataclass(value)
        else list(cast(tuple[Any, ...], value))
        if isinstance(value, tuple)
        else value
        for f in fields(config)
        for value in [getattr(config, f.name)]
    }


def from_dict(kind: type[Any], content: Any) -> Any:
    """Nested plain values -> a config; BadOption for a name that it does not know, or a value of another type."""
    if not isinstance(content, dict):
        raise BadOption(f"{kind.__name__} is {content!r}, not options by name")
    found = cast(dict[str, Any], content)
    known, types = {f.name: f for f in fields(kind)}, get_type_hints(kind)
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise BadOption(f"{kind.__name__} has no option {', '.join(unknown)}; was the file made by another version?")
    lacking = [f.name for f in fields(kind) if f.name not in found and f.default is f.default_factory is MISSING]
    if lacking:
        raise BadOption(f"{kind.__name__} lacks {', '.join(lacking)}")
    values: dict[str, Any] = {}
    for name, value in found.items():
        if is_dataclass(types[name]):
            values[name] = from_dict(types[name], value)
            continue
        values[name] = tuple(cast(list[Any], value)) if isinstance(value, list) else value
        if not fits(values[name], types[name]):
            raise BadOption(f"{name} is {value!r}, which is no value of it")
    return kind(**values)


def fits(value: Any, kind: Any) -> bool:
    """Whether a plain value is of a field's type; a whole number serves as any number."""
    origin = get_origin(kind)
    if origin is Literal:
        return value in get_args(kind)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in get_args(kind))
    if origin is tuple:
        return isinstance(value, tuple) and _all_fit(cast(tuple[Any, ...], value), get_args(kind))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _all_fit(values: tuple[Any, ...], kinds: tuple[Any, ...]) -> bool:
    """Whether the members of a tuple are of their types: of one, as many as there are, or of each of several."""
    each = kinds[:1] * len(values) if kinds[1:] == (...,) else kinds
    return len(values) == len(each) and all(fits(value, kind) for value, kind in zip(values, each, strict=True))


def differences(stands: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """`option: there, here` for each option that is not the same."""
    for name in {**stands, **wanted}:
        there, here = stands.get(name), wanted.get(name)
        if isinstance(there, dict) and isinstance(here, dict):
            yield from differences(cast(Any, there), cast(Any, here), f"{prefix}{name}.")
        elif there != here:
            yield f"{prefix}{name}: {there!r} there, {here!r} here"
