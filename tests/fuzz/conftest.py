"""The corpora, made once for all tests of this folder."""

import shutil
from pathlib import Path

import pytest

from tests.fuzz import corpora


@pytest.fixture(scope="session")
def sound(tmp_path_factory) -> Path:
    """The folder of the corpora, which no test changes."""
    root = tmp_path_factory.mktemp("corpora")
    corpora.make(root)
    return root


@pytest.fixture
def copied(sound: Path, tmp_path: Path, monkeypatch) -> Path:
    """A copy of the corpora, which is the current folder."""
    place = shutil.copytree(sound, tmp_path / "copied")
    monkeypatch.chdir(place)
    return place
