"""The studies, by name: each has a page of help and a line in the docs, and is called by `python -m studies`."""

import sys

import pytest

from studies import __main__ as studies
from studies import roofline
from tests.guides import ROOT

NAMES = (
    *("simulate", "simulate-audits", "recipes", "adaptivity", "matches", "month", "records", "records-picture"),
    *("scored-pairs", "other-tools", "handover", "guess", "promises", "roofline"),
    *("calibrations", "intervals", "two-samples"),
    *("widths", "cluster-audits", "cascade"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_study_has_help_and_stands_in_the_docs(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["python -m studies", name, "--help"])
    with pytest.raises(SystemExit) as stop:
        studies.main()
    assert not stop.value.code
    assert f"python -m studies {name}" in capsys.readouterr().out
    assert f"`python -m studies {name}" in (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")


def test_every_study_is_listed_above():
    assert len(NAMES) == len(studies.SHOWN)


def test_roofline_prints_its_tables_and_writes_them_where_that_is_asked(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- table pool -->\n\n| old |\n\n<!-- table qqp -->\n\n")
    monkeypatch.setattr(roofline, "PAGE", page)
    for options, written in (([], False), (["--write"], True)):
        monkeypatch.setattr(sys, "argv", ["studies", "roofline", *options])
        studies.main()
        shown = capsys.readouterr().out
        assert all(table in shown for table in roofline.tables().values())
        assert (roofline.tables()["pool"] in page.read_text()) == written
        assert ("| old |" in page.read_text()) != written
