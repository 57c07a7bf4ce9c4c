"""What options may be: bounds of numbers, and the words that name an oracle."""

from collections.abc import Iterable

from al_ray.core.errors import BadOption


def refuse_beyond(limits: Iterable[tuple[float | None, str, float, float]]) -> None:
    """(value, option, least, most): BadOption for a value that is beyond them or no number; None is in order."""
    for value, name, least, most in limits:
        if value is not None and not least <= value <= most:
            bound = f"at most {most:,.15g}" if value > most else f"at least {least:,.15g}"
            raise BadOption(f"{name} is {value}; give {bound}")


MODEL = "model:"
"""Before the path of a cross-encoder that is the oracle."""


def names_oracle(word: str) -> bool:
    """Whether a word is simulated, file, model:PATH or module:function."""
    if word.startswith(MODEL):
        return bool(word.removeprefix(MODEL).strip()) and "\0" not in word
    module, _, function = word.partition(":")
    dotted = all(part.isidentifier() for part in module.split("."))
    return word in ("simulated", "file") or (dotted and function.isidentifier())
