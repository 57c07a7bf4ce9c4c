"""The load test of jobs.serve, small. How fast it is, is asked nowhere."""

import csv
import json
import math
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from al_ray.apps.matching.model import open_model
from al_ray.core.errors import BadOption
from benchmarks.serving.figures import percentile, shares, summary
from benchmarks.serving.load_client import Load
from benchmarks.serving.load_test import COLUMNS, OURS, PLAIN, Serve, format_load
from benchmarks.serving.services import ROOT, differences, run_clients
from tests.apps.audit.test_audit_job import run_folder


def test_percentiles_are_values_that_were_measured():
    values = [float(value) for value in range(200, 0, -1)]
    assert [percentile(values, percent) for percent in (50, 95, 99, 100)] == [100, 190, 198, 200]
    assert [percentile([7.0, 3.0], percent) for percent in (50, 51)] == [3, 7]
    assert math.isnan(percentile([], 50))


def test_a_rate_is_of_the_measured_seconds():
    assert summary([1.0, 2.0, 4.0], 1.5) == {"requests_per_second": 2, "p50": 2, "p95": 4, "p99": 4}


def test_the_rest_is_what_the_parts_leave_and_may_be_negative():
    assert shares(8.0, {"a": 2.0, "b": 1.0}, "rest") == {"a": 0.25, "b": 0.125, "rest": 0.625}
    assert shares(8.0, {"a": 10.0}, "rest")["rest"] == -0.25


def test_the_table_has_medians_and_ratios_by_hand():
    figures = {"p50": 10.0, "p95": 20.0, "p99": 30.0, "client_cpu": 0.1, "codes": "{}"}
    rows = [
        {"clients": 1, "service": name, "requests_per_second": rate, **figures}
        for name, rate in [(OURS, 40.0), (PLAIN, 100.0), (OURS, 60.0), (PLAIN, 100.0)]
    ]
    text = format_load(rows, {"request": 0.01, "encoding": 0.004, "search": 0.001})
    lines = [line.split() for line in text.splitlines()]
    assert lines[2] == ["1", OURS, "50.0", "10.0", "20.0", "30.0", "0.10", "0.50", "{};", "{}"]
    assert [line[-2:] for line in lines[5:8]] == [["4.00", "40"], ["1.00", "10"], ["5.00", "50"]]


class Scripted:
    """A server on loopback that answers requests with the given codes, one after another, and one best match."""

    def __init__(self, score: float, codes: tuple[int, ...] = (200,)) -> None:
        content = json.dumps({"results": [[{"id": "a", "score": score}]]}).encode()
        lock, asked = threading.Lock(), []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    asked.append(1)
                    code = codes[len(asked) % len(codes)]
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self.address

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_refused_requests_are_counted_and_have_no_latency():
    with Scripted(0.5, (200, 429)) as address:
        loaded = run_clients(Load(address, ["{}"], 2, 0.0, 0.5))
    assert set(loaded.codes) == {"200", "429"}
    assert len(loaded.milliseconds) == loaded.codes["200"]


def test_texts_that_the_services_answer_differently_are_found():
    body = json.dumps({"texts": ["why"]})
    with Scripted(0.5) as one, Scripted(0.50009) as near, Scripted(0.50011) as other:
        assert differences(one, near, [body]) == []
        (found,) = differences(one, other, [body])
        assert found.startswith("the services differ for 'why'")


@pytest.fixture(scope="module")
def run(make_task, tmp_path_factory) -> Path:
    return run_folder(tmp_path_factory.mktemp("run"), make_task(True, clusters=10, members=4))


def table(path: Path, rows: int) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("key", "words"), *((f"k{number}", f"text {number}") for number in range(rows))])
    return path


def test_of_a_table_the_last_fifth_is_asked_for(run, tmp_path):
    benchmark = Serve(model=run, known=table(tmp_path / "k.csv", 14), text_columns="words", id_column="key")
    known, queries = benchmark.draw_texts(open_model(run))
    # 14 // 5 = 2
    assert (len(known), known[0], queries) == (12, "text 0", ["text 12", "text 13"])


def test_a_table_of_too_few_texts_is_refused(run, tmp_path):
    benchmark = Serve(
        model=run, known=table(tmp_path / "k.csv", 14), text_columns="words", id_column="key", texts_per_request=3
    )
    with pytest.raises(BadOption, match="--texts-per-request is 3, and there are 2 texts to ask for"):
        benchmark.results()


def test_other_benchmarks_need_no_extra_for_serving():
    code = (
        "import sys\nfor name in ('fastapi', 'prometheus_client', 'pydantic', 'starlette', 'uvicorn'):\n"
        "    sys.modules[name] = None\nimport benchmarks.__main__"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=600)


@pytest.mark.slow
@pytest.mark.parametrize("index", [False, True], ids=["exact", "index"])
def test_both_services_are_loaded_and_the_parts_are_timed(run, tmp_path, index):
    benchmark = Serve(
        model=run, texts=200, clients=(2,), seconds=0.5, warm_seconds=0.0, repeats=1, index=index,
        out=tmp_path / "made.csv",
    )  # fmt: skip
    rows, parts = benchmark.results()
    assert [row["service"] for row in rows] == [OURS, PLAIN]
    assert all(set(json.loads(row["codes"])) <= {"200"} for row in rows)
    assert list(parts) == ["request", "encoding", "search", "rest of the answer", "JSON", "FastAPI"]
    with (tmp_path / "made.csv").open(newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS
