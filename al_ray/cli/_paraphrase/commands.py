"""Carry out the subcommands of paraphrase, and print their results."""

import json
from dataclasses import fields
from typing import Any

from al_ray.apps.paraphrase import pipeline
from al_ray.apps.paraphrase.comparison import METRICS, compared, points, row
from al_ray.apps.paraphrase.evaluation import evaluate_search, make_index, search_questions
from al_ray.apps.paraphrase.folder import ParaphraseFolder
from al_ray.apps.paraphrase.index import NEAREST, RecallTarget
from al_ray.apps.paraphrase.options import Epoch, ParaphraseConfig, best_epoch
from al_ray.apps.reporting.plots.evaluation_plots import option_plot
from al_ray.cli._paraphrase.options import Compare, Evaluate, Index, Search, Train
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.bounds import check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.text_table import format_columns
from al_ray.storage.files import write_json, write_pictures, write_text


def carry_out(given: Train | Index | Search | Evaluate | Compare) -> None:
    """Do what the options say."""
    check_bounds(given)
    match given:
        case Train():
            train(given)
        case Index():
            index(given)
        case Search():
            search(given)
        case Evaluate():
            evaluate(given)
        case Compare():
            compare(given)


def train(given: Train) -> None:
    """Train to the end, and print a line an epoch."""
    watch = Progress()

    def on_epoch(epoch: Epoch) -> None:
        watch.close()
        metrics = f"epoch {epoch.epoch}: loss {epoch.loss:.4f}, dev ROC AUC {epoch.roc_auc:.4f}"
        print(f"{metrics} ({epoch.batches} batches, {epoch.seconds:.0f} s)", flush=True)

    config = ParaphraseConfig(**{field.name: getattr(given, field.name) for field in fields(ParaphraseConfig)})
    folder = pipeline.train(config, given.out, given.device, watch, on_epoch)
    top = best_epoch(folder.epochs())
    print(f"best epoch: {top.epoch}, ROC AUC {top.roc_auc:.4f} on dev; model: {folder.model}")


def index(given: Index) -> None:
    """Make the index, or replace it."""
    cluster = ClusterConfig(shards=given.shards, shared_storage=given.shared_storage)
    watch = Progress()
    folder, about, count = make_index(
        given.run, given.index, RecallTarget(given.nprobe, given.least_recall), cluster, watch
    )
    watch.close()
    print(f"{count:,} questions in {folder.index}", of_index(about), sep="\n")


def search(given: Search) -> None:
    """Search, and print or write what was found."""
    lines = search_questions(given.run, texts_of(given), given.count)
    if given.out is not None:
        write_text(given.out, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        print(f"{len(lines):,} questions searched for: {given.out}")
        return
    for line in lines:
        print(line["question"])
        rows = [(f"{one['distance']:.3f}", one["id"], one["text"]) for one in line["found"]]
        print(format_columns([("distance", "id", "question"), *rows]))


def texts_of(given: Search) -> list[str]:
    """Return the question, or those of the file."""
    if (given.question is None) == (given.questions is None):
        raise BadOption("give --question TEXT or --questions FILE")
    if given.questions is None:
        lines = [given.question or ""]
    else:
        try:
            lines = given.questions.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(
                f"{given.questions} cannot be read ({error}); give a UTF-8 file, a question a line"
            ) from error
    texts = [text.strip() for text in lines if text.strip()]
    if not texts:
        raise BadOption(f"{given.questions or '--question'} is empty; give a question")
    return texts


def evaluate(given: Evaluate) -> None:
    """Evaluate, print, and write evaluation-SPLIT.json."""
    metrics = evaluate_search(given.run, given.split, given.timed)
    path = given.run / f"evaluation-{given.split}.json"
    write_json(path, metrics)
    print(of_evaluation(metrics))
    print(f"results: {path}")


def compare(given: Compare) -> None:
    """Print the table, and draw the picture."""
    if (given.by is None) != (given.out is None):
        raise BadOption("--by and --out make a picture together; give both or neither")
    names, spreads = compared([ParaphraseFolder(path) for path in given.runs], given.split)
    head = (*names, "seeds", *(f"{name}, %" for name in METRICS.values()))
    print(f"{given.split}:")
    print(format_columns([head, *(row(setting, of) for setting, of in spreads.items())]))
    if given.by is not None and given.out is not None:
        write_pictures(given.out, option_plot(given.by, points(names, spreads, given.by), given.split))
        print(f"picture: {given.out}.svg, {given.out}.png")


def of_evaluation(figures: dict[str, Any]) -> str:
    """The figures as a table and a line."""
    names = ("precision_at_1", "precision_at_10", "mean_reciprocal_rank")
    query = figures["query"]
    return "\n".join([
        format_columns([("split", "queries", "P@1", "P@10", "MRR"), (
            figures["split"], f"{figures['queries']:,}", *(f"{figures[name]:.4f}" for name in names)
        )]),
        f"a query: {query['mean_ms']:.2f} ms (95% within {query['p95_ms']:.2f}), {query['faiss_share']:.0%} in Faiss",
        of_index(figures["index"]),
    ])  # fmt: skip


def of_index(about: dict[str, Any]) -> str:
    """What an index finds."""
    cells = "" if about["nprobe"] is None else f", --nprobe {about['nprobe']}"
    return f"index {about['index']}{cells}: finds {about['recall']:.1%} of the {NEAREST} nearest"
