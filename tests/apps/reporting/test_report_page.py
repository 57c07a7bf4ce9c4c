"""jobs.report from folders to files, and its page in a real browser: phone, dark, offline."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread

from al_ray.api.reports import named
from al_ray.cli import report as report_job
from al_ray.cli._shared.entry import job
from al_ray.datasets.task_folder import write_task
from tests.apps.reporting.browser import browser
from tests.apps.reporting.made_runs import CONFIG, made_grid, made_run

pytestmark = pytest.mark.usefixtures("drawn")
WHOLE = ((3, 9), (1, 4), (0, 1))
PHONE = (390, 844)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, make_task) -> tuple[Path, ...]:
    """A grid in which a cell failed and another is not through, and a run of another encoder."""
    root = tmp_path_factory.mktemp("folders")
    task = make_task(False)
    write_task(task, root / "wikiqa", {})
    config = replace(CONFIG, task=str(root / "wikiqa"))
    cells = {
        **{f"static-s{seed}": ((seed, 2 + seed),) for seed in (0, 1)},
        "uncertainty-s0": WHOLE,
        "uncertainty-s1": WHOLE[:2],
        "random-s0": None,
    }
    grid = made_grid(root / "grid", task, cells, config)
    other = made_run(
        root / "other", task, replace(config, encoder="a-rather-long-name/of-an-encoder"), WHOLE, index_recall=0.9
    )
    return grid, other


def reported(*arguments: str | Path | int, monkeypatch, capsys) -> tuple[int, str, str]:
    """Exit code, output and errors of a job."""
    monkeypatch.setattr(sys, "argv", ["report", *map(str, arguments)])
    code = 0
    try:
        job(report_job.main)
    except SystemExit as stop:
        code = int(stop.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture(scope="module")
def made(folders, tmp_path_factory) -> Path:
    """The folder of a report."""
    out = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["report", *map(str, folders), "--out", str(out)])
        job(report_job.main)
    return out


def test_a_report_is_a_page_tables_and_figures(made):
    files = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    figures = {name for name in files if name.startswith("figures/")}
    assert files - figures == {"report.html", "summary.md", "summary.parquet"}
    names = {"ap-dev", "pr-dev", "positives", "share", "batches", "reliability-dev", "time"}
    of_grid = {f"figures/s1-{name}.{kind}" for name in names for kind in ("png", "svg")}
    of_run = {f"figures/s2-{name}.{kind}" for name in names | {"recall"} for kind in ("png", "svg")}
    assert figures == of_grid | of_run
    page = (made / "report.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 15
    assert "between queries: for that see jobs.evaluate --against." in page, "a command writes flags"
    for name in figures:
        if name.endswith(".svg"):
            assert f"]({name})" in (made / "summary.md").read_text(encoding="utf-8")


def test_the_summary_has_a_row_a_round_and_one_for_what_failed(made):
    rows = pq.ParquetFile(made / "summary.parquet").read().to_pylist()
    assert [(row["run"], row["round"], row["status"]) for row in rows] == [
        *((f"grid/static-s{seed}", 1, "complete") for seed in (0, 1)),
        *(("grid/uncertainty-s0", number, "complete") for number in (1, 2, 3)),
        *(("grid/uncertainty-s1", number, "incomplete") for number in (1, 2)),
        ("grid/random-s0", None, "incomplete"),
        *(("other", number, "complete") for number in (1, 2, 3)),
    ]
    assert [row["rounds"] for row in rows] == [1, 1, 3, 3, 3, 2, 2, 0, 3, 3, 3]
    assert rows[4]["average_precision"] == pytest.approx(5 / 6)
    assert rows[4]["split"] == "dev"
    assert [row["section"] for row in rows] == [1] * 8 + [2] * 3
    assert rows[7]["trouble"].startswith("failed or not begun")


def test_the_words_of_the_job_name_every_run_and_the_page(folders, tmp_path, monkeypatch, capsys):
    code, said, _ = reported(
        *folders, "--out", tmp_path / "out", "--examples", 1, monkeypatch=monkeypatch, capsys=capsys
    )
    assert code == 0
    assert "grid/uncertainty-s1: ended after round 2 of 3" in said
    assert said.splitlines()[-1] == f"wrote {tmp_path / 'out' / 'report.html'}"


def test_a_folder_given_twice_is_read_once_and_of_two_of_one_name_one_is_numbered(folders, tmp_path, make_task):
    again = made_run(
        tmp_path / "other", make_task(False), replace(CONFIG, task=str(folders[0].parent / "wikiqa")), WHOLE
    )
    runs = named((folders[1], folders[1], again))
    assert [run.name for run in runs] == ["other", "other (2)"]


def test_what_cannot_be_reported_ends_in_one_line(folders, tmp_path, monkeypatch, capsys):
    for arguments, words in (
        ((tmp_path, "--out", tmp_path / "out"), "holds neither config.json nor grid.json"),
        ((folders[0], "--out", folders[0]), "is another kind of folder (it has grid.json)"),
        ((folders[1], "--out", folders[1]), "is another kind of folder (it has config.json)"),
        (("--out", tmp_path / "out"), "no folder is given"),
        ((folders[1], "--out", tmp_path / "out", "--examples", -1), "--examples is -1; give at least 0"),
        ((folders[1],), "out"),
    ):
        code, _, said = reported(*arguments, monkeypatch=monkeypatch, capsys=capsys)
        assert code == 2
        assert len(said.splitlines()) == 1
        assert words in said
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A browser; what needs it is skipped where there is none."""
    with browser(tmp_path_factory.mktemp("profile")) as shown:
        yield shown


def brightness(picture: bytes) -> float:
    """Mean of all pixels, 0 to 1."""
    return float(imread(io.BytesIO(picture))[:, :, :3].mean())


@pytest.mark.parametrize("size", [PHONE, (1280, 900)], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_asks_for_nothing_and_follows_the_dark(made, page, size, scheme):
    page.show(made / "report.html", *size, scheme)
    assert page.requests == [(made / "report.html").resolve().as_uri()]
    assert page.complaints == []
    assert page.value("document.documentElement.scrollWidth") == size[0]
    assert page.value("document.body.scrollWidth") <= size[0]
    # A table that is wider than the window scrolls within its card, and no figure is wider than the window.
    assert (
        page.value("Math.max(...[...document.querySelectorAll('figure svg')].map(one => one.clientWidth))") <= size[0]
    )
    for place in ("s1", "s1-ap-dev"):
        page.value(f"document.getElementById('{place}').scrollIntoView({{behavior: 'instant'}})")
        seen = brightness(page.picture())
        assert seen < 0.3 if scheme == "dark" else seen > 0.8


def test_nothing_of_the_page_needs_a_script_and_links_lead_to_what_they_name(made, page):
    page.show(made / "report.html", *PHONE)
    assert page.value("document.scripts.length") == 0
    assert page.value("[...document.links].filter(one => !document.querySelector(one.hash)).length") == 0
    assert page.value("document.querySelectorAll('svg[role=img][aria-label]').length") == 15
    # What is read aloud of a table: a head for each column, and for each row.
    assert page.value("[...document.querySelectorAll('tbody tr')].every(row => row.cells[0].scope === 'row')")


def test_a_wide_table_scrolls_on_a_phone(made, page):
    page.show(made / "report.html", *PHONE)
    table = "document.querySelector('#s1-results').parentElement.querySelector('.wide')"
    assert page.value(f"{table}.scrollWidth > {table}.clientWidth")
    assert page.value(f"getComputedStyle({table}).overflowX") == "auto"
