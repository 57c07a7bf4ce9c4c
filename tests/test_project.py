"""The project's own files agree with each other: dependencies, pins, commands, marks."""

import ast
import importlib.metadata
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
MAIN: list[str] = PROJECT["project"]["dependencies"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    stated = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in stated if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []
    names = [canonicalize_name(line.partition("==")[0]) for line in stated]
    assert len(set(names)) == len(names), "a package is pinned twice"
    return {name: line.partition("==")[2] for name, line in zip(names, stated, strict=True)}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(requirement).name) for requirement in requirements}


def every_requirement() -> list[str]:
    return MAIN + [requirement for extra in EXTRAS.values() for requirement in extra]


@pytest.mark.parametrize("requirement", every_requirement())
def test_a_dependency_is_pinned_to_a_version_that_it_allows(requirement: str):
    wanted = Requirement(requirement)
    assert wanted.specifier.contains(pins()[canonicalize_name(wanted.name)])


def test_what_is_installed_is_what_is_pinned():
    """Every package that al_ray brings here, however far down, at its pinned version; local tags as +cpu aside."""
    chosen = [*MAIN, *EXTRAS["demo"], *EXTRAS["test"], *EXTRAS["dev"]]
    reach, met = [Requirement(text) for text in chosen], set[tuple[str, frozenset[str]]]()
    installed: dict[str, str] = {}
    while reach:
        requirement = reach.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in met:
            continue
        met.add(key)
        package = importlib.metadata.distribution(requirement.name)
        installed[name] = package.version.partition("+")[0]
        for line in package.requires or []:
            further = Requirement(line)
            extras = {"", *requirement.extras}
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                reach.append(further)
    assert len(installed) > 50, "the walk went nowhere"
    # The CUDA packages of a CUDA build of torch are pinned by torch itself (see the head of constraints.txt).
    pinned = {name: version for name, version in installed.items() if not re.match(r"nvidia-|cuda-|triton", name)}
    assert pinned == {name: pins().get(name) for name in pinned}


def test_ray_is_one_version_everywhere():
    stated = next(Requirement(line) for line in MAIN if Requirement(line).name == "ray")
    cluster = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
    assert str(stated.specifier) == f"=={pins()['ray']}"
    assert stated.extras == {"default", "tune"}
    for key in ("image", "head_image"):
        assert cluster["docker"][key].startswith(f"rayproject/ray:{pins()['ray']}-py311-")
    assert importlib.metadata.version("ray") == pins()["ray"]


def test_what_builds_the_package_is_pinned():
    assert all(str(Requirement(line).specifier).startswith("==") for line in PROJECT["build-system"]["requires"])


def test_no_choice_of_extras_but_both_brings_both_packages_of_the_module_faiss():
    assert names(EXTRAS["cpu"]) == {"faiss-cpu"}
    assert names(EXTRAS["gpu"]) == {"faiss-gpu"}
    others = MAIN + [line for extra, lines in EXTRAS.items() if extra not in ("cpu", "gpu") for line in lines]
    assert not names(others) & {"faiss-cpu", "faiss-gpu"}


def imported(*folders: str) -> dict[str, str]:
    """Top names of what is imported that is neither Python's nor ours -> a file that does so."""
    found: dict[str, str] = {}
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules: list[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module]
            found |= {module.partition(".")[0]: path.relative_to(ROOT).as_posix() for module in modules}
    ours = {"al_ray", "jobs", "tests", "conftest"} | {path.stem for path in (ROOT / "tests").glob("*.py")}
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names | ours}


@pytest.mark.parametrize(
    ("folders", "extras"),
    [(("al_ray", "jobs"), ("cpu", "gpu", "demo")), (("al_ray", "jobs", "tests"), ("cpu", "gpu", "demo", "test"))],
    ids=["to-run", "to-test"],
)
def test_what_is_imported_is_declared(folders: tuple[str, ...], extras: tuple[str, ...]):
    """A package that comes only because another needs it can go with that other's next version."""
    declared = names(MAIN + [line for extra in extras for line in EXTRAS[extra]])
    packages = importlib.metadata.packages_distributions()
    strangers = {
        name: path
        for name, path in imported(*folders).items()
        if not declared & {canonicalize_name(package) for package in packages.get(name, [name])}
    }
    assert strangers == {}


def targets() -> set[str]:
    return {name for line in re.findall(r"^([a-z][a-z ]*):(?!=)", MAKEFILE, re.MULTILINE) for name in line.split()}


def commands(document: str) -> str:
    """The code in a document: its fenced blocks, and what stands between backticks."""
    path = ROOT / document
    # Before a README stands, there is nothing in it to be wrong.
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_a_document_names_commands_that_exist(document: str):
    assert {"demo", "test", "faults", "slow", "gpu", "clean"} <= targets()
    assert set(re.findall(r"\bmake ([a-z]+)", commands(document))) <= targets()
    jobs = set(re.findall(r"python3? -m jobs\.(\w+)", commands(document)))
    assert {job for job in jobs if not (ROOT / "jobs" / f"{job}.py").exists()} == set()


def test_the_makefile_installs_with_constraints():
    installs = re.findall(r"pip install.*", MAKEFILE)
    assert installs
    assert all("--constraint constraints.txt" in install for install in installs)
    # pip's stamp is renewed when either file changes.
    assert MAKEFILE.count(": pyproject.toml constraints.txt |") == 2


def test_ci_runs_every_kind_of_test_that_needs_no_device():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    stages = re.findall(r"^stage (\w+)$", script.read_text(encoding="utf-8"), re.MULTILINE)
    marks = {line.partition(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    assert set(stages) == {"test"} | marks - {"gpu"}
