"""The picture of README.md: its figures are those of docs/benchmarks.md, and it is drawn from them for both modes."""

import csv
import io
import re
import sys

import pytest

from al_ray.cli._shared import entry
from al_ray.core.errors import BadFile
from benchmarks.row_file import Row
from studies import __main__ as studies
from studies.records.picture import COLUMNS, LOOKS, draw, read_figures
from tests.guides import ROOT

FIGURES = ROOT / "docs" / "records.csv"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def section(heading: str) -> str:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_every_stored_figure_stands_in_the_page_of_benchmarks():
    rows, others = read_figures(FIGURES), section("Beside dedupe, Splink and goldenmatch")
    for row in rows:
        number = f"{int(row['labels']):,}"
        if row["method"] in ("matcher", "cosine"):
            first = "0: cosine" if row["method"] == "cosine" else number
            (found,) = [cells(line) for line in section(row["table"]).splitlines() if line.startswith(f"| {first} |")]
            shown = f"{row['ap']} ± {row['deviation']}" if row["deviation"] else row["ap"]
            assert found[2] == shown, row
        elif row["measured"] == "2026-11-28":
            tool = {"dedupe": "dedupe 3.0.3", "splink": "Splink 4.0.17"}[row["method"]]
            which = "300 of its own choice" if row["labels"] == "300" else "none"
            assert f"| {row['table']} | {tool} | {which} | {row['ap']} |" in others
        else:
            # An earlier measurement, which the page says in a sentence.
            sentences = " ".join(others.split())
            assert re.search(rf"(2026-11-27|on that day).*\b{row['ap']}\b|\b{row['ap']}\b.*on that day", sentences)
    assert {(row["table"], row["labels"]) for row in rows if row["method"] == "matcher"} == {
        (table, labels) for table in ("Abt-Buy", "Amazon-Google") for labels in ("60", "100", "300", "500", "1000")
    }


def test_the_readme_shows_the_same_figures():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for table in ("Abt-Buy", "Amazon-Google"):
        (shown,) = [cells(line) for line in readme.splitlines() if line.startswith(f"| {table}, matcher |")]
        own = [row for row in read_figures(FIGURES) if (row["table"], row["method"]) == (table, "matcher")]
        assert shown[2:] == [f"{row['ap']} ± {row['deviation']}" for row in own]


def test_the_picture_names_every_method_and_has_colours_for_both_modes():
    svg = draw(read_figures(FIGURES))
    for name, _, _ in LOOKS.values():
        assert f"<!-- {name} -->" in svg
    assert "<!-- Abt-Buy -->" in svg
    assert "<!-- Amazon-Google -->" in svg
    assert "@media (prefers-color-scheme: dark)" in svg
    # All colours are variables; none is left that is right in one mode alone.
    body = svg.partition("</style>")[2]
    assert "var(--ink)" in body
    assert "var(--c0)" in body
    assert not set(re.findall(r"#[0-9a-f]{6}\b", body)) - {"#000000", "#ffffff"}
    assert draw(read_figures(FIGURES)) == svg


def test_the_stored_picture_is_drawn_from_the_stored_figures(tmp_path, monkeypatch, capsys):
    out = tmp_path / "records.svg"
    line = ["studies", "records-picture", "--figures", str(FIGURES), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", line)
    studies.main()
    assert capsys.readouterr().out == f"wrote {out}\n"
    stored = (ROOT / "docs" / "records.svg").read_text(encoding="utf-8")
    # Markers, which are placed by the figures; what another version of Matplotlib draws of a letter does not count.
    marks = re.compile(r'<use xlink:href="#m\w+" x="[\d.]+" y="[\d.]+"')
    assert len(marks.findall(stored)) > 30
    assert marks.findall(stored) == marks.findall(out.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("changed", "value"),
    [("method", "best"), ("labels", "-1"), ("labels", "many"), ("ap", "101"), ("ap", "nan"), ("deviation", "-1")],
)
def test_a_figure_that_cannot_be_drawn_is_named(tmp_path, monkeypatch, capsys, changed, value):
    row: Row = {"table": "Abt-Buy", "method": "matcher", "labels": "60", "ap": "95.8", "deviation": "0.2"}
    content = io.StringIO()
    writer = csv.DictWriter(content, list[str](COLUMNS))
    writer.writeheader()
    writer.writerows([{**row, "seeds": "5", "measured": "2026-11-28"}, {**row, changed: value}])
    path = tmp_path / "figures.csv"
    path.write_text(content.getvalue())
    with pytest.raises(BadFile, match=r"figures\.csv:3 is no figure of matcher, "):
        read_figures(path)
    monkeypatch.setattr(
        sys, "argv", ["studies", "records-picture", "--figures", str(path), "--out", str(tmp_path / "x.svg")]
    )
    with pytest.raises(SystemExit) as stop:
        entry.job(studies.main)
    assert stop.value.code == 2
    assert "figures.csv:3" in capsys.readouterr().err
    assert not (tmp_path / "x.svg").exists()


def test_no_figures_are_no_picture(tmp_path):
    with pytest.raises(BadFile, match=r"has no figures; give a file such as docs/records\.csv"):
        read_figures(tmp_path / "none.csv")
