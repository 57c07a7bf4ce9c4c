"""The options of serve as arguments in a config file of Ray Serve."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from al_ray.apps.serving.options import ServeOptions
from al_ray.core.errors import BadOption
from al_ray.datasets.tables.format_options import stored_table
from al_ray.storage.uri import storage_path

PATHS = {"model": storage_path, "known": stored_table}


def options_of(arguments: Mapping[str, Any]) -> ServeOptions:
    """Return the options that the arguments of a config file give; BadOption with the name of a wrong one."""
    hints = get_type_hints(ServeOptions, include_extras=True)
    unknown = sorted(set(arguments) - set(hints))
    if unknown:
        raise BadOption(f"args: {unknown[0]} is no option of `al_ray.ServeOptions`; see `al-ray serve --help`")
    required = [one.name for one in fields(ServeOptions) if one.default is MISSING]
    missing = [name for name in required if name not in arguments]
    if missing:
        raise BadOption(f"args: {missing[0]} is not given; give {', '.join(required)}")
    content = dict[str, Any]()
    for name, value in arguments.items():
        given = PATHS[name](value) if name in PATHS and isinstance(value, str) else value
        adapter = TypeAdapter[Any](hints[name], config={"arbitrary_types_allowed": True})
        try:
            content[name] = adapter.validate_python(given)
        except ValidationError as error:
            raise BadOption(f"args: {name}: {error.errors()[0]['msg']}") from error
    return ServeOptions(**content)
