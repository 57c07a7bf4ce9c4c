"""A ceiling of p the whole way: an audit whose labels level off, its estimate, scorer.json, match, a loaded model."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import al_ray
from al_ray.core.scorer import Scorer
from tests.apps.audit.test_audit_job import do, fill, run_folder
from tests.apps.matching import test_match_job as matching


def levelled(out: Path, task):
    """Say yes to two thirds of the 90 drawn pairs of highest cosine, and no to all others."""
    key = sorted(pq.read_table(out / "audit-key.parquet").to_pylist(), key=lambda row: -row["cosine"])
    texts = task.left.texts
    yes = {frozenset((texts[row["left"]], texts[row["right"]])) for place, row in enumerate(key[:90]) if place % 3}
    return lambda pair: "yes" if frozenset(pair) in yes else "no"


def test_what_an_audit_says_of_the_highest_scores_is_the_probability_of_matches(
    in_process, make_task, tmp_path, monkeypatch, capsys
):
    task = make_task(True, clusters=12, members=6)
    run = run_folder(tmp_path, task)
    do(monkeypatch, f"sample --run {run} --split train --by-score --budget 300 --top 1000")
    out = run / "audit-train-by-score"
    fill(out, levelled(out, task))
    do(monkeypatch, f"estimate --audit {out} --update-scorer")
    said = capsys.readouterr().out
    fit = json.loads((run / "round-001/model/scorer.json").read_text())["recalibration"]
    assert fit["ceiling"] == pytest.approx(2 / 3, abs=0.05)
    assert f"p = {fit['ceiling']:.3f} sigmoid({fit['weight']:.3f} cosine" in said
    assert f"at most {100 * fit['ceiling']:.3g}% match, however high the score" in said
    scorer = Scorer(fit["weight"], fit["bias"], ceiling=fit["ceiling"])
    assert al_ray.load_model(run).boundary == pytest.approx(scorer.boundary)
    matching.do(monkeypatch, f"--model {run} {matching.tables(task, tmp_path / 't')} --at-p 0.6 --out {tmp_path / 'm'}")
    matches = pq.read_table(tmp_path / "m" / "matches.parquet")
    assert len(matches) > 10
    by_label = np.array(matches["decided_by"].to_pylist()) == "label"
    p, scores = (matches[name].to_numpy() for name in ("probability", "score"))
    assert p == pytest.approx(scorer.probability(scores))
    assert 0.6 <= p[~by_label].min() <= p.max() < fit["ceiling"]
    with pytest.raises(SystemExit):
        do(monkeypatch, f"estimate --audit {out} --at-p 0.9")
    assert "--at-p is 0.9, and at most" in capsys.readouterr().err
