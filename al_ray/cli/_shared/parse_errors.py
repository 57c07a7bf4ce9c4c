"""Messages of tyro on options that it cannot read, as one line."""

import re
from collections.abc import Iterator

HELP = "For full helptext, "
MISREAD = re.compile(r"Error parsing (\S+): no type matching (\S+) could be instantiated from \[(.*?)\].*")
NO_NUMBER = re.compile(r"Error parsing (\S+): (invalid literal for int|could not convert string to float)[^:]*: (.*)")
KINDS = {"INT": "a whole number", "invalid literal for int": "a whole number"}
KINDS |= {"FLOAT": "a number", "could not convert string to float": "a number"}
"""Words for the values that an option takes."""


def one_line(shown: str) -> str:
    """Return a message of tyro as one line: its parts, which rules divide, with semicolons between them.

    shown: a box, or a title and indented lines if the encoding has no box characters. Left out are the help of options,
    and values where options are listed that do not exist.
    """
    lines = shown.splitlines()
    inside = [line for line in lines if line.startswith("│")] or lines[1:]
    parts = list(filter(None, map(_part, _parts(line[1:].rstrip(" │") for line in inside))))
    misread = (MISREAD.fullmatch(parts[0]) or NO_NUMBER.fullmatch(parts[0])) if parts else None
    if misread is not None:
        option, kinds, value = misread.groups()
        told = [KINDS.get(kind, kind.strip("{}").replace(",", ", ")) for kind in kinds.split("|")]
        # The parts between say for each kind why the value is none.
        parts = [f"{option} is {value}; give {' or '.join(told)}", parts[-1]]
    return "; ".join(parts)


def _parts(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield the lines of each part."""
    part = list[str]()
    for line in lines:
        if line.strip(" ─-"):
            part.append(line)
        elif part:
            yield part
            part = []
    if part:
        yield part


def _part(lines: list[str]) -> str:
    """Return a part as one line; options are indented by 5 characters, and their help by 9."""
    first = lines[0].strip()
    if first.startswith("Argument helptext"):
        return ""
    words = " ".join(line.strip() for line in lines if not line.startswith(" " * 5))
    options = [line.strip() for line in lines if line.startswith(" " * 5) and not line.startswith(" " * 9)]
    if first.startswith(HELP):
        return f"see {' '.join([*words.removeprefix(HELP).split()[1:], *options])}"
    return _without_values(" ".join([words, ", ".join(options)]).strip()).partition(" Got errors: ")[0].rstrip(".")


def _without_values(words: str) -> str:
    """Return a list of options that do not exist without the values after them."""
    said, colon, listed = words.partition(" options: ")
    names = [name for name in listed.split(", ") if name.startswith("-")]
    return f"{said}{colon}{', '.join(names)}" if said.startswith("Unrecognized") and names else words
