"""Run the commands of docs/cluster.md on a head of this machine with a token: the journey of `ray job submit`.

The other journeys of new users are in tests/journeys.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from al_ray.datasets.task_folder import write_task
from tests.cluster.heads import ROOT, Head, environment_of, started
from tests.guides import blocks, commands

pytestmark = pytest.mark.slow

SMALL = (
    "--rounds 2 --first-batch 16 --encoder random-bert --encoder-layers 1 --max-length 24 --encoder-batch 8 "
    "--threads 1 --search.neighbours 5 --training.epochs 1 --training.batch 4 --training.worst-loss 100"
)
# What is added to a command of the guide, by its job: small, and for jobs.run an oracle that waits between the rounds.
MORE = {"run": f"{SMALL} --oracle judge:label", "grid": SMALL}
# What a job leaves of which everything is there.
LAST = {"run": "round-002/model/scorer.json", "grid": "summary.md"}
JUDGE = """
import time
from pathlib import Path

def label(left, right):
    # The second round's labels are sold when somebody has read the line of the first.
    begun, seen = Path({folder!r}, "runs", "first", "metrics.jsonl").exists(), Path({folder!r}, "seen")
    deadline = time.monotonic() + 600
    while begun and not seen.exists():
        if time.monotonic() > deadline:
            seen.write_text("by nobody, for ten minutes")
        time.sleep(0.1)
    return [len(set(one) & set(other)) > 0.7 * len(set(one)) for one, other in zip(left, right)]
"""


GUIDE = commands(blocks("docs/cluster.md", "## A machine is a cluster of one")[0])
SUBMITTED = {re.search(r"jobs\.(\w+)", line)[1]: line for line in GUIDE if "job submit" in line}  # type: ignore[index]


@pytest.fixture(scope="module")
def data(make_task, tmp_path_factory) -> Path:
    """What stands for /data: a task, and a module of somebody's own."""
    folder = tmp_path_factory.mktemp("data")
    write_task(make_task(True), folder / "tasks" / "wikiqa", {})
    (folder / "judge.py").write_text(JUDGE.format(folder=str(folder)))
    return folder


@pytest.fixture(scope="module")
def head(data, tmp_path_factory) -> Iterator[Head]:
    """A head that the guide's commands up to the first job have started."""
    exported, generate, start, *_ = GUIDE
    name, value = exported.removeprefix("export ").split("=")
    home = tmp_path_factory.mktemp("home")
    environment = environment_of(home, **{name: value}, PYTHONPATH=str(data))
    subprocess.run(shlex.split(generate), env=environment, check=True, capture_output=True, timeout=600)
    assert [path.name for path in (home / ".ray").iterdir()] == ["auth_token"]
    with started(start, environment, "--num-cpus=4") as made:
        yield made


def command(line: str, data: Path, more: str = "") -> list[str]:
    return shlex.split(f"{line} {more}".replace("/data/", f"{data}/"))


def test_the_guide_submits_a_run_and_a_grid():
    assert set(SUBMITTED) == {"run", "grid"}
    assert {job for job in SUBMITTED if not (ROOT / "jobs" / f"{job}.py").exists()} == set()
    assert set(SUBMITTED) <= set(MORE)


@pytest.mark.parametrize("job", SUBMITTED)
def test_a_submitted_job_streams_its_lines_and_leaves_what_it_should(head, data, job):
    said: list[str] = []
    # As at a terminal: into a pipe Ray's command would write by blocks. The job has its environment from the head.
    environment = {**head.environment, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command(SUBMITTED[job], data, MORE[job]), cwd=ROOT, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as client:  # fmt: skip
        assert client.stdout is not None
        for line in client.stdout:
            said.append(line)
            if re.match(r" +1 +16 ", line):
                # The job goes on from here only.
                (data / "seen").touch()
    assert client.returncode == 0, "".join(said)
    out = Path(command(SUBMITTED[job], data)[command(SUBMITTED[job], data).index("--out") + 1])
    assert (out / LAST[job]).is_file()
    if job == "run":
        assert f"results: {out}\n" in said
        assert (data / "seen").read_text() == ""


def test_a_relative_folder_is_refused_and_a_job_that_fails_fails_its_command(head, data):
    before = set(ROOT.iterdir())
    ended = head.ended(*command(SUBMITTED["run"].replace("--out /data/", "--out "), data))
    assert ended.returncode == 1
    assert "error: --out runs/first is relative, and a submitted job's folder is thrown away" in ended.stdout
    assert "exit code 2" in ended.stdout
    assert set(ROOT.iterdir()) == before


def test_who_has_no_token_is_refused(head, data, tmp_path):
    ended = head.ended(*command(SUBMITTED["run"], data), HOME=str(tmp_path), RAY_AUTH_MODE="disabled")
    assert ended.returncode == 1
    assert "Missing authentication token" in ended.stdout


def test_the_submitted_run_worked_on_the_head_whose_nodes_serve_its_figures(head):
    """Not on a Ray of its own, which a job that finds none would start."""
    (services,) = json.loads((head.folder / "prom_metrics_service_discovery.json").read_text())
    served = ""
    for target in services["targets"]:
        with urlopen(f"http://{target}/metrics", timeout=30) as answer:
            served += answer.read().decode()
    assert re.search(r'^ray_al_ray_stage_seconds_total\{.*run="first",stage="search"', served, re.MULTILINE)
    assert re.search(r"^ray_al_ray_texts_embedded_total\{", served, re.MULTILINE)
