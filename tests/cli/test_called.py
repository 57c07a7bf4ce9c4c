"""What a text of the library is in the words of a command line."""

import dataclasses
import shlex

import pytest

import al_ray
from al_ray.cli._shared.called import OF_API, as_called, fields_of
from al_ray.cli._shared.registry import COMMANDS
from al_ray.core.naming import call, command, option


@pytest.fixture(autouse=True)
def _called(monkeypatch):
    monkeypatch.setattr("sys.argv", ["al-ray match", "--out", "x"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("give `search.index`", "give --search.index"),
        ("give `search.index='Flat'`, or none", "give --search.index Flat, or none"),
        ("`search.index='IVF4096(a b),Flat'`", "--search.index 'IVF4096(a b),Flat'"),
        ("`search.least_recall=0.5`", "--search.least-recall 0.5"),
        ("`at_score=-2`", "--at-score -2"),
        ("`best=N`", "--best N"),
        ("`costs=[5, 1.5]`", "--costs 5 1.5"),
        ("`at_boundary=True` and `drift=False`", "--at-boundary and --no-drift"),
        ("`search.x=False`", "`search.x=False`"),
        ("`MatchOptions.at_score`", "--at-score"),
        ("`RunConfig.first_batch=10`", "jobs.run --first-batch 10"),
        ("`AuditConfig.by_score`", "jobs.audit sample --by-score"),
        ("`al_ray.evaluate`", "jobs.evaluate"),
        ("`al_ray.train_cross_encoder`", "jobs.train --model concat"),
        ("`al_ray.evaluate(..., split='dev')`", "jobs.evaluate --split dev"),
        ("`al_ray.export_labels(run='my run', out='a.csv')`", "al-ray labels export --run 'my run' --out a.csv"),
        (
            "`al_ray.run(config=al_ray.RunConfig(task=TASK, search=al_ray.SearchConfig(index='Flat')), out='r')`",
            "al-ray run --task TASK --search.index Flat --out r",
        ),
        ("`al_ray.run(config=al_ray.load_run('my run').config, out='r')`", "al-ray run --config 'my run' --out r"),
        (
            "`al_ray.run(config=dataclasses.replace(al_ray.load_run('r').config, rounds=3), out='r')`",
            "al-ray run --config r --rounds 3 --out r",
        ),
        (
            "`al_ray.sample_audit(run=al_ray.load_run('r'), config=al_ray.AuditConfig(split='dev', by_score=True))`",
            "al-ray audit sample --run r --split dev --by-score",
        ),
        (
            "`al_ray.run(config=al_ray.RunConfig(task=TASK, **al_ray.recipe('records')), out='r')`",
            "al-ray run --task TASK --recipe records --out r",
        ),
        (
            "`al_ray.run(config=C, out='r', oracle_options=OracleConfig(llm=LlmConfig(model=MODEL, definition=TEXT)))`",
            "al-ray run --config C --out r --llm.model MODEL --llm.definition TEXT",
        ),
        ("`al_ray.compare`", "jobs.evaluate --against"),
        ("`al-ray annotate`", "jobs.annotate"),
        ("`al-ray serve ... --most-unknown`", "jobs.serve --most-unknown"),
        ("`al-ray annotate --run 'my run'`", "al-ray annotate --run 'my run'"),
    ],
)  # fmt: skip
def test_a_text_in_the_words_of_a_command_line(text, shown):
    assert as_called(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "`name of a column`",
        "`unheard_of`",
        "`unheard_of=1`",
        "`search`",
        "`Path.out`",
        "`RunConfig.at_score`",
        "`search.index=1 +`",
        "`out==1`",
        "`al_ray.unheard_of()`",
        "`al_ray.load_run(path='x')`",
        "`al_ray.load_run('x').config`",
        "`al_ray.evaluate('runs/x')`",
        "`al_ray.`",
        "`al-ray unheard-of --run x`",
        f"`al_ray.run({'(' * 3000})`",
        f"`al_ray.run({'-' * 100_000}1)`",
        "one ` alone",
        "``",
        "",
    ],
)
def test_other_texts_in_backticks_are_kept(text):
    assert as_called(text) == text


def test_a_backtick_of_a_user_before_ours_hides_nothing():
    assert as_called("a`b is there; give another `out`") == "a`b is there; give another --out"
    assert as_called("`" * 100_000 + "out`") == "`" * 99_999 + "--out"


def test_a_class_of_options_needs_no_name_in_its_own_command(monkeypatch):
    monkeypatch.setattr("sys.argv", ["python -m jobs.audit", "sample", "--run", "x"])
    assert as_called("`AuditConfig.by_score` `MatchOptions.best`") == "--by-score jobs.match --best"
    monkeypatch.setattr("sys.argv", ["python -m jobs.audit", "estimate", "--run", "x"])
    assert as_called("`AuditConfig.by_score`") == "jobs.audit sample --by-score"


@pytest.mark.parametrize("value", ["a b", "it's", "back`tick", "\\", "$HOME *", "ü", "new\nline", "x" * 100_000])
def test_the_shell_reads_the_value_that_the_text_has(value):
    for text in (call("import_labels", run=value), option("out", value), command("annotate", run=value)):
        shown = as_called(text)
        # $'...' is read by bash, and shlex does not know it.
        assert shlex.split(shown)[-1] == value or ("`" in value and shown.endswith("$'back\\x60tick'"))


def test_every_name_of_the_api_is_one_and_its_command_has_its_options():
    assert set(OF_API) <= set(al_ray.__all__)
    for name, of_api in OF_API.items():
        assert of_api.split()[0] in COMMANDS
        kind = getattr(al_ray, name)
        if dataclasses.is_dataclass(kind):
            paths = {path.partition(".")[0] for path in fields_of(of_api)}
            # Options of a calling oracle have no prefix.
            lacking = {one.name for one in dataclasses.fields(kind)} - paths - {"oracle_options"}
            assert not lacking, f"{name}: {of_api} has no {lacking}"
        else:
            assert fields_of(of_api.partition(" --")[0])
