"""jobs.prepare pairs from outside: what it writes and prints, and a table of bad inputs that it refuses in one line."""

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.cli import prepare, run
from al_ray.cli._shared import entry
from al_ray.core.errors import MissingSplit
from al_ray.datasets.task_folder import read_task

ROOT = Path(__file__).resolve().parents[2]
TEXTS = "id,t,u,part\n1,one,a,train\n2,two,b,dev\n3,three,c,test\n"
LABELS = "left,right,label\n1,2,1\n2,3,0\n"
PAIRS = "one,two,label\nhow,why,1\nwhy,who,0\n"
OWN = "--id-column id --text-columns t"
SOUND = "--left t.csv --id-column id --text-columns t"
LABELLED = f"{SOUND} --labels l.csv"
LINES, PARQUET = "--left t.jsonl --text-columns t", "--left t.parquet --text-columns t"
SOURCE = "--source p.csv --text-columns one,two --label-column label"


def here(monkeypatch, line):
    """The job in this process: quicker than a new one."""
    monkeypatch.setattr(sys, "argv", ["prepare", "pairs", *shlex.split(line)])
    entry.job(prepare.main)


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def put(folder, **files):
    """Sound files with others over them; a double underscore stands for the dot in a name."""
    for name, content in {"t__csv": TEXTS, "l__csv": LABELS, "p__csv": PAIRS, **files}.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_the_types_of_columns_are_printed_and_corrected(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(put(tmp_path, p__csv="t1,n1,t2,n2,label\nhow,1,why,2,1\nwho,3,what,4,0\n"))
    here(monkeypatch, "--left t.csv --id-column id --text-columns t,u,id --fields u:category id:code --out one")
    here(monkeypatch, "--source p.csv --text-columns t1,n1,t2,n2 --label-column label --fields n1:code --out two")
    here(monkeypatch, "--left t.csv --right p.csv --text-columns t,id --right-text-columns t1,n1 --out three")
    lines = [line for line in capsys.readouterr().out.splitlines() if "TYPE" in line]
    assert lines == [
        f"fields: {types} (to change a type: --fields NAME:TYPE)"
        for types in ("t is name, u is category, id is code", "t1 is name, n1 is code", "t is name, id is number")
    ]
    fields = read_task(tmp_path / "three").right.fields
    assert fields is not None
    assert (fields.names, fields.types) == (("t1", "n1"), ("name", "number"))


def test_a_task_is_written_and_told_of(tmp_path):
    put(tmp_path)
    command = [sys.executable, "-W", "error", "-m", "jobs.prepare", "pairs", *shlex.split(LABELLED), "--out", "made/t"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:5] == [
        "t.csv: 3 texts",
        "  characters: median 3, 95% of texts up to 5, longest 5",
        "l.csv: 2 rows of labels",
        "labelled pairs taken: 2",
        "t: 3 texts",
    ]
    # All three texts hang together, by a match and a non-match: they are of one split, of which train is the largest.
    assert done.stdout.splitlines()[6].split() == ["train", "3", "3", "3", "1", "1", "3", "pairs"]
    assert done.stdout.splitlines()[-1] == (
        "no match is known in dev or test: evaluation there needs labels of its pairs or an audit"
    )
    assert read_task(tmp_path / "made" / "t").splits["train"].positives.tolist() == [[0, 1]]
    made = json.loads((tmp_path / "made" / "t" / "task.json").read_text())["provenance"]
    assert (made["command"], made["left"], made["closure"]) == ("prepare pairs", "t.csv", True)


def test_without_labels_the_task_is_fine_and_it_is_said_what_is_wanting(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(put(tmp_path))
    here(monkeypatch, f"{SOUND} --split 1,0,0 --out t")
    assert capsys.readouterr().out.splitlines()[-1] == (
        "no pair is labelled: pairs can be chosen and labelled; evaluation needs labels of dev pairs or an audit"
    )
    assert read_task(tmp_path / "t").splits["train"].space.total == 3


def test_texts_of_several_columns_end_with_the_command_of_a_run_with_a_matcher(tmp_path, monkeypatch, capsys):
    rows = "".join(f"{part}{n},t{n},{number},{part}\n" for part in ("train", "dev") for number, n in enumerate("ab"))
    monkeypatch.chdir(put(tmp_path, t__csv="id,t,u,part\n" + rows, l__csv="a,b\ntraina,trainb\ndeva,devb\n"))
    texts = "--left t.csv --id-column id --text-columns t,u"
    known = f"{texts} --labels l.csv --label-columns a,b --labels-are complete"
    said = {
        f"{texts} --split 1,0,0": "--oracle page --first-batch 60 --rounds 5 --evaluation.splits",
        f"{texts} --labels l.csv --label-columns a,b --split 1,0,0": (
            "--oracle page --first-batch 60 --rounds 5 --evaluation.splits"
        ),
        f"{known} --split 1,0,0": "--growth 1 --first-batch 60 --rounds 5 --evaluation.splits train",
        f"{known} --split-column part": "--growth 1 --first-batch 60 --rounds 5 --evaluation.splits dev",
    }
    for number, (line, options) in enumerate(said.items()):
        here(monkeypatch, f"{line} --out 'my task {number}'")
        command = f"--task 'my task {number}' {options} --recipe records --out DIR"
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == f"next, as texts have 2 columns: python -m jobs.run {command}"
        asked = run.parse_arguments(shlex.split(command))
        read = read_task(tmp_path / f"my task {number}")
        for split in asked.run.evaluation.splits:
            assert len(read.measurable(split).positives)


def test_nothing_is_wanting_where_every_split_has_a_match(tmp_path, monkeypatch, capsys):
    rows = "".join(f"{part}{n},t{n},{part}\n" for part in ("train", "dev", "test") for n in "ab")
    labels = "a,b\n" + "".join(f"{part}a,{part}b\n" for part in ("train", "dev", "test"))
    monkeypatch.chdir(put(tmp_path, t__csv="id,t,part\n" + rows, l__csv=labels))
    line = f"{LABELLED} --label-columns a,b --split-column part --out t"
    here(monkeypatch, line)
    said = capsys.readouterr().out.splitlines()
    assert said[-2].startswith("wrote t (digest ")
    assert said[-1].startswith("labels are partial: a pair without a label is unknown; if every match is labelled: ")
    with pytest.raises(MissingSplit, match="the labels of task 't' are partial"):
        read_task(tmp_path / "t").measurable("dev")
    here(monkeypatch, f"{line} --labels-are complete")
    assert capsys.readouterr().out.splitlines()[-1].startswith("already there, unchanged: t (digest ")
    assert read_task(tmp_path / "t").measurable("dev").name == "dev"


def test_the_same_command_again_changes_nothing_and_another_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(put(tmp_path))
    here(monkeypatch, f"{LABELLED} --out t")
    here(monkeypatch, f"{LABELLED} --out t")
    assert "already there, unchanged: t" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        here(monkeypatch, f"{SOUND} --out t")
    assert stop.value.code == 2
    assert "choose another --out" in capsys.readouterr().err


def test_skipped_rows_are_counted_and_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(put(tmp_path, t__csv=TEXTS + "3,four,d,dev\n,five,e,dev\n6\n", l__csv=LABELS + "1,9,1\n1,1,1\n"))
    here(monkeypatch, f"{LABELLED} --bad-rows skip --out t")
    said = capsys.readouterr().out
    assert (
        "rows skipped: 5\n"
        "  t.csv:7: it has 1 columns, not 4 as the first row\n"
        "  t.csv:6: its id (column 'id') is empty\n"
        "  t.csv:5: its id is '3', as that of t.csv:4\n"
        "  l.csv:4: its 'right' is '9', which is not an id of t.csv\n"
        "  l.csv:5: it pairs '1' with itself\n"
    ) in said


@pytest.mark.parametrize("columns", ["t,u", "t u", "t, u", "'t' 'u'"])
def test_columns_are_separated_by_commas_or_spaces(tmp_path, monkeypatch, columns):
    monkeypatch.chdir(put(tmp_path))
    here(monkeypatch, f"--left t.csv --id-column id --text-columns {columns} --split 1,0,0 --out task")
    assert read_task(Path("task")).left.texts == ("one a", "two b", "three c")


def test_several_files_are_one_table(tmp_path, monkeypatch, capsys):
    header, *rows = TEXTS.splitlines(keepends=True)
    third = parquet(id=[3], t=["three"], u=["c"], part=["test"])
    monkeypatch.chdir(put(tmp_path, a__csv=header + rows[0] + rows[1], b__csv=header + rows[2], c__parquet=third))
    own = "--id-column id --text-columns t u --split 1,0,0"
    here(monkeypatch, f"--left t.csv {own} --out whole")
    here(monkeypatch, f"--left a.csv b.csv {own} --out parts")
    here(monkeypatch, f"--left a.csv c.parquet {own} --out mixed")
    here(monkeypatch, f"--left t.csv --right a.csv b.csv --same part {own} --out sides")
    assert "a.csv, b.csv: 3 texts\n" in capsys.readouterr().out
    whole, parts, mixed, sides = (read_task(tmp_path / name) for name in ("whole", "parts", "mixed", "sides"))
    assert whole.digest == parts.digest == mixed.digest
    assert (parts.name, sides.name) == ("a and 1 more", "t x a and 1 more")
    assert sides.right.texts == whole.left.texts
    assert json.loads((tmp_path / "parts/task.json").read_text())["provenance"]["left"] == ["a.csv", "b.csv"]
    # The options of a task of several files hold for the files that extend it.
    put(tmp_path, d__csv="id,t,u\n8,eight,h\n", e__csv="id,t,u\n9,nine,i\n")
    here(monkeypatch, "--extend parts --left d.csv e.csv --out grown")
    assert read_task(tmp_path / "grown").left.ids == ("1", "2", "3", "8", "9")


# Files over the sound ones, options, what is said. Each is refused with exit code 2, in one line, and leaves nothing.
BAD_OPTIONS = [
    ("--text-columns t", "give --left FILE (texts) or --source FILE"),
    (f"{SOUND} --source p.csv", "--left and --source exclude one another"),
    ("--right t.csv --text-columns t", "--right is without --left"),
    ("--source p.csv --right t.csv --text-columns one,two", "--right is without --left"),
    (f"--left t.csv t.csv {OWN}", "--left gives t.csv twice; give each file once"),
    (f"--left t.csv u.csv {OWN}", "u.csv cannot be read (No such file or directory); give the path of the table"),
    (f"--left t.csv l.csv {OWN}", "l.csv:1 has no column 't'; it has: 'left', 'right', 'label'"),
    ("--left t.csv l.csv --text-columns t", "--left gives 2 files, and a row number does not tell of which file it is"),
    (f"--left t.csv --right t.csv l.csv {OWN}", "l.csv:1 has no column 't'"),
    ("--left --text-columns t", "--left"),
    ("--left t.csv --id-column id", "--text-columns"),
    ("--left t.csv --text-columns ''", "--text-columns is ''; give names"),
    ("--left t.csv --text-columns t,,u", "give names separated by commas"),
    ("--left t.csv --text-columns t,t", "--text-columns names 't' twice"),
    (
        "--left t.csv --text-columns title",
        "t.csv:1 has no column 'title'; it has: 'id', 't', 'u', 'part'; if the file has no header",
    ),
    ("--left t.csv --text-columns t --id-column nr", "no column 'nr'; it has: 'id'"),
    (
        f"{SOUND} --labels l.csv --label-columns left,right,y",
        "l.csv:1 has no column 'y'; it has: 'left', 'right', 'label'; name its columns with --label-columns",
    ),
    (f"{SOUND} --labels l.csv --label-columns left", "--label-columns is left; give three"),
    (f"{SOUND} --labels l.csv --label-columns left,left,label", "--label-columns names 'left' twice"),
    (f"{SOUND} --label-columns left,right,label", "--label-columns is without --labels"),
    (f"{SOUND} --label-column t", "--label-column goes with --source"),
    (f"{SOUND} --two-sided", "--two-sided goes with --source"),
    (f"{SOURCE} --same part", "--same and --different go with --left; leave them out with --source"),
    (f"{SOURCE} --different part", "--same and --different go with --left"),
    (f"{SOUND} --fields t:name", "--fields goes with several --text-columns; the one column 't' is a text"),
    (
        "--left t.csv --text-columns t,u --fields v:name",
        "--fields names 'v', which is no text column; these are: 't', 'u'",
    ),
    (
        "--left t.csv --text-columns t,u --fields t:word",
        "--fields has 't:word'; give NAME:TYPE, where TYPE is one of text",
    ),
    (f"{SOUND} --same fold", "t.csv:1 has no column 'fold'; it has: 'id', 't', 'u', 'part'"),
    (f"{SOUND} --same part,part", "--same names 'part' twice"),
    (f"{SOUND} --different fold", "t.csv:1 has no column 'fold'"),
    (f"{SOUND} --right p.csv --right-text-columns one --right-id-column two --same u", "p.csv:1 has no column 'u'"),
    (f"{SOUND} --right t.csv", "--right is the same file as --left"),
    (f"{SOUND} --right-id-column id", "are without --right FILE"),
    (
        "--left t.csv --right p.csv --text-columns t --right-text-columns one --right-id-column one",
        "without --id-column",
    ),
    (
        f"{SOUND} --right p.csv --right-text-columns one,one --right-id-column one",
        "--right-text-columns names 'one' twice",
    ),
    (f"{SOUND} --right p.csv --right-text-columns t", "p.csv:1 has no column 't'"),
    (f"{SOURCE} --labels l.csv", "--labels goes with --left"),
    (f"{SOURCE} --id-column id", "--id-column goes with --left"),
    ("--source p.csv --text-columns one", "then as many of the other, such as text1,text2"),
    ("--source p.csv --text-columns one,label --label-column label", "--label-column label is one of --text-columns"),
    ("--left t.csv --text-columns t,part --split-column part", "--split-column part is one of --text-columns"),
    (f"{SOUND} --split-column fold", "no column 'fold'"),
    (f"{SOUND} --split-column part --split 1,0,0", "give --split or --split-column, not both"),
    (f"{SOUND} --split-column u", "t.csv:2: its split (column 'u') is 'a', not train, dev (or validation) or test"),
    (f"{SOUND} --split 0.5,0.5,0.5", "add up to 1, such as 0.5,0.25,0.25"),
    (f"{SOUND} --split 0.5,0.5", "--split is '0.5,0.5'; give three shares"),
    (f"{SOUND} --split ''", "--split is ''; give three shares"),
    (f"{SOUND} --split half", "--split is 'half'; give three shares"),
    (f"{SOUND} --split nan,nan,nan", "add up to 1"),
    (f"{SOUND} --split 1.5,-0.5,0", "add up to 1"),
    (f"{SOUND} --seed -1", "--seed is -1; give 0 or more"),
    (f"{SOUND} --seed x", "--seed"),
    (f"{SOUND} --max-length 2", "--max-length is 2; give at least 3"),
    (f"{SOUND} --delimiter ::", "--delimiter is '::'; give one character"),
    (f"{SOUND} --delimiter '\"'", "give one character other than a quote"),
    (f"{SOUND} --delimiter ''", "--delimiter is ''; give one character"),
    (
        f"{SOUND} --delimiter ';'",
        "no column 't'; it has: 'id,t,u,part'; it has only one column: does the file have another --delim",
    ),
    (f"{SOUND} --encoding utf-9", "--encoding utf-9: unknown encoding"),
    (f"{SOUND} --encoding base64", "--encoding base64: 'base64' is not a text encoding"),
    (f"{SOUND} --encoding utf-16", "t.csv is not utf-16"),
    (f"{SOUND} --quoting maybe", "invalid choice 'maybe'"),
    (f"{SOUND} --bad-rows fix", "invalid choice 'fix'"),
    (f"{SOUND} --format xlsx", "invalid choice 'xlsx'"),
    (f"{SOUND} --format parquet", "t.csv cannot be read as Parquet (Parquet magic bytes not found"),
    (f"{SOUND} --format jsonl", "t.csv:1: it is not JSON"),
    (f"{SOUND} --no-header", "--no-header: 't' is not a column of t.csv; give numbers from 0 to 3"),
    ("--left t.csv --text-columns 4 --no-header", "'4' is not a column of t.csv; give numbers from 0 to 3"),
    ("--left t.csv --text-columns=-1 --no-header", "'-1' is not a column of t.csv; give numbers from 0 to 3"),
    ("--left nowhere.csv --text-columns t", "nowhere.csv cannot be read (No such file or directory); give the path"),
    ("--left . --format csv --text-columns t", ". is a folder; give one file"),
    ("--left t.csv/x.csv --text-columns t", "cannot be read (Not a directory)"),
    (f"{SOUND} --labels nowhere.csv", "nowhere.csv cannot be read"),
    (f"{SOUND} --txts 5", "--txts"),
]
WHOLE = parquet(id=[1, 2], t=["one", "two"])
# Bytes under the name of text, which writers of Parquet let pass.
MISNAMED = parquet(t=pa.Array.from_buffers(pa.string(), 2, pa.array([b"one", b"caf\xe9"]).buffers()))
TORN = parquet(t=["one", "two"])
BAD_FILES = [
    ({"t__csv": ""}, SOUND, "t.csv is empty; give a table with rows"),
    ({"t__csv": "\n\n"}, SOUND, "t.csv holds no row; is it the right file"),
    ({"t__csv": "id,t\n"}, SOUND, "t.csv holds no row; is it the right file"),
    ({"t__csv": "id,t\n1\n2\n"}, f"{SOUND} --bad-rows skip", "t.csv holds no row that can be read"),
    ({"t__csv": "id,t\n1,one\n"}, SOUND, "t.csv holds one text, and a pair needs two"),
    (
        {"t__csv": "1,one\n2,two\n"},
        SOUND,
        "has no column 't'; it has: '1', 'one'; if the file has no header, give --no-header",
    ),
    ({"t__csv": "id,t,t\n1,one,x\n"}, SOUND, "t.csv:1 has 2 columns 't'; rename all but one"),
    (
        {"t__csv": "id,t\n1,one\n2,two,2\n"},
        SOUND,
        "t.csv:3: it has 3 columns, not 2 as the first row; fix the row, or",
    ),
    ({"t__csv": 'id,t\n1,"a\nb"\n2\n'}, SOUND, "t.csv:4: it has 1 columns, not 2"),
    ({"t__csv": 'id,t\n1,one\n2,"two\n3,three\n'}, SOUND, "t.csv:3: a quote opens in this row and is never closed"),
    ({"t__csv": 'id,t\n1,"two\n3,three\n'}, f"{SOUND} --bad-rows skip", "t.csv:2: a quote opens in this row"),
    ({"t__csv": 'id,t\n1,"o"ne\n2,two\n'}, SOUND, "t.csv:2: its quotes are wrong ("),
    ({"t__csv": '"id"x,t\n1,one\n'}, f"{SOUND} --bad-rows skip", "t.csv:1: its quotes are wrong"),
    ({"t__csv": b"id,t\n1,caf\xe9\n2,two\n"}, SOUND, "t.csv:2: it is not utf-8 (has the file another --encoding"),
    ({"t__csv": b"id,caf\xe9\n1,x\n2,y\n"}, SOUND, "t.csv:1: the header is not utf-8; give its --encoding"),
    ({"t__csv": TEXTS.encode("utf-16")}, SOUND, "t.csv is UTF-16, not CSV; give --encoding utf-16"),
    ({"t__csv": TEXTS.encode("utf-16")[:-1]}, f"{SOUND} --encoding utf-16", "t.csv is not utf-16 ("),
    ({"t__csv": b"PK\x03\x04rest"}, SOUND, "t.csv is a spreadsheet or a zip, not CSV; save it as CSV"),
    ({"t__csv": b"\x1f\x8b\x08rest"}, SOUND, "t.csv is gzip, not CSV; unpack it"),
    ({"t__csv": WHOLE}, SOUND, "t.csv is Parquet, not CSV; give --format parquet"),
    ({"t__xlsx": b"PK\x03\x04"}, "--left t.xlsx --text-columns t", "t.xlsx: its extension is none of .csv .tsv"),
    ({"t": TEXTS}, "--left t --text-columns t --out made", "t: its extension is none of"),
    ({"t__csv": "id,t\n1,one\n2,\n"}, SOUND, "t.csv:3: its text (column 't') is empty"),
    ({"t__csv": "id,t\n1, \n2,\n"}, f"{SOUND} --bad-rows skip", "t.csv: every text (column 't') is empty; name other"),
    (
        {"t__csv": "id,t,u\n1,one,\n2,, \n"},
        "--left t.csv --text-columns t,u",
        "t.csv:3: its text (column 't' + 'u') is empty",
    ),
    ({"t__csv": "id,t\n1,one\n2," + "x" * 1_000_001}, SOUND, "t.csv:3: its text (column 't') has 1,000,001 characters"),
    ({"t__csv": "id,t\n1,one\n ,two\n"}, SOUND, "t.csv:3: its id (column 'id') is empty"),
    ({"t__csv": "id,t\n1,one\n2,two\n 1,three\n"}, SOUND, "t.csv:4: its id is '1', as that of t.csv:2; fix"),
    (
        {"t__csv": "id,t,part\n1,one,train\n2,two,\n"},
        f"{SOUND} --split-column part",
        "t.csv:3: its split (column 'part') is empty",
    ),
    (
        {"l__csv": "left,right,label\n1,9,1\n"},
        LABELLED,
        "l.csv:2: its 'right' is '9', which is not an id of t.csv; fix",
    ),
    (
        {"l__csv": LABELS},
        "--left t.csv --text-columns t --labels l.csv",
        "l.csv:3: its 'right' is '3', which is not an id of t.csv (without --id-column its ids are row numbers",
    ),
    ({"l__csv": "left,right,label\n1,,1\n"}, LABELLED, "l.csv:2: its 'right' is empty"),
    ({"l__csv": "left,right,label\n2,2,0\n"}, LABELLED, "l.csv:2: it pairs '2' with itself"),
    (
        {"l__csv": "left,right,label\n1,2,1\n2,1,no\n"},
        LABELLED,
        "l.csv:3: its label is no, but l.csv:2 labels the same pair yes",
    ),
    (
        {"l__csv": "left,right,label\n1,2,maybe\n"},
        LABELLED,
        "l.csv:2: its label is 'maybe', not 1 or 0, yes, no or unsure",
    ),
    ({"l__csv": "left,right,label\n1,2,0.7\n"}, LABELLED, "l.csv:2: its label is '0.7', not 1 or 0"),
    ({"l__csv": f"left,right,label\n1,2,{'x' * 99}\n"}, LABELLED, "l.csv:2: its label is '" + "x" * 40 + "...', not"),
    ({"l__csv": "left,right,label\n"}, LABELLED, "l.csv holds no row"),
    (
        {"l__csv": "left;right;label\n1;2;1\n"},
        LABELLED,
        "it has only one column: does the file have another --delimiter?",
    ),
    ({"p__csv": "one,two,label\nhow,how,1\n"}, SOURCE, "p.csv:2: it pairs a text with itself"),
    (
        {"p__csv": "one,two,label\nhow,how,1\n"},
        f"{SOURCE} --bad-rows skip",
        "p.csv: every row is bad, such as p.csv:2: it pairs a text",
    ),
    ({"p__csv": "one,two,label\nhow,why,1\nhow,,1\n"}, SOURCE, "p.csv:3: its text (column 'two') is empty"),
    (
        {"p__csv": "one,two,label\nhow,why,1\nwhy,how,0\n"},
        SOURCE,
        "p.csv:3: its label is no, but p.csv:2 labels the same pair yes",
    ),
    ({"p__csv": "one,two,label\nhow,why,2\n"}, SOURCE, "p.csv:2: its label is '2'"),
    (
        {"p__csv": "one,two,label,s\na,b,1,train\nb,c,1,dev\n"},
        f"{SOURCE} --split-column s",
        "p.csv:3: it is in dev, but p.csv:2 puts a text of it in train",
    ),
    ({"t__jsonl": '{"t": "one"}\n{"t": '}, LINES, "t.jsonl:2: it is not JSON (Expecting value"),
    ({"t__jsonl": '[{"t": "one"}]'}, LINES, "t.jsonl:1: it is not a JSON object but '[{"),
    ({"t__jsonl": '{"t": "one"}\n{"t": [["two"]]}'}, LINES, "t.jsonl:2: its 't' has lists within a list, not texts"),
    ({"t__jsonl": '{"x": "one"}\n{"y": "two"}'}, LINES, "t.jsonl has no column 't'; it has: 'x', 'y'"),
    ({"t__jsonl": '{"t": "one"}\n{"t": NaN}'}, LINES, "t.jsonl:2: its text (column 't') is empty"),
    ({"t__jsonl": b'{"t": "one"}\n{"t": "caf\xe9"}'}, LINES, "t.jsonl:2: it is not utf-8"),
    ({"t__jsonl": '{"t": "one"}'}, f"{LINES} --no-header", "are for CSV and TSV files, and no such file"),
    ({"t__jsonl": '{"t": "one"}'}, f"{LINES} --delimiter ,", "are for CSV and TSV files, and no such file"),
    ({"t__parquet": WHOLE[:-9]}, PARQUET, "t.parquet cannot be read as Parquet ("),
    ({"t__parquet": TORN[:4] + b"\xff" * 60 + TORN[64:]}, PARQUET, "t.parquet cannot be read as Parquet ("),
    ({"t__parquet": WHOLE}, "--left t.parquet --text-columns u", "t.parquet has no column 'u'; it has: 'id', 't'"),
    ({"t__parquet": parquet(t=["one", None, "two"])}, PARQUET, "t.parquet:row 1: its text (column 't') is empty"),
    ({"t__parquet": parquet(t=[1.5, float("nan")])}, PARQUET, "t.parquet:row 1: its text (column 't') is empty"),
    ({"t__parquet": parquet(t=[[["one"]], [["two"]]])}, PARQUET, "t.parquet: column 't' of type list<"),
    (
        {"t__parquet": parquet(t=[b"one", b"\xff"])},
        PARQUET,
        "t.parquet: column 't' of type binary cannot be read as text",
    ),
    ({"t__parquet": MISNAMED}, PARQUET, "t.parquet: column 't' of type string cannot be read as text"),
    ({"t__parquet": parquet(t=pa.array([], pa.string()))}, PARQUET, "t.parquet holds no row"),
    (
        {"t__parquet": parquet(i=[1.0, 1.0], t=["a", "b"])},
        f"{PARQUET} --id-column i",
        "t.parquet:row 1: its id is '1', as that of t.parquet:row 0",
    ),
    (
        {},
        f"{SOUND} --split-column u --bad-rows skip",
        "every row is bad, such as t.csv:2: its split (column 'u') is 'a'",
    ),
    ({"made": "x"}, f"{SOUND} --out made", "made exists and holds something else; choose another --out"),
    ({}, f"{SOUND} --out .", ". exists and holds something else"),
    ({}, f"{SOUND} --out t.csv/t", "t.csv/t cannot be written (Not a directory); choose another --out"),
]


@pytest.mark.parametrize(
    ("files", "line", "said"),
    [({}, *row) for row in BAD_OPTIONS] + BAD_FILES,
    ids=[f"{number:03d}" for number in range(len(BAD_OPTIONS) + len(BAD_FILES))],
)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing(tmp_path, monkeypatch, capsys, files, line, said):
    monkeypatch.chdir(put(tmp_path, **files))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SystemExit) as stop:
        here(monkeypatch, line if "--out" in line else f"{line} --out made")
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert error.startswith("error: ")
    assert said in error
    assert sorted(tmp_path.iterdir()) == before


OLD = f"{LABELLED} --split-column part --same u"
MORE = "--extend old --left n.csv"
BAD_EXTENSIONS = [
    ("--extend old", "--extend is without new texts; give --left FILE or --right FILE"),
    ("--extend old --source p.csv", "--extend and --source exclude one another; give the new texts as --left FILE"),
    ("--extend old --right n.csv", "--extend old: it pairs its texts with each other; give the new ones as --left"),
    (f"{MORE} --split 1,0,0", "--extend puts all new texts in train; leave out --split and --split-column"),
    (f"{MORE} --split-column part", "--extend puts all new texts in train"),
    (f"{MORE} --text-columns t,part", "a text of the task is made of t, not of t, part; give as many text columns"),
    (f"{MORE} --same part", "--extend old: the task has --same u, and cannot get another rule; leave it out"),
    (f"{MORE} --different part", "--extend old: the task has --same u, and cannot get another rule"),
    ("--extend old --left nowhere.csv", "nowhere.csv cannot be read"),
    ("--extend old --left p.csv", "p.csv:1 has no column 't'; it has: 'one', 'two', 'label'"),
    ("--extend old --left p.csv --text-columns one --same two", "cannot get another rule"),
    (f"{MORE} --id-column nr", "n.csv:1 has no column 'nr'"),
    (f"{MORE} --labels l.csv --label-columns a,b", "l.csv:1 has no column 'a'"),
    (f"{MORE} --labels m.csv", "m.csv:2: its 'right' is '9', which is not an id of old or n.csv"),
    (f"{MORE} --labels l.csv --no-closure --label-columns left,right", "old has the label no for this pair"),
    (f"{MORE} --out old", "--out old is the task that --extend names; a task is never changed, so give another --out"),
    (f"{MORE} --out t.csv", "t.csv exists and holds something else; choose another --out"),
    ("--extend numbers --left n.csv", "--extend numbers: the ids of its texts are row numbers"),
    ("--extend equals --left n.csv", "--extend equals: it was not made of tables of texts"),
]


@pytest.mark.parametrize(("line", "said"), BAD_EXTENSIONS, ids=[f"{number:02d}" for number in range(19)])
def test_a_bad_extension_is_refused_in_one_line_and_leaves_nothing(tmp_path, monkeypatch, capsys, line, said):
    texts = "id,t,u,part\n1,one,a,train\n2,two,a,train\n3,three,a,train\n"
    new = "id,t,u,part\n3,three,a,\n4,four,a,\n"
    monkeypatch.chdir(put(tmp_path, t__csv=texts, n__csv=new, m__csv="left,right,label\n1,9,yes\n"))
    here(monkeypatch, f"{OLD} --out old")
    here(monkeypatch, "--left t.csv --text-columns t --out numbers")
    here(monkeypatch, f"{SOURCE} --out equals")
    here(monkeypatch, f"{MORE} --out new")
    capsys.readouterr()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit) as stop:
        here(monkeypatch, line if "--out" in line else f"{line} --out made")
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert said in error
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_an_extension_needs_no_options_again_and_a_rerun_changes_nothing(tmp_path, monkeypatch, capsys):
    texts, new = ("id;t;u;part\n1;one;a;train\n2;two;a;dev\n", "id;t;u\n2;two;a\n4;four;a\n5;five;a\n")
    monkeypatch.chdir(put(tmp_path, t__csv=texts, n__csv=new, l__csv="a;b\n4;5\n"))
    here(
        monkeypatch, f"{SOUND} --split-column part --same u --delimiter ; --max-length 9 --out old".replace(";", "';'")
    )
    line = f"{MORE} --labels l.csv --label-columns a,b --out new"
    here(monkeypatch, line)
    printed = capsys.readouterr().out
    assert "n.csv: 3 texts\n" in printed
    assert "\n  new: 2, changed: 0, as before: 1\n--same u: 6 of 6 pairs can match (100.00%)\n" in printed
    task = read_task(tmp_path / "new")
    assert (task.name, task.left.ids) == ("t", ("1", "2", "4", "5"))
    assert task.splits["train"].space.left.tolist() == [0, 2, 3]
    assert task.splits["train"].positives.tolist() == [[2, 3]]
    about = json.loads((tmp_path / "new" / "task.json").read_text())["provenance"]
    assert {name: about[name] for name in ("extend", "left", "text_columns", "same", "delimiter", "max_length")} == {
        "extend": "old", "left": "n.csv", "text_columns": "t", "same": "u", "delimiter": ";", "max_length": 9
    }  # fmt: skip
    here(monkeypatch, line)
    assert "already there, unchanged: new" in capsys.readouterr().out


def test_the_files_of_the_table_are_sound_but_for_what_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(put(tmp_path))
    for number, line in enumerate((SOUND, LABELLED, SOURCE, f"{SOUND} --split-column part", f"{SOURCE} --two-sided")):
        here(monkeypatch, f"{line} --out made{number}")
    assert capsys.readouterr().out.count("wrote made") == 5
    assert len(BAD_OPTIONS) + len(BAD_FILES) >= 100
