"""Times in logs: absolute stamps, those without a year or a date, and how many seconds the clock was ahead of UTC.

Where a stamp gives no zone it is taken as UTC, unless `utc_offset` says otherwise.
"""

import datetime as dt
import re
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from skewscope.engine.model.arrays import Index
from skewscope.kb.problems import InputError, Problem

STAMP = re.compile(
    r"(?<!\d)(?P<year>(?:19|20)\d\d)[-/](?P<month>\d\d)[-/](?P<day>\d\d)(?:[T ]| - )(?P<clock>\d\d:\d\d:\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
US_STAMP = re.compile(
    r"(?<![\d/])(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>20\d\d)(?: \| |,? )(?P<clock>\d\d:\d\d:\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
SHORT_STAMP = re.compile(r"(?<![\d/-])(?P<month>\d\d)[-/](?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)")
DATED_NAME = re.compile(r"(?<!\d)(?P<year>20\d\d)[-_]?(?:0[1-9]|1[0-2])[-_]?[0-3]\d")
OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)")
ASSUMED_YEAR = 2000
"""Year of times whose year nothing says: a leap year, so every date exists."""
DAY = 86_400.0
DECEMBER = 12
MAX_STAMP_COLUMN = 300
"""Characters of a line in which its stamp begins."""


def parse_offset(labels: Mapping[str, str], file: str) -> float:
    """Returns the seconds that a log's clock is ahead of UTC, by the label `utc_offset`; 0 without it.

    Raises:
        InputError: the label is no offset.
    """
    text = labels.get("utc_offset", "")
    if not text or text == "Z":
        return 0.0
    match = OFFSET.fullmatch(text)
    if match is None:
        raise InputError([Problem(file, 0, "utc_offset", f"{text!r:.40}", "an offset from UTC such as '+09:00'")])
    return _offset_seconds(match)


def _offset_seconds(match: re.Match[str]) -> float:
    seconds = int(match["hours"]) * 3600 + int(match["minutes"]) * 60
    return float(-seconds if match["sign"] == "-" else seconds)


def find_stamp(text: str, offset: float = 0.0) -> float | None:
    """Returns the first date with a time in a text, in seconds since 1970; None without a valid one.

    Args:
        text: a line, or a part of it.
        offset: seconds that the clock is ahead of UTC, where the stamp itself does not say.
    """
    match = STAMP.search(text, 0, MAX_STAMP_COLUMN) or US_STAMP.search(text, 0, MAX_STAMP_COLUMN)
    if match is None:
        return None
    seconds = _date_seconds(int(match["year"]), match)
    if seconds is None:
        return None
    if match["fraction"]:
        seconds += int(match["fraction"]) / 10 ** len(match["fraction"])
    zone = match["zone"]
    if zone and zone != "Z":
        found = OFFSET.fullmatch(zone)
        return seconds - (_offset_seconds(found) if found else 0.0)
    return seconds - (0.0 if zone else offset)


def _date_seconds(year: int, match: re.Match[str]) -> float | None:
    clock, midnight = match["clock"], begin_of_day(year, int(match["month"]), int(match["day"]))
    hour, minute, second = int(clock[:2]), int(clock[3:5]), int(clock[6:])
    if midnight is None or hour > 23 or minute > 59 or second > 59:
        return None
    return midnight + hour * 3600.0 + minute * 60.0 + second


@lru_cache(64)
def begin_of_day(year: int, month: int, day: int) -> float | None:
    """Returns the begin of a day in seconds since 1970; None where there is no such day."""
    try:
        return dt.datetime(year, month, day, tzinfo=dt.UTC).timestamp()
    except ValueError:
        return None


class ShortDates:
    """Times of stamps with month and day but no year, in the order of a log.

    The year is the label `year`, else that in the file's name, else that of a full date in the log, else
    `ASSUMED_YEAR`; after a December it is the next one.
    """

    def __init__(self, labels: Mapping[str, str], file: str) -> None:
        """Reads the labels.

        Raises:
            InputError: a label has no valid value.
        """
        self.offset = parse_offset(labels, file)
        self.year = 0
        """0 where nothing says it."""
        self.is_assumed = False
        """Whether a time was given without it."""
        self._month = 0
        text, name = labels.get("year", ""), DATED_NAME.search(file.rpartition("/")[2])
        if text:
            if not (text.isdecimal() and len(text) == 4 and text[:2] in ("19", "20")):
                raise InputError([Problem(file, 0, "year", f"{text!r:.40}", "a year such as '2026'")])
            self.year = int(text)
        elif name:
            self.year = int(name["year"])

    def learn_year(self, text: str) -> None:
        """Takes the year from a line with a full date, unless it is known."""
        if not self.year and (match := STAMP.search(text, 0, MAX_STAMP_COLUMN)):
            self.year = int(match["year"])

    def find(self, text: str) -> float | None:
        """Returns the first time of a line in seconds since 1970, also one without a year; None without any."""
        # The next line most often has a stamp of the same form.
        match = SHORT_STAMP.search(text, 0, MAX_STAMP_COLUMN) if self._month else None
        if match is not None and (full := find_stamp(text[: match.start()], self.offset)) is not None:
            return full  # the date that stands first counts
        if match is None and (full := find_stamp(text, self.offset)) is not None:
            self._month = 0
            return full
        match = match or SHORT_STAMP.search(text, 0, MAX_STAMP_COLUMN)
        if match is None:
            return None
        month = int(match["month"])
        if month == 1 and self._month == DECEMBER:
            self.year = (self.year or ASSUMED_YEAR) + 1
        self._month, self.is_assumed = month, self.is_assumed or not self.year
        seconds = _date_seconds(self.year or ASSUMED_YEAR, match)
        return None if seconds is None else seconds - self.offset

    def is_within_year(self, months: Index) -> bool:
        """Returns whether no year begins in lines whose months, [line], follow that of the newest one."""
        before = np.append(self._month, months[:-1])
        return not ((before == DECEMBER) & (months == 1)).any()

    def go_on(self, month: int, *, has_year: bool) -> None:
        """Goes on from a date that was read elsewhere."""
        self._month, self.is_assumed = 0 if has_year else month, self.is_assumed or not (has_year or self.year)


class DayTimes:
    """Times of stamps with hours, minutes and seconds only: days are counted from the assumed one."""

    def __init__(self, begin: float = 0.0) -> None:
        """Starts at a midnight, in seconds since 1970."""
        self._day, self._last = begin, -1.0

    def place(self, clock: str) -> float:
        """Returns the time of an `HH:MM:SS`, in seconds since 1970; a fall by half a day is the next day."""
        hours, minutes, seconds = (float(part) for part in clock.split(":"))
        within = hours * 3600 + minutes * 60 + seconds
        if within < self._last - DAY / 2:
            self._day += DAY
        self._last = within
        return self._day + within
