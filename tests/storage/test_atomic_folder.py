"""A folder is written whole or not at all, and what a killed process left is removed by the next one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from al_ray.core.errors import BadFile
from al_ray.storage.atomic_folder import whole
from al_ray.storage.files import aside_of, remove_unfinished

KILLED = """
import os, signal, sys
from pathlib import Path
from al_ray.storage.atomic_folder import whole
with whole(Path(sys.argv[1])) as aside:
    (aside / "index").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""

# Deletes one file of the old folder, and is killed.
KILLED_DELETING = """
import os, shutil, signal, sys
from pathlib import Path
from al_ray.storage.atomic_folder import whole

def delete(folder, ignore_errors):
    if Path(folder).is_dir():
        (Path(folder) / "weights").unlink()
        os.kill(os.getpid(), signal.SIGKILL)

shutil.rmtree = delete
with whole(Path(sys.argv[1])) as aside:
    for name in ("index", "weights"):
        (aside / name).write_text("new")
"""


def ended() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_a_killed_process_left_is_gone_when_the_folder_is_written_again(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "index").write_text("old")
    assert subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False).returncode == -signal.SIGKILL
    assert (target / "index").read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2
    with whole(target) as aside:
        (aside / "index").write_text("new")
    assert os.listdir(tmp_path) == ["model"]
    assert (target / "index").read_text() == "new"


def test_a_process_killed_as_it_deletes_the_old_folder_leaves_the_new_one(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    for name in ("index", "weights"):
        (target / name).write_text("old")
    killed = subprocess.run([sys.executable, "-c", KILLED_DELETING, str(target)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert {path.name: path.read_text() for path in target.iterdir()} == {"index": "new", "weights": "new"}
    with whole(target) as aside:
        (aside / "index").write_text("newer")
    assert os.listdir(tmp_path) == ["model"]


def test_an_error_leaves_the_folder_as_it_was(tmp_path):
    with pytest.raises(KeyError), whole(tmp_path / "model"):
        raise KeyError("model")
    assert os.listdir(tmp_path) == []


def test_what_others_write_or_wrote_beside_it_stays(tmp_path):
    """A living process, here the parent of this one, writes the same folder; an ended one left others."""
    dead = ended()
    stays = {f".model.{os.getppid()}-1", f".model.b.{dead}-1", f".other.{dead}-1", f".model.{dead}", "model"}
    for name in {*stays, f".model.{dead}-1"}:
        (tmp_path / name).mkdir()
    remove_unfinished(tmp_path, name="model")
    assert set(os.listdir(tmp_path)) == stays


def test_a_name_that_is_written_aside_is_known_to_be_unfinished(tmp_path):
    aside = Path(str(aside_of(tmp_path / "model.v2")).replace(str(os.getpid()), str(ended())))
    aside.write_text("half")
    remove_unfinished(tmp_path, name="model")
    assert aside.exists()
    remove_unfinished(tmp_path, name="model.v2")
    assert not aside.exists()


def test_a_folder_that_the_new_one_cannot_replace_stays(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "index").write_text("old")
    with pytest.raises(BadFile, match="model cannot be written"), whole(target) as aside:
        # What is moved away cannot take the place of another.
        aside.rename(tmp_path / "elsewhere")
    assert (target / "index").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "model"]
