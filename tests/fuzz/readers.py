"""All that reads what others wrote, by name. A new reader is a line of READERS."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.active_learning.stopping import NEVER
from al_ray.api.audits import estimate_audit
from al_ray.api.models import load_model
from al_ray.api.run_reading import load_run
from al_ray.apps.annotating.options import PageOptions, remember
from al_ray.apps.annotating.sheets import RunSheets, read_sheet_pairs
from al_ray.apps.audit.folder import AuditFolder
from al_ray.apps.audit.sheet import AuditSheets
from al_ray.apps.drift.folder import read_suggested
from al_ray.apps.drift.sheet import SuggestedSheets
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.spec import read_grid_file
from al_ray.apps.matching.incremental.state import read_state
from al_ray.apps.matching.model import open_model
from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.matching.texts import read_arrived
from al_ray.apps.matching.written import read_match_texts, read_matches
from al_ray.apps.reporting.read_runs import read_runs
from al_ray.apps.serving.model_name import read_model_name
from al_ray.apps.serving.store import StoreWriter, read_store
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.datasets.question_logs import QuestionLogs
from al_ray.datasets.sources import Qqp, read_source
from al_ray.datasets.tables.extension import extension_of
from al_ray.datasets.tables.label_tables import read_task_labels
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.reader import TableFormat, read_table
from al_ray.datasets.tables.score_tables import read_labelled_scores, read_scores
from al_ray.datasets.task_folder import read_task
from al_ray.datasets.tsv import BadRowLog
from al_ray.encoders.encoder import saved
from al_ray.encoders.tokens import StoredTokens
from al_ray.matcher.model_file import read_model as read_matcher
from al_ray.oracles.answer_files import BATCH, answer_paths, read_answer_files
from al_ray.oracles.llm.store import AnswerStore
from al_ray.oracles.page_log import open_page_log
from al_ray.oracles.people import codes_of
from al_ray.runs.evaluation_sets import EvaluationSets
from al_ray.runs.limits import in_force
from al_ray.runs.planned import highest_peaks, used_seconds
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.run_state import at_its_end, bound_config
from al_ray.runs.scorer_evidence import calibrated_scorer
from al_ray.runs.seed_sets import SeedSets
from al_ray.search.known_vectors import KnownVectors
from al_ray.storage.uri import storage_path
from al_ray.training.saved_model import SCORER, read_model, saved_encoding
from tests.fuzz import obvious
from tests.fuzz.corpora import MADE_FROM
from tests.fuzz.requests import ask_page, ask_service

COLUMNS = ("id", "text", "number")


@dataclass(frozen=True)
class Reader:
    """A reader of a file or a folder of the corpora.

    read: path -> what was read. files: which files in it are damaged. check: fails if what was read is something else.
    writes: whether it may change the folder. share: of all inputs, relative to that of other readers.
    """

    path: str
    read: Callable[[Path], Any]
    files: tuple[str, ...] = ("**/*",)
    check: Callable[[Path, Any], None] | None = None
    writes: bool = False
    share: float = 1.0


def _table(path: Path) -> Any:
    return read_table(path, COLUMNS, TableFormat(), BadRowLog("fail"))


def _table_but_bad_rows(path: Path) -> Any:
    return read_table(path, COLUMNS, TableFormat(), BadRowLog("skip"))


def _own(path: Path) -> Any:
    sides: dict[str, Any] = {"left": path, "right": Path("fz-right.jsonl"), "labels": Path("fz-labels.csv")}
    return read_source(
        OwnTexts(**sides, text_columns="title,text", id_column="id", same="country", bad_rows="skip", split="0.6,0.4,0")
    )


def _own_pairs(path: Path) -> Any:
    return read_source(OwnTexts(source=path, text_columns="title,text", label_column="number", bad_rows="skip"))


def _labels(path: Path) -> Any:
    return read_task_labels(
        path, ("left", "right", "label"), TableFormat(), read_task(Path("fz-two")), BadRowLog("skip")
    )


def _arrived(path: Path) -> Any:
    mapping = read_state(Path("fz-matches"))[0].about.table
    return read_arrived(MatchOptions(left=path), mapping, 24, True)


def _scores(path: Path) -> Any:
    return read_scores(path), read_labelled_scores(path)


def _answers(folder: Path) -> Any:
    ids = list(zip(*read_task(Path("fz-two")).ids_of(_batch(folder)), strict=True))
    return read_answer_files(answer_paths(folder, BATCH), codes_of(1, 6), ids)


def _batch(folder: Path) -> Any:
    space = read_task(Path("fz-two")).split("train").space
    return space.pairs(space.at(np.arange(6) * 2))


def _log(path: Path) -> Any:
    answers, log = open_page_log(path)
    log.close()
    for code in answers.touched:
        assert answers.label(code) in (0, 1, 2, 3)
        assert isinstance(answers.labellers(code) + str(answers.waits(code)), str)
    return answers


def _task(folder: Path) -> Any:
    task = read_task(folder)
    assert len(list(task.left.ids)) == len(list(task.left.texts))
    assert len(list(task.right.ids)) == len(list(task.right.texts))
    return task


def _extend(folder: Path) -> Any:
    return read_source(replace(extension_of(folder, left="fz-new.csv"), bad_rows="skip"))


def _run(folder: Path) -> Any:
    config = bound_config(folder)
    run = RunFolder(folder, read_task(storage_path(config.task)))
    state, loaded = run.state(), load_run(folder)
    others = used_seconds(run), highest_peaks(run, {}), in_force(folder, OracleConfig(), NEVER), AnswerStore(folder)
    run.check_same_run(config)
    return (
        others,
        state,
        loaded.metrics(),
        loaded.labels(),
        at_its_end(folder, config),
        run.end_reason,
        list(run.ledger.corrections()),
    )


def _records(folder: Path) -> Any:
    return read_runs(folder)


def _grid(folder: Path) -> Any:
    grid = GridFolder(folder)
    return read_runs(folder), grid.axes(), grid.sessions()


def _sheets(folder: Path) -> Any:
    run = RunFolder(folder, read_task(storage_path(bound_config(folder).task)))
    return list(RunSheets(run, 0, True).new_sheets(())), remember(folder, PageOptions())


def _scorer(folder: Path) -> Any:
    model = read_model(folder)
    return model and model.scorer and calibrated_scorer(folder / SCORER, model.scorer), saved_encoding(folder)


def _match_folder(folder: Path) -> Any:
    written = read_matches(folder)
    return written, read_match_texts(folder, written.by_model), read_state(folder), read_suggested(folder)


def _match_sheets(folder: Path) -> Any:
    return list(SuggestedSheets(folder).new_sheets(()))


def _audit(folder: Path) -> Any:
    audit = AuditFolder(folder)
    (audit.match_record if audit.of_matches else audit.record)()
    return estimate_audit(folder), list(AuditSheets(folder).new_sheets(()))


def _store(folder: Path) -> Any:
    content, name = read_store(folder), read_model_name(folder)
    writer = StoreWriter(folder)
    writer.close()
    return content, name


def _sets(folder: Path) -> Any:
    split = read_task(Path("fz-one")).split("dev")
    return EvaluationSets([folder]).read(split, MADE_FROM), SeedSets(folder).read(MADE_FROM)


def _vectors(folder: Path) -> Any:
    known = KnownVectors(folder / "known", np.dtype(np.float32))
    known.refresh()
    stored = StoredTokens(folder / "tokens")
    tokens = stored.all()
    return known.take(tokens), stored.lengths(), tokens.padded(np.arange(min(4, len(tokens))), 0)


def _matcher(path: Path) -> Any:
    model = read_matcher(path)
    x = np.full((4, len(model.names)), 0.5, dtype=np.float32)
    p, found = model.probability(x), model.contributions(x)
    assert ((p >= 0) & (p <= 1)).all()
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), p, atol=1e-9)
    return p


def _cnn(folder: Path) -> Any:
    return saved(str(folder), EncoderConfig("cnn-4", max_length=24, encoder_batch=8, threads=1))


READERS = {
    "csv": Reader("fz-table.csv", _table, check=obvious.same_delimited),
    "tsv": Reader("fz-table.tsv", _table, check=obvious.same_delimited),
    "json-lines": Reader("fz-table.jsonl", _table, check=obvious.same_json_lines),
    "parquet": Reader("fz-table.parquet", _table, check=obvious.same_parquet, share=2),
    "csv-skip": Reader("fz-table.csv", _table_but_bad_rows),
    "json-lines-skip": Reader("fz-table.jsonl", _table_but_bad_rows),
    "own-texts": Reader("fz-left.csv", _own),
    "own-texts-parquet": Reader("fz-table.parquet", _own),
    "own-pairs": Reader("fz-table.jsonl", _own_pairs),
    "labels": Reader("fz-labels.csv", _labels),
    "match-into-table": Reader("fz-table.csv", _arrived),
    "scores": Reader("fz-scores.parquet", _scores),
    "qqp": Reader("fz-qqp.tsv", lambda path: read_source(Qqp(path))),
    "question-log": Reader("fz-log.csv", lambda path: read_source(QuestionLogs(source=path))),
    "grid-file": Reader("fz-grid-file.toml", read_grid_file, share=0.3),
    "grid-json": Reader("fz-grid/grid.json", read_grid_file, share=0.3),
    "sheet": Reader("fz-waiting/round-001", _answers, ("batch.csv",)),
    "label-studio": Reader("fz-waiting/round-001", _answers, ("labelled.json",), share=2),
    "page-log": Reader("fz-waiting/round-001/batch.page.log", _log, check=obvious.same_answers, writes=True, share=2),
    "page-log-as-answers": Reader("fz-waiting/round-001", _answers, ("batch.page.log",)),
    "sheet-pairs": Reader("fz-waiting/round-001/batch.json", read_sheet_pairs),
    "page-sheets": Reader("fz-waiting", _sheets, writes=True),
    "task": Reader("fz-one", _task, check=obvious.same_task, share=2),
    "task-of-two": Reader("fz-two", _task, check=obvious.same_task, share=2),
    "extend": Reader("fz-two", _extend, ("task.json", "*.parquet", "rule.json")),
    "run": Reader(
        "fz-run", _run, ("*.json", "*.jsonl", "*.parquet", "round-*/*.json", "round-*/*.parquet", "llm/*.json"), share=3
    ),
    "run-config": Reader("fz-run", _run, ("config.json",)),
    "run-records": Reader("fz-run", _records, ("*.json", "*.jsonl", "round-*/*.json", "round-*/*.parquet"), share=3),
    "grid": Reader("fz-grid", _grid, ("*.json", "runs/*/*.json", "runs/*/round-*/*.json"), share=2),
    "scorer": Reader(
        "fz-model", _scorer, ("scorer.json", "sentence_bert_config.json", "config_sentence_transformers.json")
    ),
    "model": Reader("fz-model", load_model, share=0.3),
    "copied-model": Reader("fz-model", open_model, ("*.json", "*/*.json"), share=0.3),
    "cnn": Reader("fz-cnn/model", _cnn, ("vocab.json",), share=0.1),
    "matches": Reader("fz-matches", _match_folder, ("*.json", "*.parquet", "state-*/*", "task-*/**/*"), share=3),
    "match-state": Reader("fz-matches", _match_folder, ("state.json", "state-*/*")),
    "match-sheets": Reader("fz-matches", _match_sheets, ("suggested*",)),
    "audit": Reader("fz-audit", _audit, share=1),
    "audit-by-score": Reader("fz-scored", _audit, share=1),
    "audit-of-matches": Reader("fz-matches/audit", _audit, share=1),
    "store": Reader("fz-store", _store, ("*.json", "*.jsonl", "*.log"), writes=True, share=2),
    "sets": Reader("fz-sets", _sets),
    "matcher-trees": Reader("fz-matcher-trees.safetensors", _matcher),
    "matcher-splines": Reader("fz-matcher-splines.safetensors", _matcher),
    "vectors": Reader("fz-vectors", _vectors),
    "page-requests": Reader("fz-requests-page", ask_page, share=2),
    "service-requests": Reader("fz-requests-service", ask_service, share=2),
}
