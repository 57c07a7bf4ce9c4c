"""Every command refuses a relative --out in a submitted job, whose folder is temporary, before it reads anything."""

import re
import shlex
import sys
from importlib import import_module

import pytest

from al_ray.api.reports import report
from al_ray.api.tasks import prepare
from al_ray.cli._shared import entry
from al_ray.cli._shared.registry import COMMANDS
from al_ray.core.errors import BadOption
from al_ray.datasets.sources import Synthetic

# Command -> the other required options. None of these paths exists.
LINES = {
    "audit sample": "--run none",
    "audit estimate": "--audit none",
    "augment": "--gold stsb:none",
    "demo": "",
    "evaluate": "--run none",
    "export": "--model none --format onnx",
    "grid": "--task none",
    "labels export": "--run none",
    "match": "--model none --left none",
    "mine": "--task none",
    "paraphrase compare": "--runs none",
    "paraphrase search": "--run none --question q",
    "paraphrase train": "--task none",
    "prepare logs": "--source none",
    "prepare pairs": "--left none --text-columns a",
    "prepare qqp": "--source none",
    "prepare synthetic": "",
    "prepare wikiqa": "--source none",
    "report": "none",
    "reproduce": "table3 --task none",
    "run": "--task none",
    "train": "--task none --labels none",
}


def go(monkeypatch, name: str, line: str) -> None:
    monkeypatch.setattr(sys, "argv", [f"al-ray {name}", *shlex.split(line)])
    entry.job(import_module(f"al_ray.cli.{name}").main)


@pytest.mark.parametrize("command", LINES)
def test_a_relative_folder_is_refused(command, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    name, _, word = command.partition(" ")
    with pytest.raises(SystemExit) as stop:
        go(monkeypatch, name, f"{word} {LINES[command]} --out results")
    assert stop.value.code == 2
    assert "--out results is relative, and a submitted job's folder is thrown away" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_every_command_with_an_out_is_above(monkeypatch, capsys):
    def page(name: str, *words: str) -> str:
        with pytest.raises(SystemExit):
            go(monkeypatch, name, " ".join([*words, "--help"]))
        return capsys.readouterr().out

    monkeypatch.setenv("COLUMNS", "100")
    with_out = set[str]()
    for name in COMMANDS:
        commands = re.search(r"^usage: [^{]*\[-h\] \{([a-z,-]+)\}", page(name))
        for word in commands.group(1).split(",") if commands else [""]:
            if re.search(r"^  --out ", page(name, *word.split()), re.MULTILINE):
                with_out.add(f"{name} {word}".strip())
    assert with_out == set(LINES)


def test_the_functions_refuse_it_too(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    for write in (lambda: prepare(Synthetic(texts=60), "task"), lambda: report([tmp_path], "report")):
        with pytest.raises(BadOption, match="is relative"):
            write()
    assert list(tmp_path.iterdir()) == []
