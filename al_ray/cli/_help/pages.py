"""The pages of --help: the first one of a command, and those of its groups."""

import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from al_ray.cli._help.groups import GENERAL, Option, OptionGroup, option_groups
from al_ray.cli._help.screens import SCREENS

FLAGS = ("-h", "--help")
ALL = "all"
"""The word after --help for every option."""
WIDEST, NARROWEST = 100, 60
"""Bounds of the columns of a page."""
MOST_OPTIONS = 10
"""Options of a first page."""
COLUMN = 26
"""Where the sentences of the first page begin."""


def wants_help(arguments: Sequence[str]) -> bool:
    """Return whether a command line asks for help."""
    return bool(set(FLAGS) & set(arguments))


def topic_of(arguments: Sequence[str]) -> str:
    """Return the word after --help, "" without one."""
    place = min(arguments.index(flag) for flag in FLAGS if flag in arguments)
    word = "".join(arguments[place + 1 : place + 2])
    return "" if word.startswith("-") else word


@dataclass(frozen=True)
class Page:
    """What the pages of a command need.

    program: what the user typed, such as `al-ray run`. name: of the command in SCREENS. options: the type of `to_tyro`.
    as_called: replaces `python -m jobs.` in a text by what the user types.
    """

    program: str
    name: str
    description: str
    options: Any
    as_called: Callable[[str], str]

    @property
    def groups(self) -> list[OptionGroup]:
        """The groups that --help can name: those that have an option which is not rarely needed."""
        return [group for group in option_groups(self.options) if group.usual]

    def first(self) -> str:
        """Return the first page: what the command does, examples, at most ten options, and a line for each group."""
        groups = self.groups
        by_path = {option.path: option for group in groups for option in group.options}
        screen = SCREENS.get(self.name)
        general = next((group.usual for group in groups if group.name == GENERAL), ())
        named = screen.first.split() if screen else []
        options = [by_path[path] for path in named] if named else general[:MOST_OPTIONS]
        required = sorted((option for option in by_path.values() if option.required), key=lambda one: bool(one.flags))
        usage = " ".join([f"usage: {self.program} [-h]", *(option.usage for option in required), "[OPTIONS]"])
        lines = [*_folded(usage, 0, ""), ""]
        lines += [*_wrapped(self.description, 0), *self._examples(), "", "options:"]
        lines += [line for option in options for line in _brief(option)]
        if sum(len(group.options) for group in option_groups(self.options)) > len(options):
            lines += ["", "groups of options, with their number:", *self._group_lines(options)]
        return "\n".join(lines)

    def of_group(self, group: OptionGroup) -> str:
        """Return the page of a group: each option with all that there is to say."""
        lines = [f"{self.program}: {group.name} options", *_wrapped(group.sentence, 0), ""]
        for option in group.usual:
            usage, *more = _wrapped(option.usage, 2)
            lines += [usage, *("  " + line for line in more), *_wrapped(f"{option.sentence} {option.hint}", 8)]
        if rare := len(group.options) - len(group.usual):
            lines += ["", f"{rare} more that few people need: {self.program} --help {ALL}"]
        return "\n".join(lines)

    def of_commands(self, members: dict[str, Any]) -> str:
        """Return the page of a command that has subcommands."""
        lines = [*_folded(f"usage: {self.program} [-h] {{{','.join(members)}}} [OPTIONS]", 0, ""), ""]
        lines += [*_wrapped(self.description, 0), *self._examples(), "", "commands:"]
        for name, kind in members.items():
            lines += _columns(name, " ".join((kind.__doc__ or "").split()), 2)
        return "\n".join([*lines, "", f"Options of a command: {self.program} COMMAND --help"])

    def _examples(self) -> list[str]:
        screen = SCREENS.get(self.name)
        if screen is None:
            return []
        lines = [line for example in screen.examples for line in _folded(self.as_called(example), 2, " \\")]
        return ["", "examples:", *lines]

    def _group_lines(self, shown: Sequence[Option]) -> Iterator[str]:
        """Yield a line for each group: its name, its number of options, and what they are about."""
        for group in self.groups:
            rest = [option.flags[0] for option in group.usual if option not in shown and option.flags]
            about = group.sentence or ", ".join(rest) or "all above"
            yield from _columns(f"{group.name} ({len(group.usual)})", about, 1)
        yield ""
        rare = sum(len(group.options) - len(group.usual) for group in option_groups(self.options))
        seldom = f", {rare} rarely needed ones included" if rare else ""
        yield from _wrapped(f"--help GROUP shows the options of a group, --help {ALL} every option{seldom}.", 0)


def width() -> int:
    """Return the number of columns of a page: those of the terminal, within bounds."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))


def _wrapped(text: str, indent: int) -> list[str]:
    """Return a text in lines; a word that is longer than a line is not broken."""
    room = width() - indent
    lines = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False)
    return [" " * indent + piece for line in lines for piece in _choices(line, room)]


def _choices(line: str, room: int) -> Iterator[str]:
    """Yield a line in pieces of at most `room` characters, cut after commas: a list of choices has no spaces."""
    while len(line) > room and "," in line[:room]:
        end = line.rindex(",", 0, room) + 1
        yield line[:end]
        line = line[end:]
    yield line


def _folded(line: str, indent: int, end: str) -> list[str]:
    """Return a command line in lines, cut before options. end: of all lines but the last, such as a backslash."""
    if len(line) + indent <= width():
        return [" " * indent + line]
    lines = [""]
    for piece in re.split(r" (?=--|\[OPTIONS)", line):
        longer = f"{lines[-1]} {piece}".strip()
        if lines[-1] and len(longer) + indent + 4 + len(end) > width():
            lines.append(piece)
        else:
            lines[-1] = longer
    last = len(lines) - 1
    return [f"{' ' * (indent + 4 * bool(at))}{one}{end * (at < last)}" for at, one in enumerate(lines)]


def _brief(option: Option) -> list[str]:
    """Return an option in at most two lines: its first sentence, as far as there is room, and its default."""
    usage = " ".join(filter(None, (option.flags[0] if option.flags else "", option.value)))
    first = option.sentence.partition(". ")[0].rstrip(".") + "."
    if len(usage) <= COLUMN - 4:
        return _columns(usage, first, 2, option.hint)
    cut = usage if len(usage) <= width() - 2 else f"{usage[: usage.rindex(',', 0, width() - 6)]},...}}"
    return [f"  {cut}", *_columns("", first, 2, option.hint)]


def _columns(left: str, text: str, most: int, end: str = "") -> list[str]:
    """Return a name and a text beside it, in at most `most` lines; "..." stands for what there is no room for.

    end: follows the text in any case.
    """
    words, room = text.split(), width() - COLUMN
    texts = (f"{_shortened(words, count)} {end}" for count in range(len(words), -1, -1))
    layouts = (textwrap.wrap(one, room, break_on_hyphens=False, break_long_words=False) for one in texts)
    lines = next((lines for lines in layouts if len(lines) <= most), [end])
    first = f"  {left:<{COLUMN - 2}}{''.join(lines[:1])}".rstrip()
    return [first, *(" " * COLUMN + line for line in lines[1:])]


def _shortened(words: Sequence[str], count: int) -> str:
    """Return the first words of a text, with "..." unless they are all."""
    if count == len(words) or not count:
        return " ".join(words[:count])
    return " ".join(words[:count]).rstrip(".,:;(") + "..."
