"""Shards on different hardware are refused before they embed anything, unless it is accepted by name."""

import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.cluster import services
from al_ray.cluster.mixed_hardware import check_same_hardware
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.core.progress import no_progress
from al_ray.datasets.task_folder import write_task
from al_ray.encoders.hardware import describe_hardware

H100, A10G = ("NVIDIA H100", "capability 9.0", "torch 2.13.0"), ("NVIDIA A10G", "capability 8.6", "torch 2.13.0")


def test_shards_of_one_kind_pass_and_others_only_if_it_is_accepted():
    check_same_hardware([H100, H100], accepted=False)
    check_same_hardware([H100, A10G], accepted=True)
    with pytest.raises(BadOption) as refused:
        check_same_hardware([A10G, H100, H100], accepted=False)
    assert "2 of NVIDIA H100, capability 9.0, torch 2.13.0; 1 of NVIDIA A10G" in str(refused.value)
    assert "`mixed_hardware=True`" in str(refused.value)
    with pytest.raises(BadOption, match=r"2 kinds of hardware .*torch 2\.13\.0; .*torch 2\.11\.0"):
        check_same_hardware([H100, (*H100[:2], "torch 2.11.0")], accepted=False)


@pytest.mark.parametrize("accepted", [False, True])
def test_a_pool_asks_every_shard(in_process, make_task, tmp_path, monkeypatch, accepted):
    asked = []
    monkeypatch.setattr(services, "check_same_hardware", lambda *arguments: asked.append(arguments))
    task = make_task(True)
    write_task(task, tmp_path / "task", {})
    config = RunConfig(task=str(tmp_path / "task"), encoder="random-bert", encoder_layers=1, max_length=24, threads=1)
    cluster = ClusterConfig(shards=2, timeout=600, mixed_hardware=accepted)
    with services.deploy_pool(config, cluster, task, tmp_path / "out", no_progress):
        assert asked == [([describe_hardware("cpu")] * 2, accepted)]
