"""The table of figures by labels: mean and standard deviation of seeds, as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

PERCENT = {
    "average_precision": "AP",
    "average_precision_unlabelled": "AP, unlabelled",
    "f1": "best F1",
    "f1_one_to_one": "one-to-one",
    "f1_half": "F1 at p = 1/2",
    "f1_half_one_to_one": "one-to-one at 1/2",
    "test_f1_valid": "test F1",
    "test_f1_valid_unlabelled": "test F1, unlabelled",
    "test_f1_half": "test F1 at 1/2",
    "recall": "candidates' recall",
}
"""Shares, shown in percent: name -> heading."""
NUMBERS = {"positives": ("matches among them", ".0f"), "test_labelled": ("test pairs among them", ".0f")}
SECONDS = "seconds"


def format_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format a line for each ranking and number of labels; columns that no row has are left out."""
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["labels"], row["ranking"]), []).append(row)
    shown = [name for name in (*NUMBERS, *PERCENT, SECONDS) if any(row.get(name) is not None for row in rows)]
    heads = {**{name: head for name, (head, _) in NUMBERS.items()}, **PERCENT, SECONDS: "s a round"}
    lines = [["labels", "ranking", "seeds", *(heads[name] for name in shown)]]
    for (labels, ranking), group in groups.items():
        cells = [spread(name, [row[name] for row in group if row.get(name) is not None]) for name in shown]
        lines.append([f"{labels:,}", ranking, str(len(group)), *cells])
    table = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([table[0], "|" + "---|" * len(lines[0]), *table[1:]])


def spread(name: str, values: Sequence[float]) -> str:
    """Format the mean of values, and their standard deviation (of a sample) if there are several."""
    if not values:
        return ""
    found = np.array(values, dtype=np.float64) * (100 if name in PERCENT else 1)
    form = NUMBERS[name][1] if name in NUMBERS else ".1f"
    mean = f"{found.mean():{form}}"
    if len(found) < 2 or name == SECONDS:
        return mean
    return f"{mean} ± {found.std(ddof=1):{form if name in NUMBERS else '.1f'}}"
