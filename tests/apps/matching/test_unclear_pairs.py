"""Pairs that the encoder cannot tell apart: refused, or listed apart, in match, --into and serve."""

import csv
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.known import read_known
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Question
from al_ray.apps.serving.store import make_store
from al_ray.cli import match
from al_ray.cli._shared import entry
from al_ray.core.errors import BadOption
from al_ray.core.vectors import NEARLY_SAME, cosines
from al_ray.encoders.transformer import Encoder
from tests.apps.audit.test_audit_job import run_folder

# random-bert knows ASCII alone: each other word is one unknown token.
KNOWN = [("a", "red ጫማ"), ("b", "red ጃኬት"), ("c", "blue hat"), ("d", "Blue  Hat"), ("e", "blue hat")]
NEW = [("f", "red ድንኳን"), ("g", "blue hat")]
APART = {("a", "b"), ("a", "f"), ("b", "f")}


def write(path: Path, rows: list[tuple[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("key", "words"), *rows])
    return path


def do(monkeypatch, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["match", *shlex.split(line)])
    entry.job(match.main)


def pairs(path: Path) -> set[tuple[str, str]]:
    with path.open(encoding="utf-8") as file:
        return {(row["left_id"], row["right_id"]) for row in csv.DictReader(file)}


def test_they_are_no_matches_in_match_into_and_serve(in_process, make_task, monkeypatch, tmp_path, capsys):
    run = run_folder(tmp_path, make_task(True))
    options = "--text-columns words --id-column key --at-score 1 --no-drift"
    do(monkeypatch, f"--model {run} --left {write(tmp_path / 'known.csv', KNOWN)} {options} --out {tmp_path}/out")
    alike = {("c", "d"), ("c", "e"), ("d", "e")}
    # Texts that are equal, or equal but for case and space, are matches of the cosine 1.
    assert pairs(tmp_path / "out/matches.csv") == alike
    assert pairs(tmp_path / "out/undecided.csv") == {("a", "b")}
    assert json.loads((tmp_path / "out/match.json").read_text())["undecided"] == 1
    assert "the encoder cannot tell apart, which are no matches: 1 (undecided.csv" in capsys.readouterr().out
    do(monkeypatch, f"--into {tmp_path}/out --left {write(tmp_path / 'new.csv', NEW)}")
    assert pairs(tmp_path / "out/matches.csv") == alike | {("c", "g"), ("d", "g"), ("e", "g")}
    assert pairs(tmp_path / "out/undecided.csv") == APART
    # 1 of 1 new tokens is unknown, but as few of all as when all texts are matched at once.
    do(monkeypatch, f"--into {tmp_path}/out --left {write(tmp_path / 'one.csv', [('h', 'ቀይ')])}")
    assert pairs(tmp_path / "out/undecided.csv") == APART
    options = ServeOptions(
        model=run, known=tmp_path / "known.csv", store=tmp_path / "store", text_columns="words", id_column="key",
        at_score=1.0,
    )  # fmt: skip
    model = open_model(run)
    make_store(options.store, *read_known(options, model))
    [answer] = Matcher(options, model).answer([Question(tuple(text for _, text in NEW), 10)])
    assert [[one.id for one in results] for results in answer.found] == [[], ["c", "d", "e"]]
    # With a lower cutoff a match is behind the two that are left out, and is found although one is asked for.
    lower = Matcher(replace(options, at_score=-1.0), model)
    [answer] = lower.answer([Question(("red ድንኳን",), 1)])
    assert next(one.id for one in answer.found[0]) in {"c", "d", "e"}


def test_texts_with_the_same_token_ids_have_the_cosine_1_in_bfloat16_too(in_process, make_task, monkeypatch, tmp_path):
    run = run_folder(tmp_path, make_task(True), layers=4, arithmetic="bf16")
    # The first batch of 64 has the texts a..., which are not padded; in the second one z is padded by the long texts.
    short = [(f"a{number:02}", f"red {chr(0x1200 + 4 * number)}") for number in range(64)]
    known = [
        *short,
        ("z", "red ጫማ"),
        ("zz", f"RED {short[0][1][4:]}"),
        *((f"{n}", "a longer text, 2" * 9) for n in "xy"),
    ]
    table = write(tmp_path / "known.csv", known)
    options = "--text-columns words --id-column key --at-score 0.9999 --no-drift"
    encoder = Encoder.saved(open_model(run).model.path, open_model(run).config.encoding)
    alone, padded = ["red ጫማ"], ["red ጫማ", "a longer text, 2" * 9]
    one, other = (encoder.embed(encoder.tokenise(texts), np.arange(len(texts)))[:1] for texts in (alone, padded))
    cosine = cosines(one, other)[0]
    assert cosine > NEARLY_SAME
    if cosine == 1:
        pytest.skip("this machine rounds the vectors of padded texts as those of others")
    do(monkeypatch, f"--model {run} --left {table} {options} --out {tmp_path}/out")
    # All pairs of 66 texts, less the one of two equal texts, which is a match.
    assert pairs(tmp_path / "out/matches.csv") == {("a00", "zz"), ("x", "y")}
    assert len(pairs(tmp_path / "out/undecided.csv")) == 66 * 65 // 2 - 1
    do(monkeypatch, f"--into {tmp_path}/out --left {write(tmp_path / 'new.csv', NEW)}")
    assert pairs(tmp_path / "out/matches.csv") == {("a00", "zz"), ("x", "y")}
    assert len(pairs(tmp_path / "out/undecided.csv")) == 67 * 66 // 2 - 1
    serving = ServeOptions(
        model=run, known=table, store=tmp_path / "store", text_columns="words", id_column="key", at_score=1.0,
        most_unknown=1.0,
    )  # fmt: skip
    make_store(serving.store, *read_known(serving, open_model(run)))
    [answer] = Matcher(serving, open_model(run)).answer([Question((NEW[0][1], short[0][1]), 3)])
    assert [[(one.id, one.score) for one in results] for results in answer.found] == [
        [], [("a00", 1.0), ("zz", 1.0)],
    ]  # fmt: skip


def test_they_take_the_place_of_no_match(in_process, make_task, monkeypatch, tmp_path):
    run = run_folder(tmp_path, make_task(False))
    left = write(tmp_path / "left.csv", [("l", "red ድንኳን")])
    right = write(tmp_path / "right.csv", [("a", "red ጫማ"), ("b", "red ድንኳን"), ("c", "blue hat")])
    line = f"--model {run} --left {left} --right {right} --text-columns words --id-column key --no-drift --at-score 0.5"
    do(monkeypatch, f"{line} --assign one-to-one --out {tmp_path}/out")
    # Both a and b have the cosine 1 with l; b has its text.
    assert pairs(tmp_path / "out/matches.csv") == {("l", "b")}
    assert pairs(tmp_path / "out/undecided.csv") == {("l", "a")}


def test_texts_of_an_unknown_script_are_refused_before_anything_is_written(
    in_process, make_task, monkeypatch, tmp_path, capsys
):
    run = run_folder(tmp_path, make_task(True))
    table = write(tmp_path / "t.csv", [("a", "ቀይ ጫማ"), ("b", "ሰማያዊ ጃኬት"), ("c", "hat")])
    with pytest.raises(SystemExit) as stop:
        do(
            monkeypatch,
            f"--model {run} --left {table} --text-columns words --id-column key --at-score 1 --out {tmp_path}/o",
        )
    assert stop.value.code == 2
    assert "does not know 57% of the tokens of the texts" in capsys.readouterr().err
    # Nothing is left but the file of the lock.
    assert [path.name for path in (tmp_path / "o").rglob("*")] == [".lock"]
    options = ServeOptions(
        model=run, known=table, store=tmp_path / "store", text_columns="words", id_column="key", at_score=1.0
    )
    model = open_model(run)
    make_store(options.store, *read_known(options, model))
    with pytest.raises(BadOption, match="does not know 57% of the tokens"):
        Matcher(options, model)
