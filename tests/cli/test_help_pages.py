"""The first page of help of every command and the pages of its groups, and that the two examples can be parsed."""

import re
import shlex
import sys
from importlib import import_module
from typing import Any

import pytest

from al_ray.cli._help.groups import OptionGroup, option_groups, subcommands
from al_ray.cli._help.screens import SCREENS
from al_ray.cli._shared import entry
from al_ray.cli._shared.help import to_tyro
from al_ray.cli._shared.registry import COMMANDS
from al_ray.core.config.bounds import RARE, annotations
from al_ray.core.config.sections import TrainingConfig

MOST_LINES, MOST_OPTIONS = 50, 10


def options_of(name: str) -> Any:
    return to_tyro(import_module(f"al_ray.cli.{name}").OPTIONS)


# "run", "labels", "labels status" and so on, each with the type of its options; None where it has subcommands.
KINDS: dict[str, Any] = {}
for one in COMMANDS:
    members = subcommands(options_of(one))
    KINDS |= {one: None if members else options_of(one)}
    KINDS |= {f"{one} {word}": kind for word, kind in members.items()}
WITH_OPTIONS = sorted(command for command, kind in KINDS.items() if kind is not None)


def page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, columns: int = 80) -> str:
    """What a command line prints that asks for help: `al-ray run --help`."""
    program, command, *words = line.rsplit("jobs.", 1)[-1].removeprefix("al-ray ").partition(" ")
    name = program
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "argv", [line.partition(name)[0] + name, *words[0].split()])
    assert command == " "
    with pytest.raises(SystemExit) as stop:
        import_module(f"al_ray.cli.{name}").main()
    assert stop.value.code == 0
    return capsys.readouterr().out


def flags_of(groups: list[OptionGroup], rare: bool = True) -> list[str]:
    """The flags of all options, or of those that are not rarely needed; a positional argument by its value."""
    options = [option for group in groups for option in (group.options if rare else group.usual)]
    return [option.flags[0] if option.flags else option.value for option in options]


def shown_first(text: str) -> list[str]:
    """The flags of the options of a first page."""
    rows = text.partition("\noptions:\n")[2].partition("\n\n")[0].splitlines()
    return [row.split()[0].rstrip(",") for row in rows if re.match(r"  \S", row)]


def test_every_command_has_a_first_page():
    assert set(SCREENS) == set(KINDS)
    assert len(KINDS) == 36


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("command", sorted(KINDS))
def test_a_first_page_fits_the_screen(command, columns, capsys, monkeypatch):
    text = page(capsys, monkeypatch, f"python -m jobs.{command} --help", columns)
    lines = text.splitlines()
    assert lines[0].startswith(f"usage: python -m jobs.{command} [-h] ")
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= columns
    assert "│" not in text
    shorter = page(capsys, monkeypatch, f"al-ray {command} -h", columns)
    assert len(shorter.splitlines()) <= len(lines)
    assert [line.strip() for line in shorter.splitlines() if line.startswith("  al-ray ")]
    assert "python -m" not in shorter


@pytest.mark.parametrize("command", sorted(KINDS))
def test_both_examples_of_a_command_can_be_parsed(command, capsys, monkeypatch):
    text = page(capsys, monkeypatch, f"al-ray {command} --help")
    examples = text.partition("\nexamples:\n")[2].partition("\n\n")[0].replace("\\\n", "").splitlines()
    assert len(examples) == 2
    for example in examples:
        program, name, *words = shlex.split(example)
        assert program == "al-ray"
        assert f"{name} {' '.join(words)}".startswith(command)
        assert entry.parse_options(import_module(f"al_ray.cli.{name}").OPTIONS, name, "", words)


@pytest.mark.parametrize("command", WITH_OPTIONS)
def test_a_first_page_has_the_required_options_and_names_each_group(command, capsys, monkeypatch):
    groups = option_groups(KINDS[command])
    text = page(capsys, monkeypatch, f"al-ray {command} --help")
    shown = shown_first(text)
    assert 0 < len(shown) <= MOST_OPTIONS
    assert len(set(shown)) == len(shown)
    assert set(shown) <= set(flags_of(groups, rare=False))
    required = {o.flags[0] if o.flags else o.value for group in groups for o in group.options if o.required}
    assert required <= set(shown)
    lines = text.partition("\ngroups of options, with their number:\n")[2].splitlines()
    if lines:
        named = {match[1]: int(match[2]) for line in lines if (match := re.match(r"  (\S+) \((\d+)\)", line))}
        assert named == {group.name: len(group.usual) for group in groups if group.usual}
    else:
        # All options are on the page.
        assert sorted(shown) == sorted(flags_of(groups))


@pytest.mark.parametrize("command", WITH_OPTIONS)
def test_every_option_but_the_rare_ones_is_in_one_group_and_all_are_on_the_page_of_all(command, capsys, monkeypatch):
    groups = option_groups(KINDS[command])
    every, usual = flags_of(groups), flags_of(groups, rare=False)
    in_groups: list[str] = []
    for group in groups:
        if group.usual:
            text = page(capsys, monkeypatch, f"al-ray {command} --help {group.name}")
            assert max(map(len, text.splitlines())) <= 80
            in_groups += [match[1] for match in re.finditer(r"^  (\S+?),?(?: |$)", text, re.MULTILINE) if match[1]]
            for option in group.usual:
                assert " ".join(f"{option.sentence} {option.hint}".split()) in " ".join(text.split())
    assert in_groups == usual
    text = page(capsys, monkeypatch, f"al-ray {command} --help all", 100)
    # tyro prints this page from the same type.
    printed = set(re.findall(r"^  (--[a-z][a-z0-9.-]*)", text, re.MULTILINE))
    assert printed - {"--help"} == {flag for flag in every if flag.startswith("--")}


def test_options_of_the_optimiser_and_of_other_losses_are_rare():
    rare = {name for name, extras in annotations(TrainingConfig).items() if RARE in extras}
    assert {"epsilon", "clip_norm", "bias_correction", "losses", "head"} <= rare
    assert not {"epochs", "learning_rate", "loss", "start"} & rare
    (training,) = [group for group in option_groups(KINDS["run"]) if group.name == "training"]
    assert {option.path.partition(".")[2] for option in training.options if option.rare} == rare - {"losses"}


def test_the_pages_say_how_to_see_the_rare_options(capsys, monkeypatch):
    # 13 of training, 8 of its losses, 4 of the search, 4 of the evaluation, 3 of candidates, 3 of the cluster, 4 of
    # experiments, 2 of the oracle and 1 of the page.
    assert "every option, 45 rarely needed" in page(capsys, monkeypatch, "al-ray run --help", 100)
    text = page(capsys, monkeypatch, "al-ray run --help training")
    assert text.splitlines()[-1] == "15 more that few people need: al-ray run --help all"
    assert "--training.epsilon" not in text
    assert "--training.epsilon" in page(capsys, monkeypatch, "al-ray run --help all")


def test_the_defaults_of_a_recipe_are_shown(capsys, monkeypatch):
    for recipe, epochs in (("paper", 2), ("tuned", 3)):
        text = page(capsys, monkeypatch, f"al-ray run --recipe {recipe} --help training", 100)
        assert f"every round (Table 7). (default: {epochs}; 1 to 100,000)" in " ".join(text.split())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run --help serch", "there is no group serch of the options of al-ray run; give one of general, encoder, "),
        ("labels status --help all2", "no group all2 of the options of al-ray labels status; give one of general, all"),
        ("labels --help statis", "there is no command statis of al-ray labels; give one of status, export, "),
        ("run --task t --help training.losses", "there is no group training.losses"),
    ],
)
def test_a_group_that_does_not_exist_is_an_error_that_names_the_groups(line, said, capsys, monkeypatch):
    name, *words = line.split()
    monkeypatch.setattr(sys, "argv", [f"al-ray {name}", *words])
    with pytest.raises(SystemExit) as stop:
        import_module(f"al_ray.cli.{name}").main()
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (text,) = captured.err.splitlines()
    assert said in text
    assert text.endswith("all")


def test_the_help_of_a_subcommand_can_be_asked_for_either_way(capsys, monkeypatch):
    text = page(capsys, monkeypatch, "al-ray labels export --help")
    assert text.startswith("usage: al-ray labels export [-h] --run PATH|URI --out PATH|URI")
    assert page(capsys, monkeypatch, "al-ray labels --help export") == text
    every = page(capsys, monkeypatch, "al-ray labels --help all", 100)
    assert every.count("usage: al-ray labels ") == 5
    assert "--escape-formulas" in every
    assert "--left-id" in every
