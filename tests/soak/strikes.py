"""Faults that strike processes and nodes, whatever runs there."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import psutil

from tests.cluster.processes import workers
from tests.soak.plan import Fault
from tests.soak.small_cluster import SmallCluster

ACTORS = {
    "shard": "PoolShard",
    "trainer": "Trainer",
    "cell": "ImplicitFunc",
    "replica": "ServeReplica:al_ray:Matcher",
    "writer": "ServeReplica:al_ray:Writer",
    "interface": "ServeReplica:al_ray:Api",
    "controller": "ServeController",
    "proxy": "ProxyActor",
}
"""Whom a fault names -> what its process is called."""
Later = Callable[[float, Callable[[], object]], None]
"""Do something in so many seconds."""


def strike(fault: Fault, driver: psutil.Process, cluster: SmallCluster, later: Later) -> bool:
    """Do what a fault of a process, a node or the head says; return whether there was anything that it could hit."""
    if fault.kind.endswith(("node", "raylet", "GCS")):
        return strike_node(fault, cluster, later)
    return strike_process(fault, driver, later)


def strike_process(fault: Fault, driver: psutil.Process, later: Later) -> bool:
    """Kill, stop, pause or starve the driver or actors; return whether there was one."""
    verb, _, whom = fault.kind.partition(" ")
    victims = [driver] if whom == "driver" else workers(*([ACTORS[whom]] if whom in ACTORS else ACTORS.values()))
    if not victims:
        return False
    if whom != "all actors":
        victims = [victims[int(fault.target) % len(victims)]]
    for victim in victims:
        with suppress(psutil.Error):
            if verb == "kill":
                victim.kill()
            elif verb == "starve":
                victim.rlimit(psutil.RLIMIT_AS, (victim.memory_info().vms, psutil.RLIM_INFINITY))
            else:
                victim.suspend()
            if verb == "pause":
                later(fault.seconds, partial(_resume, victim))
    return True


def _resume(process: psutil.Process) -> None:
    with suppress(psutil.Error):
        process.resume()


def strike_node(fault: Fault, cluster: SmallCluster, later: Later) -> bool:
    """Kill, lose or drain a node, stop its raylet, or kill the server of the head; return whether there was one."""
    place = int(fault.target)
    if fault.kind in ("kill node", "drain node"):
        # Another one comes before, or some time after.
        if place % 2:
            cluster.add()
        else:
            later(fault.seconds, cluster.mend)
        return cluster.lose(place // 2) if fault.kind == "kill node" else cluster.drain(place // 2)
    if fault.kind == "stop raylet":
        cluster.add()
        later(30.0, cluster.mend)
        return cluster.suspend_raylet(place)
    if fault.kind == "kill GCS":
        cluster.gcs.kill()
        return True
    assert fault.kind == "lose node", fault
    return cluster.lose(place)
