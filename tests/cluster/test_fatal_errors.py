"""Which errors say that memory ran out, or that a GPU failed; libraries have no common class for them."""

import errno
import subprocess
import sys

import numpy as np
import pytest
import ray
import torch
from ray.exceptions import RayError

from al_ray.cluster.actors import get_results
from al_ray.cluster.fatal_errors import exit_on_fatal_errors, gpu_failure_message, lost_error, out_of_memory_message
from al_ray.core.errors import ActorLost, BadFile, BadOption, WriteErrors


class Hungry:
    """Something that is asked for more than there is."""

    def bytes(self) -> int:
        return len(bytearray(2**60))

    def numbers(self) -> np.ndarray:
        return np.ones(2**50)

    def tensors(self):
        yield 1
        yield torch.ones(2**50)

    def loaded(self) -> None:
        try:
            np.ones(2**50)
        except MemoryError as error:
            raise BadOption("the encoder cannot be loaded; give another") from error

    def mapped(self) -> None:
        with WriteErrors("pool"):
            raise OSError(errno.ENOMEM, "Cannot allocate memory")

    def wrong(self) -> None:
        raise BadOption("--encoder 'out of memory' is nowhere")


@pytest.mark.parametrize(
    ("call", "words"),
    [("bytes", "MemoryError"), ("numbers", "Unable to allocate"), ("loaded", "Unable"), ("mapped", "Cannot allocate")],
)
def test_a_call_that_runs_out_of_memory_ends_its_process(call, words):
    with pytest.raises(SystemExit, match=rf"^out of memory in Hungry.{call} \(.*{words}"):
        exit_on_fatal_errors(getattr(Hungry(), call), f"Hungry.{call}")()


def test_so_does_one_that_yields():
    stream = exit_on_fatal_errors(Hungry().tensors, "Hungry.tensors")()
    assert next(stream) == 1
    with pytest.raises(SystemExit, match=r"^out of memory in Hungry.tensors \(.*can't allocate memory"):
        next(stream)


def test_other_errors_stay_what_they_are():
    with pytest.raises(BadOption, match="nowhere"):
        exit_on_fatal_errors(Hungry().wrong, "Hungry.wrong")()


@pytest.mark.parametrize(
    "words",
    [
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.00 GiB",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "Error: StandardGpuResources: alloc fail type FlatData dev 0 (cudaMalloc error cudaErrorMemoryAllocation)",
        "Cannot allocate memory (os error 12)",
        "could not create a primitive",
    ],
)
def test_what_libraries_say_of_it_is_known(words):
    # No machine of these tests can be made to say so.
    assert out_of_memory_message(RuntimeError(words)) == words
    assert out_of_memory_message(RuntimeError("CUDA error: device-side assert triggered")) == ""


class Broken:
    """A call that CUDA fails."""

    def answer(self, words: str) -> None:
        try:
            raise RuntimeError(words)
        except RuntimeError as error:
            raise BadOption("the encoder cannot be loaded") from error


@pytest.mark.parametrize(
    "words",
    [
        "CUDA error: device-side assert triggered",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "Error in virtual void faiss::gpu::... : CUDA error 700 an illegal memory access was encountered",
        "CUDA error: uncorrectable ECC error encountered",
    ],
)
def test_a_call_that_cuda_fails_ends_its_process_because_each_later_one_would_fail(words):
    with pytest.raises(SystemExit) as ended:
        exit_on_fatal_errors(Broken().answer, "Broken.answer")(
            f"{words}\nCUDA kernel errors might be reported elsewhere"
        )
    assert str(ended.value) == f"the GPU failed in Broken.answer ({words})"
    # What users write is no error of CUDA, nor is what another process met.
    assert gpu_failure_message(BadOption(words)) == ""
    assert gpu_failure_message(RayError(words)) == ""
    assert gpu_failure_message(ValueError("no CUDA here")) == ""


def test_the_error_of_torch_for_a_lost_device_is_one_whatever_it_says():
    assert gpu_failure_message(torch.AcceleratorError("unspecified launch failure")) == "unspecified launch failure"


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("out of memory in PoolShard.embed (CUDA out of memory)", "If memory is short: give more `shards`"),
        ("the GPU failed in PoolShard.embed (CUDA error: launch failure)", "Look at the card and the driver"),
    ],
)
def test_the_last_death_of_an_actor_says_of_what_and_what_helps(reason, fix):
    error = RayError(f"The actor died. class_name: PoolShard Worker exit detail: exited with {reason}")
    assert f"PoolShard died, and again each time it was started anew (at most 4 times): {reason}. {fix}" in str(
        lost_error(error)
    )


@ray.remote
def refused(made: object) -> object:
    return made


def unread(error: Exception) -> None:
    """What makes this of bytes has no memory for it: Ray meets that where it reads what a call is given."""
    raise error


class Unreadable:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return unread, (self.error,)


@pytest.mark.parametrize(
    "error", [MemoryError(), MemoryError("Unable to allocate 8 MiB"), OSError(errno.ENOMEM, "Cannot allocate memory")]
)
def test_memory_that_runs_out_as_ray_reads_what_a_call_is_given_is_said_to_be_that(local_ray, error):
    with pytest.raises(
        ActorLost, match=r"out of memory in Ray itself, as it read what a call was given\. If memory is short"
    ):
        get_results(refused.remote(refused.remote(Unreadable(error))))


# Memory runs out in a thread beside the main one, and no thread can be started any more.
BESIDE = """
import sys, threading
from al_ray.cluster import fatal_errors

out_of_memory.SECONDS_TO_END = 0.0
out_of_memory.prepare_to_end()
call = threading.Thread(target=out_of_memory.exit_on_fatal_errors(lambda: bytearray(2**60), "Shard.call"))
start = call.start

def refuse(thread):
    raise RuntimeError("can't start new thread")

threading.Thread.start = refuse
start()
sys.stdin.read()
"""


def test_a_process_without_memory_for_a_thread_ends():
    # It would wait for its input for ever.
    with subprocess.Popen([sys.executable, "-c", BESIDE], stdin=subprocess.PIPE) as process:
        assert process.wait(600) == 1


def test_a_thread_without_memory_for_its_stack_is_no_damaged_model():
    failed = BadFile("the model cannot be loaded; restore the folder")
    failed.__cause__ = RuntimeError("can't start new thread")
    assert out_of_memory_message(failed) == "can't start new thread"
