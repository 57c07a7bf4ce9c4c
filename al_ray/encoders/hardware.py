"""What the last bits of a vector depend on besides its encoder: the device, how it computes, and the libraries."""

import gc
import os
import platform

import torch
import transformers

from al_ray.encoders.products import prefers_onednn


def describe_hardware(device: str) -> tuple[str, ...]:
    """Return the name and capability of a device, and the versions of the libraries that compute on it."""
    versions = f"torch {torch.__version__}", f"transformers {transformers.__version__}"
    if torch.device(device).type != "cuda":
        library = "oneDNN" if prefers_onednn() else "BLAS"
        return "cpu", platform.machine(), torch.backends.cpu.get_cpu_capability(), library, *versions
    major, minor = torch.cuda.get_device_capability(device)
    of_cuda = f"CUDA {torch.version.cuda}", f"cuDNN {torch.backends.cudnn.version()}"
    return torch.cuda.get_device_name(device), f"capability {major}.{minor}", *of_cuda, *versions


def settle_arithmetic() -> None:
    """Let torch compute with the same bits each time on a GPU, and float32 as float32, in this process from now on."""
    # cuDNN's attention, which torch prefers on some GPUs from 2.11 on, does not give the same gradients each time.
    torch.backends.cuda.enable_cudnn_sdp(False)
    # TF32 has 11 bits.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False


def settle_training(device: str) -> None:
    """Let torch use only algorithms for gradients that give the same bits each time, on a GPU."""
    if torch.device(device).type != "cuda":
        return
    # cuBLAS reads it when it starts.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # Not warn_only: with it torch leaves the gradients of its quick kinds of attention as they are.
    torch.use_deterministic_algorithms(True)
    # Otherwise each new tensor is filled first.
    setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # noqa: B010 (pyright does not know it)


def give_back_memory(device: str) -> None:
    """Free what no tensor uses of a GPU's memory, which torch keeps for later: for other processes, and for Faiss."""
    if torch.device(device).type == "cuda":
        # Of a model and its optimizer some objects refer to each other.
        gc.collect()
        torch.cuda.empty_cache()


def limit_memory(share: float) -> None:
    """Let torch take at most a share of the first GPU's memory in this process: OutOfMemoryError beyond it.

    A process without a share, or with a whole GPU, has no limit.
    """
    if 0 < share < 1 and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share)


def free_memory(device: torch.device) -> int:
    """Return how many bytes of its memory torch may still take in this process; 0 of a CPU."""
    if device.type != "cuda":
        return 0
    free, whole = torch.cuda.mem_get_info(device)
    limit = torch.cuda.get_per_process_memory_fraction(device) * whole
    return max(0, min(free, int(limit) - torch.cuda.memory_reserved(device)))


def device_fault(device: str) -> str:
    """Return why torch cannot compute on a device; "" if it can."""
    if torch.device(device).type != "cuda":
        return ""
    if not torch.cuda.is_available():
        return "sees no CUDA device"
    try:
        # A build without kernels for the card's capability fails here, and not when the pool is embedded.
        torch.ones(2, device=device).sum().item()
    except RuntimeError as error:
        return f"cannot compute on it ({str(error).strip().splitlines()[0]})"
    return ""
