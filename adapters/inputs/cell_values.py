"""Cells of tables and members of JSON as numbers and times, in the forms in which tools write them."""

import csv
import math
import re
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache

from skewscope.adapters.formats.log_times import find_stamp
from skewscope.adapters.formats.openmetrics import MAX_SECONDS

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
CLF_TIME = re.compile(
    r"(\d\d)/(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)/(\d{4}):(\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?"
)
CLF_ZONE = re.compile(r" ([+-])(\d\d)(\d\d)\]?$")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
SEPARATORS = ",;\t|"
QUOTED_CELL = re.compile(r'"(?:[^"]|"")*"')
SECONDS_UNITS = (1.0, 1e3, 1e6, 1e9)
"""Seconds, milliseconds, microseconds and nanoseconds: numbers of them in a second."""


def find_separator(line: str) -> str:
    """Returns what divides the cells of a line: of the usual signs, the most frequent one outside quotes."""
    return max(SEPARATORS, key=QUOTED_CELL.sub("", line).count)


def split_cells(line: str, separator: str) -> list[str]:
    """Returns the cells of a line without blanks around; none where its quotes are damaged."""
    with suppress(csv.Error):
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")], delimiter=separator), [])]
    return []


def to_number(value: object) -> float | None:
    """Returns a number, also of a text; the last one of several that commas divide, as of nginx's tries."""
    if isinstance(value, str):
        text = value.rpartition(",")[2].strip() if len(value) < 1000 else ""
        return float(text) if NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        number = float(value) if abs(value) < 1e300 else math.inf
        return number if math.isfinite(number) else None
    return to_number(str(value))


def to_time(value: object, divisor: float = 0.0) -> float | None:
    """Returns seconds since 1970 of a number or a date; 0 as a divisor takes the unit by the size."""
    number = to_number(value)
    if number is not None:
        units = (divisor,) if divisor else SECONDS_UNITS
        return next((number / unit for unit in units if 0 <= number / unit < MAX_SECONDS), None)
    text = str(value)[:64].strip() if value is not None else ""
    return _clf_seconds(text) if "/" in text else _iso_seconds(text)


def _iso_seconds(text: str) -> float | None:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return find_stamp(text)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() if when.year > 1970 else None


@lru_cache(4096)
def _clf_seconds(text: str) -> float | None:
    """Returns the time of `14/Sep/2026:08:00:00 +0000`, the date of access logs."""
    match = CLF_TIME.search(text)
    if match is None:
        return find_stamp(text)
    day, month, year, clock, fraction = match.groups()
    seconds = find_stamp(f"{year}-{MONTHS.index(month) + 1:02}-{day} {clock}")
    zone = CLF_ZONE.search(text)
    ahead = (int(zone[2]) * 3600 + int(zone[3]) * 60) * (-1 if zone[1] == "-" else 1) if zone else 0
    return None if seconds is None else seconds + float(f"0.{fraction or 0}") - ahead
