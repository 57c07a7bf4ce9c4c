"""The registry of commands: each has a module, a front for `ray job submit` and screens of help."""

from pathlib import Path

import al_ray.cli
from al_ray.cli._help.screens import SCREENS
from al_ray.cli._shared.called import OF_API
from al_ray.cli._shared.registry import COMMANDS

ROOT = Path(al_ray.cli.__file__).parents[2]
FRONT = '''"""python -m jobs.{name}: the command `al-ray {name}`, as `ray job submit` runs it."""

from al_ray.cli._shared.entry import run_process
from al_ray.cli.{name} import main

if __name__ == "__main__":
    run_process(main)
'''


def test_every_module_of_a_command_is_registered_and_no_other():
    assert sorted(path.stem for path in (ROOT / "al_ray" / "cli").glob("[a-z]*.py")) == sorted(COMMANDS)
    assert list(COMMANDS) == sorted(COMMANDS)


def test_every_command_has_its_front_and_there_is_no_other():
    fronts = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "jobs").glob("[a-z]*.py")}
    assert fronts == {name: FRONT.format(name=name) for name in COMMANDS}


def test_other_tables_of_commands_name_registered_ones():
    assert {name.partition(" ")[0] for name in SCREENS} == set(COMMANDS)
    assert {name.partition(" ")[0] for name in OF_API.values()} <= set(COMMANDS)
