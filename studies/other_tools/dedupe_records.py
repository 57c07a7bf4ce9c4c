"""Score pairs of two tables with dedupe, in its own environment: PYTHON studies/other_tools/dedupe_records.py --help

Needs Python with dedupe alone. As dedupe_matches.py, of columns that are named; the result are all scored pairs.
"""

import argparse
import csv
import random
from pathlib import Path
from typing import Any

import dedupe  # pyright: ignore[reportMissingImports]
import dedupe.variables as variables  # pyright: ignore[reportMissingImports]
import numpy as np

Record = dict[str, Any]
Tables = list[dict[str, Record]]


def main() -> None:
    """Learn, score, and write the pairs that dedupe's blocking leaves."""
    options = parse_options()
    random.seed(options.seed)
    np.random.seed(options.seed)  # noqa: NPY002
    fields = [tuple(field.split(":")) for field in options.fields.split(",")]
    tables = [read_table(path, options.id_column, fields) for path in (options.left, options.right)]
    # Without processes of its own: with them a seed would not decide the result.
    matcher = dedupe.RecordLink(variables_of(fields, tables), num_cores=0, in_memory=True)
    if options.labels is not None:
        matcher.mark_pairs(labelled(tables, options.labels, options.count))
    matcher.prepare_training(*tables)
    if options.truth is not None:
        ask(matcher, read_truth(options.truth), options.count)
    matcher.train()
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["left_id", "right_id", "score"])
        for (left, right), score in matcher.join(*tables, threshold=0.0, constraint="many-to-many"):
            writer.writerow([left, right, repr(float(score))])


def parse_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--left", type=Path, required=True)
    parser.add_argument("--right", type=Path, required=True)
    parser.add_argument("--id-column", default="id")
    parser.add_argument("--fields", required=True, help="column:String, Text or Price, with commas between them")
    parser.add_argument("--labels", type=Path, help="CSV with left_id, right_id and answer, in the order of labelling")
    parser.add_argument("--truth", type=Path, help="CSV with left_id and right_id of all matches: dedupe chooses pairs")
    parser.add_argument("--count", type=int, required=True, help="labels that are used, or asked for")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="CSV of scored pairs")
    return parser.parse_args()


def read_table(path: Path, id_column: str, fields: list[tuple[str, ...]]) -> dict[str, Record]:
    """Read records by id: lower case, None for an empty cell."""
    records: dict[str, Record] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            record: Record = {"id": row[id_column]}
            for name, kind in fields:
                record[name] = row[name].strip().lower() or None
                if kind == "Price":
                    price = float(record[name] or 0)
                    record[name] = price if price > 0 else None
            records[row[id_column]] = record
    return records


def variables_of(fields: list[tuple[str, ...]], tables: Tables) -> list[Any]:
    """Return what is compared, as in dedupe's example of two shops; a column may have several."""
    chosen = list[Any]()
    for name, kind in fields:
        more = {}
        if kind == "Text":
            more["corpus"] = [row[name] for table in tables for row in table.values() if row[name]]
        chosen.append(getattr(variables, kind)(name, has_missing=True, **more))
    return chosen


def labelled(tables: Tables, path: Path, count: int) -> dict[str, list[tuple[Record, Record]]]:
    """Read the first labelled pairs as dedupe takes them."""
    pairs: dict[str, list[tuple[Record, Record]]] = {"match": [], "distinct": []}
    with path.open(newline="", encoding="utf-8") as file:
        for row in list(csv.DictReader(file))[:count]:
            records = tables[0][row["left_id"]], tables[1][row["right_id"]]
            pairs["match" if row["answer"] == "yes" else "distinct"].append(records)
    return pairs


def read_truth(path: Path) -> set[tuple[str, str]]:
    """Read the ids of all matches."""
    with path.open(newline="", encoding="utf-8") as file:
        pairs = [(row["left_id"], row["right_id"]) for row in csv.DictReader(file)]
    return set(pairs)


def ask(matcher: Any, truth: set[tuple[str, str]], count: int) -> None:
    """Let dedupe choose pairs one by one, and answer them."""
    for _ in range(count):
        (pair,) = matcher.uncertain_pairs()
        answer = "match" if (pair[0]["id"], pair[1]["id"]) in truth else "distinct"
        matcher.mark_pairs({"match": [], "distinct": []} | {answer: [pair]})


if __name__ == "__main__":
    main()
