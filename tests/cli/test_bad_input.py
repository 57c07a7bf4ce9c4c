"""Every job but `prepare pairs` (see test_prepare_pairs.py) refuses what cannot be, in one line that says what to do.

No case starts a Ray; what only shows itself on one stands in test_bad_on_ray.py.
"""

import importlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from filelock import FileLock, Timeout

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.api import cross_encoders, grids
from al_ray.api import evaluation as api_evaluation
from al_ray.apps.audit import sampling
from al_ray.apps.audit.folder import AuditFolder, AuditOptions, Record, StratumCounts
from al_ray.apps.matching import pipeline as matching
from al_ray.cli import (
    annotate,
    audit,
    augment,
    demo,
    evaluate,
    export,
    grid,
    labels,
    match,
    mine,
    paraphrase,
    prepare,
    report,
    reproduce,
    run,
    serve,
    train,
)
from al_ray.cli._shared import entry
from al_ray.cluster import run as whole_run
from al_ray.cluster import session as sessions
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.labels import Batch, State, make_answers
from al_ray.core.scorer import Scorer
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import read_task, sealed, write_task
from al_ray.encoders.transformer import Encoder
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.metrics.average_precision import Counts, StratumSummary
from al_ray.metrics.evaluation import evaluate_counts
from al_ray.runs.run_folder import RunFolder, opened
from al_ray.storage.lock import NAME
from al_ray.training.saved_model import write_model
from benchmarks import __main__ as bench
from tests.cli.bad_cases import OF_RUN, RUN, SCORES
from tests.cli.bad_exports import COPY, OF_EXPORT
from tests.cli.bad_lines import (
    DAMAGED_JUDGED,
    DAMAGED_SCORES,
    HEURISTIC,
    JUDGED,
    LABELS,
    OF_AUDIT,
    OF_ENCODER,
    OF_EVALUATE,
    OF_LABELS,
    OF_PARAPHRASE,
    OF_PREPARE,
    OF_REST,
    PARAPHRASE,
    QQP,
    QQP_ROW,
    SCORED,
    WIKI,
    parquet,
)
from tests.cli.bad_matches import INTO, OF_MATCH, write_known
from tests.cli.bad_models import GRID, OF_MODELS, REPRODUCE, TRAIN
from tests.cli.bad_pages import ANNOTATE, OF_ANNOTATE, write_waiting
from tests.cli.bad_serving import OF_SERVE, SERVE, write_store

JOBS = {
    "annotate": annotate,
    "audit": audit,
    "augment": augment,
    "export": export,
    "match": match,
    "mine": mine,
    "run": run,
    "evaluate": evaluate,
    "labels": labels,
    "prepare": prepare,
    "demo": demo,
    "bench": bench,
    "train": train,
    "reproduce": reproduce,
    "grid": grid,
    "report": report,
    "serve": serve,
    "paraphrase": paraphrase,
}
ROOT = Path(__file__).resolve().parents[2]
JUDGE = (
    "NUMBER = 3\ndef label(left, right): return [1] * len(left)\ndef one(x): return x\nasync def later(a, b): pass\n"
)
CASES = [
    *(("run", *case) for case in OF_RUN),
    *(("evaluate", {}, *case) for case in OF_EVALUATE),
    *(("evaluate", {"s.parquet": content}, SCORES, words) for content, words in DAMAGED_SCORES),
    *(("evaluate", {"h.parquet": content}, HEURISTIC, words) for content, words in DAMAGED_JUDGED),
    ("evaluate", {"run/round-001/record.json": "{}"}, "--run run", "record.json lacks model"),
    ("evaluate", {"run/round-001/model/model.safetensors": None}, "--run run", "has no weights"),
    ("evaluate", {"run/config.json": "{}"}, "--run run", "config.json lacks task_digest"),
    *(("labels", *case) for case in OF_LABELS),
    *(("audit", *case) for case in OF_AUDIT),
    *(("prepare", *case) for case in OF_PREPARE),
    *(("paraphrase", {}, line, words) for line, words in OF_PARAPHRASE),
    *((job, {}, line, words) for job, line, words in OF_REST),
    *(("match", *case) for case in OF_MATCH),
    *(("export", *case) for case in OF_EXPORT),
    *(("serve", *case) for case in OF_SERVE),
    *(("annotate", *case) for case in OF_ANNOTATE),
    *(("bench", damage, "encode --task task --encoder enc", words) for damage, words in OF_ENCODER),
    *OF_MODELS,
]
FIRST = {job: number for number, (job, *_) in reversed(list(enumerate(CASES)))}
"""The first case of each job."""
# What the folder still takes after a refusal.
SOUND = {
    "run": RUN,
    "evaluate": f"{SCORES} --out made.json",
    "audit": "estimate --audit audit",
    "labels": "import --run new --task task --labels l.csv",
    "prepare": "qqp --source p.tsv --out made",
    "augment": "--task two --labels stated --out made --encoder cnn-4 --teacher random-bert --max-length 40 --dry-run",
    "mine": "--task task --miners random bm25",
    "match": INTO,
    "export": COPY,
    "serve": SERVE,
    "annotate": ANNOTATE,
    "demo": "--out made --encoder random-bert --texts 100",
    "paraphrase": PARAPHRASE,
    "bench": "encode --task task --encoder random-bert --texts 4 --repeats 1",
    "train": f"{TRAIN} --dry-run",
    "reproduce": f"{REPRODUCE} --dry-run",
    "grid": f"{GRID} --dry-run",
    "report": "run --out made",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory, make_task) -> Path:
    """Tasks, a run of one round that no Ray made, an encoder, tables, and functions that label."""
    here = tmp_path_factory.mktemp("world")
    lonely = make_task(True, members=1)
    bare = {name: replace(split, stated_negatives=split.positives) for name, split in lonely.splits.items()}
    lonely = sealed("lonely", True, lonely.left, lonely.right, bare)
    for name, task in {"task": make_task(True), "two": make_task(False), "lonely": lonely}.items():
        write_task(task, here / name, {})
    write_task(synthetic_task(100, 0), here / "synthetic", {})
    files = {"judge.py": JUDGE, "broken.py": "1 / 0\n", "p.tsv": QQP + QQP_ROW, "l.csv": LABELS}
    (here / "wiki").mkdir()
    for name, question in (("train", "Q1"), ("dev", "Q2"), ("test", "Q4")):
        files[f"wiki/WikiQA-{name}.tsv"] = f"{WIKI}{question}\thow\tD\tT\tS{question}\tso\t1\n"
    for name, content in files.items():
        (here / name).write_text(content)
    (here / "s.parquet").write_bytes(parquet(**SCORED))
    (here / "h.parquet").write_bytes(parquet(**JUDGED))
    encoder = Encoder.base(EncoderConfig("random-bert", 1, 24, 8, 1))
    (here / "enc").mkdir()
    encoder.save(here / "enc")
    config = RunConfig(
        task="task", rounds=1, first_batch=4, encoder="random-bert", encoder_layers=1, max_length=24, threads=1,
        training=TrainingConfig(epochs=2),
    )  # fmt: skip
    task = read_task(here / "task")
    space = task.split("train").space
    batch = Batch(space.pairs(space.at(np.arange(4) * 5)), np.full(4, 0.5), "seed")
    with opened(here / "run", task) as folder:
        folder.bind(config)
        folder.ledger.add_batch(1, batch)
        folder.ledger.add_answers(1, make_answers(np.arange(4), np.array([1, 0, 0, 1], dtype=np.uint8), "simulated"))
        folder.ledger.seal(1)
        model = write_model(encoder, Scorer(9.0, -8.0, 0.1, "fitted"), folder.round(1) / "model", "nothing")
        counts = Counts(np.array([0.9]), np.array([1]), np.array([[0]]))
        result = evaluate_counts("dev", counts, [StratumSummary("all", 3, 3)], None, np.random.default_rng(0))
        folder.record_round(
            State(1, folder.state().labelled.extended(batch.pairs, folder.ledger.labels(1), 1, "seed"), model),
            {"dev": result},
        )
    audits(here)
    (here / "exported").mkdir()
    write_known(here, model)
    write_store(here)
    write_waiting(here, task)
    shutil.copytree(here / "run" / "round-001" / "model", here / "copy")
    return here


def audits(here: Path) -> None:
    """Two audits of the run that no Ray drew, filled in: of putative errors, and of bands of score."""
    task = read_task(here / "task")
    model, space = RunFolder(here / "run", task).model(1).digest, task.split("dev").space
    pairs, ranks = space.pairs(space.at(np.arange(3))), np.array([0, 3, 4])
    for name, options in {
        "audit": AuditOptions("dev", 1, 0, 0.2, 2, 1, None, None, model, task.digest),
        "scored": AuditOptions("dev", 1, 0, None, None, None, 3, 4, model, task.digest),
    }.items():
        record = Record(options, space.total, 9.0, -8.0)
        if not options.by_score:
            strata = StratumCounts("near", 9, 9, 5, 2), StratumCounts("random", 9, 90, 1, 1)
            record = Record(options, space.total, 9.0, -8.0, 0.8, 0.5, 4, 2, strata)
        sheet = DrawnPairs(pairs, ("near", "random", "near"), ranks, np.full(3, 0.9))
        scored = BandScores(np.array([0.95, 0.9, 0.8, 0.7]), np.empty(0), np.empty(0, dtype=np.uint8))
        AuditFolder(here / name).keep(record, sheet, scored if options.by_score else None, task)
        (here / name / "audit.csv").write_text("pair,label\na-00001,yes\na-00002,no\na-00003,unsure\n")


def files(folder: Path) -> dict[str, bytes]:
    """All that stands there; a lock says nothing, and nor does a module that Python compiled."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path): path.read_bytes() for path in found if path.suffix != ".pyc"}


def taken_locks(folder: Path) -> list[Path]:
    """The locks of a folder that somebody has."""
    taken = []
    for path in folder.rglob(NAME):
        try:
            FileLock(path, timeout=0).acquire().lock.release()
        except Timeout:
            taken.append(path)
    return taken


def here(monkeypatch, job: str, line: str) -> None:
    """The job in this process: quicker than a new one."""
    monkeypatch.setattr(sys, "argv", [job, *shlex.split(line)])
    entry.job(JOBS[job].main)


class Begun(Exception):
    """A demonstration that was let in."""


def begins(*_: object) -> None:
    raise Begun


def no_ray(monkeypatch) -> None:
    """A job that comes as far as its Ray finds none there."""
    for module in (whole_run, cross_encoders, api_evaluation, sessions, matching):
        monkeypatch.setattr(module, "session", lambda *_: nullcontext())
    monkeypatch.setattr(whole_run, "deploy_services", lambda *_: nullcontext(SimpleNamespace(peak_memory=dict)))
    monkeypatch.setattr(loop, "run", lambda *_: iter(()))
    monkeypatch.setattr(api_evaluation, "evaluate_rounds", lambda *_: pytest.fail("it was taken"))
    monkeypatch.setattr(sampling, "sample_false_positives", lambda *_: pytest.fail("it was taken"))
    monkeypatch.setattr(sampling, "sample_bands", lambda *_: pytest.fail("it was taken"))
    monkeypatch.setattr(grids, "count_concurrent", lambda _: 1)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # Another test of this process may have imported a module of this name.
    monkeypatch.delitem(sys.modules, "judge", raising=False)


class Copies:
    """Copies of the world: what a refusal has left as it was is used by the next case, and a changed one is not."""

    def __init__(self, world: Path, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.place: Path | None = None
        self.sound, self.paths = dict[str, bytes](), set[Path]()

    @contextmanager
    def damaged(self, damage: Mapping[str, int | str | bytes | None]) -> Iterator[tuple[Path, dict[str, bytes]]]:
        """A copy with damage, and the content of its files. damage: name -> so many bytes of it, another content, or no
        file."""
        if self.place is None:
            self.place = Path(tempfile.mkdtemp(dir=self.folder)) / "place"
            shutil.copytree(self.world, self.place)
            self.sound, self.paths = files(self.place), set(self.place.rglob("*"))
        # A case that fails leaves the next one a new copy.
        place, self.place = self.place, None
        before = dict(self.sound)
        for name, content in damage.items():
            whole = before.pop(str(place / name), b"")
            if content is None:
                (place / name).unlink()
                continue
            new = whole[:content] if isinstance(content, int) else content
            before[str(place / name)] = new if isinstance(new, bytes) else new.encode()
            (place / name).write_bytes(before[str(place / name)])
        yield place, before
        for name in damage:
            if str(place / name) in self.sound:
                (place / name).write_bytes(self.sound[str(place / name)])
        # Empty folders, locks and compiled modules, too.
        for path in sorted(set(place.rglob("*")) - self.paths, reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        importlib.invalidate_caches()
        self.place = place


@pytest.fixture(scope="module")
def copies(world, tmp_path_factory) -> Copies:
    return Copies(world, tmp_path_factory.mktemp("copies"))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{n:03d}-{case[0]}" for n, case in enumerate(CASES)])
def test_bad_input_ends_in_one_line_and_changes_nothing(copies, monkeypatch, capsys, number):
    job, damage, line, words = CASES[number]
    with copies.damaged(damage) as (place, before):
        monkeypatch.chdir(place)
        no_ray(monkeypatch)
        with pytest.raises(SystemExit) as stop:
            here(monkeypatch, job, line)
        assert stop.value.code == 2
        output = capsys.readouterr()
        assert output.err.startswith("error: ")
        assert (len(output.err.splitlines()), output.out) == (1, "")
        assert words in output.err
        assert files(place) == before
        # With a lock that is left the next command would end; what else a command leaves, the first case of each job
        # shows.
        assert taken_locks(place) == []


@pytest.mark.parametrize("job", SOUND)
def test_a_sound_command_follows_a_refused_one_in_the_same_folder(world, tmp_path, monkeypatch, capsys, job):
    _, damage, line, _ = CASES[FIRST[job]]
    with Copies(world, tmp_path).damaged(damage) as (place, _):
        monkeypatch.chdir(place)
        no_ray(monkeypatch)
        with pytest.raises(SystemExit):
            here(monkeypatch, job, line)
        for name in damage:
            if (world / name).exists():
                shutil.copyfile(world / name, place / name)
            else:
                (place / name).unlink()
        monkeypatch.setattr(demo, "run", begins)
        with pytest.raises(Begun) if job == "demo" else nullcontext():
            here(monkeypatch, job, SOUND[job])


def test_there_are_many_cases_and_one_of_each_job_is_followed_by_a_sound_command():
    assert len(CASES) > 250
    assert set(FIRST) == set(SOUND) == set(JOBS)


@pytest.mark.parametrize(
    ("job", "arguments"),
    [
        ("run", ["--task", b"caf\xe9", "--out", "out"]),
        ("evaluate", ["--scores", b"s\xff.parquet", "--total-pairs", "9"]),
        ("labels", ["import", "--run", "new", "--task", "task", "--labels", b"\xff.csv"]),
    ],
)
def test_a_path_that_is_no_utf8_is_refused(world, monkeypatch, capsys, job, arguments):
    # As stderr of a process; that of pytest refuses such paths.
    errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.chdir(world)
    monkeypatch.setattr(sys, "argv", [job, *map(os.fsdecode, arguments)])
    with pytest.raises(SystemExit) as stop:
        entry.job(JOBS[job].main)
    errors.seek(0)
    said = errors.read()
    assert (stop.value.code, capsys.readouterr().out) == (2, "")
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    assert "\\udc" in said


@pytest.mark.parametrize(
    ("job", "arguments"),
    [
        ("run", [*shlex.split(RUN), "--oracle", b"caf\xe9:label"]),
        ("prepare", ["qqp", "--source", b"\xff.tsv", "--out", "made"]),
    ],
)
def test_a_path_that_is_no_utf8_is_refused_as_a_command(world, job, arguments):
    command = [sys.executable, "-W", "error", "-m", f"jobs.{job}", *arguments]
    done = subprocess.run(
        command, cwd=world, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "\\udc" in done.stderr


def test_a_path_of_any_bytes_is_taken_where_its_file_is_sound(world, tmp_path):
    place = shutil.copytree(world, tmp_path / "place")
    (place / os.fsdecode(b"l\xff.csv")).write_text(LABELS)
    command = [sys.executable, "-W", "error", "-m", "jobs.labels"]
    for line in (
        ["import", "--task", "task", "--labels", b"l\xff.csv", "--run"],
        ["export", "--out", b"\xff.csv", "--run"],
    ):
        where = b"new" if "import" in line else "run"
        done = subprocess.run(
            [*command, *line, where], cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert (place / os.fsdecode(b"\xff.csv")).exists()
    assert json.loads((place / "run" / "state.json").read_text())["round"] == 1
