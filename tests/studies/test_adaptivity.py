"""The map of simulated runs: differences and shares worked by hand, and the rule that fits the fewest wrong cells."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from al_ray.core.errors import BadFile
from benchmarks.row_file import Row, append_rows
from studies import __main__ as studies
from studies.adapter_runs import COLUMNS
from studies.adaptivity import Adaptivity, Cell, best_limit, format_map, wrong

# AP of each fold by strategy and round, and of the untrained encoder among the labels of round 1.
AP = {
    ("uncertainty", 1): (0.10, 0.10, 0.10),
    ("uncertainty", 2): (0.30, 0.40, 0.50),
    ("static", 1): (0.10, 0.10, 0.10),
    ("static", 2): (0.20, 0.20, 0.20),
}
FIRST = ("0.04", "0.05", "0.06")


def rows(strategies: tuple[str, ...] = ("uncertainty", "static"), rounds: tuple[int, ...] = (1, 2)) -> list[Row]:
    return [
        {
            **dict.fromkeys(COLUMNS, ""), "strategy": strategy, "seed": "0", "measured": f"fold-{fold}", "left": "1.0",
            "distractors": "None", "round": str(number), "labels": str(100 * number), "first_ap": FIRST[fold],
            "ap": str(AP[strategy, number][fold]),
        }
        for strategy in strategies
        for number in rounds
        for fold in range(3)
    ]  # fmt: skip


def written(path: Path, lines: list[Row]) -> Path:
    append_rows(path, COLUMNS, lines)
    return path


def cell(first: float, pays: bool, name: str = "a") -> Cell:
    return Cell(name, "1.0", "None", 200, first, (0.0, 0.02) if pays else (0.0, 0.01))


def test_a_cell_has_the_mean_difference_of_its_folds_and_ap_among_the_first_labels(tmp_path):
    (found,) = Adaptivity((written(tmp_path / "two.csv", rows()),)).results()
    assert (found.name, found.left, found.distractors, found.labels) == ("two", "1.0", "None", 200)
    assert found.first == pytest.approx(0.05)
    assert found.differences == pytest.approx((0.1, 0.2, 0.3))
    # The standard deviation is 0.1; of three numbers the quantile of Student's t is 4.303.
    half = 4.303 * 0.1 / 3**0.5
    assert found.interval == pytest.approx((0.2, 0.2 - half, 0.2 + half))
    assert found.pays
    assert not replace(found, differences=(0.02, 0.01, -0.01)).pays
    # A fold that one strategy lacks does not count.
    partial = [row for row in rows() if (row["strategy"], row["measured"]) != ("static", "fold-2")]
    (found,) = Adaptivity((written(tmp_path / "partial.csv", partial),)).results()
    assert found.interval == pytest.approx((0.15, 0.1, 0.2))
    assert found.first == pytest.approx(0.045)
    assert found.pays


def test_files_without_both_strategies_are_refused(tmp_path):
    for lines in (rows(("uncertainty",)), rows(rounds=(1,)), rows(("static",))):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
        with pytest.raises(BadFile, match="has no runs of uncertainty and static with the same seeds; run simulate"):
            Adaptivity((written(path, lines),)).results()


def test_the_rule_is_the_limit_with_the_fewest_wrong_cells():
    cells = [cell(0.01, True), cell(0.04, True), cell(0.09, False), cell(0.2, False)]
    # Halfway between 4 and 9%, geometrically.
    assert best_limit(cells) == pytest.approx(0.06)
    assert wrong(cells, 0.06) == 0
    assert wrong(cells, 0.1) == 1
    # Nothing pays, or everything does.
    assert best_limit([replace(one, differences=(0.0, 0.01)) for one in cells]) == pytest.approx(0.005)
    assert best_limit([replace(one, differences=(0.01, 0.02)) for one in cells]) == pytest.approx(0.4)
    # A cell without a match among its first labels is the lowest.
    assert wrong([cell(0.0, True)], best_limit([cell(0.0, True), cell(0.5, False)])) == 0


def test_cells_that_are_held_back_are_predicted_by_the_others():
    cells = [cell(0.01, True), cell(0.09, False), cell(0.02, True, "b"), cell(0.04, False, "b")]
    lines = format_map(cells).splitlines()
    assert lines[1].split()[:5] == ["a", "1.0", "None", "200", "1.0%"]
    assert lines[1].endswith("+1.0  +0.0 to +2.0")
    # Of b, 1 and 2% pay and 4 and 9% do not, so the limit is sqrt(2 * 4)%.
    assert "where AP among the first labels is below 2.8%; wrong in 0 of 4 cells" in lines[5]
    assert lines[6] == "a held back: the others give 2.8%; wrong in 0 of 2 cells, of which 1 pay"
    # sqrt(1 * 9)% is between the two of b.
    assert lines[7] == "b held back: the others give 3.0%; wrong in 0 of 2 cells, of which 1 pay"


def test_the_command_prints_the_map_and_draws_it(tmp_path, monkeypatch, capsys):
    files = [str(written(tmp_path / f"{name}.csv", rows())) for name in ("two", "four")]
    monkeypatch.setattr(sys, "argv", ["studies", "adaptivity", "--files", *files, "--out", str(tmp_path / "map")])
    studies.main()
    assert "four held back" in capsys.readouterr().out
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "map.svg").read_text()
