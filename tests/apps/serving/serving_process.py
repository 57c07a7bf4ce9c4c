"""The command serve as a process, and a client for it."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[3]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class ServingProcess:
    """`python -m jobs.serve OPTIONS` on a free port, from the moment when it is ready.

    address: of the cluster on which it runs; without one it starts a Ray of its own.
    """

    def __init__(self, options: list[str], token: str, address: str = "") -> None:
        self.port, self.token = free_port(), token
        environment = {**os.environ, "AL_RAY_TOKEN": token, "PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled"}
        environment.pop("RAY_ADDRESS", None)
        if address:
            environment["RAY_ADDRESS"] = address
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jobs.serve", *options, "--port", str(self.port)],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.lines = [self.line()]
        while not self.lines[-1].startswith("ready: "):
            self.lines.append(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the command ended with {self.process.wait()}"
        return line.rstrip()

    def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token or self.token}"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                content = error.read()
            # Ray's proxy answers for a replica that died, and in plain text.
            is_json = error.headers.get_content_type() == "application/json"
            return error.code, json.loads(content) if is_json else content.decode()

    def match(self, *texts: str) -> dict[str, Any]:
        code, answer = self.call("POST", "/match", {"texts": list(texts)})
        assert code == 200, answer
        return answer

    def replica(self, name: str) -> psutil.Process:
        """The process of the only replica of a deployment."""
        [found] = self.replicas(name)
        return found

    def replicas(self, name: str) -> list[psutil.Process]:
        """The processes of the replicas of a deployment."""
        return [process for process in self.tree() if f"ServeReplica:al_ray:{name}" in " ".join(process.cmdline())]

    def tree(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def kill_everything(self) -> None:
        """SIGKILL to the command and to all of its Ray, as if the machine had lost power."""
        processes = [psutil.Process(self.process.pid), *self.tree()]
        for process in processes:
            process.kill()
        psutil.wait_procs(processes)
        self._close()

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        self.lines += self.process.communicate()[0].splitlines()
        return self.process.returncode

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait()
