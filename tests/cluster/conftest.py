"""What tests of runs on a cluster share."""

import shlex
import sys
from collections.abc import Callable
from typing import Any

import pytest

from al_ray.cli._shared import entry


@pytest.fixture
def call(in_process, tmp_path, monkeypatch, capsys) -> Callable[[Any, str], tuple[int, str]]:
    """The function that runs a command in an empty folder: `call(module, line)` gives its exit code and what it prints.

    A module judge.py in that folder is the one that --oracle judge:label loads.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "judge", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def run(module: Any, line: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [f"al-ray {module.__name__.rpartition('.')[2]}", *shlex.split(line)])
        try:
            entry.job(module.main)
        except SystemExit as stop:
            return int(stop.code or 0), capsys.readouterr().err
        return 0, capsys.readouterr().out

    return run
