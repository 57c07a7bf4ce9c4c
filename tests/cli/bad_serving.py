"""What jobs.serve may not swallow: command lines, and damaged models, known texts, stores and tokens."""

import json
from pathlib import Path

from al_ray.apps.serving.model_name import ModelName
from al_ray.apps.serving.store import Source, StoreWriter, make_store
from al_ray.apps.serving.text_lines import KnownText, texts_digest
from tests.cli.bad_pages import log_line

COLUMNS = "--text-columns words --id-column key"
SERVE = f"--model run --known t.csv {COLUMNS} --store store --dry-run"
NEW = SERVE.replace("store --dry", "made --dry")
# Not among the bad ones: what is sound.
ABOUT, TABLE, LOG = "store/store.json", "store/texts-0.jsonl", "store/changes.log"


def write_store(here: Path) -> None:
    """Write a store of the texts of t.csv, with a change."""
    texts = {"k0": KnownText("how do i swim"), "k1": KnownText("how to swim")}
    make_store(here / "store", Source("t.csv", texts_digest(texts), symmetric=True), texts)
    store = StoreWriter(here / "store")
    store.put([("k2", "why")])
    store.use_model(ModelName("run", 1))
    store.close()
    (here / "short.token").write_text("short\n")
    (here / "spaces.token").write_text("a token with spaces in it\n")


OF_LINES = [
    ("--known t.csv --store made", "--model"),
    ("--model run --store made", "--known"),
    ("--model run --known t.csv", "--store"),
    (f"{NEW} --model ''", "--model is empty; give a path"),
    (f"{NEW} --known ''", "--known is empty; give a path"),
    (f"{NEW} --store ''", "--store is empty; give a path"),
    (f"{NEW} --token secret", "--token"),
    (f"{NEW} --limit 0", "--limit is 0; give at least 1"),
    (f"{NEW} --port 0", "--port is 0; give at least 1"),
    (f"{NEW} --port 65536", "--port is 65536; give at most 65,535"),
    (f"{NEW} --batch-wait nan", "--batch-wait is nan"),
    (f"{NEW} --replicas 2 --most-replicas 1", "--most-replicas is 1 and --replicas 2; give as many or more"),
    (f"{NEW} --at-boundary --recall 0.5", "--at-boundary and --recall are two cutoffs; give one of them"),
    (f"{NEW} --at-p 0.5", "--at-p needs probabilities, and those of"),
    (f"{NEW} --recall 0.5", "has no threshold for recall=0.5; choose one: python -m jobs.evaluate --run"),
    (f"{NEW} --host 0.0.0.0", "--host 0.0.0.0 is open to other machines, and there is no token; give --token-file"),
    (f"{NEW} --token-file nowhere", "--token-file nowhere cannot be read"),
    (f"{NEW} --token-file short.token", "--token-file short.token: the token is not 16 or more printable ASCII"),
    (f"{NEW} --token-file spaces.token", "--token-file spaces.token: the token is not 16 or more printable ASCII"),
    (f"{NEW} --model nowhere", "nowhere holds no config.json; give the folder of a run"),
    (f"{NEW} --model enc", "enc is an encoder, without scorer.json; give a run, or the model folder of a round"),
    (f"{NEW} --known nowhere.csv", "nowhere.csv cannot be read (No such file or directory)"),
    (f"{NEW} --known enc", "is a folder without a task or matches of tables; give a table, a task folder, or"),
    (f"{NEW} --known judge.py", "judge.py: its extension is none of"),
    (f"{NEW} --text-columns sentences", "sentences"),
    ("--model run --known t.csv --store made --dry-run", "so give the columns of the texts: --text-columns"),
    (f"{NEW} --store run", "run is no store and not empty; give --store a folder of its own"),
    (f"{NEW} --store t.csv", "t.csv is no store and not empty; give --store a folder of its own"),
    (f"{SERVE} --known more.csv", "store was made from other texts (t.csv) than "),
]


def store_about(table: object) -> str:
    """Return a store.json whose newest table has this name."""
    snapshot = {"table": table, "digest": "", "number": 0, "offset": 0}
    return json.dumps({"source": {"known": "t.csv", "digest": "", "symmetric": True}, "snapshot": snapshot})


OF_SERVE = [
    *(({}, line, words) for line, words in OF_LINES),
    ({"t.csv": "key,words\n"}, NEW, "t.csv"),
    ({ABOUT: "{}"}, SERVE, "store.json lacks source, snapshot; restore it, or make another --store"),
    ({ABOUT: '{"source": 1, "snapshot": {}}'}, SERVE, "store.json is not what this al_ray wrote"),
    ({TABLE: '{"id": "k0", "text": "how do i swim", "cluster": null}\n'}, SERVE, "is not as it was written"),
    ({TABLE: None}, SERVE, "texts-0.jsonl cannot be read"),
    ({LOG: "00000000 {}\n"}, SERVE, "changes.log, byte 0: the change 1 is damaged; restore the file"),
    ({LOG: None}, SERVE, "changes.log cannot be read"),
    ({LOG: log_line(number=1, put=[["k2"]], removed=[])}, SERVE, "byte 0: the change 1 is not as al_ray writes it"),
    ({LOG: log_line(number=1, put=[], removed=[7])}, SERVE, "byte 0: the change 1 is not as al_ray writes it"),
    ({ABOUT: store_about("../t.csv")}, SERVE, "store.json has '../t.csv' as the name of a file in "),
    ({ABOUT: store_about(3)}, SERVE, "store.json is not what this al_ray wrote (table is 3"),
]
