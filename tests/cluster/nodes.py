"""Nodes that an autoscaler starts on this machine; their raylets do not wait for agents (ray_ports.py)."""

from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider

from tests.ray_ports import choose_ports

choose_ports()


class Nodes(FakeMultiNodeProvider):
    """The provider of cluster.yaml as this machine plays it."""
