"""What no job but `run` (bad_cases.py) may swallow: command lines and damaged files, and what is said of each."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bad_cases import HUGE, SCORES

QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
QQP_ROW = "0\t1\t2\thow\twhy\t1\n"
WIKI = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\n"
LABELS = "left,right,label\nt0,t1,1\n"


def parquet(**columns) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


SCORED = {"score": [0.9, 0.7, 0.1], "stratum": ["positive", "near", "random"]}
OF_EVALUATE = [
    ("", "give either --run RUN or --scores FILE"),
    ("--run run --scores s.parquet", "give either --run RUN or --scores FILE"),
    ("--run nowhere", "nowhere holds no config.json; give the folder of a run"),
    ("--run task", "task holds no config.json"),
    ("--run p.tsv", "p.tsv holds no config.json"),
    ("--run ''", "--run is empty; give a path"),
    ("--run run --exact --estimate", "exclude one another"),
    ("--run run --round 2", "--round 2: run has complete rounds 1 to 1"),
    ("--run run --round -1", "--round -1"),
    (f"--run run --round {HUGE}", "complete rounds 1 to 1"),
    ("--run run --round x", "round"),
    ("--run run --split best", "split"),
    ("--run run --split test", "has no test pairs"),
    ("--run run --total-pairs 9", "--total-pairs goes with --scores"),
    ("--run run --shards 0", "--shards is 0"),
    ("--run run --out task", "--out task is a folder; give the name of a file in it"),
    (f"{SCORES} --out .", "--out . is a folder"),
    (f"{SCORES} --out ''", "--out is empty"),
    (f"{SCORES} --round 1", "--round, --exact and --estimate go with --run"),
    (f"{SCORES} --exact", "go with --run"),
    ("--scores s.parquet", "--scores needs --total-pairs N"),
    ("--scores s.parquet --total-pairs 2", "--total-pairs 2 is less than the pairs of s.parquet"),
    ("--scores s.parquet --total-pairs -5", "--total-pairs is -5; give at least 1"),
    (f"--scores s.parquet --total-pairs {HUGE}", "--total-pairs is 9"),
    ("--scores nowhere.parquet --total-pairs 9", "nowhere.parquet cannot be read"),
    ("--scores p.tsv --total-pairs 9", "p.tsv cannot be read"),
    ("--scores task --total-pairs 9", "task cannot be read"),
]
DAMAGED_SCORES = [
    (parquet(**SCORED)[:40], "s.parquet cannot be read"),
    (parquet(score=[0.5]), "s.parquet has no column 'stratum' (it has: score); give one of each"),
    (parquet(**{**SCORED, "score": [0.9, float("nan"), 0.1]}), "s.parquet: row 1 has no score"),
    (parquet(**{**SCORED, "score": [0.9, None, 0.1]}), "s.parquet: row 1 has no score"),
    (parquet(**{**SCORED, "score": [0.9, 0.7, float("-inf")]}), "row 2 has the score -inf; give every pair a finite"),
    (parquet(**{**SCORED, "score": ["0.9", "0.7", "0.1"]}), "column 'score' holds string, no numbers"),
    (parquet(**{**SCORED, "score": [[0.9], [0.7], [0.1]]}), "column 'score' holds list<"),
    (parquet(**{**SCORED, "stratum": ["positive", "far", "random"]}), "stratum far is none of positive, near, random"),
    (parquet(**{**SCORED, "stratum": ["positive", None, "random"]}), "stratum None is none of"),
    (parquet(**{**SCORED, "stratum": [["positive"], ["near"], ["random"]]}), "stratum ['near'], "),
    (parquet(score=pa.array([], pa.float64()), stratum=pa.array([], pa.string())), "sample at least one pair"),
]
JUDGED = {"score": [0.9, -0.7, 0.1], "query": ["q1", "q1", "q2"], "label": [1, 0, 0]}
HEURISTIC = "--scores h.parquet --heuristic"
OF_EVALUATE += [
    (f"{HEURISTIC} --total-pairs 9", "--total-pairs are about all pairs; leave them out with --heuristic"),
    ("--run run --heuristic --exact", "leave them out with --heuristic"),
    ("--run run --heuristic --split test", "has no test pairs"),
    ("--run run --heuristic --round 2", "--round 2: run has complete rounds 1 to 1"),
    ("--scores s.parquet --heuristic", "s.parquet has no column 'query' (it has: score, stratum); give one of each"),
    ("--scores nowhere.parquet --heuristic", "nowhere.parquet cannot be read"),
    ("--scores p.tsv --heuristic", "p.tsv cannot be read"),
    (
        "--run run --split train --threshold-for recall=0.5",
        "chooses on --split dev alone: what train chose, train cannot",
    ),
    ("--run run --threshold-for recall=2", "--threshold-for 'recall=2': give precision=P or recall=R"),
    ("--run run --threshold-for costs=10,1 f1=0.5", "--threshold-for 'f1=0.5': give precision=P"),
    ("--run run --round 0 --threshold-for recall=0.5", "scorer.json, and round 0 of run has none"),
    ("--run run --heuristic --threshold-for recall=0.5", "--threshold-for goes with --run RUN"),
    (f"{SCORES} --threshold-for recall=0.5", "--threshold-for goes with --run RUN"),
    (f"{HEURISTIC} --out task", "--out task is a folder"),
]
DAMAGED_JUDGED = [
    (parquet(**JUDGED)[:40], "h.parquet cannot be read"),
    (parquet(score=[0.5], query=["q"]), "h.parquet has no column 'label'"),
    (parquet(query=["q"], label=[1]), "h.parquet has no column 'score'"),
    (parquet(**{**JUDGED, "score": [0.9, float("nan"), 0.1]}), "h.parquet: row 1 has no score"),
    (parquet(**{**JUDGED, "score": [0.9, None, 0.1]}), "h.parquet: row 1 has no score"),
    (parquet(**{**JUDGED, "score": [0.9, 0.1, float("inf")]}), "h.parquet: row 2 has the score inf"),
    (parquet(**{**JUDGED, "score": ["1", "2", "3"]}), "column 'score' holds string, no numbers"),
    (parquet(**{**JUDGED, "label": [1, 0, 2]}), "h.parquet: row 2 has the label 2; give 0 or 1"),
    (parquet(**{**JUDGED, "label": [1, None, 0]}), "h.parquet: row 1 has the label None"),
    (parquet(**{**JUDGED, "label": ["1", "0", "0"]}), "h.parquet: row 0 has the label '1'; give 0 or 1"),
    (parquet(**{**JUDGED, "label": [1.0, 0.5, 0.0]}), "h.parquet: row 1 has the label 0.5"),
    (parquet(**{**JUDGED, "label": [[1], [0], [0]]}), "h.parquet: row 0 has the label [1]"),
    (parquet(**{**JUDGED, "query": ["q1", None, "q2"]}), "h.parquet: row 1 has no query"),
    (
        parquet(score=pa.array([], pa.float64()), query=pa.array([], pa.string()), label=pa.array([], pa.int8())),
        "h.parquet holds no pair",
    ),
]
OF_LABELS = [
    ({}, "", "Expected one of {status, export, import, correct}"),
    ({}, "status", "run"),
    ({}, "status --run ''", "--run is empty"),
    ({}, "status --run task", "task holds no config.json"),
    ({}, "status --run p.tsv", "p.tsv holds no config.json"),
    ({"run/round-001/answers-00001.parquet": 50}, "status --run run", "answers-00001.parquet cannot be read"),
    ({"run/round-001/batch.parquet": 99}, "status --run run", "batch.parquet cannot be read"),
    ({"run/state.json": "{}"}, "status --run run", "state.json lacks round"),
    ({"run/corrections-00002.parquet": "x"}, "status --run run", "corrections-00002.parquet and no corrections-00001"),
    ({"task/left.parquet": None}, "status --run run", "task/left.parquet is missing"),
    ({}, "export --run run --out x.xlsx", "ends with none of .parquet .csv .jsonl"),
    ({}, "export --run run --out ''", "--out is empty"),
    ({}, "export --run run --out p.tsv/x.csv", "p.tsv/x.csv cannot be written"),
    ({}, "import --run task --task task --labels l.csv", "task is a task folder or lies in one"),
    ({}, "import --run new --task nowhere --labels l.csv", "nowhere holds no task.json"),
    ({}, "import --run new --task task --labels task", "task"),
    ({}, "import --run new --task task --labels none.csv", "none.csv cannot be read"),
    ({}, "import --run new --task task --labels l.csv --encoding utf-9", "utf-9: unknown encoding"),
    ({}, "import --run new --task task --labels l.csv --delimiter ::", "--delimiter is '::'"),
    ({}, "import --run new --task task --labels l.csv --columns ''", "--columns is ''"),
    ({"l.csv": b"left,right,label\nt0,t\xff,1\n"}, "import --run new --task task --labels l.csv", "l.csv:2"),
    ({"l.csv": b"left,right,label\nt0,t1\0,1\n"}, "import --run new --task task --labels l.csv", "l.csv:2"),
    ({"l.csv": ""}, "import --run new --task task --labels l.csv", "l.csv"),
    ({"l.csv": LABELS + "t1,t0,0\n"}, "import --run new --task task --labels l.csv", "l.csv:3"),
    ({}, "correct --run run --left-id '' --right-id t1 --label no", "--left-id '' is no id"),
]  # fmt: skip
OF_PREPARE = [
    ({}, "", "qqp"),
    ({}, "qqq", "qqq"),
    ({}, "qqp --out made", "source"),
    ({}, "qqp --source '' --out made", "--source is empty"),
    ({}, "qqp --source none.tsv --out made", "none.tsv cannot be read (No such file or directory); give --source"),
    ({}, "qqp --source task --out made", "task holds neither GLUE's train.tsv and dev.tsv nor one TSV file"),
    ({}, "qqp --source p.tsv --out made --split 1,1,1", "add up to 1"),
    ({}, "qqp --source p.tsv --out made --split inf,0,0", "add up to 1"),
    ({}, "qqp --source p.tsv --out made --split ''", "give three shares"),
    ({}, "qqp --source p.tsv --out made --seed -1", "--seed is -1; give 0 or more"),
    ({}, "qqp --source p.tsv --out made --bad-rows mend", "mend"),
    ({}, "qqp --source p.tsv --out ''", "--out is empty"),
    ({}, "qqp --source p.tsv --out p.tsv", "p.tsv exists and holds something else; choose another --out"),
    ({}, "qqp --source p.tsv --out task", "task exists and holds another task"),
    ({}, "qqp --source p.tsv --out p.tsv/x", "p.tsv/x cannot be written"),
    ({"task/task.json": "{"}, "qqp --source p.tsv --out task", "task/task.json cannot be read"),
    ({"p.tsv": ""}, "qqp --source p.tsv --out made", "p.tsv:1 is not the header id qid1"),
    ({"p.tsv": QQP}, "qqp --source p.tsv --out made", "p.tsv holds no labelled pair"),
    ({"p.tsv": QQP.encode("utf-16")}, "qqp --source p.tsv --out made", "p.tsv:1 is not the header"),
    ({"p.tsv": QQP + "0\t1\n"}, "qqp --source p.tsv --out made", "p.tsv:2: it has 2 columns, not 6; mend the row"),
    ({"p.tsv": QQP + "0\t1\t1\ta\ta\t1\n"}, "qqp --source p.tsv --out made", "p.tsv:2: it pairs question 1 with"),
    ({"p.tsv": QQP + "0\t1\t2\t \ta\t1\n"}, "qqp --source p.tsv --out made", "p.tsv:2: its question1 is empty"),
    ({"p.tsv": QQP + "0\t1\t2\tb\ta\tyes\n"}, "qqp --source p.tsv --out made", "its is_duplicate is 'yes', not 0 or 1"),
    ({"p.tsv": QQP.encode() + b"0\t1\t2\tb\t\xff\t1\n"}, "qqp --source p.tsv --out made", "p.tsv:2: it is not UTF-8"),
    ({}, "wikiqa --source nowhere --out made", "nowhere/WikiQA-train.tsv cannot be read"),
    ({}, "wikiqa --source p.tsv --out made", "p.tsv/WikiQA-train.tsv cannot be read (Not a directory)"),
    ({"wiki/WikiQA-dev.tsv": None}, "wikiqa --source wiki --out made", "wiki/WikiQA-dev.tsv cannot be read"),
    ({"wiki/WikiQA-dev.tsv": QQP}, "wikiqa --source wiki --out made", "wiki/WikiQA-dev.tsv:1 is not the header"),
    ({"wiki/WikiQA-dev.tsv": f"{WIKI}Q1\thow\tD\tT\tS1\tso\t1\n"}, "wikiqa --source wiki --out made", "stands in two"),
    ({"wiki/WikiQA-dev.tsv": f"{WIKI}Q3\thow\tD\tT\tS1\tso\t\n"}, "wikiqa --source wiki --out made", "Label is ''"),
    ({}, "synthetic --out made --texts 0", "--texts is 0; give"),
    ({}, "synthetic --out made --texts -4", "--texts is -4; give"),
    ({}, f"synthetic --out made --texts {HUGE}", "--texts is 9"),
    ({}, "synthetic --out made --texts 1e4", "texts"),
    ({}, "synthetic --out made --seed -3", "--seed is -3"),
    ({}, "synthetic --out p.tsv", "p.tsv exists and holds something else"),
]  # fmt: skip
OF_REST = [
    ("demo", "--out p.tsv", "p.tsv/task cannot be written"),
    ("demo", "--out ''", "--out is empty"),
    ("demo", "--out made --texts 3", "--texts is 3; give"),
    ("demo", "--out made --rounds 0", "--rounds is 0"),
    ("demo", "--out made --first-batch -1", "--first-batch is -1"),
    ("demo", "--out made --encoder ''", "--encoder is ''"),
    ("demo", "--out . --texts 100", "task exists and holds another task"),
    ("bench", "--task task", "Unrecognized options"),
    ("bench", "encode", "Required options"),
    ("bench", "decode --task task", "decode"),
    ("bench", "encode --task nowhere", "nowhere holds no task.json"),
    ("bench", "encode --task task --texts 0", "--texts is 0; give at least 1"),
    ("bench", "encode --task task --repeats 0", "--repeats is 0; give at least 1"),
    ("bench", "encode --task task --threads -1", "--threads is -1"),
    ("bench", "encode --task task --max-length 2", "--max-length is 2"),
    ("bench", "encode --task task --encoder random-bert --max-length 9999", "beyond random-bert's 160 positions"),
    ("bench", "encode --task task --encoder nowhere", "encoder 'nowhere' cannot be loaded"),
    ("bench", "encode --task task --encoder p.tsv", "encoder 'p.tsv' is a file; give the folder"),
    ("bench", "encode --task task --out task", "--out task is a folder"),
    ("bench", "search --texts 3", "--texts is 3; give at least 100"),
    ("bench", "search --count 0", "--count is 0; give at least 1"),
    ("bench", "search --threads 0", "--threads is 0; give at least 1"),
    ("bench", "search --parts exact everything", "everything"),
    ("bench", "search --index nonsense", "--search.index 'nonsense'"),
    ("bench", "search --encoder nowhere", "encoder 'nowhere' cannot be loaded"),
    ("bench", "search --max-length 2", "--max-length is 2"),
    ("bench", "memory --texts 3", "--texts is 3; give at least 100"),
    ("bench", "memory --kinds all", "all"),
    ("bench", "memory --count 0", "--count is 0; give at least 1"),
    ("bench", "memory --encoder nowhere", "encoder 'nowhere' cannot be loaded"),
    ("bench", "memory --index nonsense", "--search.index 'nonsense'"),
]
OF_ENCODER = [
    (
        {"enc/pytorch_model.bin": "a pickle", "enc/model.safetensors": None},
        "'enc' cannot be loaded (OSError Error no file named model.safetensors",
    ),
    ({"enc/model.safetensors": 1000}, "'enc' cannot be loaded (SafetensorError"),
    ({"enc/model.safetensors": ""}, "'enc' cannot be loaded (SafetensorError"),
    ({"enc/config.json": None}, "'enc' cannot be loaded ("),
    ({"enc/config.json": 100}, "'enc' cannot be loaded (OSError"),
    ({"enc/config.json": "[]"}, "'enc' cannot be loaded ("),
    ({"enc/config.json": '{"model_type": "bert", "hidden_size": "x"}'}, "'enc' cannot be loaded (Strict"),
    ({"enc/config.json": '{"model_type": "bert", "num_attention_heads": 0}'}, "'enc' cannot be loaded (ZeroDivision"),
    ({"enc/config.json": '{"model_type": "bert"}'}, "'enc' cannot be loaded (RuntimeError"),
    ({"enc/tokenizer.json": 100}, "'enc' cannot be loaded ("),
    ({"enc/tokenizer.json": "{}"}, "'enc' cannot be loaded (KeyError"),
    (
        {"enc/tokenizer.json": None, "enc/tokenizer_config.json": None},
        "enc has no vocabulary (tokenizer.json), and all texts would look alike; restore it",
    ),
]
