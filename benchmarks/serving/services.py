"""The two services as processes of their own, and the clients."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from al_ray.core.errors import BadOption
from benchmarks.serving.load_client import Load, Loaded

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 1e-4
"""Scores that differ by no more are equal."""


@contextmanager
def both_services(options: Mapping[str, Any], model: str) -> Iterator[tuple[str, str]]:
    """Run jobs.serve and the baseline; yield their addresses once both are ready.

    options: of jobs.serve, by name; the baseline gets the same table and threads. model: the model's own folder.
    """
    line, ports = _line(options), (_free_port(), _free_port())
    plain = [model, options["known"], str(ports[1]), str(options["cpus_per_replica"])]
    # They encode the known texts at the same time.
    with (
        _process(["jobs.serve", *line, "--port", str(ports[0])]) as first,
        _process(["benchmarks.serving.plain_service", *plain]) as second,
    ):
        addresses = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
        _wait(first, "jobs.serve", addresses[0])
        _wait(second, "the baseline", addresses[1])
        yield addresses


@contextmanager
def one_service(options: Mapping[str, Any]) -> Iterator[str]:
    """Run jobs.serve; yield its address once it is ready. options: by name."""
    port = _free_port()
    with _process(["jobs.serve", *_line(options), "--port", str(port)]) as process:
        address = f"http://127.0.0.1:{port}"
        _wait(process, "jobs.serve", address)
        yield address


def _line(options: Mapping[str, Any]) -> list[str]:
    return [each for name, value in options.items() for each in (f"--{name.replace('_', '-')}", str(value))]


def run_clients(load: Load) -> Loaded:
    """Send a load from a process of its own."""
    return Loaded(**run_module("benchmarks.serving.load_client", asdict(load)))


def run_module(module: str, content: Any, threads: int = 1) -> Any:
    """Return as JSON what a module of this checkout prints, in a process of its own that reads JSON.

    threads: of its numerical libraries, as Ray sets them in a replica.
    """
    command = [sys.executable, "-m", module]
    done = subprocess.run(
        command, input=json.dumps(content), stdout=subprocess.PIPE, text=True, check=True,
        env=_environment() | {"OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip
    return json.loads(done.stdout)


def differences(ours: str, plain: str, bodies: Sequence[str]) -> list[str]:
    """Return in words the texts of the bodies for which the best matches or their scores differ in both services.

    Among equal scores each may come first.
    """
    found = list[str]()
    for body in bodies:
        texts = json.loads(body)["texts"]
        for text, own, other in zip(texts, _results(ours, body), _results(plain, body), strict=True):
            near = {one["id"] for one in other if abs(one["score"] - own[0]["score"]) <= CLOSE}
            if abs(own[0]["score"] - other[0]["score"]) > CLOSE or own[0]["id"] not in near:
                found.append(f"the services differ for {text!r}: {own[0]} and {other[0]}")
    return found


def _results(address: str, body: str) -> Any:
    request = urllib.request.Request(f"{address}/match", body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["results"]


def _wait(process: "subprocess.Popen[str]", name: str, address: str) -> None:
    """Return when a service is ready. BadOption if it ends before."""
    while not _is_ready(address):
        try:
            raise BadOption(f"{name} ended with exit code {process.wait(0.5)}; see its messages above")
        except subprocess.TimeoutExpired:
            continue


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/ready", timeout=300):
            return True
    except (urllib.error.URLError, ConnectionError):
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
