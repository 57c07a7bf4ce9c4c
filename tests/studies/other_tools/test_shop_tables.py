"""The synthetic tables of two shops: half of the rows match one to one, spelling decides nothing, the seed all."""

import csv
import re

import numpy as np
import pytest

from al_ray.core.errors import BadOption
from studies.other_tools.shop_tables import (
    COLOURS,
    KINDS,
    LINES,
    Product,
    mistyped,
    shop_tables,
    their_row,
    write_csv,
)

SOLD = Product("Nine Peaks", "Alta", ("tent", "Zelt"), ("black", "jet"), ("2 person", "2p"), 100.0)


def test_half_of_the_rows_match_one_to_one_and_ids_do_not_tell_which():
    tables = shop_tables(101, 0)
    assert [len(tables.ours), len(tables.theirs), len(tables.matches)] == [101, 101, 50]
    for side, table in enumerate((tables.ours, tables.theirs)):
        ids = [row["id"] for row in table]
        assert ids == sorted(set(ids))
        assert len({pair[side] for pair in tables.matches} & set(ids)) == 50
    # Equal places of both would tell; of 50 pairs about one has them by chance.
    assert sum(left[1:] == right[1:] for left, right in tables.matches) < 5


def described(title: str) -> tuple[str | None, ...]:
    """The line, and the first spellings of kind and colour; None for what is missing or mistyped."""
    line = next((line for line in LINES if line in title), None)
    spellings = [names for names, _ in KINDS], COLOURS
    return line, *(
        next((names[0] for names in group if any(map(title.__contains__, names))), None) for group in spellings
    )


def test_rows_without_a_match_are_other_products():
    tables = shop_tables(400, 0)
    ours, theirs = (
        {described(row["title"]) for row in table if row["id"] not in {pair[side] for pair in tables.matches}}
        for side, table in enumerate((tables.ours, tables.theirs))
    )
    whole = {description for description in theirs if None not in description}
    assert len(whole) > 50
    # Products of one line, kind and colour can differ in size.
    assert len(whole & ours) < len(whole) / 10


def test_prices_of_a_match_differ_by_at_most_five_percent_and_lines_agree_but_for_typos():
    tables = shop_tables(200, 1)
    ours, theirs = ({row["id"]: row for row in table} for table in (tables.ours, tables.theirs))
    for left, right in tables.matches:
        one, other = ours[left], theirs[right]
        if other["price"]:
            assert float(other["price"]) == pytest.approx(float(one["price"]), rel=0.051)
        if other["brand"]:
            assert other["brand"] == one["brand"]
        named = set(other["title"].split()) & set(LINES)
        assert named <= {one["title"].split()[0]}


def test_their_titles_have_a_brand_or_a_line_and_always_kind_colour_and_size():
    rng, seen = np.random.default_rng(0), set[tuple[bool, bool, bool]]()
    for _ in range(400):
        row = their_row(SOLD, rng)
        line = bool(re.search(r"\b(Alta|Atla|Ata|Ala)\b", row["title"]))
        seen.add((bool(row["brand"]), "Nine" in row["title"], line))
        assert any(word in row["title"] for word in ("tent", "Zelt"))
        assert any(
            word in row["title"] for word in ("black", "blcak", "balck", "blakc", "lack", "back", "blck", "jet", "blak")
        )
        assert re.search("2p|2 pe?r?s?o?", row["title"])
    # (in the column, in the title, with its line): the brand or the line is always there.
    assert {(True, False, True), (True, False, False), (False, True, True), (False, False, True)} == seen


def test_short_words_and_numbers_are_never_mistyped_and_long_ones_keep_their_first_letter():
    rng = np.random.default_rng(0)
    assert {mistyped(word, rng) for word in ("jet", "2p", "1000", "Zelt") for _ in range(100)} == {
        "jet",
        "2p",
        "1000",
        "Zelt",
    }
    typed = [mistyped("tangerine", rng) for _ in range(1_000)]
    wrong = [word for word in typed if word != "tangerine"]
    # 100 of 1,000 expected; the standard deviation is 9.5.
    assert 60 < len(wrong) < 140
    assert all(word[0] == "t" and len(word) in (8, 9) for word in wrong)


def test_the_same_product_in_another_colour_or_size_is_in_the_tables():
    tables = shop_tables(300, 0)
    families: dict[tuple[str, str], set[str]] = {}
    for row in tables.ours:
        line, *_ = row["title"].split()
        (kind,) = [names[0] for names, _ in KINDS if f" {names[0]} " in row["title"]]
        families.setdefault((line, kind), set()).add(row["title"])
    assert max(map(len, families.values())) >= 3


def test_no_two_kinds_or_colours_share_a_spelling():
    for spellings in ([names for names, _ in KINDS], COLOURS):
        words = [word for names in spellings for word in names]
        assert len(words) == len(set(words))


def test_the_seed_decides_the_tables(tmp_path):
    first, again, other = shop_tables(50, 0), shop_tables(50, 0), shop_tables(50, 1)
    assert first == again != other
    write_csv(tmp_path / "new" / "left.csv", tuple(first.ours[0]), first.ours)
    with (tmp_path / "new" / "left.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == first.ours


def test_more_products_than_there_are_is_an_error():
    with pytest.raises(BadOption, match="--rows needs 7500 products, and only"):
        shop_tables(5_000, 0)
