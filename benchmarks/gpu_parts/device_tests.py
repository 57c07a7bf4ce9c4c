"""Run tests/test_gpu.py, without the tests' conftest.py, which needs Ray and Hypothesis."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.gpu_parts.setup import Settings, Skipped

ROOT = Path(__file__).resolve().parents[2]


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add pytest's last line; RuntimeError if a test fails."""
    if importlib.util.find_spec("pytest") is None:
        raise Skipped("pytest is not installed")
    if not settings.cuda:
        raise Skipped("these tests need a CUDA device")
    # Without pyproject.toml, which asks for a version of pytest and makes every warning of other versions an error.
    options = ["-c", os.devnull, "--rootdir", str(ROOT), "--noconftest", "--import-mode=importlib"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *options,
        # Each test has a variant on a CPU too, which CI runs.
        *("-m", "gpu"),
        str(ROOT / "tests/test_gpu.py"),
    ]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    figures["summary"] = (ended.stdout.strip().splitlines() or [""])[-1]
    if ended.returncode:
        print(ended.stdout[-6000:])
        raise RuntimeError(f"pytest ended with {ended.returncode}")
