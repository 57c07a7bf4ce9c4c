"""Score pairs of two tables with goldenmatch, in its own environment.

PYTHON studies/other_tools/goldenmatch_records.py --help

Needs Python with goldenmatch, polars and pandas. Without labels and without settings: it configures itself from the
tables, without the column of ids, by which it would match else. It keeps at most one pair of each left record.
"""

import argparse
import csv
from pathlib import Path

import goldenmatch  # pyright: ignore[reportMissingImports]
import polars  # pyright: ignore[reportMissingImports]


def main() -> None:
    """Match, and write the pairs with their scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--left", type=Path, required=True)
    parser.add_argument("--right", type=Path, required=True)
    parser.add_argument("--id-column", default="id")
    parser.add_argument("--out", type=Path, required=True, help="CSV of scored pairs")
    options = parser.parse_args()
    # All cells are strings, as in the files.
    tables = [polars.read_csv(path, infer_schema_length=0) for path in (options.left, options.right)]
    found = goldenmatch.match_df(*tables, exclude_columns=[options.id_column]).matched.to_pandas()
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["left_id", "right_id", "score"])
        columns = (
            found[name] for name in (f"target_{options.id_column}", f"ref_{options.id_column}", "__match_score__")
        )
        for left, right, score in zip(*columns, strict=True):
            writer.writerow([left, right, repr(float(score))])


if __name__ == "__main__":
    main()
