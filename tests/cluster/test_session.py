"""A local Ray whose node does not start in time is started again; what else goes wrong is not."""

from typing import Any

import pytest

from al_ray.cluster import session as sessions
from al_ray.core.config.cluster import ClusterConfig

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
        monkeypatch.setattr(sessions.ray, name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if started is None:
        with pytest.raises(Exception, match=answers[-1][:20]), sessions.session(ClusterConfig()):
            pass
    else:
        with sessions.session(ClusterConfig()):
            pass
    assert left == []
    # Those that were late; the last of three is an error, and is not started again.
    assert len(ended) == min(answers.count(LATE), 2)
