"""What --help of each command shows first: two examples, and the options that most people need."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Screen:
    """The first page of a command.

    examples: two command lines, which the command can parse. first: at most ten options, as fields with dots, in the
    order of the page; "" for those of the group general.
    """

    examples: tuple[str, str]
    first: str = ""


SCREENS: Mapping[str, Screen] = {
    "annotate": Screen(
        ("python -m jobs.annotate --run runs/products", "python -m jobs.annotate --audit runs/products/audit-dev"),
        "run audit matches host port token_file question overlap confirm_matches dry_run",
    ),
    "audit": Screen(
        ("python -m jobs.audit sample --run runs/first", "python -m jobs.audit estimate --audit runs/first/audit-dev")
    ),
    "audit sample": Screen(
        (
            "python -m jobs.audit sample --run runs/first --split train --by-score",
            "python -m jobs.audit sample --matches matches/products --budget 100",
        ),
        "run matches out split by_score budget at_recall near rand round",
    ),
    "audit estimate": Screen(
        (
            "python -m jobs.audit estimate --audit runs/first/audit-dev",
            "python -m jobs.audit estimate --labels sheet.csv --threshold-for precision=0.9",
        )
    ),
    "augment": Screen(
        (
            "python -m jobs.augment --gold stsb:stsbenchmark --out models/augmented",
            "python -m jobs.augment --task tasks/small --labels runs/first --out models/augmented",
        ),
        "out gold task labels sampler pool encoder teacher gold_pairs dry_run",
    ),
    "demo": Screen(("python -m jobs.demo", "python -m jobs.demo --texts 1000 --out demo")),
    "evaluate": Screen(
        (
            "python -m jobs.evaluate --run runs/first --split test",
            "python -m jobs.evaluate --run runs/first --threshold-for precision=0.9",
        ),
        "run split against round threshold_for exact estimate scores heuristic out",
    ),
    "export": Screen(
        (
            "python -m jobs.export --model runs/first --format sentence-transformers --out first",
            "python -m jobs.export --model runs/first --format onnx --int8 --out first-onnx",
        )
    ),
    "grid": Screen(
        (
            "python -m jobs.grid --task tasks/small --out grid --strategies uncertainty,static",
            "python -m jobs.grid --task tasks/small --out grid --seeds 0,1,2 --dry-run",
        ),
        "task out strategies seeds encoders budgets rounds first_batch recipe dry_run",
    ),
    "labels": Screen(
        ("python -m jobs.labels status --run runs/first", "python -m jobs.labels export --run runs/first --out a.csv")
    ),
    "labels status": Screen(
        ("python -m jobs.labels status --run runs/first", "python -m jobs.labels status --run s3://bucket/runs/first")
    ),
    "labels export": Screen(
        (
            "python -m jobs.labels export --run runs/first --out labels.csv",
            "python -m jobs.labels export --run runs/first --out labels.parquet --every-column",
        )
    ),
    "labels import": Screen(
        (
            "python -m jobs.labels import --run runs/first --labels labels.csv",
            "python -m jobs.labels import --run runs/new --task tasks/new --labels runs/old",
        )
    ),
    "labels correct": Screen(
        (
            "python -m jobs.labels correct --run runs/first --labels corrections.csv",
            "python -m jobs.labels correct --run runs/first --left-id a1 --right-id b7 --label no",
        )
    ),
    "labels close": Screen(
        ("python -m jobs.labels close --run runs/first", "python -m jobs.labels close --run s3://bucket/runs/first")
    ),
    "match": Screen(
        (
            "python -m jobs.match --model runs/first --left ours.csv --at-boundary --out matches",
            "python -m jobs.match --model runs/first --left a.csv --right b.csv --why --out matches",
        ),
        "model left right out into at_boundary precision text_columns assign why",
    ),
    "mine": Screen(
        (
            "python -m jobs.mine --task tasks/small",
            "python -m jobs.mine --task tasks/small --miners bm25 random --out negatives",
        ),
        "task out miners per_text known split queries run encoder seed",
    ),
    "paraphrase": Screen(
        (
            "python -m jobs.paraphrase train --task tasks/qqp --out models/questions",
            'python -m jobs.paraphrase search --run models/questions --question "How do I swim?"',
        )
    ),
    "paraphrase train": Screen(
        (
            "python -m jobs.paraphrase train --task tasks/qqp --out models/questions",
            "python -m jobs.paraphrase train --task tasks/qqp --out models/hard --loss triplet-hard",
        ),
        "task out encoder loss epochs batch learning_rate seed max_length device",
    ),
    "paraphrase index": Screen(
        (
            "python -m jobs.paraphrase index --run models/questions",
            "python -m jobs.paraphrase index --run models/questions --index Flat",
        )
    ),
    "paraphrase search": Screen(
        (
            'python -m jobs.paraphrase search --run models/questions --question "How do I swim?"',
            "python -m jobs.paraphrase search --run models/questions --questions file.txt",
        )
    ),
    "paraphrase evaluate": Screen(
        (
            "python -m jobs.paraphrase evaluate --run models/questions",
            "python -m jobs.paraphrase evaluate --run models/questions --split test",
        )
    ),
    "paraphrase compare": Screen(
        (
            "python -m jobs.paraphrase compare --runs models/a models/b",
            "python -m jobs.paraphrase compare --runs models/a models/b --by smoothing --out plot",
        )
    ),
    "plan": Screen(
        (
            "python -m jobs.plan --task tasks/small --rounds 4",
            "python -m jobs.plan --texts 1000000 --dim 384 --gpus 8",
        ),
        "task texts right_texts tokens rounds first_batch gpus cost_per_pair constants measure",
    ),
    "prepare": Screen(
        (
            "python -m jobs.prepare synthetic --texts 4000 --out tasks/small",
            "python -m jobs.prepare pairs --left ours.csv --text-columns name,maker --out tasks/ours",
        )
    ),
    "prepare qqp": Screen(
        (
            "python -m jobs.prepare qqp --source quora.tsv --out tasks/qqp",
            "python -m jobs.prepare qqp --source quora.tsv --held-out-pairs 5000 --out tasks/qqp",
        )
    ),
    "prepare wikiqa": Screen(
        (
            "python -m jobs.prepare wikiqa --source WikiQACorpus --out tasks/wikiqa",
            "python -m jobs.prepare wikiqa --source WikiQACorpus --bad-rows skip --out tasks/wikiqa",
        )
    ),
    "prepare synthetic": Screen(
        (
            "python -m jobs.prepare synthetic --texts 4000 --out tasks/small",
            "python -m jobs.prepare synthetic --texts 100000 --seed 1 --out tasks/large",
        )
    ),
    "prepare pairs": Screen(
        (
            "python -m jobs.prepare pairs --left a.csv --text-columns name,maker --out tasks/ours",
            "python -m jobs.prepare pairs --source pairs.csv --text-columns one,two --out tasks/pairs",
        ),
        "out left right id_column text_columns labels label_columns source split extend",
    ),
    "prepare logs": Screen(
        (
            "python -m jobs.prepare logs --source logs.csv --out tasks/logs",
            "python -m jobs.prepare logs --source logs.csv --answer-column answer_id --out tasks/logs",
        )
    ),
    "prepare evaluation": Screen(
        (
            "python -m jobs.prepare evaluation --task tasks/small",
            "python -m jobs.prepare evaluation --task tasks/small --evaluation.splits test",
        ),
        "task encoder encoder_layers max_length evaluation.splits evaluation.mode evaluation.seed shards",
    ),
    "report": Screen(
        ("python -m jobs.report runs/first runs/second --out report", "python -m jobs.report grid --out report")
    ),
    "reproduce": Screen(
        (
            "python -m jobs.reproduce table3 --task tasks/wikiqa --out paper --dry-run",
            "python -m jobs.reproduce figure4 --task tasks/wikiqa --out paper --seeds 3",
        ),
        "target task out seeds rounds first_batch encoder max_length shards dry_run",
    ),
    "run": Screen(
        (
            "python -m jobs.run --task tasks/small --out runs/first --rounds 3",
            "python -m jobs.run --task tasks/ours --out runs/ours --recipe records --oracle page",
        ),
        "task out recipe oracle strategy rounds first_batch encoder max_length evaluation.splits",
    ),
    "serve": Screen(
        (
            "python -m jobs.serve --model runs/first --known ours.csv --store store",
            "python -m jobs.serve --model runs/first --known ours.csv --store store --dry-run",
        ),
        "model known store host port token_file at_boundary limit replicas dry_run",
    ),
    "train": Screen(
        (
            "python -m jobs.train --task tasks/small --labels runs/first --out models/concat",
            "python -m jobs.train --task tasks/small --labels stated --model cosine --out models/bi",
        ),
        "task labels out model encoder max_length training.epochs rerank top dry_run",
    ),
}
"""The first page of each command and subcommand.

The options are those that README.md, the quickstart and the page of the command use, required ones included.
"""
