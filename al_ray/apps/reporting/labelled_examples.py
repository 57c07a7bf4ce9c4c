"""Example pairs among the labels of a run, for people to look at where no split was evaluated.

A pair has the score that its batch stores: that of the model that chose it, which is a cosine for most models. That
model had not seen the label, so it may disagree with it. If no trained model chose any pair, scores are cosines of the
untrained encoder.
"""

from collections.abc import Mapping

import numpy as np

from al_ray.apps.reporting.run_records import ExamplePair, TaskSummary
from al_ray.core.labels import NO, OPEN, UNSURE, YES, latest_labels
from al_ray.core.pairs import Mask, Pairs, Rows, as_pairs
from al_ray.core.scorer import CANDIDATE, Floats, Labels, sigmoid
from al_ray.datasets.task_folder import read_about, read_texts
from al_ray.runs.ledger_files import CLOSED, RENAMED
from al_ray.runs.round_models import scorer_of
from al_ray.storage.files import read_json, read_parquet
from al_ray.storage.uri import StoragePath

YES_TO_NO, NO_TO_YES, UNCERTAIN, CONFIDENT = "yes-to-no", "no-to-yes", "uncertain", "confident"
SIMILAR_NO, DIFFERENT_YES = "similar-no", "different-yes"
# Pairs of each kind that are read; jobs.report --examples shows fewer.
MOST = 100


def labelled_examples(
    folder: StoragePath, last: int, uses_model: bool, task: TaskSummary, home: StoragePath
) -> tuple[ExamplePair, ...]:
    """Return examples among the pairs labelled yes or no in rounds 1 to `last`, the most extreme of each kind first.

    uses_model: whether trained models chose the pairs of all rounds but the first. home: the task folder; if it is not
    the task's any more, ids stand for texts.
    """
    rounds = [_scored_round(folder, number, uses_model and number > 1) for number in range(1, last + 1)]
    pairs, labels, cosines, logits = (np.concatenate(column) for column in zip(*rounds, strict=True))
    labels = _corrected(folder, pairs, labels, bool(task.counts) and read_about(home)["symmetric"])
    chosen = [(kind, row) for kind, rows in _kinds(labels, cosines, logits).items() for row in rows[:MOST].tolist()]
    texts = _texts(task, home, pairs[np.array([row for _, row in chosen], dtype=np.int64)])
    p = [None if np.isnan(value) else value for value in sigmoid(logits).tolist()]
    return tuple(
        ExamplePair(
            kind=kind,
            left=int(pairs[row, 0]),
            right=int(pairs[row, 1]),
            label=int(labels[row]),
            cosine=None if cosines[row] >= CANDIDATE else float(cosines[row]),
            p=p[row],
            left_text=left,
            right_text=right,
        )
        for (kind, row), left, right in zip(chosen, *texts, strict=True)
    )


def read_labelled(home: StoragePath) -> tuple[Pairs, Floats]:
    """Return the pairs (n, 2) of a complete round that have a label, and their cosines (n,), NaN where unknown.

    These are all pairs of its batch, unless it was closed early.
    """
    # Read without a schema: older batches have no column `source`.
    batch = read_parquet(home / "batch.parquet", renamed=RENAMED)
    pairs = as_pairs(batch["left"].to_numpy(), batch["right"].to_numpy())
    cosines = batch["score"].fill_null(float("nan")).to_numpy()
    if not (home / CLOSED).exists():
        return pairs, cosines
    table = read_parquet(home / "labels.parquet")
    labelled = as_pairs(table["left"].to_numpy(), table["right"].to_numpy())
    width = 1 + int(max(pairs.max(initial=0), labelled.max(initial=0)))
    there = np.isin(_keys(pairs, width, symmetric=False), _keys(labelled, width, symmetric=False))
    return pairs[there], cosines[there]


def _scored_round(folder: StoragePath, number: int, by_model: bool) -> tuple[Pairs, Labels, Floats, Floats]:
    """Return the labelled pairs (n, 2) of a round, labels, cosines and logits (n,); NaN for a score that is unknown."""
    home = folder / f"round-{number:03d}"
    (pairs, cosines), labels = read_labelled(home), read_parquet(home / "labels.parquet")
    logits = np.full(len(cosines), np.nan)
    if by_model:
        model = read_json(folder / f"round-{number - 1:03d}" / "record.json", ["model"])["model"]
        logits = scorer_of(model).logit(cosines)
    return pairs, labels["label"].fill_null(UNSURE).to_numpy(), cosines, logits


def _corrected(folder: StoragePath, pairs: Pairs, labels: Labels, symmetric: bool) -> Labels:
    """Return the labels (n,) of pairs (n, 2) with the corrections of a run."""
    for path in sorted(folder.glob("corrections-*.parquet"), key=lambda path: path.name):
        table = read_parquet(path)
        corrected = as_pairs(table["left"].to_numpy(), table["right"].to_numpy())
        width = 1 + int(max(pairs.max(initial=0), corrected.max(initial=0)))
        keys, own = (_keys(part, width, symmetric) for part in (corrected, pairs))
        latest = latest_labels(keys, table["label"].to_numpy(), own)
        labels = np.where(latest == OPEN, labels, latest)
    return labels


def _keys(pairs: Pairs, width: int, symmetric: bool) -> Rows:
    """Return a number (n,) for each pair (n, 2); in a symmetric task (a, b) and (b, a) have the same."""
    left, right = (np.sort(pairs, axis=1) if symmetric else pairs).T
    return left * width + right


def _kinds(labels: Labels, cosines: Floats, logits: Floats) -> Mapping[str, Rows]:
    """Return kind -> rows of the pairs of that kind, the most extreme first; equal ones in the order of labelling."""
    if (known := ~np.isnan(logits)).any():
        yes, sure = logits >= 0, known & (labels != UNSURE)
        return {
            YES_TO_NO: _sorted(known & yes & (labels == NO), -logits),
            NO_TO_YES: _sorted(known & ~yes & (labels == YES), logits),
            UNCERTAIN: _sorted(sure, np.abs(logits)),
            CONFIDENT: _sorted(sure, -np.abs(logits)),
        }
    known = ~np.isnan(cosines)
    return {
        SIMILAR_NO: _sorted(known & (labels == NO), -cosines),
        DIFFERENT_YES: _sorted(known & (labels == YES), cosines),
    }


def _sorted(mask: Mask, cost: Floats) -> Rows:
    """Return the rows where the mask (n,) is true, by ascending cost."""
    rows = np.flatnonzero(mask)
    return rows[np.argsort(cost[rows], kind="stable")]


def _texts(task: TaskSummary, home: StoragePath, pairs: Pairs) -> tuple[list[str], list[str]]:
    """Return the left and the right texts (n,) of pairs (n, 2); rows where the task folder was not found."""
    left, right = pairs.T
    if not task.counts:
        return [f"text {row} of the task" for row in left], [f"text {row} of the task" for row in right]
    return read_texts(home, "left", left), read_texts(home, "right", right)
