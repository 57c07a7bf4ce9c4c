"""Answers by scores of both sides, beside those of jobs.match when the text is one more left text."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.known import check_model_of_store, fill_store, read_known
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Question
from al_ray.apps.serving.records.record_matcher import load_matcher
from al_ray.apps.serving.server import plan
from al_ray.apps.serving.sides.sides_matcher import SidesMatcher
from al_ray.apps.serving.store import StoreWriter, read_source
from al_ray.core.errors import BadOption
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.matching.incremental.test_neighbourhood_into import Rows, sides_of, tables
from tests.apps.matching.test_match_job import do, written

BOTH = Scorer(20.0, -6.0, 0.1, "fitted", 0.5, both_sides=True)
COLUMNS, LAST = "--text-columns words --id-column id", "~"


@pytest.fixture(scope="module", params=[True, False], ids=["one table", "two tables"])
def ran(request, in_process, make_task, tmp_path_factory) -> tuple[Path, dict[str, Rows]]:
    """A run, and the texts of its tables by side."""
    task: Task = make_task(request.param, clusters=12, members=4)
    return run_folder(tmp_path_factory.mktemp("ran"), task, BOTH), sides_of(task)


def match_of(run: Path, monkeypatch, folder: Path, sides: dict[str, Rows], text: str) -> dict[str, float]:
    """The score of each pair of a text that is one more left text, by the id of the other one."""
    more = sides | {"left": sides["left"] | {LAST: text}}
    do(monkeypatch, f"--model {run} {tables(folder, more)} --assign all --at-score -2 --out {folder / 'out'}")
    scores = {pair: found["score"] for pair, found in written(folder / "out").items() if LAST in pair}
    return {next(one for one in pair if one != LAST): score for pair, score in scores.items()}


def answered(matcher, *texts: str) -> list[dict[str, float]]:
    [answer] = matcher.answer([Question(texts, 1000)])
    found = [[(one.id, one.score) for one in results] for results in answer.results]
    assert all(one == sorted(one, key=lambda match: -match[1]) for one in found)
    return [dict(one) for one in found]


def test_a_text_has_the_scores_of_match_before_and_after_changes(ran, monkeypatch, tmp_path):
    run, sides = ran
    out, known_side = tmp_path / "known", "right" if "right" in sides else "left"
    do(monkeypatch, f"--model {run} {tables(tmp_path / 'first', sides)} --assign all --at-score 0 --out {out}")
    options = ServeOptions(model=run, known=out, store=tmp_path / "store", limit=1000, exact_texts=3)
    model = open_model(run)
    fill_store(options, model)
    matcher, other = load_matcher(options, model), load_matcher(options, model)
    assert isinstance(matcher, SidesMatcher)
    assert matcher.about().index is None
    first, *_, last = sides[known_side].values()
    texts = [f"{first} {last}", last, "xyz 12"]
    before = answered(matcher, *texts)
    for number, (text, found) in enumerate(zip(texts, before, strict=True)):
        expected = match_of(run, monkeypatch, tmp_path / f"before{number}", sides, text)
        assert found == pytest.approx(expected, rel=0, abs=1e-6)
        assert len(found) == len(sides[known_side])
    names = list(sides[known_side])
    changed = {one: text for one, text in sides[known_side].items() if one != names[5]}
    changed |= {"fresh": f"{first} {last} 1", names[7]: texts[0]}
    with closing(StoreWriter(options.store)) as writer:
        writer.put([("fresh", "not for long"), (names[7], texts[0]), ("never", first)])
        writer.put([("fresh", changed["fresh"])])
        writer.remove([names[5], "never"])
        path = writer.write_table()
    # Each replica follows the store, and one that starts now reads what is there.
    now = sides | {known_side: changed}
    found = [answered(one, *texts) for one in (matcher, other, load_matcher(options, model))]
    for number, text in enumerate(texts):
        expected = match_of(run, monkeypatch, tmp_path / f"after{number}", now, text)
        for of_replica in found:
            assert of_replica[number] == pytest.approx(expected, rel=0, abs=1e-6)
    # Scores of texts that did not change have moved with the neighbours.
    assert max(abs(found[0][0][one] - before[0][one]) for one in names[8:]) > 1e-3
    do(monkeypatch, f"--into {out} --{known_side} {path} --complete --format jsonl --text-columns text --id-column id")
    do(monkeypatch, f"--model {run} {tables(tmp_path / 'whole', now)} --assign all --at-score 0 --out {tmp_path / 'w'}")
    whole, again = written(tmp_path / "w"), written(out)
    assert {pair: row["score"] for pair, row in again.items()} == pytest.approx(
        {pair: row["score"] for pair, row in whole.items()}, abs=1e-6
    )


def test_a_restart_takes_the_nearest_from_disk_and_answers_the_same(ran, tmp_path):
    run, sides = ran
    tables(tmp_path / "known", sides)
    known = tmp_path / "known" / ("right.csv" if "right" in sides else "left.csv")
    options = ServeOptions(
        model=run, known=known, store=tmp_path / "store", limit=9, text_columns="words", id_column="id"
    )
    model = open_model(run)
    assert len(list(plan(options).lines(options))) == 5
    fill_store(options, model)
    first = answered(load_matcher(options, model), "abcd", "the same words")
    [folder] = [path for path in (options.store / "neighbours").iterdir() if path.is_dir()]
    times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert answered(load_matcher(options, model), "abcd", "the same words") == first
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == times
    source = read_source(options.store)
    assert source is not None
    # Only of two tables there are left texts.
    assert bool(source.left) == ("right" in sides)


def test_what_lacks_the_left_texts_is_refused(in_process, make_task, tmp_path):
    task = make_task(False, clusters=12, members=4)
    run = run_folder(tmp_path, task, BOTH)
    cosine = run_folder(tmp_path / "cosine", task, Scorer(20.0, -6.0, 0.1))
    tables(tmp_path / "known", {"right": dict(zip(task.right.ids, task.right.texts, strict=True))})
    options = ServeOptions(
        model=cosine, known=tmp_path / "known" / "right.csv", store=tmp_path / "store", text_columns="words",
        id_column="id",
    )  # fmt: skip
    fill_store(options, open_model(cosine))
    source = read_source(options.store)
    assert source is not None
    with pytest.raises(BadOption, match=r"the store has no left texts, .*; give another `store`"):
        check_model_of_store(open_model(run), source)
    copy = tmp_path / "copy"
    shutil.copytree(run / "round-001" / "model", copy)
    with pytest.raises(BadOption, match=r"is a copy of a model, .*; give `known` a folder of matches"):
        read_known(options, open_model(copy))
