"""--recipe gives the defaults of training and scoring, and nothing else."""

from dataclasses import replace

import pytest

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.cli import grid, run, train
from al_ray.cli._shared.recipe import recipe_defaults
from al_ray.core.config.recipes import RECIPES, TUNED
from al_ray.core.errors import BadOption
from al_ray.runs.run_folder import RunFolder

NEEDED = ["--task", "task", "--out", "out"]
TRAIN = [*NEEDED, "--labels", "stated", "--model", "cosine"]


def test_the_recipe_of_the_paper_is_what_a_run_does_without_one():
    plain = RunConfig(task="task")
    assert al_ray.recipe("paper") == {"training": plain.training, "scoring": plain.scoring}
    assert run.parse_arguments(NEEDED).run == run.parse_arguments([*NEEDED, "--recipe", "paper"]).run == plain


@pytest.mark.parametrize("name", RECIPES)
def test_a_program_gets_what_the_command_line_gets(name):
    config = RunConfig(task="task", **al_ray.recipe(name))
    for parse in (run.parse_arguments, grid.parse_arguments):
        asked = parse([*NEEDED, "--recipe", name]).run
        assert (asked.training, asked.scoring, asked.matcher) == (config.training, config.scoring, config.matcher)
    if config.matcher == "on":
        with pytest.raises(BadOption, match=r"--recipe records trains no encoder; give it to jobs.run"):
            train.parse_arguments([*TRAIN, f"--recipe={name}"])
    else:
        assert train.parse_arguments([*TRAIN, f"--recipe={name}"]).config.training == config.training


def test_an_option_overrides_its_value_in_the_recipe_and_no_other():
    asked = run.parse_arguments([*NEEDED, "--training.epochs", "7", "--recipe", "tuned"]).run
    assert asked.training == replace(TUNED["training"], epochs=7)
    assert asked.scoring == TUNED["scoring"]
    asked = run.parse_arguments([*NEEDED, "--recipe", "tuned", "--scoring.neighbourhood", "off"]).run
    assert (asked.training, asked.scoring.weight) == (TUNED["training"], 0)


@pytest.mark.parametrize("loss", ["momentum", "in-batch-softmax"])
def test_a_loss_without_a_head_keeps_the_rest_of_the_recipe(loss):
    training = run.parse_arguments([*NEEDED, "--recipe", "tuned", "--training.loss", loss]).run.training
    assert training == replace(TUNED["training"], head="batch-norm", head_start="fixed", loss=loss)
    assert recipe_defaults([]) == {}


def test_two_sources_of_defaults_are_refused(task, tmp_path):
    with pytest.raises(BadOption, match=r"--config and --recipe both give the defaults"):
        run.parse_arguments([*NEEDED, "--recipe", "tuned", "--config", str(tmp_path)])
    with pytest.raises(BadOption, match=r"--config and --recipe both give the defaults"):
        run.parse_arguments([*NEEDED, "--recipe", "auto", "--config", str(tmp_path)])
    with pytest.raises(BadOption, match=r"--file and --recipe both give the defaults"):
        grid.parse_arguments([*NEEDED, "--recipe", "tuned", "--file", str(tmp_path / "grid.toml")])


def test_a_cross_encoder_has_no_recipe():
    concat = [*NEEDED, "--labels", "stated"]
    with pytest.raises(BadOption, match=r"--recipe tuned is for --model cosine; give that, or leave --recipe out"):
        train.parse_arguments([*concat, "--recipe", "tuned"])
    assert train.parse_arguments([*concat, "--recipe", "paper"]) == train.parse_arguments(concat)


def test_an_unknown_recipe_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit):
        run.parse_arguments([*NEEDED, "--recipe", "best"])
    assert "Expected one of ('auto', 'paper', 'gentle', 'tuned', 'records')" in capsys.readouterr().err
    with pytest.raises(BadOption, match="there is no recipe 'best'; give one of paper, gentle, tuned, records"):
        al_ray.recipe("best")  # pyright: ignore[reportArgumentType]


def test_a_folder_keeps_the_options_and_not_the_name_of_their_recipe(task, tmp_path):
    asked = run.parse_arguments([*NEEDED, "--recipe", "tuned"]).run
    RunFolder(tmp_path, task).bind(asked)
    again = run.parse_arguments(["--config", str(tmp_path), "--out", "out", "--task", "task"])
    assert again.run == asked
