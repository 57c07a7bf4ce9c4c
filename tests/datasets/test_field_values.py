"""Numbers and dates are read as people write them, and nothing else is taken for one."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.datasets.field_values import Day, parse_date, parse_number


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        *[("5", 5), ("-5", -5), ("+5.50", 5.5), (".5", 0.5), ("1e3", 1000), (" 7 ", 7), ("0,299", 0.299)],
        *[("$1,299.00", 1299), ("1.299,00 \N{EURO SIGN}", 1299), ("EUR 12", 12), ("12 USD", 12), ("12%", 12)],
        *[("(5.00)", -5), ("$-5", -5), ("-$5", -5), ("\N{MINUS SIGN}5", -5), ("US$ 5", 5), ("5.", 5)],
        *[
            ("1 299,00", 1299),
            ("1\N{NO-BREAK SPACE}299", 1299),
            ("1'299", 1299),
            ("1\N{RIGHT SINGLE QUOTATION MARK}299.5", 1299.5),
        ],
        *[("1,299,000", 1299000), ("1.299.000", 1299000), ("1,29,000", 129000), ("1,299", 1299), ("1.299", 1.299)],
        *[("12,5", 12.5), ("1,2345", 1.2345), ("1234,567", 1234.567)],
    ],
)
def test_a_number_as_it_is_written(cell, number):
    assert parse_number(cell) == number


@pytest.mark.parametrize(
    "cell",
    [
        *("", " ", "abc", "1_000", "nan", "inf", "12 kg", "3-4", "1.2.3", "1,2,3", "(5", "5)", "$", "1 2", "10 29 99"),
        *("2001-03-04", "1e999", "psl350", "1,2.3,4", ",", ".", "1" * 401),
    ],
)
def test_what_is_no_number(cell):
    assert parse_number(cell) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_that_programs_write_come_back(number):
    assert parse_number(str(number)) == number


@given(st.integers(-(10**12), 10**12))
def test_thousands_may_be_separated(number):
    assert parse_number(f"{number:,}") == number
    assert parse_number(f"${number:,}.00") == number
    assert parse_number(f"{number:,}".replace(",", " ")) == number
    assert parse_number(f"{number:,}.25".replace(",", "_").replace(".", ",").replace("_", ".")) == pytest.approx(
        number + (0.25 if number >= 0 else -0.25)
    )


MARCH = datetime.date(2001, 3, 4)


@pytest.mark.parametrize(
    "cell",
    [
        *("2001-03-04", "2001/3/4", "2001.03.04", "20010304", "4 March 2001", "4th of Mar 01", "Mar 4, 2001"),
        *("March 4 2001", "04-Mar-01", "mar-04-2001", "4. march 2001", "MAR 4TH, 2001", "4 mar '01"),
        *("2001-03-04 10:11", "2001-03-04T10:11:12.5Z", "2001-03-04 10:11:12+01:00", "March 4, 2001 3:30 PM"),
    ],
)
def test_a_date_as_it_is_written(cell):
    assert parse_date(cell) == Day(MARCH)


@pytest.mark.parametrize("cell", ["4.3.2001", "04/03/2001", "04-03-2001", "4/3/01"])
def test_day_and_month_may_be_either(cell):
    assert parse_date(cell) == Day(MARCH, datetime.date(2001, 4, 3))


def test_only_one_of_two_numbers_can_be_the_month():
    assert parse_date("14/3/2001") == parse_date("3/14/2001") == Day(datetime.date(2001, 3, 14))
    assert parse_date("3/3/2001") == Day(datetime.date(2001, 3, 3))


def test_years_of_two_digits():
    assert [day.date.year for cell in ("1 jan 69", "1 jan 68") if (day := parse_date(cell))] == [1969, 2068]


@pytest.mark.parametrize(
    "cell",
    [
        *("", "?", "soon", "2001", "may 2001", "31/02/2001", "2001-13-01", "2001-3", "99999999", "12345678", "4/3"),
        *("2001-03/04", "0000-01-01", "1.2.3.4", "4 foo 2001", "2001-03-04 and more", "1" * 60),
    ],
)
def test_what_is_no_date(cell):
    assert parse_date(cell) is None


@given(st.dates())
def test_dates_that_programs_write_come_back(date):
    assert parse_date(date.isoformat()) == Day(date)
    assert parse_date(f"{date.day} {date:%B} {date.year:04d}") == Day(date)


@given(st.text(max_size=20))
def test_any_text_is_read_without_an_error(text):
    parse_number(text)
    parse_date(text)
