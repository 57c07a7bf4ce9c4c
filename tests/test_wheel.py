"""The wheel: what it contains, what it says of itself, and that it works away from the repository."""

import os
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from trove_classifiers import classifiers

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network by the hatchling that is installed here."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--quiet", "--wheel-dir", str(out)], check=True, cwd=out)
    (built,) = out.glob("al_ray-*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel alone in it."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", str(wheel), "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*command, "--quiet"], check=True, cwd=folder)
    return folder


def run(installed: Path, cwd: Path, *command: str) -> str:
    """What a Python prints that has the wheel first on its path, started in a folder that is not the repository."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "RAY_AUTH_MODE": "disabled"}
    ended = subprocess.run([sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert not ended.returncode, ended.stderr
    return ended.stdout


def test_the_wheel_contains_the_library_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files", "al_ray"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    if tracked:
        assert names == set(tracked)
    assert {name.partition("/")[0] for name in names} == {"al_ray"}
    assert {"al_ray/apps/reporting/page.html", "al_ray/py.typed", "al_ray/api/runs.py", "al_ray/cli/run.py"} <= names


def test_the_metadata_has_what_an_index_shows(metadata: Message):
    assert metadata["Name"] == "al-ray"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    labels = {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])}
    assert labels == {"Source", "Documentation", "Changelog", "Issues"}
    assert set(metadata.get_all("Classifier", [])) <= classifiers
    assert "record linkage" in metadata["Keywords"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    # A README that was cut, or another file in its place, would show nothing of the project.
    description = metadata.get_payload(decode=True)
    assert isinstance(description, bytes)
    assert description.decode().strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()


def test_the_wheel_works_where_the_repository_is_not(installed: Path, tmp_path: Path):
    code = "import al_ray as a; print(a.__file__, a.__version__, *(getattr(a, name).__name__ for name in a.__all__))"
    file, _, *names = run(installed, tmp_path, "-c", code).split()
    assert Path(file) == installed / "al_ray" / "__init__.py"
    assert "PairModel" in names
    prepare = "from al_ray.cli.prepare import main; main()"
    made = run(installed, tmp_path, "-c", prepare, "synthetic", "--texts", "100", "--out", "task")
    assert "100 texts" in made
    assert (tmp_path / "task" / "task.json").is_file()


@pytest.mark.parametrize("name", PROJECT.get("scripts", {}))
def test_a_console_command_starts(installed: Path, tmp_path: Path, name: str):
    assert "prepare" in run(installed, tmp_path, str(installed / "bin" / name), "--help")
