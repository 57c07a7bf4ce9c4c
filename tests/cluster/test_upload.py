"""What `ray job submit --working-dir .` packs: the code and one's own modules, and nothing of the rest of a folder."""

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray._private.runtime_env.packaging import create_package
from ray._private.runtime_env.working_dir import upload_working_dir_if_needed

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
# Beside the code, as it comes about: environments, data, runs, reports, caches. Sparse files; Ray packs their zeros.
BESIDE = (
    *(
        ".venv/lib/torch.so",
        "venv/lib/torch.so",
        ".git/objects/pack/p.pack",
        "runs/first/round-001/model/model.safetensors",
    ),
    *(
        "tasks/wikiqa/left.parquet",
        "data/wikiqa.tsv",
        "grids/first/shared/vectors.npy",
        "models/bert/model.safetensors",
    ),
    *(
        "report.html",
        "labels.csv",
        "notes.ipynb",
        "docs/wikiqa.svg",
        "tests/cluster/test_run.py",
        ".demo/task/left.parquet",
    ),
    *("al_ray/core/__pycache__/loop.cpython-311.pyc", "outputs/x.zip", "build/lib/al_ray/core/loop.py"),
)
OWN = ("judge.py", "grid.toml", "grid.json")


@pytest.fixture
def tree(tmp_path) -> Path:
    """A folder of somebody who works with al_ray: 200 MiB of everything that should not travel."""
    folder = tmp_path / "al-ray"
    for name in ("al_ray", "jobs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        ".rayignore",
        ".gitignore",
        "pyproject.toml",
        "cluster.yaml",
        "README.md",
        "constraints.txt",
        "Makefile",
    ):
        shutil.copy(ROOT / name, folder / name)
    for name in (*BESIDE, *OWN):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(12 * MIB if name in BESIDE else 10)
    return folder


def packed(folder: Path, place: Path) -> Iterator[tuple[str, int]]:
    """What Ray's command packs of a folder, as (name, bytes): by the same functions, without a head to send it to."""
    place.mkdir()

    def upload(working_dir: str, excludes: list[str] | None, is_file: bool | None = False) -> None:
        assert not is_file
        create_package(working_dir, place / "package.zip", include_gitignore=True, excludes=excludes)

    upload_working_dir_if_needed({"working_dir": str(folder)}, include_gitignore=True, upload_fn=upload)
    with zipfile.ZipFile(place / "package.zip") as package:
        yield from ((entry.filename, entry.file_size) for entry in package.infolist() if not entry.is_dir())


def test_code_and_own_modules_travel_and_nothing_else(tree, tmp_path):
    files = [path for name in ("al_ray", "jobs") for path in (ROOT / name).rglob("*.*") if path.suffix != ".pyc"]
    sources = {path.relative_to(ROOT).as_posix() for path in files}
    assert len(sources) > 100
    found = dict(packed(tree, tmp_path / "place"))
    assert set(found) == sources | set(OWN) | {"pyproject.toml", "cluster.yaml"}
    # Ray takes 100.
    assert (tmp_path / "place" / "package.zip").stat().st_size < 4 * MIB


def test_the_working_tree_itself_is_far_below_what_ray_takes(tmp_path):
    found = dict(packed(ROOT, tmp_path / "place"))
    assert {"al_ray/active_learning/loop.py", "jobs/run.py"} <= set(found)
    assert (tmp_path / "place" / "package.zip").stat().st_size < 10 * MIB


def test_a_folder_without_the_list_would_not_travel(tree, tmp_path):
    """That the first test can fail: without .rayignore the folder is too large for Ray."""
    (tree / ".rayignore").unlink()
    assert sum(size for _, size in packed(tree, tmp_path / "place")) > 100 * MIB
