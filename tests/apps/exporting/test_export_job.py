"""jobs.export: ONNX graphs against torch and against counts by loops; folders that are kept, replaced and refused."""

import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import al_ray
from al_ray.apps.exporting import check, session
from al_ray.apps.exporting.facts import Facts
from al_ray.apps.exporting.options import ExportOptions
from al_ray.apps.exporting.pipeline import export_digest
from al_ray.apps.exporting.session import BATCH, OnnxEncoder
from al_ray.cli import export
from al_ray.cli._shared import entry
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.encoders.prompts import Prompts
from al_ray.metrics.average_precision import average_precision, count_scores
from al_ray.storage.files import write_json
from tests.apps.audit.test_audit_job import run_folder

# Of one letter, of more tokens than are read, and lengths between.
TEXTS = ["a", "how to swim", "x y z " * 30, "the first king of the north", "ab"]


@pytest.fixture(scope="module", params=[True, False], ids=["one table", "two tables"])
def ran(request, make_task, tmp_path_factory) -> tuple[Path, Task]:
    """A run; of two tables its score is the neighbourhood score."""
    task = make_task(request.param, clusters=12, members=4)
    scorer = Scorer(20.0, -18.0, 0.1, "fitted", 0.0 if request.param else 0.5)
    return run_folder(tmp_path_factory.mktemp("ran"), task, scorer), task


@pytest.fixture(scope="module")
def onnx(ran) -> Path:
    """An ONNX export with int8."""
    run, _ = ran
    options = al_ray.ExportOptions(format="onnx", int8=True)
    return al_ray.export_model(run, options, run.parent / "onnx").path


def do(monkeypatch, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["export", *shlex.split(line)])
    entry.job(export.main)


def refused(monkeypatch, capsys, line: str) -> str:
    with pytest.raises(SystemExit) as stop:
        do(monkeypatch, line)
    assert stop.value.code == 2
    return capsys.readouterr().err


def of_run(path: Path) -> dict:
    """The content of an exported scorer.json that is of the run's model: without why it was chosen."""
    content = json.loads(path.read_text())
    assert content.pop("choice")["reason"] == "uncompared"
    return content


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def record_of(folder: Path) -> dict:
    return json.loads((folder / "export.json").read_text())


def test_a_graph_gives_the_vectors_of_torch_at_any_length_and_number_of_texts(ran, onnx):
    model, exported = al_ray.load_model(ran[0]), OnnxEncoder(onnx / "model.onnx", Prompts(), 1)
    expected = model.encode(TEXTS)
    for batch in (1, 2, 5):
        assert exported.encode(TEXTS, batch=batch) == pytest.approx(expected, abs=1e-6)
    about = record_of(onnx)
    assert 0 < about["check"]["largest_component"] < 1e-5
    assert 0 < about["check"]["largest_cosine"] < 1e-5
    assert about["check"]["texts"] == (32 if ran[1].symmetric else 16 + 24)
    assert (about["max_length"], about["dimension"], about["prompts"]) == (24, 32, {"left": "", "right": ""})


def test_the_cost_of_int8_is_that_of_a_sort_of_all_pairs_of_dev(ran, onnx):
    _, task = ran
    split, cost, found = task.split("dev"), record_of(onnx)["int8"], {}
    space = split.space
    pairs = space.pairs(np.sort(space.at(np.arange(space.total))))
    match = np.isin(space.keys(pairs), split.positive_keys)
    for name, graph in (("fp32", "model.onnx"), ("int8", "model-int8.onnx")):
        encoder = OnnxEncoder(onnx / graph, Prompts(), 1)
        left, right = (
            # An int8 vector depends on its batch.
            encoder.encode([corpus.texts[row] for row in rows], batch=7 if name == "fp32" else BATCH)
            for corpus, rows in ((task.left, space.left), (task.right, space.right))
        )
        cosines = left.astype(np.float64) @ right.T.astype(np.float64)
        nearest = np.sort(cosines, axis=1)[:, -5:].mean(axis=1, keepdims=True)
        values = cosines - (0.0 if task.symmetric else 0.5) * nearest
        scores = values[np.searchsorted(space.left, pairs[:, 0]), np.searchsorted(space.right, pairs[:, 1])]
        found[name] = average_precision(count_scores(scores[match], [scores[~match]]), np.ones(1))
        assert cost[f"average_precision_{name}"] == pytest.approx(found[name], abs=1e-9)
    assert cost["pairs"] == space.total
    assert cost["bytes"] < record_of(onnx)["bytes"] / 2


def test_the_same_export_again_changes_nothing_and_a_new_threshold_replaces_it(ran, tmp_path, monkeypatch, capsys):
    run = shutil.copytree(ran[0].parent, tmp_path / "root") / "run"
    line = f"--model {run} --format sentence-transformers --out {tmp_path / 'out'}"
    do(monkeypatch, line)
    before, made = files(tmp_path / "out"), (tmp_path / "out").stat().st_ino
    assert "already holds this export" not in capsys.readouterr().out
    do(monkeypatch, line)
    assert "out already holds this export" in capsys.readouterr().out
    assert (files(tmp_path / "out"), (tmp_path / "out").stat().st_ino) == (before, made)
    scorer = run / "round-001/model/scorer.json"
    threshold = {"rule": "precision=0.9", "cosine": 0.91, "precision": None, "recall": None, "split": "dev"}
    write_json(scorer, {**json.loads(scorer.read_text()), "thresholds": [threshold]})
    do(monkeypatch, line)
    assert of_run(tmp_path / "out/scorer.json") == json.loads(scorer.read_text())
    assert "| precision=0.9 | 0.910000 |" in (tmp_path / "out/README.md").read_text()


def test_what_lies_beside_an_export_is_never_deleted_and_what_it_lacks_is_made_again(
    ran, tmp_path, monkeypatch, capsys
):
    release, run = tmp_path / "release", ran[0]
    release.mkdir()
    (tmp_path / "current").symlink_to(release)
    line = f"--model {run} --format sentence-transformers --out {tmp_path / 'current'}"
    do(monkeypatch, line)
    assert (tmp_path / "current").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "release"]
    before = files(release)
    (release / "model.safetensors").unlink()
    capsys.readouterr()
    do(monkeypatch, line)
    assert "already holds this export" not in capsys.readouterr().out
    assert files(release) == before
    (release / "LICENSE").write_text("mine")
    error = refused(monkeypatch, capsys, f"{line} --licence mit")
    assert "release is an export, with LICENSE beside it; move that away, or choose another --out" in error
    (release / "LICENSE").unlink()
    do(monkeypatch, f"{line} --licence mit")
    assert record_of(release)["licence"] == "mit"
    for damage in (5, [5], ["../release"]):
        write_json(release / "export.json", {**record_of(release), "files": damage})
        assert "export.json has " in refused(monkeypatch, capsys, line)


def test_a_folder_of_sentence_transformers_has_the_vectors_of_the_run(ran, tmp_path, monkeypatch):
    do(monkeypatch, f"--model {ran[0]} --format sentence-transformers --out {tmp_path / 'out'}")
    vectors = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS, show_progress_bar=False)
    assert vectors == pytest.approx(al_ray.load_model(ran[0]).encode(TEXTS), abs=1e-6)
    assert of_run(tmp_path / "out/scorer.json") == json.loads((ran[0] / "round-001/model/scorer.json").read_text())


def test_a_graph_that_differs_is_refused_and_nothing_is_left(ran, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check, "LIMIT", 0.0)
    error = refused(monkeypatch, capsys, f"--model {ran[0]} --format onnx --out {tmp_path / 'out'}")
    assert "differs from torch by" in error
    assert "give --format sentence-transformers" in error
    assert not list(tmp_path.iterdir())


def test_not_a_number_is_a_difference():
    with pytest.raises(al_ray.AlRayError, match="differs from torch by nan"):
        check.Differences(1, "of a file", float("nan"), 0.0).check("a model")


def test_an_export_of_another_model_or_format_is_not_replaced(ran, onnx, make_task, tmp_path, monkeypatch, capsys):
    before = files(onnx)
    error = refused(monkeypatch, capsys, f"--model {ran[0]} --format sentence-transformers --out {onnx}")
    assert "holds an export with --format onnx; choose another --out" in error
    write_json(tmp_path / "export.json", {"format": "onnx", "digest": "x", "made_from": "y"})
    error = refused(monkeypatch, capsys, f"--model {ran[0]} --format onnx --out {tmp_path}")
    assert "holds an export of another model; choose another --out" in error
    assert files(onnx) == before


def test_a_model_folder_is_not_exported_into_itself(ran, monkeypatch, capsys):
    model = ran[0] / "round-001/model"
    error = refused(monkeypatch, capsys, f"--model {model} --format sentence-transformers --out {model / 'out'}")
    assert "lies in the model folder" in error
    assert not (model / "out").exists()


def test_a_missing_package_is_named_with_what_installs_it(ran, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(session, "PACKAGES", ("onnx", "a_package_that_is_not_there"))
    error = refused(monkeypatch, capsys, f"--model {ran[0]} --format onnx --out {tmp_path / 'out'}")
    assert "needs the package a_package_that_is_not_there, which is not installed: pip install 'al-ray[onnx]'" in error


def test_a_copied_model_is_checked_on_made_texts_and_needs_its_run_for_int8(ran, tmp_path, monkeypatch, capsys):
    copy = shutil.copytree(ran[0] / "round-001/model", tmp_path / "copy")
    error = refused(monkeypatch, capsys, f"--model {copy} --format onnx --int8 --out {tmp_path / 'out'}")
    assert "--int8 is measured on dev, and" in error
    assert "give --model RUN, or leave out --int8" in error
    do(monkeypatch, f"--model {copy} --format onnx --out {tmp_path / 'out'}")
    assert "on 1,000 texts (made of the vocabulary)" in capsys.readouterr().out
    assert record_of(tmp_path / "out")["round"] is None
    # The digest is that of the run's model: an export of either is replaced by one of the other.
    assert record_of(tmp_path / "out")["digest"] == al_ray.load_run(ran[0]).folder.model(1).digest


def test_texts_are_those_of_the_file(tmp_path, ran):
    (tmp_path / "texts.txt").write_text("how to swim\n\n  \nwho is king\n", encoding="utf-8")
    (tmp_path / "many.txt").write_text("a b\n" * 1001, encoding="utf-8")
    texts = [
        check.read_check_texts(tmp_path / name, None, None).sides["left"]  # pyright: ignore[reportArgumentType]
        for name in ("texts.txt", "many.txt")
    ]
    assert texts[0] == ["how to swim", "who is king"]
    assert len(texts[1]) == 1000


def test_other_texts_under_the_same_name_make_another_export(tmp_path):
    file, facts = tmp_path / "texts.txt", Facts("digest", {})
    options, digests = ExportOptions(format="onnx", texts=file), list[str]()
    for content in ("how to swim\n", "who is king\n", "how to swim\n\n"):
        file.write_text(content, encoding="utf-8")
        digests.append(export_digest(options, facts))
    assert digests[0] == digests[2] != digests[1]


def test_texts_of_the_train_split_are_at_most_a_thousand_of_both_sides(make_task):
    for symmetric in (True, False):
        task = make_task(symmetric, clusters=900, members=4)
        model = type("Model", (), {"run": True, "task": task})()
        found = check.read_check_texts(None, model, None)  # pyright: ignore[reportArgumentType]
        space = task.split("train").space
        sides = {"left": (task.left, space.left), "right": (task.right, space.right)}
        for side, texts in found.sides.items():
            corpus, rows = sides[side]
            assert set(texts) <= {corpus.texts[row] for row in rows}
        assert (len(found), len(found.sides)) == (1000, 1 if symmetric else 2)
