"""benchmarks/gpu.py, with tiny sizes on a CPU: it needs no Ray, Faiss or tyro, and an error ends one part alone."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from al_ray.apps.planning.hardware import BUILT_IN, SPEEDS, read_constants
from al_ray.core.candidates import Candidates
from al_ray.training.fit import READ
from benchmarks import gpu
from benchmarks.gpu_parts import constants, determinism, exact_join, nearest, training
from benchmarks.gpu_parts.__main__ import PartResult, lines
from benchmarks.gpu_parts.setup import TINY, Settings, Skipped, random_tokens
from benchmarks.gpu_parts.training import covered

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = "import sys\nfor name in ('ray', 'faiss', 'tyro'):\n    sys.modules[name] = None\n"
NOT_MEASURED = {"flat", "ivf", "tokenise", "transfer", "libraries", "grams", "comparisons", "trees"}


def test_every_part_runs_on_a_cpu_without_ray_faiss_and_tyro(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    out = tmp_path / "gpu.json"
    command = [
        sys.executable,
        str(ROOT / "benchmarks/gpu.py"),
        "--device",
        "cpu:0",
        "--threads",
        "1",
        "--out",
        str(out),
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    parts = json.loads(out.read_text())["parts"]
    assert list(parts) == list(gpu.PARTS)
    assert {name: part["reason"] for name, part in parts.items() if part["status"] != "passed"} == {
        "device_tests": "Skipped: these tests need a CUDA device"
    }
    absent = parts["ceilings"]["absent packages"]
    assert {"ray", "faiss", "tyro"} <= set(absent)
    compared = {name: ways for name, ways in parts["determinism"].items() if name.startswith("as runs")}
    assert len(compared) == 4
    for ways in compared.values():
        assert [ways[name] for name in ("trained twice", "resumed", "embedded twice")] == [True] * 3
    # Other weights by other texts, so digests do tell trainings apart.
    assert len({ways["weights"] for ways in compared.values()}) == 4
    speeds = read_constants(out, "cpu", "cpu")
    assert not any(getattr(speeds, name).measured for name in SPEEDS), "tiny sizes measure nothing"
    here = {name for name in SPEEDS if "benchmarks/gpu.py" in getattr(speeds, name).source}
    assert here == set(SPEEDS) - NOT_MEASURED


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("CUDA error"), "failed"),
        (Skipped("no pytest"), "skipped"),
        (ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow"), "skipped"),
        (ModuleNotFoundError("No module named 'al_ray.x'", name="al_ray.x"), "failed"),
    ],
)
def test_an_error_of_a_part_is_written_with_what_it_has_measured(tmp_path, error, status):
    out = tmp_path / "gpu.json"
    out.write_text(json.dumps({"parts": {"first": {"status": "passed"}}}))
    with PartResult("second", out) as figures:
        figures["rate"] = 2.5
        raise error
    content = json.loads(out.read_text())
    assert content["parts"]["first"] == {"status": "passed"}
    second = content["parts"]["second"]
    assert (second["status"], second["rate"]) == (status, 2.5)
    assert str(error) in second["reason"]


def test_what_a_part_has_measured_before_it_is_killed_is_written(tmp_path):
    out = tmp_path / "gpu.json"
    out.write_text(json.dumps({"parts": {}}))
    PartResult("slow", out)["rate"] = 2.5
    gpu.report_unfinished(["slow", "next"], out, "stopped after 3 s")
    parts = json.loads(out.read_text())["parts"]
    slow = parts["slow"]
    assert (slow["status"], slow["reason"], slow["rate"]) == ("failed", "stopped after 3 s", 2.5)
    assert parts["next"] == {"status": "failed", "reason": "stopped after 3 s"}


def test_a_part_without_a_result_has_failed(tmp_path, monkeypatch, capsys):
    out, run = tmp_path / "folder/gpu.json", []

    def killed(parts: list[str], *_: object) -> str:
        run.append(parts)
        return "its process ended with -11"

    monkeypatch.setattr(gpu, "run_group", killed)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(out), "--parts", "ceilings", "encoding"])
    assert gpu.main() == 1
    # On a GPU each part has a process of its own.
    assert run == [["ceilings"], ["encoding"]]
    failed = {"status": "failed", "reason": "its process ended with -11"}
    assert json.loads(out.read_text())["parts"] == {"ceilings": failed, "encoding": failed}
    assert "encoding: failed" in capsys.readouterr().out


def test_a_process_that_does_not_end_is_killed(tmp_path, monkeypatch):
    real, started = subprocess.Popen, list[subprocess.Popen]()

    def start(command: list[str], **options: object) -> subprocess.Popen:
        started.append(real([sys.executable, "-c", "import signal; signal.pause()"], process_group=0))
        return started[0]

    monkeypatch.setattr(gpu.subprocess, "Popen", start)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(tmp_path / "gpu.json")])
    assert gpu.run_group(["ceilings"], gpu.parse_options(), 0.1) == "stopped after 0 s"
    assert started[0].returncode == -signal.SIGKILL


def test_a_join_that_depends_on_its_blocks_is_an_error(monkeypatch):
    real = exact_join.join

    def shifted(settings, vectors, size, count):
        found = real(settings, vectors, size, count)
        return found if size != 200 else Candidates(found.keys + 1, found.cosines)

    monkeypatch.setattr(exact_join, "join", shifted)
    with pytest.raises(RuntimeError, match="depend on the size of the blocks"):
        exact_join.measure(Settings("cpu", 1), {})
    monkeypatch.setattr(exact_join, "least_in_float64", lambda vectors, count: np.arange(count))
    with pytest.raises(RuntimeError, match="not those of float64"):
        exact_join.measure(Settings("cpu", 1), {})


def test_nearest_texts_that_are_not_those_of_float64_are_an_error(monkeypatch):
    class Shifted(nearest.FlatIndex):
        def nearest_to(self, queries, count):
            cosines, places = super().nearest_to(queries, count)
            return cosines, (places + 1) % self.size

    nearest.measure(Settings("cpu:0", 1), {})
    monkeypatch.setattr(nearest, "FlatIndex", Shifted)
    with pytest.raises(RuntimeError, match="cosines of the nearest are off by"):
        nearest.measure(Settings("cpu:0", 1), {})


def test_steps_that_a_gpu_yields_at_once_are_measured_together():
    taken, count = training.steps(Settings("cpu:0", 1), TINY)
    assert count == READ
    assert [step.step for step in taken] == list(range(READ + 1, 2 * READ + 1))
    # A step by step measurement would give almost none.
    assert training.step_seconds(Settings("cpu:0", 1), TINY) > 1e-4


def test_a_training_is_stopped_and_resumed_where_steps_are_yielded_at_once(monkeypatch):
    read = list[int]()
    real = determinism.Checkpoint.read

    def reading(checkpoint):
        found = real(checkpoint)
        read.append(found[0])
        return found

    monkeypatch.setattr(determinism.Checkpoint, "read", reading)
    case = determinism.Case(Settings("cpu:0", 1), (4, 60), "fp32")
    case.train(random_tokens(TINY, 16, 3, 10), stop=True)
    # Of 4 steps.
    assert read == [0, 2]


def test_a_way_of_runs_that_is_not_deterministic_is_an_error_and_another_backend_is_not(monkeypatch):
    def digests(case: determinism.Case) -> dict[str, bool]:
        return {"trained twice": case.context is None}

    monkeypatch.setattr(determinism.Case, "digests", digests)
    determinism.measure(Settings("cpu", 1), {})
    monkeypatch.setattr(determinism.Case, "digests", lambda case: {"trained twice": case.arithmetic == "auto"})
    with pytest.raises(RuntimeError, match="as runs, fp32, short texts; as runs, fp32, long texts"):
        determinism.measure(Settings("cpu", 1), {})


def test_a_gpu_has_its_own_speeds_and_for_the_rest_those_assumed(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    content = constants.content(Settings("cuda:0", 2), {"embed": 3e14})
    (tmp_path / "gpu.json").write_text(json.dumps({**content, "parts": {}}))
    read = read_constants(tmp_path / "gpu.json", "cuda", "h200")
    assert (read.machine, read.embed.value, read.embed.measured) == ("NVIDIA H100 80GB HBM3", 3e14, True)
    assert [name for name in SPEEDS if getattr(read, name).measured] == ["embed"]
    assert read.flat == BUILT_IN["h200"].flat


def test_kernels_at_the_same_time_count_once():
    # [0, 4], and [6, 7] with [6, 7].
    assert covered([(6, 7), (0, 3), (1, 2), (2, 4), (6, 7)]) == 5
    assert covered([]) == 0


def test_a_figure_is_a_line_with_the_names_on_its_way():
    assert list(lines({"copies": {"pinned": 1234567.0}, "on": ["math"]})) == [
        "  copies / pinned: 1.23457e+06", "  on: ['math']",
    ]  # fmt: skip
