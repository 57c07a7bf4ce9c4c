"""Every comparison of the registry keeps its contract, and gives values that were worked out by hand."""

import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from al_ray.core.task import FieldType
from al_ray.matcher.comparisons.comparison import MISSING, ColumnValues, Comparison
from al_ray.matcher.comparisons.frequencies import VALUES, WORDS, frequencies_of
from al_ray.matcher.comparisons.records import Field, Records, normal_form
from al_ray.matcher.comparisons.registry import COMPARISONS, comparisons_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "comparisons.md"
TYPES = get_args(FieldType)
# What a cell may hold, of every type, so that each comparison meets what it cannot read.
CELLS = st.one_of(
    st.sampled_from(
        (
            *("john smith", "smith, john", "j smith", "zaleski", "$1,299.00", "-5", "0", "1e308", "-1e308", "..."),
            *("2001-03-04", "04/03/2001", "31/02/2001", "psl-x350h", "PSLX350H", "---", "\N{GREEK SMALL LETTER ALPHA}"),
        )
    ),
    st.text(min_size=1, max_size=12),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.dates().map(str),
).map(normal_form).filter(bool)  # fmt: skip


def compared(
    name: str, pairs: list[tuple[str, str]], kind: FieldType | None = None, counted: tuple[str, ...] = ()
) -> list[float]:
    """The numbers of pairs of values; frequencies are those of `counted`, or of the values."""
    one = COMPARISONS[name]
    kind = kind or next(one for one in one.of if one != "whole text")
    left, right = ([normal_form(value) for value in side] for side in zip(*pairs, strict=True))
    column = list(counted or (*left, *right))
    counts = frequencies_of([Field("f", kind)], Records(column, (column,))).columns[0]
    rows = np.arange(len(pairs))
    return one.compute(
        one.prepare(ColumnValues(left, counts)), rows, one.prepare(ColumnValues(right, counts)), rows
    ).tolist()


@pytest.mark.parametrize("one", COMPARISONS.values(), ids=list(COMPARISONS))
def test_a_comparison_says_what_it_is(one: Comparison):
    assert one.name == next(name for name, other in COMPARISONS.items() if other is one)
    assert all((one.formula, one.source, one.of))
    assert one.low < one.high
    assert set(one.of) <= {*TYPES, "whole text"}
    # Nothing that can be computed is taken for missing.
    assert one.missing is None or not one.low <= one.missing <= one.high


@pytest.mark.parametrize("kind", [*TYPES, "whole text"])
def test_every_type_is_compared(kind):
    assert comparisons_of(kind)


@pytest.mark.parametrize("one", COMPARISONS.values(), ids=list(COMPARISONS))
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
@example([("1e308", "-1e308"), ("0", "-0"), ("0001-01-01", "9999-12-31")])
def test_a_number_is_in_its_range_and_depends_on_its_own_pair(one, pairs):
    kinds = [kind for kind in one.of if kind != "whole text"]
    left, right = zip(*pairs, strict=True)
    counts = frequencies_of([Field("f", kinds[0])], Records(left, (left,))).columns[0]
    made, other = (one.prepare(ColumnValues(side, counts)) for side in (left, right))
    rows = np.arange(len(pairs))
    scores = one.compute(made, rows, other, rows)
    assert (scores.dtype, scores.shape) == (np.float32, (len(pairs),))
    inside = (one.low <= scores) & (scores <= one.high)
    assert (inside | (False if one.missing is None else scores == one.missing)).all()
    if one.symmetric:
        np.testing.assert_array_equal(one.compute(other, rows, made, rows), scores)
    for row, pair in enumerate(zip(left, right, strict=True)):
        alone, along = (one.prepare(ColumnValues([value], counts)) for value in pair)
        assert one.compute(alone, rows[:1], along, rows[:1])[0] == scores[row]
    assert one.compute(made, rows[:0], other, rows[:0]).shape == (0,)


LN2 = math.log(2)


@pytest.mark.parametrize(
    ("name", "left", "right", "number"),
    [
        ("equal", "John  Smith", "john smith", 1),
        ("equal", "john smith", "jon smith", 0),
        # 4 of 6 and 6 letters agree, in other order: none; Winkler adds a tenth for each of 3 common first letters.
        ("Jaro-Winkler", "martha", "marhta", 0.961111),
        ("Jaro-Winkler", "abc", "xyz", 0),
        ("token set ratio", "sony turntable", "turntable sony pslx350h", 1),
        ("token sort ratio", "smith john", "john smith", 1),
        # Of 3 + 3 letters 2 are inserted or deleted.
        ("token sort ratio", "abc", "abd", 1 - 2 / 6),
        ("Jaccard of words with digits", "sony psl-x350h 2 dvd", "pslx350h black 3", 1 / 3),
        ("Jaccard of words with digits", "sony", "pslx350h", 0),
        ("Jaccard of words with digits", "sony", "bose", MISSING),
        ("initials", "John Smith", "j. smith", 1),
        ("initials", "John Smith", "Smith, John Ernest", 2 / 3),
        ("initials", "Élise", "elise", 1),
        ("initials", "...", "john", 0),
        ("initials", "...", "--", MISSING),
        ("equal codes", "PSL-X350H", "pslx 350h", 1),
        ("equal codes", "pslx350", "pslx350h", 0),
        ("equal codes", "--", "-", 0),
        # One exchange of adjacent signs.
        ("edits of codes", "12345", "12435", 0.8),
        ("edits of codes", "12-345", "123456", 1 - 1 / 6),
        ("common beginning", "sw1a 1aa", "sw1a 2bb", 4 / 7),
        ("relative difference", "$100", "75.00", 0.25),
        ("relative difference", "0", "0.00", 0),
        ("relative difference", "-5", "(5)", 0),
        ("relative difference", "5", "-5", 2),
        ("relative difference", "1e308", "-1e308", 2),
        ("relative difference", "5", "five", MISSING),
        ("log difference", "1,000", "1001", LN2),
        ("log difference", "five", "5", MISSING),
        ("log difference", "1.7e308", "-1.7e308", 711),
        ("days apart", "2001-03-04", "March 5, 2001", LN2),
        ("days apart", "2001-03-04", "20010304", 0),
        # 3 April or 4 March: the nearer to 5 March.
        ("days apart", "03/04/2001", "2001-03-05", LN2),
        ("days apart", "2001-03-04", "2001-02-30", MISSING),
        ("day and month exchanged", "2001-03-04", "2001-04-03", 1),
        ("day and month exchanged", "2001-03-04", "2002-04-03", 0),
        ("day and month exchanged", "2001-03-03", "2001-03-03", 0),
        ("day and month exchanged", "?", "2001-03-03", MISSING),
        ("equal parts of dates", "2001-03-04", "1901-03-04", 2 / 3),
        ("equal parts of dates", "2001-03-04", "1999-12-31", 0),
        # 20010304 and 20010340 would be one exchange; of dates, 12 and 21.
        ("edits of dates", "2001-03-12", "2001-03-21", 7 / 8),
        ("edits of dates", "2001-03-12", "2001-03-12", 1),
        ("edits of dates", "?", "2001-03-12", MISSING),
    ],
)
def test_values_worked_out_by_hand(name, left, right, number):
    assert compared(name, [(left, right), (right, left)]) == pytest.approx([number, number], abs=1e-6)


def test_words_weigh_by_how_few_values_have_them():
    """Of 4 values 3 have sony (d = 3), 1 has radio and 1 has black: w = (ln(5 / (1 + d)) + 1)^2."""
    counted = ("sony radio", "sony", "sony black", "bose")
    sony, rare = ((math.log(5 / (1 + d)) + 1) ** 2 for d in (3, 1))
    pair = [("sony radio", "sony black")]
    assert compared("TF-IDF of words", pair, counted=counted) == pytest.approx([sony / (sony + rare)])
    assert compared("overlap of words", pair, counted=counted) == pytest.approx([sony / (sony + rare)])
    assert compared("overlap of words", [("sony", "sony black")], counted=counted) == [1]
    assert compared("TF-IDF of words", [("sony", "sony black")], counted=counted) == pytest.approx(
        [math.sqrt(sony / (sony + rare))]
    )
    assert compared("TF-IDF of words", [("...", "sony")]) == [MISSING]


def test_the_rarest_word_that_is_shared_and_those_that_are_not():
    """Of 4 values 3 have sony, 1 has radio, 1 has black, none has cd: ln(5 / 4) + 1, ln(5 / 2) + 1, ln(5) + 1."""
    counted = ("sony radio", "sony", "sony black", "bose")
    sony, rare, new = (math.log(5 / (1 + d)) + 1 for d in (3, 1, 0))
    pairs = [("sony radio", "sony black cd"), ("sony radio", "sony"), ("sony", "Sony"), ("bose", "cd"), ("...", "cd")]
    for name, numbers in {
        "rarest common word": [sony, sony, sony, 0, MISSING],
        "rarest word of one alone": [new, rare, 0, new, MISSING],
        "rarest words of both alone": [rare, 0, 0, rare, MISSING],
    }.items():
        assert compared(name, pairs, counted=counted) == pytest.approx(numbers), name
        assert compared(name, [(b, a) for a, b in pairs], counted=counted) == pytest.approx(numbers)


def test_two_smiths_say_less_than_two_zaleskis():
    """Of 8 names 4 are Smith, 1 is Zaleski: 1 and 3 bits; Brown was not counted, so it occurs once."""
    names = ("smith", "smith", "smith", "smith", "zaleski", "jones", "jones", "doe")
    pairs = [("Smith", "smith"), ("zaleski", "zaleski"), ("smith", "zaleski"), ("brown", "brown"), ("doe", "zaleski")]
    assert compared("rarity of the equal value", pairs, "name", names) == [1, 3, 0, 3, 0]
    assert compared("rarity of the commoner value", pairs, "name", names) == [1, 3, 1, 3, 3]


def test_what_a_comparison_weighs_by_is_counted():
    """Else all weights would be those of a word, or a value, that was never seen."""
    weighing = {"words": ("TF-IDF", "overlap", "rarest"), "values": ("rarity",)}
    counted: dict[str, tuple[FieldType, ...]] = {"words": WORDS, "values": VALUES}
    for what, names in weighing.items():
        kinds = {kind for name, one in COMPARISONS.items() if name.startswith(names) for kind in one.of}
        assert kinds - {"whole text"} == set(counted[what])


def test_long_values_are_cut_for_rapidfuzz():
    long = "a" * 999
    assert compared("Jaro-Winkler", [(long + "bb", long + "bc")]) == [1]


def table() -> list[str]:
    """The rows of the table of docs/comparisons.md, as the registry has them."""
    lines: list[str] = []
    for one in COMPARISONS.values():
        missing = "counted" if one.missing is None else f"{one.missing:g}"
        cells = (one.name, ", ".join(one.of), one.formula, f"{one.low:g} to {one.high:.4g}", missing, one.source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def test_the_page_has_the_comparisons_of_the_registry():
    lines = PAGE.read_text(encoding="utf-8").partition("| comparison |")[2].partition("\n\n")[0]
    assert lines.splitlines()[2:] == table()
