"""A table of labels means the same to jobs.prepare, which makes a task of it, and to jobs.labels, which imports it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import PairSpace
from al_ray.core.task import Corpus, Split, Task
from al_ray.datasets.tables.label_tables import LabelTable, read_task_labels
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.reader import TableFormat
from al_ray.datasets.tables.to_task import read_own
from al_ray.datasets.tsv import OR_SKIP, BadRowLog

COLUMNS = ("left", "right", "label")
IDS = ("a", "b", "c", "d")
CORPUS = Corpus(IDS, tuple(f"text {name}" for name in IDS))
ROWS, NONE = np.arange(4), np.empty((0, 2), dtype=np.int64)
# Of four texts the first three are those of train.
TASK = Task(
    "task", True, CORPUS, CORPUS, {"train": Split("train", PairSpace(ROWS[:3], ROWS[:3], 4, True), NONE, NONE)}, ""
)
WORDS = {"yes": YES, "no": NO, "unsure": UNSURE, "": OPEN}


def write(folder: Path, *rows: str) -> Path:
    path = folder / "labels.csv"
    path.write_text("left,right,label\n" + "".join(f"{row}\n" for row in rows))
    return path


def read(path: Path, faults: BadRowLog | None = None) -> LabelTable:
    return read_task_labels(path, COLUMNS, TableFormat(), TASK, faults or BadRowLog("fail", OR_SKIP))


def test_a_pair_that_cannot_match_is_a_bad_row(tmp_path):
    codes = np.array([0, 0, 1, 1], dtype=np.int32)
    space = replace(TASK.split("train").space, rule=PairRule(same=GroupCodes(("country",), codes, codes)))
    task = replace(TASK, splits={"train": replace(TASK.split("train"), space=space)})
    faults = BadRowLog("skip")
    path = write(tmp_path, "a,b,yes", "a,c,no")
    assert said(read_task_labels(path, COLUMNS, TableFormat(), task, faults)) == [("ab", YES)]
    assert faults.skipped[0].reason == "the task says that its texts cannot match (`same='country'`)"


def said(table: LabelTable) -> list[tuple[str, int]]:
    return [(IDS[a] + IDS[b], label) for (a, b), label in zip(table.pairs.tolist(), table.labels.tolist(), strict=True)]


def prepared(path: Path) -> tuple[list[str], list[str]]:
    """Positives and stated negatives of the task that jobs.prepare makes of the same table."""
    (path.parent / "texts.csv").write_text("id,text\n" + "".join(f"{name},text {name}\n" for name in IDS))
    options = OwnTexts(
        left=path.parent / "texts.csv", id_column="id", text_columns="text", labels=path, closure=False, bad_rows="skip"
    )
    train = read_own(options, (1.0, 0.0, 0.0))[0].split("train")
    yes, no = ([IDS[a] + IDS[b] for a, b in pairs.tolist()] for pairs in (train.positives, train.stated_negatives))
    return yes, no


def test_unsure_is_no_negative_and_gives_way_to_yes_and_no(tmp_path):
    path = write(tmp_path, "a,b,unsure", "b,a,yes", "b,c,no", "b,c,unsure", "c,a,unsure", "a,c,unsure")
    assert said(read(path)) == [("ab", YES), ("bc", NO), ("ac", UNSURE)]
    assert prepared(path) == (["ab"], ["bc"])
    # Of six answers three stand.
    assert read(path).settled == {"rows without an answer": 0, "rows that repeat a pair": 3}


def test_a_contradiction_names_both_rows_either_way_round(tmp_path):
    path = write(tmp_path, "a,b,yes", "a,b,unsure", "b,c,no", "b,a,no", "a,b,1")
    with pytest.raises(
        BadFile, match=r"labels\.csv:5: its label is no, but .*labels\.csv:2 labels the same pair yes; fix"
    ):
        read(path)
    faults = BadRowLog("skip")
    assert said(read(path, faults)) == [("ab", YES), ("bc", NO)]
    assert [skip.place for skip in faults.skipped] == [f"{path}:5"]
    assert prepared(path) == (["ab"], ["bc"])


def test_a_row_without_a_label_is_not_looked_at_further(tmp_path):
    path = write(tmp_path, "a,b,yes", "a,nobody,", "b,b,", "b,c,no")
    assert said(read(path)) == [("ab", YES), ("bc", NO)]
    assert (read(path).rows, read(path).empty) == (4, 2)
    assert prepared(path) == (["ab"], ["bc"])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a,nobody,yes", "its 'right' is 'nobody', which is not an id of the task's left texts"),
        (",b,yes", "its 'left' is empty"),
        ("b,b,yes", "it pairs 'b' with itself"),
        ("a,d,yes", "its pair is not in the split of these labels"),
        ("a,b,perhaps", "its label is 'perhaps', not 1 or 0, yes, no or unsure"),
    ],
)
def test_a_bad_row_is_named_with_its_fix(tmp_path, row, words):
    with pytest.raises(BadFile, match=rf"labels\.csv:3: {words}; fix the row, or leave such rows out"):
        read(write(tmp_path, "b,c,no", row))


@given(rows=st.lists(st.tuples(st.sampled_from(["ab", "ba", "bc", "ca"]), st.sampled_from(list(WORDS))), min_size=1))
def test_of_each_pair_the_first_yes_or_no_counts_and_else_that_it_is_unsure(tmp_path_factory, rows):
    path = write(tmp_path_factory.mktemp("rows"), *(f"{pair[0]},{pair[1]},{word}" for pair, word in rows))
    # The slow, obvious twin.
    labels: dict[str, int] = {}
    for pair, word in rows:
        name, label = "".join(sorted(pair)), WORDS[word]
        if label != OPEN and labels.get(name, UNSURE) == UNSURE:
            labels[name] = label
    faults = BadRowLog("skip")
    assert dict(said(read(path, faults))) == labels
    yes, no = prepared(path)
    assert {name for name in labels if labels[name] == YES} == set(yes)
    assert {name for name in labels if labels[name] == NO} == set(no)
