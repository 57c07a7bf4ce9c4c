"""Sound files and folders of every kind that al_ray reads, made by al_ray itself of synthetic texts."""

import csv
import io
import json
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from al_ray.active_learning.config import RunConfig
from al_ray.api.tasks import prepare
from al_ray.apps.audit.folder import AuditFolder, AuditOptions, Record, StratumCounts
from al_ray.apps.audit.matches import sample_matches
from al_ray.apps.drift.folder import write_suggested
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.spec import Axes, cells
from al_ray.apps.grid.summary import GridSession
from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.folder import Matches, write_clusters, write_matches, write_record
from al_ray.apps.matching.incremental.about import StateAbout
from al_ray.apps.matching.incremental.order import task_of
from al_ray.apps.matching.incremental.state import MatchState, write_state
from al_ray.apps.serving.model_name import ModelName
from al_ray.apps.serving.store import Source, StoreWriter, make_store
from al_ray.apps.serving.text_lines import KnownText, texts_digest
from al_ray.core.candidates import Candidates
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.labels import Batch, Labelled, State, make_answers
from al_ray.core.pairs import NO_PAIRS
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.scorer import Scorer
from al_ray.core.task import Corpus, Task
from al_ray.datasets.sources import Synthetic
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.encoders.encoder import learn_words, untrained
from al_ray.encoders.transformer import Encoder
from al_ray.matcher.learner import LEARNERS
from al_ray.matcher.model_file import write_model as write_matcher
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.metrics.average_precision import StratumSummary
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.strata import EvaluationSet, Stratum
from al_ray.oracles.answer_files import BATCH
from al_ray.oracles.llm.store import AnswerStore, RawAnswer
from al_ray.oracles.page_log import append, log_path, open_page_log
from al_ray.oracles.people import codes_of, write_sheets
from al_ray.runs.evaluation_sets import EvaluationSets
from al_ray.runs.run_folder import RunFolder, opened
from al_ray.runs.seed_sets import SeedSet, SeedSets
from al_ray.search.known_vectors import KnownVectors
from al_ray.storage.files import write_json
from al_ray.storage.formulas import FormulaCells
from al_ray.storage.pair_cosines import FIT, write_cosines
from al_ray.training.saved_model import write_model
from tests.apps.reporting.made_runs import evaluated, examples_of
from tests.fuzz.requests import write_requests
from tests.matcher.labelled import NAMES, examples

TEXTS = (
    "how do i swim",
    "how to swim",
    'why "so", then',
    "who was\nthe first king",
    "café crème",
    "x" * 300,
    "007",
    "=1+1",
    "a,b;c\td",
    "ĳ \U0001d4b3 ½",
    "what is the way to swim",
    "when",
)
ENCODER = EncoderConfig("random-bert", 1, 24, 8, 1)
MADE_FROM = {"split": "dev"}
SCORER = Scorer(20.0, -18.0, 0.1, "fitted")


def make(root: Path) -> None:
    """Write all of them into an empty folder. Paths in them are relative to it: work there."""
    with chdir(root):
        _tables()
        prepare(Synthetic(texts=100, seed=1), "fz-one")
        sides: dict[str, Any] = {
            "left": Path("fz-left.csv"),
            "right": Path("fz-right.jsonl"),
            "labels": Path("fz-labels.csv"),
        }
        prepare(
            OwnTexts(**sides, text_columns="title,text", id_column="id", same="country", split="0.6,0.4,0"), "fz-two"
        )
        one, two = read_task(Path("fz-one")), read_task(Path("fz-two"))
        _finished_run(Path("fz-run"), one)
        _waiting_run(Path("fz-waiting"), two)
        _grid(Path("fz-grid"), one)
        shutil.copytree("fz-run/round-002/model", "fz-model")
        _cnn(Path("fz-cnn"), one)
        _matches(Path("fz-matches"))
        _audits(one)
        _store(Path("fz-store"))
        _vectors(Path("fz-vectors"), one)
        _sets(Path("fz-sets"), one)
        _matchers()
        # The servers of requests.py have folders of their own.
        _waiting_run(Path("fz-page"), two)
        _store(Path("fz-served"))
        write_requests(Path())


def _tables() -> None:
    rows = [(f"k{row}", f"title {row % 5}", text, "de" if row % 2 else "fr", row % 3) for row, text in enumerate(TEXTS)]
    names = ("id", "title", "text", "country", "number")
    for name, delimiter in (("fz-table.csv", ","), ("fz-table.tsv", "\t"), ("fz-left.csv", ",")):
        file = io.StringIO()
        csv.writer(file, delimiter=delimiter).writerows([names, *rows])
        Path(name).write_text(file.getvalue(), encoding="utf-8", newline="")
    Path("fz-new.csv").write_text("id,title,text,country,number\nn1,t,new,de,1\nk0,title,how,fr,2\n")
    lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=row[4] == 0) for row in rows]
    for name in ("fz-table.jsonl", "fz-right.jsonl"):
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    pq.write_table(table.append_column("share", pa.array(np.arange(len(rows)) / 7)), "fz-table.parquet")
    labels = [
        ("left", "right", "label"),
        *((f"k{row}", f"k{(row * 5 + 2) % 12}", ("yes", "no", "1", "0")[row % 4]) for row in range(12)),
    ]
    file = io.StringIO()
    csv.writer(file).writerows(labels)
    Path("fz-labels.csv").write_text(file.getvalue(), newline="")
    pairs = {
        "score": [0.9, 0.7, 0.1],
        "stratum": ["positive", "near", "random"],
        "query": ["q", "q", "r"],
        "label": [1, 0, 0],
    }
    pq.write_table(pa.table(pairs), "fz-scores.parquet")
    questions = "".join(f"{n}\t{2 * n}\t{2 * n + 1}\thow {n % 3}\thow to {n % 4}\t{n % 2}\n" for n in range(12))
    Path("fz-qqp.tsv").write_text("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n" + questions)
    log = "".join(f"how do i {('swim', 'run', 'fly')[n % 3]} {n % 4},answer {n % 5}\n" for n in range(20))
    Path("fz-log.csv").write_text("question,answer\n" + log)
    axes = 'strategies = ["static", "uncertainty"]\nseeds = [0, 1]\nencoders = ["random-bert"]\n'
    Path("fz-grid-file.toml").write_text(f'[axes]\n{axes}\n[options]\ntask = "fz-one"\nrounds = 2\n')


def _evaluation(split: str) -> Evaluation:
    return evaluated(split, (1, 4), [StratumSummary("near", 30, 600)])


def _finished_run(path: Path, task: Task, config: RunConfig | None = None, model: bool = True) -> None:
    config = config or RunConfig(
        task="fz-one",
        rounds=2,
        first_batch=8,
        growth=1.0,
        encoder="random-bert",
        encoder_layers=1,
        max_length=24,
        encoder_batch=8,
        threads=1,
        evaluation=EvaluationConfig(splits=("dev",)),
    )
    space = task.split("train").space
    with opened(path, task) as folder:
        folder.bind(config)
        labelled = Labelled()
        for number, size in enumerate(config.batches, start=1):
            pairs = space.pairs(space.at(3 * (np.arange(size) + len(labelled))))
            labels = (np.arange(size) % 3).astype(np.uint8)
            folder.ledger.add_batch(
                number, Batch(pairs, np.linspace(0.9, 0.1, size), config.strategy if number > 1 else "seed")
            )
            folder.ledger.add_answers(number, make_answers(np.arange(size), labels, "simulated"))
            folder.ledger.seal(number)
            labelled = labelled.extended(pairs, labels, number, config.strategy)
            write_cosines(folder.round(number) / FIT, labelled.pairs, np.linspace(0, 1, len(labelled)))
            trained = write_model(Encoder.base(ENCODER), SCORER, folder.round(number) / "model", "nothing")
            folder.keep_recall(0.99)
            folder.seconds.update({"train": 60.0 * number})
            folder.record_round(
                State(number, labelled, trained), {"dev": _evaluation("dev")}, examples_of(task, number)
            )
        folder.ledger.correct(labelled.pairs[:1], np.array([1], dtype=np.uint8))
        thresholds = [{"rule": "precision=0.9", "cosine": 0.9, "score": 0.5, "precision": 0.9, "recall": 0.5}]
        folder.keep_calibration(
            config.rounds,
            {"calibration": {"source": "dev"}, "recalibration": {"weight": 9.0, "bias": -8.0, "source": "audit"}},
            thresholds,
        )
        folder.end("a limit")
    write_json(path / "limits.json", {"max_cost": 9.0, "gain": 0.01})
    write_json(
        path / "planned.json",
        {
            "rounds": 2,
            "speeds": {},
            "assumed": [],
            "seconds": {"train": {"planned": 1, "used": 2}},
            "memory": {"shard": {"planned": 1, "used": 2}},
        },
    )
    answers = AnswerStore(path)
    answers.add(RawAnswer("m", ["k1", "k2"], [("yes", 1.0), None], 0.1, "", {"messages": []}, {"choices": []}))
    if not model:
        for folder in path.glob("round-*/model"):
            shutil.rmtree(folder)


def _waiting_run(path: Path, task: Task) -> None:
    space = task.split("train").space
    batch = Batch(space.pairs(space.at(np.arange(6) * 2)), 0.5 + np.arange(6) / 100, "uncertainty")
    with opened(path, task) as folder:
        folder.bind(RunConfig(task="fz-two", oracle="file", encoder="random-bert", encoder_layers=1))
        folder.ledger.add_batch(1, batch)
        folder.ledger.add_answers(1, make_answers(np.arange(2), np.array([1, 0], np.uint8), "ann"))
    home, codes = path / "round-001", codes_of(1, 6)
    write_sheets(home, BATCH, codes, batch.pairs, task)
    _answer(home / "batch.csv", codes)
    exported = json.loads((home / "batch.json").read_text())
    words = ("yes", "no", "unsure")
    for number, one in enumerate(exported[:3]):
        result = {"from_name": "match", "to_name": "left", "type": "choices", "value": {"choices": [words[number]]}}
        one |= {
            "id": number,
            "annotations": [{"id": number, "was_cancelled": False, "result": [result]}],
            "predictions": [],
        }
    write_json(home / "labelled.json", exported)
    _page_log(home, codes)
    write_json(path / "page-options.json", {"question": "The same?", "overlap": 0.5})


def _answer(sheet: Path, codes: list[str]) -> None:
    """Answer the first three pairs of a sheet."""
    lines = sheet.read_text(encoding="utf-8")
    for code, word in zip(codes, ("yes", "no", "unsure"), strict=False):
        lines = lines.replace(f"{code},", f"{code},{word}", 1)
    sheet.write_text(lines, encoding="utf-8")


def _page_log(home: Path, codes: list[str]) -> None:
    answers, log = open_page_log(log_path(home, BATCH))
    append(log, answers, kind="overlap", share=0.5, pairs=codes[:2], request="o")
    append(log, answers, kind="confirm", on=True)
    for number, (code, word) in enumerate(zip(codes, ("yes", "no", "unsure"), strict=False)):
        append(log, answers, kind="answer", pair=code, by="ann", label=word, note="é", request=str(number))
    append(log, answers, kind="answer", pair=codes[0], by="bob", label="no", note="", request="b")
    append(log, answers, kind="settle", pair=codes[0], by="ann", label="yes", note="", request="s")
    append(log, answers, kind="answer", pair=codes[4], by="bob", label="no", note="", request="c")
    append(log, answers, kind="undo", pair=codes[4], by="bob", request="u")
    append(log, answers, kind="recorded", labels={codes[2]: "unsure"})
    append(log, answers, kind="retract", person="eve", by="ann", request="r")
    log.close()


def _grid(path: Path, task: Task) -> None:
    axes = Axes(("static", "uncertainty"), (0,), ("random-bert",))
    config = RunConfig(
        task="fz-one",
        rounds=1,
        first_batch=8,
        encoder="random-bert",
        encoder_layers=1,
        evaluation=EvaluationConfig(splits=("dev",)),
    )
    grid, grid_cells = GridFolder(path), cells(config, axes)
    grid.bind(axes, config, grid_cells, task.digest)
    grid.add_session(GridSession(**dict.fromkeys(GridSession.__dataclass_fields__, 1)))
    _finished_run(cast(Path, grid.run(grid_cells[0])), task, grid_cells[0].config, model=False)


def _cnn(path: Path, task: Task) -> None:
    config = EncoderConfig("cnn-4", max_length=24, encoder_batch=8, threads=1)
    learn_words(list(task.left.texts), config, path)
    (path / "model").mkdir()
    untrained(config, path).save(path / "model")


def _matches(path: Path) -> None:
    corpus = Corpus(tuple(f"k{row}" for row in range(len(TEXTS))), TEXTS)
    task = task_of("t", corpus, corpus, symmetric=True)
    place, pairs = f"task-{task.digest[:12]}", np.array([[0, 1], [0, 10], [1, 10], [2, 3]])
    write_task(task, path / place, {})
    scores, by_label = np.array([0.99, 0.95, 0.93, 0.91]), np.array([False, False, True, False])
    formulas = FormulaCells(escape=False)
    write_matches(
        path / "matches",
        Matches(ScoredPairs(pairs, scores), None, by_label, ~by_label & by_label),
        task,
        texts=True,
        cells=formulas,
    )
    rows, clusters = np.arange(len(TEXTS)), np.array([0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 0, 8])
    canonical = np.array([0, 0, 2, 2, 4, 5, 6, 7, 8, 9, 0, 11])
    write_clusters(path, Nodes(task), rows, clusters, canonical, formulas)
    model = RunFolder(Path("fz-run"), read_task(Path("fz-one"))).model(2)
    about = {
        "model": {"run": "fz-run", "round": 2, "digest": model.digest},
        "rules": {
            "assign": "all",
            "clusters": "components",
            "cutoff": {"score": 0.9, "count": 9, "source": "--at-score 0.9", "precision": None, "recall": None},
        },
        "table": {
            "left": "fz-table.csv",
            "text_columns": "text",
            "id_column": "id",
            "right_text_columns": None,
            "right_id_column": None,
            "same": None,
            "different": None,
            "format": "auto",
            "delimiter": None,
            "quoting": "standard",
            "encoding": "utf-8",
            "header": True,
        },
        "made_from": "texts of May",
    }
    scored = ScoredPairs(pairs, scores)
    write_state(path, MatchState(1, place, scored, pairs[2:3], NO_PAIRS, clusters, 9, StateAbout.of_dict(about)), task)
    write_suggested(path, task, pairs, scores, np.full((4, 2), 0.3))
    write_record(path, {"made_from": "texts of May", "assign": "all", "clusters": {"number": 9}})
    sample_matches(path, 3, 0, path / "audit")
    _answer(path / "audit" / "audit.csv", [f"a-{number:05d}" for number in range(1, 4)])


def _audits(task: Task) -> None:
    model, space = RunFolder(Path("fz-run"), task).model(2).digest, task.split("dev").space
    pairs, ranks = space.pairs(space.at(np.arange(3))), np.array([0, 3, 4])
    for name, options in {
        "fz-audit": AuditOptions("dev", 2, 0, 0.2, 2, 1, None, None, model, task.digest),
        "fz-scored": AuditOptions("dev", 2, 0, None, None, None, 3, 4, model, task.digest),
    }.items():
        record = Record(options, space.total, 20.0, -18.0)
        if not options.by_score:
            strata = StratumCounts("near", 9, 9, 5, 2), StratumCounts("random", 9, 90, 1, 1)
            record = Record(options, space.total, 20.0, -18.0, 0.8, 0.5, 4, 2, strata)
        sheet = DrawnPairs(pairs, ("near", "random", "near"), ranks, np.full(3, 0.9))
        scored = BandScores(np.array([0.95, 0.9, 0.8, 0.7]), np.array([0.85]), np.array([1], dtype=np.uint8))
        AuditFolder(Path(name)).keep(record, sheet, scored if options.by_score else None, task)
        codes = [f"a-{number:05d}" for number in range(1, 4)]
        write_sheets(Path(name), "audit", codes, pairs, task)
        _answer(Path(name) / "audit.csv", codes)


def _store(path: Path) -> None:
    texts = {f"k{row}": KnownText(text, row % 4 or None) for row, text in enumerate(TEXTS[:6])}
    make_store(path, Source("fz-table.csv", texts_digest(texts), symmetric=True), texts)
    store = StoreWriter(path)
    store.put([("k9", "why"), ("k0", "who")])
    store.remove(["k1"])
    store.use_model(ModelName("fz-run", 2))
    store.close()


def _sets(path: Path, task: Task) -> None:
    split = task.split("dev")
    keys = np.setdiff1d(split.space.keys(split.space.pairs(split.space.at(np.arange(40)))), split.positive_keys)
    rest = split.space.total - len(split.positive_keys) - len(keys)
    strata = Stratum("near", keys[:9], len(keys)), Stratum("random", keys[9:], rest)
    EvaluationSets([path]).write(EvaluationSet("dev", strata, split.positive_keys, split.space.total), MADE_FROM)
    seeds = Candidates(np.arange(5, dtype=np.int64), np.linspace(0.9, 0.1, 5))
    SeedSets(path).write(SeedSet(seeds, 5, 0.99), MADE_FROM)


def _matchers() -> None:
    """Write a small matcher of each learner."""
    x, y = examples(40)
    for name, learner in LEARNERS.items():
        fitted = learner.fit(x, y, np.ones(len(y)), NAMES, 0)
        write_matcher(Path(f"fz-matcher-{name}.safetensors"), fitted, name)


def _vectors(path: Path, task: Task) -> None:
    encoder = Encoder.base(ENCODER)
    tokens = encoder.tokenise(list(task.left.texts))
    tokens.write(path / "tokens")
    known = KnownVectors(path / "known", np.dtype(np.float32))
    known.add("all", tokens, np.ones((len(tokens), 4), dtype=np.float32))
