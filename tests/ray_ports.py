"""Ports of the agents of a Ray node, chosen before it starts: its raylet then does not wait for the agents.

For a port that an agent chooses itself the raylet of Ray 2.60 waits 15 s, and aborts: nodes did not start now and then
on a busy machine (ray-project/ray, issue 65983).
"""

import os
import re
import socket
from contextlib import suppress
from functools import wraps
from random import SystemRandom
from typing import Any

from ray._private import node, ray_constants, services

AGENTS = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")
# Below those that Linux gives to whoever asks for any port; each process of pytest-xdist has its own.
FIRST, COUNT = 20_000, 3_000
_given = set[int]()


def free_port() -> int:
    """A port that nobody listens at, and that nobody gets who asks for any."""
    first = FIRST + COUNT * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 4)
    while True:
        port = SystemRandom().randrange(first, first + COUNT)
        with socket.socket() as probe, suppress(OSError):
            if port not in _given:
                probe.bind(("", port))
                _given.add(port)
                return port


def choose_ports() -> None:
    """From now on choose the ports of nodes that this process starts."""
    init, start = node.Node.__init__, services.start_ray_process

    @wraps(init)
    def with_ports(self: Any, ray_params: Any, *arguments: Any, **options: Any) -> None:
        if not options.get("connect_only"):
            for name in AGENTS:
                if getattr(ray_params, name) in (None, 0, ray_constants.DEFAULT_DASHBOARD_AGENT_LISTEN_PORT):
                    setattr(ray_params, name, free_port())
        init(self, ray_params, *arguments, **options)

    @wraps(start)
    def with_last_port(command: list[str], process_type: str, *arguments: Any, **options: Any) -> Any:
        if process_type == ray_constants.PROCESS_TYPE_RAYLET:
            # Ray tells the raylet the others.
            (port,) = re.findall(r"--listen-port=(\d+)", " ".join(command))
            command = [*command, f"--dashboard_agent_listen_port={port}"]
        return start(command, process_type, *arguments, **options)

    node.Node.__init__, services.start_ray_process = with_ports, with_last_port
