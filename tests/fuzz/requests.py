"""Requests to the page of jobs.annotate and to the service of jobs.serve, as JSON files that can be damaged.

A file has method, path, headers and either `json`, the body, or `form`, its fields, or `body`, as text of latin-1.
"""

import atexit
import json
import re
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
from starlette.testclient import TestClient

from al_ray.apps.http.token import token_digest
from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.http_api import make_api
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.store import StoreWriter
from al_ray.core.errors import AlRayError
from al_ray.datasets.task_folder import read_task
from al_ray.runs.run_folder import opened
from al_ray.storage.files import write_json
from tests.apps.annotating.waiting_runs import TOKEN, page_of
from tests.apps.serving.test_http import PlainService

CSRF, FORM = "@csrf@", "application/x-www-form-urlencoded"
# Errors of the client for what is no request: no server would see it.
UNSENT = ValueError, KeyError, TypeError, AttributeError, RecursionError, httpx2.InvalidURL, httpx2.RequestError


class Refusal(AlRayError):
    """A request that was answered with a code below 500 that says what is wrong."""


def write_requests(root: Path) -> None:
    """Write sound requests of every kind."""
    own: dict[str, Any] = {"csrf": CSRF, "pair": "r001-00005", "request": "1"}
    forms: dict[str, dict[str, str]] = {
        "answer": {**own, "label": "yes", "note": "é"},
        "skip": own,
        "undo": own,
        "settle": {**own, "label": "no"},
        "retract": {**own, "name": "eve"},
        "waive": own,
        "sign-in": {"csrf": CSRF, "name": "ann", "token": TOKEN},
        "sign-out": {"csrf": CSRF},
    }
    headers = {"host": "127.0.0.1:8001", "content-type": FORM}
    for name, form in forms.items():
        write_json(
            root / "fz-requests-page" / f"{name}.json",
            {"method": "POST", "path": f"/{name}", "headers": headers, "form": form},
        )
    for number, path in enumerate(
        ("/", "/pair/r001-00001", "/disputes", "/progress", "/status", "/static/page.js", "/health")
    ):
        write_json(
            root / "fz-requests-page" / f"get-{number}.json",
            {"method": "GET", "path": path, "headers": {"host": "127.0.0.1:8001"}},
        )
    sent = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    bodies: dict[str, tuple[str, str, Any]] = {
        "match": ("POST", "/match", {"texts": ["why", "how do i swim"], "limit": 2, "at_least": 0}),
        "match-one": ("POST", "/match", {"texts": "why"}),
        "put": ("PUT", "/texts", {"texts": [{"id": "k9", "text": "new"}, {"id": "k0", "text": "swim"}]}),
        "delete": ("DELETE", "/texts", {"ids": ["k9", "nobody"]}),
        "table": ("POST", "/table", None),
        "model": ("GET", "/model", None),
        "metrics": ("GET", "/metrics", None),
        "schema": ("GET", "/openapi.json", None),
    }
    for name, (method, path, body) in bodies.items():
        write_json(
            root / "fz-requests-service" / f"{name}.json",
            {"method": method, "path": path, "headers": sent, "json": body},
        )


def ask_page(folder: Path) -> Any:
    """Send the requests of a folder to the page; Refusal if one is refused."""
    return _ask(_page(), folder)


def ask_service(folder: Path) -> Any:
    """Send the requests of a folder to the service; Refusal if one is refused."""
    return _ask(_service(), folder)


def _ask(client: TestClient, folder: Path) -> list[int]:
    """Send the requests that differ from the sound ones, or all of them if none does."""
    codes, refused, sound, cookies = list[int](), "", _sound(folder), dict(client.cookies)
    paths = sorted(folder.glob("*.json"))
    for path in [path for path in paths if path.read_bytes() != sound.get(path.name)] or paths:
        try:
            request = json.loads(path.read_bytes())
            content = _body(request, client)
            headers = {name: str(value) for name, value in request["headers"].items()}
            made = client.build_request(str(request["method"]), str(request["path"]), headers=headers, content=content)
            if made.url.scheme not in ("http", "https"):
                raise httpx2.InvalidURL(f"{made.url} is of no web server")
        except UNSENT as error:
            refused = f"{path} is no request ({error!r})"
            continue
        answer = client.send(made, follow_redirects=False)
        # One of the requests signs out.
        client.cookies.clear()
        client.cookies.update(cookies)
        assert answer.status_code < 500, f"{path}: {answer.status_code} {answer.text[:300]}"
        codes.append(answer.status_code)
        if answer.status_code >= 400:
            refused = f"{path}: {answer.status_code}"
    if refused:
        raise Refusal(refused)
    return codes


@cache
def _sound(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def _body(request: dict[str, Any], client: TestClient) -> bytes:
    if "form" in request:
        fields = {name: client.csrf if value == CSRF else value for name, value in request["form"].items()}  # pyright: ignore[reportAttributeAccessIssue]
        return urlencode(fields, doseq=True, errors="surrogatepass").encode()
    if "json" in request and request["json"] is not None:
        return json.dumps(request["json"]).encode()
    return str(request.get("body", "")).encode("latin-1", "replace")


@cache
def _page() -> TestClient:
    """Return a client of the page of a run of its own, signed in."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(opened(Path("fz-page"), read_task(Path("fz-two"))))
    page = stack.enter_context(page_of(folder))
    ann = page.person("ann")
    client = ann.client
    client.csrf = re.findall(r'name="csrf" value="([^"]*)"', ann.page)[0]
    return client


@cache
def _service() -> TestClient:
    return service_client()


def service_client() -> TestClient:
    """Return a client of a service of a store of its own."""
    options = ServeOptions(
        model=Path("fz-run"),
        known=Path("fz-table.csv"),
        store=Path("fz-served"),
        text_columns="text",
        id_column="id",
        limit=2,
        most_texts=3,
        most_characters=50,
        most_bytes=300_000,
        most_waiting=1,
    )
    service = PlainService(Matcher(options, open_model(options.model)), StoreWriter(options.store))
    return TestClient(make_api(service, options, token_digest(TOKEN)))
