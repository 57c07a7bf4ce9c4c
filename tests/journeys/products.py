"""The truth about docs/products.csv, a person who knows it, and a terminal in a folder that has the table."""

import csv
import re
import shutil
from itertools import combinations
from pathlib import Path

from tests.guides import ROOT
from tests.journeys.terminal import Row, Terminal

# The truth of docs/products.csv: two texts are the same product if brand and kind agree, under whatever word.
BRANDS = ("fjell", "kestrel", "lopez", "nine peaks", "umber", "ørn")
KINDS = {
    "shoe": {"shoe", "runner"}, "jacket": {"jacket", "coat"}, "socks": {"socks"}, "bottle": {"bottle", "flask"},
    "sleeping bag": {"bag", "sack"}, "lamp": {"torch", "headlamp", "light"}, "stove": {"stove", "cooker"},
    "poles": {"poles"}, "tent": {"tent"}, "rope": {"rope"},
}  # fmt: skip
# Merino is wool, and a person may wonder.
UNSURE = {"0021", "0022"}


def product(text: str) -> tuple[str, str]:
    """The brand and the kind that a text names."""
    words = set(re.findall(r"\w+", text.lower()))
    (brand,) = [brand for brand in BRANDS if brand in text.lower()]
    (kind,) = [kind for kind, names in KINDS.items() if names & words]
    return brand, kind


def table() -> dict[str, str]:
    """The texts by id, as the task joins them."""
    rows = csv.DictReader((ROOT / "docs" / "products.csv").read_text(encoding="utf-8").splitlines())
    return {row["sku"]: f"{row['title']} {row['brand']}".strip() for row in rows}


TEXTS = table()
MATCHES = {frozenset(pair) for pair in combinations(TEXTS, 2) if product(TEXTS[pair[0]]) == product(TEXTS[pair[1]])}


def truth(row: Row) -> str:
    return "yes" if frozenset((row["left_id"], row["right_id"])) in MATCHES else "no"


def answer(row: Row) -> str:
    return "unsure" if {row["left_id"], row["right_id"]} == UNSURE else truth(row)


def shop(folder: Path) -> Terminal:
    """Return a terminal in a folder that has the table where the pages expect it."""
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "products.csv", folder / "docs")
    return Terminal(folder)
