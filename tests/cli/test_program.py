"""How the process of a command ends: with the command's code, whatever destructors of libraries would do."""

import subprocess
import sys

import pytest

from al_ray.cli._shared.entry import as_called, job
from al_ray.core.errors import DryRun

# A destructor that aborts, as Ray's of its exporter of figures did.
PROGRAM = """
import atexit, ctypes, sys
from al_ray.cli._shared.entry import run_process

libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
atexit.register(print, "at exit")

def main():
    print("done")
    sys.exit(CODE)

run_process(main)
"""


@pytest.mark.parametrize(("code", "status"), [("None", 0), ("0", 0), ("3", 3)])
def test_a_command_that_has_ended_is_not_aborted_by_destructors(code, status):
    command = [sys.executable, "-c", PROGRAM.replace("CODE", code)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (status, "done\nat exit\n"), ended.stderr


@pytest.mark.parametrize(
    ("called", "shown"),
    [
        ("al-ray run", "al-ray match --model runs/jobs.run"),
        ("python -m al_ray run", "python -m al_ray match --model runs/jobs.run"),
        ("python -m jobs.run", "python -m jobs.match --model runs/jobs.run"),
        ("/home/me.d/jobs/run.py", "python -m jobs.match --model runs/jobs.run"),
    ],
)
def test_a_command_is_shown_in_the_form_in_which_this_one_was_called(monkeypatch, called, shown):
    monkeypatch.setattr(sys, "argv", [called, "--out", "runs/jobs.run"])
    assert as_called("python -m jobs.match --model runs/jobs.run") == shown


def test_a_dry_run_is_shown_and_is_no_error(capsys):
    def main() -> None:
        raise DryRun("what would be bought")

    job(main)
    assert capsys.readouterr().out == "what would be bought\n"
