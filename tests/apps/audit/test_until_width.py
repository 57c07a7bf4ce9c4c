"""An audit that is labelled until an interval is narrow enough: drawn, answered look by look, resumed, on the page."""

import json
import shutil

import numpy as np
import pytest
from starlette.testclient import TestClient

import al_ray
from al_ray.apps.annotating.access import Access
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.annotating.web import make_application
from al_ray.apps.audit.folder import AuditFolder
from al_ray.apps.audit.sheet import AuditSheets
from al_ray.apps.audit.until_width.folder import WidthAudit
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.scorer import Scorer
from tests.apps.annotating.waiting_runs import Person
from tests.apps.audit.test_audit_job import do, fill, knows, run_folder

BUDGET = 60


@pytest.fixture(scope="module")
def drawn(in_process, make_task, tmp_path_factory):
    """A run, its task, and an audit of its precision that nobody has answered."""
    task = make_task(True, clusters=12, members=6)
    root = tmp_path_factory.mktemp("width")
    # About a fifth of the 1,108 pairs without a label reach 0.9625.
    run = al_ray.load_run(run_folder(root, task, Scorer(200.0, -192.5, 0.1, "fitted")))
    config = al_ray.AuditConfig(split="train", by_score=True, until_width=0.25, budget=BUDGET)
    return run, task, al_ray.sample_audit(run, config), config


@pytest.fixture
def audit(drawn, tmp_path):
    """A copy of its folder."""
    return shutil.copytree(drawn[2].path, tmp_path / "audit")


def answer(audit, task, look: int) -> None:
    fill(audit / f"look-{look}", knows(task, "train"))


def test_all_pairs_are_drawn_above_the_boundary_and_each_look_has_its_own(drawn):
    _, task, audit, _ = drawn
    assert audit.path.name == "audit-train-until-width"
    assert (audit.pairs, audit.written) == (BUDGET, True)
    read = WidthAudit.read(audit.path)
    above = int((read.scored.cosines >= 0.9625).sum())
    assert BUDGET < above < 400
    assert len(read.scored.cosines) == above + 1
    assert (read.pairs.ranks < above).all()
    assert len(np.unique(read.pairs.ranks)) == BUDGET
    assert [look.stop for look in read.looks] == [20, 26, 35, 46, 60]
    codes = [code for look in read.looks for code in look.codes]
    assert len(set(codes)) == BUDGET
    for look in read.looks:
        rows = json.loads((look.folder / "audit.json").read_text())
        assert [row["data"]["pair"] for row in rows] == look.codes
        left, _ = task.ids_of(read.pairs.pairs[look.start : look.stop])
        assert [row["data"]["left_id"] for row in rows] == list(left)


def test_the_cost_is_told_before_the_first_label(drawn):
    run, _, audit, config = drawn
    text = "\n".join(audit.lines())
    assert "wanted is a 95% interval at most 25.0 points wide" in text
    assert "looks after 20, 26, 35, 46, 60 labels" in text
    assert "by the scores of the model" in text
    assert "look-1/audit.csv" in text
    again = al_ray.sample_audit(run, config)
    assert not again.written
    assert again.lines()[1:] == audit.lines()


def test_each_complete_look_is_estimated_until_the_interval_is_narrow(drawn, audit):
    _, task, _, _ = drawn
    with pytest.raises(BadFile, match=r"look-1.audit\.csv answers none of the 20 pairs"):
        al_ray.estimate_audit(audit)
    answer(audit, task, 1)
    # Labels of a later look do not count before those of the look between.
    answer(audit, task, 3)
    found = al_ray.estimate_audit(audit)
    assert [look["labels"] for look in found.figures["looks"]] == [20]
    assert not found.figures["reached"]
    assert found.figures["confidence_of_each"] == pytest.approx(0.99)
    assert "look 2: 6 pairs wait for an answer" in found.text
    assert "more labels" in found.text
    for look in (2, 4, 5):
        answer(audit, task, look)
    found = al_ray.estimate_audit(audit)
    estimates = [look["estimate"] for look in found.figures["looks"]]
    widths = [one["high"] - one["low"] for one in estimates]
    assert [width <= 0.25 for width in widths] == [look["narrow"] for look in found.figures["looks"]]
    # It ends at the first narrow look, though more labels are there.
    assert all(width > 0.25 for width in widths[:-1])
    assert found.figures["reached"] == (widths[-1] <= 0.25)


def test_other_options_are_refused(drawn, audit, tmp_path):
    run, task, _, config = drawn
    other = al_ray.AuditConfig(split="train", by_score=True, until_width=0.1, budget=BUDGET)
    with pytest.raises(WrongFolder, match=r"until_width: 0\.25 there, 0\.1 here"):
        al_ray.sample_audit(run, other)
    with pytest.raises(BadOption, match=r"`labels`, .*go with other audits"):
        al_ray.estimate_audit(audit, audit / "look-1" / "audit.csv")
    second = al_ray.AuditConfig(split="train", by_score=True, after=audit, threshold_for="precision=0.9")
    with pytest.raises(BadOption, match="is an audit until a width"):
        al_ray.sample_audit(run, second, tmp_path / "second")
    unreached = al_ray.load_run(run_folder(tmp_path, task, Scorer(20.0, -40.0, 0.1, "fitted")))
    with pytest.raises(BadOption, match="no pair without a label reaches the model's boundary"):
        al_ray.sample_audit(unreached, config)
    untrained = al_ray.AuditConfig(split="train", by_score=True, until_width=0.3, round=0)
    with pytest.raises(BadOption, match="has no boundary"):
        al_ray.sample_audit(unreached, untrained)


@pytest.mark.parametrize(
    "values",
    [
        {"until_width": 0.1},
        {"of": "recall"},
        {"by_score": True, "until_width": 2.0},
        {"by_score": True, "until_width": 0.1, "oracle": "llm"},
    ],
)
def test_options_that_do_not_go_together_are_refused(values):
    with pytest.raises(BadOption, match=r"until_width"):
        al_ray.AuditConfig(**values)


def test_average_precision_needs_no_model_and_no_labels_beyond_the_ranked_pairs(drawn, tmp_path):
    run, task, _, _ = drawn
    config = al_ray.AuditConfig(
        split="train", by_score=True, until_width=0.9, of="average-precision", budget=40, top=100, round=0
    )
    audit = al_ray.sample_audit(run, config, tmp_path / "ap")
    assert "as if every second pair matched" in "\n".join(audit.lines())
    read = WidthAudit.read(audit.path)
    assert (read.pairs.ranks < 100).all()
    for look in range(1, len(read.looks) + 1):
        answer(audit.path, task, look)
    assert al_ray.estimate_audit(audit.path).figures["reached"]


def test_records_of_other_audits_have_no_new_field(drawn, tmp_path):
    run, _, _, _ = drawn
    plain = al_ray.AuditConfig(split="train", by_score=True, budget=10, top=50)
    path = al_ray.sample_audit(run, plain, tmp_path / "plain").path
    assert not {"until_width", "of", "after"} & set(json.loads((path / "audit-key.json").read_text())["asked"])
    assert AuditFolder(path).record().asked.until_width is None


def test_the_page_ends_with_the_look_that_is_narrow_enough(audit):
    source = AuditSheets(audit)
    annotator = Annotator(source, PageOptions(), lambda: RunStatus(learnt=source.learnt(), command="estimate it"))
    application = make_application(annotator, Access("127.0.0.1", 8001, None))
    ann = Person(TestClient(application, base_url="http://127.0.0.1:8001"), "ann")
    assert "labels" in source.learnt()[0]
    for _ in range(20):
        assert ann.code.startswith("a-")
        ann.answer("yes")
    # All 20 say yes: the interval at 99% is about 23 points wide, and 25 are enough.
    assert "after 20 labels the interval is" in ann.page
    assert "no more labels are needed" in ann.page
    assert "estimate it" in ann.page
    assert list(source.new_sheets(("a-",))) == []
    annotator.close()


def test_the_page_shows_the_next_look_while_the_interval_is_too_wide(audit):
    source = AuditSheets(audit)
    annotator = Annotator(source, PageOptions(), lambda: RunStatus(learnt=source.learnt(), command="estimate it"))
    application = make_application(annotator, Access("127.0.0.1", 8001, None))
    ann = Person(TestClient(application, base_url="http://127.0.0.1:8001"), "ann")
    for row in range(20):
        ann.answer("yes" if row % 2 else "no")
    assert ann.code.startswith("b-")
    assert source.learnt()[0].startswith("after 20 labels the interval is")
    # Whoever serves the page again goes on there.
    annotator.close()
    assert [sheet.title for sheet in AuditSheets(audit).new_sheets(())] == ["audit, look 1", "audit, look 2"]


def test_the_commands_draw_and_estimate(drawn, tmp_path, monkeypatch, capsys):
    run, task, _, _ = drawn
    out = tmp_path / "out"
    line = f"sample --run {run.path} --split train --by-score --until-width 0.7 --budget 40 --out {out}"
    do(monkeypatch, line)
    printed = capsys.readouterr().out
    assert "probably" in printed
    assert f"--audit {out}" in printed
    assert "`" not in printed
    fill(out / "look-1", knows(task, "train"))
    do(monkeypatch, f"estimate --audit {out}")
    assert "no more labels are needed" in capsys.readouterr().out
    assert json.loads((out / "estimate.json").read_text())["reached"]
