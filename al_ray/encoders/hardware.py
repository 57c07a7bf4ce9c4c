"""What the last bits of a vector depend on besides its encoder: the device, and the versions of the libraries."""

import platform

import torch
import transformers


def describe_hardware(device: str) -> tuple[str, ...]:
    """Return the name and capability of a device, and the versions of the libraries that compute on it."""
    versions = f"torch {torch.__version__}", f"transformers {transformers.__version__}"
    if torch.device(device).type != "cuda":
        return "cpu", platform.machine(), torch.backends.cpu.get_cpu_capability(), *versions
    major, minor = torch.cuda.get_device_capability(device)
    of_cuda = f"CUDA {torch.version.cuda}", f"cuDNN {torch.backends.cudnn.version()}"
    return torch.cuda.get_device_name(device), f"capability {major}.{minor}", *of_cuda, *versions
