"""Score pairs of two tables with Splink, in its own environment: PYTHON studies/other_tools/splink_records.py --help

Needs Python with splink alone. As splink_matches.py, of columns that are named; the result are scored pairs. All pairs
are compared.
"""

import argparse
import csv
import re
from pathlib import Path
from typing import Any

import pandas as pd  # pyright: ignore[reportMissingImports]
import splink.comparison_level_library as cll  # pyright: ignore[reportMissingImports]
import splink.comparison_library as cl  # pyright: ignore[reportMissingImports]
from splink import DuckDBAPI, Linker, SettingsCreator, block_on  # pyright: ignore[reportMissingImports]

NAMES = "ours", "theirs"
WRITTEN = 200_000
"""Pairs of the highest scores that are written."""


def main() -> None:
    """Estimate the model, score all pairs, and write the highest."""
    options = parse_options()
    fields = [tuple(field.split(":")) for field in options.fields.split(",")]
    tables = [read_table(path, options.id_column, fields) for path in (options.left, options.right)]
    settings = SettingsCreator(
        link_type="link_only",
        comparisons=[comparison_of(*field) for field in fields],
        blocking_rules_to_generate_predictions=["1=1"],
        probability_two_random_records_match=options.matches / (len(tables[0]) * len(tables[1])),
    )
    linker = Linker(tables, settings, DuckDBAPI(), input_table_aliases=list(NAMES))
    linker.training.estimate_u_using_random_sampling(max_pairs=5e6, seed=options.seed + 1)
    if options.labels is None:
        for rule in options.train_on.split(","):
            linker.training.estimate_parameters_using_expectation_maximisation(block_on(rule))
    else:
        labels = matches_in(options.labels, options.count)
        linker.table_management.register_table(labels, "labels", overwrite=True)
        linker.training.estimate_m_from_pairwise_labels("labels")
    found = linker.inference.predict(threshold_match_probability=1e-7)
    query = (
        f"select source_dataset_l, unique_id_l, unique_id_r, match_weight from {found.physical_name} "
        f"order by match_weight desc limit {WRITTEN}"
    )
    rows = linker.misc.query_sql(query).to_dict("records")
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["left_id", "right_id", "score"])
        for row in rows:
            ids = row["unique_id_l"], row["unique_id_r"]
            turned = row["source_dataset_l"] != NAMES[0]
            writer.writerow([*(ids[::-1] if turned else ids), repr(float(row["match_weight"]))])


def parse_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--left", type=Path, required=True)
    parser.add_argument("--right", type=Path, required=True)
    parser.add_argument("--id-column", default="id")
    parser.add_argument("--fields", required=True, help="column:words, name or price, with commas between them")
    parser.add_argument("--labels", type=Path, help="CSV with left_id, right_id and answer, in the order of labelling")
    parser.add_argument("--count", type=int, default=0, help="labels that are used; of these, the matches")
    parser.add_argument("--train-on", default="", help="columns on which pairs agree for EM, without --labels")
    parser.add_argument("--matches", type=int, required=True, help="number of matches, from which the prior follows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="CSV of scored pairs")
    return parser.parse_args()


def read_table(path: Path, id_column: str, fields: list[tuple[str, ...]]) -> Any:
    """Read rows in lower case, None for an empty cell; a column of words has its distinct words as a list."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    table = {"unique_id": [row[id_column] for row in rows]}
    for name, kind in fields:
        cells = [row[name].strip().lower() or None for row in rows]
        if kind == "words":
            table[name] = [None if cell is None else sorted(set(re.findall(r"\w+", cell))) for cell in cells]
            table[f"{name}_first"] = [None if cell is None else cell.split()[0] for cell in cells]
        elif kind == "price":
            table[name] = [float(cell) if cell else None for cell in cells]
        else:
            table[name] = cells
    return pd.DataFrame(table)


def comparison_of(name: str, kind: str) -> Any:
    """Return how a column is compared."""
    if kind == "words":
        return cl.ArrayIntersectAtSizes(name, [5, 4, 3, 2, 1])
    if kind == "name":
        return cl.JaroWinklerAtThresholds(name, [0.92, 0.8])
    levels = [
        cll.NullLevel(name),
        cll.PercentageDifferenceLevel(name, 0.05),
        cll.PercentageDifferenceLevel(name, 0.2),
        cll.ElseLevel(),
    ]
    return cl.CustomComparison(output_column_name=name, comparison_levels=levels)


def matches_in(path: Path, count: int) -> Any:
    """Read the matches among the first labels as Splink takes them; it makes no use of the other labels."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in list(csv.DictReader(file))[:count] if row["answer"] == "yes"]
    return pd.DataFrame(
        {
            "source_dataset_l": NAMES[0],
            "unique_id_l": [row["left_id"] for row in rows],
            "source_dataset_r": NAMES[1],
            "unique_id_r": [row["right_id"] for row in rows],
        }
    )


if __name__ == "__main__":
    main()
