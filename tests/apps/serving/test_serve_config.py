"""docs/serve-config.yaml and docs/rayservice.yaml: Ray's own schema, our options, and room for every replica."""

import copy
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from ray.serve.schema import HTTPOptionsSchema, ServeApplicationSchema, ServeDeploySchema

from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.app import NAME, build
from al_ray.apps.serving.arguments import options_of
from al_ray.apps.serving.model_name import ModelName
from al_ray.core.errors import BadOption
from tests.apps.audit.test_audit_job import run_folder

ROOT = Path(__file__).resolve().parents[3]
Content = dict[str, Any]
TAG = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))["docker"]["head_image"].partition(":")[2]


@pytest.fixture(scope="module")
def run(make_task, tmp_path_factory) -> Path:
    return run_folder(tmp_path_factory.mktemp("run"), make_task(True, clusters=10, members=4))


def read(name: str) -> Content:
    return yaml.safe_load((ROOT / "docs" / name).read_text(encoding="utf-8"))


def complaints(config: Content) -> list[str]:
    """What is wrong with a config file of Serve; an error of Ray's schema or of an option is raised."""
    schema = ServeDeploySchema.model_validate(config)
    [application] = schema.applications
    module, _, name = application.import_path.partition(":")
    # Ray ignores keys that it does not know.
    unknown = set(config) - set(ServeDeploySchema.model_fields)
    unknown |= set(config["applications"][0]) - set(ServeApplicationSchema.model_fields)
    unknown |= set(config["http_options"]) - set(HTTPOptionsSchema.model_fields)
    found = [f"{name} is no key of Ray" for name in sorted(unknown)]
    if getattr(importlib.import_module(module), name) is not build:
        found.append("it builds another application")
    if application.name != NAME:
        found.append("the application has another name")
    options = options_of(application.args)
    if options.token_file is None:
        found.append("it has no token")
    if not options.shared_storage:
        found.append("its store is on one node")
    for path in (options.model, options.known, options.store, options.token_file):
        if path is not None and not str(path).startswith("/"):
            found.append(f"{path} is relative")
    return found


def of_service(service: Content) -> list[str]:
    """What is wrong with a RayService of ours."""
    config = yaml.safe_load(service["spec"]["serveConfigV2"])
    found = complaints(config)
    if (service["apiVersion"], service["kind"]) != ("ray.io/v1", "RayService"):
        found.append("it is no RayService")
    if service["spec"].get("upgradeStrategy") != {"type": "None"}:
        found.append("two clusters would write one store")
    cluster = service["spec"]["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    if cluster["rayVersion"] != TAG.partition("-")[0]:
        found.append("it is another Ray")
    if cluster["headGroupSpec"]["rayStartParams"].get("num-cpus") != "0":
        found.append("the head takes work")
    options = options_of(config["applications"][0]["args"])
    room = 0
    for group in groups:
        [container] = group["template"]["spec"]["containers"]
        if container["image"] != f"REGISTRY/al-ray-serve:{TAG}":
            found.append("an image is another one")
        if container["resources"]["requests"] != container["resources"]["limits"]:
            found.append(f"{container['name']} has not what it requests")
        volumes = {volume["name"] for volume in group["template"]["spec"]["volumes"]}
        mounts = {mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in volumes}
        paths = (options.model, options.known, options.store, options.token_file)
        found += [f"{path} is not mounted" for path in paths if f"/{str(path).split('/')[1]}" not in mounts]
        room += group.get("maxReplicas", 0) * (container["resources"]["limits"]["cpu"] // options.cpus_per_replica)
    if room < (options.most_replicas or options.replicas):
        found.append("replicas have no room")
    return found


def application(config: Content) -> Content:
    return config["applications"][0]


def test_the_config_file_is_sound_and_its_application_can_be_built(run, tmp_path):
    config = read("serve-config.yaml")
    assert complaints(config) == []
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    (tmp_path / "current").symlink_to(run)
    built = build({**application(config)["args"], "token_file": str(token), "model": str(tmp_path / "current")})
    assert built._bound_deployment.name == "Api"
    # A writer that is started again gets the same model, wherever the link leads by then.
    arguments: Any = built._bound_deployment.init_args
    writer = arguments[3]._bound_deployment
    assert (writer.name, writer.init_args[1]) == ("Writer", ModelName.of(open_model(run)))


def test_the_service_on_kubernetes_is_sound_and_the_same_but_for_the_token():
    service, config = read("rayservice.yaml"), read("serve-config.yaml")
    assert of_service(service) == []
    own = yaml.safe_load(service["spec"]["serveConfigV2"])
    own["applications"][0]["args"]["token_file"] = application(config)["args"]["token_file"]
    assert own == config


BROKEN: dict[str, tuple[Callable[[Content], Any], str]] = {
    "other key": (lambda c: application(c).update(arguments={}), "arguments is no key of Ray"),
    "other option of HTTP": (lambda c: c["http_options"].update(hots="::"), "hots is no key of Ray"),
    "other application": (
        lambda c: application(c).update(import_path="al_ray.apps.serving.app:options_of"),
        "builds",
    ),
    "other name": (lambda c: application(c).update(name="default"), "the application has another name"),
    "no token": (lambda c: application(c)["args"].pop("token_file"), "it has no token"),
    "one node": (lambda c: application(c)["args"].pop("shared_storage"), "its store is on one node"),
    "relative": (lambda c: application(c)["args"].update(store="store"), "store is relative"),
}


@pytest.mark.parametrize(("spoil", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_config_file_is_told(spoil, said):
    config = read("serve-config.yaml")
    spoil(config)
    assert [complaint for complaint in complaints(config) if said in complaint]


def of_worker(service: Content) -> Content:
    return service["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]


BROKEN_SERVICE: dict[str, tuple[Callable[[Content], Any], str]] = {
    "kind": (lambda s: s.update(kind="RayJob"), "it is no RayService"),
    "two clusters": (lambda s: s["spec"].pop("upgradeStrategy"), "two clusters would write one store"),
    "no room": (lambda s: of_worker(s).update(maxReplicas=3), "replicas have no room"),
    "no volume": (lambda s: of_worker(s)["template"]["spec"]["volumes"].pop(0), "/shared/runs/products is not mounted"),
    "other Ray": (lambda s: s["spec"]["rayClusterConfig"].update(rayVersion="2.59.0"), "it is another Ray"),
}


@pytest.mark.parametrize(("spoil", "said"), BROKEN_SERVICE.values(), ids=BROKEN_SERVICE)
def test_a_broken_service_is_told(spoil, said):
    service = copy.deepcopy(read("rayservice.yaml"))
    spoil(service)
    assert [complaint for complaint in of_service(service) if said in complaint]


def test_what_ray_does_not_know_is_refused_by_its_schema():
    config = read("serve-config.yaml")
    config["http_options"]["port"] = "many"
    with pytest.raises(ValidationError, match=r"http_options.port"):
        complaints(config)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"token": "secret"}, "args: token is no option of `al_ray.ServeOptions`"),
        ({"port": 80}, "args: port is no option of `al_ray.ServeOptions`"),
        ({"limit": "many"}, "args: limit: Input should be a valid integer"),
        ({"limit": 0}, "`limit` is 0; give at least 1"),
        ({"store": 3}, "args: store: Input is not a valid path"),
    ],
)
def test_an_argument_that_is_wrong_is_named(arguments, said):
    with pytest.raises(BadOption, match=said):
        options_of({"model": "/m", "known": "/k", "store": "/s", **arguments})


def test_an_argument_that_is_not_given_is_named():
    with pytest.raises(BadOption, match="args: known is not given; give model, known, store"):
        options_of({"model": "/m"})


def test_a_model_that_the_other_options_do_not_fit_is_refused_before_it_is_deployed(run, tmp_path):
    own = {"model": str(run), "known": "/k", "store": str(tmp_path), "open": True}
    with pytest.raises(BadOption, match=r"has no threshold for recall=0.5; choose one"):
        build({**own, "recall": 0.5})


def test_an_application_without_a_token_must_say_so(run, monkeypatch, tmp_path):
    monkeypatch.delenv("AL_RAY_TOKEN", raising=False)
    own = {"model": str(run), "known": "/k", "store": str(tmp_path / "store")}
    with pytest.raises(BadOption, match="there is no token; give the argument token_file, set AL_RAY_TOKEN"):
        build(own)
    assert build({**own, "open": True})._bound_deployment.name == "Api"
    monkeypatch.setenv("AL_RAY_TOKEN", "0123456789abcdef")
    assert build(own)._bound_deployment.name == "Api"
