"""A text that was joined of several columns is shown to people column by column; the encoder gets one text."""

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from al_ray.core.errors import LabelsAwaited
from al_ray.core.labels import NO, OPEN, UNSURE, YES, Batch
from al_ray.core.pairs import as_pairs
from al_ray.core.task import Corpus, Task
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.to_task import read_own
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.oracles.people import FileOracle, write_sheets
from al_ray.oracles.sheet_columns import sheet_columns
from al_ray.runs.ledger import Ledger

SHOP = 'sku,title,price\n1,Trail shoe,89.90\n2,"<Rain> & ""coat""",\n3,,9\n'
OTHER = "sku,name,maker,$price\n7,Shoe,Lopez,90\n8,Coat,,119\n"


def prepared(folder: Path, columns: str, **options) -> Task:
    """The task of SHOP, or of SHOP with OTHER, as it comes back from its folder."""
    (folder / "shop.csv").write_text(SHOP)
    (folder / "other.csv").write_text(OTHER)
    source = OwnTexts(left=folder / "shop.csv", id_column="sku", text_columns=columns, **options)
    write_task(read_own(source, (1.0, 0.0, 0.0))[0], folder / "task", {})
    return read_task(folder / "task")


def names(corpus: Corpus) -> tuple[str, ...]:
    """The names of the fields of a corpus that has any."""
    assert corpus.fields is not None
    return corpus.fields.names


def sheets(
    folder: Path, task: Task, pairs: list[tuple[int, int]]
) -> tuple[list[list[str]], list[dict], ElementTree.Element]:
    """The rows of the sheet, the tasks for Label Studio, and its interface."""
    codes = [f"r001-{row:05d}" for row in range(1, len(pairs) + 1)]
    write_sheets(folder, "batch", codes, as_pairs(*zip(*pairs, strict=True)), task)
    with (folder / "batch.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    tasks = [one["data"] for one in json.loads((folder / "batch.json").read_text())]
    return rows, tasks, ElementTree.parse(folder / "label-studio.xml").getroot()


def test_each_field_has_a_column_on_both_sides_and_the_encoder_one_text(tmp_path):
    task = prepared(tmp_path, "title,price")
    assert task.left.texts == ("Trail shoe 89.90", '<Rain> & "coat"', "9")
    rows, tasks, view = sheets(tmp_path, task, [(0, 1), (1, 2)])
    assert rows == [
        ["pair", "label", "left_title", "right_title", "left_price", "right_price", "left_id", "right_id"],
        ["r001-00001", "", "Trail shoe", '<Rain> & "coat"', "89.90", "", "1", "2"],
        ["r001-00002", "", '<Rain> & "coat"', "", "", "9", "2", "3"],
    ]
    assert list(tasks[0]) == ["pair", *rows[0][2:]]
    assert list(tasks[1].values()) == ["r001-00002", *rows[2][2:]]
    # Every variable of the interface is in each task, and every title beside its text.
    assert [text.get("value") for text in view.iter("Text")] == [f"${name}" for name in rows[0][2:6]]
    assert [title.get("value") for title in view.iter("Header")] == ["title", "title", "price", "price"]
    assert next(view.iter("Choices")).get("toName") in {text.get("name") for text in view.iter("Text")}


def test_sides_of_other_fields_stand_side_by_side(tmp_path):
    task = prepared(tmp_path, "title,price", right=tmp_path / "other.csv", right_text_columns="name,maker,$price")
    rows, tasks, view = sheets(tmp_path, task, [(0, 1)])
    assert rows[0][2:7] == ["left_title", "left_price", "right_name", "right_maker", "right_$price"]
    assert rows[1][2:7] == ["Trail shoe", "89.90", "Coat", "", "119"]
    assert tasks[0]["right__price"] == "119"
    assert [title.get("value") for title in view.iter("Header")][-1] == "price"
    variables = [text.get("value") for text in view.iter("Text")]
    assert variables == ["$left_title", "$left_price", "$right_name", "$right_maker", "$right__price"]


def test_a_text_of_one_column_beside_one_of_several(tmp_path):
    task = prepared(tmp_path, "title", right=tmp_path / "other.csv", right_text_columns="name,maker", bad_rows="skip")
    rows, _, _ = sheets(tmp_path, task, [(0, 0)])
    assert rows == [
        ["pair", "label", "left_text", "right_name", "right_maker", "left_id", "right_id"],
        ["r001-00001", "", "Trail shoe", "Shoe", "Lopez", "1", "7"],
    ]


def test_columns_that_are_ids_or_look_alike_have_names_of_their_own(tmp_path):
    (tmp_path / "odd.csv").write_text("id,größe,gr__e,text\n5,a,b,c\n6,d,e,f\n", encoding="utf-8")
    source = OwnTexts(left=tmp_path / "odd.csv", id_column="id", text_columns="id,größe,gr__e,text")
    task, _ = read_own(source, (1.0, 0.0, 0.0))
    left = [column for column in sheet_columns(task) if column.side == "left"]
    assert [column.heading for column in left] == ["left_id_", "left_größe", "left_gr__e", "left_text"]
    assert [column.variable for column in left] == ["left_id_", "left_gr__e", "left_gr__e_", "left_text"]


def test_a_table_of_pairs_keeps_the_fields_of_each_half(tmp_path):
    # The text "a b c" occurs twice, divided otherwise; the first division is kept.
    (tmp_path / "pairs.csv").write_text("t1,b1,t2,b2\nx,,a b,c\na,b c,y,z\n")
    source = OwnTexts(source=tmp_path / "pairs.csv", text_columns="t1,b1,t2,b2")
    task, _ = read_own(source, (1.0, 0.0, 0.0))
    assert task.left.texts == ("x", "a b c", "y z")
    assert names(task.left) == ("t1", "b1")
    assert task.left.cells(np.arange(3)) == [["x", ""], ["a b", "c"], ["y", "z"]]
    two, _ = read_own(
        OwnTexts(source=tmp_path / "pairs.csv", text_columns="t1,b1,t2,b2", two_sided=True), (1.0, 0.0, 0.0)
    )
    assert (names(two.left), names(two.right)) == (("t1", "b1"), ("t2", "b2"))
    assert [*two.left.cells(np.array([1])), *two.right.cells(np.array([0]))] == [["a", "b c"], ["a b", "c"]]


@pytest.mark.parametrize("whole", [True, False], ids=["the whole sheet", "without the texts"])
def test_answers_in_a_sheet_of_fields_are_read(tmp_path, whole):
    task = prepared(tmp_path, "title,price")
    book = Ledger(tmp_path / "run", task)
    book.add_batch(1, Batch(as_pairs([0, 0, 1], [1, 2, 2]), np.zeros(3), "near"))
    batch = book.batch(1)
    assert batch is not None
    oracle, missing = FileOracle(book), np.flatnonzero(book.labels(1) == OPEN)
    with pytest.raises(LabelsAwaited):
        list(oracle.label(1, batch, missing))
    path = tmp_path / "run" / "round-001" / "batch.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    for row, word in zip(rows[1:], ("yes", "no", "unsure"), strict=True):
        row[1] = word
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=";").writerows(rows if whole else [row[:2] for row in rows])
    (piece,) = oracle.label(1, batch, missing)
    assert piece.labels.tolist() == [YES, NO, UNSURE]
