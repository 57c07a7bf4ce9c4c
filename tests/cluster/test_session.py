"""A local Ray: a late node is started again, and what has no GPUs is refused with the actors that need them."""

import re
from contextlib import nullcontext
from typing import Any

import pytest

from al_ray.cluster import ray_session
from al_ray.cluster import session as sessions
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import AlRayError

# As Ray 2.60 says it (ray/_private/node.py).
LATE = "The current node timed out during startup. This could happen because some of the raylet failed to startup"


@pytest.mark.parametrize(
    ("answers", "started"),
    [([""], 1), ([LATE, ""], 2), ([LATE, LATE, ""], 3), ([LATE, LATE, LATE], None), (["no space left"], None)],
)
def test_a_node_that_is_late_is_started_again_twice(monkeypatch, answers, started):
    left, ended = list(answers), []

    class Node:
        def __init__(self) -> None:
            reason = left.pop(0)
            if reason:
                raise Exception(reason)

        def kill_all_processes(self, check_alive: bool, allow_graceful: bool) -> None:
            assert not check_alive
            assert not allow_graceful
            ended.append(self)

    def init(**options: Any) -> None:
        assert options["address"] == "local"
        Node()

    for name, value in (
        ("is_initialized", lambda: False), ("init", init), ("cluster_resources", dict), ("shutdown", lambda: None),
    ):  # fmt: skip
        monkeypatch.setattr(ray_session.ray, name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if started is None:
        with pytest.raises(Exception, match=answers[-1][:20]), sessions.session(ClusterConfig(ray=True)):
            pass
    else:
        with sessions.session(ClusterConfig(ray=True)):
            pass
    assert left == []
    # Those that were late; the last of three is an error, and is not started again.
    assert len(ended) == min(answers.count(LATE), 2)


@pytest.mark.parametrize(
    ("shards", "trainers", "scorers", "refused"),
    [
        (1, 0, 0, ""),
        (2, 0, 0, ""),
        (1, 0, 1, ""),
        (2, 1, 0, "2 shards and 1 trainer ask for 0.5 GPUs each, and this machine has 1: "),
        (2, 0, 2, "2 shards and 2 scorers ask for 0.5 GPUs each, and this machine has 1: "),
        (2, 2, 0, "2 training workers with `gpus_per_shard=0.5`: NCCL"),
    ],
)
def test_gpus_are_needed_for_the_actors_of_a_command_and_no_others(monkeypatch, shards, trainers, scorers, refused):
    for name, value in (
        ("is_initialized", lambda: False), ("init", lambda **_: None), ("shutdown", lambda: None),
        ("cluster_resources", lambda: {"GPU": 1.0}),
    ):  # fmt: skip
        monkeypatch.setattr(ray_session.ray, name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    asked = sessions.session(ClusterConfig(shards=shards, gpus_per_shard=0.5), trainers, scorers=scorers)
    with pytest.raises(AlRayError, match=f"^{re.escape(refused)}") if refused else nullcontext(), asked:
        pass
