"""jobs.match with an oracle of uncertain pairs: what it says counts, is stored at once, and is never bought twice."""

import json
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

import al_ray
from al_ray.apps.matching.written import read_matches
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption, OracleFailed
from al_ray.core.task import Task
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.training.cross_encoder import PairTrainer, PairTrainerSpec
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.matching.test_match_job import cutoff_near, do, labelled, refused, scores_by_loops, tables, written
from tests.oracles.llm_server import MODEL, serving

JUDGE = """
calls, wrong = [], []
answers = {}

def label(left, right):
    if len(calls) in wrong:
        raise RuntimeError("down")
    calls.append(list(zip(left, right)))
    return [answers[frozenset(pair)] for pair in calls[-1]]
"""


@dataclass(frozen=True)
class Setting:
    """A run on one table, its scores, borders of uncertain scores and a cutoff, and the options that give these."""

    run: Path
    scores: dict[tuple[str, str], float]
    texts: dict[str, str]
    low: float
    cutoff: float
    high: float
    line: str

    @property
    def uncertain(self) -> dict[tuple[str, str], float]:
        """The uncertain pairs without a label."""
        known = labelled(self.run, "yes") | labelled(self.run, "no")
        return {pair: at for pair, at in self.scores.items() if self.low <= at < self.high and pair not in known}

    def key(self, pair: tuple[str, str]) -> frozenset[str]:
        return frozenset(self.texts[one] for one in pair)


@pytest.fixture(scope="module")
def setting(in_process, make_task, tmp_path_factory) -> Setting:
    task: Task = make_task(True, clusters=12, members=4)
    folder = tmp_path_factory.mktemp("cascade")
    run = run_folder(folder, task)
    scores = scores_by_loops(run, task)
    high, cutoff, low = (cutoff_near(scores, rank) for rank in (15, 35, 55))
    line = (
        f"--model {run} {tables(task, folder)} --assign all --no-drift --at-score {cutoff} --oracle judge:label "
        f"--oracle-low {low} --oracle-high {high} --retries 0 --pairs-per-call 4"
    )
    return Setting(run, scores, dict(zip(task.left.ids, task.left.texts, strict=True)), low, cutoff, high, line)


@pytest.fixture
def judge(setting, tmp_path, monkeypatch):
    """The module whose function answers: every third pair yes, no and unsure, by turns."""
    (tmp_path / "judge.py").write_text(JUDGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "judge", raising=False)
    judge: Any = import_module("judge")
    words = ("yes", "no", "unsure")
    judge.answers |= {setting.key(pair): words[place % 3] for place, pair in enumerate(setting.scores)}
    return judge


def answered(judge, setting: Setting, word: str) -> set[tuple[str, str]]:
    return {pair for pair in setting.uncertain if judge.answers[setting.key(pair)] == word}


def by_model(setting: Setting) -> set[tuple[str, str]]:
    no = labelled(setting.run, "no")
    return {pair for pair, score in setting.scores.items() if score >= setting.cutoff and pair not in no}


def test_answers_decide_about_uncertain_pairs_and_unsure_is_no_negative(setting, judge, monkeypatch, capsys, tmp_path):
    do(monkeypatch, f"{setting.line} --out out")
    found = written(tmp_path / "out")
    yes, no, unsure = (answered(judge, setting, word) for word in ("yes", "no", "unsure"))
    assert min(map(len, (yes, no, unsure & by_model(setting)))) > 0
    assert set(found) == (by_model(setting) - no) | yes | labelled(setting.run, "yes")
    assert {pair for pair, row in found.items() if row["decided_by"] == "oracle"} == yes
    # The score is the model's.
    assert all(row["score"] == pytest.approx(setting.scores[pair], abs=1e-6) for pair, row in found.items())
    record = json.loads((tmp_path / "out/match.json").read_text())["oracle"]
    counts = [record[name] for name in ("uncertain", "yes", "no", "unsure", "open", "settled")]
    assert counts == [len(setting.uncertain), len(yes), len(no), len(unsure), 0, 0]
    asked = [pair for call in judge.calls for pair in call]
    assert len(asked) == len({frozenset(pair) for pair in asked}) <= len(setting.uncertain)
    # An audit draws them, as they can be wrong.
    by_label = read_matches(tmp_path / "out").by_label
    assert by_label.sum() == len(labelled(setting.run, "yes") - setting.uncertain.keys())
    printed = capsys.readouterr().out
    assert f"oracle judge:label: {len(setting.uncertain)} uncertain pairs" in printed
    assert f"{len(yes)} by the oracle)" in printed


def test_over_budget_the_model_decides_and_that_is_said(setting, judge, monkeypatch, capsys, tmp_path):
    do(monkeypatch, f"{setting.line} --oracle-budget 0 --out none")
    assert judge.calls == []
    assert set(written(tmp_path / "none")) == by_model(setting) | labelled(setting.run, "yes")
    left = len(setting.uncertain)
    assert f"the model decided about {left}, {left} of them not asked (--oracle-budget 0)" in capsys.readouterr().out
    do(monkeypatch, f"{setting.line} --oracle-budget 5 --out five")
    assert [len(call) for call in judge.calls] == [4, 1]
    assert json.loads((tmp_path / "five/match.json").read_text())["oracle"]["open"] == left - 5


def test_answers_in_a_given_folder_are_not_bought_again(setting, judge, monkeypatch, tmp_path):
    line = f"{setting.line} --oracle-answers answers"
    do(monkeypatch, f"{line} --out first")
    before = len(judge.calls)
    do(monkeypatch, f"{line} --out second")
    assert len(judge.calls) == before > 0
    for name in ("matches.parquet", "matches.csv", "clusters.csv"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_after_a_failure_only_what_is_missing_is_bought(setting, judge, monkeypatch, capsys, tmp_path):
    judge.wrong.append(2)
    assert "judge:label: RuntimeError: down" in refused(monkeypatch, capsys, f"{setting.line} --out out")
    assert len(judge.calls) == 2
    assert not (tmp_path / "out/match.json").exists()
    judge.wrong.clear()
    do(monkeypatch, f"{setting.line} --out out")
    asked = [frozenset(pair) for call in judge.calls for pair in call]
    assert len(asked) == len(set(asked)) > 8
    do(monkeypatch, f"{setting.line} --out quiet")
    assert (tmp_path / "out/matches.csv").read_bytes() == (tmp_path / "quiet/matches.csv").read_bytes()


def test_a_dry_run_says_the_cost_and_asks_nobody(setting, judge, monkeypatch, capsys, tmp_path):
    do(monkeypatch, f"{setting.line} --oracle-budget 7 --cost-per-pair 0.5 --oracle-dry-run --out out")
    printed = capsys.readouterr().out
    assert f"{len(setting.uncertain)} uncertain pairs could change the matches; the first 7 would be asked" in printed
    assert "7 have no answer yet and would cost at most 3.5" in printed
    assert judge.calls == []
    assert not (tmp_path / "out/matches.csv").exists()
    assert not (tmp_path / "out/oracle").exists()


def test_a_limit_of_cost_leaves_the_rest_to_the_model(setting, judge, monkeypatch, capsys, tmp_path):
    do(monkeypatch, f"{setting.line} --cost-per-pair 1 --max-cost 6 --out out")
    record = json.loads((tmp_path / "out/match.json").read_text())["oracle"]
    assert (record["cost"], record["stopped"], record["open"]) == (6, True, len(setting.uncertain) - 6)
    assert "not asked (--max-cost)" in capsys.readouterr().out
    # The limit is of all answers in the folder.
    do(monkeypatch, f"{setting.line} --cost-per-pair 1 --max-cost 6 --out out")
    assert sum(map(len, judge.calls)) == 6
    # It holds until another one is given.
    do(monkeypatch, f"{setting.line} --out out")
    assert sum(map(len, judge.calls)) == 6
    do(monkeypatch, f"{setting.line} --max-cost 8 --out out")
    assert sum(map(len, judge.calls)) == 8


def test_a_dry_run_sends_no_request_to_a_language_model(setting, judge, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    line = f"{setting.line.replace('judge:label', 'llm')} --llm.model {MODEL} --oracle-dry-run --out out"
    with serving({}) as server:
        do(monkeypatch, f"{line} --llm.input-price 2 --llm.output-price 8 --llm.base-url {server.url}")
        assert server.asked == []
    printed = capsys.readouterr().out
    # The pairs of the first request are shown, and those of the second are not.
    assert [printed.count(f'"{side}":') for side in ("left", "right")] == [4, 4]
    assert "have no answer yet and would cost at most" in printed
    assert not (tmp_path / "out/matches.csv").exists()
    assert not (tmp_path / "out/oracle").exists()


def test_a_cross_encoder_decides_and_its_answers_are_kept(setting, judge, letters, monkeypatch, tmp_path):
    texts = {pair: (setting.texts[pair[0]], setting.texts[pair[1]]) for pair in setting.uncertain}
    config = TrainingConfig(epochs=1, batch=4, learning_rate=3e-3)
    trainer = PairTrainer(PairTrainerSpec(replace(letters, max_length=40), config, 0))
    list(trainer.train([*texts.values()], np.arange(len(texts), dtype=np.uint8) % 2, str(tmp_path / "cross/model")))
    [file] = (tmp_path / "cross/model").glob("*.safetensors")
    middle = np.median(CrossEncoder.saved(str(file.parent)).scores([*texts.values()], 1))
    # Half of these pairs are to be told from the others.
    weights = load(file.read_bytes())
    file.write_bytes(
        save(weights | {"classifier.bias": weights["classifier.bias"] - np.float32(middle)}, {"format": "pt"})
    )
    logits = CrossEncoder.saved(str(file.parent)).scores([*texts.values()], 1)
    line = f"{setting.line.replace('judge:label', f'model:{tmp_path}/cross')} --oracle-answers kept"
    do(monkeypatch, f"{line} --out one")
    yes = {pair for pair, logit in zip(texts, logits.tolist(), strict=True) if logit >= 0}
    assert 0 < len(yes) < len(texts)
    found = written(tmp_path / "one")
    assert {pair for pair, row in found.items() if row["decided_by"] == "oracle"} == yes
    assert not (found.keys() & (setting.uncertain.keys() - yes))
    monkeypatch.setattr(CrossEncoder, "scores", None)
    do(monkeypatch, f"{line} --out two")
    assert (tmp_path / "one/matches.csv").read_bytes() == (tmp_path / "two/matches.csv").read_bytes()


def test_a_language_model_decides_and_its_answers_are_kept_as_in_a_run(setting, judge, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    truth = {
        (left, right): judge.answers[frozenset((left, right))]
        for left in setting.texts.values()
        for right in setting.texts.values()
        if frozenset((left, right)) in judge.answers
    }
    line = setting.line.replace("judge:label", "llm")
    with serving(truth) as server:
        for out in ("one", "two"):
            options = f"--llm.model {MODEL} --llm.base-url {server.url} --oracle-answers kept --out {out}"
            do(monkeypatch, f"{line} --llm.input-price 2 --llm.output-price 8 {options}")
        asked = [frozenset(pair) for pair in server.pairs]
    assert len(asked) == len(set(asked)) > 8
    yes = answered(judge, setting, "yes")
    assert {pair for pair, row in written(tmp_path / "two").items() if row["decided_by"] == "oracle"} == yes
    files = sorted((tmp_path / "kept/llm").glob("*.json"))
    cost = sum(json.loads(path.read_text())["cost"] for path in files)
    assert json.loads((tmp_path / "two/match.json").read_text())["oracle"]["cost"] == pytest.approx(cost)
    assert cost > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("--oracle people", "--oracle people cannot decide about uncertain pairs; give llm"),
        ("--oracle page", "(people label matches that"),
        ("--oracle judge:label --oracle-low 0.9 --oracle-high 0.5", "is not below --oracle-high 0.5"),
        ("--oracle judge:label --oracle-low 0.2 --oracle-high 0.5 --at-score 0.7", "is not among the uncertain scores"),
        ("--oracle judge:label --oracle-high 2 --best 3", "--best N has no cutoff"),
        ("--oracle judge:label --search.kind knn --at-score 0.5", "leave out --search.kind, or --oracle"),
        ("--oracle nowhere:label --oracle-low -1 --oracle-high 2 --at-score 0.5", "there is no module nowhere"),
        ("--oracle llm --oracle-low -1 --oracle-high 2 --at-score 0.5", "needs the name of a model; give --llm.model"),
        ("--oracle-budget 3 --at-score 0.5", "--oracle-budget goes with --oracle; add it"),
        ("--llm.model x --at-score 0.5", "go with --oracle llm; add it"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(setting, judge, monkeypatch, capsys, change, message):
    begin = setting.line.partition(" --no-drift")[0]
    error = refused(monkeypatch, capsys, f"{begin} {change} --out out")
    assert message in error
    assert error.count("\n") == 1


def test_new_texts_are_not_added_to_matches_that_an_oracle_decided(setting, judge, monkeypatch, capsys, tmp_path):
    do(monkeypatch, f"{setting.line} --oracle-budget 0 --out out")
    (tmp_path / "new.csv").write_text("key,words\nx,one more\n")
    assert "and without --oracle" in refused(monkeypatch, capsys, "--into out --left new.csv")


def test_an_oracle_is_no_option_of_new_texts(setting, judge, monkeypatch, capsys, tmp_path):
    do(monkeypatch, f"{setting.line.partition(' --oracle')[0]} --out out")
    (tmp_path / "new.csv").write_text("key,words\nx,one more\n")
    error = refused(monkeypatch, capsys, "--into out --left new.csv --oracle judge:label")
    assert "--oracle goes with" in error
    assert "leave it out" in error
    assert judge.calls == []


def test_an_oracle_that_is_not_there_is_an_error_before_the_search(setting, judge, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("al_ray.apps.matching.pipeline.deploy_pool", None)
    line = setting.line.replace("judge:label", "judge:guess")
    assert "guess of" in refused(monkeypatch, capsys, f"{line} --out out")
    assert not (tmp_path / "out").exists()


def test_the_api_takes_the_same_options(setting, judge, tmp_path):
    words = dict(pairwise(setting.line.split()))
    options = al_ray.MatchOptions(
        left=Path(words["--left"]), text_columns="words", id_column="key", assign="all", at_score=setting.cutoff,
        drift=False, oracle="judge:label", oracle_low=setting.low, oracle_high=setting.high,
        oracle_options=OracleConfig(pairs_per_call=4, retries=0),
    )  # fmt: skip
    judge.wrong.append(1)
    with pytest.raises(OracleFailed, match=r"4 of \d+ pairs of the uncertain scores are answered and stored"):
        al_ray.match(setting.run, options, tmp_path / "out")
    judge.wrong.clear()
    found = al_ray.match(setting.run, options, tmp_path / "out")
    yes = [one for one in found.matches().to_pylist() if one["decided_by"] == "oracle"]
    assert len(yes) == found.record["by_oracle"] == len(answered(judge, setting, "yes")) > 0
    with pytest.raises(BadOption, match="`oracle_low` goes with `oracle`"):
        al_ray.MatchOptions(left=tmp_path, oracle_low=0.5)
