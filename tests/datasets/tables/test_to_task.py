"""A user's own tables: one task whatever the format, worked by hand, by law, and against slow twins."""

import csv
import datetime
import decimal
import json
import tempfile
import uuid
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.task import SPLITS
from al_ray.datasets.qqp import read_qqp
from al_ray.datasets.tables import pair_labels as stated
from al_ray.datasets.tables.options import OwnTexts, column_names
from al_ray.datasets.tables.to_task import read_own
from al_ray.datasets.task_folder import read_task, write_task

FORMATS = ("csv", "tsv", "jsonl", "parquet")
ALL_TRAIN, SHARED = (1.0, 0.0, 0.0), (0.5, 0.25, 0.25)
NAMES = ("sku", "title", "brand")
PRODUCTS = [
    ("A1", "Trail shoe", "Lopez"),
    ("A2", ' Running "shoe", red ', None),
    ("B7", "Rain\njacket", "Ørn"),
    ("B8", "", "Ørn"),
    ("C3", "Wool socks", "  "),
]
TEXTS = ("Trail shoe Lopez", 'Running "shoe", red', "Rain\njacket Ørn", "Ørn", "Wool socks")
LABELS = [("A1", "A2", "yes"), ("A2", "B7", " TRUE"), ("B7", "A1", "0"), ("C3", "B7", "no"), ("A1", "C3", None)]


def write(path, names, rows):
    """A table in the format that its name says."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="," if path.suffix == ".csv" else "\t").writerows([names, *rows])
    elif path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(names, map(plain, row), strict=True))) for row in rows]
        path.write_text("".join(line + "\n" for line in lines))
    else:
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        pq.write_table(pa.table([column(list(values)) for values in columns], names=list(names)), path)
    return path


def plain(value):
    return str(value) if isinstance(value, uuid.UUID) else value


def column(values):
    if any(isinstance(value, uuid.UUID) for value in values):
        return pa.array([value.bytes for value in values], pa.uuid())
    return pa.array(values) if any(value is not None for value in values) else pa.array(values, pa.string())


def own(shares=ALL_TRAIN, **options):
    options = {name: Path(value) if name in PATHS else value for name, value in options.items()}
    return read_own(OwnTexts(**{"text_columns": "title,brand", **options}), shares)


PATHS = ("left", "right", "labels", "source")


def products(folder, form="csv", rows=PRODUCTS):
    return {"left": write(folder / f"items.{form}", NAMES, rows), "id_column": "sku"}


@pytest.mark.parametrize("forms", [("csv", "tsv"), ("jsonl", "parquet"), ("parquet", "csv"), ("csv", "csv", "csv")])
def test_a_fault_of_several_files_names_its_file_and_line(tmp_path, forms):
    rows = [[(f"{n}-A1", "Shoe", "Lopez"), (f"{n}-B7", "Coat", None)] for n in range(len(forms))]
    files = [write(tmp_path / f"{n}.{form}", NAMES, own) for n, (form, own) in enumerate(zip(forms, rows, strict=True))]
    options = OwnTexts(left=tuple(files), id_column="sku", text_columns="title,brand")
    assert read_own(options, ALL_TRAIN)[0].left.ids == tuple(row[0] for own in rows for row in own)
    last = len(forms) - 1
    write(files[last], NAMES, [*rows[last], (f"{last - 1}-B7", "Hat", None), ("X", "", None)])
    # Rows of Parquet count from 0, lines from 1, after a header or none.
    first = {"csv": 2, "tsv": 2, "jsonl": 1, "parquet": 0}
    place = [f"{file}:{'row ' * (form == 'parquet')}" for file, form in zip(files, forms, strict=True)]
    twice, empty = (f"{place[last]}{first[forms[last]] + row}" for row in (2, 3))
    before = f"{place[last - 1]}{first[forms[last - 1]] + 1}"
    _, report = read_own(replace(options, bad_rows="skip"), ALL_TRAIN)
    assert [skip.place for skip in report.skipped] == [empty, twice]
    assert report.skipped[1].reason == f"its id is '{last - 1}-B7', as that of {before}"


def pairs(task, split="train"):
    """Positives and stated negatives of a split as ids."""
    return tuple(
        [(task.left.ids[a], task.right.ids[b]) for a, b in found.tolist()]
        for found in (task.splits[split].positives, task.splits[split].stated_negatives)
    )


@pytest.mark.parametrize("form", FORMATS)
def test_columns_are_joined_and_labels_closed_in_every_format(tmp_path, form):
    labels = write(tmp_path / f"labels.{form}", ("left", "right", "label"), LABELS)
    task, report = own(**products(tmp_path, form), labels=labels)
    assert (task.symmetric, task.name) == (True, "items")
    assert task.left.ids == ("A1", "A2", "B7", "B8", "C3")
    assert task.left.texts == TEXTS
    # A1-A2-B7 is a chain: (A1, B7) follows from it, though it was denied.
    assert pairs(task) == ([("A1", "A2"), ("A1", "B7"), ("A2", "B7")], [("B7", "C3")])
    assert list(report.lines()) == [
        f"{tmp_path}/items.{form}: 5 texts",
        # 3, 10, 15, 16 and 19 letters.
        "  characters: median 15, 95% of texts up to 19, longest 19",
        "  texts with line breaks inside (a quote left open makes such): 1",
        f"{tmp_path}/labels.{form}: 5 rows of labels",
        "labelled pairs taken: 4",
        "rows without an answer (empty or unsure: their pairs stay unlabelled): 1",
        "stated negatives inside a component of positives (the closure wins): 1",
    ]


def test_without_closure_only_what_was_said_is_a_match(tmp_path):
    labels = write(tmp_path / "labels.csv", ("left", "right", "label"), LABELS)
    task, report = own(**products(tmp_path), labels=labels, closure=False)
    assert pairs(task) == ([("A1", "A2"), ("A2", "B7")], [("A1", "B7"), ("B7", "C3")])
    assert not report.settled["stated negatives inside a component of positives (the closure wins)"]


WORDS = st.text(st.sampled_from("ab, \"';\t\n\r\\é中\u00a0\u2028\x00#"), max_size=6)
IDS = st.one_of(
    st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=7, unique=True),
    st.lists(st.integers(-(2**40), 2**40).map(float), min_size=2, max_size=7, unique=True),
    st.lists(st.uuids(), min_size=2, max_size=7, unique=True),
    st.lists(st.text("ab.1", min_size=1, max_size=3), min_size=2, max_size=7, unique=True),
)


@st.composite
def tables(draw):
    ids = draw(IDS)
    cells = st.one_of(st.none(), WORDS)
    rows = [(id, "x" + draw(WORDS), draw(cells)) for id in ids]
    chosen = st.lists(st.sampled_from(ids), min_size=2, max_size=2, unique=True)
    said = {frozenset(pair): pair for pair in draw(st.lists(chosen, max_size=6))}
    return rows, [(a, b, draw(st.sampled_from([True, False, None]))) for a, b in said.values()]


@given(tables())
@example(([(1.0, "x", None), (2.0, "y", "z")], [(2.0, 1.0, True)]))
@settings(max_examples=60)
def test_the_same_content_in_every_format_is_one_task(content):
    rows, labels = content
    tasks = []
    with tempfile.TemporaryDirectory() as place:
        for form in FORMATS:
            options = products(Path(place), form, rows)
            if labels:
                options["labels"] = write(Path(place) / f"labels.{form}", ("left", "right", "label"), labels)
            tasks.append(own(SHARED, **options)[0])
    task = tasks[0]
    assert {other.digest for other in tasks} == {task.digest}
    assert len(task.left) == len(rows)
    said = {label: [{a, b} for a, b, other in labels if other is label] for label in (True, False)}
    ids = dict(zip(task.left.ids, (id for id, *_ in rows), strict=True))
    positives, negatives = ([{ids[a], ids[b]} for name in SPLITS for a, b in pairs(task, name)[at]] for at in (0, 1))
    assert all(pair in positives for pair in said[True]), "no match is lost between splits"
    assert all(pair in said[False] for pair in negatives)
    assert all(pair in negatives or pair in positives for pair in said[False])


@given(st.lists(WORDS.map(str.strip).filter(bool), min_size=2, max_size=6, unique=True))
@settings(max_examples=40)
def test_a_text_comes_back_as_it_was_written(texts):
    with tempfile.TemporaryDirectory() as place:
        for form in FORMATS:
            path = write(Path(place) / f"t.{form}", ("n", "t"), [(n, text) for n, text in enumerate(texts)])
            assert own(left=path, text_columns="t")[0].left.texts == tuple(texts)


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (pa.array([7, 8, 9], pa.int16()), ("7", "8", "9")),
        (pa.array([2**63, 8, 9], pa.uint64()), ("9223372036854775808", "8", "9")),
        (pa.array([7.0, 8.0, -9.0]), ("7", "8", "-9")),
        (pa.array([7.0, 8.5, 9.0], pa.float32()), ("7.0", "8.5", "9.0")),
        (pa.array(["x", "y", "x.0"]).dictionary_encode(), ("x", "y", "x.0")),
        (pa.array([b"x", b"y", b"z"]), ("x", "y", "z")),
        (pa.array([decimal.Decimal("1.50"), decimal.Decimal(2), decimal.Decimal(3)]), ("1.50", "2.00", "3.00")),
        (pa.array([datetime.date(2020, 1, day) for day in (1, 2, 3)]), ("2020-01-01", "2020-01-02", "2020-01-03")),
        (
            pa.array([uuid.UUID(int=n).bytes for n in range(3)], pa.uuid()),
            tuple(str(uuid.UUID(int=n)) for n in range(3)),
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_ids_are_of_any_type(tmp_path, ids, wanted):
    pq.write_table(pa.table({"id": ids, "t": ["a", "b", "c"]}), tmp_path / "t.parquet")
    assert own(left=tmp_path / "t.parquet", id_column="id", text_columns="t")[0].left.ids == wanted


def test_an_id_that_became_a_float_in_the_labels_is_known(tmp_path):
    # A table of labels with an empty cell was kept as floats by the program that wrote it.
    (tmp_path / "t.csv").write_text("id,t\n1,a\n2,b\n3,c\n")
    (tmp_path / "l.csv").write_text("left,right,label\n1.0,2.0,1.0\n3.0,1.0,0.0\n")
    task, _ = own(left=tmp_path / "t.csv", id_column="id", text_columns="t", labels=tmp_path / "l.csv")
    assert pairs(task) == ([("1", "2")], [("1", "3")])


def test_an_id_that_stayed_a_float_in_the_texts_is_known_in_the_labels(tmp_path):
    (tmp_path / "t.csv").write_text("id,t\n1.0,a\n2.0,b\nX,c\n")
    (tmp_path / "l.csv").write_text("left,right,label\n1,2,1\nX,1.0,0\n")
    task, _ = own(left=tmp_path / "t.csv", id_column="id", text_columns="t", labels=tmp_path / "l.csv")
    assert pairs(task) == ([("1.0", "2.0")], [("1.0", "X")])


def test_a_whole_number_is_in_one_of_several_files_however_it_is_spelled(tmp_path):
    (tmp_path / "may.csv").write_text("id,t\n1,a\n2.0,b\nX,c\n3,d\n3.0,e\n")
    (tmp_path / "june.csv").write_text("id,t\n1.0,f\nY,g\n2,h\n7.0,i\n")
    files = tmp_path / "may.csv", tmp_path / "june.csv"
    task, report = read_own(OwnTexts(left=files, id_column="id", text_columns="t", bad_rows="skip"), ALL_TRAIN)
    assert task.left.ids == ("1", "2.0", "X", "3", "3.0", "Y", "7.0")
    assert [skip.reason for skip in report.skipped] == [
        f"its id is '1', as that of {files[0]}:2",
        f"its id is '2.0', as that of {files[0]}:3",
    ]


def test_rows_are_numbered_as_the_file_has_them_whatever_is_skipped(tmp_path):
    (tmp_path / "t.csv").write_text("t,u\n\na,1\nb\nc,3\n,4\ne,5\n")
    task, report = own(left=tmp_path / "t.csv", text_columns="t", bad_rows="skip")
    assert task.left.ids == ("0", "2", "4")
    assert [(skip.place, skip.reason) for skip in report.skipped] == [
        (f"{tmp_path}/t.csv:4", "it has 1 columns, not 2 as the first row"),
        (f"{tmp_path}/t.csv:6", "its text (column 't') is empty"),
    ]


@pytest.mark.parametrize("said", stated.YES + stated.NO + ("Yes", " NO ", "True"))
def test_the_words_of_a_label(tmp_path, said):
    labels = write(tmp_path / "l.csv", ("a", "b", "y"), [("A1", "C3", said)])
    task, _ = own(**products(tmp_path), labels=labels, label_columns="a,b,y")
    match = said.strip().lower() in stated.YES
    assert pairs(task) == (([("A1", "C3")], []) if match else ([], [("A1", "C3")]))


def test_labels_of_two_columns_are_all_matches(tmp_path):
    labels = write(tmp_path / "l.csv", ("a", "b"), [("C3", "A1")])
    assert pairs(own(**products(tmp_path), labels=labels, label_columns="a,b")[0]) == ([("A1", "C3")], [])


def test_repeats_unsure_answers_and_a_second_opinion_are_counted(tmp_path):
    rows = [("A1", "A2", 1), ("A2", "A1", 1), ("A1", "B7", "unsure"), ("A2", "A1", 0), ("A1", "B8", 0)]
    labels = write(tmp_path / "l.csv", ("left", "right", "label"), rows)
    with pytest.raises(BadFile, match=r"l.csv:5: its label is no, but .*l.csv:2 labels the same pair yes; fix"):
        own(**products(tmp_path), labels=labels)
    task, report = own(**products(tmp_path), labels=labels, bad_rows="skip")
    assert pairs(task) == ([("A1", "A2")], [("A1", "B8")])
    assert [report.settled[name] for name in report.settled][:3] == [2, 1, 1]
    assert [skip.place for skip in report.skipped] == [f"{tmp_path}/l.csv:5"]


def shop(tmp_path, **more):
    """Two collections whose columns have other names; L0 and L1 share the match R0, L1 and L2 the non-match R1."""
    left = write(tmp_path / "ours.csv", ("id", "t"), [(f"L{n}", f"left {n}") for n in range(8)])
    right = write(tmp_path / "theirs.jsonl", ("key", "u"), [(f"R{n}", f"right {n}") for n in range(3)])
    rows = [("L0", "R0", 1), ("L1", "R0", 1), ("L1", "R1", 0), ("L2", "R1", 0)]
    labels = write(tmp_path / "l.tsv", ("left", "right", "label"), rows)
    names = {"id_column": "id", "text_columns": "t", "right_id_column": "key", "right_text_columns": "u"}
    return {"left": left, "right": right, "labels": labels, **names, **more}


def test_two_collections_have_no_closure_and_every_right_text_in_every_split(tmp_path):
    task, _ = own(**shop(tmp_path))
    assert (task.symmetric, task.name) == (False, "ours x theirs")
    assert task.right.texts == ("right 0", "right 1", "right 2")
    assert pairs(task) == ([("L0", "R0"), ("L1", "R0")], [("L1", "R1"), ("L2", "R1")])
    parted = False
    for seed in range(12):
        task, _ = own(SHARED, **shop(tmp_path), seed=seed)
        assert all(split.space.right.tolist() == [0, 1, 2] for split in task.splits.values())
        home = {row: name for name, split in task.splits.items() for row in split.space.left.tolist()}
        assert sorted(home) == list(range(8))
        assert home[0] == home[1], "left texts that share a match stay together"
        parted |= home[1] != home[2]
        assert sorted(pair for name in SPLITS for pair in pairs(task, name)[0]) == [("L0", "R0"), ("L1", "R0")]
        assert sorted(pair for name in SPLITS for pair in pairs(task, name)[1]) == [("L1", "R1"), ("L2", "R1")]
    assert parted, "a shared non-match ties nobody"


SOURCE = [("how", "why", 1), ("why", "who", 0), ("when", "how", None), ("why", "how", 1)]


def source(tmp_path, rows=SOURCE, names=("one", "two", "same")):
    return {"source": write(tmp_path / "pairs.csv", names, rows), "text_columns": "one,two", "label_column": "same"}


def test_equal_texts_of_labelled_pairs_become_one(tmp_path):
    task, report = own(**source(tmp_path))
    assert task.symmetric
    assert task.left.ids == ("0", "1", "2", "3")
    assert task.left.texts == ("how", "why", "who", "when")
    assert pairs(task) == ([("0", "1")], [("1", "2")])
    lines = list(report.lines())
    assert lines[:2] == [f"{tmp_path}/pairs.csv: 4 rows", f"{tmp_path}/pairs.csv, both texts: 4 texts"]
    assert lines[3:] == [
        "labelled pairs taken: 2",
        "rows without an answer (empty or unsure: their pairs stay unlabelled): 1",
        "rows that repeat a pair: 1",
    ]


def test_two_sided_pairs_are_first_texts_times_second_ones(tmp_path):
    task, _ = own(**source(tmp_path, [*SOURCE, ("who", "who", 1)]), two_sided=True)
    assert task.left.texts == ("how", "why", "when", "who")
    assert task.right.texts == ("why", "who", "how")
    # (how, why), (why, how) and (who, who) are three pairs here.
    assert pairs(task) == ([("0", "0"), ("1", "2"), ("3", "1")], [("1", "1")])


def test_records_side_by_side_are_halves_of_the_text_columns(tmp_path):
    path = write(tmp_path / "p.csv", ("t1", "b1", "t2", "b2"), [("a", "b", "c", None), ("c", None, "d", "e")])
    task, _ = own(source=path, text_columns="t1,b1,t2,b2")
    assert task.left.texts == ("a b", "c", "d e")
    assert not any(len(split.positives) + len(split.stated_negatives) for split in task.splits.values())


def test_a_given_split_is_kept_and_labels_across_it_belong_to_none(tmp_path):
    homes = ("train", "Validation", "train ", "dev", "TEST")
    rows = [(*row, home) for row, home in zip(PRODUCTS, homes, strict=True)]
    left = write(tmp_path / "items.csv", (*NAMES, "part"), rows)
    said = [("A1", "B7", 1), ("A2", "B8", 0), ("A1", "C3", 0)]
    labels = write(tmp_path / "l.csv", ("left", "right", "label"), said)
    task, report = own(left=left, id_column="sku", split_column="part", labels=labels)
    assert [split.space.left.tolist() for split in task.splits.values()] == [[0, 2], [1, 3], [4]]
    assert (pairs(task, "train"), pairs(task, "dev")) == (([("A1", "B7")], []), ([], [("A2", "B8")]))
    assert report.settled["known pairs that cross the given splits (they belong to none)"] == 1


def test_a_text_of_labelled_pairs_has_one_split_and_the_first_row_says_which(tmp_path):
    rows = [("a", "b", 1, "train"), ("b", "c", 0, "dev"), ("c", "d", 1, "dev"), ("e", "f", 0, "test")]
    options = source(tmp_path, rows, ("one", "two", "same", "part"))
    with pytest.raises(
        BadFile, match=r"pairs.csv:3: it is in dev, but .*:2 puts a text of it in train \(or leave it to `split`"
    ):
        own(**options, split_column="part")
    task, report = own(**options, split_column="part", bad_rows="skip")
    assert task.left.texts == tuple("abcdef")
    assert [split.space.left.tolist() for split in task.splits.values()] == [[0, 1], [2, 3], [4, 5]]
    assert len(report.skipped) == 1
    two_sided, report = own(**options, split_column="part", two_sided=True)
    assert (len(two_sided.left), len(report.skipped)) == (4, 0), "right texts are in every split"


ROW = st.tuples(st.sampled_from("abcdefghij"), st.sampled_from("abcdefghij"), st.booleans())


@given(st.lists(ROW.filter(lambda row: row[0] != row[1]), min_size=1, max_size=12), st.booleans(), st.integers(0, 3))
@settings(max_examples=60)
def test_no_stated_pair_is_lost_between_dealt_splits(rows, two_sided, seed):
    first = {}
    for one, two, label in rows:
        first.setdefault((one, two) if two_sided else tuple(sorted((one, two))), label)
    with tempfile.TemporaryDirectory() as place:
        task, report = own(
            SHARED, **source(Path(place), rows), two_sided=two_sided, closure=False, seed=seed, bad_rows="skip"
        )
    said = sum(len(split.positives) + len(split.stated_negatives) for split in task.splits.values())
    assert said == len(first)
    assert len(report.skipped) == sum(
        first[(one, two) if two_sided else tuple(sorted((one, two)))] != label for one, two, label in rows
    )
    assert sum(len(split.space.left) for split in task.splits.values()) == len(task.left)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"A,x\nB,y\n", {"header": False, "text_columns": "1", "id_column": "0"}),
        (b"id;t\nA;x\nB;y\n", {"delimiter": ";"}),
        (b"id\tt\nA\tx\nB\ty\n", {"delimiter": "tab"}),
        (b"id\tt\nA\tx\nB\ty\n", {"format": "tsv"}),
        (b'\xef\xbb\xbf"id", t \r\n\r\nA,x\r\nB,y', {}),
        (b"id,t\rA,x\rB,y\r", {}),
        ("id,t\nA,x\nB,y\n".encode("utf-16"), {"encoding": "utf-16"}),
        ("\ufeffid,t\nA,x\nB,y\n".encode("utf-16-le"), {"encoding": "utf_16_le"}),
        (b'{"id": "A", "t": "x"}\n\n{"t": "y", "id": "B", "z": [1]}\r\n', {"format": "jsonl"}),
    ],
    ids=["no header", "semicolon", "tab", "tsv", "BOM, CRLF, spaces", "CR", "utf-16", "utf-16-le", "jsonl"],
)
def test_ways_to_write_the_same_table(tmp_path, content, options):
    (tmp_path / "t.csv").write_bytes(content)
    task, _ = own(left=tmp_path / "t.csv", **{"id_column": "id", "text_columns": "t", **options})
    assert (task.left.ids, task.left.texts) == (("A", "B"), ("x", "y"))


def test_where_quotes_are_letters_they_stay_and_only_a_line_feed_ends_a_line(tmp_path):
    (tmp_path / "t.tsv").write_bytes(b'id\tt\r\n1\t"what is "ice\r\n2\ta\rb\xc2\x85c"\r\n')
    task, _ = own(left=tmp_path / "t.tsv", id_column="id", text_columns="t", quoting="none")
    assert task.left.texts == ('"what is "ice', 'a\rb\x85c"')


def test_an_encoding_is_minded(tmp_path):
    (tmp_path / "t.csv").write_bytes("t\ncafé\nthé\n".encode("cp1252"))
    assert own(left=tmp_path / "t.csv", text_columns="t", encoding="cp1252")[0].left.texts == ("café", "thé")


def test_a_bad_row_stands_at_the_line_where_it_begins(tmp_path):
    """Records of several lines come before it, and a block of rows that were sound."""
    rows = b'1,"a\n\nb"\n' * 2 + b"2,c\n" * 20_000
    (tmp_path / "t.csv").write_bytes(b"id,t\n" + rows + b'9,"x\ny",z\n8,caf\xe9\n7,"a"b\n6,d\n')
    _, report = own(left=tmp_path / "t.csv", text_columns="t", bad_rows="skip")
    assert [(skip.place.rpartition(":")[2], skip.reason[:19]) for skip in report.skipped] == [
        ("20008", "it has 3 columns, n"),
        ("20011", "its quotes are wron"),
        ("20010", "it is not utf-8 (ha"),
    ]


def test_json_values_are_one_thing_each(tmp_path):
    cells = ['"a"', "12", "1.5", "true", "NaN", "null", "[[1]]", '{"a": 1}', '"\\ud800"', "1e400"]
    lines = ["{" + f'"t": {cell}, "u": "-"' + "}" for cell in cells]
    (tmp_path / "t.jsonl").write_text("\n".join([*lines, "[1]", "{", "[" * 100_000, '{"u": "only"}']))
    task, report = own(left=tmp_path / "t.jsonl", text_columns="t,u", bad_rows="skip")
    assert task.left.texts == ("a -", "12 -", "1.5 -", "true -", "-", "-", "inf -", "only")
    # What only Arrow finds (line 9) is said after its block.
    assert [skip.place.rpartition(":")[2] for skip in report.skipped] == ["7", "8", "11", "12", "13", "9"]
    assert [skip.reason.partition(" (")[0] for skip in report.skipped] == [
        "its 't' has lists within a list, not texts",
        "its 't' is a dict, not text",
        "it is not a JSON object but '[1]'; each line must be one object",
        "it is not JSON",
        "it is nested too deep",
        "it is not utf-8",
    ]


def test_a_chain_of_wrong_matches_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    chain = [(a, b, 1) for (a, *_), (b, *_) in pairwise(PRODUCTS)]
    labels = write(tmp_path / "l.csv", ("left", "right", "label"), chain)
    monkeypatch.setattr(stated, "CLOSURE_PAIRS", 9)
    with pytest.raises(BadFile, match=r"chain 5 texts into one component, 10 matches by closure; .*`closure=False`"):
        own(**products(tmp_path), labels=labels)
    assert len(own(**products(tmp_path), labels=labels, closure=False)[0].splits["train"].positives) == 4


def test_texts_under_several_ids_are_kept_apart_and_counted(tmp_path):
    task, report = own(**products(tmp_path, rows=[*PRODUCTS, ("D1", "Ørn", None)]))
    assert len(task.left) == 6
    assert "  texts that stand under an earlier id too (kept apart): 1" in list(report.lines())


def test_a_name_that_holds_a_comma_stands_in_quotes():
    assert column_names("--text-columns", 'a, "b, c"') == ("a", "b, c")


def test_the_data_sets_come_out_as_by_their_own_readers(real_data):
    """Two readers that share no parsing: QQP as labelled pairs, and the questions and sentences of WikiQA's train."""
    path = next((real_data / "qqp").glob("*.tsv"))
    columns = {"text_columns": "question1,question2", "label_column": "is_duplicate"}
    task, _ = own(SHARED, source=path, quoting="none", **columns)
    theirs, _ = read_qqp(path, "fail", 0, SHARED)
    assert task.left.texts == theirs.left.texts
    for name in SPLITS:
        for part in ("positives", "stated_negatives"):
            assert np.array_equal(getattr(task.splits[name], part), getattr(theirs.splits[name], part))
    columns = {"text_columns": "Question,Sentence", "label_column": "Label"}
    path = real_data / "wikiqa" / "WikiQA-train.tsv"
    task, report = own(source=path, quoting="none", two_sided=True, **columns)
    # The published counts are 1,040 and 19,320; two of the rows repeat a question with the same sentence.
    assert [len(found) for found in pairs(task)] == [1040, 19_318]
    assert report.settled["rows that repeat a pair"] == 2


OFFERS = [
    ("A1", "Trail shoe", "de", "shop"),
    ("A2", "Shoe for trails", "de", "feed"),
    ("B7", "Rain jacket", "de", "shop"),
    ("B8", "Rain coat", "fr", "feed"),
    ("C3", "Wool socks", "fr", None),
    ("C4", "Socks of wool", "fr", None),
]
OFFER_COLUMNS = ("sku", "title", "country", "source")


def offers(path: Path, rows=OFFERS, **options):
    """The task of the offers in one table, with labels, and its report."""
    table = write(path / "offers.csv", OFFER_COLUMNS, rows)
    labels = write(path / "labels.csv", ("left", "right", "label"), [("A1", "A2", "yes"), ("B7", "B8", "yes")])
    task, report = own(left=table, id_column="sku", text_columns="title", labels=labels, **options)
    return task, "\n".join(report.lines())


def pairs_of(task) -> set[str]:
    space = task.split("train").space
    left, right = task.ids_of(space.pairs(space.at(np.arange(space.total))))
    return {f"{a} {b}" for a, b in zip(left, right, strict=True)}


def test_pairs_of_two_countries_or_of_one_source_are_no_part_of_the_pool(tmp_path):
    every = {"A1 A2", "A1 B7", "A2 B7", "B8 C3", "B8 C4", "C3 C4"}
    task, report = offers(tmp_path, same="country")
    assert pairs_of(task) == every
    assert "`same='country'`: 6 of 15 pairs can match (40.00%)" in report
    # A1 and A2 match, and so would B7 and B8, if not for their countries.
    assert task.ids_of(task.split("train").positives) == (["A1"], ["A2"])
    assert "MATCHES that `same` or `different` exclude (no search can find them): 1" in report
    # A source that is not known may be any: C3 and C4 can match each other and B8.
    task, report = offers(tmp_path, same="country", different="source")
    assert pairs_of(task) == every - {"A1 B7"}
    assert "`same='country'` `different='source'`: 5 of 15 pairs can match (33.33%)" in report
    assert len(pairs_of(offers(tmp_path, different="source")[0])) == 15 - 2
    with_source = [row for row in OFFERS if row[3] is not None]
    assert pairs_of(offers(tmp_path, with_source, same="country,source")[0]) == {"A1 B7"}


def test_the_rules_of_two_tables_compare_their_values(tmp_path):
    left = write(tmp_path / "ours.csv", OFFER_COLUMNS, OFFERS[:3])
    right = write(
        tmp_path / "theirs.parquet", OFFER_COLUMNS, [OFFERS[3], ("D1", "Trail shoes", "de", "feed"), OFFERS[4]]
    )
    task, _ = own(left=left, right=right, id_column="sku", text_columns="title", same="country", different="source")
    assert pairs_of(task) == {"A1 D1", "B7 D1"}


def test_a_text_without_a_value_to_be_the_same_is_a_bad_row(tmp_path):
    rows = [*OFFERS[:5], ("C4", "Socks of wool", None, "shop")]
    with pytest.raises(
        BadFile, match=r"offers.csv:7: its 'country' is empty, so it is unknown .* \(`same='country'`\)"
    ):
        offers(tmp_path, rows, same="country")
    assert len(offers(tmp_path, rows, same="country", bad_rows="skip")[0].left) == 5


def test_a_rule_is_part_of_the_task_and_survives_its_folder(tmp_path):
    plain_task, same, different = (
        offers(tmp_path, **rule)[0] for rule in ({}, {"same": "country"}, {"different": "source"})
    )
    assert len({plain_task.digest, same.digest, different.digest}) == 3
    for task in (same, different):
        write_task(task, tmp_path / task.digest[:8], {})
        read = read_task(tmp_path / task.digest[:8])
        assert read.rule is not None
        assert task.rule is not None
        assert pairs_of(read) == pairs_of(task)
        assert read.rule.describe() == task.rule.describe()
    groups = tmp_path / same.digest[:8] / "left-groups.parquet"
    for damage, words in (
        (pa.table({"same": pa.array([0, 0, 0, 0, 0, 1], pa.int32())}), "do not match the digest"),
        (pa.table({"same": pa.array([0, 0], pa.int32())}), "does not have a group for each text"),
        (pa.table({"same": pa.array([0, 0, 0, 1, 1, None], pa.int32())}), "has empty cells in column 'same'"),
        (pa.table({"other": pa.array([0], pa.int32())}), "holds other"),
    ):
        pq.write_table(damage, groups)
        with pytest.raises(BadFile, match=words):
            read_task(groups.parent)
    groups.unlink()
    with pytest.raises(BadFile, match="left-groups"):
        read_task(groups.parent)
    (groups.parent / "rule.json").write_text('{"like": ["country"]}')
    with pytest.raises(BadFile, match="holds other conditions than same and different"):
        read_task(groups.parent)


def test_whole_numbers_are_one_value_in_every_format(tmp_path):
    left = write(tmp_path / "ours.csv", ("sku", "title", "year"), [("A1", "Shoe", 2019), ("A2", "Coat", 2020)])
    names, rows = ("sku", "title", "year"), [("D1", "Shoes", 2019.0), ("D2", "Coats", 2020.0)]
    right = write(tmp_path / "theirs.parquet", names, rows)
    for rule, pairs in (({"same": "year"}, {"A1 D1", "A2 D2"}), ({"different": "year"}, {"A1 D2", "A2 D1"})):
        task, _ = own(left=left, right=right, id_column="sku", text_columns="title", **rule)
        assert pairs_of(task) == pairs


def test_a_rule_by_which_nothing_can_match_is_refused(tmp_path):
    with pytest.raises(BadOption, match="`same='sku'`: no two texts can match; name other columns"):
        offers(tmp_path, same="sku")
