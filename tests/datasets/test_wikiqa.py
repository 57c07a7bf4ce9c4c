"""WikiQA: the published counts, and a small one worked by hand."""

import pytest

from al_ray.core.errors import BadFile
from al_ray.datasets.task_folder import counts
from al_ray.datasets.tsv import SkippedRow
from al_ray.datasets.wikiqa import HEADER, read_wikiqa

TRAIN = [
    ("Q1", 'what is "ice', "D1", "Ice", "D1-0", "Ice is cold", "1"),
    ("Q1", 'what is "ice', "D1", "Ice", "D1-1", 'It "melts', "0"),
    ("Q2", "who", "D2", "Who", "D2-0", "A band .", "0"),
]
DEV = [("Q3", "why", "D1", "Ice", "D1-1", 'It "melts', "1")]
TEST = [("Q4", "how", "D3", "How", "D3-0", "Somehow", "0")]


def write(folder, train=TRAIN, dev=DEV, test=TEST, end="\r\n", header=HEADER):
    for name, rows in (("train", train), ("dev", dev), ("test", test)):
        lines = ["\t".join(row) + end for row in (header, *rows)]
        (folder / f"WikiQA-{name}.tsv").write_text("".join(lines), newline="", encoding="utf-8")
    return folder


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_every_question_meets_the_sentences_of_all_splits(tmp_path, end):
    task, report = read_wikiqa(write(tmp_path, end=end), "fail")
    assert not task.symmetric
    assert task.left.ids == ("Q1", "Q2", "Q3", "Q4")
    assert task.left.texts[0] == 'what is "ice', "a quote is a letter"
    assert task.right.ids == ("D1-0", "D1-1", "D2-0", "D3-0")
    assert task.right.texts == ("Ice . Ice is cold", 'Ice . It "melts', "Who . A band .", "How . Somehow")
    assert {name: split.space.left.tolist() for name, split in task.splits.items()} == {
        "train": [0, 1],
        "dev": [2],
        "test": [3],
    }
    assert all(split.space.right.tolist() == [0, 1, 2, 3] for split in task.splits.values())
    assert task.splits["train"].positives.tolist() == [[0, 0]]
    assert task.splits["train"].stated_negatives.tolist() == [[0, 1], [1, 2]]
    assert task.splits["dev"].positives.tolist() == [[2, 1]]
    assert list(report.lines()) == []


def test_the_published_counts(real_data):
    task, report = read_wikiqa(real_data / "wikiqa", "fail")
    found = {name: counts(split) for name, split in task.splits.items()}
    # 2,118 questions x 26,270 sentences = 55,639,860: the 56 million of the paper's Table 1.
    assert {name: tuple(count.values()) for name, count in found.items()} == {
        "train": (2118, 26270, 55_639_860, 1040, 19_320),
        "dev": (296, 26270, 7_775_920, 140, 2_593),
        "test": (633, 26270, 16_628_910, 293, 5_872),
    }
    assert task.right.texts[0].startswith("Glacier cave . A partly submerged glacier cave")
    assert list(report.lines()) == []


def test_a_second_text_of_an_id_and_a_repeated_pair_are_counted(tmp_path):
    again = ("Q1", "what is ice", "D1", "Ice", "D1-0", "Ice is warm", "0")
    task, report = read_wikiqa(write(tmp_path, train=[*TRAIN, again]), "fail")
    assert task.left.texts[0] == 'what is "ice'
    assert task.right.texts[0] == "Ice . Ice is cold"
    assert task.splits["train"].stated_negatives.tolist() == [[0, 1], [1, 2]], "of both labels the positive stands"
    assert sorted(report.settled.values()) == [1, 1, 1]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("Q2", "who", "D2", "Who", "D2-1", "x"), "it has 6 columns, not 7"),
        (("Q2", "who", "D2", "Who", "D2-1", "x", "y", "0"), "it has 8 columns, not 7"),
        (("Q2", " ", "D2", "Who", "D2-1", "x", "0"), "its Question is empty"),
        (("Q2", "who", "D2", "Who", "D2-1", "", "0"), "its Sentence is empty"),
        (("Q2", "who", "D2", "Who", "D2-1", "x", "2"), "its Label is '2', not 0 or 1"),
    ],
)
def test_a_malformed_row_fails_at_its_line_or_is_skipped_and_listed(tmp_path, row, said):
    folder = write(tmp_path, train=[*TRAIN, row])
    place = f"{folder / 'WikiQA-train.tsv'}:5"
    with pytest.raises(BadFile) as caught:
        read_wikiqa(folder, "fail")
    assert str(caught.value) == f"{place}: {said}; fix the row, or leave such rows out with `bad_rows='skip'`"
    task, report = read_wikiqa(folder, "skip")
    assert report.skipped == (SkippedRow(place, said),)
    assert list(report.lines()) == ["rows skipped: 1", f"  {place}: {said}"]
    assert task.digest == read_wikiqa(write(tmp_path), "fail")[0].digest


def test_a_question_of_two_splits_is_refused(tmp_path):
    with pytest.raises(BadFile, match="question Q1 is in two splits"):
        read_wikiqa(write(tmp_path, test=TRAIN[:1]), "fail")


def test_a_wrong_header_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(BadFile, match=r"WikiQA-train.tsv:1 is not the header QuestionID Question"):
        read_wikiqa(write(tmp_path, header=("a", "b")), "fail")
    (tmp_path / "WikiQA-train.tsv").unlink()
    with pytest.raises(BadFile, match=r"WikiQA-train.tsv cannot be read .*give `source`"):
        read_wikiqa(tmp_path, "fail")
