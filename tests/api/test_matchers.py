"""A model folder with a matcher that was copied out of its run scores records as `match` does, to the bit."""

import csv
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import al_ray
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.errors import BadFile, BadOption

WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "larch")
COUNT, SAME = 36, 10


def record(row: int, change: bool) -> dict[str, str | None]:
    name = f"{WORDS[row % 12]} {WORDS[(row * 5 + row // 12) % 12]} lamp" + " new" * change
    return {"name": name, "price": None if row % 7 == 0 else str(10 + 7 * row + (change and row % 4 == 0))}


def write_table(path: Path, rows: list[dict[str, str | None]], prefix: str) -> Path:
    with path.open("w", newline="") as file:
        lines = [(f"{prefix}{number:02}", row["name"], row["price"] or "") for number, row in enumerate(rows)]
        csv.writer(file).writerows([("id", "name", "price"), *lines])
    return path


@pytest.fixture(scope="module", params=["two tables", "one table"])
def ran(request, in_process, tmp_path_factory) -> SimpleNamespace:
    """A run with a matcher, a copy of its model, and records of which it saw half."""
    root, symmetric = tmp_path_factory.mktemp("matchers"), request.param == "one table"
    rows, changed = ([record(row, change) for row in range(COUNT)] for change in (False, True))
    left = [one for pair in zip(rows, changed, strict=True) for one in pair][:COUNT] if symmetric else rows
    if symmetric:
        # A group of equal texts, all of whose pairs are candidates.
        left[:SAME] = [record(0, False)] * SAME
    labels = [(f"l{row:02}", f"l{row + 1:02}" if symmetric else f"r{row:02}", 1) for row in range(0, COUNT, 2)]
    with (root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("l", "r", "same"), *labels])
    right = None if symmetric else write_table(root / "right.csv", changed, "r")
    texts = al_ray.OwnTexts(
        left=write_table(root / "left.csv", left, "l"), right=right, labels=root / "labels.csv",
        label_columns="l,r,same", labels_are="complete", split="1,0,0", id_column="id", text_columns="name,price",
    )  # fmt: skip
    al_ray.prepare(texts, root / "task")
    config = al_ray.RunConfig(
        task=str(root / "task"), rounds=2, first_batch=20, growth=1, encoder="random-bert", encoder_layers=1,
        max_length=24, encoder_batch=8, threads=1, matcher="on", evaluation=al_ray.EvaluationConfig(splits=()),
        candidates=CandidatesConfig(cosine=6, trigrams=5, of_right=5),
    )  # fmt: skip
    run = al_ray.run(config, root / "run")
    copy = shutil.copytree(root / "run/round-002/model", root / "copy")
    return SimpleNamespace(root=root, run=run, copy=copy, left=left, right=None if symmetric else changed)


def matched(ran: SimpleNamespace, model: Path, out: Path, shards: int, half: bool) -> dict[tuple[str, str], float]:
    """p of all pairs with one, by a match of the first tables, or of half of them."""
    out.mkdir(parents=True)
    rows = slice(None, COUNT // 2) if half else slice(None)
    right = None if ran.right is None else write_table(out / "right.csv", ran.right[rows], "r")
    options = al_ray.MatchOptions(
        left=write_table(out / "left.csv", ran.left[rows], "l"), right=right, id_column="id", text_columns="name,price",
        assign="all", at_score=0.0,
    )  # fmt: skip
    found = al_ray.match(model, options, out / "matches", cluster=ClusterConfig(shards=shards, timeout=600))
    return {(row["left_id"], row["right_id"]): row["score"] for row in found.matches().to_pylist()}


def scored(ran: SimpleNamespace, half: bool) -> dict[tuple[str, str], float]:
    """The same by a loaded matcher."""
    rows, prefix = slice(None, COUNT // 2) if half else slice(None), "l" if ran.right is None else "r"
    scores = al_ray.load_matcher(ran.copy).score(ran.left[rows], None if ran.right is None else ran.right[rows])
    ids = [(f"l{left:02}", f"{prefix}{right:02}") for left, right in scores.pairs.tolist()]
    return dict(zip(ids, scores.p.tolist(), strict=True))


@pytest.mark.parametrize("half", [False, True], ids=["all", "half"])
def test_a_loaded_copy_scores_as_match_by_the_copy_to_the_bit(ran, tmp_path, half):
    found = matched(ran, ran.copy, tmp_path / "copy", 2, half)
    assert len(found) > COUNT
    assert len(set(found.values())) > COUNT / 2
    assert scored(ran, half) == found
    if ran.right is None:
        assert {(f"l{row:02}", f"l{SAME - 1:02}") for row in range(SAME - 1)} <= set(found)


def test_a_copy_matches_as_its_run_but_for_labels(ran, tmp_path):
    by_run = matched(ran, ran.run.path, tmp_path / "run", 1, True)
    by_copy = matched(ran, ran.copy, tmp_path / "copy", 1, True)
    assert set(by_run) & set(by_copy)
    assert all(by_copy.get(pair, 0.0) == score for pair, score in by_run.items())


def test_a_matcher_says_its_fields_and_comparisons(ran):
    model = al_ray.load_matcher(ran.run.path)
    assert [(field.name, field.type) for field in model.fields[0]] == [("name", "name"), ("price", "number")]
    assert "price: relative difference" in model.comparisons
    scores = model.score(ran.left, ran.right)
    assert scores.features.shape == (len(scores.p), len(model.comparisons))
    assert ((scores.p >= 0) & (scores.p <= 1)).all()
    assert (np.diff(scores.pairs[:, 0]) >= 0).all()


def test_records_that_do_not_fit_are_refused(ran):
    model = al_ray.load_matcher(ran.copy)
    right = ran.right
    with pytest.raises(BadOption, match="'price' is lacking, or no field; the fields are name, price"):
        model.score([{"name": "lamp"}], right)
    with pytest.raises(BadOption, match="left record 0: 'colour' is lacking, or no field"):
        model.score([{"name": "lamp", "price": "1", "colour": "red"}], right)
    with pytest.raises(BadOption, match="left record 0 has 5 as price; give a string, or None"):
        model.score([{"name": "lamp", "price": 5}], right)  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadOption, match="left record 1 is 'lamp'; give a dict of name, price"):
        model.score([ran.left[0], "lamp"], right)
    with pytest.raises(BadOption, match=r"this matcher was trained within (one|two) table"):
        model.score(ran.left, ran.left if right is None else None)


@pytest.mark.parametrize("remove", ["reference", "encoder", "records.safetensors", "matcher.safetensors"])
def test_a_copy_that_is_not_whole_is_refused(ran, tmp_path, remove):
    copy = shutil.copytree(ran.copy, tmp_path / "copy")
    if remove.endswith("s"):
        (copy / remove).unlink()
        with pytest.raises(BadFile, match=rf"{remove} cannot be read as .* restore it, or train"):
            al_ray.load_matcher(copy)
        return
    content = json.loads((copy / "scorer.json").read_text())
    if remove == "reference":
        # As earlier versions wrote it.
        for name in ("reference", "encoding", "candidates"):
            del content[name]
    else:
        content["encoder"] = "0" * 64
    (copy / "scorer.json").write_text(json.dumps(content))
    error, message = {
        "reference": (BadOption, "has a matcher of an earlier al_ray, which works in its run alone"),
        "encoder": (BadFile, "random-bert"),
    }[remove]
    with pytest.raises(error, match=message):
        al_ray.load_matcher(copy)
