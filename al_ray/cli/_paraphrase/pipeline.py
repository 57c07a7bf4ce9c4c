"""Run the subcommands of paraphrase, and print their results."""

import json
from typing import Any

from al_ray.apps.papers.paraphrase import pipeline
from al_ray.apps.papers.paraphrase.comparison import METRICS, compared, points, row
from al_ray.apps.papers.paraphrase.evaluation import evaluate_search, make_index, search_questions
from al_ray.apps.papers.paraphrase.folder import ParaphraseFolder
from al_ray.apps.papers.paraphrase.index import NEAREST, RecallTarget
from al_ray.apps.papers.paraphrase.options import Epoch, ParaphraseConfig, best_epoch
from al_ray.apps.reporting.plots.evaluation_plots import option_plot
from al_ray.cli._paraphrase.options import Compare, Evaluate, Index, Search, Train
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.bounds import check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.text_table import format_columns
from al_ray.storage.files import write_json, write_pictures, write_text


def run_command(options: Train | Index | Search | Evaluate | Compare) -> None:
    """Check the bounds of the options, and run the subcommand."""
    check_bounds(options)
    commands = {Train: train, Index: index, Search: search, Evaluate: evaluate, Compare: compare}
    commands[type(options)](options)


def train(options: Train) -> None:
    """Train to the end, and print a line for each epoch."""
    progress = Progress()

    def on_epoch(epoch: Epoch) -> None:
        progress.close()
        metrics = f"epoch {epoch.epoch}: loss {epoch.loss:.4f}, dev ROC AUC {epoch.roc_auc:.4f}"
        print(f"{metrics} ({epoch.batches} batches, {epoch.seconds:.0f} s)", flush=True)

    folder = pipeline.train(part(options, ParaphraseConfig), options.out, options.device, progress, on_epoch)
    top = best_epoch(folder.epochs())
    print(f"best epoch: {top.epoch}, ROC AUC {top.roc_auc:.4f} on dev; model: {folder.model}")


def index(options: Index) -> None:
    """Build the index; an earlier one is replaced."""
    cluster = ClusterConfig(shards=options.shards, shared_storage=options.shared_storage)
    progress, target = Progress(), RecallTarget(options.nprobe, options.least_recall)
    folder, recall, count = make_index(options.run, options.index, target, cluster, progress)
    progress.close()
    print(f"{count:,} questions in {folder.index}", format_index(recall), sep="\n")


def search(options: Search) -> None:
    """Search, and print or write the results."""
    lines = search_questions(options.run, texts_of(options), options.count)
    if options.out is not None:
        write_text(options.out, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        print(f"wrote the results of {len(lines):,} questions to {options.out}")
        return
    for line in lines:
        print(line["question"])
        rows = [(f"{one['distance']:.3f}", one["id"], one["text"]) for one in line["found"]]
        print(format_columns([("distance", "id", "question"), *rows]))


def texts_of(options: Search) -> list[str]:
    """Return the question, or the questions of the file."""
    if (options.question is None) == (options.questions is None):
        raise BadOption("give --question TEXT or --questions FILE")
    if options.questions is None:
        lines = [options.question or ""]
    else:
        try:
            lines = options.questions.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(
                f"{options.questions} cannot be read ({error}); give a UTF-8 file with one question per line"
            ) from error
    texts = [text.strip() for text in lines if text.strip()]
    if not texts:
        raise BadOption(f"{options.questions or '--question'} is empty; give a question")
    return texts


def evaluate(options: Evaluate) -> None:
    """Evaluate, print and write evaluation-SPLIT.json."""
    metrics = evaluate_search(options.run, options.split, options.timed)
    path = options.run / f"evaluation-{options.split}.json"
    write_json(path, metrics)
    print(format_evaluation(metrics))
    print(f"results: {path}")


def compare(options: Compare) -> None:
    """Print the table, and draw the plot."""
    if (options.by is None) != (options.out is None):
        raise BadOption("--by and --out make a plot together; give both or neither")
    names, spreads = compared([ParaphraseFolder(path) for path in options.runs], options.split)
    head = (*names, "seeds", *(f"{name}, %" for name in METRICS.values()))
    print(f"{options.split}:")
    print(format_columns([head, *(row(setting, of) for setting, of in spreads.items())]))
    if options.by is not None and options.out is not None:
        write_pictures(options.out, option_plot(options.by, points(names, spreads, options.by), options.split))
        print(f"plot: {options.out}.svg, {options.out}.png")


def format_evaluation(metrics: dict[str, Any]) -> str:
    """Format the metrics of an evaluation, the time of a query and the recall of the index."""
    names = ("precision_at_1", "precision_at_10", "mean_reciprocal_rank")
    query, left_out = metrics["query"], metrics["queries_left_out"]
    return "\n".join([
        format_columns([("split", "queries", "P@1", "P@10", "MRR"), (
            metrics["split"], f"{metrics['queries']:,}", *(f"{metrics[name]:.4f}" for name in names)
        )]),
        *([f"left out: {left_out:,} questions whose text is in train, too"] if left_out else []),
        f"a query: {query['mean_ms']:.2f} ms (95% within {query['p95_ms']:.2f}), {query['faiss_share']:.0%} in Faiss",
        format_index(metrics["index"]),
    ])  # fmt: skip


def format_index(index: dict[str, Any]) -> str:
    """Format the kind and the recall of an index."""
    cells = "" if index["nprobe"] is None else f", --nprobe {index['nprobe']}"
    return f"index {index['index']}{cells}: finds {index['recall']:.1%} of the {NEAREST} nearest"
