"""Read numbers and dates out of cells, as people and programs write them."""

import datetime
import math
import re
from dataclasses import dataclass

CURRENCIES = r"[$€£¥₹₩₽₺₴₫฿]|(?:us|au|ca|nz|hk|sg)\$|(?:usd|eur|gbp|jpy|chf|cad|aud|nzd|inr|cny|sek|nok|dkk|pln|czk)\b"
NUMBER = re.compile(
    rf"(?P<minus>[(\u2212-])?\s*(?P<before>[+\u2212-]|{CURRENCIES})?\s*(?P<sign>[+\u2212-])?"
    rf"(?P<digits>(?:\d[\d.,'\u2019\s]*|[.,]\d+))(?P<power>e[+-]?\d{{1,3}})?\s*(?:%|{CURRENCIES})?\s*\)?",
    re.ASCII | re.IGNORECASE,
)
# Groups of three digits between spaces or apostrophes: 1 299 000, 1'299.
GROUPS = re.compile(r"\d{1,3}(?:[\s'\u2019]\d{3})+(?:[.,]\d*)?")
MONTHS = {
    name[:3]: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
NAMES = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
# A time after a date, which is not read.
TIME = r"(?:[ t]+\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:am|pm)?\s*(?:z|utc|[+-]\d{2}:?\d{2})?)?"
YEAR = r"(?P<year>\d{4}|['\u2019]?\d{2})"
DATES = tuple(
    re.compile(form + TIME, re.ASCII | re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?P<sep>[-/.])(?P<month>\d{1,2})(?P=sep)(?P<day>\d{1,2})",
        r"(?P<year>1[6-9]\d\d|2[01]\d\d)(?P<month>\d{2})(?P<day>\d{2})",
        rf"(?P<first>\d{{1,2}})(?P<sep>[-/.])(?P<second>\d{{1,2}})(?P=sep){YEAR}",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?[\s.-]*{NAMES}[\s,-]*{YEAR}",
        rf"{NAMES}[\s-]*(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,\s*|\s+|-){YEAR}",
    )
)
LONGEST = 400  # Characters of a number; the largest float64 has 309 digits.
# Years of two digits from here on are of the last century, as in POSIX: 69 is 1969, 68 is 2068.
LAST_CENTURY = 69


@dataclass(frozen=True)
class Day:
    """A date. other: the date with day and month exchanged, if what is written may also mean that: 03/04/2001."""

    date: datetime.date
    other: datetime.date | None = None


def parse_number(value: str) -> float | None:
    """Return the number that a cell holds, None if it holds none.

    Signs and codes of currencies and % are left out, (5) is -5. Of . and , the last one is the decimal sign if both
    occur; one that occurs more than once separates thousands, and so does a single comma before three digits: 1,299 is
    1299, but 1.299, 0,299 and 12,5 have decimals. A cell of more than LONGEST characters holds none.
    """
    if len(value) > LONGEST:
        return None
    try:
        number = float(value) if "_" not in value else math.nan
    except ValueError:
        value = " ".join(value.split())
        found = NUMBER.fullmatch(value) if value.startswith("(") == value.endswith(")") else None
        digits = None if found is None else _plain(found["digits"].strip())
        if found is None or digits is None:
            return None
        number = float(digits + (found["power"] or ""))
        if found["minus"] or "-" in (signs := (found["before"] or "") + (found["sign"] or "")) or "\u2212" in signs:
            number = -number
    return number if math.isfinite(number) else None


def _plain(digits: str) -> str | None:
    """Return digits with separators as Python writes a number; None if they are no number, as 1.2.3,4,5."""
    if re.search(r"[\s'\u2019]", digits):
        if not GROUPS.fullmatch(digits):
            return None
        digits = re.sub(r"[\s'\u2019]", "", digits)
    last = max(digits.rfind("."), digits.rfind(","))
    if last < 0:
        return digits
    decimal = digits[last]
    other = "," if decimal == "." else "."
    whole, rest = digits[:last], digits[last + 1 :]
    single = digits.count(decimal) == 1
    thousands = decimal == "," and len(rest) == 3 and other not in whole and re.fullmatch(r"[1-9]\d{0,2}", whole)
    if single and not thousands:
        if other in whole and not re.fullmatch(rf"\d{{1,3}}(\{other}\d{{2,3}})*\{other}\d{{3}}", whole):
            return None
        return f"{whole.replace(other, '') or '0'}.{rest or '0'}"
    if other in digits or not re.fullmatch(rf"\d{{1,3}}(\{decimal}\d{{2,3}})*\{decimal}\d{{3}}", digits):
        return None
    return digits.replace(decimal, "")


def parse_date(value: str) -> Day | None:
    """Return the date that a cell holds, None if it holds none; a time after it is left out.

    Read are 2001-03-04 (also with / or .), 20010304, 4.3.2001, 04/03/01, 4 March 2001, 4th of Mar 01, Mar 4, 2001. The
    day of 04/03/2001 is the first number, unless only the second one can be; if both can, `other` is the other reading.
    """
    value = " ".join(value.split())
    if not value or len(value) > 50 or not any(map(str.isdigit, value)):
        return None
    found = next((match for form in DATES if (match := form.fullmatch(value))), None)
    if found is None:
        return None
    parts, year = found.groupdict(), int(found["year"].lstrip("'\u2019"))
    if len(found["year"]) < 4:
        year += 1900 if year >= LAST_CENTURY else 2000
    if "first" in parts:
        first, second = int(parts["first"]), int(parts["second"])
        readings = [one for one in (_date(year, second, first), _date(year, first, second)) if one is not None]
        other = readings[1] if len(readings) == 2 and first != second else None
        return Day(readings[0], other) if readings else None
    month = MONTHS[parts["name"][:3].lower()] if parts.get("name") else int(parts["month"])
    one = _date(year, month, int(parts["day"]))
    return None if one is None else Day(one)


def _date(year: int, month: int, day: int) -> datetime.date | None:
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None
