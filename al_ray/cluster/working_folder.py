"""Workers work in the driver's folder: options may be relative to it, and Ray may have been started in another one."""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any


def working_folder() -> str:
    """Return the folder in which this process works; "" if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def work_in(folder: str) -> None:
    """Work in a folder from now on, if this machine has it."""
    with suppress(OSError):
        os.chdir(folder)


def working_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function or generator function so that another process calls it in the folder of this one."""
    here = working_folder()

    @wraps(function)
    def answered(*arguments: Any) -> Any:
        work_in(here)
        return function(*arguments)

    @wraps(function)
    def yielded(*arguments: Any) -> Iterator[Any]:
        work_in(here)
        yield from function(*arguments)

    return yielded if inspect.isgeneratorfunction(function) else answered
