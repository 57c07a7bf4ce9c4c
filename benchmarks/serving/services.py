"""The two services as processes of their own, and the clients."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from al_ray.core.errors import AlRayError, BadOption
from benchmarks.serving.load_client import Load, Loaded

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 1e-5
"""Scores that differ by no more are equal."""


@contextmanager
def al_ray_service(options: Sequence[str]) -> Iterator[str]:
    """Run jobs.serve with these options and a free port; yield its address once it is ready."""
    port = _free_port()
    with _process(["jobs.serve", *options, "--port", str(port)]) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("ready: "):
                break
        else:
            raise BadOption(f"jobs.serve ended with exit code {process.wait()}; see its messages above")
        yield f"http://127.0.0.1:{port}"


@contextmanager
def plain_service(model: str, table: Path, threads: int) -> Iterator[str]:
    """Run the baseline on a free port; yield its address once it is ready."""
    address = f"http://127.0.0.1:{(port := _free_port())}"
    with _process(["benchmarks.serving.plain_service", model, str(table), str(port), str(threads)]) as process:
        while not _is_ready(address):
            try:
                raise BadOption(f"the baseline ended with exit code {process.wait(0.5)}; see its messages above")
            except subprocess.TimeoutExpired:
                continue
        yield address


def run_clients(load: Load) -> Loaded:
    """Send a load from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.serving.load_client"]
    done = subprocess.run(
        command, input=json.dumps(asdict(load)), stdout=subprocess.PIPE, text=True, env=_environment(), check=True
    )
    return Loaded(**json.loads(done.stdout))


def refuse_unequal(ours: str, plain: str, bodies: Sequence[str]) -> None:
    """Raise AlRayError unless both services have the same best match with the same score for each text of the bodies.

    Among equal scores each may come first.
    """
    for body in bodies:
        texts = json.loads(body)["texts"]
        for text, own, other in zip(texts, _results(ours, body), _results(plain, body), strict=True):
            near = {one["id"] for one in other if abs(one["score"] - own[0]["score"]) <= CLOSE}
            if abs(own[0]["score"] - other[0]["score"]) > CLOSE or own[0]["id"] not in near:
                raise AlRayError(
                    f"the services differ for {text!r}: {own[0]} and {other[0]}; figures of them would not compare"
                )


def _results(address: str, body: str) -> Any:
    request = urllib.request.Request(f"{address}/match", body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["results"]


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/ready", timeout=300):
            return True
    except urllib.error.URLError:
        return False


@contextmanager
def _process(module: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    """Run a module of this checkout until the end of the block."""
    command = [sys.executable, "-m", *module]
    with subprocess.Popen(command, env=_environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


def _environment() -> dict[str, str]:
    """Return the environment of a process of this checkout, with a Ray of its own and no token."""
    own = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "AL_RAY_TOKEN")}
    return {**own, "PYTHONPATH": str(ROOT)}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
