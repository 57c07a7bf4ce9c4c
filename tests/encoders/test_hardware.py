"""How torch computes on a device, and what is said of one on which it cannot. Calls of CUDA are stubs."""

import gc
import os
from typing import Any

import pytest
import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.hardware import device_fault, free_memory, give_back_memory, limit_memory, settle_arithmetic
from al_ray.training.trainer import Trainer, TrainerSpec

LETTERS = EncoderConfig("random-bert", 1, 24, 8, 1)


@pytest.fixture
def restored(monkeypatch):
    """What torch is set to is put back."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    # Any: their attributes are made at run time.
    cudnn: Any = torch.backends.cudnn
    cuda: Any = torch.backends.cuda
    before = cuda.cudnn_sdp_enabled(), cuda.matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark
    yield
    torch.use_deterministic_algorithms(False)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    cuda.enable_cudnn_sdp(before[0])
    cuda.matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark = before[1:]


def test_an_actor_computes_float32_in_float32_and_the_same_each_time(restored):
    # Any: their attributes are made at run time.
    cudnn: Any = torch.backends.cudnn
    cuda: Any = torch.backends.cuda
    cuda.enable_cudnn_sdp(True)
    cuda.matmul.allow_tf32 = cudnn.allow_tf32 = cudnn.benchmark = True
    cudnn.deterministic = False
    settle_arithmetic()
    assert not any([cuda.cudnn_sdp_enabled(), cuda.matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark])
    assert cudnn.deterministic
    # The others are as they were.
    assert cuda.flash_sdp_enabled()
    assert cuda.mem_efficient_sdp_enabled()
    assert cuda.math_sdp_enabled()


@pytest.mark.parametrize(("device", "settled"), [("cpu", False), ("cuda:0", True)])
def test_gradients_are_the_same_each_time_on_a_gpu(restored, monkeypatch, device, settled):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    Trainer(TrainerSpec("pool", LETTERS, TrainingConfig(), 0, True, device))
    assert torch.are_deterministic_algorithms_enabled() is settled
    # With warnings alone torch's attention has other gradients each time.
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == (":4096:8" if settled else None)


@pytest.mark.parametrize(("share", "limits"), [(0.0, []), (0.5, [0.5]), (1.0, [])])
def test_only_a_process_that_has_a_part_of_a_gpu_is_limited_to_it(monkeypatch, share, limits):
    given = list[float]()
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", given.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    # check_device says what is wrong.
    limit_memory(share)
    assert given == []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    limit_memory(share)
    assert given == limits


@pytest.mark.parametrize(("free", "share", "left"), [(60, 1.0, 60), (60, 0.5, 45), (60, 0.04, 0), (3, 0.5, 3)])
def test_free_memory_is_that_of_the_card_and_of_the_share(monkeypatch, free, share, left):
    assert free_memory(torch.device("cpu")) == 0
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 100))
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _: share)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 5)
    assert free_memory(torch.device("cuda:0")) == left


def test_memory_is_given_back_to_a_gpu_after_what_refers_to_itself_is_gone(monkeypatch):
    emptied, ended = list[int](), list[str]()

    class Circle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            ended.append("circle")

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(len(ended)))
    gc.disable()
    Circle()
    give_back_memory("cpu")
    assert emptied == []
    give_back_memory("cuda:0")
    gc.enable()
    assert emptied == [1]


def test_a_cpu_is_always_there():
    assert device_fault("cpu") == ""


def test_a_gpu_that_is_not_there_or_for_which_torch_has_no_kernels_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_fault("cuda:0") == "sees no CUDA device"

    def ones(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", ones)
    assert device_fault("cuda:0") == (
        "cannot compute on it (CUDA error: no kernel image is available for execution on the device)"
    )
