"""What a run prints about more labels, by figures that are made up."""

import json
from dataclasses import replace

import pytest

from al_ray.api.run_printout import result_lines
from al_ray.core.config.sections import EvaluationConfig
from al_ray.datasets.task_folder import write_task
from al_ray.metrics.more_labels import LABELLED_TEXTS, OTHER_TEXTS, guess_more_labels
from al_ray.runs.more_labels import guess_of_run
from al_ray.runs.run_folder import RunFolder
from tests.apps.reporting.made_runs import CONFIG, made_run

MATCHER = replace(CONFIG, matcher="on")


def run_of(path, task, config=MATCHER, **line):
    """A run whose last line of metrics.jsonl says what is given."""
    write_task(task, path.parent / "task", {})
    config = replace(config, task=str(path.parent / "task"))
    run = made_run(path, task, config, splits=config.evaluation.splits)
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    lines[-1] = {**lines[-1], "labels": 100, "unlabelled": 10**6, "average_precision": 0.8, **line}
    (run / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return run


def test_the_last_round_is_continued_by_the_rule_of_its_split(tmp_path, task, capsys):
    run = run_of(tmp_path / "dev", task, untrained={"average_precision": 0.3, "precision_at_recall_20": 0.5})
    guess = guess_more_labels(100, 0.8, OTHER_TEXTS, 1000, 0.3)
    assert guess_of_run(run) == guess
    print(*result_lines(RunFolder(run, task)), sep="\n")
    assert f"\n{guess.words}\n" in capsys.readouterr().out
    train = replace(MATCHER, evaluation=EvaluationConfig(splits=("train",)))
    assert guess_of_run(run_of(tmp_path / "train", task, train)) == guess_more_labels(100, 0.8, LABELLED_TEXTS, 1000)


def test_no_more_labels_than_there_are_pairs(tmp_path, task):
    found = guess_of_run(run_of(tmp_path / "few", task, unlabelled=50))
    assert found is not None
    assert found.target == 150
    found = guess_of_run(run_of(tmp_path / "many", task, labels=2000))
    assert found is not None
    assert found.target == 20000


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (MATCHER, {"average_precision": None}),
        (replace(MATCHER, evaluation=EvaluationConfig(splits=())), {}),
        (MATCHER, {"labels": 59}),
        (MATCHER, {"unlabelled": 0}),
        # The encoder is trained, with and without a matcher.
        (CONFIG, {}),
        (replace(MATCHER, encoder_every=2), {}),
    ],
)
def test_nothing_is_said_where_the_rule_was_not_checked(tmp_path, task, config, line, capsys):
    run = run_of(tmp_path / "run", task, config, **line)
    assert guess_of_run(run) is None
    print(*result_lines(RunFolder(run, task)), sep="\n")
    assert "guess:" not in capsys.readouterr().out
