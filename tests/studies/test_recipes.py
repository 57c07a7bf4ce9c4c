"""The comparison of recipes: its folds share no stated pair, its labels and its AP are those of slow twins."""

import csv
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.pairs import as_pairs
from al_ray.core.task import Corpus, Split, Task
from al_ray.datasets.task_folder import sealed, write_task
from al_ray.encoders.encoder import embed_rows
from benchmarks.row_file import read_rows
from studies import __main__ as studies
from studies.recipes import CHOICES, COLUMNS, Recipes, Trial, format_rows

BLOCKS, SIZE = 12, 3
COMMON = {"encoder": "random-bert", "encoder_layers": 1, "max_length": 24, "labels": 20, "threads": 1}
FAST = TrainingConfig(epochs=1, batch=8, learning_rate=1e-3)


def blocks_task(symmetric: bool) -> Task:
    """Blocks of three texts (or of one left text and three right ones): a match, and pairs that are stated as none."""
    words = np.random.default_rng(0).choice(list("abcdefgh"), (BLOCKS, SIZE, 6))
    texts = tuple("".join(word) for block in words for word in block)
    corpus = Corpus(tuple(f"t{row}" for row in range(len(texts))), texts)
    starts = SIZE * np.arange(BLOCKS)
    if symmetric:
        left, positives = corpus, as_pairs(starts, starts + 1)
        negatives = as_pairs(np.repeat(starts, 2) + np.tile([0, 1], BLOCKS), np.repeat(starts, 2) + 2)
    else:
        left = Corpus(tuple(f"q{row}" for row in range(BLOCKS)), tuple(text[::-1] for text in texts[::SIZE]))
        positives = as_pairs(np.arange(BLOCKS), starts)
        negatives = as_pairs(np.repeat(np.arange(BLOCKS), 2), np.repeat(starts, 2) + np.tile([1, 2], BLOCKS))
    rows = [np.arange(len(left)), np.arange(len(corpus))]
    task = Task("blocks", symmetric, left, corpus, {}, "")
    split = Split("train", task.space(*rows), positives, negatives)
    return sealed("blocks", symmetric, left, corpus, {"train": split})


@pytest.fixture(params=[True, False], ids=["symmetric", "two-sided"])
def blocks(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Task, Path]:
    """The task and its folder."""
    task = blocks_task(request.param)
    write_task(task, tmp_path / "task", {})
    return task, tmp_path / "task"


def test_all_texts_of_stated_pairs_are_in_one_of_three_folds(blocks):
    task, folder = blocks
    left, right = Trial(Recipes(folder, **COMMON)).folds
    split = task.split("train")
    for pairs in (split.positives, split.stated_negatives):
        assert (left[pairs[:, 0]] == right[pairs[:, 1]]).all()
    assert [int((right == fold).sum()) for fold in (-1, 0, 1, 2)] == [0, 12, 12, 12]


def test_the_labelled_pairs_are_the_nearest_outside_the_fold(blocks):
    task, folder = blocks
    trial = Trial(Recipes(folder, **COMMON))
    pairs, labels = trial.labelled(4)
    encoder = trial._untrained()
    sides = [embed_rows(encoder, tokens, np.arange(len(tokens))) for tokens in trial.tokens]
    folds = trial.folds
    cosines = {
        (one, other): float(sides[0][one] @ sides[1][other])
        for one in np.flatnonzero(folds[0] != 1).tolist()
        for other in np.flatnonzero(folds[1] != 1).tolist()
        if one < other or not task.symmetric
    }
    nearest = sorted(cosines, key=lambda pair: -cosines[pair])[:20]
    assert sorted(map(tuple, pairs.tolist())) == sorted(nearest)
    known = set(map(tuple, task.split("train").positives.tolist()))
    assert labels.tolist() == [int(tuple(pair) in known) for pair in pairs.tolist()]
    assert 0 < labels.sum() < 20


def test_ap_is_that_of_a_loop_over_the_pairs_of_the_fold(blocks):
    task, folder = blocks
    trial = Trial(Recipes(folder, **COMMON))
    encoder = trial._untrained()
    left, right = (embed_rows(encoder, tokens, np.arange(len(tokens))).astype(np.float64) for tokens in trial.tokens)
    known = set(map(tuple, task.split("train").positives.tolist()))
    held = [np.flatnonzero(folds == 2).tolist() for folds in trial.folds]
    found = dict(trial._measured(encoder, 2))
    assert list(found) == list(CHOICES[:1] if task.symmetric else CHOICES)
    for choice, value in found.items():
        scores = {
            (one, other): left[one] @ right[other] - choice * np.mean(sorted(right[held[1]] @ left[one])[-5:])
            for one in held[0]
            for other in held[1]
            if one < other or not task.symmetric
        }
        ranked = sorted(scores, key=lambda pair: -scores[pair])
        precisions = [
            sum(pair in known for pair in ranked[: rank + 1]) / (rank + 1)
            for rank, pair in enumerate(ranked)
            if pair in known
        ]
        assert value == pytest.approx(np.mean(precisions))


def test_only_a_part_of_a_task_of_one_set_is_drawn(tmp_path):
    write_task(blocks_task(True), tmp_path, {})
    options = Recipes(tmp_path, **COMMON)
    object.__setattr__(options, "texts", 20)
    left, right = Trial(options).folds
    # Whole blocks of three: six of them have 18 texts, and a seventh would be beyond 20.
    assert left is right
    assert (left >= 0).sum() == 18
    assert all(len(set(block)) == 1 for block in left.reshape(BLOCKS, SIZE).tolist())


def test_lines_that_are_there_are_not_computed_again(tmp_path, monkeypatch, capsys):
    write_task(blocks_task(False), tmp_path / "task", {})
    line = ["recipes", "--task", str(tmp_path / "task"), "--out", str(tmp_path / "made.csv"), "--seeds", "0", "1"]
    line += ["--cache", str(tmp_path / "vectors.npz"), "--threads", "1", "--labels", "20", "--encoder", "random-bert"]
    line += ["--encoder-layers", "1", "--max-length", "24", "--training.batch", "8", "--training.epochs", "1"]
    monkeypatch.setattr(sys, "argv", ["studies", *line])
    studies.main()
    printed, made = capsys.readouterr().out, (tmp_path / "made.csv").read_text()
    rows = list(csv.DictReader(made.splitlines()))
    assert [(row["recipe"], row["seed"]) for row in rows] == [("trial", "0"), ("trial", "1")]
    assert all(0 <= float(row[f"a={choice:g}"]) <= 100 for row in rows for choice in CHOICES)
    monkeypatch.setattr(Trial, "run", lambda self, seed: pytest.fail("computed again"))
    studies.main()
    assert (capsys.readouterr().out, (tmp_path / "made.csv").read_text()) == (printed, made)
    same = Recipes(
        tmp_path / "task", seeds=(0,), out=tmp_path / "made.csv", training=TrainingConfig(batch=8, epochs=1), **COMMON
    )
    assert [row["seed"] for row in same.results()] == ["0"]
    others = {"name": "other"}, {"training": TrainingConfig(batch=8, epochs=2)}, {"max_length": 12}
    for changed in others:
        with pytest.raises(pytest.fail.Exception):
            replace(same, **changed).results()


def test_vectors_of_other_texts_and_too_many_labels_are_refused(tmp_path):
    write_task(blocks_task(True), tmp_path / "task", {})
    options = Recipes(tmp_path / "task", cache=tmp_path / "v.npz", **COMMON)
    Trial(options).labelled(0)
    with pytest.raises(BadFile, match="another task, encoder or --threads, or of another benchmark; give"):
        Trial(replace(options, texts=200)).labelled(0)
    with pytest.raises(BadOption, match="--labels is 600; give at most 276, all pairs outside a fold"):
        Trial(replace(options, labels=600)).labelled(0)


def test_a_file_can_have_lines_of_tasks_of_one_and_of_two_sets(tmp_path):
    out = tmp_path / "new" / "made.csv"
    for symmetric in (True, False):
        folder = tmp_path / str(symmetric)
        write_task(blocks_task(symmetric), folder, {})
        (row,) = Recipes(folder, seeds=(0,), out=out, training=FAST, **COMMON).results()
        assert (row["a=0.5"] == "") == symmetric
    rows = read_rows(out, COLUMNS)
    assert len(rows) == 2
    assert len(format_rows(rows).splitlines()) == 3
    out.write_text("other,columns\n1,2\n")
    with pytest.raises(BadFile, match="other columns than this version of the benchmark writes; give another --out"):
        Recipes(folder, out=out, **COMMON).results()


def test_the_same_seed_gives_the_same_line(tmp_path):
    write_task(blocks_task(False), tmp_path, {})
    first, again = (Trial(Recipes(tmp_path, training=FAST, **COMMON)).run(0) for _ in range(2))
    assert {**first, "seconds": ""} == {**again, "seconds": ""}
