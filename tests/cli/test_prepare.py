"""jobs.prepare from outside: what it writes, prints and refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from al_ray.api.tasks import table_of
from al_ray.cli import plan, prepare
from al_ray.cli._shared import entry
from al_ray.core.errors import BadOption
from al_ray.core.task import Corpus, Task
from al_ray.datasets.script_lines import script_lines
from al_ray.datasets.task_folder import read_task

ROOT = Path(__file__).resolve().parents[2]


def job(*arguments):
    command = [sys.executable, "-W", "error", "-m", "jobs.prepare", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False)


def here(monkeypatch, *arguments):
    """The job in this process: quicker than a new one."""
    monkeypatch.setattr(sys, "argv", ["prepare", *map(str, arguments)])
    entry.job(prepare.main)


def test_a_synthetic_task_is_written_and_told_of(tmp_path):
    done = job("synthetic", "--texts", 1000, "--seed", 3, "--out", tmp_path / "t")
    assert done.returncode == 0, done.stderr
    task = read_task(tmp_path / "t")
    assert len(task.left) == 1000
    about = json.loads((tmp_path / "t" / "task.json").read_text())
    assert about["provenance"] == {
        "command": "prepare synthetic",
        "out": str(tmp_path / "t"),
        "texts": 1000,
        "seed": 3,
    }
    lines = done.stdout.splitlines()
    assert lines[0] == "synthetic: 1,000 texts"
    assert " ".join(lines[1].split()) == "split left right pairs positives stated negatives one positive in"
    assert [line.split()[0] for line in lines[2:5]] == ["train", "dev", "test"]
    assert lines[5].startswith("wrote ")


def test_the_table_says_how_rare_a_positive_is():
    split = {"left": 3, "right": 3, "pairs": 3000, "positives": 2, "stated_negatives": 1}
    lines = table_of({"train": split, "dev": {**split, "positives": 0}}).splitlines()
    assert lines[1].split() == ["train", "3", "3", "3,000", "2", "1", "1,500", "pairs"]
    assert lines[2].split()[-1] == "-"


def test_the_same_command_again_changes_nothing_and_another_is_refused(tmp_path, monkeypatch, capsys):
    here(monkeypatch, "synthetic", "--texts", 200, "--out", tmp_path / "t")
    here(monkeypatch, "synthetic", "--texts", 200, "--out", tmp_path / "t")
    assert "already there, unchanged" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        here(monkeypatch, "synthetic", "--texts", 201, "--out", tmp_path / "t")
    assert stop.value.code == 2
    assert "choose another --out" in capsys.readouterr().err


def test_real_data_is_prepared(tmp_path, monkeypatch, capsys, real_data):
    here(monkeypatch, "wikiqa", "--source", real_data / "wikiqa", "--out", tmp_path / "w")
    here(monkeypatch, "qqp", "--source", real_data / "qqp", "--out", tmp_path / "q", "--split", "0.6,0.2,0.2")
    said = capsys.readouterr().out
    assert "53,500 pairs" in said  # 55,639,860 / 1,040
    assert "labelled pairs taken: 92,406" in said
    assert len(read_task(tmp_path / "w").right) == 26_270
    assert len(read_task(tmp_path / "q").splits["train"].space.left) == pytest.approx(0.6 * 99_328, abs=100)


def test_skipped_rows_are_counted_and_listed(tmp_path, monkeypatch, capsys):
    rows = ["id qid1 qid2 question1 question2 is_duplicate", "0 1 2 a b 1", "1 3 4 c  0"]
    source = tmp_path / "q.tsv"
    source.write_text("\n".join(row.replace(" ", "\t") for row in rows) + "\n")
    here(monkeypatch, "qqp", "--source", source, "--out", tmp_path / "t", "--bad-rows", "skip", "--split", "1,0,0")
    assert capsys.readouterr().out.startswith(
        f"labelled pairs taken: 1\nrows skipped: 1\n  {source}:3: its question2 is empty\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Expected one of {qqp, wikiqa, synthetic, pairs, logs, evaluation}"),
        (("wikiqa", "--out", "t"), "--source"),
        (("wikiqa", "--source", "nowhere", "--out", "t"), "nowhere/WikiQA-train.tsv cannot be read"),
        (("wikiqa", "--source", ".", "--out", "t", "--bad-rows", "fix"), "invalid choice 'fix'"),
        (("qqp", "--source", "nowhere", "--out", "t"), "nowhere cannot be read"),
        (("qqp", "--source", "nowhere", "--out", "t", "--split", "half"), "--split is 'half'; give three shares"),
        (("qqp", "--source", "nowhere", "--out", "t", "--split", "0.5,0.5,0.5"), "add up to 1, such as"),
        (("synthetic", "--out", "t", "--texts", "5"), "--texts is 5; give 100"),
        (("synthetic", "--out", "t", "--texts", "many"), "--texts"),
        (("synthetic", "--out", "t", "--seed", "-1"), "--seed is -1; give 0 or more"),
        (("synthetic", "--out", "t", "--txts", "5"), "--txts"),
    ],
)
def test_a_bad_option_or_file_ends_in_one_line_and_code_2(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        here(monkeypatch, *arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert error.startswith("error: ")
    assert said in error
    assert not list(tmp_path.iterdir())


def test_an_error_ends_a_process_in_one_line_and_code_2(tmp_path):
    done = job("wikiqa", "--source", tmp_path, "--out", tmp_path / "t")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_an_error_of_ours_in_several_lines_is_said_in_one(capsys):
    def body():
        raise BadOption("one\n  two")

    with pytest.raises(SystemExit) as stop:
        entry.job(body)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: one two\n"


def test_help_is_no_error(monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        here(monkeypatch, "synthetic", "--help")
    assert stop.value.code == 0
    assert "--texts" in capsys.readouterr().out


def test_prepare_and_plan_name_the_scripts_that_the_default_encoder_does_not_know(tmp_path, monkeypatch, capsys):
    for name, texts in {"ours": ["red shoe"] * 9 + ["красный"], "theirs": ["ቀይ ጫማ", "hat", "ሰማያዊ"]}.items():
        rows = "\n".join(f"{number},{text} {number}" for number, text in enumerate(texts))
        (tmp_path / f"{name}.csv").write_text(f"id,text\n{rows}\n", encoding="utf-8")
    tables = "--left", tmp_path / "ours.csv", "--right", tmp_path / "theirs.csv", "--text-columns", "text"
    here(monkeypatch, "pairs", *tables, "--id-column", "id", "--split", "1,0,0", "--out", tmp_path / "t")
    # 63 Latin and 7 Cyrillic letters; 3 Latin and 4 + 4 Ethiopic ones.
    lines = [
        "scripts of the letters of the left texts: Latin 90%, Cyrillic 10%",
        "scripts of the letters of the right texts: Ethiopic 73%, Latin 27%",
        "the default encoder does not know Ethiopic, 73% of the letters of the right texts: give jobs.run --encoder "
        "FOLDER with a model for the language (docs/languages.md)",
    ]
    assert capsys.readouterr().out.splitlines()[-3:] == lines
    small = "--evaluation.splits", "--rounds", "1", "--first-batch", "3"
    for encoder, expected in ((), lines), (("--encoder", "random-bert"), []):
        monkeypatch.setattr(sys, "argv", ["plan", "--task", str(tmp_path / "t"), *small, *encoder])
        entry.job(plan.main)
        said = capsys.readouterr().out.splitlines()
        assert [line for line in said if line.startswith(("scripts of", "the default encoder"))] == expected
    here(monkeypatch, "synthetic", "--texts", 200, "--out", tmp_path / "english")
    assert "script" not in capsys.readouterr().out


def test_of_many_texts_some_are_read_for_their_scripts(monkeypatch, make_task):
    monkeypatch.setattr("al_ray.datasets.script_lines.MOST_TEXTS", 3)
    task = make_task(True)
    # Rows 0, 2 and 4 of five are read.
    corpus = Corpus(task.left.ids[:5], ("ab", "ቀይ", "ab", "ቀይ", "жж"))
    [line] = script_lines(Task(task.name, True, corpus, corpus, {}, ""))
    assert line == "scripts of the letters of the texts: Latin 67%, Cyrillic 33% (3 of 5 texts)"
