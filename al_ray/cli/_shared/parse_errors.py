"""Messages of tyro on options that it cannot read, as one line."""

from collections.abc import Iterator

HELP = "For full helptext, "


def one_line(shown: str) -> str:
    """Return a message of tyro as one line: its parts, which rules divide, with semicolons between them.

    shown: a box, or a title and indented lines if the encoding has no box characters. Left out are the help of options,
    and values where options are listed that do not exist.
    """
    lines = shown.splitlines()
    inside = [line for line in lines if line.startswith("│")] or lines[1:]
    return "; ".join(filter(None, map(_part, _parts(line[1:].rstrip(" │") for line in inside))))


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
