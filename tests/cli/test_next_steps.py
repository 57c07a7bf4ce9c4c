"""`al-ray` without a command: the next steps in a folder, from its tasks and runs, however broken others are."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from al_ray.api.folders import MOST_FOLDERS
from al_ray.cli._shared import entry
from al_ray.cli._shared.next_steps import START, Step, next_steps
from al_ray.cli.run import parse_arguments
from al_ray.core.labels import Batch
from al_ray.core.pairs import NO_PAIRS
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import opened
from tests.apps.reporting.made_runs import CONFIG, made_run


@pytest.fixture
def place(tmp_path, monkeypatch, make_task) -> Path:
    """The current folder, with one task in tasks/, whose texts are of one set."""
    monkeypatch.chdir(tmp_path)
    write_task(make_task(True), Path("tasks/small"), {})
    return tmp_path


def run_of(task: str, out: str, complete: bool = True, **options: object) -> None:
    """A run of three rounds, all complete, or the first one alone."""
    config = replace(CONFIG, task=task, **options)
    made_run(Path(out), read_task(Path(task)), config, ((3, 9), (1, 4), (0, 1)) if complete else ((3, 9),))


def choose(run: str, number: int = 2) -> None:
    """The pairs of a round, which have no labels yet."""
    config = json.loads(Path(run, "config.json").read_text())
    task = read_task(Path(config["task"]))
    with opened(Path(run), task) as folder:
        space = task.split("train").space
        pairs = space.pairs(space.at(np.arange(3) * 50 + 40))
        folder.ledger.add_batch(number, Batch(pairs, np.full(3, 0.5), "uncertainty"))


def written(path: str, when: int) -> None:
    """Let the files of a run, or of a task, be from second `when`."""
    for name in ("config.json", "state.json", "task.json"):
        if Path(path, name).exists():
            os.utime(Path(path, name), (when, when))


def commands(folder: Path = Path()) -> list[str]:
    """The commands of the next steps, each of which its command can parse."""
    steps = next_steps(folder)
    assert 0 < len(steps) <= 3
    for step in steps:
        assert step.words.endswith(":")
        _, _, job, *words = shlex.split(step.command)
        name = job.removeprefix("jobs.")
        if name == "run":
            assert parse_arguments(words)
        elif "--help" not in words:
            assert entry.parse_options(import_module(f"al_ray.cli.{name}").OPTIONS, name, "", words)
    return [step.command.removeprefix("python -m jobs.") for step in steps]


def test_a_folder_without_tasks_and_runs_has_the_demonstration_first(tmp_path):
    assert next_steps(tmp_path) == [Step(*one) for one in START]
    assert commands(tmp_path)[0] == "demo"
    assert commands(tmp_path / "missing")[0] == "demo"


def test_a_task_without_a_run_is_run(place):
    run = "run --task tasks/small --out runs/small --first-batch 128 --evaluation.splits dev"
    assert commands() == [run, "plan --task tasks/small"]
    Path("runs/small").mkdir(parents=True)
    assert commands()[0] == run.replace("runs/small", "runs/small-2")


def test_people_label_a_task_whose_matches_are_not_all_known(place, make_task):
    task = make_task(False)
    none = {name: replace(split, positives=NO_PAIRS) for name, split in task.splits.items()}
    write_task(replace(task, splits=none), Path("tasks/unknown"), {"text_columns": "name,maker"})
    about = json.loads(Path("tasks/unknown/task.json").read_text())
    assert about["splits"]["train"]["positives"] == 0
    written("tasks/small", 1)
    assert commands()[0] == (
        "run --task tasks/unknown --out runs/unknown --recipe records --oracle page --first-batch 60 --rounds 5 "
        "--evaluation.splits"
    )


def test_a_complete_run_matches_the_texts_of_its_task(place, make_task):
    run_of("tasks/small", "runs/first")
    assert commands() == ["match --model runs/first --left tasks/small --at-boundary --out matches/first"]
    # Between two sets of texts no cutoff is needed; a task that has a run is not run again.
    write_task(make_task(False), Path("tasks/two"), {})
    run_of("tasks/two", "runs/two")
    written("runs/first", 1)
    assert commands()[0] == "match --model runs/two --left tasks/two --out matches/two"
    assert commands()[1] == "match --model runs/first --left tasks/small --at-boundary --out matches/first"


def test_a_run_whose_pairs_wait_for_people_comes_first(place):
    run_of("tasks/small", "runs/done")
    run_of("tasks/small", "runs/waits", complete=False, oracle="file")
    choose("runs/waits")
    run_of("tasks/small", "runs/on the page", complete=False, oracle="page")
    choose("runs/on the page")
    written("runs/waits", 1)
    assert commands()[0] == "run --config 'runs/on the page' --out 'runs/on the page'"
    written("runs/on the page", 1)
    written("runs/waits", 2)
    assert commands() == [
        "annotate --run runs/waits",
        "match --model runs/done --left tasks/small --at-boundary --out matches/done",
        "run --config 'runs/on the page' --out 'runs/on the page'",
    ]
    assert "runs/waits waits for labels of people" in next_steps(Path())[0].words


def test_a_run_that_a_program_labels_is_resumed(place):
    run_of("tasks/small", "runs/half", complete=False)
    choose("runs/half")
    assert commands()[0] == "run --config runs/half --out runs/half"
    assert next_steps(Path())[0].words == "runs/half has 1 of its 3 rounds; resume it:"
    run_of("tasks/small", "runs/llm", complete=False, oracle="llm")
    written("runs/half", 1)
    assert commands()[0].startswith("run --config runs/llm --out runs/llm --llm.model MODEL")


def test_a_run_that_a_limit_ended_is_complete(place):
    run_of("tasks/small", "runs/half", complete=False)
    Path("runs/half/ended.json").write_text(json.dumps({"round": 1, "why": "--stop.labels"}))
    assert commands()[0].startswith("match --model runs/half ")


def test_the_folder_itself_may_be_a_task_or_a_run(place):
    run_of("tasks/small", "runs/half", complete=False, oracle="file")
    choose("runs/half")
    assert commands(place / "tasks/small")[0].startswith("run --task . --out ../runs/small ")
    assert commands(place / "runs/half") == ["annotate --run ."]
    assert commands(place / "runs")[0] == "annotate --run half"


NO_RUNS = ("{", "[]", "7", '{"task_digest": 3}', "[" * 100_000, '{"model_type": "bert"}', "\0")
WRONG_TASKS = ({"splits": 3}, {"splits": {}}, {"provenance": [1]}, {"format": 9}, {"labels_are": 1})


def test_what_is_broken_or_foreign_is_left_out(place):
    run_of("tasks/small", "runs/good")
    expected, task = commands(), json.loads(Path("tasks/small/task.json").read_text())
    for number, content in enumerate(NO_RUNS):
        for name in ("config.json", "task.json"):
            Path(f"runs/broken-{number}-{name}").mkdir()
            Path(f"runs/broken-{number}-{name}", name).write_text(content)
    for number, wrong in enumerate(WRONG_TASKS):
        Path(f"tasks/wrong-{number}").mkdir()
        Path(f"tasks/wrong-{number}/task.json").write_text(json.dumps({**task, "digest": "d", **wrong}))
    good = Path("runs/good/config.json").read_text()
    Path("runs/large").mkdir()
    Path("runs/large/config.json").write_text(good + " " * 2**20)
    Path("runs/half").mkdir()
    Path("runs/half/config.json").write_text(good)
    Path("runs/half/state.json").write_text('{"round": "x"}')
    Path("runs/good\x1b[31m").symlink_to(Path("runs/good").resolve())
    Path("runs/loop").symlink_to(place)
    Path("runs/-x").symlink_to(Path("runs/good").resolve())
    Path("config.json").mkdir()
    assert commands() == expected


def test_a_folder_that_cannot_be_read_is_left_out(place):
    run_of("tasks/small", "runs/good")
    expected = commands()
    Path("runs/closed").mkdir()
    Path("runs/closed/task.json").symlink_to("task.json")
    assert commands() == expected


def test_of_many_folders_some_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(MOST_FOLDERS + 50):
        Path(f"{number:04d}").mkdir()
    Path("runs").write_text("a file")
    assert commands()[0] == "demo"


def test_al_ray_without_a_command_prints_the_steps_and_how_to_get_help(place, monkeypatch, capsys):
    run_of("tasks/small", "runs/first")
    monkeypatch.setattr(sys, "argv", ["al-ray"])
    entry.al_ray()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "What you can do next here:",
        "",
        "runs/first is complete; find the matches among the texts of its task:",
        "  al-ray match --model runs/first --left tasks/small --at-boundary --out matches/first",
        "",
        "All commands: al-ray --help",
    ]
    monkeypatch.setattr(sys, "argv", ["/there/jobs/__main__.py"])
    entry.al_ray()
    assert "  python -m jobs.match --model runs/first " in capsys.readouterr().out


COMPLETE = """
source "$1"
COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_tyro_al_ray
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    """The file of the completion of bash, as the command prints it."""
    path = tmp_path_factory.mktemp("completion") / "al-ray"
    command = [sys.executable, "-m", "al_ray", "--print-completion", "bash"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    path.write_text(printed.stdout)
    return path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("al-ray au", {"audit", "augment"}),
        ("al-ray labels e", {"export"}),
        ("al-ray run --rounds 3 --stop.", {f"--stop.{name}" for name in ("labels", "hours", "patience", "gain")}),
        ("al-ray run --search.kind e", {"exact"}),
        ("al-ray audit sample --by-s", {"--by-score"}),
        ("al-ray run --training.eps", {"--training.epsilon"}),
    ],
)
def test_bash_completes_commands_options_and_values(script, line, offered):
    command = ["bash", "-c", COMPLETE, "bash", str(script), line]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert offered <= set(ended.stdout.splitlines()), ended.stderr
    assert len(ended.stdout.splitlines()) < 20


@pytest.mark.parametrize("shell", ["", "tcsh", "--help"])
def test_completion_for_another_shell_is_an_error(shell, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["al-ray", "--print-completion", *filter(None, [shell])])
    with pytest.raises(SystemExit) as stop:
        entry.al_ray()
    assert stop.value.code == 2
    assert "--print-completion needs the name of a shell; give one of bash, zsh, fish" in capsys.readouterr().err
