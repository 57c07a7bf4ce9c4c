"""A training under way, on disk: weights, head, optimiser and position, so that a restart ends as if there was none."""

import logging
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from al_ray.core.errors import WriteErrors
from al_ray.storage.uri import StoragePath, Uri

logger = logging.getLogger(__name__)

NAME = "training.safetensors"


@dataclass
class Checkpoint:
    """Where a training is kept, and how often.

    made_from: digest of all that decides its weights; what was made from something else is not taken up.
    seconds: between one writing and the next.
    """

    path: StoragePath
    made_from: str
    seconds: float
    said: float = field(default_factory=time.monotonic)

    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() - self.said >= self.seconds

    def write(self, parts: dict[str, dict[str, torch.Tensor]], optimiser: torch.optim.Optimizer, taken: int) -> None:
        """Keep modules' states by name, and the optimiser's, after so many steps; in one step, over the last ones."""
        tensors = {f"{part}/{name}": value for part, state in parts.items() for name, value in state.items()}
        for number, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{number}/{name}": value for name, value in state.items()}
        # Copies: weights that share their memory are refused.
        copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        about = {"made_from": self.made_from, "taken": str(taken)}
        with WriteErrors(self.path):
            if isinstance(self.path, Uri):
                with tempfile.TemporaryDirectory(prefix="al_ray-") as folder:
                    save_file(copies, Path(folder) / NAME, about)
                    self.path.put(Path(folder) / NAME)
            else:
                aside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
                self.path.parent.mkdir(parents=True, exist_ok=True)
                save_file(copies, aside, about)
                os.replace(aside, self.path)
        self.said = time.monotonic()

    def read(self) -> tuple[int, dict[str, dict[str, torch.Tensor]]]:
        """The steps taken and the states by part; 0 and nothing when there is none of this training."""
        if not self.path.exists():
            return 0, {}
        try:
            if isinstance(self.path, Path):
                return self._read(self.path)
            with tempfile.TemporaryDirectory(prefix="al_ray-") as folder:
                self.path.get(Path(folder) / NAME)
                return self._read(Path(folder) / NAME)
        except (SafetensorError, OSError) as error:
            logger.warning("%s cannot be read (%s): the training begins again, to the same weights", self.path, error)
            return 0, {}

    def _read(self, path: Path) -> tuple[int, dict[str, dict[str, torch.Tensor]]]:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("made_from") != self.made_from:
                return 0, {}
            parts: dict[str, dict[str, torch.Tensor]] = {}
            for key in file.keys():  # noqa: SIM118 - it is no dictionary
                part, _, name = key.partition("/")
                parts.setdefault(part, {})[name] = file.get_tensor(key)
            return int(about["taken"]), parts

    def drop(self) -> None:
        """The training is done."""
        self.path.unlink(missing_ok=True)


def restored(optimiser: torch.optim.Optimizer, kept: dict[str, torch.Tensor]) -> None:
    """Put an optimiser's state back where `write` took it from."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in kept.items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
