"""The printed lines about matches."""

from typing import Any

from al_ray.apps.matching.summary import summary_lines

RECORD: dict[str, Any] = {
    "model": {"run": "runs/r", "round": 2},
    "left": 10,
    "right": 10,
    "pairs": 45,
    "assign": "all",
    "cutoff": {"source": "`at_score=0.95`", "score": 0.95, "precision": None, "recall": None},
    "labelled_no": 0,
    "changed_texts": 0,
    "unused_labels": 0,
    "matches": 9,
    "by_label": 0,
    "search": {"kind": "exact"},
}


def sizes_line(sizes: list[list[int]]) -> str:
    record = {**RECORD, "clusters": {"number": sum(count for _, count in sizes), "sizes": sizes, "conflicts": 0}}
    (line,) = [line for line in summary_lines(record, symmetric=True) if line.startswith("clusters of two or more")]
    return line


def test_few_sizes_of_clusters_are_all_printed():
    assert sizes_line([[2, 1000], [3, 1]]) == "clusters of two or more texts: 1,001 (1,000 of 2, 1 of 3)"
    assert sizes_line([]) == "clusters of two or more texts: 0"
    assert sizes_line([[size, 1] for size in range(2, 10)]).count(" of ") == 9


def test_of_many_sizes_the_smallest_and_the_largest_are_printed():
    line = sizes_line([[size, 1] for size in range(2, 50)] + [[224_442, 1]])
    assert line == (
        "clusters of two or more texts: 49 (1 of 2, 1 of 3, 1 of 4, 1 of 5, 1 of 6, 1 of 7, 1 of 8, ..., 1 of 224,442)"
    )


def test_cells_that_a_spreadsheet_would_run_are_counted():
    assert not [line for line in summary_lines({**RECORD, "formula_cells": 0}, symmetric=True) if "formulas" in line]
    (line,) = [line for line in summary_lines({**RECORD, "formula_cells": 3}, symmetric=True) if "formulas" in line]
    assert line == (
        "a spreadsheet would run 3 cells of the CSV files as formulas; `escape_formulas` puts a quote before them"
    )
