"""The node types of cluster.yaml come from zero when actors ask for GPUs and go when idle: Ray's autoscaler, here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_TYPE
from ray.autoscaler._private.util import prepare_config
from ray.util import get_node_ip_address

from tests.cluster.heads import ROOT, environment_of, started
from tests.ray_ports import free_port

pytestmark = pytest.mark.slow

# What AWS tells of an InstanceType.
HAS = {"m6i.2xlarge": {"CPU": 8}, "g5.12xlarge": {"CPU": 48, "GPU": 4}}
# Nodes are processes of this machine. The provider `fake_multinode` of the schema misses a file in Ray 2.60.
PROVIDER = {
    "type": "external",
    "module": "tests.cluster.nodes.Nodes",
    "use_node_id_as_ip": True,
    "disable_node_updaters": True,
    "disable_launch_config_check": True,
}
# Five places of a GPU, as five shards ask for them, then nothing: the nodes at first, with the places, and at the end.
DRIVER = """
import json
import time
from collections import Counter

import ray

from al_ray.cluster.actors import placement
from al_ray.core.config.cluster import ClusterConfig

def nodes():
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sorted([node.get("CPU", 0), node.get("GPU", 0)] for node in alive)

ray.init(log_to_driver=False)
seen = [nodes()]
with placement({"PoolShard": 5}, ClusterConfig(shards=5, cpus_per_shard=8, gpus_per_shard=1, timeout=600)) as places:
    seen.append(nodes())
    assert len(places.all_slots.group.bundle_specs) == 5
deadline = time.monotonic() + 600
while len(nodes()) > 1 and time.monotonic() < deadline:
    time.sleep(0.5)
seen.append(nodes())
print(json.dumps(seen))
"""


def local(path: Path, address: str) -> dict[str, Any]:
    """cluster.yaml with nodes that this machine plays: types, bounds and head as they stand, and nothing to install."""
    config = prepare_config(yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8")))
    config["provider"] = {**PROVIDER, "gcs_address": address}
    # The provider calls the head so, whatever its configuration says.
    types = config["available_node_types"]
    types[FAKE_HEAD_NODE_TYPE] = types.pop(config["head_node_type"])
    config["head_node_type"] = FAKE_HEAD_NODE_TYPE
    # Half a minute instead of a quarter of an hour: the first node is idle until the second one has started, too.
    config["idle_timeout_minutes"] = 0.5
    for node in types.values():
        node["resources"] = {**HAS[node["node_config"]["InstanceType"]], **node["resources"]}
        node["node_config"] = {}
    config["file_mounts"], config["docker"] = {}, {}
    for name in config:
        if name.endswith("_commands"):
            config[name] = []
    path.write_text(yaml.safe_dump(config))
    return config


def test_five_gpus_bring_two_nodes_and_idleness_sends_them_away(tmp_path):
    environment = environment_of(
        tmp_path, RAY_AUTH_MODE="disabled", AUTOSCALER_UPDATE_INTERVAL_S="1", RAY_FAKE_CLUSTER="1",
        AUTOSCALER_HEARTBEAT_TIMEOUT_S="300", PYTHONPATH=str(ROOT),
    )  # fmt: skip
    port = free_port()
    config = local(tmp_path / "local.yaml", f"{get_node_ip_address()}:{port}")
    head = config["available_node_types"][config["head_node_type"]]["resources"]
    with started(
        "ray start --head",
        environment,
        f"--port={port}",
        f"--num-cpus={head['CPU']}",
        f"--autoscaling-config={tmp_path / 'local.yaml'}",
    ) as made:
        done = subprocess.run(
            [sys.executable, "-c", DRIVER], env={**environment, "RAY_ADDRESS": made.address},
            capture_output=True, text=True, check=False, timeout=1800,
        )  # fmt: skip
        logs = "\n".join(path.read_text() for path in (made.folder / "session_latest" / "logs").glob("monitor.*"))
    assert done.returncode == 0, done.stderr + logs[-5000:]
    none, with_places, after = json.loads(done.stdout.splitlines()[-1])
    # CPUs and GPUs of each node: the head has nothing to work with; four GPUs a node, so two nodes for five.
    assert none == after == [[0, 0]]
    assert with_places == [[0, 0], [48, 4], [48, 4]]
