"""What jobs.annotate may not swallow: command lines, and damaged batches, sheets and logs of answers."""

import json
from pathlib import Path
from zlib import crc32

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.core.labels import NO, Batch
from al_ray.core.task import Task
from al_ray.oracles.answer_files import BATCH
from al_ray.oracles.page_log import append, log_path, open_page_log
from al_ray.oracles.people import codes_of, write_sheets
from al_ray.runs.run_folder import opened

ANNOTATE = "--run waiting --dry-run"
ROUND = "waiting/round-001"


def write_waiting(here: Path, task: Task) -> None:
    """Write a run of which people have answered a pair of the first round on the page."""
    space = task.split("train").space
    batch = Batch(space.pairs(space.at(np.arange(3) * 4)), np.full(3, 0.5), "seed")
    with opened(here / "waiting", task) as folder:
        folder.bind(RunConfig(task="task", oracle="file", encoder="random-bert", encoder_layers=1))
        folder.ledger.add_batch(1, batch)
    codes = codes_of(1, 3)
    write_sheets(here / ROUND, BATCH, codes, batch.pairs, task)
    answers, log = open_page_log(log_path(here / ROUND, BATCH))
    append(log, answers, kind="answer", pair=codes[0], by="ann", label="no", note="", request="1")
    assert answers.label(codes[0]) == NO
    log.close()


OF_LINES = [
    ("", "give one folder: of a run (--run), of an audit (--audit) or of matches (--matches)"),
    ("--run waiting --audit audit", "give one folder: of a run (--run), of an audit (--audit) or of matches"),
    ("--run ''", "--run is empty; give a path"),
    ("--run nowhere", "nowhere holds no config.json; give the folder of a run"),
    ("--run s3://nobody/run", "--run s3://nobody/run is a URI; people label in a run folder on a local disk"),
    (
        "--run run",
        "run has no pair that waits for an answer of people; go on with: python -m jobs.run --out run --config run",
    ),
    ("--matches nowhere", "nowhere holds no match.json; give --matches the folder that jobs.match wrote"),
    ("--matches known", "known has no suggested pairs; jobs.match --suggest N writes them"),
    ("--audit nowhere", "nowhere holds no audit-key.json; give --audit the folder that jobs.audit sample wrote"),
    ("--audit run", "run holds no audit-key.json; give --audit the folder that jobs.audit sample wrote"),
    ("--audit audit", "audit.json cannot be read as a list of pairs"),
    (f"{ANNOTATE} --port 0", "--port is 0; give at least 1"),
    (f"{ANNOTATE} --overlap 1.5", "--overlap is 1.5; give at most 1"),
    (f"{ANNOTATE} --overlap nan", "--overlap is nan"),
    (f"{ANNOTATE} --lease-minutes 0", "--lease-minutes is 0"),
    (f"{ANNOTATE} --token secret", "--token"),
    (f"{ANNOTATE} --token-file nowhere", "--token-file nowhere cannot be read"),
    (f"{ANNOTATE} --token-file short.token", "--token-file short.token: the token is not 16 or more printable ASCII"),
    (
        f"{ANNOTATE} --host 0.0.0.0",
        "--host 0.0.0.0 is open to other machines, and there is no token; give --token-file",
    ),
    (f"{ANNOTATE} --host nowhere.invalid", "--host nowhere.invalid is open to other machines"),
]


def log_line(**fields: object) -> bytes:
    """Return a line of a log with a checksum that fits."""
    content = json.dumps(fields).encode()
    return b"%08x %s\n" % (crc32(content), content)


OF_ANNOTATE = [
    *(({}, line, words) for line, words in OF_LINES),
    ({f"{ROUND}/batch.json": '{"a": 1}'}, ANNOTATE, "batch.json cannot be read as a list of pairs"),
    (
        {f"{ROUND}/batch.json": "[]"},
        ANNOTATE,
        "batch.json holds other pairs than batch.parquet beside it; move it away",
    ),
    ({f"{ROUND}/batch.json": '[{"data": {"pair": 3}}]'}, ANNOTATE, "batch.json cannot be read as a list of pairs"),
    ({f"{ROUND}/batch.csv": "pair,label\nr001-00001,maybe\n"}, ANNOTATE, "its label is 'maybe', not yes, no or unsure"),
    ({f"{ROUND}/batch.csv": "pair,label\nr001-00001,no\n"}, ANNOTATE, "batch.csv lacks r001-00002"),
    ({f"{ROUND}/batch.parquet": 40}, ANNOTATE, "batch.parquet"),
    (
        {f"{ROUND}/batch.page.log": "0 {}\n"},
        ANNOTATE,
        "batch.page.log, byte 0: the change 1 is damaged; restore the file",
    ),
    *(
        ({f"{ROUND}/batch.page.log": log_line(**fields)}, ANNOTATE, f"byte 0: the change 1 {words}")
        for fields, words in (
            ({}, "has no number"),
            ({"number": 1}, "is not as al_ray writes it"),
            (
                {"number": 1, "kind": "answer", "pair": "r001-00001", "by": "ann", "at": "", "label": "maybe"},
                "is not as",
            ),
            ({"number": 1, "kind": "recorded", "labels": 3}, "is not as al_ray writes it"),
        )
    ),
    ({f"{ROUND}/batch.json": '[{"data": {"pair": "r001-00001", "left_id": []}}]'}, ANNOTATE, "a value that is no text"),
    ({"waiting/config.json": "{}"}, ANNOTATE, "config.json lacks task_digest"),
]
