"""jobs.match --why on a real Ray: p is the base and what the comparisons add, and values are those of the tables."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import al_ray
from al_ray.cli import plan
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.errors import BadOption
from al_ray.core.two_stage_score import TIE
from al_ray.matcher.model_file import NAME, read_model
from al_ray.runs.importance import read_importance

WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "larch")
COUNT = 36
PRICE = "price: relative difference"
CANDIDATES = CandidatesConfig(cosine=5, trigrams=5, of_right=5)


def name(row: int) -> str:
    return f"{WORDS[row % 12]} {WORDS[(row * 5 + row // 12) % 12]} lamp"


def price(row: int) -> int:
    return 10 + 7 * row


def write_tables(folder: Path) -> None:
    """36 lamps in two shops: the second adds a word to the name, and 1 to each fourth price."""
    left = [(f"l{row}", name(row), price(row), "x" if row == 0 else "") for row in range(COUNT)]
    right = [(f"r{row}", f"{name(row)} new", price(row) + (row % 4 == 0), "x" if row == 20 else "")
             for row in range(COUNT)]  # fmt: skip
    for side, rows in (("left", left), ("right", right)):
        with (folder / f"{side}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "name", "price", "ean"), *rows])
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("l", "r", "same"), *((f"l{row}", f"r{row}", 1) for row in range(COUNT))])


@pytest.fixture(scope="module")
def ran(in_process, tmp_path_factory) -> SimpleNamespace:
    """A run with a matcher on two tables, and the matches of the same tables with --why."""
    root = tmp_path_factory.mktemp("why")
    write_tables(root)
    texts = al_ray.OwnTexts(
        left=root / "left.csv", right=root / "right.csv", labels=root / "labels.csv", label_columns="l,r,same",
        labels_are="complete", split="1,0,0", id_column="id", text_columns="name,price",
    )  # fmt: skip
    al_ray.prepare(texts, root / "task")
    config = al_ray.RunConfig(
        task=str(root / "task"), rounds=2, first_batch=24, growth=1, encoder="random-bert", encoder_layers=1,
        max_length=24, threads=1, matcher="on", candidates=CANDIDATES, evaluation=al_ray.EvaluationConfig(splits=()),
    )  # fmt: skip
    run = al_ray.run(config, root / "run")
    options = al_ray.MatchOptions(
        left=root / "left.csv", right=root / "right.csv", at_boundary=True, assign="all", always="ean", why=True
    )
    return SimpleNamespace(root=root, run=run, matches=al_ray.match(run, options, root / "matches"))


def test_the_score_is_the_base_and_what_all_comparisons_add(ran):
    base, rows = ran.matches.record["why"]["base"], ran.matches.matches().to_pylist()
    explained = [row for row in rows if row["why"] is not None]
    assert len(explained) >= COUNT / 2
    matcher = read_model(ran.root / "run/round-002/model" / NAME)
    for row in explained:
        assert sorted(part["comparison"] for part in row["why"]) == sorted(matcher.names)
        sizes = [abs(part["adds"]) for part in row["why"]]
        assert sizes == sorted(sizes, reverse=True)
        p = base + sum(part["adds"] for part in row["why"])
        # The cosine orders equal p: TIE of the score is its.
        assert row["score"] == pytest.approx((1 - TIE) * p + TIE * (row["cosine"] + 1) / 2, abs=1e-9)


def test_values_are_those_of_the_tables(ran):
    for row in ran.matches.matches().to_pylist():
        if row["why"] is not None:
            values = {part["comparison"]: part["value"] for part in row["why"]}
            left, right = int(row["left_id"][1:]), int(row["right_id"][1:])
            prices = price(left), price(right) + (right % 4 == 0)
            assert values[PRICE] == pytest.approx(abs(prices[0] - prices[1]) / max(prices), abs=1e-6)
            assert values["cosine"] == pytest.approx(row["cosine"], abs=2e-6)


def test_a_match_by_a_rule_alone_that_is_no_candidate_has_no_p_to_explain(ran):
    rows = ran.matches.matches().to_pylist()
    (by_rule,) = [row for row in rows if row["decided_by"] == "rule"]
    assert (by_rule["left_id"], by_rule["right_id"]) == ("l0", "r20")
    assert by_rule["why"] is None
    assert by_rule["score"] == 0
    assert ran.matches.record["why"]["explained"] == len(rows) - 1


def test_the_sheet_the_page_and_the_summary_say_so_too(ran):
    folder, stored = ran.root / "matches", ran.matches.matches().to_pylist()
    with (folder / "matches.csv").open(newline="") as file:
        sheet = list(csv.DictReader(file))
    assert [bool(row["why"]) for row in sheet] == [row["why"] is not None for row in stored]
    strongest = stored[0]["why"][0]
    assert sheet[0]["why"].split(";")[0].endswith(f"({strongest['adds']:+.3f})")
    assert "Why p is" in (folder / "matches.html").read_text()
    assert any(line.startswith("why: p is ") for line in ran.matches.summary)
    assert json.loads((folder / "match.json").read_text())["why"]["base"] == ran.matches.record["why"]["base"]


def test_without_why_nothing_is_added(ran):
    options = al_ray.MatchOptions(left=ran.root / "task", split="train", at_boundary=True)
    plain = al_ray.match(ran.run, options, ran.root / "plain")
    assert "why" not in pq.read_table(ran.root / "plain/matches.parquet").schema.names
    assert "why" not in plain.record
    assert 'class="why"' not in (ran.root / "plain/matches.html").read_text()


def test_each_round_says_what_changes_p_most(ran):
    for number in (1, 2):
        found = read_importance(ran.root / "run" / f"round-00{number}")
        assert found is not None
        assert found.pairs == 24 * number
        assert PRICE in found.names


def test_a_round_without_a_matcher_names_those_that_have_one(ran):
    options = al_ray.MatchOptions(left=ran.root / "left.csv", right=ran.root / "right.csv", at_cosine=0.9, why=True)
    words = "round 0 of .*run, the untrained encoder, has no matcher.*`round` with one of those.* a matcher: 1, 2$"
    with pytest.raises(BadOption, match=words):
        al_ray.match(ran.run, options, ran.root / "none", round=0)


def test_a_plan_of_a_task_with_fields_has_a_matcher(ran, monkeypatch, capsys):
    plans: list[str] = []
    for matcher in ("auto", "on", "off"):
        line = f"plan --task {ran.root / 'task'} --matcher {matcher} --rounds 1 --first-batch 8 --evaluation.splits"
        monkeypatch.setattr("sys.argv", line.split())
        plan.main()
        plans.append(capsys.readouterr().out)
    assert plans[0] == plans[1] != plans[2]
