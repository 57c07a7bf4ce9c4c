"""Ray Serve whose proxies are not ready in time."""

import socket

import pytest
from ray import serve

from al_ray.apps.serving import server
from al_ray.core.errors import ActorLost


@pytest.fixture
def starts(monkeypatch, local_ray) -> list[bool]:
    """Whether each start waits for its proxies for as long as it needs; one that does not gives up at once."""
    patient, begin = list[bool](), serve.start

    def start(**options) -> None:
        # Its own is 60 s.
        monkeypatch.setattr("ray.serve._private.api.HTTP_PROXY_TIMEOUT", 300.0 if patient.pop(0) else 1e-3)
        begin(**options)

    monkeypatch.setattr(serve, "start", start)
    return patient


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_ray_serve_is_started_again_if_its_proxies_are_late(starts):
    starts += [False, True]
    try:
        server._start_serve("127.0.0.1", free_port())
        assert serve.status().proxies
    finally:
        serve.shutdown()
    assert not starts


def test_ray_serve_that_never_starts_is_told_of_and_leaves_nothing_behind(starts):
    starts += [False] * server.STARTS
    with pytest.raises(ActorLost, match=r"did not start in 3 tries \(HTTP proxies not available after .*give the same"):
        server._start_serve("127.0.0.1", free_port())
    assert not serve.status().proxies
    server._check_only_service()
