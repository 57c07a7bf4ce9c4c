"""jobs.match --search.kind knn on a real Ray: against a sort of all pairs, against exact search, and its recall."""

import json
from collections import Counter

import pytest

from al_ray.core.task import Task
from tests.apps.matching.test_match_job import do, labelled, ran, refused, scores_by_loops, tables, written

__all__ = ["ran"]
KNN = "--search.kind knn --search.neighbours"


def nearest_pairs(scores: dict[tuple[str, str], float], task: Task, count: int) -> set[tuple[str, str]]:
    """The pairs of each left text with its `count` nearest right texts; of one table, of each text with others."""
    by_text = dict[str, list[tuple[float, tuple[str, str]]]]()
    for pair, score in scores.items():
        for text in pair if task.symmetric else pair[:1]:
            by_text.setdefault(text, []).append((-score, pair))
    return {pair for found in by_text.values() for _, pair in sorted(found)[:count]}


def test_only_the_nearest_of_each_text_are_compared(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    scores, yes, no = scores_by_loops(run, task), labelled(run, "yes"), labelled(run, "no")
    line = f"--model {run} {tables(task, tmp_path)} --assign all --at-score -2 {KNN} 3"
    for shards in (1, 2):
        do(monkeypatch, f"{line} --shards {shards} --out {tmp_path / str(shards)}")
    assert (tmp_path / "1/matches.parquet").read_bytes() == (tmp_path / "2/matches.parquet").read_bytes()
    assert set(written(tmp_path / "1")) == nearest_pairs(scores, task, 3) - no | yes
    assert "pairs; each text was compared with its 3 nearest alone\n" in capsys.readouterr().out
    assert "3 nearest alone" in (tmp_path / "1/matches.html").read_text(encoding="utf-8")


# tests/search holds the same of the searches alone, in seconds.
@pytest.mark.slow
def test_with_as_many_neighbours_as_texts_the_matches_are_those_of_exact_search(ran, monkeypatch, tmp_path):
    run, task = ran
    for rule in ("all --at-score 0.5", "best", "one-to-one --at-score 0.5", *(["mutual"] if task.symmetric else [])):
        line, name = f"--model {run} {tables(task, tmp_path)} --assign {rule}", rule.split()[0]
        do(monkeypatch, f"{line} --out {tmp_path / f'{name}-exact'}")
        do(monkeypatch, f"{line} {KNN} 1000 --out {tmp_path / f'{name}-knn'}")
        assert list(written(tmp_path / f"{name}-knn").items()) == list(written(tmp_path / f"{name}-exact").items())
    refused_pairs = labelled(run, "no")
    most = max(Counter(text for pair in refused_pairs for text in (pair if task.symmetric else pair[:1])).values())
    assert json.loads((tmp_path / "best-knn/match.json").read_text())["search"]["neighbours"] == 1 + most


def test_the_recall_of_an_index_is_measured_and_said(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    line = f"--model {run} {tables(task, tmp_path)} --assign all --at-score -2 {KNN} 5"
    do(monkeypatch, f"{line} --search.index IVF8,Flat --search.nprobe 1 --out {tmp_path / 'out'}")
    search = json.loads((tmp_path / "out/match.json").read_text())["search"]
    texts = len(task.split("train").space.left)
    assert search | {"recall": 0} == {
        "kind": "knn", "neighbours": 5, "index": "IVF8,Flat", "nprobe": 1, "recall": 0, "recall_texts": texts,
    }  # fmt: skip
    assert 0.2 < search["recall"] < 1
    share = f"(IVF8,Flat, nprobe 1) finds {100 * search['recall']:.1f}% of these (measured on {texts} texts)"
    assert share in capsys.readouterr().out


def test_new_texts_cannot_be_added_to_matches_by_neighbours(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    line, out = f"--model {run} {tables(task, tmp_path)} --assign best", tmp_path / "out"
    left = f"--left {tmp_path / 'left.csv'}" + ("" if task.symmetric else f" --right {tmp_path / 'right.csv'}")
    do(monkeypatch, f"{line} --out {out}")
    do(monkeypatch, f"--into {out} {left}")
    message = refused(monkeypatch, capsys, f"--into {out} {left} {KNN} 9")
    assert (
        "--search.kind knn goes with jobs.match --out DIR; jobs.match --into compares all pairs of new texts" in message
    )
    do(monkeypatch, f"{line} {KNN} 9 --out {out}")
    assert "match the known ones first, by jobs.match, without --search.kind knn and without --oracle" in refused(
        monkeypatch, capsys, f"--into {out} {left}"
    )


def test_what_it_cannot_give_is_refused(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    line = f"--model {run} {tables(task, tmp_path)} --out {tmp_path / 'out'}"
    for options, message in (
        (f"--assign best {KNN} 5 --search.index IVF900,Flat", "has more cells than the"),
        (f"--assign best {KNN} 5 --search.index Flat9", "--search.index 'Flat9'"),
        (f"--assign best {KNN} 0", "--search.neighbours is 0; give at least 1"),
        (f"--assign best {KNN} 5 --search.index ''", "--search.index is empty"),
        ("--assign best --search.nprobe 3", "go with --search.kind knn; add it"),
        ("--assign best --search.kind auto", "auto"),
    ):
        assert message in refused(monkeypatch, capsys, f"{line} {options}")
    if not task.symmetric:
        assert "--assign mutual of two tables needs the best left text of every right text" in refused(
            monkeypatch, capsys, f"{line} {KNN} 5"
        )
    assert not list(tmp_path.glob("out/match*"))
