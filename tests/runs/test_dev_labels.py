"""w and b fitted to dev labels, in the scorer.json of the round: the same again, corrected, none without evidence."""

import json
from dataclasses import replace

import numpy as np
import pytest

from al_ray.core.labels import NO, make_answers
from al_ray.core.rng import generator
from al_ray.core.scorer import Scorer
from al_ray.datasets.task_folder import sealed
from al_ray.metrics.audit import false_positives, ranking_quality, score_bands
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.runs.dev_labels import DevLabels
from al_ray.storage.files import write_json

TRAINED = Scorer(200.0, -150.0, 0.1)
TOP = 200


@pytest.fixture
def folder(make_task, tmp_path, monkeypatch):
    """The dev labels of a run of one round whose drawn pairs are not labelled yet; and which of these match."""
    for module in (false_positives, ranking_quality, score_bands):
        monkeypatch.setattr(module, "DRAWS", 500)
    task = make_task(True, clusters=60)
    dev = task.splits["dev"]
    bare = {**task.splits, "dev": replace(dev, positives=dev.positives[:0], stated_negatives=dev.positives[:0])}
    labels = DevLabels(tmp_path, sealed(task.name, task.symmetric, task.left, task.right, bare))
    rng = generator(0, "x")
    keys = np.sort(dev.space.draw(dev.space.total, np.empty(0, np.int64), rng))
    truth = np.isin(keys, dev.positive_keys)
    cosines = np.where(truth, rng.normal(0.7, 0.1, len(keys)), rng.normal(0.3, 0.1, len(keys)))
    order = np.argsort(-cosines)
    keys, truth, cosines = keys[order], truth[order], cosines[order]
    rows = np.concatenate([np.arange(0, 200, 5), np.arange(200, len(keys), 100)])
    ranks = np.minimum(rows, TOP)
    drawn = DrawnPairs(dev.space.pairs(keys[rows]), ("x",) * len(rows), ranks, cosines[rows])
    labels.add(1, drawn, BandScores(cosines[:TOP], np.empty(0), np.empty(0, dtype=np.uint8)))
    write_json(tmp_path / "round-001" / "model" / "scorer.json", {"digest": "d", "weight": 200.0, "bias": -150.0})
    return labels, truth[rows]


def answer(labels, answers):
    labels.ledger.add_answers(1, make_answers(np.arange(len(answers)), answers.astype(np.uint8), "us"))
    labels.ledger.seal(1)


def scorer_json(labels):
    return json.loads((labels.run / "round-001" / "model" / "scorer.json").read_text())


def test_an_estimate_fits_w_and_b_to_the_labels_and_again_gives_the_same_file(folder):
    labels, truth = folder
    answer(labels, truth)
    labels.estimate(1, TRAINED, 7)
    first = scorer_json(labels)
    new = first["recalibration"]
    assert (new["source"], new["split"], new["labels"], new["matches"]) == (
        "dev-labels",
        "dev",
        len(truth),
        truth.sum(),
    )
    assert (first["weight"], first["bias"], first["digest"]) == (200.0, -150.0, "d"), "the run goes on with its own"
    assert 0 < new["weight"] < 200
    assert new["reliability"][-1]["share"]["low"] > 0.5
    assert sum(row["weight"] for row in new["reliability"]) == new["pairs"] == labels.task.split("dev").space.total
    (labels.ledger.round(1) / "estimate.json").unlink()
    labels.estimate(1, TRAINED, 7)
    assert scorer_json(labels) == first
    # Corrected labels replace it, and remove it if they are no evidence.
    wrong = np.flatnonzero(truth)[:5]
    labels.ledger.correct(labels.ledger.batch(1).pairs[wrong], np.full(5, NO, dtype=np.uint8))
    labels.estimate(1, TRAINED, 7)
    assert scorer_json(labels)["recalibration"]["matches"] == truth.sum() - 5
    labels.ledger.correct(labels.ledger.batch(1).pairs[truth], np.full(truth.sum(), NO, dtype=np.uint8))
    labels.estimate(1, TRAINED, 7)
    assert "recalibration" not in scorer_json(labels)


@pytest.mark.parametrize("matches", [0, 20, None])
def test_labels_of_one_class_or_without_an_overlap_are_no_evidence(folder, matches):
    labels, truth = folder
    before = (labels.run / "round-001" / "model" / "scorer.json").read_bytes()
    # Drawn pairs are in the order of their cosines.
    answer(labels, np.arange(len(truth)) < (len(truth) if matches is None else matches))
    figures = labels.estimate(1, TRAINED, 7)
    assert figures["labels"] == len(truth)
    assert (labels.run / "round-001" / "model" / "scorer.json").read_bytes() == before


def test_w_and_b_of_an_audit_are_not_replaced(folder):
    labels, truth = folder
    audit = {"source": "audit", "weight": 1.0, "bias": 0.0}
    write_json(labels.run / "round-001" / "model" / "scorer.json", {"digest": "d", "recalibration": audit})
    answer(labels, truth)
    labels.estimate(1, TRAINED, 7)
    assert scorer_json(labels)["recalibration"] == audit
