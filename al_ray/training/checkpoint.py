"""Checkpoints of a training: weights, head, optimizer and number of steps, so that a restart changes no result."""

import logging
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from al_ray.storage.files import in_one_step
from al_ray.storage.uri import StoragePath

logger = logging.getLogger(__name__)

NAME = "training.safetensors"


@dataclass
class Checkpoint:
    """The file of a checkpoint, and how often it is written.

    made_from: digest of everything that decides the weights; a checkpoint of another digest is ignored.
    seconds: between two writes.
    """

    path: StoragePath
    made_from: str
    seconds: float
    written: float = field(default_factory=time.monotonic)

    def due(self) -> bool:
        """Return whether it is time to write."""
        return time.monotonic() - self.written >= self.seconds

    def write(self, parts: dict[str, dict[str, torch.Tensor]], optimiser: torch.optim.Optimizer, taken: int) -> None:
        """Write the states of modules by name and of the optimizer after `taken` steps, atomically."""
        tensors = {f"{part}/{name}": value for part, state in parts.items() for name, value in state.items()}
        for number, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{number}/{name}": value for name, value in state.items()}
        # Copies, because safetensors rejects tensors that share memory.
        copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        about = {"made_from": self.made_from, "taken": str(taken)}
        in_one_step(self.path, lambda aside: _save(copies, aside, about))
        self.written = time.monotonic()

    def read(self) -> tuple[int, dict[str, dict[str, torch.Tensor]]]:
        """Return the number of steps and the states by part; 0 and {} if there is no checkpoint of this training."""
        if not self.path.exists():
            return 0, {}
        try:
            if isinstance(self.path, Path):
                return self._read(self.path)
            with tempfile.TemporaryDirectory(prefix="al_ray-") as folder:
                self.path.get(Path(folder) / NAME)
                return self._read(Path(folder) / NAME)
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            logger.warning("%s cannot be read (%s): training restarts, to the same weights", self.path, error)
            return 0, {}

    def _read(self, path: Path) -> tuple[int, dict[str, dict[str, torch.Tensor]]]:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("made_from") != self.made_from:
                return 0, {}
            parts: dict[str, dict[str, torch.Tensor]] = {}
            for key in file.keys():  # noqa: SIM118 - not a dictionary
                part, _, name = key.partition("/")
                parts.setdefault(part, {})[name] = file.get_tensor(key)
            return int(about["taken"]), parts

    def drop(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)


def _save(tensors: dict[str, torch.Tensor], path: Path, about: dict[str, str]) -> None:
    """Write a file of safetensors, in a temporary folder that `remove_unfinished` removes if the process is killed.

    safetensors first writes a temporary file beside it, whose name does not say which process it belongs to.
    """
    with tempfile.TemporaryDirectory(prefix=f".{NAME}.{os.getpid()}-", dir=path.parent) as folder:
        save_file(tensors, Path(folder) / NAME, about)
        os.replace(Path(folder) / NAME, path)


def restored(optimiser: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    """Load the optimizer's state from the tensors that `write` stored."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
