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

from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.oracle import ORACLES

ROOT = Path(__file__).resolve().parents[1]

# The folders from the ground up. A file may import its own folder and folders on lines below, and none on its own line.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("al_ray.core",),
    ("al_ray.metrics", "al_ray.storage"),
    ("al_ray.datasets", "al_ray.encoders", "al_ray.active_learning"),
    ("al_ray.runs", "al_ray.training", "al_ray.search", "al_ray.matcher"),
    ("al_ray.oracles",),
    ("al_ray.running",),
    ("al_ray.cluster",),
    (
        *("al_ray.apps.annotating", "al_ray.apps.audit", "al_ray.apps.cross_encoder", "al_ray.apps.drift"),
        *(
            "al_ray.apps.exporting",
            "al_ray.apps.golden",
            "al_ray.apps.grid",
            "al_ray.apps.http",
            "al_ray.apps.matching",
        ),
        *("al_ray.apps.planning", "al_ray.apps.reporting", "al_ray.apps.serving"),
        *(f"al_ray.apps.papers.{paper}" for paper in ("augmentation", "mining", "paraphrase", "reproduction")),
    ),
    ("al_ray.api",),
    ("al_ray.cli",),
    ("jobs", "benchmarks", "al_ray.__main__"),
    ("studies",),
)
LEVEL = {folder: level for level, folders in enumerate(LEVELS) for folder in folders}
# Applications that build on other applications. No other application may import one.
AMONG_APPS = {
    "al_ray.apps.annotating": {"al_ray.apps.http"},
    # It audits the matches that the other wrote, and its samples are labelled on the page of annotating.
    "al_ray.apps.audit": {"al_ray.apps.annotating", "al_ray.apps.matching"},
    "al_ray.apps.papers.augmentation": {"al_ray.apps.cross_encoder", "al_ray.apps.papers.mining"},
    # It opens models as the other does.
    "al_ray.apps.exporting": {"al_ray.apps.matching", "al_ray.apps.reporting"},
    # It compares the texts of a match with those of training, and annotating labels its suggested pairs.
    "al_ray.apps.drift": {"al_ray.apps.annotating", "al_ray.apps.matching"},
    # Its pages are some of the other's.
    "al_ray.apps.golden": {"al_ray.apps.annotating", "al_ray.apps.matching"},
    "al_ray.apps.matching": {"al_ray.apps.reporting"},
    "al_ray.apps.papers.paraphrase": {"al_ray.apps.papers.mining", "al_ray.apps.reporting"},
    "al_ray.apps.grid": {"al_ray.apps.reporting"},
    "al_ray.apps.serving": {"al_ray.apps.http", "al_ray.apps.matching"},
    "al_ray.apps.papers.reproduction": {"al_ray.apps.cross_encoder", "al_ray.apps.grid", "al_ray.apps.reporting"},
}
# Folders that only compute: numpy and the standard library less WORLD.
PURE = ("al_ray.core", "al_ray.metrics", "al_ray.active_learning")
# Functions of arrays, which only compute: these metrics may use.
ARITHMETIC = ("scipy.special", "scipy.sparse.csgraph")
# Packages with a home, and the folders or modules that are it. What is not named here may be imported outside PURE.
HOMES = {
    "ray": {
        *(f"al_ray.cluster.{module}" for module in ("actor_host", "actors", "counters", "ray_session", "ray_workers")),
        *("al_ray.cluster.capacity", "al_ray.cluster.trainer_group", "al_ray.apps.grid"),
        *("al_ray.apps.serving.app", "al_ray.apps.serving.server"),
    },
    "fastapi": {"al_ray.apps.serving.app", "al_ray.apps.serving.http_api", "benchmarks.serving.plain_service"},
    "starlette": {"al_ray.apps.annotating", "al_ray.apps.golden", "al_ray.apps.serving"},
    "uvicorn": {"al_ray.apps.annotating.server", "benchmarks.serving.plain_service"},
    "pydantic": {"al_ray.apps.serving", "benchmarks.serving.plain_service"},
    "prometheus_client": {"al_ray.apps.serving.gate"},
    "faiss": {"al_ray.search.faiss_index", "benchmarks.serving.plain_service"},
    "openai": {"al_ray.oracles.llm.client"},
    "bm25s": {"al_ray.apps.papers.mining.lexical"},
    "rapidfuzz": {"al_ray.matcher"},
    "sklearn": {"al_ray.apps.papers.mining.lexical", "al_ray.matcher"},
    "sparse_dot_topn": {"al_ray.search.lexical"},
    "matplotlib": {"al_ray.apps.reporting.plots"},
    "jinja2": {"al_ray.apps.annotating.views", "al_ray.apps.reporting"},
    "botocore": {"al_ray.storage.conditional"},
    "markupsafe": {"al_ray.apps.reporting"},
    **{package: {"al_ray.apps.exporting"} for package in ("onnx", "onnxruntime", "onnxscript")},
    "pyarrow": {
        *("al_ray.storage", "al_ray.datasets", "al_ray.runs", "al_ray.apps.audit.folder"),
        *(
            "al_ray.apps.papers.augmentation.folder",
            "al_ray.apps.cross_encoder.folder",
            "al_ray.apps.papers.paraphrase.folder",
        ),
        *("al_ray.apps.matching.folder", "al_ray.apps.drift.folder", "al_ray.apps.matching.written"),
        "al_ray.apps.matching.incremental.state",
        "al_ray.apps.matching.why.column",
        *("al_ray.apps.papers.mining.task_pool", "al_ray.apps.reporting.export"),
        # Its results are tables.
        "al_ray.api",
    },
    "torch": {
        *("al_ray.encoders", "al_ray.training", "al_ray.search", "al_ray.oracles", "al_ray.cluster", "al_ray.apps"),
        "benchmarks",
        "studies",
    },
    "transformers": {"al_ray.encoders", "al_ray.training", "al_ray.cluster", "al_ray.apps", "benchmarks", "studies"},
    "sentence_transformers": {"al_ray.encoders", "al_ray.training", "al_ray.apps", "benchmarks", "studies"},
}
# What the standard library offers of files, clocks, logs, chance, processes and the network: not for PURE.
WORLD = {
    *("asyncio", "concurrent", "datetime", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib"),
    *("random", "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time", "urllib"),
}
# Imports that may stand inside a function, as (module, imported): each needs a reason in a comment here.
LOCAL_IMPORTS = {
    # A tenth of a second of every command, --help too, of which only those that write to S3 have use.
    ("al_ray.storage.conditional", "botocore"),
    # A machine with a GPU may have torch and no Faiss, and all but indexes works there.
    ("al_ray.search.faiss_index", "faiss"),
    # The packages of the page are an extra, which the other oracles do not need.
    ("al_ray.api.runs", "al_ray.api.labelling.run_page"),
    # The driver, which has no network, would load all of transformers' networks.
    ("al_ray.encoders.products", "transformers"),
    # Ray takes a second to import, and one shard needs none.
    ("al_ray.cluster.workers", "al_ray.cluster.ray_workers.RayWorkers"),
    ("al_ray.cluster.session", "al_ray.cluster.ray_session.ray_session"),
    ("al_ray.cluster.training_group", "al_ray.cluster.trainer_group.deploy_group"),
    # They load torch, and are of no use to who only reads a run, its labels or an audit of it.
    ("al_ray.oracles.registry", "al_ray.oracles.cross_encoder"),
    ("al_ray.runs.trackers.tensorboard", "tensorboardX"),
    *(("al_ray.api.run_reading", module) for module in ("al_ray.api.models", "al_ray.api.run_printout")),
    *(("al_ray.api.audits", module) for module in ("al_ray.apps.audit.sampling", "al_ray.cluster.session")),
    # A fifth of a second, which only estimates need.
    ("al_ray.metrics.intervals", "scipy.special"),
    # It loads pandas where that is installed, and only a run with a matcher needs it.
    *((f"al_ray.matcher.{module}", "sklearn") for module in ("cosine_trees", "extra_trees", "splines", "forest")),
}
# What a command may import of al_ray beside its public names, as al_ray.match.
COMMANDS_MAY = ("al_ray.api", "al_ray.core", "al_ray.cli")
# The one function that makes a generator, and what numpy.random has that is not its global one.
CHANCE = "al_ray.core.rng"
GENERATORS = {"Generator", "SeedSequence", "BitGenerator", "PCG64", "Philox"}
# The programs that seed the global generators: dedupe, which they call, draws from them.
GLOBAL_CHANCE = {"studies.other_tools.dedupe_matches", "studies.other_tools.dedupe_records"}
# A file has 300 lines at most as a rule; one thought may have more.
FILE, FUNCTION, ARGUMENTS, MODULES = 400, 50, 7, 13


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, which nearly every rule looks at."""
        return list(ast.walk(self.tree))

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0].replace("/", ".")

    @property
    def ours(self) -> bool:
        """Whether this is the library, and not a command."""
        return self.path.startswith("al_ray/") and not self.path.startswith("al_ray/cli/")

    @cached_property
    def for_types(self) -> set[int]:
        """The ids of the imports under `if TYPE_CHECKING`, which never run."""
        blocks = [n for n in self.tree.body if isinstance(n, ast.If) and ast.unparse(n.test).endswith("TYPE_CHECKING")]
        return {id(inner) for block in blocks for inner in block.body}

    @cached_property
    def imports(self) -> list[tuple[ast.stmt, str]]:
        """Every import anywhere in the file, as (statement, dotted name); `from a import b` is a.b."""
        found: list[tuple[ast.stmt, str]] = []
        for node in self.nodes:
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
    """The folder that a dotted name of ours is in: the longest that fits; None for what is in none."""
    return max((folder for folder in LEVEL if inside(name, [folder])), key=len, default=None)


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def files_stand_in_folders(sources: list[Source]) -> list[str]:
    # The package's own __init__ files above the folders hold a docstring, and the public names of the whole.
    above = {"al_ray", "al_ray.apps", "al_ray.apps.papers"}
    known = [
        s for s in sources if folder_of(s.module) is not None or (s.module in above and s.path.endswith("__init__.py"))
    ]
    return [f"{s.path}: not in a folder of LEVELS" for s in sources if s not in known]


def imports_go_down(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        folder = folder_of(source.module)
        for node, name in source.imports:
            reached = folder_of(name)
            if reached is None or reached == folder or reached in AMONG_APPS.get(folder or "", set()):
                continue
            # What stands above the folders, as al_ray/__init__.py, may import none of them: it names their types.
            if folder is None and id(node) in source.for_types:
                continue
            if folder is None or LEVEL[reached] >= LEVEL[folder]:
                complaints.append(source.at(node, f"{folder or source.module} imports {name}"))
    return complaints


def commands_call_the_api(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        if not inside(source.module, ["al_ray.cli"]):
            continue
        below = [(node, name) for node, name in source.imports if folder_of(name) and not inside(name, COMMANDS_MAY)]
        complaints += [source.at(node, f"{name} is below the API") for node, name in below]
    return complaints


def pure_folders_compute(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        if not inside(source.module, PURE):
            continue
        for node, name in source.imports:
            top = name.partition(".")[0]
            if inside(source.module, ["al_ray.metrics"]) and inside(name, ARITHMETIC):
                continue
            if top in WORLD or top not in sys.stdlib_module_names | {"numpy", "al_ray"}:
                complaints.append(source.at(node, f"a pure folder imports {name}"))
        for node in source.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "input"):
                complaints.append(source.at(node, f"a pure folder calls {node.func.id}()"))
    return complaints


def leaf_folders_are_small(sources: list[Source]) -> list[str]:
    """A folder without folders in it has at most MODULES modules, __init__.py apart."""
    counts: dict[str, int] = {}
    for source in sources:
        counts[source.folder] = counts.get(source.folder, 0) + (not source.path.endswith("__init__.py"))
    above = {folder.rpartition(".")[0] for folder in counts}
    return [
        f"{folder}: {count} modules; {MODULES} at most"
        for folder, count in counts.items()
        if count > MODULES and folder not in above and folder.startswith("al_ray")
    ]


def packages_stay_at_home(sources: list[Source]) -> list[str]:
    return [
        source.at(node, f"{name} outside {', '.join(sorted(homes))}")
        for source in sources
        for node, name in source.imports
        for package, homes in HOMES.items()
        if inside(name, [package]) and not inside(source.module, homes)
    ]


def classes_are_not_joined(sources: list[Source]) -> list[str]:
    """An object that needs another has it: no class is made of others at run time."""
    return [
        source.at(node, "a class that type() makes")
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
        if len(node.args) == 3
    ]


def imports_are_absolute(sources: list[Source]) -> list[str]:
    return [
        source.at(node, "a relative import")
        for source in sources
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def imports_stand_at_the_top(sources: list[Source]) -> list[str]:
    complaints: list[str] = []
    for source in sources:
        top = {id(node) for node in source.tree.body} | source.for_types
        if inside(source.module, ["al_ray.cli"]):
            # A command reads its options first, so that --help need not wait for torch and Ray: `main` then imports
            # the work, such as al_ray.cli._evaluate.pipeline, which may import what is heavy at its top.
            mains = [node for node in source.tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
            top |= {id(inner) for main in mains for inner in ast.walk(main)}
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
        for node in source.nodes:
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
        if source.module in GLOBAL_CHANCE:
            continue
        allowed = GENERATORS | ({"default_rng"} if source.module == CHANCE else set())
        complaints += [
            source.at(node, f"{name}; take al_ray.core.rng.generator")
            for node, name in source.imports
            if name.partition(".")[0] == "random" or (inside(name, ["numpy.random"]) and name.count(".") > 1)
        ]
        for node in source.nodes:
            if not isinstance(node, ast.Attribute) or node.attr in allowed:
                continue
            if ast.unparse(node.value) in ("np.random", "numpy.random"):
                complaints.append(source.at(node, f"np.random.{node.attr}; take al_ray.core.rng.generator"))
    return complaints


def the_library_is_quiet(sources: list[Source]) -> list[str]:
    return [
        source.at(node, "print()")
        for source in sources
        if source.ours
        for node in source.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def modules_bear_names(sources: list[Source]) -> list[str]:
    nameless = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "base"}
    return [f"{s.path}: what is in it?" for s in sources if nameless & set(s.module.strip("_").split("."))]


def strategies_are_not_told_by_name(sources: list[Source]) -> list[str]:
    """No comparison with a strategy's name: what a strategy does is in its fields, so that none can be forgotten."""
    return compared(sources, "strateg", STRATEGIES, "a strategy; give Strategy a field")


def oracles_are_not_told_by_name(sources: list[Source]) -> list[str]:
    """No comparison with an oracle's word: oracle_kind has what depends on it, so that none can be forgotten."""
    return compared(sources, "oracle", ORACLES, "an oracle; give OracleKind a field")


def compared(sources: list[Source], subject: str, names: Iterable[str], fix: str) -> list[str]:
    """The places where what has the subject in its words is compared with one of the names."""
    complaints: list[str] = []
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.Compare):
                asked, parts = node, [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
                asked, parts = node, node.args
            elif isinstance(node, ast.Match):
                asked, parts = node.subject, [case.pattern for case in node.cases]
            else:
                continue
            plain = [
                part for part in parts if isinstance(part, ast.Constant | ast.Tuple | ast.Set | ast.List | ast.pattern)
            ]
            inner = [one.value for part in plain for one in ast.walk(part) if isinstance(one, ast.Constant)]
            words = {word for word in inner if isinstance(word, str) and word}
            # Its words last: they take longest.
            if any(
                name.startswith(word) or word.startswith(f"{name}:") for name in names for word in words
            ) and subject in ast.unparse(asked):
                complaints.append(source.at(node, f"{ast.unparse(asked)} names {fix}"))
    return complaints


# Each rule with files that break it, one way a time.
BROKEN: dict[Rule, list[dict[str, str]]] = {
    files_stand_in_folders: [
        {"al_ray/labelling/page.py": ""},
        {"al_ray/ray.py": ""},
        {"al_ray/apps/cleaning/a.py": ""},
    ],
    imports_go_down: [
        {"al_ray/core/pairs.py": "from al_ray.datasets.task_folder import read"},
        {"al_ray/datasets/wikiqa.py": "import al_ray.encoders.transformer"},
        {"al_ray/encoders/transformer.py": "from al_ray.datasets import wikiqa"},
        {"al_ray/storage/uri.py": "from al_ray.metrics import strata"},
        {"al_ray/core/task.py": "from al_ray.storage import uri"},
        {"al_ray/search/shard.py": "from al_ray.training import losses"},
        {"al_ray/training/losses.py": "from al_ray import cluster"},
        {"al_ray/cluster/run.py": "from al_ray.apps.grid import spec"},
        {"al_ray/cluster/session.py": "def f():\n    from jobs import run"},
        {"al_ray/oracles/people.py": "from al_ray.cluster import session"},
        {"al_ray/apps/papers/mining/dense.py": "from al_ray.apps.papers.paraphrase import index"},
        {"al_ray/running/run.py": "from al_ray.cluster import session"},
        {"al_ray/apps/reporting/html.py": "from al_ray.cli import report"},
        {"al_ray/__init__.py": "from al_ray.core.pairs import Pairs"},
        {"al_ray/apps/papers/mining/dense.py": "from al_ray.api import runs"},
        {"al_ray/api/runs.py": "from al_ray.cli import run"},
    ],
    commands_call_the_api: [
        {"al_ray/cli/match.py": "from al_ray.apps.matching.options import MatchOptions"},
        {"al_ray/cli/match.py": "from al_ray.runs import run_folder"},
        {"al_ray/cli/_shared/entry.py": "if TYPE_CHECKING:\n    from al_ray.storage.uri import Uri"},
    ],
    pure_folders_compute: [
        {"al_ray/active_learning/loop.py": "import time"},
        {"al_ray/metrics/strata.py": "from pathlib import Path"},
        {"al_ray/core/pairs.py": "import scipy.stats"},
        {"al_ray/core/pairs.py": "import scipy.special"},
        {"al_ray/metrics/strata.py": "import scipy.stats"},
        {"al_ray/core/pairs.py": "open('labels.txt')"},
    ],
    leaf_folders_are_small: [{f"al_ray/search/m{n}.py": "" for n in range(14)}],
    packages_stay_at_home: [
        {"al_ray/cli/run.py": "import ray"},
        {"al_ray/cli/mine.py": "import torch"},
        {"al_ray/runs/ledger.py": "import ray.data"},
        {"al_ray/cluster/session.py": "import ray"},
        {"al_ray/search/exact.py": "import faiss"},
        {"jobs/report.py": "from matplotlib.figure import Figure"},
        {"al_ray/cli/report.py": "from jinja2 import Environment"},
        {"al_ray/cluster/shards.py": "import pyarrow as pa"},
        {"al_ray/runs/ledger.py": "from torch import Tensor"},
        {"al_ray/datasets/tsv.py": "def f():\n    import transformers"},
    ],
    classes_are_not_joined: [{"al_ray/cluster/actors.py": "def actor(plain):\n    return type('A', (plain,), {})"}],
    imports_are_absolute: [
        {"al_ray/core/task.py": "from .pairs import Pairs"},
        {"al_ray/core/task.py": "from .. import core"},
    ],
    imports_stand_at_the_top: [
        {"al_ray/encoders/transformer.py": "def f():\n    import torch"},
        {"al_ray/encoders/transformer.py": "def main():\n    import torch"},
        {"al_ray/cli/run.py": "def f():\n    from al_ray.api.runs import run"},
        {"al_ray/encoders/transformer.py": "try:\n    import faiss\nexcept ImportError:\n    faiss = None"},
    ],
    imports_make_no_circle: [
        {
            "al_ray/core/a.py": "from al_ray.core.b import x",
            "al_ray/core/b.py": "from al_ray.core import c",
            "al_ray/core/c.py": "import al_ray.core.a",
        },
    ],
    everything_is_small: [
        {"al_ray/core/a.py": "x = 1\n" * 401},
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
        {"al_ray/runs/a.py": "np.random.default_rng(0)"},
        {"al_ray/runs/a.py": "from numpy.random import default_rng"},
    ],
    strategies_are_not_told_by_name: [
        {"al_ray/core/a.py": "x = config.strategy == 'static'"},
        {"jobs/run.py": "x = 'stated' in (config.strategy, config.seeding)"},
        {"jobs/run.py": "x = strategy not in ('random', 'stated')"},
        {"jobs/run.py": "x = 'stated' in axes.strategies"},
        {"al_ray/cluster/a.py": "x = method.strategy.startswith('stratified')"},
        {"al_ray/core/a.py": "match config.strategy:\n    case 'static':\n        x = 1"},
    ],
    oracles_are_not_told_by_name: [
        {"al_ray/core/a.py": "x = config.oracle == 'file'"},
        {"al_ray/cli/a.py": "x = config.oracle in ('simulated', MODEL)"},
        {"al_ray/cli/a.py": "x = config.oracle.startswith('model:')"},
    ],
    the_library_is_quiet: [{"al_ray/runs/a.py": "print('read')"}],
    modules_bear_names: [{"al_ray/core/utils.py": ""}, {"al_ray/helpers/text.py": ""}],
}

# What comes near to breaking a rule, and does not.
SOUND = {
    "al_ray/__init__.py": "'''A library.'''\nfrom typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    from al_ray.api.runs import run\n__version__ = '0'",
    "al_ray/api/runs.py": "'''Runs.'''\nimport pyarrow as pa\nfrom al_ray.apps.grid.runner import run_grid",
    "al_ray/core/__init__.py": "'''The core.'''",
    "al_ray/core/rng.py": "'''Chance.'''\nimport numpy as np\n_rng = np.random.default_rng([0])",
    "al_ray/core/pairs.py": "'''Pairs.'''\nfrom typing import TYPE_CHECKING\nimport numpy.typing as npt\n"
    "if TYPE_CHECKING:\n    from al_ray.core.config.encoder import Seed\n"
    "def f(g: np.random.Generator):\n    '''F.'''\n    def inner(): ...\n    return inner",
    "al_ray/core/config/run.py": "'''A task.'''\nfrom al_ray.core import pairs\nfrom al_ray.core.task import Seed",
    "al_ray/storage/uri.py": "'''Places.'''\nimport pyarrow.fs\nfrom al_ray.core.errors import BadFile",
    "al_ray/search/faiss_index.py": "'''Near.'''\nimport faiss\nimport torch\nfrom al_ray.core.pairs import Pairs\n"
    "class A:\n    '''A.'''\n    def __len__(self): ...\n    def f(self, a, b, c, d, e, f, g):\n        '''F.'''\n",
    "al_ray/cluster/ray_session.py": "'''Ray.'''\nimport ray\nfrom al_ray import __version__\n"
    "try:\n    pass\nexcept (ValueError, KeyError):\n    pass",
    "al_ray/apps/grid/runner.py": "'''Grids.'''\nfrom al_ray.apps.reporting.html import page",
    "al_ray/cli/run.py": "import al_ray\nfrom al_ray import match\nfrom al_ray.core.errors import BadOption\n"
    "def main() -> None:\n    from al_ray.api.runs import run",
    "jobs/run.py": "from al_ray.cluster import session\nfrom al_ray.cli.run import main\nprint('AP')\n"
    "x = config.seeding == 'stated', config.strategy == REFERENCE, 'strategy' in about, strategy == other",
}


def written(files: dict[str, str]) -> list[Source]:
    return [Source(path, text) for path, text in files.items()]


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    found = [
        path for folder in ("al_ray", "jobs", "benchmarks", "studies") for path in sorted((ROOT / folder).rglob("*.py"))
    ]
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
