"""A Ray of three nodes on this machine whose nodes and head die; whoever comes next finds one with room again."""

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private import state
from ray.cluster_utils import Cluster

from tests.cluster.processes import kill_all
from tests.soak.waiting import wait_until

STORE = 10**8
WORKERS = 2


class SmallCluster:
    """A head without room for actors and two nodes with two CPUs each; folder: of its files, a short path."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.suspended = folder, list[psutil.Process]()
        self.start()

    def start(self) -> None:
        """Start the head and the nodes."""
        head = {
            "num_cpus": 0,
            "object_store_memory": STORE,
            "include_dashboard": False,
            "temp_dir": str(self.folder),
        }
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.mend()

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    @property
    def nodes(self) -> list[Any]:
        """The nodes with room for actors, the oldest first."""
        return [node for node in self.cluster.list_all_nodes() if node != self.cluster.head_node]

    @property
    def has_head(self) -> bool:
        return self.gcs.is_running() and self.gcs.status() != psutil.STATUS_ZOMBIE

    @property
    def gcs(self) -> psutil.Process:
        return self._process(self.cluster.head_node, "gcs_server")

    def raylet(self, node: Any) -> psutil.Process:
        return self._process(node, "raylet")

    def _process(self, node: Any, kind: str) -> psutil.Process:
        pid = node.all_processes[kind][0].process.pid
        try:
            return psutil.Process(pid)
        except psutil.NoSuchProcess:
            # A process that has ended, which `is_running` says.
            gone = psutil.Process()
            return type("Gone", (), {"is_running": lambda _: False, "pid": pid, "status": gone.status})()  # type: ignore[return-value]

    def add(self) -> None:
        """Add a node; without a head there is nothing to add it to."""
        if self.has_head:
            self.cluster.add_node(num_cpus=2, object_store_memory=STORE)

    def lose(self, place: int) -> bool:
        """Kill a node and all of its processes; return whether there was one."""
        if not self.nodes or not self.has_head:
            return False
        node = self.nodes[place % len(self.nodes)]
        self.resume()
        self._remove(node)
        return True

    def _remove(self, node: Any) -> None:
        with suppress(psutil.Error):
            raylet = self.raylet(node)
            workers = raylet.children(recursive=True)
            self.cluster.remove_node(node, allow_graceful=False)
            # They end by themselves when their raylet is gone, but not where they are stopped.
            _, left = psutil.wait_procs(workers, timeout=20)
            kill_all(left)
            return
        self.cluster.worker_nodes.discard(node)

    def drain(self, place: int) -> bool:
        """Tell a node to take no more work, and let it go two seconds later."""
        if not self.nodes or not self.has_head:
            return False
        node = self.nodes[place % len(self.nodes)]
        command = [
            *(str(Path(sys.executable).parent / "ray"), "drain-node", "--address", self.address),
            *("--node-id", node.node_id, "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "soak"),
            *("--deadline-remaining-seconds", "10"),
        ]
        subprocess.run(command, check=False, capture_output=True, timeout=60)
        self._remove(node)
        return True

    def suspend_raylet(self, place: int) -> bool:
        """Stop a raylet, whose node Ray then takes for dead."""
        if not self.nodes or not self.has_head:
            return False
        raylet = self.raylet(self.nodes[place % len(self.nodes)])
        raylet.suspend()
        self.suspended.append(raylet)
        return True

    def resume(self) -> None:
        """Let stopped raylets go on; they find that they are dead, and end."""
        for raylet in self.suspended:
            with suppress(psutil.Error):
                raylet.resume()
        self.suspended.clear()

    def mend(self) -> None:
        """Bring back whatever is missing, as whoever runs a cluster does."""
        self.resume()
        if not self.has_head:
            self.stop()
            self.start()
        for node in self.nodes:
            if not self.raylet(node).is_running():
                self.cluster.worker_nodes.discard(node)
        while len(self.nodes) < WORKERS:
            self.add()

    def left(self, seconds: float) -> list[str]:
        """Return the placement groups and actors that are there still after so many seconds."""
        os.environ["RAY_ADDRESS"] = self.address
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
        try:
            return wait_until(_held, seconds)
        finally:
            ray.shutdown()
            del os.environ["RAY_ADDRESS"]

    def stop(self) -> None:
        """End all of it."""
        self.resume()
        with suppress(psutil.Error, AssertionError):
            self.cluster.shutdown()


def _held() -> list[str]:
    groups: Mapping[str, Any] = ray.util.placement_group_table()
    actors: Mapping[str, Any] = state.actors()
    return [
        *(f"placement group {key}: {one['state']}" for key, one in groups.items() if one["state"] != "REMOVED"),
        *(f"actor {one['ActorClassName']}: {one['State']}" for one in actors.values() if one["State"] != "DEAD"),
    ]
