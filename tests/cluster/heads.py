"""A head of Ray as `ray start` makes it, beside whatever other Rays the machine has, and ended by its process group."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.ray_ports import free_port

ROOT = Path(__file__).resolve().parents[2]
# Of the environment of these tests. The last would hide that a job keeps its lines to itself.
NOT_THEIRS = ("RAY_ADDRESS", "PYTHONPATH", "PYTHONUNBUFFERED")

# Where autoscaler and dashboard serve their figures: another Ray may have the usual ports.
FIGURES = ("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT")

# The command `ray`, whose raylet does not wait for agents: see ray_ports.py.
RAY = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.ray_ports import choose_ports
sys.path.pop(0)
choose_ports()
from ray.scripts.scripts import main
main()
"""


@dataclass
class Head:
    """A head that runs. environment: of whoever is to speak with it; folder: its files; address: of drivers."""

    environment: dict[str, str]
    folder: Path
    address: str = ""

    def ended(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A command as a user gives it, in the project's folder; both streams are in stdout."""
        return subprocess.run(
            command, cwd=ROOT, env={**self.environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False, timeout=900,
        )  # fmt: skip


def environment_of(home: Path, **more: str) -> dict[str, str]:
    """A user's, with a home of its own (where tokens lie), this Python's commands, and no Ray found already."""
    ours = {name: value for name, value in os.environ.items() if name not in NOT_THEIRS}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**ours, "PATH": path, "HOME": str(home), "NO_COLOR": "1", "RAY_COLOR_PREFIX": "0", **more}


@contextmanager
def started(command: str, environment: dict[str, str], *more: str) -> Iterator[Head]:
    """`ray start --head ...` with ports and a folder of its own; all its processes are gone at the end.

    `ray stop` would end every Ray of the machine.
    """
    # Short: sockets lie in it, whose names have 107 letters at most.
    folder, port = Path(tempfile.mkdtemp(prefix="ray-")), free_port()
    own = [
        *(
            "--block",
            "--port=0",
            f"--dashboard-port={port}",
            "--dashboard-agent-listen-port=0",
            "--disable-usage-stats",
        ),
        *(f"--temp-dir={folder}", "--object-store-memory=100000000"),
    ]
    name, *words = shlex.split(command)
    assert name == "ray"
    its = {**environment, **{name: str(free_port()) for name in FIGURES}}
    log = (folder / "head.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-c", RAY, *words, *own, *more], env=its, stdout=log, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    head = Head({**environment, "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{port}"}, folder)
    try:
        deadline = time.monotonic() + 600
        # Jobs are for the agent, which may start later than the node.
        while not (head.address and list(folder.glob("session_latest/dashboard_agent_listen_port_*"))):
            said = (folder / "head.log").read_text()
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            found = re.search(r"--block", said) and re.search(r"ray start --address='([^']+)'", said)
            head.address = found[1] if found else ""
            time.sleep(0.1)
        yield head
    finally:
        members = [p for p in psutil.process_iter() if of_session(p, process.pid)]
        process.terminate()
        _, left = psutil.wait_procs(members, timeout=30)
        for one in left:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait(60)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def of_session(process: psutil.Process, leader: int) -> bool:
    """Whether a process belongs to the session that a head began."""
    try:
        return os.getsid(process.pid) == leader
    except ProcessLookupError:
        return False
