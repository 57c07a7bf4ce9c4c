"""Every text of the program that names an option: the option exists in each command that can print the text.

Which commands can print it follows from the code alone: from a command's `main`, the functions, classes and constants
that it names, and those that these name. A method is reached if its class is and something reached names the method.
A text may name an option of one command only if it names the command first: `jobs.labels import --columns`.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.registry import COMMANDS, main_of

ROOT = Path(__file__).resolve().parents[2]
OPTION = re.compile(r"(?<!var\()(?<![\w-])--[a-z](?:[a-z0-9.-]*[a-z0-9])?")
COMPUTED = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*\.\{\})(?:=N)?`")
Definition = tuple[str, str]
"""A module and the name of a top-level definition in it; of a method CLASS.METHOD; "" for the module's statements."""

# Commands that carry out others with values of their own: only these commands' texts on wrong values name options, and
# the values that they give are right.
COMPOSED = {
    "demo": ("prepare", "run", "evaluate"),
    "reproduce": ("run", "grid", "train", "evaluate"),
    # A bi-encoder is a run of one round.
    "train": ("run",),
    # Its shards have a fixed share of a machine.
    "paraphrase": ("run",),
    "grid": ("run",),
    # It measures on a synthetic task.
    "plan": ("prepare",),
    # It reads tables as those of the model's task were read.
    "match": ("prepare",),
    # Likewise.
    "serve": ("prepare", "match"),
    # It opens the folders of runs and audits, and makes none.
    "annotate": ("audit", "labels"),
}
# Modules and definitions whose texts are right in commands that lack an option that they name.
EXCEPTIONS = {
    # These name an option of the encoder whose value a command may read from a folder, where it was checked before.
    "al_ray.encoders.",
    "al_ray.search.faiss_index.OPTIONS",
    # Strategies of the registry, which only the commands that choose pairs call.
    "al_ray.active_learning.strategies.stratified_match",
    "al_ray.active_learning.strategies._stratified",
    # plan, which lacks the option, says something else in its place.
    "al_ray.storage.files.read_json",
    # The name of the option is computed from the field.
    "al_ray.core.config.losses.LossConfig.check_unused_options",
    # Limits that are stored in a run folder were checked by the command that stored them.
    "al_ray.active_learning.stopping.StopConfig.__post_init__",
    # Of the oracles that a run may have, labels makes those of people alone.
    "al_ray.oracles.function.",
    "al_ray.oracles.python_function.",
    "al_ray.oracles.llm.",
    # Likewise: other commands make its defaults alone.
    "al_ray.core.config.llm.",
    "al_ray.oracles.cross_encoder.",
    # Rules of clusters that a folder of matches holds were checked by match, which wrote them.
    "al_ray.apps.matching.clusters.canonical.CanonicalRule.parse",
    "al_ray.apps.matching.golden.",
    # The options of a command of match, whose name begins it.
    "al_ray.apps.matching.model.match_command",
    # The options of a command of run, whose name begins it.
    "al_ray.core.config.oracle.ORACLES",
    # The options of labels import, which the line names before them.
    "al_ray.apps.drift.folder.use_of_suggestions",
    # An option of pip.
    "al_ray.runs.trackers.mlflow.INSTALL",
    # The words after `jobs.`.
    "al_ray.cli._shared.called.OF_API",
}
# The reader of tables names the options of TABLE_OPTIONS, and none where the format of a table is fixed.
READER, TABLE_OPTIONS = "al_ray.datasets.tables.reader", ("al_ray.datasets.tables.format_options", "TableOptions")


@dataclass
class Part:
    """What a definition names and says."""

    names: set[str] = field(default_factory=set)
    # (first, second) of every `first.second`, of which `first` may be a module.
    chains: set[tuple[str, str]] = field(default_factory=set)
    # Whatever may be the name of a method: attributes, and words in quotes, by which actors are called.
    attributes: set[str] = field(default_factory=set)
    # As a command shows them, and as they stand.
    texts: list[tuple[int, str]] = field(default_factory=list)
    raw: list[tuple[int, str]] = field(default_factory=list)
    is_class: bool = False


class Module:
    """The definitions of a module, and what its imported names stand for."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.parts, self.imported = name, dict[str, Part](), dict[str, str]()
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.imported |= {alias.name: alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                self.imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.parts[node.name] = part_of([node])
            elif isinstance(node, ast.ClassDef):
                methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
                rest = [one for one in node.body if not isinstance(one, ast.FunctionDef | ast.Expr)]
                self.parts[node.name] = part_of([*node.bases, *node.decorator_list, *rest], is_class=True)
                self.parts |= {f"{node.name}.{method.name}": part_of([method]) for method in methods}
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [name.id for one in targets for name in ast.walk(one) if isinstance(name, ast.Name)]
                self.parts |= dict.fromkeys(names, part_of([node]))
            elif not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr):
                self.parts[""] = part_of([node])


def part_of(nodes: Iterable[ast.AST], is_class: bool = False) -> Part:
    part = Part(is_class=is_class)
    for node in (inner for outer in nodes for inner in walk(outer)):
        if isinstance(node, ast.Name):
            part.names.add(node.id)
        elif isinstance(node, ast.Attribute):
            part.attributes.add(node.attr)
            if isinstance(node.value, ast.Name):
                part.chains.add((node.value.id, node.attr))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            part.raw.append((node.lineno, node.value))
            if node.value.isidentifier():
                part.attributes.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            part.raw.append((node.lineno, joined(node)))
        elif isinstance(node, ast.Call):
            part.raw += [(node.lineno, text) for text in written_by(node)]
    part.texts = [(line, shown(text)) for line, text in part.raw]
    return part


def shown(text: str) -> str:
    """A text as a command shows it; an option whose name is computed, too: `stop.{}`."""
    return as_called(COMPUTED.sub(lambda found: f"--{found[1].replace('_', '-')}", text))


def joined(node: ast.expr) -> str:
    """A text in quotes, with {} for what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


def written_by(call: ast.Call) -> Iterator[str]:
    """The texts that a function of al_ray/core/naming.py writes, with N for each value."""
    function = call.func.id if isinstance(call.func, ast.Name) else ""
    # A variable may have such a name, too: call(*arguments).
    if (
        function not in ("option", "call", "command", "options_of", "config_at")
        or not call.args
        or isinstance(call.args[0], ast.Starred)
    ):
        return
    name = joined(call.args[0])
    names = [one.arg for one in call.keywords if one.arg is not None and not isinstance(one.value, ast.Call)]
    if function == "option":
        yield f"`{name}=N`"
    elif function == "call":
        yield f"`al_ray.{name}({', '.join(f'{one}=N' for one in names)})`"
    elif function == "command":
        yield f"`al-ray {name} {' '.join('--' + one.replace('_', '-') for one in names)}`"
    else:
        yield from (f"`{'RunConfig' if function == 'config_at' else name}.{one}`" for one in names)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but docstrings, and but the pieces of an f-string, which comes as a whole."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant):
            continue
        yield from walk(child)


@cache
def program() -> dict[str, Module]:
    modules: dict[str, Module] = {}
    for path in sorted((ROOT / "al_ray").rglob("*.py")):
        name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        modules[name] = Module(name, path.read_text(encoding="utf-8"))
    return modules


def reached_from(modules: dict[str, Module], start: Definition) -> set[Definition]:
    """All definitions that may run after `start` is called."""
    reached, attributes = set[Definition](), set[str]()
    todo = [start]
    while todo:
        while todo:
            module, name = todo.pop()
            if (module, name) in reached or module not in modules or name not in modules[module].parts:
                continue
            reached.add((module, name))
            part = modules[module].parts[name]
            attributes |= part.attributes
            todo += [(module, ""), *named(modules, modules[module], part)]
        for module, name in reached:
            if modules[module].parts[name].is_class:
                todo += [(module, method) for method in methods(modules[module], name, attributes)]
        todo = [one for one in todo if one not in reached]
    return reached


def named(modules: dict[str, Module], module: Module, part: Part) -> Iterator[Definition]:
    """The definitions that a part names, in its own module or another."""
    for name in part.names:
        yield module.name, name
        yield tuple(module.imported.get(name, "").rpartition(".")[::2])  # type: ignore[misc]
    for first, second in part.chains:
        if module.imported.get(first) in modules:
            yield module.imported[first], second
            # A name of `import al_ray` is defined where that imports it from.
            yield tuple(modules[module.imported[first]].imported.get(second, "").rpartition(".")[::2])  # type: ignore[misc]


def methods(module: Module, kind: str, attributes: set[str]) -> list[str]:
    """The methods of a class that something names, and those that Python calls."""
    own = [name for name in module.parts if name.startswith(f"{kind}.")]
    return [name for name in own if name.partition(".")[2] in attributes or name.partition(".")[2].startswith("__")]


def unknown_options(modules: dict[str, Module], options: dict[str, set[str]]) -> list[str]:
    """A line for each option that a text names and that a command which can print the text lacks."""
    lacking: dict[str, set[str]] = {}
    for command in options:
        reached = reached_from(modules, (f"al_ray.cli.{command}", "main"))
        for at in reached:
            if at[0] == READER and TABLE_OPTIONS not in reached:
                continue
            for line, text in modules[at[0]].parts[at[1]].texts:
                for match in OPTION.finditer(text):
                    own = {command, *re.findall(r"jobs\.([a-z]+)", text[: match.start()])}
                    own |= set(COMPOSED.get(command, ()))
                    if any(has(options.get(one, ()), match) for one in own) or is_own_field(*at, match[0]):
                        continue
                    if ".".join(at).startswith(tuple(EXCEPTIONS)):
                        continue
                    lacking.setdefault(f"{at[0]}:{line} {at[1]}: {match[0]}", set()).add(command)
    return [f"{where}: not an option of {', '.join(sorted(commands))}" for where, commands in sorted(lacking.items())]


@cache
def is_own_field(module: str, name: str, option: str) -> bool:
    """Whether an option is a field of the class whose method names it: its value came as that field, from wherever."""
    if "." not in name or module not in program():
        return False
    kind = getattr(import_module(module), name.partition(".")[0], None)
    return is_dataclass(kind) and any(option.removeprefix("--").endswith(one) for one in field_names(kind))


def field_names(kind: Any) -> Iterator[str]:
    for one in fields(kind):
        name, inner = one.name.replace("_", "-"), get_type_hints(kind)[one.name]
        yield name
        if is_dataclass(inner):
            yield from (f"{name}.{deeper}" for deeper in field_names(inner))


def has(options: Iterable[str], match: re.Match[str]) -> bool:
    """Whether an option exists; of one whose end is computed, whether one begins so."""
    computed = match.string[match.end() :].startswith((".{}", "-{}")) or match.string[match.end() :] == "."
    return match[0] in options or (computed and any(option.startswith(match[0]) for option in options))


@pytest.fixture
def options(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The options of each command, those of its subcommands included, as its --help lists them."""

    def page(name: str, *words: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"al-ray {name}", *words, "--help", "all"])
        with pytest.raises(SystemExit):
            main_of(name)()
        return capsys.readouterr().out

    monkeypatch.setenv("COLUMNS", "100")
    result: dict[str, set[str]] = {}
    for name in COMMANDS:
        flags = [line for line in page(name).splitlines() if re.match(r"  -", line)]
        result[name] = {match[0] for line in flags for match in OPTION.finditer(line)}
    # No command's own name: each text is shown with the names of commands.
    monkeypatch.setattr(sys, "argv", ["program"])
    return result


def test_every_option_that_a_text_names_exists_where_the_text_is_printed(options):
    assert {"--no-header", "--text-columns"} <= options["prepare"]
    assert unknown_options(program(), options) == []


IN_PYTHON = (
    *("core", "metrics", "storage", "datasets", "encoders", "active_learning"),
    *("runs", "training", "search", "matcher", "oracles", "running", "cluster", "api", "apps"),
)
"""Folders of al_ray whose texts name options and functions in Python."""
IN_FLAGS = {
    # Of --help, and words of a command that the command line writes.
    "al_ray.core.config.oracle.ORACLES",
    "al_ray.apps.matching.options.assignments_help",
    # Markdown of a model card, which names files and what reads them.
    "al_ray.apps.exporting.card._of_scores",
    "al_ray.apps.exporting.card._of_matcher",
    "al_ray.apps.exporting.card._of_matcher_scores",
    # A word of the table for a command line, in the answer of the service that writes the table.
    "al_ray.apps.serving.store.Source.side",
    # Of pip.
    "al_ray.oracles.llm.client.INSTALL",
    "al_ray.runs.trackers.mlflow.INSTALL",
}


def not_in_python(modules: dict[str, Module]) -> Iterator[str]:
    """A line for each flag or command in a text, and for each backtick whose Python no command has."""
    for module in modules.values():
        inside = any(f"{module.name}.".startswith(f"al_ray.{folder}.") for folder in IN_PYTHON)
        if not inside or module.name == "al_ray.core.naming":
            continue
        for name, part in module.parts.items():
            for line, text in part.raw:
                pieces = text.split("`") if text.count("`") % 2 == 0 else [text]
                # Of a name that is computed, what follows is looked up.
                named = [one.removeprefix("{}") for one in pieces[1::2]]
                unknown = [one for one in named if one not in ("", "=N") and shown(f"`{one}`") == f"`{one}`"]
                plain = [found[0] for found in re.finditer(rf"{OPTION.pattern}|\bjobs\.[a-z]+", " ".join(pieces[::2]))]
                if (unknown or plain) and f"{module.name}.{name}" not in IN_FLAGS:
                    yield f"{module.name}:{line} {name}: {', '.join([*unknown, *plain])}"


def test_texts_below_the_commands_are_in_python_and_name_what_is_there(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program"])
    assert list(not_in_python(program())) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("give another `out`, or `search.index='{}'` of `RunConfig.search.index`", []),
        ("give another --out", ["--out"]),
        ("made by jobs.run", ["jobs.run"]),
        ("give `ot`, `RunConfig.at_score`, `al_ray.open_round()` and `al-ray runs`", 4),
    ],
)
@pytest.mark.parametrize("name", ["al_ray.runs.x", "al_ray.api.x", "al_ray.apps.audit.x"])
def test_a_flag_and_python_that_is_not_there_are_found(monkeypatch, name, text, found):
    monkeypatch.setattr(sys, "argv", ["program"])
    lines = list(not_in_python({name: Module(name, f"TEXT = {text!r}")}))
    names = [name for line in lines for name in line.partition(": ")[2].split(", ")]
    assert names == found if isinstance(found, list) else len(names) == found


def test_a_table_has_a_fixed_format_where_no_option_gives_it():
    for module in program().values():
        for name, part in module.parts.items():
            if "TableFormat" in part.names and not part.is_class and module.name != TABLE_OPTIONS[0]:
                source = (ROOT / f"{module.name.replace('.', '/')}.py").read_text(encoding="utf-8")
                calls = re.findall(r"\bTableFormat\(([^()]*)\)", source)
                assert all("fixed=True" in call for call in calls), f"{module.name}: {name}"


WORDS = """
class BadOption(Exception): ...
FIX = "see --there"
def check(task):
    raise BadOption(f"{task} is wrong; {FIX}" if task else TEXT)
class Folder:
    def bind(self): raise BadOption("give --bound")
    def unused(self): raise BadOption("give --unused")
"""


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("give another --out", []),
        ("give --oracle file", ["--oracle"]),
        ("label it (jobs.run --oracle file)", []),
        ("label it (--oracle of jobs.run)", ["--oracle"]),
        ("jobs.run --rounds 3 or --out", ["--rounds"]),
    ],
)
def test_an_option_of_another_command_is_found(text, lacking):
    words = Module("al_ray.words", f"TEXT = {text!r}\n{WORDS}")
    main = "from al_ray.words import check, Folder\ndef main():\n    check(1)\n    Folder().bind()\n"
    modules = {"al_ray.words": words, "al_ray.cli.evaluate": Module("al_ray.cli.evaluate", main)}
    faults = unknown_options(modules, {"evaluate": {"--out"}, "run": {"--oracle"}})
    found = [re.search(r"(--\S+): not an option of evaluate", fault) for fault in faults]
    assert {match[1] for match in found if match} == {"--there", "--bound", *lacking}
