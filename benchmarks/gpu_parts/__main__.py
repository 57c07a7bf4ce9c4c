"""Run parts one after the other in this process and add their results to a file; benchmarks/gpu.py starts it."""

import argparse
import importlib
import json
import os
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from benchmarks.gpu_parts.setup import Settings, Skipped


def main() -> None:
    """Run the parts that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--threads", type=int)
    parser.add_argument("parts", nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings = Settings(options.device, options.threads)
    for name in options.parts:
        print(f"\n== {name}", flush=True)
        with PartResult(name, options.out) as figures:
            importlib.import_module(f"benchmarks.gpu_parts.{name}").measure(settings, figures)


class PartResult(dict[str, Any]):
    """The figures of a part, and the context of its work: how it ends, its seconds and figures are printed and written.

    Each figure is also written when it is set, because benchmarks/gpu.py ends a part that takes too long.
    """

    def __init__(self, name: str, out: Path) -> None:
        super().__init__()
        self.name, self.out, self.started = name, out, time.monotonic()

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.write("running", "")

    def write(self, status: str, reason: str) -> None:
        """Write the part into the file of all results, and what jobs.plan reads to the top of the file."""
        content = json.loads(self.out.read_text())
        figures = {name: value for name, value in self.items() if name != "plan"}
        about = {"status": status, "reason": reason, "seconds": round(time.monotonic() - self.started, 1)}
        content |= self.get("plan", {})
        content["parts"][self.name] = {**about, **figures}
        aside = self.out.with_name(f"{self.out.name}.part")
        aside.write_text(json.dumps(content, indent=1))
        os.replace(aside, self.out)

    def __enter__(self) -> "PartResult":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        """Go on after any error of the part."""
        status, reason = outcome(error)
        if status == "failed":
            traceback.print_exception(error)
        self.write(status, reason)
        self.pop("plan", None)
        print(*lines(self), f"{self.name}: {status} {reason}".rstrip(), sep="\n", flush=True)
        return isinstance(error, Exception)


def outcome(error: BaseException | None) -> tuple[str, str]:
    """Return the status of a part that ended with an error, or with none, and the reason."""
    if error is None:
        return "passed", ""
    # A package that is not installed; a missing module of ours would be a fault.
    absent = isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] not in ("al_ray", "benchmarks")
    return "skipped" if absent or isinstance(error, Skipped) else "failed", f"{type(error).__name__}: {error}"


def lines(figures: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield a line for each figure, with the names on its way."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from lines(value, f"{path}{name} / ")
        else:
            yield f"  {path}{name}: {value:.6g}" if isinstance(value, float) else f"  {path}{name}: {value}"


if __name__ == "__main__":
    main()
