"""jobs.audit of what jobs.match wrote: drawn blind, filled in as people do, and estimated against the truth."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import al_ray
from al_ray.apps.matching.folder import Matches, write_matches, write_record
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Task
from al_ray.storage.formulas import FormulaCells
from tests.apps.audit.test_audit_job import do, fill, run_folder
from tests.apps.matching import test_match_job as matching


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(monkeypatch, capsys, line: str) -> str:
    with pytest.raises(SystemExit) as stop:
        do(monkeypatch, line)
    assert stop.value.code == 2
    return capsys.readouterr().err


def match_folder(folder: Path, task: Task, count: int = 60, texts: bool = True, rule: str = "all") -> Path:
    """Matches of a task folder as jobs.match writes them: every fifth was labelled yes."""
    space = task.split("train").space
    scores = np.linspace(0.9, 0.4, count)
    pairs, by_label = space.pairs(np.sort(space.at(np.arange(count)))), np.arange(count) % 5 == 0
    write_matches(
        folder / "matches",
        Matches(ScoredPairs(pairs, scores), None, by_label, ~by_label & by_label),
        task,
        texts,
        FormulaCells(escape=False),
    )
    write_record(folder, {"assign": rule})
    return folder


@pytest.fixture(scope="module")
def task(make_task) -> Task:
    return make_task(True, clusters=12, members=6)


@pytest.fixture
def matches(task: Task, tmp_path: Path) -> Path:
    """48 matches of the model and 12 by labels."""
    return match_folder(tmp_path / "matches", task)


def test_matches_are_drawn_labelled_and_estimated_by_the_printed_commands(
    in_process, task: Task, tmp_path, monkeypatch, capsys
):
    run = run_folder(tmp_path, task)
    cutoff = sorted(matching.scores_by_loops(run, task).values())[-80] - 1e-7
    tables = matching.tables(task, tmp_path)
    matching.do(monkeypatch, f"--model {run} {tables} --assign all --at-score {cutoff} --out {tmp_path / 'out'}")
    printed = re.search(
        r"are they right\? label some: .*audit (sample --matches .*) --budget 100$", capsys.readouterr().out
    )
    assert printed is not None
    line, out = f"{printed[1]} --budget 40", tmp_path / "out" / "audit"
    do(monkeypatch, line)
    said = capsys.readouterr().out
    assert "40 pairs wait for an answer" in said
    rows = matching.written(tmp_path / "out")
    of_model = [pair for pair, row in rows.items() if row["decided_by"] == "model"]
    key = pq.read_table(out / "audit-key.parquet").to_pylist()
    drawn = [(row["left_id"], row["right_id"]) for row in key]
    assert len(set(drawn)) == 40
    assert [of_model[row["rank"]] for row in key] == drawn
    ranks = [row["rank"] for row in key]
    assert sorted(ranks) != ranks != sorted(ranks, reverse=True), "or the order would tell"
    sheet = (out / "audit.csv").read_text(encoding="utf-8-sig")
    assert sheet.splitlines()[0] == "pair,label,left_text,right_text,left_id,right_id"
    texts = [tuple(row[name] for name in ("left_text", "right_text")) for row in csv.DictReader(sheet.splitlines())]
    assert texts == [tuple(rows[pair][f"{side}_text"] for side in ("left", "right")) for pair in drawn]

    before = files(out)
    do(monkeypatch, line)
    assert "holds this audit already; nothing was changed" in capsys.readouterr().out
    assert files(out) == before
    cluster = {one: task.left.texts[row] for row, one in enumerate(task.left.ids)}
    positive = {frozenset(pair) for pair in zip(*task.texts_of(task.split("train").positives), strict=True)}
    fill(out, lambda pair: "yes" if frozenset(pair) in positive else "no")
    do(monkeypatch, f"estimate --audit {out}")
    said, found = capsys.readouterr().out, json.loads((out / "estimate.json").read_text())
    right = {pair: frozenset(cluster[one] for one in pair) in positive for pair in of_model}
    record = json.loads((out / "audit-key.json").read_text())
    expected = 0.0
    for band in record["bands"]:
        own = [right[of_model[rank]] for rank in ranks if band["start"] <= rank < band["stop"]]
        assert len(own) == band["drawn"]
        expected += np.mean(own) * (band["stop"] - band["start"])
    assert found["precision"]["value"] == pytest.approx(expected / len(of_model))
    assert found["precision"]["low"] <= np.mean(list(right.values())) <= found["precision"]["high"]
    assert f"precision of the {len(of_model):,} matches of the model: {100 * expected / len(of_model):.1f}%" in said

    # New rows change the matches: the labels are of those that were written before.
    new = tmp_path / "new.csv"
    new.write_text(f"key,words\nnew,{task.left.texts[task.split('train').space.left[0]]}\n")
    matching.do(monkeypatch, f"--into {tmp_path / 'out'} --left {new}")
    message = refused(monkeypatch, capsys, f"estimate --audit {out}")
    assert f"the matches in {tmp_path / 'out'} were replaced since {out} was drawn" in message
    assert "holds other matches than those that" in refused(monkeypatch, capsys, line)
    do(monkeypatch, f"{line} --out {tmp_path / 'again'}")


def test_precision_by_hand_with_what_is_unsure_and_open(matches: Path, tmp_path, monkeypatch, capsys):
    do(monkeypatch, f"sample --matches {matches} --budget 40")
    said = capsys.readouterr().out
    assert "60 matches: 48 decided by the model, 12 by labels; drawn of those of the model: 40, from 2 bands" in said
    out = matches / "audit"
    key = pq.read_table(out / "audit-key.parquet").to_pylist()
    written = pq.read_table(matches / "matches.parquet").to_pylist()
    labelled = {(row["left_id"], row["right_id"]) for row in written if row["decided_by"] == "label"}
    assert not labelled & {(row["left_id"], row["right_id"]) for row in key}
    # Of 20 drawn of the first 24 all are right but one that is unsure; of the others 5 are wrong and one is open.
    places = {row["code"]: row["rank"] for row in key}
    high = sorted((code for code in places if places[code] < 24), key=lambda code: places[code])
    low = sorted((code for code in places if places[code] >= 24), key=lambda code: places[code])
    words = dict.fromkeys(high, "yes") | {high[3]: "unsure"} | dict.fromkeys(low, "yes") | dict.fromkeys(low[:5], "no")
    words[low[-1]] = ""
    rows = "".join(f"{code},{words[code]}\n" for code in places)
    (out / "audit.csv").write_text(f"pair,label\n{rows}")
    do(monkeypatch, f"estimate --audit {out}")
    said, found = capsys.readouterr().out, json.loads((out / "estimate.json").read_text())
    # 24 and 24 * 14/19 of 48 are right; with the 12 labelled ones of 60.
    assert found["precision"]["value"] == pytest.approx((24 + 24 * 14 / 19) / 48)
    assert found["precision_with_labelled"]["value"] == pytest.approx((12 + 24 + 24 * 14 / 19) / 60)
    ends = [(found[name]["low"], found[name]["high"]) for name in ("precision", "precision_with_labelled")]
    assert [(12 + 48 * end) / 60 for end in ends[0]] == pytest.approx(list(ends[1]))
    assert [found[name] for name in ("yes", "no", "unsure", "open")] == [33, 5, 1, 1]
    first, second = found["bands"]
    # The 24th match of the model is the 30th of all: each fifth from the first on was labelled.
    assert first["lowest_score"] == pytest.approx(0.9 - 29 * 0.5 / 59)
    assert (first["share"]["value"], second["share"]["value"]) == pytest.approx((1, 14 / 19))
    assert first["share"] == first["precision_from_this_score"]
    assert second["precision_from_this_score"] == found["precision"]
    assert "pairs not counted: 1 unsure, 1 not answered" in said
    assert f"with the 12 labelled yes, which count as right: {100 * (36 + 24 * 14 / 19) / 60:.1f}% (" in said
    estimate = al_ray.estimate_audit(out)
    assert estimate.figures["precision"] == found["precision"]
    assert estimate.text in said

    # The second band unanswered: its precision, and that of all, is unknown.
    (out / "audit.csv").write_text("pair,label\n" + "".join(f"{code},{'yes' * (code in high)}\n" for code in places))
    do(monkeypatch, f"estimate --audit {out} --out {tmp_path / 'half.json'}")
    assert json.loads((tmp_path / "half.json").read_text())["precision"] is None
    assert "unknown, as no answer is yes or no among the matches 25 to 48" in capsys.readouterr().out


def test_an_export_of_label_studio_is_read_and_a_moved_folder_is_found(matches: Path, tmp_path, monkeypatch, capsys):
    do(monkeypatch, f"sample --matches {matches} --budget 1000")
    tasks = json.loads((matches / "audit" / "audit.json").read_text())
    assert set(tasks[0]["data"]) == {"pair", "left_text", "right_text", "left_id", "right_id"}
    done = [{**one["data"], "match": "yes"} for one in tasks]
    (matches / "audit" / "labelled.json").write_text(json.dumps(done))
    moved = matches.rename(tmp_path / "moved")
    do(monkeypatch, f"estimate --audit {moved / 'audit'}")
    # All 48 are labelled: nothing is uncertain.
    found = json.loads((moved / "audit" / "estimate.json").read_text())
    assert found["precision"] == {"value": 1, "low": 1, "high": 1}
    assert "drawn of those of the model: all 48" in capsys.readouterr().out


def test_with_one_to_one_the_last_column_is_of_these_matches(task: Task, tmp_path, monkeypatch, capsys):
    folder = match_folder(tmp_path / "matches", task, rule="one-to-one")
    do(monkeypatch, f"sample --matches {folder} --out {tmp_path / 'audit'}")
    fill(tmp_path / "audit", lambda _: "yes")
    do(monkeypatch, f"estimate --audit {tmp_path / 'audit'}")
    assert "with another cutoff jobs.match --assign one-to-one may choose other pairs" in capsys.readouterr().out


def test_what_cannot_be_audited_is_refused_with_a_fix(matches: Path, task: Task, tmp_path, monkeypatch, capsys):
    out = tmp_path / "audit"
    do(monkeypatch, f"sample --matches {matches} --budget 40 --out {out}")
    fill(out, lambda _: "yes")
    before, sample = files(out), f"sample --matches {matches} --out {out}"
    bare = match_folder(tmp_path / "bare", task, texts=False)
    one = match_folder(tmp_path / "one", task, count=1)
    stopped = shutil.copytree(matches, tmp_path / "stopped")
    (stopped / "match.json").unlink()
    broken = shutil.copytree(matches, tmp_path / "broken")
    (broken / "matches.parquet").write_bytes(b"PAR1")
    for line, words in (
        (f"{sample} --budget 41", "is an audit with other options (budget: 40 there, 41 here); give another --out"),
        (f"{sample} --budget 40 --seed 1", "(seed: 0 there, 1 here)"),
        (f"sample --matches {bare} --out {out}", "holds other matches than those that"),
        (f"sample --matches {bare}", "has no texts to show (jobs.match --no-texts)"),
        (f"sample --matches {one}", "no match in .* was decided by the model"),
        (f"sample --matches {stopped}", "holds no match.json; give --matches the folder that jobs.match wrote"),
        (f"sample --matches {broken}", r"matches.parquet cannot be read .*match the texts again"),
        (f"sample --matches {matches} --out {matches}", "holds matches, a run or a task; give the audit a folder"),
        (f"sample --matches {matches} --by-score", "--by-score goes with --run; leave it out with --matches"),
        (f"sample --matches {matches} --run {out}", "give --run, to audit a model, or --matches"),
        (f"sample --matches {matches} --budget 0", "--budget is 0; give at least 1"),
        (f"estimate --audit {out} --at-p 0.5", "go with audits of a model, and .* is one of matches"),
    ):
        assert re.search(re.escape(words).replace(r"\.\*", ".*"), refused(monkeypatch, capsys, line)), line
    assert files(out) == before
    assert not any((folder / "audit").exists() for folder in (bare, one, stopped, broken))
    for content, words in (
        ('{"bands": [], "asked": {}}', "MatchRecord lacks"),
        (before["audit-key.json"].decode().replace('"stop": 24', '"stop": 23'), "impossible counts"),
        (before["audit-key.json"].decode().replace('"drawn": 20', '"drawn": 19', 1), "are not of one audit"),
    ):
        (out / "audit-key.json").write_text(content)
        assert words in refused(monkeypatch, capsys, f"estimate --audit {out}")
    (out / "audit-key.json").write_bytes(before["audit-key.json"])
    (matches / "matches.parquet").unlink()
    assert "put the folder back, or move the audit into it" in refused(monkeypatch, capsys, f"estimate --audit {out}")
