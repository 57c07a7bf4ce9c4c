"""docs/rayjob.yaml agrees with cluster.yaml, the pinned Ray and the options of jobs.run: KubeRay sees mistakes late."""

import copy
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from al_ray.cli.run import parse_arguments

ROOT = Path(__file__).resolve().parents[2]
Manifest = dict[str, Any]
CLUSTER = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "docs" / "Dockerfile").read_text(encoding="utf-8")


def pinned(name: str) -> str:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{name}=="))


def complaints(manifest: Manifest) -> list[str]:
    """What is wrong with a RayJob of ours."""
    found = []
    if (manifest["apiVersion"], manifest["kind"]) != ("ray.io/v1", "RayJob"):
        found.append("it is no RayJob")
    spec = manifest["spec"]
    cluster = spec["rayClusterSpec"]
    if not spec.get("shutdownAfterJobFinishes"):
        found.append("the cluster stays when the job has ended")
    if cluster["rayVersion"] != pinned("ray"):
        found.append(f"rayVersion is not {pinned('ray')}")
    if cluster.get("enableInTreeAutoscaling") is not True:
        found.append("nothing scales it")
    if cluster.get("authOptions") != {"mode": "token"}:
        found.append("it asks for no token")
    return [*found, *head(cluster["headGroupSpec"]), *workers(cluster["workerGroupSpecs"]), *job(spec)]


def only(group: Manifest) -> Manifest:
    (container,) = group["template"]["spec"]["containers"]
    return container


def image(container: Manifest, wanted: str) -> list[str]:
    """The image must have the tag of cluster.yaml's, from which docs/Dockerfile makes it."""
    tag = CLUSTER["docker"][wanted].partition(":")[2]
    return [] if container["image"].endswith(f"/al-ray:{tag}") else [f"{container['name']} is not of {tag}"]


def head(group: Manifest) -> list[str]:
    container = only(group)
    found = image(container, "head_image")
    if group["rayStartParams"].get("num-cpus") != "0":
        found.append("the head takes work")
    if "nvidia.com/gpu" in container["resources"]["limits"]:
        found.append("the head holds a GPU")
    return [*found, *resources(container)]


def workers(groups: list[Manifest]) -> list[str]:
    found = []
    for group in groups:
        container = only(group)
        found += [*image(container, "image"), *resources(container)]
        if group["minReplicas"] or group["replicas"]:
            found.append("workers stay when nobody works")
        if not int(container["resources"]["limits"].get("nvidia.com/gpu", 0)):
            found.append("workers have no GPU")
        volumes = {volume["name"]: volume for volume in group["template"]["spec"]["volumes"]}
        at = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
        if at.get("/dev/shm", {}).get("emptyDir", {}).get("medium") != "Memory":
            found.append("the object store is on disk")
    return found


def resources(container: Manifest) -> list[str]:
    """Ray takes the limits for what a pod has, Kubernetes the requests: they are to be one."""
    asked = container["resources"]
    return [] if asked["requests"] == asked["limits"] else [f"{container['name']} has not what it requests"]


def job(spec: Manifest) -> list[str]:
    words = shlex.split(spec["entrypoint"])
    if words[:3] != ["python", "-m", "jobs.run"]:
        return ["it runs no job of ours"]
    asked, found = parse_arguments(words[3:]), []
    for option, folder in (("--task", asked.run.task), ("--out", str(asked.out))):
        if "://" not in folder:
            found.append(f"{option} is in no bucket")
    (group,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    limits, most = only(group)["resources"]["limits"], group["maxReplicas"]
    actors = asked.cluster.shards + asked.run.training.workers
    room = min(
        limits.get("nvidia.com/gpu", 0) // asked.cluster.gpus_per_shard,
        int(limits["cpu"]) // asked.cluster.cpus_per_shard,
    )
    if actors > most * room:
        found.append(f"{actors} actors have no room")
    return found


@pytest.fixture
def manifest() -> Manifest:
    return copy.deepcopy(yaml.safe_load((ROOT / "docs" / "rayjob.yaml").read_text(encoding="utf-8")))


def test_the_rayjob_is_sound(manifest: Manifest):
    assert complaints(manifest) == []


def of_cluster(manifest: Manifest) -> Manifest:
    return manifest["spec"]["rayClusterSpec"]


def worker(manifest: Manifest) -> Manifest:
    return of_cluster(manifest)["workerGroupSpecs"][0]


def entry(manifest: Manifest, old: str, new: str) -> None:
    assert old in manifest["spec"]["entrypoint"]
    manifest["spec"]["entrypoint"] = manifest["spec"]["entrypoint"].replace(old, new)


BROKEN: dict[str, tuple[Callable[[Manifest], Any], str]] = {
    "kind": (lambda m: m.update(kind="RayCluster"), "it is no RayJob"),
    "stays": (lambda m: m["spec"].pop("shutdownAfterJobFinishes"), "the cluster stays when the job has ended"),
    "other-ray": (lambda m: of_cluster(m).update(rayVersion="2.59.0"), "rayVersion is not"),
    "fixed": (lambda m: of_cluster(m).pop("enableInTreeAutoscaling"), "nothing scales it"),
    "open": (lambda m: of_cluster(m).update(authOptions={"mode": "disabled"}), "it asks for no token"),
    "busy-head": (lambda m: of_cluster(m)["headGroupSpec"].update(rayStartParams={}), "the head takes work"),
    "other-image": (
        lambda m: only(worker(m)).update(image="REGISTRY/al-ray:2.59.0-py311-cu128"),
        "ray-worker is not of 2.60.0-py311-cu128",
    ),
    "idle-workers": (lambda m: worker(m).update(minReplicas=1), "workers stay when nobody works"),
    "no-gpu": (lambda m: only(worker(m))["resources"]["limits"].pop("nvidia.com/gpu"), "workers have no GPU"),
    "uneven": (lambda m: only(worker(m))["resources"]["requests"].update(cpu=1), "has not what it requests"),
    "disk": (lambda m: worker(m)["template"]["spec"]["volumes"][0].update(emptyDir={}), "object store is on disk"),
    "local": (lambda m: entry(m, "--out s3://BUCKET/", "--out /home/ray/"), "--out is in no bucket"),
    "too-many": (lambda m: entry(m, "--shards 3", "--shards 16"), "17 actors have no room"),
    "other-job": (lambda m: entry(m, "jobs.run", "jobs.ran"), "it runs no job of ours"),
}


@pytest.mark.parametrize(("spoil", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rayjob_is_told(manifest: Manifest, spoil: Callable[[Manifest], Any], said: str):
    spoil(manifest)
    assert [complaint for complaint in complaints(manifest) if said in complaint]


def test_an_option_that_jobs_run_has_not_ends_the_check(manifest: Manifest):
    entry(manifest, "--shards", "--shard-count")
    with pytest.raises(SystemExit):
        complaints(manifest)


def test_the_dockerfile_is_of_the_images_of_cluster_yaml_and_installs_what_is_pinned():
    images = re.findall(r"rayproject/ray:\S+", DOCKERFILE)
    assert set(images) == {CLUSTER["docker"]["image"], CLUSTER["docker"]["head_image"]}
    assert re.search(r"^ARG IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)[1] == CLUSTER["docker"]["image"]  # type: ignore[index]
    assert re.findall(r"pip install .*", DOCKERFILE) == [
        'pip install --no-cache-dir --constraint constraints.txt ".[${EXTRA},demo]"'
    ]
    copied = [
        name for line in re.findall(r"^COPY --chown=ray (.*)$", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]
    ]
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "constraints.txt", "LICENSE", "al_ray", "jobs"} == set(copied)
    # Each image is built under the name that the manifest has for it.
    tags = set(re.findall(r"-t (REGISTRY/al-ray:\S+)", DOCKERFILE))
    text = (ROOT / "docs" / "rayjob.yaml").read_text(encoding="utf-8")
    assert tags == set(re.findall(r"image: (\S+)", text))
