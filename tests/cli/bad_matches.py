"""What jobs.match may not swallow: command lines, tables and damaged folders, and what is said of each."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from al_ray.apps.matching.folder import write_record
from al_ray.apps.matching.incremental.about import StateAbout
from al_ray.apps.matching.incremental.order import task_of
from al_ray.apps.matching.incremental.state import MatchState, write_state
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_PAIRS
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Corpus
from al_ray.datasets.task_folder import write_task
from tests.cli.bad_cases import HUGE
from tests.cli.bad_lines import parquet

TABLE = "key,words\nk0,how do i swim\nk1,how to swim\n"
COLUMNS = "--text-columns words --id-column key"
MATCH = f"--model run --left t.csv {COLUMNS} --at-boundary --out made"
INTO = "--into known --left t.csv"


def write_known(here: Path, model: Model) -> None:
    """Write the texts of TABLE, and the folder of their matches (there are none) by round 1 of a run, without a Ray."""
    (here / "t.csv").write_text(TABLE)
    (here / "more.csv").write_text("key,words\nk9,why\nk1,who\n")
    ids, texts = zip(*(line.split(",") for line in TABLE.splitlines()[1:]), strict=True)
    corpus = Corpus(ids, texts)
    task = task_of("t", corpus, corpus, symmetric=True)
    place = f"task-{task.digest[:12]}"
    write_task(task, here / "known" / place, {})
    cutoff = {"score": 0.9, "count": 9, "source": "--at-score 0.9", "precision": None, "recall": None}
    about = {
        "model": {"run": "run", "round": 1, "digest": model.digest},
        "rules": {"assign": "all", "clusters": "components", "cutoff": cutoff},
        "table": {
            "left": "t.csv", "text_columns": "words", "id_column": "key", "right_text_columns": None,
            "right_id_column": None, "same": None, "different": None, "format": "auto", "delimiter": None,
            "quoting": "standard", "encoding": "utf-8", "header": True,
        },
        "made_from": "texts of May",
    }  # fmt: skip
    nothing = ScoredPairs(NO_PAIRS, np.empty(0))
    state = MatchState(1, place, nothing, NO_PAIRS, NO_PAIRS, np.arange(len(ids)), 2, StateAbout.of_dict(about))
    write_state(here / "known", state, task)
    write_record(here / "known", {"made_from": "texts of May"})


COPY = f"--model copy --left t.csv {COLUMNS} --out made"


OF_OPTIONS = [
    ("", "no texts to match are given; give --left FILE"),
    ("--left t.csv --out made", "no model is given; give --model RUN"),
    (f"--model '' --left t.csv {COLUMNS} --out made", "--model is empty; give a path"),
    ("--model run --left '' --out made", "--left is empty; give a path"),
    (f"{MATCH} --out ''", "--out is empty; give a path"),
    ("--into '' --left t.csv", "--into is empty; give a path"),
    (f"{MATCH} --cutoff 0.5", "--cutoff"),
    (f"{MATCH} --why", "run has no matcher: its score is one cosine; leave out --why"),
    (f"{INTO} --why", "run has no matcher: its score is one cosine; leave out --why"),
    (f"{MATCH} --assign any", "invalid choice 'any' for argument '--assign'"),
    (f"{MATCH} --recall 0.5", "--at-boundary and --recall are two cutoffs; give one of them"),
    (f"{MATCH} --at-score nan", "--at-score is nan"),
    (f"{MATCH} --at-score -2.1", "--at-score is -2.1; give at least -2"),
    (f"{MATCH} --at-cosine 1.01", "--at-cosine is 1.01; give at most 1"),
    (f"{MATCH} --at-cosine 0.5", "--at-cosine and --at-boundary are two cutoffs; give one of them"),
    (f"{MATCH} --at-p 1.5", "--at-p is 1.5; give at most 1"),
    (f"{MATCH} --precision -0.1", "--precision is -0.1; give at least 0"),
    (f"{MATCH} --recall 95", "--recall is 95.0; give at most 1"),
    (f"{MATCH} --guarantee 0.95", "--guarantee goes with --precision, --recall, --ranked-recall or --costs; add one"),
    (f"{MATCH} --precision 0.9 --guarantee 2", "--guarantee is 2.0; give at most 0.99"),
    (f"{MATCH} --best 0", "--best is 0; give at least 1"),
    (f"{MATCH} --best {HUGE}", "--best is 9"),
    (f"{MATCH} --best 2.5", "best"),
    (f"{MATCH} --most 0", "--most is 0; give at least 1"),
    (f"{MATCH} --search.kind auto", "invalid choice 'auto'"),
    (f"{MATCH} --search.nprobe 3", "--search.nprobe go with --search.kind knn; add it"),
    (f"{MATCH} --search.kind knn --search.neighbours 0", "--search.neighbours is 0; give at least 1"),
    (f"{MATCH} --search.kind knn --search.index ''", "--search.index is empty; give an index"),
    (f"{MATCH} --suggest 0", "--suggest is 0; give at least 1"),
    (f"{MATCH} --suggest 9 --no-drift", "--suggest prefers texts unlike training"),
    (f"{MATCH} --split dev", "--split goes with a task folder, and --left t.csv is none"),
    (f"{MATCH} --shards 0", "--shards is 0; give at least 1"),
    (f"{MATCH} --right t.csv", "--right is the same file as --left"),
    (f"{MATCH} --delimiter ::", "--delimiter is '::'; give one character"),
    (f"{MATCH} --encoding utf-9", "--encoding utf-9: unknown encoding"),
    (f"{MATCH} --text-columns words,words", "--text-columns names 'words' twice"),
    (f"{MATCH} --left nowhere.csv", "nowhere.csv cannot be read (No such file or directory)"),
    (f"{MATCH} --left judge.py", "judge.py: its extension is none of"),
    (f"{MATCH} --left run", "run: its extension is none of"),
    (f"{MATCH} --left t.csv t.csv", "--left gives t.csv twice; give each file once"),
    (f"{MATCH} --left t.csv more.csv", "more.csv:3: its id is 'k1', as that of t.csv:3"),
    (f"{MATCH} --left t.csv task", "--left task is a task folder; give it alone, or tables"),
    (f"{MATCH} --left t.csv nowhere.csv", "nowhere.csv cannot be read (No such file or directory)"),
    (f"{INTO} more.csv", "more.csv:3: its id is 'k1', as that of t.csv:3"),
    (f"{INTO} task", "task is a task folder; jobs.match --into takes tables, so give one"),
    (
        "--model run --left t.csv more.csv --text-columns words --out made",
        "--left gives 2 files, and a row number does not tell of which file it is; give the column of the ids",
    ),
    ("--model run --left --out made", "--left"),
    (f"{MATCH} --left task --split test", "has no test pairs"),
    (f"{MATCH} --left task --right t.csv", "--left task is a task folder, which has both sides; leave out --right"),
    (f"{MATCH} --model nowhere", "nowhere holds no config.json; give the folder of a run"),
    (f"{MATCH} --model task", "task holds no config.json; give the folder of a run"),
    (f"{MATCH} --model t.csv", "t.csv holds no config.json; give the folder of a run"),
    (f"{MATCH} --model enc", "enc is an encoder, without scorer.json; give a run, or the model folder of a round"),
    ("--model copy --left t.csv --at-boundary --out made", "so give the columns of the texts: --text-columns"),
    (
        f"{COPY} --at-boundary --suggest 9",
        "copy is a copy of a model, whose training texts are not known; give --model",
    ),
    (f"{COPY} --at-p 0.5", "--at-p needs probabilities, and those of"),
    (
        f"{COPY} --recall 0.5",
        "copy has no threshold for recall=0.5; choose one: python -m jobs.evaluate --run RUN --split",
    ),
    (f"{MATCH} --out task", "task is a task folder or lies in one (task); give"),
    (f"{MATCH} --out task/made", "task/made is a task folder or lies in one (task); give"),
    (f"{MATCH} --out two", "two is a task folder"),
    (f"{MATCH} --out run", "run is a run or a task; give --out a folder of its own"),
    (f"{MATCH} --out known", "known holds matches of another model or of other texts; choose another --out"),
    (f"{MATCH} --out t.csv", "t.csv"),
    (f"{MATCH} --out t.csv/made", "t.csv/made"),
    ("--into nowhere --left t.csv", "nowhere holds no matches of tables"),
    ("--into task --left t.csv", "task is a run or a task; give the folder of matches"),
    ("--into run --left t.csv", "run is a run or a task; give the folder of matches"),
    ("--into t.csv --left t.csv", "t.csv"),
    (f"{INTO} --right t.csv", "the matches are within one table; give the new texts as --left"),
    (f"{INTO} --left task", "task is a task folder; jobs.match --into takes tables, so give one"),
    (f"{MATCH} --canonical best", "--canonical best: give score, least-id, complete, highest:COLUMN"),
    (f"{MATCH} --golden best", "--golden best: 'best' is no rule; give FIELD=RULE, of which several are separated"),
    (f"{MATCH} --golden words=longest,price=longest", "t.csv:1 has no column 'price'; it has: 'key', 'words'"),
    (
        f"{MATCH} --golden words=newest:key",
        "the cells of 'key' must be dates, such as 2026-11-27, or all of them numbers",
    ),
    (
        "--model run --left task --at-boundary --out made --golden '*=longest'",
        "--golden goes with tables, and --left task",
    ),
    (f"{INTO} --golden '*=longest'", "--golden: jobs.match --into matches by the rules of the matches that are there"),
    (f"{MATCH} --always vat", "t.csv:1 has no column 'vat'; it has: 'key', 'words'"),
    (f"{MATCH} --at-most-one shop --clusters average", "--at-most-one goes with --clusters components"),
    (f"{MATCH} --split-bridges 3", "--split-bridges is 3.0; give at most 2"),
    (
        f"{INTO} --split-bridges 0.5",
        "--split-bridges: jobs.match --into matches by the rules of the matches that are there",
    ),
    (f"{INTO} --best 3", "--best: jobs.match --into matches by the rules of the matches that are there"),
    (f"{INTO} --assign all", "--assign: jobs.match --into matches by the rules of the matches that are there"),
    (f"{INTO} --search.kind knn", "--search.kind knn goes with jobs.match --out DIR"),
    (f"{INTO} --suggest 3", "--suggest goes with jobs.match --out DIR"),
    (f"{INTO} --text-columns nothing", "t.csv:1 has no column 'nothing'; it has: 'key', 'words'"),
]
# Tables of texts: the same is said of them with --out and with --into.
OF_TABLES = [
    ("", "t.csv is empty; give a table with rows"),
    ("key,words\n", "t.csv holds no row"),
    ("key,title\nk0,how\n", "t.csv:1 has no column 'words'; it has: 'key', 'title'"),
    ("id,words\nk0,how\n", "t.csv:1 has no column 'key'; it has: 'id', 'words'"),
    ("words\nhow\n", "t.csv:1 has no column 'key'"),
    (TABLE + "k0,why\n", "t.csv:4: its id is 'k0', as that of t.csv:2"),
    (TABLE + ",why\n", "t.csv:4: its id (column 'key') is empty"),
    (TABLE + "k2, \n", "t.csv:4: its text (column 'words') is empty"),
    (TABLE + f"k2,{'x' * 1_000_001}\n", "t.csv:4: its text (column 'words') has 1,000,001 characters, more than"),
    (TABLE + "k2\n", "t.csv:4: it has 1 columns, not 2"),
    (TABLE + 'k2,"why\n', "t.csv:4: a quote opens in this row and is never closed"),
    (TABLE.encode() + b"k2,caf\xe9\n", "t.csv:4: it is not utf-8"),
    (TABLE.encode("utf-16"), "t.csv is UTF-16, not CSV; give --encoding utf-16"),
    (parquet(key=["k0"], words=["how"]), "t.csv is Parquet, not CSV; give --format parquet"),
]
TORN = parquet(key=["k0", "k1"], words=["how", "why"])[:60]


def state(rules: Mapping[str, object] | None = None, **fields: object) -> str:
    """Return a state.json whose types are right, but for these fields, and these rules."""
    cutoff = {"score": 0.9, "count": 9, "source": "--at-score 0.9", "precision": None, "recall": None}
    rules = {"assign": "all", "clusters": "components", "cutoff": cutoff, **(rules or {})}
    about = {"model": {"run": "run", "round": 1, "digest": ""}, "rules": rules, "table": {}}
    return json.dumps({"number": 1, "task": "task", "next_cluster": 0, "about": about, **fields})


OF_FOLDERS = [
    ({"copy/scorer.json": "{"}, f"{COPY} --at-boundary", "copy/scorer.json cannot be read"),
    ({"copy/model.safetensors": None}, f"{COPY} --at-boundary", "copy"),
    ({"copy/sentence_bert_config.json": None}, f"{COPY} --at-boundary", "sentence_bert_config.json cannot be read"),
    ({"copy/sentence_bert_config.json": "{}"}, f"{COPY} --at-boundary", "lacks max_seq_length"),
    (
        {"copy/vocab.json": "{}", "copy/sentence_bert_config.json": None},
        f"{COPY} --at-boundary",
        "copy has the encoder cnn, which knows the words of its task only; give a model with another encoder",
    ),
    ({"t.parquet": TORN}, f"{MATCH} --left t.parquet", "t.parquet cannot be read as Parquet ("),
    ({"t.parquet": TORN}, f"{INTO} --left t.parquet", "t.parquet cannot be read as Parquet ("),
    ({"t.csv": "key,words\nk0,how\n"}, MATCH, "t.csv holds one text, and a pair needs two"),
    ({"task/left.parquet": 90}, f"{MATCH} --left task", "task/left.parquet cannot be read"),
    ({"task/train/left.parquet": None}, f"{MATCH} --left task", "task/train/left.parquet is missing"),
    ({"run/config.json": "{}"}, MATCH, "config.json lacks task_digest"),
    ({"run/round-001/record.json": "{}"}, MATCH, "record.json lacks model"),
    ({"run/round-001/model/model.safetensors": None}, MATCH, "has no weights"),
    ({"run/round-001/model/scorer.json": "{"}, MATCH, "scorer.json cannot be read"),
    ({"run/round-001/model/scorer.json": '{"thresholds": [1]}'}, MATCH, "scorer.json: the field thresholds"),
    ({"run/state.json": '{"round": 0}'}, MATCH, "run has no complete round, and so no model"),
    ({"run/round-001/labels.parquet": 50}, MATCH, "labels.parquet cannot be read"),
    ({"known/match.json": "{"}, f"{MATCH} --out known", "known/match.json cannot be read"),
    ({"known/match.json": "{}"}, f"{MATCH} --out known", "known/match.json lacks made_from"),
    ({"known/state.json": "{"}, INTO, "known/state.json cannot be read"),
    ({"known/state.json": "{}"}, INTO, "known/state.json lacks number, task, next_cluster, about"),
    ({"known/state-0001/candidates.parquet": None}, INTO, "candidates.parquet cannot be read"),
    ({"known/state-0001/candidates.parquet": 50}, INTO, "candidates.parquet cannot be read"),
    ({"known/state-0001/labels.parquet": parquet(left=[1])}, INTO, "labels.parquet holds left, not what"),
    ({"known/state-0001/clusters.parquet": parquet(left=[1])}, INTO, "clusters.parquet holds left, not what"),
    (
        {"known/state.json": '{"number": 1, "task": "t", "next_cluster": 0, "about": {"model": {}}}'},
        INTO,
        "the field about of known/state.json lacks rules, table",
    ),
    ({"run/round-001/record.json": "{}"}, INTO, "record.json lacks model"),
    (
        {"known/state.json": state(task="../task")},
        INTO,
        "known/state.json has '../task' as the name of a file in known",
    ),
    ({"known/state.json": state(rules={"always": "tax"})}, INTO, "the rules in known/state.json has 'tax' as always"),
    ({"known/state.json": state(rules={"canonical": 1})}, INTO, "the rules in known/state.json has 1 as canonical"),
    ({"known/state.json": state(rules={"golden": 1})}, INTO, "the rules in known/state.json has 1 as golden"),
    ({"known/state.json": state(number="1")}, INTO, "known/state.json has '1' as number"),
    ({"known/state.json": state(next_cluster=None)}, INTO, "known/state.json has None as next_cluster"),
    ({"copy/config_sentence_transformers.json": "3"}, f"{COPY} --at-boundary", "holds no settings by name"),
    (
        {"copy/sentence_bert_config.json": '{"max_seq_length": 2}'},
        f"{COPY} --at-boundary",
        "sentence_bert_config.json: ",
    ),
    ({"copy/adapter_config.json": "{}"}, f"{COPY} --at-boundary", "adapter_config.json, which names another model"),
]
OF_MATCH = [
    *(({}, *case) for case in OF_OPTIONS),
    *(({"t.csv": content}, line, words) for content, words in OF_TABLES for line in (MATCH, INTO)),
    *OF_FOLDERS,
]
