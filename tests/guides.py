"""The code that README.md and the pages of docs/ show, as a reader types it, and the output that they show."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def blocks(page: str, heading: str) -> list[str]:
    """Return the fenced blocks below a heading (given with its #), up to the next heading of its level or above."""
    text = (ROOT / page).read_text(encoding="utf-8")
    # A comment of a program is no heading: the # of blocks become blanks, so that places stay the same.
    prose = re.sub(r"^```.*?^```$", lambda it: it[0].replace("#", " "), text, flags=re.MULTILINE | re.DOTALL)
    level = len(heading.partition(" ")[0])
    section = re.search(rf"^{re.escape(heading)}$.*?(?=^#{{1,{level}}} |\Z)", prose, re.MULTILINE | re.DOTALL)
    assert section is not None, f"{page} has no heading {heading}"
    return re.findall(r"^```\w*\n(.*?)^```$", text[section.start() : section.end()], re.MULTILINE | re.DOTALL)


def block(page: str, heading: str, first: str) -> str:
    """Return the block below a heading that begins with these words."""
    (found,) = [text for text in blocks(page, heading) if text.startswith(first)]
    return found


def commands(text: str) -> list[str]:
    """Return the commands of a block: lines after "$ ", or all if none has it. Continued lines are one; no comments."""
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.replace("\\\n", " ").splitlines()]
    marked = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [" ".join(line.split()) for line in marked or lines if line]


def outputs(text: str) -> list[str]:
    """Return what a block shows below each of its commands."""
    return [part.replace("\\\n", " ").partition("\n")[2] for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]


def as_shown(shown: str, printed: str) -> bool:
    """Whether an output is the shown one, which may be wrapped, and has "..." where it leaves something out."""
    parts = [re.escape(" ".join(part.split())) for part in shown.split("...")]
    return re.fullmatch(r"\s*.*".join(parts), " ".join(printed.split())) is not None
