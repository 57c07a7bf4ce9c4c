"""QQP: a small one worked by hand in both layouts, and the verified subset."""

import numpy as np
import pytest

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.graph import components
from al_ray.core.task import SPLITS
from al_ray.datasets.qqp import HEADER, read_qqp

# Positives chain 1-2-3, so (1,3) is imputed though somebody denied it; 4-5 and 6-7 are apart, joined by a negative.
ROWS = [
    ("0", "1", "2", "one?", 'o"ne', "1"),
    ("1", "3", "2", "uno", 'o"ne', "1"),
    ("2", "1", "3", "one?", "uno", "0"),
    ("3", "4", "5", "four", "vier", "1"),
    ("4", "5", "6", "vier", "six", "0"),
    ("5", "7", "6", "sechs", "six", "1"),
]
ALL_TRAIN = (1.0, 0.0, 0.0)


def write(path, rows, header=HEADER, end="\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + end for row in (header, *rows)), newline="", encoding="utf-8")
    return path


def test_positives_are_closed_and_the_closure_wins_over_a_denial(tmp_path):
    task, report = read_qqp(write(tmp_path / "q.tsv", ROWS), "fail", 0, ALL_TRAIN)
    assert task.symmetric
    assert task.left.ids == ("1", "2", "3", "4", "5", "6", "7")
    assert task.left.texts == ("one?", 'o"ne', "uno", "four", "vier", "six", "sechs")
    train = task.splits["train"]
    assert train.positives.tolist() == [[0, 1], [0, 2], [1, 2], [3, 4], [5, 6]]
    assert train.stated_negatives.tolist() == [[4, 5]]
    assert train.space.total == 21
    assert list(report.lines()) == [
        "labelled pairs taken: 6",
        "negative rows inside a component of positives (the closure wins): 1",
    ]


def test_a_stated_negative_ties_two_components_to_one_split(tmp_path):
    path = write(tmp_path / "q.tsv", ROWS)
    for seed in range(8):
        task, _ = read_qqp(path, "fail", seed, (0.5, 0.25, 0.25))
        homes = {frozenset(split.space.left.tolist()) for split in task.splits.values()} - {frozenset()}
        assert homes == {frozenset({0, 1, 2}), frozenset({3, 4, 5, 6})}


def test_dev_and_test_hold_out_so_many_pairs_and_nothing_that_occurs_in_train(tmp_path):
    # Clusters 1-2-3 (3 pairs: too large), 4-5 and 6-7 (1 each); 8 is a lone question with the very text of 4.
    path = write(tmp_path / "q.tsv", [*ROWS, ("6", "8", "1", "Four ", "one?", "0")])
    homes = set()
    for seed in range(8):
        task, report = read_qqp(path, "fail", seed, held_out=1)
        assert task.splits["train"].positives.tolist() == [[0, 1], [0, 2], [1, 2]]
        assert task.splits["train"].space.left.tolist() == [0, 1, 2, 7]
        # Question 4 is in no split, and its partner alone.
        held = {name: task.splits[name].space.left.tolist() for name in ("dev", "test")}
        assert sorted(held.values()) == [[4], [5, 6]]
        assert "questions of dev and test that occur in train (in no split): 1" in list(report.lines())
        homes.add(str(held))
    assert len(homes) == 2
    with pytest.raises(BadOption, match="`held_out_pairs=9` for dev and again for test"):
        read_qqp(path, "fail", 0, held_out=9)


def test_the_layout_of_glue_is_the_same_task_and_its_test_file_is_ignored(tmp_path):
    whole, _ = read_qqp(write(tmp_path / "q.tsv", ROWS), "fail", 0)
    write(tmp_path / "glue" / "train.tsv", ROWS[:4], end="\r\n")
    write(tmp_path / "glue" / "dev.tsv", ROWS[4:])
    write(tmp_path / "glue" / "test.tsv", [("0", "who", "what")], header=("id", "question1", "question2"))
    glue, _ = read_qqp(tmp_path / "glue", "fail", 0)
    assert glue.digest == whole.digest


def test_a_folder_with_one_tsv_is_that_file(tmp_path):
    path = write(tmp_path / "one" / "q.tsv", ROWS)
    assert read_qqp(path.parent, "fail", 0)[0].digest == read_qqp(path, "fail", 0)[0].digest


def test_a_glue_folder_without_dev_and_a_folder_without_data_are_named(tmp_path):
    write(tmp_path / "glue" / "train.tsv", ROWS)
    with pytest.raises(BadFile, match=r"dev.tsv cannot be read"):
        read_qqp(tmp_path / "glue", "fail", 0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFile, match=r"neither GLUE's train.tsv and dev.tsv nor one TSV file"):
        read_qqp(tmp_path / "empty", "fail", 0)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("9", "8", "9", "eight", "", "0"), "its question2 is empty"),
        (("9", "8", "8", "eight", "eight", "1"), "it pairs question 8 with itself"),
        (("9", "8", "9", "eight", "nine", "yes"), "its is_duplicate is 'yes', not 0 or 1"),
        (("9", "8", "9", "eight"), "it has 4 columns, not 6"),
        (("9", "", "9", "eight", "nine", "0"), "its qid1 is empty"),
    ],
)
def test_a_malformed_row_fails_at_its_line_or_is_skipped_and_listed(tmp_path, row, said):
    good = read_qqp(write(tmp_path / "q.tsv", ROWS), "fail", 0)[0]
    path = write(tmp_path / "q.tsv", [ROWS[0], row, *ROWS[1:]])
    with pytest.raises(BadFile) as caught:
        read_qqp(path, "fail", 0)
    assert str(caught.value).startswith(f"{path}:3: {said}; fix the row, or")
    task, report = read_qqp(path, "skip", 0)
    assert [(skip.place, skip.reason) for skip in report.skipped] == [(f"{path}:3", said)]
    assert task.digest == good.digest


def test_a_line_that_is_not_utf8_is_malformed(tmp_path):
    path = write(tmp_path / "q.tsv", ROWS)
    path.write_bytes(path.read_bytes() + b"9\t8\t9\tcaf\xe9\tnine\t0\n")
    with pytest.raises(BadFile, match=r"q.tsv:8: it is not UTF-8"):
        read_qqp(path, "fail", 0)
    assert len(read_qqp(path, "skip", 0)[1].skipped) == 1


def test_repeats_and_second_texts_are_counted(tmp_path):
    extra = [("6", "2", "1", 'o"ne', "one?", "1"), ("7", "4", "8", "FOUR", "six", "0")]
    task, report = read_qqp(write(tmp_path / "q.tsv", [*ROWS, *extra]), "fail", 0, ALL_TRAIN)
    assert task.left.texts[3] == "four"
    assert list(report.lines()) == [
        "labelled pairs taken: 8",
        "rows that repeat a pair: 1",
        "negative rows inside a component of positives (the closure wins): 1",
        "question ids with a second text (the first is used): 1",
        "texts under more than one question id (kept apart, as labelled): 1",
    ]


def test_a_file_without_rows_is_refused(tmp_path):
    with pytest.raises(BadFile, match="holds no labelled pair"):
        read_qqp(write(tmp_path / "q.tsv", []), "fail", 0)
    (tmp_path / "q.tsv").write_bytes(b"")
    with pytest.raises(BadFile, match="is not the header id qid1"):
        read_qqp(tmp_path / "q.tsv", "fail", 0)


def test_the_subset_is_taken_whole(real_data):
    task, report = read_qqp(real_data / "qqp", "fail", 0)
    splits = [task.splits[name] for name in SPLITS]
    assert report.settled["labelled pairs taken"] == 92_406
    assert len(task.left) == 99_328
    assert sum(len(split.positives) for split in splits) == 153_553
    # 12,627 negatives are stated, 2 of them inside a component of positives.
    assert sum(len(split.stated_negatives) for split in splits) == 12_625
    assert [len(split.space.left) for split in splits] == [49_665, 24_831, 24_832]
    known = np.concatenate([pairs for split in splits for pairs in (split.positives, split.stated_negatives)])
    home = np.concatenate([np.full(len(split.space.left), n) for n, split in enumerate(splits)])
    home = home[np.argsort(np.concatenate([split.space.left for split in splits]))]
    component = components(len(task.left), known)
    highest, lowest = np.full(len(component), -1), np.full(len(component), 9)
    np.maximum.at(highest, component, home)
    np.minimum.at(lowest, component, home)
    assert np.array_equal(highest[component], lowest[component]), "no component crosses splits"
