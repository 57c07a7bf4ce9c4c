"""Match one table or two with dedupe, in its own environment: PYTHON studies/other_tools/dedupe_matches.py --help

Needs Python with dedupe alone, and nothing of al_ray. It learns from --labels, and with --ask N from N pairs that it
chooses itself, answered by --truth. Comparisons are those of dedupe's example of two shops, with the brand beside them.
"""

import argparse
import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import dedupe  # pyright: ignore[reportMissingImports]
import dedupe.variables as variables  # pyright: ignore[reportMissingImports]
import numpy as np

Record = dict[str, Any]
Pair = tuple[str, str]


def main() -> None:
    """Learn, match, and write the pairs."""
    options = parse_options()
    # dedupe draws from the global generators; see GLOBAL_CHANCE in tests/test_architecture.py.
    random.seed(options.seed)
    np.random.seed(options.seed)  # noqa: NPY002
    tables = [read_table(path) for path in (options.left, options.right) if path is not None]
    fields = variables_of([row for table in tables for row in table.values()])
    # Without processes of its own: with them a seed would not decide the result.
    matcher = (dedupe.Dedupe if len(tables) == 1 else dedupe.RecordLink)(fields, num_cores=0, in_memory=True)
    if options.labels is not None:
        # Before the preparation, as of a training file: later, dedupe refuses records that its sample lacks.
        matcher.mark_pairs(labelled(tables, options.labels))
    matcher.prepare_training(*tables)
    if options.ask:
        truth = read_pairs(options.truth)
        ask(matcher, {pair for left, right in truth for pair in ((left, right), (right, left))}, options.ask)
    matcher.train()
    write_pairs(options.out, matched(matcher, tables, options.threshold))


def parse_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--left", type=Path, required=True, help="CSV with the columns id, title, brand and perhaps price"
    )
    parser.add_argument("--right", type=Path, help="the other table; without it, --left is matched with itself")
    parser.add_argument("--labels", type=Path, help="CSV with left_id, right_id and answer (yes or no)")
    parser.add_argument("--ask", type=int, default=0, help="learn also from as many pairs that dedupe chooses")
    parser.add_argument("--truth", type=Path, help="CSV with left_id and right_id of all matches, for --ask")
    parser.add_argument("--threshold", type=float, default=0.5, help="least probability; dedupe's own default is 0.5")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="CSV of matches: left_id, right_id")
    return parser.parse_args()


def read_table(path: Path) -> dict[str, Record]:
    """Read records by id: lower case, None for an empty cell; `text` is title and brand, for a brand can be in both."""
    records: dict[str, Record] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            cells: Record = {name: value.strip().lower() or None for name, value in row.items()}
            cells["id"] = row["id"]
            cells["text"] = " ".join(filter(None, (cells["title"], cells["brand"])))
            if "price" in cells:
                cells["price"] = float(cells["price"]) if cells["price"] else None
            records[row["id"]] = cells
    return records


def variables_of(records: Sequence[Record]) -> list[Any]:
    """Return what is compared."""
    chosen = [
        variables.String("title"),
        variables.Text("text", corpus=[record["text"] for record in records]),
        variables.String("brand", has_missing=True),
    ]
    return [*chosen, variables.Price("price", has_missing=True)] if "price" in records[0] else chosen


def labelled(tables: Sequence[dict[str, Record]], path: Path) -> dict[str, list[tuple[Record, Record]]]:
    """Read labelled pairs as dedupe takes them."""
    pairs: dict[str, list[tuple[Record, Record]]] = {"match": [], "distinct": []}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            records = tables[0][row["left_id"]], tables[-1][row["right_id"]]
            pairs["match" if row["answer"] == "yes" else "distinct"].append(records)
    return pairs


def ask(matcher: Any, truth: set[Pair], count: int) -> None:
    """Let dedupe choose pairs one by one, and answer them."""
    for _ in range(count):
        (pair,) = matcher.uncertain_pairs()
        answer = "match" if (pair[0]["id"], pair[1]["id"]) in truth else "distinct"
        matcher.mark_pairs({"match": [], "distinct": []} | {answer: [pair]})


def matched(matcher: Any, tables: Sequence[dict[str, Record]], threshold: float) -> list[Pair]:
    """Return matched pairs: one to one for two tables, all pairs of a cluster for one."""
    if len(tables) == 2:
        return [(str(left), str(right)) for (left, right), _ in matcher.join(*tables, threshold=threshold)]
    return [
        (str(ids[place]), str(other))
        for ids, _ in matcher.partition(tables[0], threshold)
        for place in range(len(ids))
        for other in ids[place + 1 :]
    ]


def read_pairs(path: Path) -> list[Pair]:
    """Read the ids of pairs."""
    with path.open(newline="", encoding="utf-8") as file:
        return [(row["left_id"], row["right_id"]) for row in csv.DictReader(file)]


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """Write the ids of pairs."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["left_id", "right_id"])
        writer.writerows(sorted(pairs))


if __name__ == "__main__":
    main()
