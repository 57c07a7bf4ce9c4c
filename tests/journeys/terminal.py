"""A user's terminal, and a person who fills in sheets."""

import csv
import io
import re
import runpy
import shlex
import sys
import warnings
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from al_ray.cli._shared.entry import al_ray
from tests.guides import ROOT

Row = dict[str, str]


@dataclass
class Terminal:
    """Commands and programs in a folder, in this process and on its Ray: a Ray for each would take minutes."""

    folder: Path
    given: list[str] = field(default_factory=list)

    def run(self, command: str) -> str:
        """Run `python -m jobs.NAME ...` or `al-ray NAME ...`; return what it prints. It must end with exit code 0.

        `...` at the end stands for the other options of the last command that begins so.
        """
        if command.endswith(" ..."):
            command = [line for line in self.given if line.startswith(command.removesuffix("..."))][-1]
        self.given.append(command)
        match shlex.split(command):
            case ["al-ray", *words]:
                return self._printed(al_ray, ["al-ray", *words])
            case ["python", "-m", module, *words]:
                path = ROOT / f"{module.replace('.', '/')}.py"
                return self._printed(lambda: runpy.run_module(module, run_name="__main__"), [str(path), *words])
        raise AssertionError(f"{command} is no command of the project")

    def execute(self, program: str) -> str:
        """Run a program and return what it prints."""
        return self._printed(lambda: exec(compile(program, "program", "exec"), {}), ["program"])

    def _printed(self, work: Callable[[], object], arguments: list[str]) -> str:
        printed, code = io.StringIO(), None
        with pytest.MonkeyPatch.context() as patch, chdir(self.folder), redirect_stdout(printed):
            patch.setattr(sys, "argv", arguments)
            with warnings.catch_warnings():
                # A short program leaves its files for Python to close.
                warnings.simplefilter("ignore", ResourceWarning)
                try:
                    work()
                except SystemExit as end:
                    code = end.code
        assert not code, f"{arguments} ended with {code}: {printed.getvalue()}"
        return printed.getvalue()


def fill(sheet: Path, answer: Callable[[Row], str], most: int | None = None) -> list[str]:
    """Answer the open rows of a sheet, at most `most`, and save it as a spreadsheet does; return the answers."""
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    asked = [row for row in rows if not row["label"]][:most]
    for row in asked:
        row["label"] = answer(row)
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return [row["label"] for row in asked]


def numbers(line: str) -> list[float]:
    """Return the numbers of a printed line; percentages as shares, also those of "5% (3 to 8)"."""
    line = re.sub(r"% \((\S+) to (\S+)\)", r"% (\1% to \2%)", line)
    found = re.findall(r"(?<![\w.])(-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?)(%?)", line)
    return [float(number.replace(",", "")) / (100 if percent else 1) for number, percent in found]
