"""match, serve, export and load_model take the model that a run hands over, and say why; --round takes another."""

import json
import shutil
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import al_ray
from al_ray.api.run_printout import result_lines
from al_ray.apps.matching.cutoff import choose_cutoff
from al_ray.apps.matching.model import match_command, model_of, open_model
from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.serving.known import read_known
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.model_name import ModelName, read_model_name
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.server import plan
from al_ray.apps.serving.store import StoreWriter, make_store
from al_ray.cli import export
from al_ray.cli._evaluate.pipeline import print_other_model
from al_ray.cli._shared import entry
from al_ray.cli._shared.next_steps import next_steps
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_json, write_json
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.matching.test_match_job import do, refused, tables, written
from tests.runs.measured_runs import measure

UNTRAINED = "the untrained encoder's cosine (round 0): AP 70.0% on dev, against 50.0% of round 1"
LAST = "round 1 of 1, as it was asked for"


@pytest.fixture(scope="module", params=[True, False], ids=["one table", "two tables"])
def ran(request, make_task, tmp_path_factory) -> tuple[Path, Task]:
    """A run of one round whose untrained encoder is better; the weights of the round are those, too."""
    task = make_task(request.param, clusters=12, members=4)
    run = run_folder(tmp_path_factory.mktemp("ran"), task, Scorer(20.0, -18.0, 0.1, "fitted"))
    digest = read_json(run / "round-001/record.json", ["model"])["model"]["digest"]
    return measure(run, [0.5], 0.7, encoder=digest), task


def match_line(ran, out: Path) -> str:
    run, task = ran
    return f"--model {run} {tables(task, out / 'tables')} --assign all --at-score -1 --out {out / 'out'}"


def test_match_takes_the_best_model_and_says_why(ran, monkeypatch, capsys, tmp_path):
    do(monkeypatch, match_line(ran, tmp_path))
    assert f"model: {UNTRAINED}" in capsys.readouterr().out
    about = json.loads((tmp_path / "out/match.json").read_text())["model"]
    assert (about["round"], about["choice"]["reason"], about["choice"]["measured"]) == (0, "untrained", "dev")
    found, model = written(tmp_path / "out"), al_ray.load_model(ran[0], round=0)
    rows = list(found.values())
    cosines = model.cosines([row["left_text"] for row in rows], [row["right_text"] for row in rows])
    assert [row["score"] for row in rows] == pytest.approx(cosines.tolist(), abs=1e-6)
    # The same model again, by its number, and new texts by the model of the folder, which keeps why it was chosen.
    do(monkeypatch, f"{match_line(ran, tmp_path)} --round 0")
    assert "the untrained encoder's cosine (round 0), as it was asked for" in capsys.readouterr().out
    assert written(tmp_path / "out") == found
    do(monkeypatch, match_line(ran, tmp_path))
    side = " ".join(f"--{one} {tmp_path}/tables/{one}.csv" for one in ("left", *["right"] * (not ran[1].symmetric)))
    capsys.readouterr()
    do(monkeypatch, f"--into {tmp_path / 'out'} {side}")
    assert f"model: {UNTRAINED}" in capsys.readouterr().out
    about["digest"], damaged = open_model(ran[0]).model.digest, {"choice": {"round": 0}}
    assert model_of(about, tmp_path).choice == open_model(ran[0]).choice
    with pytest.raises(BadFile, match="why its model was chosen cannot be read"):
        model_of(about | damaged, tmp_path)


def test_match_by_the_last_round(ran, monkeypatch, capsys, tmp_path):
    do(monkeypatch, f"{match_line(ran, tmp_path)} --round last")
    assert f"model: {LAST}" in capsys.readouterr().out
    assert json.loads((tmp_path / "out/match.json").read_text())["model"]["round"] == 1


def test_what_does_not_go_together_is_refused(ran, monkeypatch, capsys, tmp_path):
    run, _ = ran
    line = match_line(ran, tmp_path)
    assert "round 2: " in refused(monkeypatch, capsys, f"{line} --round 2")
    folder = line.replace(str(run), f"{run}/round-001/model", 1)
    assert "is one model, and only a run has several; leave --round out" in refused(
        monkeypatch, capsys, f"{folder} --round 0"
    )
    assert "--into has its model; leave out --round" in refused(
        monkeypatch, capsys, f"--into {tmp_path} --left x.csv --round last"
    )
    threshold = refused(monkeypatch, capsys, line.replace("--at-score -1", "--precision 0.9"))
    assert "hands over its untrained encoder, for which no threshold is chosen" in threshold
    boundary = refused(monkeypatch, capsys, line.replace("--at-score -1", "--at-boundary"))
    assert "it is the untrained encoder, fitted to no label; give --at-score S, or --best N" in boundary


def test_a_threshold_of_an_earlier_round_is_chosen_on_that_round(ran):
    model = open_model(ran[0], 1)
    assert model.choice is not None
    options = MatchOptions(left=Path("x"), precision=0.9)
    with pytest.raises(BadOption, match=r"--threshold-for precision=0\.9`, or `al_ray\.estimate_audit"):
        choose_cutoff(options, model, "all")
    earlier = replace(model, choice=replace(model.choice, last=2))
    with pytest.raises(BadOption, match=r"--threshold-for precision=0\.9 --round 1`, or"):
        choose_cutoff(options, earlier, "all")


def test_an_encoder_that_was_exchanged_is_refused(ran, tmp_path):
    run = shutil.copytree(ran[0], tmp_path / "run")
    write_json(run / "untrained.json", {**read_json(run / "untrained.json", []), "encoder": "other"})
    with pytest.raises(BadFile, match="are not those the run made"):
        al_ray.load_model(run)
    assert open_model(run, "last").round == 1


def test_load_model(ran, caplog):
    run, _ = ran
    with caplog.at_level("INFO"):
        model = al_ray.load_model(run)
    assert UNTRAINED in caplog.text
    assert model.choice is not None
    assert (model.choice.round, model.choice.reason) == (0, "untrained")
    last = al_ray.load_run(run).model("last")
    assert last.choice is not None
    assert (last.choice.round, last.boundary) == (1, pytest.approx(0.9))
    # p has the order of the cosines and says of no pair that it matches.
    texts = ["how to swim", "how do i swim", "who was the first king"]
    cosines, p = model.cosines(texts, texts[::-1]), model.score(texts, texts[::-1])
    assert np.argsort(cosines).tolist() == np.argsort(p).tolist()
    assert ((p > 0) & (p < 0.5)).all()
    assert model.calibrated_on is None
    with pytest.raises(BadOption, match="is one model, and only a run has several"):
        al_ray.load_model(run / "round-001/model", round=1)


def test_export(ran, monkeypatch, capsys, tmp_path):
    run, _ = ran
    monkeypatch.setattr(
        sys, "argv", ["export", "--model", str(run), "--format", "sentence-transformers", "--out", str(tmp_path / "a")]
    )
    entry.job(export.main)
    assert f"chosen: {UNTRAINED}" in capsys.readouterr().out
    card = (tmp_path / "a/README.md").read_text()
    assert "A pre-trained bi-encoder as it is: al_ray has not trained it" in card
    assert f"Model: {UNTRAINED}" in card
    assert "70.0%" in card
    for name in ("export.json", "scorer.json"):
        assert json.loads((tmp_path / "a" / name).read_text())["choice"]["round"] == 0
    texts = ["how to swim"], ["how do i swim"]
    exported, model = al_ray.load_model(tmp_path / "a"), al_ray.load_model(run)
    assert exported.cosines(*texts) == pytest.approx(model.cosines(*texts), abs=1e-6)
    assert exported.score(*texts) == pytest.approx(model.score(*texts), abs=1e-6)
    options = al_ray.ExportOptions(format="sentence-transformers")
    assert al_ray.export_model(run, options, tmp_path / "a").record["files"] == sorted(
        path.name for path in (tmp_path / "a").iterdir()
    )
    of_last = al_ray.export_model(run, options, tmp_path / "b", round="last")
    assert f"chosen: {LAST}" in of_last.summary
    assert "trained by al_ray from labelled pairs" in (tmp_path / "b/README.md").read_text()


def test_serve(ran, tmp_path):
    run, _ = ran
    known = tmp_path / "known.csv"
    known.write_text("key,words\nk1,abcd 01\nk2,another one\n")
    options = ServeOptions(
        model=run, known=known, store=tmp_path / "store", text_columns="words", id_column="key", limit=2
    )
    assert any(line.startswith(f"chosen: {UNTRAINED}") for line in plan(options).lines(options))
    last = replace(options, round="last")
    assert f"chosen: {LAST}" in list(plan(last).lines(last))
    model = open_model(options.model, options.round)
    make_store(options.store, *read_known(options, model))
    about = Matcher(options, model).about()
    assert about.choice is not None
    assert (about.round, about.choice.words.startswith(UNTRAINED)) == (0, True)
    # A replica that starts later opens the model that the store names, and knows why it was chosen.
    with closing(StoreWriter(options.store)) as writer:
        writer.use_model(ModelName.of(model))
    assert read_model_name(options.store).open().choice == model.choice
    # A store of an earlier version does not say it.
    content = read_json(options.store / "model.json", [])
    write_json(options.store / "model.json", {"path": content["path"], "round": 1})
    assert read_model_name(options.store) == ModelName(content["path"], 1)
    write_json(options.store / "model.json", content | {"choice": {"round": 1}})
    with pytest.raises(BadFile, match=r"model\.json: its choice cannot be read"):
        read_model_name(options.store)


def test_a_run_and_evaluate_name_another_model_than_the_last(ran, capsys, tmp_path):
    run, task = ran
    print(*result_lines(RunFolder(run, task)), sep="\n")
    printed = capsys.readouterr().out
    assert f"match, serve and export take {UNTRAINED}" in printed
    assert ("best=N" if task.symmetric else "right=FILE") in (match_command(RunFolder(run, task)) or "")
    print_other_model(run)
    assert f"this is round 1; match, serve and export take {UNTRAINED}" in capsys.readouterr().out
    # The last round is the best: nothing is said.
    good = measure(shutil.copytree(run, tmp_path / "good"), [0.9], 0.7)
    print_other_model(good)
    print(*result_lines(RunFolder(good, task)), sep="\n")
    assert "match, serve and export take" not in capsys.readouterr().out
    steps = [step.command for step in next_steps(run.parent) if "jobs.match" in step.command]
    assert [("--best 100" in step) == task.symmetric for step in steps] == [True]
