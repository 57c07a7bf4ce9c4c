"""jobs.audit of the clusters that match wrote: drawn, filled in as people do, and estimated against the truth."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import al_ray
from al_ray.apps.audit.sheet import AuditSheets
from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.clusters.quality import b_cubed, pairwise_f1
from al_ray.apps.matching.folder import Matches, write_clusters, write_matches, write_record
from al_ray.apps.matching.incremental.about import StateAbout
from al_ray.apps.matching.incremental.order import task_of
from al_ray.apps.matching.incremental.state import MatchState, write_state
from al_ray.core.graph import components
from al_ray.core.pairs import NO_PAIRS, Pairs, as_pairs
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Corpus
from al_ray.datasets.task_folder import write_task
from al_ray.storage.formulas import FormulaCells
from tests.apps.audit.test_audit_job import do, fill
from tests.apps.audit.test_match_audit import files, refused

TEXTS = 60
TRUE = np.arange(TEXTS) // 4
"""15 things of four texts."""
ABOUT = {
    "model": {"run": "r", "round": 1, "digest": "of the model"},
    "rules": {"assign": "all", "clusters": "components",
              "cutoff": {"score": 0.5, "count": 9, "source": "at_score=0.5", "precision": None, "recall": None}},
    "table": {},
}  # fmt: skip


def chains(lost: float, wrong: float) -> tuple[Pairs, np.ndarray]:
    """Neighbours in a chain of all texts of a thing, with their scores: some are lost, and some are wrong."""
    rng = np.random.default_rng(5)
    left = np.arange(TEXTS - 1)
    right = rng.random(TEXTS - 1) > np.where(TRUE[left] == TRUE[left + 1], lost, 1 - wrong)
    scores = np.round(np.where(right, 0.5 + 0.4 * rng.random(TEXTS - 1), 0.3), 3)
    return as_pairs(left, left + 1), scores


def match_folder(folder: Path, cutoff: float, digest: str = "of the model", symmetric: bool = True) -> np.ndarray:
    """Write what match writes of these texts, two of whose pairs were labelled; return the clusters (n,)."""
    corpus = Corpus(tuple(f"k{row:02}" for row in range(TEXTS)), tuple(f"{row} of {TRUE[row]}" for row in range(TEXTS)))
    task = task_of("t", corpus, corpus, symmetric=symmetric)
    name = f"task-{task.digest[:12]}"
    write_task(task, folder / name, {})
    pairs, scores = chains(0.2, 0.3)
    chosen = np.flatnonzero(scores >= cutoff)
    chosen = chosen[np.lexsort((chosen, -scores[chosen]))]
    found = ScoredPairs(pairs[chosen], scores[chosen])
    by_label = np.arange(len(chosen)) == 0
    cells, nodes = FormulaCells(escape=False), Nodes(task)
    write_matches(folder / "matches", Matches(found, None, by_label, by_label & ~by_label), task, True, cells)
    clusters = components(len(nodes), nodes.of(found.pairs))
    write_clusters(folder, nodes, np.arange(len(nodes)), clusters, clusters, cells)
    about = StateAbout.of_dict(ABOUT | {"model": {**ABOUT["model"], "digest": digest}})
    write_state(folder, MatchState(1, name, found, found.pairs[:1], NO_PAIRS, clusters, 99, about), task)
    write_record(folder, {"made_from": "texts of May", "assign": "all"})
    return clusters


def by_truth(texts: tuple[str, str]) -> str:
    return "yes" if texts[0].split()[-1] == texts[1].split()[-1] else "no"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    match_folder(tmp_path / "m", 0.5)
    match_folder(tmp_path / "low", 0.0)
    return tmp_path / "m"


def test_clusters_are_drawn_labelled_and_estimated_by_the_printed_commands(folder: Path, monkeypatch, capsys):
    line, out = (
        f"sample --matches {folder} --clusters 60 --candidates {folder.parent / 'low'}",
        folder / "audit-clusters",
    )
    do(monkeypatch, line)
    said = capsys.readouterr().out
    delivered = pq.read_table(folder / "clusters.parquet")["cluster"].to_numpy()
    sizes = np.bincount(delivered)
    inside = int((sizes * (sizes - 1) // 2).sum())
    matched = pq.read_table(folder / "matches.parquet").num_rows
    assert (
        f"60 records, {(sizes > 1).sum()} clusters of two or more with {inside} pairs: {matched} with a match of"
        in said
    )
    assert f"{inside - matched} that only other matches imply" in said
    assert "1 of their pairs had labels, which count" in said
    assert f"audit estimate --audit {out}" in said
    key = pq.read_table(out / "audit-key.parquet").to_pylist()
    drawn = [(row["left"], row["right"]) for row in key]
    assert len(set(drawn)) == len(drawn)
    assert sorted(drawn) != drawn, "or their order would tell of clusters"
    assert tuple(pq.read_table(folder / "state-0001" / "labels.parquet").to_pylist()[0].values())[:2] not in drawn
    before = files(out)
    do(monkeypatch, line)
    assert "holds this audit already; nothing was changed" in capsys.readouterr().out
    assert files(out) == before
    assert next([*one.pairs] for one in AuditSheets(out).new_sheets(())) == [row["code"] for row in key]

    fill(out, by_truth)
    do(monkeypatch, f"estimate --audit {out}")
    said, found = capsys.readouterr().out, json.loads((out / "estimate.json").read_text())
    pairs, both = pairwise_f1(delivered, TRUE), b_cubed(delivered, TRUE)
    # All records of clusters, and all with a candidate, were drawn, so precision is known.
    assert found["pairs"]["precision"] == pytest.approx(dict.fromkeys(("value", "low", "high"), pairs.precision))
    assert found["b_cubed"]["precision"] == pytest.approx(dict.fromkeys(("value", "low", "high"), both.precision))
    assert found["in_clusters"]["direct"]["labelled"] == found["in_clusters"]["direct"]["all"] == matched
    assert found["in_clusters"]["implied"]["labelled"] == inside - matched
    # Only neighbours are candidates, and all of them are in `low`: of the others nothing is known.
    left = np.arange(TEXTS - 1)
    lost = int(((TRUE[left] == TRUE[left + 1]) & (delivered[left] != delivered[left + 1])).sum())
    right = pairs.precision * inside
    assert found["pairs"]["recall"]["value"] == pytest.approx(right / (right + lost))
    assert found["pairs"]["recall"]["value"] > pairs.recall
    assert found["b_cubed"]["recall"]["value"] > both.recall
    assert "recall is among the pairs in one cluster and the candidates" in said


def test_a_few_records_give_intervals_that_hold_the_truth(folder: Path, monkeypatch, capsys):
    do(monkeypatch, f"sample --matches {folder} --clusters 25 --seed 3")
    said, out = capsys.readouterr().out, folder / "audit-clusters"
    assert "25 records are drawn" in said
    assert "recall is unknown: no pair between two clusters is known" in said
    assert "give --candidates, matches with a lower cutoff" in said
    fill(out, by_truth)
    figures = al_ray.estimate_audit(out).figures
    delivered = pq.read_table(folder / "clusters.parquet")["cluster"].to_numpy()
    for name, true in (("pairs", pairwise_f1(delivered, TRUE)), ("b_cubed", b_cubed(delivered, TRUE))):
        one = figures[name]
        assert one["precision"]["low"] <= true.precision <= one["precision"]["high"]
        assert one["precision"]["low"] < one["precision"]["high"]
        assert one["recall"] is one["f1"] is None


def test_answers_of_an_audit_of_matches_are_not_asked_again(folder: Path, monkeypatch, capsys):
    do(monkeypatch, f"sample --matches {folder} --budget 99")
    fill(folder / "audit", by_truth)
    asked = pq.read_table(folder / "audit" / "audit-key.parquet").num_rows
    capsys.readouterr()
    do(monkeypatch, f"sample --matches {folder} --clusters 60")
    assert f"{asked + 1} of their pairs had labels, which count" in capsys.readouterr().out
    out = folder / "audit-clusters"
    ids = [{(row["left_id"], row["right_id"]) for row in pq.read_table(one / "audit-key.parquet").to_pylist()}
           for one in (folder / "audit", out)]  # fmt: skip
    assert ids[0]
    assert ids[1]
    assert not ids[0] & ids[1]
    fill(out, by_truth)
    delivered = pq.read_table(folder / "clusters.parquet")["cluster"].to_numpy()
    expected = pairwise_f1(delivered, TRUE).precision
    assert al_ray.estimate_audit(out).figures["pairs"]["precision"]["value"] == pytest.approx(expected)


def test_clusters_that_were_replaced_and_other_texts_are_refused(folder: Path, tmp_path, monkeypatch, capsys):
    line, out = f"sample --matches {folder} --clusters 30", folder / "audit-clusters"
    do(monkeypatch, line)
    fill(out, by_truth)
    assert "is an audit with other options" in refused(monkeypatch, capsys, f"{line} --seed 1")
    assert "is an audit of clusters; give another" in refused(
        monkeypatch, capsys, f"sample --matches {folder} --budget 9 --out {out}"
    )
    assert "--run go with audits of a model" in refused(monkeypatch, capsys, f"estimate --audit {out} --at-p 0.5")
    # Another rule of clusters alone: the matches are the same.
    table = pq.read_table(folder / "clusters.parquet")
    pq.write_table(table.set_column(1, "cluster", table["canonical"].dictionary_encode().combine_chunks().indices.cast(
        "int64")), folder / "clusters.parquet")  # fmt: skip
    message = refused(monkeypatch, capsys, f"estimate --audit {out}")
    assert f"the clusters in {folder} were replaced since {out} was drawn" in message
    match_folder(tmp_path / "other", 0.0, "of another model")
    message = refused(monkeypatch, capsys, f"{line} --candidates {tmp_path / 'other'} --out {tmp_path / 'a'}")
    assert "has matches of other texts or of another model" in message
    match_folder(tmp_path / "two", 0.5, symmetric=False)
    message = refused(monkeypatch, capsys, f"sample --matches {tmp_path / 'two'} --clusters 9")
    assert "has clusters of two tables; clusters of one table can be audited" in message


def test_options_that_do_not_go_together_are_refused(folder: Path, monkeypatch, capsys):
    for line, words in {
        f"sample --matches {folder} --clusters 5 --budget 5": "--clusters goes with --matches and without --budget",
        "sample --run r --clusters 5": "--clusters goes with --matches and without --budget",
        f"sample --matches {folder} --candidates {folder}": "--candidates goes with --clusters; give both, or neither",
        f"sample --matches {folder} --clusters 0": "--clusters is 0; give at least 1",
        f"sample --matches {folder} --clusters 1": "--clusters is 1; give at least",
    }.items():
        assert words in refused(monkeypatch, capsys, line)
