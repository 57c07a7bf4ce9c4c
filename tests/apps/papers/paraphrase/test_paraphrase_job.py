"""jobs.paraphrase from a task folder to figures, without Ray: train, index, search, evaluate."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.apps.papers.paraphrase.comparison import compared, points
from al_ray.apps.papers.paraphrase.folder import ParaphraseFolder
from al_ray.cli.paraphrase import Compare, Evaluate, Index, Search, Train, run_command
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.encoders.vocabulary import Vocabulary


def train(folder: Path) -> Train:
    return Train(
        task=str(folder / "task"), out=folder / "run", encoder="cnn-8", batch=16, epochs=2, max_length=20, threads=1
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a task, and a model with its index."""
    folder = tmp_path_factory.mktemp("paraphrase")
    write_task(synthetic_task(300, 0), folder / "task", {})
    run_command(train(folder))
    run_command(Index(folder / "run"))
    return folder


@pytest.fixture
def copy(made, tmp_path) -> Path:
    """The same, to be spoilt; its config names the first one's task."""
    shutil.copytree(made / "run", tmp_path / "run")
    return tmp_path / "run"


def test_a_folder_holds_what_its_description_says(made):
    there = {path.relative_to(made / "run").as_posix() for path in (made / "run").rglob("*") if path.is_file()}
    assert there - {".lock"} == {
        "config.json", "metrics.jsonl", "words/vocab.json", "model/model.safetensors", "model/vocab.json",
        "model/model.json", "index/index-000.faiss", "index/index.json", "index/questions.parquet",
    }  # fmt: skip
    lines = [json.loads(line) for line in (made / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]


def test_the_same_command_says_what_there_is_and_other_options_are_refused(made, capsys):
    before = (made / "run" / "model" / "model.safetensors").stat().st_mtime_ns
    run_command(train(made))
    assert "best epoch: " in capsys.readouterr().out
    assert (made / "run" / "model" / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(WrongFolder, match=r"other options \(smoothing\)"):
        run_command(replace(train(made), smoothing=0.1))


def test_a_folder_from_before_an_option_was_there_is_gone_on_with(copy, made, capsys):
    config = json.loads((copy / "config.json").read_text())
    del config["miner"]
    (copy / "config.json").write_text(json.dumps(config))
    run_command(replace(train(made), out=copy))
    assert "best epoch: " in capsys.readouterr().out


def test_a_folder_is_gone_on_with_if_its_task_has_another_path(copy, made, tmp_path, capsys):
    shutil.copytree(made / "task", tmp_path / "moved")
    run_command(replace(train(made), out=copy, task=str(tmp_path / "moved")))
    assert "best epoch: " in capsys.readouterr().out
    assert json.loads((copy / "config.json").read_text())["task"] == str(tmp_path / "moved")
    write_task(synthetic_task(300, 1), tmp_path / "other", {})
    with pytest.raises(WrongFolder, match=r"other options \(task, task_digest\)"):
        run_command(replace(train(made), out=copy, task=str(tmp_path / "other")))


def test_a_training_that_was_stopped_ends_in_the_same_model(made, tmp_path):
    wanted = ParaphraseFolder(made / "run").trained()
    asked = replace(train(made), out=tmp_path / "run")
    stopped = replace(asked, epochs=1)
    run_command(stopped)
    # As if the process had died after the first epoch of two: no model yet, and other files as they stand then.
    shutil.rmtree(tmp_path / "run" / "model")
    (tmp_path / "run" / "config.json").write_text((made / "run" / "config.json").read_text())
    run_command(asked)
    assert ParaphraseFolder(tmp_path / "run").trained() == wanted
    assert [epoch.epoch for epoch in ParaphraseFolder(tmp_path / "run").epochs()] == [1, 2]


def test_the_encoder_knows_as_many_words_as_asked_and_the_rest_share_bins(made, tmp_path):
    run_command(replace(train(made), out=tmp_path / "run", words=7, epochs=1))
    assert len(Vocabulary.read(tmp_path / "run" / "model").words) == 7


def test_a_question_finds_the_nearest_ones(made, capsys):
    texts = read_task(made / "task").left.texts
    run_command(Search(made / "run", question=f"  {texts[5]} ", count=3))
    asked, head, *rows = capsys.readouterr().out.splitlines()
    assert asked == texts[5]
    assert head.split() == ["distance", "id", "question"]
    assert len(rows) == 3
    assert texts[5] in rows[0]
    assert rows[0].split()[0] == "0.000"


def test_a_file_of_questions_is_answered_line_by_line(made, tmp_path, capsys):
    texts = read_task(made / "task").left.texts
    (tmp_path / "asked.txt").write_text(f"{texts[5]}\n\n{texts[9]}\n", encoding="utf-8")
    run_command(Search(made / "run", questions=tmp_path / "asked.txt", count=2, out=tmp_path / "found.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [line["question"] for line in lines] == [texts[5], texts[9]]
    assert [len(line["found"]) for line in lines] == [2, 2]
    assert lines[1]["found"][0]["text"] == texts[9]
    assert "wrote the results of 2 questions" in capsys.readouterr().out


def test_the_figures_are_those_of_a_slow_search(made, capsys):
    run_command(Index(made / "run", index="Flat"))
    run_command(Evaluate(made / "run", timed=3))
    told = capsys.readouterr().out
    assert "a query: " in told
    assert told.count("index Flat: finds 100.0% of the 10 nearest") == 2
    found = json.loads((made / "run" / "evaluation-dev.json").read_text())
    task = read_task(made / "task")
    run_command(Search(made / "run", questions=questions_of(made, task), count=60, out=made / "found.jsonl"))
    answers = [json.loads(line) for line in (made / "found.jsonl").read_text().splitlines()]
    partners: dict[str, set[str]] = {}
    for one, other in zip(*task.texts_of(task.splits["dev"].positives), strict=True):
        first, second = one.lower(), other.lower()
        partners.setdefault(first, set()).add(second)
        partners.setdefault(second, set()).add(first)
    ranks = []
    for answer in answers:
        asked = answer["question"].lower()
        others = [one["text"].lower() for one in answer["found"] if one["text"].lower() != asked][:20]
        ranks.append(next((rank for rank, text in enumerate(others, start=1) if text in partners[asked]), None))
    assert found["queries"] == len(ranks) == len(partners)
    assert found["precision_at_1"] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
    assert found["precision_at_10"] == pytest.approx(np.mean([rank is not None and rank <= 10 for rank in ranks]))
    assert found["mean_reciprocal_rank"] == pytest.approx(np.mean([1 / rank if rank else 0 for rank in ranks]))
    assert found["query"]["count"] == 3
    assert 0 < found["query"]["faiss_share"] < 1


def questions_of(made: Path, task) -> Path:
    """A file of the dev questions that have a paraphrase in other words."""
    rows = sorted({row for pair in task.splits["dev"].positives.tolist() for row in pair})
    (made / "asked.txt").write_text("".join(task.left.texts[row] + "\n" for row in rows), encoding="utf-8")
    return made / "asked.txt"


def test_an_index_of_two_actors_finds_what_one_of_a_process_finds(copy, either_way):
    found = []
    for shards in (1, 2):
        run_command(Index(copy, index="IVF4,Flat", nprobe=2, shards=shards))
        run_command(Evaluate(copy, timed=2))
        found.append(json.loads((copy / "evaluation-dev.json").read_text()))
    assert [one["index"].pop("shards") for one in found] == [1, 2]
    assert [one.pop("query")["count"] for one in found] == [2, 2]
    assert found[0] == found[1]
    assert {path.name for path in (copy / "index").iterdir()} == {
        "index-000.faiss", "index-001.faiss", "index.json", "questions.parquet",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("model", "is not trained to its end"),
        ("index", "has no index; make it"),
        ("index/questions.parquet", "make it again: `al-ray paraphrase index"),
        ("index/index-000.faiss", "make it again: `al-ray paraphrase index`"),
        ("config.json", "holds no paraphrase model"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_makes_it(copy, spoil, words):
    gone = copy / spoil
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    with pytest.raises((BadFile, BadOption, WrongFolder), match=words):
        run_command(Search(copy, question="why?"))


def test_an_index_from_before_they_were_measured_is_refused_with_the_fix(copy):
    about = copy / "index" / "index.json"
    content = json.loads(about.read_text())
    del content["recall"]
    about.write_text(json.dumps(content))
    with pytest.raises(WrongFolder, match=r"was never measured; make it again: `al-ray paraphrase index"):
        run_command(Search(copy, question="why?"))


def test_an_index_of_another_model_is_refused(copy):
    about = copy / "index" / "index.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "digest": "another"}))
    with pytest.raises(WrongFolder, match="is of another model"):
        run_command(Search(copy, question="why?"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give --question TEXT or --questions FILE"),
        ({"question": "a", "questions": Path("b")}, "give --question TEXT or --questions FILE"),
        ({"question": " "}, "is empty"),
        ({"question": "a", "count": 0}, "`count` is 0"),
        ({"questions": Path("gone.txt")}, "gone.txt cannot be read"),
    ],
)
def test_a_search_for_nothing_is_refused(made, options, words):
    with pytest.raises((BadFile, BadOption), match=words):
        run_command(Search(made / "run", **options))


def test_bad_options_of_a_training_are_refused(made, make_task, tmp_path):
    with pytest.raises(BadOption, match="`smoothing` is 2"):
        replace(train(made), smoothing=2.0)
    with pytest.raises(BadOption, match="`device='tpu'` is not here"):
        run_command(replace(train(made), device="tpu"))
    with pytest.raises(BadOption, match="`words` is for `encoder='cnn'`, and that is random-bert"):
        run_command(replace(train(made), encoder="random-bert", words=7, out=tmp_path / "run"))
    write_task(make_task(False), tmp_path / "two", {})
    with pytest.raises(BadOption, match="has two sides"):
        run_command(replace(train(made), task=str(tmp_path / "two"), out=tmp_path / "run"))


def sibling(copy: Path, name: str, **options: object) -> Path:
    """A measured model of other options, whose MRR is a tenth of its seed more than a half."""
    folder = copy.parent / name
    folder.mkdir()
    config = json.loads((copy / "config.json").read_text()) | options
    (folder / "config.json").write_text(json.dumps(config))
    figures = {"precision_at_1": 0.25, "precision_at_10": 0.75, "mean_reciprocal_rank": 0.5 + config["seed"] / 10}
    figures |= {"query": {}, "index": {"index": "Flat", "recall": 1.0}}
    (folder / "evaluation-dev.json").write_text(json.dumps(figures))
    return folder


def test_models_of_one_setting_are_compared_by_their_mean_and_range(copy, capsys):
    runs = [
        sibling(copy, "a", smoothing=0.1), sibling(copy, "b", smoothing=0.1, seed=2),
        sibling(copy, "c", smoothing=0.0, seed=1, epochs=9),
    ]  # fmt: skip
    run_command(Compare(tuple(runs), by="smoothing", out=copy.parent / "curve"))
    told = capsys.readouterr().out.splitlines()
    assert [line.split() for line in told[1:4]] == [
        ["smoothing", "epochs", "seeds", "P@1,", "%", "P@10,", "%", "MRR,", "%", "recall", "of", "the", "index,", "%"],
        ["0.0", "9", "1", "25.00", "75.00", "60.00", "100.00"],
        ["0.1", "2", "2", "25.00", "(25.00", "to", "25.00)", "75.00", "(75.00", "to", "75.00)", "60.00", "(50.00",
         "to", "70.00)", "100.00", "(100.00", "to", "100.00)"],
    ]  # fmt: skip
    assert {path.name for path in copy.parent.glob("curve.*")} == {"curve.svg", "curve.png"}
    drawn = points(*compared([ParaphraseFolder(run) for run in runs], "dev"), "smoothing")
    assert {value: one.mean for value, one in drawn["MRR"].items()} == {0.0: 60.0, 0.1: pytest.approx(60.0)}


@pytest.mark.parametrize(
    ("options", "asked", "words"),
    [
        ({"task_digest": "other"}, {}, "more than one task"),
        ({}, {}, "is the second one of its options and seed"),
        ({"smoothing": 0.1}, {"split": "test"}, "was not measured on test: `al-ray paraphrase evaluate"),
        ({"smoothing": 0.1}, {"by": "smoothing"}, "give both or neither"),
        ({"smoothing": 0.1}, {"by": "batch", "out": Path("x")}, "do not differ in it; they do in smoothing"),
        ({"loss": "triplet-hard"}, {"by": "loss", "out": Path("x")}, "not a number"),
    ],
)
def test_models_that_do_not_compare_are_refused(copy, options, asked, words):
    runs = (sibling(copy, "a"), sibling(copy, "b", **options))
    with pytest.raises((BadOption, WrongFolder), match=words):
        run_command(Compare(runs, **asked))


def test_two_settings_at_one_value_make_no_curve(copy):
    runs = (sibling(copy, "a"), sibling(copy, "b", batch=32), sibling(copy, "c", batch=32, margin=1.0))
    with pytest.raises(BadOption, match="two settings have 32 and differ elsewhere"):
        run_command(Compare(runs, by="batch", out=copy / "curve"))
    figures = json.loads((runs[0] / "evaluation-dev.json").read_text())
    (runs[0] / "evaluation-dev.json").write_text(
        json.dumps({**figures, "index": {"index": "IVF4,Flat", "recall": 0.5}})
    )
    figures_before = {**figures, "index": {"index": "Flat"}}
    (runs[1] / "evaluation-dev.json").write_text(json.dumps(figures_before))
    with pytest.raises(WrongFolder, match="never measured; index and evaluate again"):
        run_command(Compare(runs))
    (runs[1] / "evaluation-dev.json").write_text(json.dumps(figures))
    with pytest.raises(BadOption, match=r"more than one index \(Flat, IVF4,Flat\)"):
        run_command(Compare(runs))
