"""The key of --oracle llm is in nothing that a command leaves: run folder, output, Ray's session folder."""

import base64
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from al_ray.datasets.task_folder import write_task
from tests.oracles.llm_process import Judge, run_process_of
from tests.oracles.llm_server import serving

pytestmark = pytest.mark.faults

# Not of the form of a key: only one who knows it can leave it out.
KEY = "zq7Xw1v.planted.5b2e9c0d"
FORMS = (KEY, KEY[-12:], base64.b64encode(KEY.encode()).decode())
# So that loggers of the client write what they can.
LOUD = {"OPENAI_LOG": "debug"}


@pytest.fixture
def ray_folder() -> Iterator[Path]:
    """A folder for Ray's sessions: a short one, because the path of a socket has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def holding(folder: Path) -> list[str]:
    """The files in a folder that hold the key."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(form.encode() in path.read_bytes() for form in FORMS)]


def test_the_key_is_in_nothing_that_commands_leave(make_task, tmp_path: Path, ray_folder: Path):
    write_task(make_task(True), tmp_path / "task", {})
    environment = {"OPENAI_API_KEY": KEY, "RAY_TMPDIR": str(ray_folder), **LOUD}
    with serving(Judge()) as server:
        # It quotes the header of a request in errors and in replies.
        server.plan.extend(["500"] * 3)
        with run_process_of(server, tmp_path, ["--ray", "--retries", "2"], environment) as process:
            assert process.end() == 2, process.printed
        assert "HTTP 500: no: [key] and [key]" in " ".join(process.printed.split())
        server.plan.extend(["429 after 0", "refusal", "", "malformed", "few", "", "cut", "garbage"])
        with run_process_of(server, tmp_path, ["--ray"], environment) as process:
            assert process.end() == 0, process.printed
        assert set(server.keys) == {f"Bearer {KEY}"}
    assert list((tmp_path / "run" / "llm").glob("*.json"))
    assert list(ray_folder.rglob("*.log")), "Ray's sessions are here"
    assert holding(tmp_path) == []
    assert holding(ray_folder) == []
