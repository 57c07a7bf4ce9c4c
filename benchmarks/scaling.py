"""Run complete rounds on synthetic tasks of several sizes: seconds of each stage, peak memory, and how they grow."""

import json
import logging
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import psutil

from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.text_table import format_columns
from al_ray.datasets.synthetic import LEAST, MOST
from al_ray.runs.stage_seconds import FILE
from al_ray.storage.files import read_json, write_json
from benchmarks.timing import timed

logger = logging.getLogger(__name__)

STAGES = ("embed", "search", "train", "evaluate", "examples")
# Processes by a part of their command line; `jobs.run` is the driver.
ACTORS = {"driver": "jobs.run", "shard": "ray::PoolShard", "trainer": "ray::Trainer"}
POLL = 0.5  # Seconds between two looks at the memory of the processes.


@dataclass(frozen=True)
class Scale:
    """Run complete rounds on synthetic tasks of several sizes: seconds of each stage, peak memory, and how they grow.

    Each size is prepared and run by `jobs.prepare synthetic` and `jobs.run`, in processes of their own. What has a
    result in --folder is not run again, and an interrupted run is resumed.
    """

    folder: Path
    """Folder of tasks, runs and results."""
    texts: tuple[Annotated[int, Between(LEAST, MOST)], ...] = (10_000, 100_000, 1_000_000)
    """Texts of the tasks, in increasing order: half are the pool, a quarter is dev."""
    kinds: tuple[Literal["exact", "knn"], ...] = ("exact", "knn")
    """Kinds of search."""
    options: str = "--rounds 1 --encoder cnn-64 --max-length 32 --shards 2 --threads 1"
    """Other options of jobs.run."""
    out: Path | None = None
    """JSON file for the results."""

    def results(self) -> list[dict[str, Any]]:
        """Return a result for each kind and size: seconds of stages, and peak MB (of 2^20 bytes) of processes."""
        check_bounds(self)
        return [self._result(kind, texts) for kind in self.kinds for texts in self.texts]

    def _result(self, kind: str, texts: int) -> dict[str, Any]:
        path = self.folder / f"{kind}-{texts}.json"
        if path.exists():
            return read_json(path)
        task, run = self.folder / f"task-{texts}", self.folder / f"run-{kind}-{texts}"
        if not task.exists():
            command("prepare", "synthetic", "--out", str(task), "--texts", str(texts)).wait()
        line = ["--task", str(task), "--out", str(run), "--search.kind", kind, *self.options.split()]
        logger.info("jobs.run %s", " ".join(line))
        seconds, peaks = timed(lambda: peak_memory(command("run", *line)))
        records = [json.loads(record.read_text())["seconds"] for record in sorted(run.glob("round-*/record.json"))]
        # Before the first round evaluation sets are made, and with a matcher candidates are found and compared.
        records.append(json.loads((run / FILE).read_text()))
        stages = {stage: sum(seconds.get(stage, 0.0) for seconds in records) for stage in STAGES}
        result = {"kind": kind, "texts": texts, "seconds": {**stages, "all": seconds}, "mb": peaks}
        write_json(path, result)
        return result


def command(job: str, *options: str) -> subprocess.Popen[bytes]:
    """Start a job in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", f"jobs.{job}", *options])


def peak_memory(job: subprocess.Popen[bytes]) -> dict[str, float]:
    """Wait for a job; return the peak MB of its driver, its largest shard and its trainer, shared memory included.

    RuntimeError if the job fails.
    """
    peaks, root = dict.fromkeys(ACTORS, 0.0), psutil.Process(job.pid)
    while job.poll() is None:
        for name, size in _sizes(root):
            peaks[name] = max(peaks[name], size)
        try:
            job.wait(POLL)
        except subprocess.TimeoutExpired:
            continue
    if job.returncode:
        raise RuntimeError(f"jobs.run ended with {job.returncode}; its lines are above")
    return peaks


def _sizes(root: psutil.Process) -> Iterator[tuple[str, float]]:
    """Yield the kind and the MB in memory of each process under a driver that is of a kind in ACTORS."""
    for process in [root, *root.children(recursive=True)]:
        try:
            line, size = " ".join(process.cmdline()), process.memory_info().rss / 2**20
        except psutil.Error:
            continue
        for name, part in ACTORS.items():
            if part in line and (name != "driver" or process == root):
                yield name, size


def format_results(results: Sequence[dict[str, Any]]) -> str:
    """Format a line per result, and between two sizes of a kind a line with the exponents of their growth.

    An exponent is log(ratio of two values) / log(ratio of their texts): 1 for linear growth, 2 for quadratic.
    """
    rows = [["search", "texts", *(f"{stage} s" for stage in (*STAGES, "all")), *(f"{name} MB" for name in ACTORS)]]
    for before, result in zip([None, *results], results, strict=False):
        values = _values(result)
        if before is not None and before["kind"] == result["kind"]:
            growth = math.log(result["texts"] / before["texts"])
            both = zip(_values(before), values, strict=True)
            exponents = [math.log(new / old) / growth if old and new else math.nan for old, new in both]
            rows.append(["", "exponent", *(f"{exponent:.2f}" for exponent in exponents)])
        rows.append([result["kind"], f"{result['texts']:,}", *(f"{value:,.1f}" for value in values)])
    return format_columns(rows)


def _values(result: dict[str, Any]) -> list[float]:
    return [*(result["seconds"][stage] for stage in (*STAGES, "all")), *(result["mb"][name] for name in ACTORS)]
