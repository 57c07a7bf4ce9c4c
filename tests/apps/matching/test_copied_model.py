"""A model that was copied out of its run matches as the model of the run does, without labels and without drift."""

import json
import shutil
from pathlib import Path

import pytest

from al_ray.apps.matching.decisions import known_decisions
from al_ray.apps.matching.model import open_model
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.encoders.prompts import Prompts
from al_ray.encoders.transformer import Encoder
from al_ray.storage.uri import storage_path
from al_ray.training.saved_model import saved_encoding, write_model
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.matching.test_match_job import do, scores_by_loops, tables, written


@pytest.fixture(scope="module", params=[True, False], ids=["one table", "two tables"])
def ran(request, make_task, tmp_path_factory) -> tuple[Path, Task]:
    task = make_task(request.param, clusters=12, members=4)
    return run_folder(tmp_path_factory.mktemp("ran"), task), task


def copied(run: Path, to: Path) -> Path:
    return shutil.copytree(run / "round-001" / "model", to)


def test_a_copy_matches_by_the_same_scores_without_labels(ran, in_process, monkeypatch, capsys, tmp_path):
    run, task = ran
    line = f"{tables(task, tmp_path)} --assign all --at-score -1 --out {tmp_path / 'out'}"
    do(monkeypatch, f"--model {copied(run, tmp_path / 'copy')} {line}")
    printed = capsys.readouterr().out
    assert (
        "labels, drift and the conditions of the task (jobs.prepare pairs --same, --different) are left out, as"
        in printed
    )
    found, expected = written(tmp_path / "out"), scores_by_loops(run, task)
    assert set(found) == set(expected)
    assert all(row["score"] == pytest.approx(expected[pair], abs=1e-6) for pair, row in found.items())
    assert {row["decided_by"] for row in found.values()} == {"model"}
    record = json.loads((tmp_path / "out/match.json").read_text())
    assert record["model"]["round"] is None
    assert "drift" not in record
    # The same texts again, into those matches: nothing is new.
    files = " ".join(f"--{side} {tmp_path / side}.csv" for side in ("left", *(["right"] * (not task.symmetric))))
    do(monkeypatch, f"--into {tmp_path / 'out'} {files}")
    assert written(tmp_path / "out") == found


def test_the_model_folder_of_a_round_is_that_of_its_run(ran):
    run, task = ran
    model = open_model(storage_path(str(run / "round-001" / "model")))
    assert (model.path, model.round) == (run.resolve(), 1)
    assert model.task.digest == task.digest


def test_a_copy_has_neither_labels_nor_options_of_tables(ran, tmp_path):
    run, task = ran
    model, whole = open_model(storage_path(str(copied(run, tmp_path / "copy")))), open_model(run)
    space = task.split("train").space
    assert len(known_decisions(whole, task, space).yes)
    decisions = known_decisions(model, task, space)
    assert (len(decisions.yes), len(decisions.no), decisions.changed, decisions.unused) == (0, 0, 0, 0)
    assert model.table_options == {}
    assert model.config.max_length == whole.config.max_length
    assert model.model.scorer == whole.model.scorer


@pytest.mark.parametrize(
    ("left", "right", "options"),
    [
        ("", "", (None, None)),
        ("a: ", "a: ", ("query", None)),
        ("a: ", "b: ", ("query", "document")),
        ("", "b", ("query", "document")),
        ("a", "", ("query", "document")),
    ],
)
def test_a_copy_has_the_prompts_of_its_files(letters: EncoderConfig, tmp_path, left, right, options):
    encoder = Encoder.base(letters)
    encoder.prompts = Prompts(left, right)
    write_model(encoder, Scorer(9.0, -8.0, 0.1, "fitted"), tmp_path / "model", "nothing")
    encoding = saved_encoding(tmp_path / "model")
    assert (encoding.prompt_left, encoding.prompt_right) == options
    assert encoding.max_length == letters.max_length
    # Tokens are those of the encoder as it was trained, whether it is loaded as a model or as an encoder to start from.
    for loaded in (Encoder.saved(str(tmp_path / "model"), encoding), Encoder.base(encoding)):
        assert (loaded.prompts.left, loaded.prompts.right) == (left, right)
