"""docs/nightly.py: three nights, with a person who labels between them, and nights that are killed after each step."""

import csv
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import al_ray
from al_ray.apps.drift.folder import write_suggested
from al_ray.core.labels import Batch, State, make_answers
from al_ray.core.pairs import as_pairs
from al_ray.core.scorer import Scorer
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.transformer import Encoder
from al_ray.runs.run_folder import opened
from al_ray.training.saved_model import write_model
from tests.guides import ROOT

ODD = "zq xv zq xv zq xv 7"


def write_table(path: Path, texts: dict[str, str]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("sku", "title"), *texts.items()])
    return path


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def first_run(root: Path, known: Path) -> Path:
    """A run of one round of 19 labels on a table, whose model is the encoder as it is."""
    al_ray.prepare(al_ray.OwnTexts(left=known, id_column="sku", text_columns="title", split="1,0,0"), root / "task")
    task = read_task(root / "task")
    config = al_ray.RunConfig(
        task=str(root / "task"), oracle="file", rounds=1, first_batch=20, encoder="random-bert", encoder_layers=1,
        max_length=24, threads=1, training=al_ray.TrainingConfig(epochs=1, batch=8, worst_loss=100.0),
        evaluation=al_ray.EvaluationConfig(splits=()),
    )  # fmt: skip
    # Texts of one cluster, and of two neighbouring ones.
    first = 4 * np.arange(10)
    pairs = as_pairs(np.concatenate([first, first[:-1]]), np.concatenate([first + 3, first[1:]]))
    labels = np.repeat([1, 0], [10, 9]).astype(np.uint8)
    with opened(root / "run", task) as folder:
        folder.bind(config)
        folder.ledger.add_batch(1, Batch(pairs, np.full(19, 0.5), "seed"))
        folder.ledger.add_answers(1, make_answers(np.arange(19), labels, "simulated"))
        folder.ledger.seal(1)
        scorer = Scorer(100.0, -99.0, 0.1, "fitted")
        model = write_model(Encoder.base(config.encoding), scorer, folder.round(1) / "model", "nothing")
        folder.record_round(State(1, folder.state().labelled.extended(pairs, labels, 1, "seed"), model), {})
    return root / "run"


@pytest.fixture
def work(make_task, tmp_path: Path) -> SimpleNamespace:
    """The script, its options, and the tables of three days; a text of the second replaces a known one."""
    task = make_task(True)
    texts = dict(zip(task.left.ids, task.left.texts, strict=True))
    each = list(texts.items())
    days = [{f"odd-{row}": f"{ODD}{row}" for row in range(6)}, dict([("t3", "another text"), *each[40:46]])]
    known = write_table(tmp_path / "known.csv", dict(each[:40]))
    script = runpy.run_path(str(ROOT / "docs" / "nightly.py"))
    job = script["Nightly"](
        run=first_run(tmp_path, known), known=known, inbox=tmp_path / "inbox", work=tmp_path / "work",
        id_column="sku", suggest=8, after=10,
    )  # fmt: skip
    return SimpleNamespace(script=script, job=job, days=[*days, dict(each[46:50])], texts=texts)


def cluster_of(id_: str) -> int:
    """The cluster of a text: ids t0 to t3 are one, and so on; those of the odd table are one."""
    return -1 if id_.startswith("odd") else int(id_.removeprefix("t")) // 4


def label(job: Any) -> int:
    """Fill in the batch of the first round as a person does, and return the number of labels."""
    rows = read_table(job.round(1) / "batch" / "suggested.csv")
    for row in rows:
        row["label"] = "yes" if cluster_of(row["left_id"]) == cluster_of(row["right_id"]) else "no"
    save_answers(job, rows)
    return len(rows)


def save_answers(job: Any, rows: list[dict[str, str]], encoding: str = "utf-8") -> None:
    with (job.round(1) / "labelled.csv").open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def live(work: SimpleNamespace, night: Callable[[Any], list[str]]) -> list[list[str]]:
    """Nights with a table each, and one with none where there is no third; a person labels before the third."""
    lines = list[list[str]]()
    for number in range(3):
        if number == 2:
            work.labels = label(work.job)
        if number < len(work.days):
            write_table(work.job.inbox / f"day-{number + 1}.csv", work.days[number])
        # One comparison with the training texts is enough.
        lines.append(night(replace(work.job, drift=number == 0)))
    return lines


def check_end(work: SimpleNamespace) -> None:
    """All tables are taken, all labels are trained on once, and the matches are those of all rows at once."""
    job = work.job
    assert not list(job.inbox.iterdir())
    taken = sorted(path.name for path in (job.work / "rows").iterdir())
    assert taken == [f"day-{number}.csv" for number in range(1, len(work.days) + 1)]
    assert (job.last, work.labels) == (1, 8)
    labels = al_ray.load_run(job.model(1)).labels().to_pydict()
    pairs = [frozenset(pair) for pair in zip(labels["left_id"], labels["right_id"], strict=True)]
    # One of the 19 old labels is of the text that changed.
    assert len(pairs) == 19 - 1 + 8 == len(set(pairs))
    rows = work.script["merged"](job)
    assert (len(rows), rows["t3"]["title"]) == (40 + sum(map(len, work.days)) - 1, "another text")
    # All pairs above the boundary, but for those that are labelled.
    model, ids = al_ray.load_model(job.model(1)), list(rows)
    vectors = model.encode([rows[id_]["title"] for id_ in ids]).astype(np.float64)
    above = np.argwhere(np.triu(vectors @ vectors.T >= model.boundary, 1)).tolist()
    answers = dict(zip(pairs, labels["label"], strict=True))
    expected = {frozenset((ids[one], ids[other])) for one, other in above} - answers.keys()
    expected |= {pair for pair, answer in answers.items() if answer}
    found = al_ray.MatchFolder(job.round(1) / "matches", {"clusters": 1}, ())
    matches = found.matches().to_pydict()
    assert {frozenset(pair) for pair in zip(matches["left_id"], matches["right_id"], strict=True)} == expected
    assert sorted(found.clusters()["id"].to_pylist()) == sorted(ids)


def test_three_nights_match_warn_of_drift_suggest_train_and_match_again(in_process, work):
    work.days = work.days[:2]
    lines = live(work, lambda job: list(work.script["night"](job)))
    job = work.job
    assert lines[0][0].startswith("round 0: ")
    assert any(line.startswith("drift: texts are longer than in training") for line in lines[0])
    assert lines[0][-1].startswith("day-1.csv: 6 new rows; now ")
    batch, answers = job.round(1) / "batch" / "suggested.csv", job.round(1) / "labelled.csv"
    assert lines[1][-1] == f"label {batch}, and save it as {answers}"
    assert [line.partition(":")[0] for line in lines[2]] == ["round 1", "round 1"]
    assert lines[2][0].startswith("round 1: 26 labels, ")
    check_end(work)


def test_a_table_of_one_row_is_taken(in_process, work):
    write_table(work.job.inbox / "day-1.csv", {"odd-1": ODD})
    lines = list(work.script["night"](work.job))
    assert lines[1].startswith("day-1.csv: 1 new rows; now ")
    assert not list(work.job.inbox.iterdir())


class Killed(BaseException):
    """What stands for the end of the process."""


STEPS = ("match", "match_into", "prepare", "export_labels", "import_labels", "run")


@pytest.mark.slow
def test_a_night_that_is_killed_after_any_step_goes_on_by_the_same_command(in_process, work, monkeypatch):
    """Each call of each step ends the night once, before it returns; then the night is run again, until it ends."""
    killed = set[tuple[Any, ...]]()

    def deadly(owner: Any, name: str) -> None:
        step = getattr(owner, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            result = step(*arguments, **options)
            # Names, not values: a run resumed is the same call.
            key = (name, *map(str, arguments), *sorted(options))
            if key not in killed and (owner is al_ray or "work" in str(arguments[-1])):
                killed.add(key)
                raise Killed
            return result

        monkeypatch.setattr(owner, name, wrapped)

    for name in STEPS:
        deadly(al_ray, name)
    deadly(work.script["os"], "replace")

    def night(job: Any) -> list[str]:
        while True:
            try:
                return list(work.script["night"](job))
            except Killed:
                continue

    live(work, night)
    monkeypatch.undo()
    assert {key[0] for key in killed} == {*STEPS, "replace"}
    check_end(work)


def test_a_folder_that_is_missing_and_a_night_at_work_are_errors(work):
    night, job = work.script["night"], work.job
    with pytest.raises(SystemExit, match=r"error: --inbox .*inbox is no folder; create it"):
        list(night(job))
    job.inbox.mkdir()
    first = night(job)
    work.script["night"].__globals__["steps"] = lambda job: iter(["at work"])
    assert next(first) == "at work"
    with pytest.raises(SystemExit, match=r"error: another night is at work in .*work; wait for its end"):
        list(night(job))
    assert list(first) == []
    with pytest.raises(SystemExit, match=r"error: .*known.csv has no column id; name that of the ids: --id-column"):
        work.script["read"](work.script["Nightly"](job.run, job.known, job.inbox, job.work), job.known)
    # As some spreadsheets save it.
    (job.work / "labelled.csv").write_text("pair;label;left_id;right_id\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"error: .*labelled.csv lacks one of the columns pair, label; save it"):
        work.script["every_label"](job.work, job.run, work.texts)


def test_an_answer_is_that_of_the_code_of_a_pair_and_of_texts_that_are_as_people_saw_them(work):
    job, every_label, folder = work.job, work.script["every_label"], work.job.round(1)
    texts = {"7": "boots", "007": "shoes", "4006381333931": "déjà-vu", "x1": "socks", "x2": "hat"}
    table = write_table(job.work / "new.csv", texts)
    source = al_ray.OwnTexts(left=table, id_column="sku", text_columns="title", split="1,0,0")
    task = al_ray.prepare(source, job.work / "new").task
    # 007 and x1, the long number and x1, x1 and x2, 7 and x1.
    write_suggested(folder / "batch", task, as_pairs([1, 2, 3, 0], [3, 3, 4, 3]), np.zeros(4), np.zeros((4, 2)))
    rows = read_table(folder / "batch" / "suggested.csv")
    for row, label in zip(rows, ("yes", "no", "yes", " "), strict=True):
        row["label"] = label
    now = {**work.texts, **texts}
    expected = [["007", "x1", "yes"], ["4006381333931", "x1", "no"], ["x1", "x2", "yes"]]

    def answers(now: dict[str, str]) -> list[list[str]]:
        every = read_table(every_label(folder, job.run, now))
        return [list(row.values()) for row in every if row["right_id"] in ("x1", "x2") and row["label"].strip()]

    save_answers(job, rows)
    assert answers(now) == expected
    # As a spreadsheet changes ids, saves letters beyond ASCII, and sorts rows.
    rows[0]["left_id"], rows[1]["left_id"] = "7", "4.00638E+12"
    save_answers(job, rows)
    assert answers(now) == expected
    save_answers(job, rows[::-1], "cp1252")
    assert answers(now) == expected
    assert answers({**now, "x2": "cap"}) == expected[:2]
    assert answers({id_: text for id_, text in now.items() if id_ != "x2"}) == expected[:2]
    save_answers(job, [*rows, {**rows[0], "pair": "s00009"}])
    with pytest.raises(SystemExit, match=r"error: .*labelled.csv: 's00009' is no pair of .*batch; delete its row"):
        every_label(folder, job.run, now)
    save_answers(job, [*rows, {**rows[0], "label": "no"}])
    with pytest.raises(SystemExit, match=r"error: .*labelled.csv has two answers to 's00001'; keep one of them"):
        every_label(folder, job.run, now)
