"""Measure and check the code of runs on a GPU, in under ten minutes: python3 benchmarks/gpu.py --out gpu.json

Needs Python 3.11, torch, transformers, numpy and pyarrow; neither Ray, Faiss, tyro, an installation nor a network.
Parts run in the order of PARTS, the greatest risks first. On a GPU each has a process of its own: an error of CUDA, or
a call that never returns, ends one part and not the others. Each figure is written to --out when it is measured. On a
CPU (--device cpu:0) all sizes are tiny: that checks the script, and its figures mean nothing.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "ceilings": "versions, attention backends, and the rates of copies and matrix products",
    "device_tests": "tests/test_gpu.py",
    "determinism": "trainings and embeddings repeated and resumed, for each attention backend",
    "encoding": "tokens per second and share of the measured product rate, by batch, arithmetic and backend",
    "training": "seconds of a step, share of it in which the GPU works, waits for the GPU",
    "exact_join": "the exact join by block size, against float64",
    "nearest": "the nearest texts from resident and copied vectors, against float64",
    "counting": "sampled scores, counts and cells of k-means, against the CPU",
    "transfers": "copies, a checkpoint, a process group of one rank",
    "memory": "peaks, an out-of-memory error, two processes on one card",
    "constants": "speeds for jobs.plan --constants",
}


def main() -> int:
    """Run the parts that the options name; return 1 if one of them failed."""
    options = parse_options()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"parts": {}}))
    end = time.monotonic() + options.seconds
    # On a CPU no error outlives its part, and starting Python takes longer than a part.
    groups = [options.parts] if options.device.startswith("cpu") else [[part] for part in options.parts]
    for group in groups:
        ended = run_group(group, options, min(options.part_seconds * len(group), end - time.monotonic()))
        report_unfinished(group, options.out, ended)
    parts = json.loads(options.out.read_text())["parts"]
    print("\n" + "\n".join(f"{part}: {parts[part]['status']}" for part in options.parts))
    return int(any(part["status"] == "failed" for part in parts.values()))


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    described = "\n".join(f"  {name:13} {about}" for name, about in PARTS.items())
    parser = argparse.ArgumentParser(
        description=f"Measure and check a GPU with the code of runs. Parts:\n{described}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), help="JSON file of the results (gpu.json)")
    parser.add_argument("--device", default="cuda:0", help="cuda:0, or cpu or cpu:0 with tiny sizes")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help="only these")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of torch, as --threads of jobs.run (2)")
    parser.add_argument("--seconds", type=float, default=580.0, help="for all parts together (580)")
    parser.add_argument("--part-seconds", type=float, default=150.0, help="for one part (150)")
    return parser.parse_args()


def run_group(parts: list[str], options: argparse.Namespace, seconds: float) -> str:
    """Run parts in a new process, which adds their results to the file; return how it ended."""
    if seconds <= 0:
        return "not started: all of --seconds was used"
    command = [sys.executable, "-X", "faulthandler", "-m", "benchmarks.gpu_parts", "--out", str(options.out.resolve())]
    command += ["--device", options.device, "--threads", str(options.threads), *parts]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    fixed = {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}
    # A waiting thread that spins would take the core of another.
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **fixed}
    with subprocess.Popen(command, env=environment, process_group=0) as process:
        try:
            return f"its process ended with {process.wait(seconds)}"
        except subprocess.TimeoutExpired:
            return f"stopped after {seconds:.0f} s"
        finally:
            # With the processes that a part has started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def report_unfinished(parts: list[str], out: Path, ended: str) -> None:
    """Write a failure for each of the parts that did not end, beside what it had measured."""
    content = json.loads(out.read_text())
    for part in parts:
        figures = content["parts"].get(part, {"status": "running"})
        if figures["status"] == "running":
            content["parts"][part] = {**figures, "status": "failed", "reason": ended}
            print(f"{part}: failed ({ended})", flush=True)
    out.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    sys.exit(main())
