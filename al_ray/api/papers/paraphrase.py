"""Question paraphrase retrieval (paper 001): train an encoder, index questions, search, evaluate and compare."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from al_ray.apps.papers.paraphrase import pipeline
from al_ray.apps.papers.paraphrase.comparison import METRICS, compared, points, row
from al_ray.apps.papers.paraphrase.evaluation import evaluate_search, make_index, search_questions
from al_ray.apps.papers.paraphrase.folder import ParaphraseFolder
from al_ray.apps.papers.paraphrase.index import NEAREST, RecallTarget
from al_ray.apps.papers.paraphrase.options import Epoch, ParaphraseConfig, best_epoch
from al_ray.apps.reporting.plots.evaluation_plots import option_plot
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.naming import option
from al_ray.core.progress import OnProgress
from al_ray.core.text_table import format_columns
from al_ray.storage.files import write_json, write_pictures, write_text

__all__ = ["ParaphraseFolder", "compare_models", "evaluate_model", "index_questions", "search_questions"]
__all__ += ["train_encoder", "write_text"]


def train_encoder(
    config: ParaphraseConfig,
    out: Path,
    device: str,
    on_progress: OnProgress,
    on_epoch: Callable[[str], None],
) -> str:
    """Train to the end, continuing from the folder, and return the best epoch and its model in words.

    device: cpu, or cuda:0. on_epoch: called with a line about each epoch.
    """

    def say(epoch: Epoch) -> None:
        metrics = f"epoch {epoch.epoch}: loss {epoch.loss:.4f}, dev ROC AUC {epoch.roc_auc:.4f}"
        on_epoch(f"{metrics} ({epoch.batches} batches, {epoch.seconds:.0f} s)")

    folder = pipeline.train(config, out, device, on_progress, say)
    top = best_epoch(folder.epochs())
    return f"best epoch: {top.epoch}, ROC AUC {top.roc_auc:.4f} on dev; model: {folder.model}"


def index_questions(
    run: Path,
    index: str | None,
    nprobe: int | None,
    least_recall: float,
    cluster: ClusterConfig,
    on_progress: OnProgress,
) -> list[str]:
    """Build the index of a model, in place of an earlier one, and return its size and its recall in words.

    nprobe: cells that a query searches; None for the fewest that reach least_recall, a share in [0, 1].
    """
    folder, recall, count = make_index(run, index, RecallTarget(nprobe, least_recall), cluster, on_progress)
    return [f"{count:,} questions in {folder.index}", format_index(recall)]


def evaluate_model(run: Path, split: str, timed: int) -> list[str]:
    """Evaluate the search of a model, write evaluation-SPLIT.json, and return the metrics in words.

    timed: questions that are searched one by one to measure the time of a query.
    """
    metrics = evaluate_search(run, split, timed)
    path = run / f"evaluation-{split}.json"
    write_json(path, metrics)
    return [format_evaluation(metrics), f"results: {path}"]


def compare_models(runs: Sequence[Path], split: str, by: str | None, out: Path | None) -> list[str]:
    """Return a table of evaluated models; with `by`, an option, and `out`, a path without its end, also draw a plot."""
    names, spreads = compared([ParaphraseFolder(path) for path in runs], split)
    head = (*names, "seeds", *(f"{name}, %" for name in METRICS.values()))
    lines = [f"{split}:", format_columns([head, *(row(setting, of) for setting, of in spreads.items())])]
    if by is not None and out is not None:
        write_pictures(out, option_plot(by, points(names, spreads, by), split))
        lines.append(f"plot: {out}.svg, {out}.png")
    return lines


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
    cells = "" if index["nprobe"] is None else f", {option('nprobe', index['nprobe'])}"
    return f"index {index['index']}{cells}: finds {index['recall']:.1%} of the {NEAREST} nearest"
