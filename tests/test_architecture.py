"""The arrows and habits of the code, held by reading every file. Change a rule here or not at all.

A rule takes all files and returns its complaints. Each stands beside a small file that breaks it, so that it can fail.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Each folder, and the folders of ours that it may import besides itself. `al_ray` alone is the package's own __init__.
BELOW = {
    "al_ray": set[str](),
    "al_ray.core": {"al_ray"},
    "al_ray.storage": {"al_ray", "al_ray.core"},
    "al_ray.data": {"al_ray", "al_ray.core", "al_ray.storage"},
    "al_ray.model": {"al_ray", "al_ray.core", "al_ray.storage"},
    "al_ray.oracles": {"al_ray", "al_ray.core", "al_ray.storage", "al_ray.data"},
    "al_ray.cluster": {"al_ray", "al_ray.core", "al_ray.storage", "al_ray.data", "al_ray.model", "al_ray.oracles"},
    "al_ray.pictures": {"al_ray", "al_ray.core"},
    "al_ray.reports": {"al_ray", "al_ray.core", "al_ray.pictures"},
    "jobs": {
        *("al_ray", "al_ray.core", "al_ray.storage", "al_ray.data", "al_ray.model", "al_ray.oracles", "al_ray.cluster"),
        *("al_ray.pictures", "al_ray.reports"),
    },
}
# Packages with a home, and the folders or modules that are it. What is not named here may be imported outside core/.
HOMES = {
    "ray": {"al_ray.cluster"},
    "faiss": {"al_ray.model.neighbours"},
    "bm25s": {"al_ray.model.lexical"},
    "sklearn": {"al_ray.model.lexical"},
    "matplotlib": {"al_ray.pictures"},
    "jinja2": {"al_ray.reports"},
    "markupsafe": {"al_ray.reports"},
    "pyarrow": {"al_ray.data", "al_ray.storage"},
    "torch": {"al_ray.model", "al_ray.cluster", "jobs"},
    "transformers": {"al_ray.model", "al_ray.cluster", "jobs"},
    "sentence_transformers": {"al_ray.model", "al_ray.cluster", "jobs"},
}
# What the standard library offers of files, clocks, logs, chance, processes and the network: not for core/.
WORLD = {
    *("asyncio", "concurrent", "datetime", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib"),
    *("random", "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time", "urllib"),
}
# Imports that may stand inside a function, as (module, imported): each needs a reason in a comment here.
LOCAL_IMPORTS = set[tuple[str, str]]()
# The one function that makes a generator, and what numpy.random has that is not its global one.
CHANCE = "al_ray.core.config"
GENERATORS = {"Generator", "SeedSequence", "BitGenerator", "PCG64", "Philox"}
FILE, FUNCTION, ARGUMENTS = 300, 50, 7


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0].replace("/", ".")

    @property
    def ours(self) -> bool:
        """Whether this is the library, and not a job."""
        return self.path.startswith("al_ray/")

    @cached_property
    def imports(self) -> list[tuple[ast.stmt, str]]:
        """Every import anywhere in the file, as (statement, dotted name); `from a import b` is a.b."""
        found: list[tuple[ast.stmt, str]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(node, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found += [(node, f"{node.module}.{alias.name}") for alias in node.names]
        return found

    def at(self, node: ast.AST, complaint: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {complaint}"


Rule = Callable[[list[Source]], list[str]]


def inside(name: str, homes: Iterable[str]) -> bool:
    """Whether a dotted name is one of these, or in one of these."""
    return any(name == home or name.startswith(home + ".") for home in homes)


def folder_of(name: str) -> str | None:
    """The folder of ours that an imported name is in: the longest that fits; None for what is not ours."""
    return max((folder for folder in BELOW if inside(name, [folder])), key=len, default=None)


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def files_stand_in_known_folders(sources: list[Source]) -> list[str]:
    known = [s for s in sources if s.folder in BELOW and (s.folder != "al_ray" or s.module == "al_ray")]
    return [f"{s.path}: not in a folder of BELOW; say what it may import" for s in sources if s not in known]


def imports_go_down(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        allowed = BELOW.get(source.folder, set()) | {source.folder}
        for node, name in source.imports:
            folder = folder_of(name)
            # `from al_ray import core` is al_ray.core, so that a folder cannot come in by the package's name.
            if folder is not None and folder not in allowed:
                complaints.append(source.at(node, f"{source.folder} imports {name}"))
    return complaints


def core_is_arithmetic(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        if source.folder != "al_ray.core":
            continue
        for node, name in source.imports:
            top = name.partition(".")[0]
            if top in WORLD or top not in sys.stdlib_module_names | {"numpy", "al_ray"}:
                complaints.append(source.at(node, f"core/ imports {name}"))
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "input"):
                complaints.append(source.at(node, f"core/ calls {node.func.id}()"))
    return complaints


def packages_stay_at_home(sources: list[Source]) -> list[str]:
    return [
        source.at(node, f"{name} outside {', '.join(sorted(homes))}")
        for source in sources
        for node, name in source.imports
        for package, homes in HOMES.items()
        if inside(name, [package]) and not inside(source.module, homes)
    ]


def imports_are_absolute(sources: list[Source]) -> list[str]:
    return [
        source.at(node, "a relative import")
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def imports_stand_at_the_top(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        top = {id(node) for node in source.tree.body}
        for node in source.tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                top |= {id(inner) for inner in node.body}
        for node, name in source.imports:
            if id(node) not in top and not any(inside(name, [it]) for at, it in LOCAL_IMPORTS if at == source.module):
                complaints.append(source.at(node, f"{name} is imported below the top"))
    return complaints


def imports_make_no_circle(sources: list[Source]) -> list[str]:
    modules = {source.module for source in sources}
    graph: dict[str, set[str]] = {}
    for source in sources:
        # a.b.c is the module a.b.c, or something in the module a.b.
        reached = {at for _, name in source.imports for at in (name, name.rpartition(".")[0]) if at in modules}
        longest = {at for at in reached if not any(inside(other, [at]) for other in reached - {at})}
        graph[source.module] = longest - {source.module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        return [" <- ".join(circle.args[1])]
    return []


def everything_is_small(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        lines = len(source.text.splitlines())
        if source.ours and lines > FILE:
            complaints.append(f"{source.path}: {lines} lines; {FILE} at most")
        for node in functions(source):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION:
                complaints.append(source.at(node, f"{node.name} has {length} lines; {FUNCTION} at most"))
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            names = [argument.arg for argument in given if argument is not None]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            if count > ARGUMENTS:
                complaints.append(source.at(node, f"{node.name} takes {count} arguments; {ARGUMENTS} at most"))
    return complaints


def public_things_say_what_they_are(sources: list[Source]) -> list[str]:
    complaints: list[str] = []

    def look(source: Source, body: list[ast.stmt]) -> None:
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            if not ast.get_docstring(node):
                complaints.append(source.at(node, f"{node.name} has no docstring"))
            if isinstance(node, ast.ClassDef):
                look(source, node.body)

    for source in sources:
        if source.ours:
            if not ast.get_docstring(source.tree):
                complaints.append(source.at(source.tree, "the module has no docstring"))
            look(source, source.tree.body)
    return complaints


def no_except_is_broad(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ExceptHandler):
                caught = {ast.unparse(node)} if node.type is None else names_in(node.type)
                if node.type is None or caught & {"Exception", "BaseException"}:
                    complaints.append(source.at(node, "a broad except"))
    return complaints


def names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def chance_is_named(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        allowed = GENERATORS | ({"default_rng"} if source.module == CHANCE else set())
        complaints += [
            source.at(node, f"{name}; take al_ray.core.config.generator")
            for node, name in source.imports
            if name.partition(".")[0] == "random" or (inside(name, ["numpy.random"]) and name.count(".") > 1)
        ]
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Attribute) or node.attr in allowed:
                continue
            if ast.unparse(node.value) in ("np.random", "numpy.random"):
                complaints.append(source.at(node, f"np.random.{node.attr}; take al_ray.core.config.generator"))
    return complaints


def the_library_is_quiet(sources: list[Source]) -> list[str]:
    return [
        source.at(node, "print()")
        for source in sources
        if source.ours
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def modules_bear_names(sources: list[Source]) -> list[str]:
    nameless = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "base"}
    return [f"{s.path}: what is in it?" for s in sources if nameless & set(s.module.strip("_").split("."))]


# Each rule with files that break it, one way a time.
BROKEN: dict[Rule, list[dict[str, str]]] = {
    files_stand_in_known_folders: [{"al_ray/labelling/page.py": ""}, {"al_ray/ray.py": ""}],
    imports_go_down: [
        {"al_ray/core/pairs.py": "from al_ray.data.tables import read"},
        {"al_ray/data/tables.py": "import al_ray.model.encoder"},
        {"al_ray/model/encoder.py": "from al_ray.data import tables"},
        {"al_ray/storage/places.py": "from al_ray.data import tables"},
        {"al_ray/core/task.py": "from al_ray.storage import places"},
        {"al_ray/model/encoder.py": "from al_ray import cluster"},
        {"al_ray/cluster/session.py": "def f():\n    from jobs import run"},
        {"al_ray/pictures/curves.py": "from al_ray.data import files"},
        {"al_ray/pictures/curves.py": "from al_ray.reports.table import Table"},
        {"al_ray/reports/page.py": "from al_ray.data import files"},
        {"al_ray/__init__.py": "from al_ray.core.pairs import Pairs"},
    ],
    core_is_arithmetic: [
        {"al_ray/core/loop.py": "import time"},
        {"al_ray/core/loop.py": "from pathlib import Path"},
        {"al_ray/core/loop.py": "import scipy.stats"},
        {"al_ray/core/loop.py": "open('labels.txt')"},
    ],
    packages_stay_at_home: [
        {"jobs/run.py": "import ray"},
        {"al_ray/data/tables.py": "import ray.data"},
        {"al_ray/model/exact.py": "import faiss"},
        {"jobs/report.py": "from matplotlib.figure import Figure"},
        {"jobs/report.py": "from jinja2 import Environment"},
        {"al_ray/cluster/shards.py": "import pyarrow as pa"},
        {"al_ray/data/tables.py": "from torch import Tensor"},
        {"al_ray/data/tables.py": "def f():\n    import transformers"},
    ],
    imports_are_absolute: [
        {"al_ray/core/task.py": "from .pairs import Pairs"},
        {"al_ray/core/task.py": "from .. import core"},
    ],
    imports_stand_at_the_top: [
        {"al_ray/model/encoder.py": "def f():\n    import torch"},
        {"al_ray/model/encoder.py": "try:\n    import faiss\nexcept ImportError:\n    faiss = None"},
    ],
    imports_make_no_circle: [
        {
            "al_ray/core/a.py": "from al_ray.core.b import x",
            "al_ray/core/b.py": "from al_ray.core import c",
            "al_ray/core/c.py": "import al_ray.core.a",
        },
    ],
    everything_is_small: [
        {"al_ray/core/a.py": "x = 1\n" * 301},
        {"jobs/run.py": "def f():\n" + "    x = 1\n" * 50},
        {"al_ray/core/a.py": "def f(a, b, c, d, /, e, f, *, g, h): ..."},
        {"al_ray/core/a.py": "class A:\n    def f(self, a, b, c, d, e, f, *g, **h): ..."},
    ],
    public_things_say_what_they_are: [
        {"al_ray/core/a.py": "x = 1"},
        {"al_ray/core/a.py": "'''A.'''\ndef f(): ..."},
        {"al_ray/core/a.py": "'''A.'''\nclass A:\n    '''A.'''\n    def f(self): ..."},
    ],
    no_except_is_broad: [
        {"jobs/run.py": "try:\n    f()\nexcept:\n    pass"},
        {"jobs/run.py": "try:\n    f()\nexcept Exception:\n    pass"},
        {"jobs/run.py": "try:\n    f()\nexcept (ValueError, BaseException) as error:\n    pass"},
    ],
    chance_is_named: [
        {"al_ray/core/a.py": "import random"},
        {"al_ray/core/a.py": "np.random.seed(0)"},
        {"jobs/run.py": "numpy.random.rand(3)"},
        {"al_ray/data/a.py": "np.random.default_rng(0)"},
        {"al_ray/data/a.py": "from numpy.random import default_rng"},
    ],
    the_library_is_quiet: [{"al_ray/data/a.py": "print('read')"}],
    modules_bear_names: [{"al_ray/core/utils.py": ""}, {"al_ray/helpers/text.py": ""}],
}

# What comes near to breaking a rule, and does not.
SOUND = {
    "al_ray/__init__.py": "'''A library.'''\n__version__ = '0'",
    "al_ray/core/__init__.py": "'''The core.'''",
    "al_ray/core/config.py": "'''Chance.'''\nimport numpy as np\n_rng = np.random.default_rng([0])",
    "al_ray/core/pairs.py": "'''Pairs.'''\nfrom typing import TYPE_CHECKING\nimport numpy.typing as npt\n"
    "if TYPE_CHECKING:\n    from al_ray.core.config import Seed\n"
    "def f(g: np.random.Generator):\n    '''F.'''\n    def inner(): ...\n    return inner",
    "al_ray/core/task.py": "'''A task.'''\nfrom al_ray.core import pairs\nfrom al_ray.core.config import Seed",
    "al_ray/storage/places.py": "'''Places.'''\nimport pyarrow.fs\nfrom al_ray.core.errors import BadFile",
    "al_ray/model/neighbours.py": "'''Near.'''\nimport faiss\nimport torch\nfrom al_ray.core.pairs import Pairs\n"
    "class A:\n    '''A.'''\n    def __len__(self): ...\n    def f(self, a, b, c, d, e, f, g):\n        '''F.'''\n",
    "al_ray/cluster/session.py": "'''Ray.'''\nimport ray\nfrom al_ray import __version__\n"
    "try:\n    pass\nexcept (ValueError, KeyError):\n    pass",
    "jobs/run.py": "from al_ray.cluster import session\nfrom jobs.entry import main\nprint('AP')",
}


def written(files: dict[str, str]) -> list[Source]:
    return [Source(path, text) for path, text in files.items()]


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    found = [path for folder in ("al_ray", "jobs") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(found) > 8, "the sources are not where this test looks for them"
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in found]


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_the_code_keeps_the_rule(rule: Rule, sources: list[Source]):
    assert rule(sources) == []


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        pytest.param(rule, files, id=f"{rule.__name__}-{n}")
        for rule, all_ in BROKEN.items()
        for n, files in enumerate(all_)
    ],
)
def test_the_rule_sees_what_breaks_it(rule: Rule, files: dict[str, str]):
    assert len(rule(written(files))) == 1


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_the_rule_lets_sound_code_pass(rule: Rule):
    assert rule(written(SOUND)) == []


def test_every_rule_is_listed():
    """A rule that is written here and not in BROKEN would hold nobody."""
    written_here = {
        value
        for value in globals().values()
        if callable(value) and getattr(value, "__annotations__", {}) == {"sources": list[Source], "return": list[str]}
    }
    assert written_here == set(BROKEN)
