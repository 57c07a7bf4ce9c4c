"""studies/roofline.py: its formulas by hand, and the tables of docs/roofline.md."""

import pytest

from studies import roofline


def test_the_tables_of_the_page_are_those_of_the_script():
    page = roofline.PAGE.read_text(encoding="utf-8")
    assert page == roofline.with_tables(page), "run: python -m studies roofline --write"
    assert all(table in page for table in roofline.tables().values())


def test_the_work_of_a_step_of_bert_base_is_that_worked_out_by_hand(monkeypatch):
    monkeypatch.setattr(roofline, "PASSES", 2)
    step = roofline.step(roofline.bert(128))
    # 32 texts, forward and twice as much backward; in each layer 4 d^2 + 8 d^2 weights, and two products of attention.
    assert step.operations == 3 * 32 * 12 * (2 * 12 * 768**2 * 128 + 2 * 2 * 128**2 * 768)
    weights, others = 12 * 12 * 768**2, (30522 + 514) * 768 + 12 * 13 * 768
    assert step.traffic == 44 * (weights + others) + 48 * weights
    assert step.moved(3.35e12, roofline.H100) == 1.0
    assert step.compute() == pytest.approx(step.operations / 989e12)


def test_the_work_of_searches_is_that_worked_out_by_hand():
    join, flat, cells = roofline.searches(roofline.pool())
    assert (join.operations, flat.operations) == (1e12 * 384, 2e12 * 384)
    # 10 rounds of 409,600 texts and 4,096 cells, each text with all cells twice, and with 64 / 4,096 of all texts.
    assert cells.operations == 2 * 384 * (10 * 409_600 * 4096 + 2 * 1e6 * 4096 + 1e12 / 64)
    assert cells.traffic == 4 * 384 * 1e12 / 64


def test_the_host_alone_is_what_a_plan_has_beside_the_gpu():
    options, constants = roofline.pool(), roofline.assumed_constants(roofline.H200)
    embed, _ = roofline.embedding(options)
    alone = embed.planned(roofline.setting(options, roofline.host_alone(constants))).seconds
    # Kernels of 6 layers start in 3 ms, for each batch of 64 texts.
    assert alone == pytest.approx(15_625 * 0.003)
    # And the GPU at 40% of its peak.
    assert embed.planned(roofline.setting(options, constants)).seconds == pytest.approx(alone + embed.compute() / 0.4)
