"""jobs.serve on a cluster that is there: by `ray job submit`, and by `serve deploy` with a model and then another."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
import yaml

from al_ray.apps.serving.store import StoreWriter, read_store
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.serving.serving_process import ROOT, free_port
from tests.apps.serving.test_serve_killed import other_model
from tests.cluster.heads import Head, environment_of, started

pytestmark = pytest.mark.slow
TOKEN = "0123456789abcdef"
PATIENCE = 600.0


@pytest.fixture(scope="module")
def here(make_task, tmp_path_factory) -> Path:
    """Two models and a table of known texts."""
    root = tmp_path_factory.mktemp("serve")
    run = run_folder(root / "may", make_task(True, clusters=10, members=4))
    other_model(run, root / "june")
    (root / "k.csv").write_text("key,words\na,how do i swim\nb,why\n")
    (root / "token").write_text(f"{TOKEN}\n")
    return root


@pytest.fixture(scope="module")
def head(tmp_path_factory) -> Iterator[Head]:
    environment = environment_of(tmp_path_factory.mktemp("home"), RAY_AUTH_MODE="disabled")
    with started("ray start --head", environment, "--num-cpus=4") as made:
        yield made


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    with urlopen(Request(f"http://127.0.0.1:{port}{path}", content, headers, method=method), timeout=60) as answer:
        return json.load(answer)


def wait_until(is_so: Callable[[], bool], state: Callable[[], str]) -> None:
    """Wait for other processes, which tell nobody; an error if their state says that they have failed."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        said = state()
        assert time.monotonic() < deadline, said
        assert "FAILED" not in said, said
        time.sleep(0.2)


def answers(port: int) -> bool:
    try:
        return ask(port, "GET", "/ready") == {"status": "ready"}
    except (URLError, ConnectionError):
        return False


def test_a_submitted_service_is_the_only_one_and_keeps_its_changes_when_the_job_is_stopped(head, here, tmp_path):
    port, store = free_port(), tmp_path / "store"
    options = {
        "--model": here / "may/run", "--known": here / "k.csv", "--text-columns": "words", "--id-column": "key",
        "--store": store, "--token-file": here / "token", "--port": port,
    }  # fmt: skip
    line = [str(word) for option in options.items() for word in option]
    submit = ["ray", "job", "submit", "--no-wait", "--submission-id", "serving", "--working-dir", "."]
    begun = head.ended(*submit, "--", "python", "-m", "jobs.serve", *line, "--shared-storage")
    assert begun.returncode == 0, begun.stdout
    wait_until(lambda: answers(port), lambda: head.ended("ray", "job", "logs", "serving").stdout)
    put = ask(port, "PUT", "/texts", {"texts": [{"id": "c", "text": "how do i swim fast"}]})
    [results] = ask(port, "POST", "/match", {"texts": ["how do i swim fast"], "at_least": put["sequence"]})["results"]
    assert results[0]["id"] == "c"
    # A second service on this cluster would take the place of the first, and its end would end both.
    other = {**options, "--store": tmp_path / "other", "--port": free_port()}
    words = [str(word) for option in other.items() for word in option]
    second = head.ended("python", "-m", "jobs.serve", *words, "--shared-storage", RAY_ADDRESS=head.address)
    assert second.returncode == 2, second.stdout
    assert "error: Ray Serve runs on this cluster (applications: al_ray), and a cluster has one" in second.stdout
    [results] = ask(port, "POST", "/match", {"texts": ["how do i swim fast"]})["results"]
    assert results[0]["id"] == "c"
    stopped = head.ended("ray", "job", "stop", "serving")
    assert stopped.returncode == 0, stopped.stdout
    assert {one: known.text for one, known in read_store(store).texts.items()}["c"] == "how do i swim fast"
    # The lock is free.
    StoreWriter(store, PATIENCE).close()
    log = head.ended("ray", "job", "logs", "serving").stdout
    assert "Traceback" not in log
    assert f"ready: http://127.0.0.1:{port}" in log


def test_serve_deploy_puts_in_another_model_and_keeps_the_changes(head, here, tmp_path):
    port, path, store = free_port(), tmp_path / "serve.yaml", tmp_path / "store"
    config = yaml.safe_load((ROOT / "docs/serve-config.yaml").read_text())
    config |= {"http_options": {"host": "127.0.0.1", "port": port}, "proxy_location": "HeadOnly"}
    arguments = {"known": str(here / "k.csv"), "store": str(store), "token_file": str(here / "token")}
    arguments |= {"text_columns": "words", "id_column": "key", "shared_storage": True, "cpus_per_replica": 1}

    def deploy(model: Path, before: str = "") -> str:
        """Return the digest of the model that answers, another one than before."""
        config["applications"][0]["args"] = {**arguments, "model": str(model)}
        path.write_text(yaml.safe_dump(config))
        deployed = head.ended("serve", "deploy", str(path), "-a", url_of(head))
        assert deployed.returncode == 0, deployed.stdout
        wait_until(
            lambda: answers(port) and ask(port, "GET", "/model")["model"] != before,
            lambda: head.ended("serve", "status", "-a", url_of(head)).stdout,
        )
        return ask(port, "GET", "/model")["model"]

    may = deploy(here / "may/run")
    ask(port, "PUT", "/texts", {"texts": [{"id": "c", "text": "how do i swim fast"}]})
    june = deploy(here / "june", may)
    answer = ask(port, "POST", "/match", {"texts": ["how do i swim fast"]})
    assert (answer["model"], answer["results"][0][0]["id"]) == (june, "c")
    ended = head.ended("serve", "shutdown", "-y", "-a", url_of(head))
    assert ended.returncode == 0, ended.stdout
    StoreWriter(store, PATIENCE).close()


def url_of(head: Head) -> str:
    return head.environment["RAY_API_SERVER_ADDRESS"]
