"""jobs.audit on a real Ray: drawn, filled in as people do, estimated; blind, repeatable, and never written over."""

import csv
import io
import json
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.api.run_reading import load_run
from al_ray.apps.audit.folder import AuditFolder
from al_ray.apps.audit.sampling import with_stored_vectors
from al_ray.cli import audit
from al_ray.cli._shared import entry
from al_ray.cluster import session as sessions
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import Arithmetic
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.labels import Batch, State, make_answers
from al_ray.core.pairs import as_pairs
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, sealed, write_task
from al_ray.encoders.transformer import Encoder
from al_ray.metrics.audit.drawn_pairs import DrawnPairs
from al_ray.runs.run_folder import opened
from al_ray.training.saved_model import write_model

NAMES = ("left", "right")
# Its boundary is at cosine 0.9.
SCORER = Scorer(20.0, -18.0, 0.1, "fitted")


def run_folder(
    root: Path, task: Task, scorer: Scorer = SCORER, layers: int = 1, arithmetic: Arithmetic = "auto"
) -> Path:
    """A run of one round on a task, whose model is the encoder as it is."""
    write_task(task, root / "task", {})
    task = read_task(root / "task")
    config = RunConfig(
        task=str(root / "task"), rounds=1, first_batch=20, encoder="random-bert", encoder_layers=layers, max_length=24,
        threads=1, arithmetic=arithmetic, evaluation=EvaluationConfig(near_neighbours=3, random_pairs=200),
    )  # fmt: skip
    split = task.split("train")
    pairs = split.space.pairs(split.space.at(np.arange(20) * 7))
    labels = np.isin(split.space.keys(pairs), split.positive_keys).astype(np.uint8)
    with opened(root / "run", task) as folder:
        folder.bind(config)
        folder.ledger.add_batch(1, Batch(pairs, np.full(20, 0.5), "seed"))
        folder.ledger.add_answers(1, make_answers(np.arange(20), labels, "simulated"))
        folder.ledger.seal(1)
        model = write_model(Encoder.base(config.encoding), scorer, folder.round(1) / "model", "nothing")
        folder.record_round(State(1, folder.state().labelled.extended(pairs, labels, 1, "seed"), model), {})
    return root / "run"


@pytest.fixture(scope="module")
def truth(make_task) -> Task:
    return make_task(True, clusters=12, members=6)


@pytest.fixture(scope="module")
def ran(in_process, truth: Task, tmp_path_factory) -> Path:
    """A run on a task that knows every second match of dev."""
    dev = truth.split("dev")
    known = replace(dev, positives=dev.positives[::2])
    task = sealed("half", True, truth.left, truth.right, {**truth.splits, "dev": known})
    return run_folder(tmp_path_factory.mktemp("audit"), task)


def do(monkeypatch, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["audit", *shlex.split(line)])
    entry.job(audit.main)


def fill(folder: Path, word: Callable[[tuple[str, str]], str]) -> None:
    """Answer a sheet, as a spreadsheet saves it; word: of two texts."""
    header, *rows = csv.reader(io.StringIO((folder / "audit.csv").read_text(encoding="utf-8-sig"), newline=""))
    file = io.StringIO()
    csv.writer(file, delimiter=";").writerows([header, *([row[0], word((row[2], row[3])), *row[2:]] for row in rows)])
    (folder / "audit.csv").write_bytes(file.getvalue().encode("utf-8-sig"))


def knows(task: Task, split: str) -> Callable[[tuple[str, str]], str]:
    texts = task.left.texts
    matches = {frozenset((texts[a], texts[b])) for a, b in task.split(split).positives.tolist()}
    return lambda pair: "yes" if frozenset(pair) in matches else "no"


@pytest.fixture(scope="module")
def asked(ran: Path) -> str:
    return f"sample --run {ran} --at-recall 0.5 --near 30 --rand 500 --out"


@pytest.fixture(scope="module")
def sheet(ran: Path, asked: str, tmp_path_factory) -> Path:
    """A drawn audit that nobody has filled in."""
    out = tmp_path_factory.mktemp("drawn") / "audit"
    with pytest.MonkeyPatch.context() as patch:
        do(patch, f"{asked} {out}")
    return out


@pytest.fixture
def out(sheet: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(sheet, tmp_path / "audit")


def test_putative_errors_are_drawn_blind_labelled_and_corrected(
    ran: Path, truth: Task, asked: str, out: Path, monkeypatch, capsys
):
    # The same again says the same, and draws nothing.
    do(monkeypatch, f"{asked} {out}")
    said = capsys.readouterr().out
    record = json.loads((out / "audit-key.json").read_text())
    near, random = record["strata"]
    assert (near["name"], random["name"]) == ("near", "random")
    assert near["drawn"] == min(30, near["above"])
    assert random["drawn"] == random["above"] > 0
    assert f"drawn are all {random['drawn']:,}" in said
    key = pq.read_table(out / "audit-key.parquet").to_pylist()
    assert [row["code"] for row in key] == [f"a-{n:05d}" for n in range(1, len(key) + 1)]
    strata = [row["stratum"] for row in key]
    assert sorted(strata) != strata != sorted(strata, reverse=True), "or the order would tell"
    assert (np.array([row["cosine"] for row in key]) >= record["threshold"]).all()
    assert len({(row["left"], row["right"]) for row in key}) == len(key)
    split = read_task(ran.parent / "task").split("dev")
    pairs = as_pairs(*([row[name] for row in key] for name in NAMES))
    assert not np.isin(split.space.keys(pairs), split.positive_keys).any()
    sheet = (out / "audit.csv").read_text(encoding="utf-8-sig")
    assert sheet.splitlines()[0] == "pair,label,left_text,right_text,left_id,right_id"
    assert len(json.loads((out / "audit.json").read_text())) == len(key)
    assert not any(word in sheet + (out / "audit.json").read_text() for word in ("near", "stratum", "cosine"))

    fill(out, knows(truth, "dev"))
    do(monkeypatch, f"estimate --labels {out / 'audit.csv'}")
    said = capsys.readouterr().out
    made = json.loads((out / "estimate.json").read_text())
    real = [knows(truth, "dev")(texts) == "no" for texts in zip(*truth.texts_of(pairs), strict=True)]
    errors = 0.0
    for stratum in record["strata"]:
        own = [error for error, name in zip(real, strata, strict=True) if name == stratum["name"]]
        errors += np.mean(own) * stratum["above"] * stratum["population"] / stratum["size"]
    wanted = record["positives_above"] / (record["positives_above"] + errors)
    found = made["corrected_precision"]
    assert found["value"] == pytest.approx(wanted)
    assert made["imputed_precision"] < found["low"] <= wanted <= found["high"]
    assert made["yes"] == real.count(False) > 0
    assert f"corrected precision (Eq. 14)     {100 * wanted:.1f}%" in said
    assert made["matching_share"]["value"] > found["value"]


def test_an_audit_is_never_written_over(asked: str, out: Path, monkeypatch, capsys):
    line = f"{asked} {out}"
    fill(out, lambda _: "unsure")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    monkeypatch.setattr(sessions, "session", lambda _: pytest.fail("it needs no Ray"))
    do(monkeypatch, line)
    assert "holds this audit already" in capsys.readouterr().out
    (out / "audit.json").unlink()
    do(monkeypatch, line)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    for other, words in (
        ("--near 6", "near: 30 there, 6 here"),
        ("--seed 1", "seed: 0 there, 1 here"),
        ("--round 0", "round: 1"),
    ):
        with pytest.raises(SystemExit):
            do(monkeypatch, f"{line} {other}")
        error = capsys.readouterr().err
        assert words in error
        assert "give another --out" in error
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_bands_of_score_need_no_known_match(truth: Task, tmp_path, in_process, monkeypatch, capsys):
    none = np.empty((0, 2), dtype=np.int64)
    bare = {name: replace(split, positives=none) for name, split in truth.splits.items()}
    # Its boundary, cosine 0.97, is among the first 200 pairs.
    scorer = Scorer(200.0, -194.0, 0.1, "fitted")
    run = run_folder(tmp_path, sealed("bare", True, truth.left, truth.right, bare), scorer)
    do(monkeypatch, f"sample --run {run} --split train --by-score --budget 90 --top 200")
    out = run / "audit-train-by-score"
    record = json.loads((out / "audit-key.json").read_text())
    key, scores = (pq.read_table(out / f"audit-{name}.parquet") for name in ("key", "scores"))
    space = truth.split("train").space
    assert record["total_pairs"] == space.total
    cosines = np.array(scores["cosine"].to_pylist())
    first, known = cosines[:200], cosines[200:]
    assert (np.diff(first) <= 0).all()
    assert len(known) == 20, "what the run has labels for is not asked again"
    pairs = as_pairs(*(key[name].to_pylist() for name in NAMES))
    ranks, strata = np.array(key["rank"].to_pylist()), key["stratum"].to_pylist()
    labelled = space.at(np.arange(20) * 7)
    assert not np.isin(space.keys(pairs), labelled).any()
    assert {name: strata.count(name) for name in strata} == {"1-100": 30, "101-200": 30, f"201-{space.total - 20}": 30}
    drawn = np.array(key["cosine"].to_numpy())
    assert np.array_equal(drawn[ranks < 200], first[ranks[ranks < 200]])
    assert (drawn[ranks == 200] <= first[-1]).all()

    fill(out, knows(truth, "train"))
    capsys.readouterr()
    do(monkeypatch, f"estimate --audit {out}")
    said = capsys.readouterr().out
    made = json.loads((out / "estimate.json").read_text())
    assert made["thresholds"][0]["pairs"] == 100 + int((known >= first[99]).sum())
    assert "share of the matches in these 220" in said
    assert "20 pairs labelled by the run" in said
    do(monkeypatch, f"estimate --audit {out} --at-cosine {float(first[49])!r} --at-p 0.85 --out {tmp_path / 'at.json'}")
    made = json.loads((tmp_path / "at.json").read_text())
    at = {told["score"] == pytest.approx(0.85): told for told in made["thresholds"]}
    # sigmoid(200 * cosine - 194) = 0.85
    assert at[True]["cosine"] == pytest.approx((194 + log(0.85 / 0.15)) / 200)
    assert at[False]["cosine"] == first[49]


def test_a_boundary_below_top_is_ranked_and_the_scorer_takes_what_the_labels_say(
    truth: Task, tmp_path, in_process, monkeypatch, capsys
):
    run = run_folder(tmp_path, truth)
    cosine = load_run(run).model().scorer.boundary
    do(monkeypatch, f"sample --run {run} --split dev --by-score --budget 120 --top 20 --keep-vectors")
    out = run / "audit-dev-by-score"
    loaded, asked = load_run(run), AuditFolder(out).record().asked
    for shards in (1, 2):
        # The next audit reads the vectors that this one stored.
        cluster = with_stored_vectors(loaded.config, ClusterConfig(shards=shards), loaded.folder, asked)
        assert cluster.keep_vectors
    fill(out, knows(truth, "dev"))
    capsys.readouterr()
    do(monkeypatch, f"estimate --audit {out}")
    said = capsys.readouterr().out
    assert "boundary 0.9000  0.500" in said
    (at,) = [one for one in json.loads((out / "estimate.json").read_text())["thresholds"] if one["boundary"]]
    assert at["cosine"] == pytest.approx(cosine)
    cosines = pq.read_table(out / "audit-scores.parquet")["cosine"].to_numpy()
    assert at["pairs"] == (cosines >= cosine).sum() > 20, "more than --top"
    before = json.loads((run / "round-001" / "model" / "scorer.json").read_text())
    assert load_run(run).model().calibrated_on is None
    do(monkeypatch, f"estimate --audit {out} --update-scorer --threshold-for precision=0.05")
    said = capsys.readouterr().out
    after = json.loads((run / "round-001" / "model" / "scorer.json").read_text())
    assert {name: after[name] for name in before} == before, "the run goes on with its own"
    new = after["recalibration"]
    assert (new["source"], new["labels"], new["split"]) == ("audit", 120, "dev")
    assert new["matches"] == json.loads((out / "estimate.json").read_text())["yes"]
    assert sum(row["weight"] for row in new["reliability"]) == new["pairs"] == truth.split("dev").space.total
    assert [one["rule"] for one in after["thresholds"]] == ["precision=0.05"]
    assert after["thresholds"][0]["source"] == "audit"
    assert "scorer fitted to 120 labels" in said
    assert "precision=0.05: cosine >= " in said
    model = load_run(run).model()
    assert model.calibrated_on == "audit"
    assert (model.scorer.weight, model.scorer.bias, model.boundary) == (new["weight"], new["bias"], new["boundary"])
    # An audit of another model is refused.
    elsewhere = shutil.copytree(out, tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    record = json.loads((elsewhere / "audit-key.json").read_text())
    record["asked"]["model"] = "other"
    (elsewhere / "audit-key.json").write_text(json.dumps(record))
    with pytest.raises(SystemExit):
        do(monkeypatch, f"estimate --audit {elsewhere} --update-scorer --run {run}")
    assert "is not an audit of round 1 of" in capsys.readouterr().err


def test_what_label_studio_exports_is_read_too_and_what_is_not_answered_is_told(out: Path, monkeypatch, capsys):
    tasks = json.loads((out / "audit.json").read_text())
    words = ["yes", "no", "no", "unsure"]
    done = [{**task["data"], "match": word} for task, word in zip(tasks, words, strict=False)]
    export = out / "project-7-at-2026-11-22-10-15-1a2b3c4d.json"
    export.write_text(json.dumps(done))
    for source in (f"--audit {out}", f"--labels {export}"):
        do(monkeypatch, f"estimate {source}")
        made = json.loads((out / "estimate.json").read_text())
        assert [made[word] for word in ("yes", "no", "unsure", "open")] == [1, 2, 1, len(tasks) - 4]
        assert made["if_silent_are"]["errors"] < made["corrected_precision"]["value"] < made["if_silent_are"]["matches"]
    assert f"unsure or not answered: {len(tasks) - 3}" in capsys.readouterr().out


def test_an_audit_with_nothing_to_label_goes_on_by_the_same_commands(
    ran: Path, out: Path, tmp_path, monkeypatch, capsys
):
    record = AuditFolder(out).record()
    none = tuple(replace(stratum, above=0, drawn=0) for stratum in record.strata)
    empty = DrawnPairs(np.empty((0, 2), dtype=np.int64), (), np.empty(0, dtype=np.int64), np.empty(0))
    bare = tmp_path / "bare"
    AuditFolder(bare).keep(replace(record, strata=none), empty, None, read_task(ran.parent / "task"))
    do(monkeypatch, f"sample --run {ran} --at-recall 0.5 --near 30 --rand 500 --out {bare}")
    assert "there is nothing to label" in capsys.readouterr().out
    do(monkeypatch, f"estimate --audit {bare}")
    found = json.loads((bare / "estimate.json").read_text())["corrected_precision"]
    assert (found["value"], found["high"]) == (1, 1)
    assert found["low"] < 1
