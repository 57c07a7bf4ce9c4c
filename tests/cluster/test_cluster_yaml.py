"""cluster.yaml is what Ray takes, and what al_ray needs: checked without a cloud, for `ray up` sees mistakes late."""

import copy
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import ValidationError
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).resolve().parents[2]
Config = dict[str, Any]
SETUP = ("initialization_commands", "head_setup_commands", "worker_setup_commands")
# What a node's configuration must say by itself: the machine, its disk's image, and who it is to the bucket.
WANTED = {
    "aws": ("InstanceType", "ImageId", "IamInstanceProfile"),
    "gcp": ("machineType", "disks", "serviceAccounts"),
}
START = ("head_start_ray_commands", "worker_start_ray_commands")


def pinned(name: str) -> str:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{name}=="))


def complaints(config: Config) -> list[str]:
    """What is wrong with a cluster, beyond what Ray's schema sees. Ray's defaults are filled in first."""
    full = prepare_config(copy.deepcopy(config))
    validate_config(full)
    return [*nodes(full), *images(full), *commands(full), *mounts(full)]


def nodes(full: Config) -> list[str]:
    types = full["available_node_types"]
    workers = {name: node for name, node in types.items() if name != full["head_node_type"]}
    wanted = WANTED[full["provider"]["type"]]
    found = [f"{name} has no {key}" for name, node in types.items() for key in wanted if key not in node["node_config"]]
    if full["provider"]["type"] == "aws" and any("InstanceMarketOptions" in n["node_config"] for n in types.values()):
        found.append("nodes may be taken away unasked")
    if types[full["head_node_type"]]["resources"].get("CPU") != 0:
        found.append("the head takes work")
    if any(node["min_workers"] for node in workers.values()):
        found.append("workers stay when nobody works")
    if full["max_workers"] != sum(node["max_workers"] for node in workers.values()):
        found.append("max_workers is not the sum of the node types'")
    return found


def images(full: Config) -> list[str]:
    docker = full["docker"]
    used = [docker[key] for key in ("image", "head_image", "worker_image") if key in docker]
    wanted = re.compile(rf"rayproject/ray:{re.escape(pinned('ray'))}-py311(-cpu|-cu\d+)")
    return [f"{image} is not Ray {pinned('ray')} on Python 3.11" for image in used if not wanted.fullmatch(image)]


def commands(full: Config) -> list[str]:
    found: list[str] = []
    installs: dict[str, list[str]] = {}
    for key in SETUP:
        for command in full[key]:
            for part in re.split(r"&&|\|\||;", command):
                if re.search(r"\bpip3?\s+install\b", part):
                    installs.setdefault(key, []).append(part)
                    found += [f"unpinned: {what}" for what in unpinned(part)]
    for key, extra in (("head_setup_commands", "cpu"), ("worker_setup_commands", "gpu")):
        if not any(re.search(rf"\.\[[a-z,]*\b{extra}\b", part) for part in installs.get(key, [])):
            found.append(f"{key} does not install al_ray with {extra}")
    for key in START:
        started = [command for command in full[key] if "ray start" in command]
        if len(started) != 1 or "RAY_AUTH_MODE=token ray start" not in started[0]:
            found.append(f"{key} starts Ray without a token")
    return found


def unpinned(install: str) -> list[str]:
    """What a `pip install` takes in whatever version comes: a name without ==, or this project without constraints."""
    words = iter(shlex.split(install.partition(" install ")[2]))
    names: list[str] = []
    constrained = False
    for word in words:
        if word in ("-c", "--constraint"):
            constrained = next(words) == "constraints.txt"
        elif not word.startswith("-"):
            names.append(word)
    return [name for name in names if not (name.startswith(".") and constrained) and not re.search(r"==\d", name)]


def mounts(full: Config) -> list[str]:
    """Paths of this repository that are not there; a `ray up` would fail half way."""
    local = [path for path in full["file_mounts"].values() if not path.startswith("~")]
    found = [f"{path} is not there" for path in local if not (ROOT / path).exists()]
    if "/home/ray/.ray/auth_token" not in full["file_mounts"]:
        found.append("the nodes get no token")
    return found


@pytest.fixture
def config() -> Config:
    return yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))


def test_cluster_yaml_is_sound(config: Config):
    assert complaints(config) == []


def test_what_the_guide_changes_for_gcp_is_sound_too(config: Config):
    guide = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    changed = yaml.safe_load(block)
    assert changed["provider"]["type"] == "gcp"
    assert complaints({**config, **changed}) == []
    (types,) = (changed["available_node_types"],)
    # GCP does not tell Ray what a machine has.
    assert types["gpu_worker"]["resources"]["GPU"] == 4
    del types["gpu_worker"]["node_config"]["serviceAccounts"]
    assert complaints({**config, **changed}) == ["gpu_worker has no serviceAccounts"]


def test_the_guides_commands_name_what_stands_in_cluster_yaml(config: Config):
    guide = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    roles = {node["node_config"]["IamInstanceProfile"]["Name"] for node in config["available_node_types"].values()}
    made = re.search(r"^for role in (.*); do$", guide, re.MULTILINE)
    assert made is not None
    assert set(made[1].split()) == roles
    # What the head hands to a worker it must be allowed to hand on.
    assert f"role/{worker(config)['node_config']['IamInstanceProfile']['Name']}" in guide
    for policy in re.findall(r"'(\{.*?\})'", guide, re.DOTALL):
        assert json.loads(policy)["Version"] == "2012-10-17"


def head(config: Config) -> Config:
    return config["available_node_types"]["head"]


def worker(config: Config) -> Config:
    return config["available_node_types"]["gpu_worker"]


def replaced(config: Config, key: str, old: str, new: str) -> None:
    text = yaml.safe_dump(config[key], width=1000)
    assert old in text
    config[key] = yaml.safe_load(text.replace(old, new))


BROKEN: dict[str, tuple[Callable[[Config], Any], str]] = {
    "instance-type": (lambda c: worker(c)["node_config"].pop("InstanceType"), "gpu_worker has no InstanceType"),
    "machine-image": (lambda c: head(c)["node_config"].pop("ImageId"), "head has no ImageId"),
    "no-role": (lambda c: worker(c)["node_config"].pop("IamInstanceProfile"), "gpu_worker has no IamInstanceProfile"),
    "spot": (
        lambda c: worker(c)["node_config"].update(InstanceMarketOptions={"MarketType": "spot"}),
        "nodes may be taken away unasked",
    ),
    "busy-head": (lambda c: head(c).update(resources={}), "the head takes work"),
    "idle-workers": (lambda c: worker(c).update(min_workers=1), "workers stay when nobody works"),
    "max-workers": (lambda c: c.update(max_workers=8), "max_workers is not the sum of the node types'"),
    "other-ray": (lambda c: replaced(c, "docker", "2.60.0-py311-cpu", "2.59.0-py311-cpu"), "rayproject/ray:2.59.0"),
    "other-python": (lambda c: replaced(c, "docker", "py311-cu128", "py312-cu128"), "py312-cu128 is not"),
    "default-setup": (lambda c: c.pop("setup_commands"), "unpinned: ray[default] @"),
    "default-boto": (lambda c: c.pop("head_setup_commands"), "unpinned: boto3>=1.4.8"),
    "no-constraints": (
        lambda c: replaced(c, "worker_setup_commands", "--constraint constraints.txt", "--no-cache-dir"),
        "unpinned: .[gpu,demo]",
    ),
    "upgraded": (lambda c: c["setup_commands"].append("pip install --upgrade numpy"), "unpinned: numpy"),
    "no-gpu": (lambda c: replaced(c, "worker_setup_commands", "gpu", "cpu"), "does not install al_ray with gpu"),
    "no-token": (
        lambda c: replaced(c, "worker_start_ray_commands", "RAY_AUTH_MODE=token ", ""),
        "worker_start_ray_commands starts Ray without a token",
    ),
    "default-start": (lambda c: c.pop("head_start_ray_commands"), "head_start_ray_commands starts Ray without a token"),
    "token-file": (lambda c: c["file_mounts"].pop("/home/ray/.ray/auth_token"), "the nodes get no token"),
    "gone": (lambda c: c["file_mounts"].update({"/home/ray/x": "./x"}), "./x is not there"),
}


@pytest.mark.parametrize(("spoil", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_cluster_is_told(config: Config, spoil: Callable[[Config], Any], said: str):
    spoil(config)
    assert [complaint for complaint in complaints(config) if said in complaint]


def test_ray_refuses_a_key_that_it_does_not_know(config: Config):
    config["max_workrs"] = config.pop("max_workers")
    with pytest.raises(ValidationError):
        complaints(config)
