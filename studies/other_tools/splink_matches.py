"""Match one table or two with Splink, in its own environment: PYTHON studies/other_tools/splink_matches.py --help

Needs Python with splink alone, and nothing of al_ray. The m probabilities are estimated from the matches in --labels,
or without it by expectation maximisation. All pairs are compared: blocking would only lose matches at these sizes.
"""

import argparse
import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd  # pyright: ignore[reportMissingImports]
import splink.comparison_level_library as cll  # pyright: ignore[reportMissingImports]
import splink.comparison_library as cl  # pyright: ignore[reportMissingImports]
from splink import DuckDBAPI, Linker, SettingsCreator, block_on  # pyright: ignore[reportMissingImports]

THRESHOLD = 0.95
"""The default: the match probability at which Splink's README makes clusters."""
NAMES = "ours", "theirs"
Pair = tuple[str, str]


def main() -> None:
    """Estimate the model, match, and write the pairs."""
    options = parse_options()
    tables = [read_table(path) for path in (options.left, options.right) if path is not None]
    linker = Linker(
        tables if len(tables) == 2 else tables[0],
        settings(len(tables) == 2, "price" in tables[0], options.matches / pairs_of([len(table) for table in tables])),
        DuckDBAPI(),
        input_table_aliases=list(NAMES) if len(tables) == 2 else NAMES[0],
    )
    linker.training.estimate_u_using_random_sampling(max_pairs=5e6, seed=options.seed + 1)
    if options.labels is None:
        linker.training.estimate_parameters_using_expectation_maximisation(block_on("brand"))
        linker.training.estimate_parameters_using_expectation_maximisation(block_on("list_extract(tokens, 1)"))
    else:
        linker.table_management.register_table(matches_in(options.labels), "labels", overwrite=True)
        linker.training.estimate_m_from_pairwise_labels("labels")
    write_pairs(options.out, clustered(linker, options.threshold, options.one_to_one))


def parse_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--left", type=Path, required=True, help="CSV with the columns id, title, brand and perhaps price"
    )
    parser.add_argument("--right", type=Path, help="the other table; without it, --left is matched with itself")
    parser.add_argument("--labels", type=Path, help="CSV with left_id, right_id and answer (yes or no)")
    parser.add_argument("--matches", type=int, required=True, help="number of matches, from which the prior follows")
    parser.add_argument("--one-to-one", action="store_true", help="clusters of one row of each table at most")
    parser.add_argument("--threshold", type=float, default=THRESHOLD, help="least match probability")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="CSV of matches: left_id, right_id")
    return parser.parse_args()


def read_table(path: Path) -> Any:
    """Read rows in lower case, None for an empty cell, with the words of the title in a column `tokens`."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [{name: value.strip().lower() or None for name, value in row.items()} for row in csv.DictReader(file)]
        file.seek(0)
        ids = [row["id"] for row in csv.DictReader(file)]
    table = pd.DataFrame(rows).assign(unique_id=ids)
    table["tokens"] = [sorted(set(re.findall(r"\w+", title))) for title in table["title"]]
    if "price" in table:
        table["price"] = pd.to_numeric(table["price"])
    return table.drop(columns="id")


def pairs_of(rows: Sequence[int]) -> int:
    """Return the number of pairs of one table or two."""
    return rows[0] * rows[1] if len(rows) == 2 else rows[0] * (rows[0] - 1) // 2


def settings(two: bool, priced: bool, prior: float) -> Any:
    """Return what is compared: common words, brand (in its column or in the other title), and price."""
    brand = cl.CustomComparison(
        output_column_name="brand",
        comparison_levels=[
            cll.CustomLevel(
                "brand_l = brand_r or contains(title_r, brand_l) or contains(title_l, brand_r)", "same brand"
            ),
            cll.NullLevel("brand"),
            cll.ElseLevel(),
        ],
    )
    price = cl.CustomComparison(
        output_column_name="price",
        comparison_levels=[
            cll.NullLevel("price"),
            cll.PercentageDifferenceLevel("price", 0.05),
            cll.PercentageDifferenceLevel("price", 0.2),
            cll.ElseLevel(),
        ],
    )
    words = cl.ArrayIntersectAtSizes("tokens", [5, 4, 3, 2, 1])
    return SettingsCreator(
        link_type="link_only" if two else "dedupe_only",
        comparisons=[words, brand, price] if priced else [words, brand],
        blocking_rules_to_generate_predictions=["1=1"],
        probability_two_random_records_match=prior,
        additional_columns_to_retain=["title"],
    )


def matches_in(path: Path) -> Any:
    """Read the labelled matches as Splink takes them; it makes no use of the other labels."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["answer"] == "yes"]
    return pd.DataFrame(
        {
            "source_dataset_l": NAMES[0],
            "unique_id_l": [row["left_id"] for row in rows],
            "source_dataset_r": NAMES[1],
            "unique_id_r": [row["right_id"] for row in rows],
        }
    )


def clustered(linker: Any, threshold: float, one_to_one: bool) -> list[Pair]:
    """Return all pairs of a cluster at a threshold; of two tables those with a row of each."""
    predictions = linker.inference.predict(threshold_match_probability=threshold)
    if one_to_one:
        clusters = linker.clustering.cluster_using_single_best_links(
            predictions, duplicate_free_datasets=list(NAMES), threshold_match_probability=threshold
        )
    else:
        clusters = linker.clustering.cluster_pairwise_predictions_at_threshold(predictions, threshold)
    members: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in clusters.as_pandas_dataframe().to_dict("records"):
        members[row["cluster_id"]].append((row.get("source_dataset", ""), row["unique_id"]))
    pairs = [pair for ids in members.values() for pair in combinations(sorted(ids), 2)]
    two = any(source for ids in members.values() for source, _ in ids)
    return [(left, right) for (source, left), (other, right) in pairs if not two or source != other]


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """Write the ids of pairs."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["left_id", "right_id"])
        writer.writerows(sorted(pairs))


if __name__ == "__main__":
    main()
