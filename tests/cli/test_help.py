"""Every page of --help: each option with a sentence, a default or `required`, under a heading."""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated

import pytest
import tyro

from al_ray.cli import audit
from al_ray.cli._help.groups import subcommands
from al_ray.cli._shared import entry
from al_ray.cli._shared.blocks import Block
from al_ray.cli._shared.help import to_tyro
from al_ray.cli._shared.registry import COMMANDS, PAPERS
from al_ray.core.config.bounds import Between, Group
from al_ray.core.config.encoder import EncoderOptions
from al_ray.core.errors import BadOption
from al_ray.storage.uri import storage_path
from tests.cli.test_named_options import program, reached_from


def page_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, *words: str) -> str:
    """The page with every option of a command, or of a subcommand."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "argv", [f"al-ray {name}", *words, "--help", "all"])
    with pytest.raises(SystemExit) as stop:
        import_module(f"al_ray.cli.{name}").main()
    assert stop.value.code == 0
    return capsys.readouterr().out


def options_of(page: str) -> dict[str, tuple[str, str]]:
    """The heading and the text of each option of a page of one column, which has no boxes where it is captured."""
    result: dict[str, tuple[str, str]] = {}
    heading, option, lines = "", "", page.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if re.match(r" \w", line) and after.startswith(" ----"):
            heading, option = line.strip(), ""
        flag = re.match(r"  (--[a-z][a-z0-9.-]*)(.*)", line)
        if flag:
            option = flag.group(1)
            result[option] = (heading, " ".join(flag.group(2).split()))
        elif option and line.startswith("   ") and line.strip():
            result[option] = (heading, f"{result[option][1]} {' '.join(line.split())}")
    return result


def faults(page: str) -> list[str]:
    """The options without a sentence, a default, or a heading that ends in `options`."""
    wrong: list[str] = []
    for option, (heading, text) in options_of(page).items():
        sentence = re.search(r"[a-z]{2}.*\. \((required|optional|default|fixed)", text)
        if not sentence or not heading.endswith("options"):
            wrong.append(f"{option}: {heading}: {text}")
    return wrong


def pages_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str) -> dict[str, str]:
    """The pages of help of a command: of each subcommand, or of itself, under ""."""
    words = subcommands(to_tyro(import_module(f"al_ray.cli.{name}").OPTIONS))
    return {word: page_of(capsys, monkeypatch, name, *word.split()) for word in words or [""]}


# Options of blocks that several commands share, which these commands leave out.
LEFT_OUT = {
    "audit sample": {"--checkpoint-seconds"},
    "augment": {"--mapped-above", "--keep-vectors", "--shared-storage"},
    "evaluate": {"--checkpoint-seconds"},
    "grid": {"--matched"},
    "plan": {"--training.tries", "--most-unknown", "--choose-ahead", "--candidates.presumed"},
    "reproduce": {"--strategy", "--seeding", "--matched", "--oracle"},
    "train": {"--training.start", "--search.ordered-pairs"},
}


def test_a_command_has_no_option_of_a_shared_block_that_it_does_not_use(capsys, monkeypatch):
    for command, unused in LEFT_OUT.items():
        name, _, word = command.partition(" ")
        shown = options_of(pages_of(capsys, monkeypatch, name)[word])
        assert not unused & set(shown), command
        assert len(shown) > 5
    every = options_of(page_of(capsys, monkeypatch, "run"))
    assert set().union(*LEFT_OUT.values()) <= set(every)


def test_every_option_of_a_command_is_read_by_what_the_command_may_run(capsys, monkeypatch):
    modules = program()
    for name in COMMANDS:
        read = set[str]()
        for module, definition in reached_from(modules, (f"al_ray.cli.{name}", "main")):
            read |= modules[module].parts[definition].attributes
        options = {option for page in pages_of(capsys, monkeypatch, name).values() for option in options_of(page)}
        fields = {re.sub(r"^--(no-)?", "", option).rpartition(".")[2].replace("-", "_") for option in options}
        assert fields - read == set(), name


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_option_has_a_sentence_a_default_and_a_heading(name, capsys, monkeypatch):
    assert page_of(capsys, monkeypatch, name).startswith(f"usage: al-ray {name} ")
    assert COMMANDS[name].sentence
    for page in pages_of(capsys, monkeypatch, name).values():
        assert faults(page) == []
        assert len(options_of(page)) > 0


def test_a_run_has_its_options_in_groups(capsys, monkeypatch):
    options = options_of(page_of(capsys, monkeypatch, "run"))
    first = [option for option, (heading, _) in options.items() if heading == "options"]
    # Required options come first.
    assert first[:4] == ["--task", "--out", "--strategy", "--seed"]
    assert len(first) <= 10
    for option, heading in {
        "--encoder": "encoder", "--vectors": "encoder", "--shards": "cluster", "--retries": "oracle",
        "--matched": "experiments", "--stop.labels": "stop", "--training.epochs": "training",
    }.items():  # fmt: skip
        assert options[option][0] == f"{heading} options"


# Prints the help of the commands in one process, and ends it at the first one that imported what help does not need.
HELP = """
import sys
from importlib import import_module
for name in sys.argv[1:]:
    sys.argv = [f"al-ray {name}", "--help"]
    try:
        import_module(f"al_ray.cli.{name}").main()
    except SystemExit as stop:
        assert stop.code == 0, name
    heavy = {"torch", "ray", "faiss", "transformers", "sklearn"} & set(sys.modules)
    if heavy:
        sys.exit(f"--help of {name} imports {', '.join(sorted(heavy))}")
"""


def test_help_imports_nothing_heavy():
    names = sorted(COMMANDS)
    ended = subprocess.run([sys.executable, "-c", HELP, *names], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("usage: al-ray") >= len(names)


@dataclass(frozen=True, kw_only=True)
class Sample(EncoderOptions):
    """A sample."""

    size: Annotated[int, Between(1, 9)] = 3
    """Number of pairs
    of the sample."""
    rare: Annotated[int | None, Group("rare"), Between(0, 5)] = None
    mute: str = field(default="x", metadata={"help": "One word."})


def test_values_come_back_in_the_class_of_the_options():
    value = entry.parse_options(Sample, "sample", "A sample.", ["--size", "4", "--rare", "2", "--encoder", "cnn"])
    assert value == Sample(size=4, rare=2, encoder="cnn")


def test_a_default_value_replaces_the_defaults_of_the_class():
    assert entry.parse_options(Sample, "sample", "", ["--rare", "1"], Sample(size=5, threads=7)) == Sample(
        size=5, rare=1, threads=7
    )


@dataclass(frozen=True)
class Boxed:
    """A block of its own."""

    speed: int = 1
    """Speed."""
    secret: int = 2


@dataclass(frozen=True, kw_only=True)
class Composed:
    """A sample of two blocks, each in part."""

    merged: Annotated[Sample, Block(without=("mute", "threads"), merged=True)] = field(
        metadata={"defaults": {"size": 5}}
    )
    box: Annotated[tyro.conf.OmitArgPrefixes[Boxed], Block("fast", without=("secret",))] = Boxed()


def test_a_command_has_the_options_of_its_blocks_that_are_not_left_out(capsys, monkeypatch):
    words = ["--size", "4", "--encoder", "cnn", "--speed", "2"]
    assert entry.parse_options(Composed, "composed", "", words) == Composed(
        merged=Sample(size=4, encoder="cnn"), box=Boxed(speed=2)
    )
    assert entry.parse_options(Composed, "composed", "", []) == Composed(merged=Sample(size=5))
    assert entry.parse_options(Composed, "composed", "", [], {"rare": 1}).merged == Sample(size=5, rare=1)
    for option in ("--mute", "--threads", "--secret"):
        with pytest.raises(SystemExit):
            entry.parse_options(Composed, "composed", "", [option, "1"])
        assert option in capsys.readouterr().err
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        entry.parse_options(Composed, "composed", "", ["--help", "all"])
    headings = {option: heading for option, (heading, _) in options_of(capsys.readouterr().out).items()}
    encoder = ("--encoder", "--encoder-layers", "--max-length", "--encoder-batch", "--arithmetic")
    others = {"--size": "options", "--rare": "rare options", "--speed": "fast options"}
    assert headings == {**dict.fromkeys(encoder, "encoder options"), **others}


def test_what_a_command_leaves_out_keeps_the_value_that_is_given_as_a_default():
    given = Composed(merged=Sample(mute="y", threads=7), box=Boxed(secret=5))
    assert entry.parse_options(Composed, "composed", "", [], given) == given


@dataclass(frozen=True)
class Mistaken:
    """A sample that leaves out what its block does not have."""

    box: Annotated[Boxed, Block(without=("size",))] = Boxed()


def test_a_field_that_is_left_out_exists():
    with pytest.raises(AssertionError, match="Boxed has no field size"):
        to_tyro(Mistaken)


def test_bounds_are_checked_and_shown(capsys, monkeypatch):
    with pytest.raises(BadOption, match="`size` is 10; give at most 9"):
        entry.parse_options(Sample, "sample", "", ["--size", "10"])
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        entry.parse_options(Sample, "sample", "", ["--help", "all"])
    options = options_of(capsys.readouterr().out)
    assert options["--size"] == ("options", "INT Number of pairs of the sample. (default: 3; 1 to 9)")
    assert options["--rare"] == ("rare options", "INT (optional; 0 to 5)")
    assert options["--mute"][1].endswith("One word. (default: x)")
    assert options["--threads"][0] == "encoder options"


def test_the_two_lists_of_commands_have_a_line_for_each(capsys, monkeypatch):
    shown = list[list[str]]()
    for words in (["--help"], ["papers"]):
        monkeypatch.setattr(sys, "argv", ["al-ray", *words])
        entry.al_ray()
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "usage: al-ray COMMAND [OPTIONS]"
        shown.append([line.split(maxsplit=1)[0] for line in lines if line.startswith("  ")])
        for name, command in COMMANDS.items():
            assert (name in shown[-1]) == any(line.split(maxsplit=1) == [name, command.sentence] for line in lines)
    assert shown[1] == [*PAPERS]
    assert sorted(shown[0] + shown[1]) == sorted([*COMMANDS, "papers"])


def test_an_unknown_command_is_an_error(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["al-ray", "fly"])
    with pytest.raises(SystemExit) as stop:
        entry.al_ray()
    assert stop.value.code == 2
    assert "there is no command fly; give one of annotate, audit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rounds", "many"], "--rounds is 'many'; give a whole number"),
        (["--cost-per-pair", "dear"], "--cost-per-pair is 'dear'; give a number"),
        (["--candidates.of-dense", "x"], "--candidates.of-dense is 'x'; give a whole number or auto"),
        (["--strategy", "best"], "invalid choice 'best' for argument '--strategy'. Expected one of ('uncertainty',"),
    ],
)
def test_a_value_that_cannot_be_parsed_is_named_without_the_help_of_its_option(capsys, monkeypatch, words, said):
    monkeypatch.setattr(sys, "argv", ["al-ray run", "--task", "task", "--out", "out", *words])
    with pytest.raises(SystemExit) as stop:
        import_module("al_ray.cli.run").main()
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {said}")
    assert "run --help" in line
    assert "helptext:" not in line
    assert len(line) < 250


def test_the_run_of_an_audit_may_lie_on_an_object_store():
    for kind in (audit.Sample, audit.Estimate):
        assert entry.parse_options(kind, "audit", "", ["--run", "s3://bucket/run"]).run == storage_path(
            "s3://bucket/run"
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "out", "--roundz", "3"], "Unrecognized options: --roundz; Perhaps you meant: --rounds INT"),
        (["--out", "out", "--aa", "3", "x", "--bb"], "Unrecognized options: --aa, --bb"),
        (["--out", "out", "--rounds"], "Missing value for argument '--rounds'. Expected 1 values"),
        ([], "Missing from al-ray labels status: --run PATH|URI"),
    ],
)
def test_the_parts_of_an_error_are_apart_and_have_no_help_of_options(capsys, monkeypatch, words, said):
    command = "run" if words else "labels status"
    monkeypatch.setattr(sys, "argv", ["al-ray", *command.split(), *(["--task", "task", *words] if words else [])])
    with pytest.raises(SystemExit):
        entry.al_ray()
    assert capsys.readouterr().err.strip() == f"error: {said}; see al-ray {command} --help"
