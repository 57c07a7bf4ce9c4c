"""The record of guesses on tasks left out, by curves that are made up."""

import json
from dataclasses import replace

import pytest

from al_ray.core.errors import BadOption
from al_ray.storage.files import read_json, write_json
from benchmarks.more_labels import Guess, format_guesses
from tests.apps.reporting.made_runs import CONFIG, made_run
from tests.runs.measured_runs import evaluation


def run_of(path, task, name, values, split="dev"):
    """A run of the task `name` with these average precisions on a split, of 10, 100 and 1,000 labels."""
    run = made_run(path, task, replace(CONFIG, task=f"tasks/{name}"))
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    for line, labels, value in zip(lines, (10, 100, 1000), values, strict=True):
        line["labels"] = labels
        record = run / f"round-{line['round']:03d}" / "record.json"
        content = read_json(record, ["evaluations"])
        write_json(record, {**content, "evaluations": {split: evaluation(value, 0.0)}})
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


@pytest.fixture
def runs(tmp_path, task):
    """One task halves what is missing with every ten times the labels; the other leaves 0.8 of it."""
    one = run_of(tmp_path / "one", task, "one", (0.5, 0.75, 0.875))
    return one, run_of(tmp_path / "other", task, "other", (0.5, 0.6, 0.68))


def test_each_task_is_guessed_by_the_rule_of_the_other(runs):
    results = Guess(runs=runs, labels=(100,), targets=(1000,)).results()
    # b is log10(2) = 0.30103 and log10(1.25) = 0.09691.
    found = results["dev, test"]
    assert (found["usual"], found["most"]) == pytest.approx(((0.30103 + 0.09691) / 2, 2 * 0.30103))
    one, other = found["rows"]
    # 0.25 is missing, and 0.2 by the rule of the other task, that is AP 0.8, at most 0.25 / 1.25**2 = 0.16: missed.
    # The gain of the other is 0.08, and 0.75 goes on by 0.25 to 1.
    assert one == pytest.approx({
        "task": "one", "labels": 100, "target": 1000, "guesses": 1, "as now": 0.125, "mean gain": 0.045,
        "continuing": 0.125, "rule": 0.075, "right": 0, "width": 0.25 - 0.25 / 1.25**2,
    })  # fmt: skip
    # Of 0.4, half is left by the rule, that is AP 0.8 where it is 0.68; at most 0.4 / 2**2 is left: in the range.
    assert other["rule"], other["right"] == (pytest.approx(0.12), 1)
    assert (other["continuing"], other["mean gain"]) == pytest.approx((0.02, 0.045))
    assert (found["right"], found["guesses"]) == (1, 2)
    assert found["mean of tasks"]["as now"] == pytest.approx((0.125 + 0.08) / 2)
    lines = format_guesses(results).splitlines()
    assert lines[0] == "dev, test: b usually 0.199, at most 0.602; right for 1 of 2 guesses on tasks left out"
    assert lines[2].split() == ["one", "100", "1,000", "1", "12.5", "4.5", "12.5", "7.5", "0.0", "9.0"]
    # Widths of 0.09 and 0.3, and one of two is right.
    assert lines[4].split()[-2:] == ["50.0", "19.5"]


def test_labels_that_brought_nothing_are_guessed_by_what_there_is(tmp_path, task, runs):
    below = run_of(tmp_path / "below", task, "below", (0.4, 0.5, 0.55))
    write_json(below / "untrained.json", {"encoder": "e", "evaluations": {"dev": evaluation(0.5, 0.0)}})
    given = {"labels": (100,), "targets": (1000,)}
    found = Guess(runs=(*runs, below), **given).results()["dev, test"]
    # The rule was not fitted on it, and its guess is what there is.
    assert (found["usual"], found["most"]) == pytest.approx(((0.30103 + 0.09691) / 2, 2 * 0.30103))
    (row,) = [one for one in found["rows"] if one["task"] == "below"]
    assert (row["rule"], row["right"], row["width"]) == pytest.approx((0.05, 1, 0.5 - 0.5 / 4))
    with pytest.raises(BadOption, match="tasks whose labels brought nothing"):
        Guess(runs=(runs[0], below), **given).results()


def test_what_has_nothing_to_guess_is_left_out(tmp_path, task, runs):
    top = run_of(tmp_path / "top", task, "top", (1.0, 1.0, 1.0))
    stretches = {"labels": (10, 100, 1000, 7), "targets": (100, 1000)}
    rows = Guess(runs=(*runs, top), **stretches).results()["dev, test"]["rows"]
    assert [(one["task"], one["labels"], one["target"]) for one in rows] == [
        (name, *stretch) for name in ("one", "other") for stretch in ((10, 100), (10, 1000), (100, 1000))
    ]


def test_curves_of_one_task_are_refused(tmp_path, task, runs):
    train = run_of(tmp_path / "train", task, "other", (0.5, 0.6, 0.7), "train")
    for given in ({"runs": runs, "tasks": ("one", "one")}, {"runs": (runs[0], train)}, {"runs": runs, "labels": (7,)}):
        with pytest.raises(BadOption, match="no curves of two tasks or more"):
            Guess(**{"labels": (10,), **given}).results()
    with pytest.raises(BadOption, match="names 1 tasks for 2 of --runs"):
        Guess(runs=runs, tasks=("one",)).results()
