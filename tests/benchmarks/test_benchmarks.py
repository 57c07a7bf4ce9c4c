"""The benchmarks, small: they run and say what they are to say. How fast anything is, is asked nowhere."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from al_ray.core.candidates import Order
from al_ray.core.pairs import as_pairs
from al_ray.core.vectors import Block
from al_ray.datasets.task_folder import write_task
from al_ray.search.join.exact_join import ExactJoin
from al_ray.search.join.least_pairs import JoinQuery
from benchmarks import __main__ as bench
from benchmarks import memory as bench_memory
from benchmarks import scaling as bench_scaling
from benchmarks import searching as bench_search
from benchmarks.evaluating import Evaluate
from benchmarks.memory import Memory, resident
from benchmarks.scaling import ACTORS, STAGES, Scale, format_results, peak_memory
from benchmarks.searching import Search
from benchmarks.synthetic_vectors import SCORER, clustered_vectors
from benchmarks.timing import Figure

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "encode": "--texts 8 --encoder random-bert --threads 1 --repeats 1",
    "search": "--texts 400 --knn-texts 500 --index IVF4,Flat --count 50 --width 16 --encoder random-bert "
    "--threads 1 --repeats 1",
    "evaluate": "--texts 400 --pairs 9000 --neighbours 5 --index IVF4,Flat --looped 500 --exact-texts 300 "
    "--thresholds 50 --width 16 --threads 1 --repeats 1",
    "compare": "--pairs 50 --repeats 1",
    "memory": "--texts 200 --count 50 --kinds knn --encoder random-bert --encoder-layers 1 --threads 1",
}
NAMES = {
    "encode": ["ours_texts_per_second", "theirs_texts_per_second", "encode_vs_sentence_transformers", "bf16_vs_fp32"],
    "search": ["exact_vs_matmul", "exact_vs_naive", "knn_overhead", "shards_2_vs_1"],
    "evaluate": ["scoring_vs_loop", "scoring_mb", "exact_vs_matmul"],
    "compare": ["comparisons", "texts_prepared_per_core_second", "pairs_compared_per_core_second"],
    "memory": ["driver_mb", "shard_mb_over"],
}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("kind", SMALL)
def test_each_benchmark_says_its_figures_and_no_others(kind, tmp_path, make_task, monkeypatch, capsys):
    write_task(make_task(True), tmp_path / "task", {})
    line = [kind, *SMALL[kind].split(), "--out", str(tmp_path / "made.json")]
    line += ["--task", str(tmp_path / "task")] * (kind in ("encode", "compare"))
    monkeypatch.setattr(sys, "argv", ["bench", *line])
    bench.main()
    made = json.loads((tmp_path / "made.json").read_text())
    assert list(made) == NAMES[kind]
    assert all(np.isfinite(value) for value in made.values())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["figure", *NAMES[kind]]


def test_the_table_shows_the_median_and_how_far_the_repeats_lie_apart():
    table = bench.table([Figure("ratio", (0.5, 4.0, 1.0), "at least 0.60"), Figure("speed", (2.0,))])
    assert [line.split(maxsplit=4) for line in table.splitlines()] == [
        ["figure", "median", "least", "most", "target"],
        ["ratio", "1", "0.5", "4", "at least 0.60"],
        ["speed", "2", "2", "2", "-"],
    ]


def test_threads_wait_and_workers_compete_as_told_before_any_library_is_loaded():
    loaded = (
        "import os, sys, builtins; real = builtins.__import__\n"
        "def seen(name, *rest, **more):\n"
        "    if name.split('.')[0] in ('torch', 'faiss', 'numpy', 'ray'):\n"
        "        told = os.environ.get('OMP_WAIT_POLICY'), os.environ.get('RAY_worker_niceness')\n"
        "        assert told == ('PASSIVE', '0'), (name, told)\n"
        "    return real(name, *rest, **more)\n"
        "builtins.__import__ = seen\nimport benchmarks.__main__\nassert 'torch' in sys.modules"
    )
    told = ("OMP_WAIT_POLICY", "RAY_worker_niceness")
    bare = {name: value for name, value in os.environ.items() if name not in told}
    subprocess.run([sys.executable, "-c", loaded], env={**bare, "PYTHONPATH": str(ROOT)}, check=True, timeout=600)


def test_of_all_pairs_as_few_lie_above_the_boundary_as_a_trained_model_leaves():
    vectors = clustered_vectors(20_000, 384, 0)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(20_000), abs=1e-5)
    cosines = vectors[:2000] @ vectors.T
    # Besides a text with itself.
    above = (cosines >= SCORER.boundary).mean() - 1 / 20_000
    assert 1e-5 < above < 1e-4
    assert 0.08 < cosines.std() < 0.15


def test_the_plain_program_finds_what_the_exact_join_finds():
    vectors, rows, count = clustered_vectors(600, 64, 1), np.arange(600), 300
    known = {(0, 1), (2, 3)}
    found = bench_search.naive(vectors, SCORER, count, known)
    join = ExactJoin([JoinQuery(Order(SCORER.boundary), count, 600, True)], [np.array([1, 2 * 600 + 3])])
    join.add(Block(rows, vectors), Block(rows, vectors))
    (exact,) = join.results()
    pairs = np.array([pair for _, pair in found])
    assert len(found) == count == len(set(map(tuple, pairs.tolist())))
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert not known & set(map(tuple, pairs.tolist()))
    costs = [cost for cost, _ in found]
    assert costs == sorted(costs)
    # An index that looks into a tenth of its cells misses few of the near ones.
    assert np.isin(as_pairs(pairs[:, 0], pairs[:, 1]) @ [600, 1], exact.keys).mean() > 0.9


def test_the_plain_program_buys_no_labelled_pair():
    vectors = clustered_vectors(200, 16, 1)
    every = {pair for _, pair in bench_search.naive(vectors, SCORER, 50, set())}
    assert not every & {pair for _, pair in bench_search.naive(vectors, SCORER, 50, every)}


def test_blocks_meet_each_two_once(monkeypatch):
    met = []
    vectors = clustered_vectors(50, 4, 0)
    blocks = [Block(np.arange(50)[start : start + 20], vectors[start : start + 20]) for start in (0, 20, 40)]
    product = bench_search.torch.mm
    monkeypatch.setattr(bench_search.torch, "mm", lambda x, y, out: met.append(len(x) * y.shape[1]) or product(x, y))
    bench_search.multiply(blocks)
    # 20 x 20 three times, 20 x 10 twice, 10 x 10.
    assert sorted(met) == [100, 200, 200, 400, 400, 400]


def test_peak_memory_stays_when_what_took_it_is_gone():
    before = resident("VmHWM")
    taken = np.ones(int(resident("VmHWM") - resident("VmRSS") + 300) * 2**17)
    del taken
    assert resident("VmHWM") > before + 250
    assert resident("VmRSS") <= resident("VmHWM")


def test_pairs_that_are_labelled_before_are_distinct_and_leave_some(make_task):
    split = make_task(True).split("train")
    made = bench_memory.labelled(split, 10**6)
    assert len(made) == split.space.total // 2 == len(np.unique(split.space.keys(made.pairs)))
    assert made.positives == int(np.isin(split.space.keys(made.pairs), split.positive_keys).sum()) > 0


def test_defaults_are_those_that_the_goals_are_stated_for():
    search, memory, evaluate = Search(), Memory(), Evaluate()
    assert (search.texts, search.knn_texts, search.width, search.count) == (20_000, 100_000, 384, 10_000)
    assert (search.index, search.parts) == ("IVF1000,Flat", ("exact", "knn", "shards"))
    assert (memory.texts, memory.count, memory.kinds) == (100_000, 78_732, ("knn", "exact"))
    assert (evaluate.texts, evaluate.pairs, evaluate.width) == (130_000, 23_000_000, 384)
    assert (evaluate.exact_texts, evaluate.thresholds) == (30_000, 2_000)


def result(kind, texts, seconds, megabytes):
    return {
        "kind": kind, "texts": texts,
        "seconds": dict.fromkeys([*STAGES, "all"], seconds), "mb": dict.fromkeys(ACTORS, megabytes),
    }  # fmt: skip


def test_growth_is_the_exponent_between_two_sizes_of_a_kind():
    # Ten times the texts: a hundred times the seconds, and twice the memory (log10 2 = 0.30).
    table = format_results(
        [result("exact", 100, 1.0, 50.0), result("exact", 1000, 100.0, 100.0), result("knn", 100, 0.0, 50.0)]
    )
    rows = [line.split() for line in table.splitlines()[1:]]
    assert rows[0] == ["exact", "100", *["1.0"] * 6, *["50.0"] * 3]
    assert rows[1] == ["exponent", *["2.00"] * 6, *["0.30"] * 3]
    assert rows[2] == ["exact", "1,000", *["100.0"] * 6, *["100.0"] * 3]
    # No line between two kinds.
    assert [row[0] for row in rows] == ["exact", "exponent", "exact", "knn"]


def test_the_peak_of_a_driver_is_what_it_held_at_once(monkeypatch):
    monkeypatch.setattr(bench_scaling, "POLL", 0.01)
    # It holds what it has until it was seen with it, ten minutes at most.
    program = "import select, sys; held = bytearray(b'1') * 2**27; select.select([sys.stdin], [], [], 600)"
    driver = subprocess.Popen([sys.executable, "-c", program, "jobs.run"], stdin=subprocess.PIPE)
    given, sizes = driver.stdin, bench_scaling._sizes
    assert given is not None

    def seen(root: psutil.Process) -> Iterator[tuple[str, float]]:
        for name, size in sizes(root):
            if size > 128:
                given.close()
            yield name, size

    monkeypatch.setattr(bench_scaling, "_sizes", seen)
    peaks = peak_memory(driver)
    assert 128 < peaks["driver"] < 256
    assert peaks["shard"] == peaks["trainer"] == 0
    with pytest.raises(RuntimeError, match="ended with 3"):
        peak_memory(subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]))


def test_what_has_a_result_is_not_run_again(tmp_path):
    done = result("knn", 100, 2.0, 60.0)
    (tmp_path / "knn-100.json").write_text(json.dumps(done))
    assert Scale(tmp_path, texts=(100,), kinds=("knn",)).results() == [done]
