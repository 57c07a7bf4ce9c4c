"""docs/nightly.py as a submitted job: the line of docs/production.md, on a head of this machine with a token."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import al_ray
from tests.apps.matching.test_nightly import first_run, write_table
from tests.cluster.heads import ROOT, Head, environment_of, started
from tests.guides import block, blocks, commands

pytestmark = pytest.mark.slow

(LINE,) = [
    line
    for line in commands(block("docs/production.md", "## Every night", "python nightly.py"))
    if "job submit" in line
]


@pytest.fixture(scope="module")
def head(tmp_path_factory) -> Iterator[Head]:
    """A head that the commands of docs/cluster.md have started."""
    exported, generate, start, *_ = commands(blocks("docs/cluster.md", "## A machine is a cluster of one")[0])
    name, value = exported.removeprefix("export ").split("=")
    environment = environment_of(tmp_path_factory.mktemp("home"), **{name: value})
    subprocess.run(shlex.split(generate), env=environment, check=True, capture_output=True, timeout=600)
    with started(start, environment, "--num-cpus=4") as made:
        yield made


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A folder with what travels of this one, and with the user's copy of the script."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("al_ray", "jobs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".rayignore", "docs/nightly.py"):
        shutil.copy(ROOT / name, folder)
    return folder


def submit(head: Head, project: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Submit a job with the project as its folder."""
    return head.ended(*shlex.split(line.replace("--working-dir .", f"--working-dir {project}")))


def test_a_submitted_night_matches_the_new_rows(head, project, make_task, tmp_path: Path):
    texts = list(zip(make_task(True).left.ids, make_task(True).left.texts, strict=True))
    known = write_table(tmp_path / "products.csv", dict(texts[:40]))
    (tmp_path / "runs").mkdir()
    first_run(tmp_path, known).rename(tmp_path / "runs" / "products")
    write_table(tmp_path / "inbox" / "june.csv", dict(texts[40:44]))
    ended = submit(head, project, LINE.replace("/data/", f"{tmp_path}/"))
    assert ended.returncode == 0, ended.stdout
    assert "june.csv: 4 new rows; now " in ended.stdout
    clusters = al_ray.MatchFolder(tmp_path / "nightly/round-000/matches", {"clusters": 1}, ()).clusters()
    assert len(clusters) == 44


def test_a_relative_folder_fails_the_job(head, project):
    ended = submit(head, project, LINE.replace("/data/", ""))
    assert ended.returncode == 1
    assert "error: --inbox inbox is no folder; create it, or give its absolute path" in ended.stdout
