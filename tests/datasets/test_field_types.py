"""The types of fields are guessed by the values of both sides, or given; and two sides share fields."""

import numpy as np
import pytest

from al_ray.core.errors import BadOption
from al_ray.core.task import Corpus, Fields, FieldType
from al_ray.datasets.field_types import (
    FieldPair,
    describe_types,
    field_pairs,
    guess_type,
    parse_types,
    types_of,
    with_types,
)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2001-03-04", "4.3.2001", "", "20010304"], "date"),
        # 19151111 is a number, too, but first of all a date.
        (["19151111", "19161214", "19490817"], "date"),
        (["$5", "1,299.00", "", "3.5"], "number"),
        (["8", "12", "3", "104", "8", "12"], "number"),
        # Years of four digits repeat, and are numbers.
        (["1999", "2001", "2001", "1998"], "number"),
        (["5304218", "4066625", "4365168", "9239102"], "code"),
        (["4223", "0800", "4560", "4560"], "code"),
        # One zero in front of numbers of other lengths, and amounts that repeat.
        (["08", "12", "3", "104", "12"], "number"),
        (["10000", "25000", "10000", "25000", "10000"], "number"),
        (["psl-x350h", "AM53BK", "2204 xl"], "code"),
        (["SW1A 1AA", "EC1A 1BB", "W1A 0AX"], "code"),
        (["+61 2 9555 1234", "(02) 9555 1234"], "code"),
        (["0-395-19395-8", "978-3-16-148410-0"], "code"),
        (["nsw", "vic"] * 20, "category"),
        (["true", "false", ""] * 20, "category"),
        (["nsw", "vic"] * 19, "name"),
        (["john smith", "Zaleski", "Sony Corp."], "name"),
        (["sony turntable pslx350h belt drive system", "bose acoustimass 5 series iii speaker"], "text"),
        (["12 stanley street", "miami", "bega flats"], "name"),
        (["", " "], "text"),
        ([], "text"),
        # 9 of 10 values decide, as one may be wrong.
        (["5"] * 9 + ["unknown"], "number"),
        (["5"] * 8 + ["unknown"] * 2, "name"),
    ],
)
def test_a_type_is_guessed_by_the_values(values, kind):
    assert guess_type(values) == kind


def corpus(names: tuple[str, ...], *rows: tuple[str, ...]) -> Corpus:
    lengths = np.array([[len(cell) for cell in row] for row in rows])
    texts = tuple(" ".join(filter(None, row)) for row in rows)
    return Corpus(tuple(map(str, range(len(rows)))), texts, Fields(names, lengths))


def types(corpus: Corpus) -> tuple[FieldType, ...]:
    assert corpus.fields is not None
    return corpus.fields.types


SHOP = corpus(("title", "price"), ("Sony turntable with a belt drive", "5"), ("Bose speaker of up to 200 watts", ""))
OTHER = corpus(("name", "cost"), ("Sony turntable with a belt drive, in black", "$6"), ("Bose", "many"))


def test_the_values_of_both_sides_decide():
    assert types_of(SHOP, SHOP) == ("text", "number")
    # Of 5, 6 and many two are numbers.
    assert types_of(SHOP, OTHER) == ("text", "name")


def test_fields_are_paired_by_name_or_by_place():
    assert field_pairs(SHOP, OTHER) == (FieldPair("title", "text", 0, 0), FieldPair("price", "name", 1, 1))
    turned = corpus(("price", "title"), ("7", "Bose speaker"))
    assert field_pairs(SHOP, turned) == (FieldPair("title", "text", 0, 1), FieldPair("price", "number", 1, 0))
    assert field_pairs(SHOP, corpus(("a", "b", "c"), ("x", "y", "z"))) == ()
    assert field_pairs(SHOP, Corpus(("1",), ("one",))) == ()
    assert [one.name for one in field_pairs(SHOP, SHOP)] == ["title", "price"]


def test_given_types_come_before_known_ones_and_these_before_guesses():
    left, right = with_types(SHOP, OTHER, {"price": "number"})
    assert (types(left), types(right)) == (("text", "number"), ("text", "number"))
    again, other = with_types(left, right, {})
    assert (types(again), types(other)) == (("text", "number"), ("text", "number"))
    one, same = with_types(left, left, {"title": "name"})
    assert one is same
    assert types(one) == ("name", "number")
    turned = corpus(("price", "title"), ("7", "Bose speaker"))
    assert types(with_types(left, turned, {"price": "code"})[1]) == ("code", "text")


def test_sides_with_other_numbers_of_fields_have_types_of_their_own():
    third = corpus(("a", "b", "c"), ("x", "2001-03-04", "7"))
    left, right = with_types(SHOP, third, {"c": "code"})
    assert (types(left), types(right)) == (("text", "number"), ("name", "date", "code"))
    assert [line.partition(":")[0] for line in describe_types(left, right)] == ["left", "right"]


def test_a_single_column_has_no_fields():
    bare = Corpus(("1",), ("one",))
    assert with_types(bare, bare, {}) == (bare, bare)
    assert describe_types(bare, bare) == ()


def test_the_report_says_what_was_taken_for_what():
    typed, _ = with_types(SHOP, SHOP, {})
    assert describe_types(typed, typed) == (
        "fields: title is text, price is number (to change a type: `fields='NAME:TYPE'`)",
    )


@pytest.mark.parametrize(
    ("words", "columns", "message"),
    [
        (
            ["price:money"],
            ("title", "price"),
            "`fields` has 'price:money'; give NAME:TYPE, where TYPE is one of text",
        ),
        (["price"], ("title", "price"), "`fields` has 'price'; give NAME:TYPE"),
        ([":date"], ("title", "price"), "`fields` has ':date'"),
        (["cost:number"], ("title", "price"), "names 'cost', which is no text column; these are: 'title', 'price'"),
        (["price:number", "price:code"], ("title", "price"), "gives 'price' twice"),
        (["title:name"], ("title",), "goes with several `text_columns`; the one column 'title' is a text"),
    ],
)
def test_a_wrong_type_or_name_is_named_with_those_that_exist(words, columns, message):
    with pytest.raises(BadOption, match=message):
        parse_types(words, columns)


def test_a_name_may_have_a_colon():
    assert parse_types(["a:b:date"], ("a:b", "c")) == {"a:b": "date"}
