"""--recipe auto: which recipe a task and an encoder have, what a command line keeps, and what a begun run keeps."""

import json
from pathlib import Path

import pytest

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.cli import run as run_options
from al_ray.core.config.recipes import RECIPES, TaskKind, recipe_for
from al_ray.core.errors import BadOption
from al_ray.datasets.task_folder import write_task
from al_ray.runs.auto_recipe import compares_texts, recipe_of, say_of_fields, with_recipe_chosen
from al_ray.runs.run_folder import RunFolder

NEEDED = ["--task", "task", "--out", "out"]
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> str:
    """A folder as sentence-transformers writes it, of which only the modules are looked at."""
    folder = tmp_path_factory.mktemp("encoder")
    (folder / "modules.json").write_text(json.dumps(MODULES))
    return str(folder)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TaskKind(False, 2, False), "records"),
        (TaskKind(True, 3, True), "records"),
        (TaskKind(True, 0, True), "gentle"),
        (TaskKind(True, 1, False), "paper"),
        (TaskKind(False, 1, True), "tuned"),
        (TaskKind(False, 0, False), "paper"),
    ],
)
def test_each_kind_of_task_has_a_recipe(kind, name):
    assert recipe_for(kind)[0] == name


def fields_task(folder: Path, columns: str) -> Path:
    rows = "\n".join(f"{row},lamp {row},{row}.50" for row in range(8))
    (folder / "left.csv").write_text(f"id,name,price\n{rows}\n")
    (folder / "labels.csv").write_text("l,r,same\n0,1,1\n")
    texts = al_ray.OwnTexts(
        left=folder / "left.csv", labels=folder / "labels.csv", label_columns="l,r,same", split="1,0,0",
        id_column="id", text_columns=columns,
    )  # fmt: skip
    al_ray.prepare(texts, folder / "task")
    return folder / "task"


@pytest.mark.parametrize(("columns", "name"), [("name,price", "records"), ("name", "paper")])
def test_the_fields_of_a_task_are_read(tmp_path, caplog, columns, name):
    caplog.set_level("INFO")
    config = RunConfig(task=str(fields_task(tmp_path, columns)), encoder="random-bert")
    chosen = with_recipe_chosen(config, tmp_path / "run")
    assert {one: getattr(chosen, one) for one in RECIPES[name]} == dict(RECIPES[name])
    assert f"recipe {name}: " in caplog.text
    assert "others by `recipe`: " in caplog.text
    caplog.clear()
    say_of_fields(config)
    assert ("`recipe='records'` compares these" in caplog.text) == (name == "records")
    caplog.clear()
    say_of_fields(chosen)
    assert "`recipe" not in caplog.text or name == "paper"


@pytest.mark.parametrize(("symmetric", "name"), [(True, "gentle"), (False, "tuned")])
def test_an_encoder_with_modules_was_trained_to_compare_texts(tmp_path, make_task, trained, symmetric, name):
    write_task(make_task(symmetric), tmp_path / "task", {})
    assert recipe_of(tmp_path / "task", trained)[0] == name
    assert recipe_of(tmp_path / "task", "cnn")[0] == "paper"


def test_a_recipe_is_not_chosen_by_an_encoder_without_files(tmp_path, make_task):
    write_task(make_task(False), tmp_path / "task", {})
    config = RunConfig(task=str(tmp_path / "task"), encoder="all-MiniLM-L6-v3")
    with pytest.raises(BadOption, match=r"all-MiniLM-L6-v3'`: its files.* cannot be had here .*`recipe='tuned'` or"):
        with_recipe_chosen(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_packaged_encoder_was_trained_to_compare_texts(minilm):
    assert compares_texts(minilm)


@pytest.mark.parametrize(
    "options",
    [
        ["--matcher", "off"],
        ["--matcher=off"],
        ["--training.epochs", "2"],
        ["--training.no-bias-correction"],
        ["--scoring.neighbourhood=off"],
        ["--search.index", "IVF4,Flat"],
        ["--recipe", "paper"],
    ],
)
def test_who_says_how_to_learn_has_the_recipe_of_the_paper(options):
    assert run_options.parse_arguments(NEEDED).recipe == "auto"
    assert run_options.parse_arguments([*NEEDED, *options]).recipe == "paper"
    assert run_options.parse_arguments([*NEEDED, "--search.index", "Flat"]).recipe == "auto"


def test_a_run_that_has_begun_keeps_its_options(task, tmp_path):
    write_task(task, tmp_path / "task", {})
    begun = RunConfig(task=str(tmp_path / "task"), encoder="random-bert", **al_ray.recipe("tuned"))
    RunFolder(tmp_path / "run", task).bind(begun)
    (tmp_path / "run/round-001").mkdir()
    asked = RunConfig(task=str(tmp_path / "task"), encoder="random-bert")
    assert with_recipe_chosen(asked, tmp_path / "run") == begun
    assert with_recipe_chosen(asked, tmp_path / "other") == asked
    again = run_options.parse_arguments(["--config", str(tmp_path / "run"), "--out", "out"])
    assert (again.recipe, again.run) == ("paper", begun)
