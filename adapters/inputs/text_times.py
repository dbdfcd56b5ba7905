"""Times of lines of any text: dates in many forms, seconds since 1970, else that of the newest line with one."""

import copy
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from skewscope.adapters.formats.line_shapes import DigitRuns
from skewscope.adapters.formats.log_times import ASSUMED_YEAR, SHORT_STAMP, DayTimes, ShortDates, find_stamp
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.inputs.stamp_traces import StampTrace
from skewscope.engine.model.arrays import F64

MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
CTIME = re.compile(
    r"\b(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)"
    r"(?:\.\d+)?(?: (?P<year>(?:19|20)\d\d)\b)?"
)
"""As `dmesg -T`, `date` and syslog write it; without a year in syslog."""
GLOG = re.compile(r"^[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)")
DAY = re.compile(r"(?:(?P<year>20\d\d)-)?(?P<month>\d\d)[-/](?P<day>\d\d)(?:/(?P<end>(?:20)?\d\d))?")
"""As sysstat writes it: 2026-11-22, or 11/22/2026 in the locales of most servers."""
TIME_OF_DAY = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)(?: (?P<half>[AP]M))?")
DAY_S = 86_400.0
EPOCH = re.compile(r"^\[?(?P<seconds>1[0-9]{9})(?:\.\d{1,9})?(?![\d.])")
CLOCK = re.compile(r"^\W{0,3}(?P<clock>[012]\d:[0-5]\d:[0-5]\d)(?:[.,]\d{1,9})?(?=[\s\]|])")
"""At the begin of a line, without a day."""
SHAPE = re.compile(r"0[-/]0(?:[T ]| - | \| |,? )0:0:0|[a-z] {1,2}0 0:0:0|^[IWEF]0 0:0:0|^\W{0,3}0:0:0|^\[?0")
"""In the shape of each line with a time of any of these forms."""
FACTORS = {"epoch": 1.0, "epoch-ms": 1e-3}
DATELESS = "its times have no date: days are counted from 1970-01-01"
YEARLESS = f"its times have no year: {ASSUMED_YEAR} is assumed; give the input the label year, such as '2026'"


def find_short_day(text: str) -> tuple[int, int] | None:
    """Returns month and day of a date without a year, as syslog, glog and loggers write it; None for none."""
    if (match := CTIME.search(text, 0, 200)) is not None:
        return None if match["year"] else (_month_number(match["month"]), int(match["day"]))
    match = GLOG.search(text) or SHORT_STAMP.search(text)
    return (int(match["month"]), int(match["day"])) if match else None


def may_have_time(shape: str) -> bool:
    """Returns whether a line of a shape (`mask_digits`) may have a time that `LineTimes` finds."""
    return not shape.startswith("{") and SHAPE.search(shape) is not None


def has_year(text: str) -> bool:
    """Returns whether a line has a date with its year."""
    match = CTIME.search(text, 0, 200)
    return find_stamp(text) is not None or (match is not None and match["year"] is not None)


def _month_number(name: str) -> int:
    return MONTHS.index(name) // 3 + 1


def _to_seconds(text: str) -> float:
    """Returns the seconds of an interval, 0 where it is none."""
    try:
        return max(float(text), 0.0)
    except ValueError:
        return 0.0


class LineTimes:
    """Gives each line of one file its time."""

    def __init__(self, labels: Mapping[str, str], file: str, fallback: float) -> None:
        """Starts at `fallback`, seconds since 1970, which stands for all lines of a file without any time."""
        self._dates = ShortDates(labels, file)
        self.now = fallback
        self.is_dated = False
        """Whether any line had a time."""
        self.is_dateless = False
        """Whether times have no date."""
        self._days = DayTimes()
        self.interval = 0.0
        """Seconds between readings that have no time of their own; 0 where nothing says it."""
        self._begin: float | None = None
        self._day: float | None = None
        """Begin of the day that a format says, seconds since 1970."""
        self._finders: list[Callable[[str], float | None]] = [self._dates.find, self._find_long, self._find_clock]

    @property
    def note(self) -> str:
        """What is assumed of the times."""
        return DATELESS if self.is_dateless else YEARLESS if self._dates.is_assumed else ""

    def learn(self, lines: Sequence[str]) -> None:
        """Takes the year from the first lines of a file, unless it is known, and what comes before a time from that."""
        for text in lines:
            self._learn_year(text)
        fresh = copy.deepcopy(self)
        if (first := next(filter(None, map(fresh.find, lines)), None)) is not None:
            self.now = first

    def _learn_year(self, text: str) -> None:
        self._dates.learn_year(text)
        if not self._dates.year and (match := CTIME.search(text, 0, 200)) and match["year"]:
            self._dates.year = int(match["year"])

    def read(self, text: str) -> float:
        """Returns the time of a line, seconds since 1970; without one that of the newest line that had one."""
        self._learn_year(text)
        self.find(text)
        return self.now

    def find(self, text: str) -> float | None:
        """Returns the time of a line itself, seconds since 1970, which is the newest one then; None without one.

        In a line of JSON a date is a value like any other.
        """
        if text.startswith("{"):
            return None
        for finder in self._finders:
            time = finder(text)
            if time is not None and 0 <= time < MAX_SECONDS:
                # The next line most often has a time of the same form.
                if finder is not self._finders[0]:
                    self._finders.remove(finder)
                    self._finders.insert(0, finder)
                self.now, self.is_dated = time, True
                return time
        return None

    def find_many(self, stamp: StampTrace, runs: DigitRuns) -> F64:
        """Returns [line] the times of lines of one shape, as `find` would; NaN where each must be looked at.

        `accept` takes the last one.
        """
        is_same_year = stamp.has_year or self._dates.is_within_year(stamp.months(runs))
        if self._finders[0] != self._dates.find or not is_same_year:
            return np.full(len(runs.starts), np.nan)
        return stamp.times(runs, self._dates.year or ASSUMED_YEAR, self._dates.offset)

    def accept(self, time: float, stamp: StampTrace, month: int) -> None:
        """Goes on from the last one of many lines."""
        self.now, self.is_dated = time, True
        self._dates.go_on(month, has_year=stamp.has_year)

    def set(self, kind: str, text: str) -> float:
        """Takes the time that a format says a part of a line is; returns that of the line."""
        if kind == "date":
            return self.read(text)
        if kind == "interval":
            self.interval = _to_seconds(text) or self.interval
            return self.now
        if kind in ("day", "clock"):
            return self._set_part(kind, text)
        try:
            number = float(text.replace(",", ""))
        except ValueError:
            return self.now
        if kind == "elapsed":
            # What counts from an unknown begin ends at the file's own time at the latest: it begins at zero here.
            self._begin = 0.0 if self._begin is None else self._begin
            time = self._begin + number
        else:
            time = number * FACTORS[kind]
        if 0 <= time < MAX_SECONDS:
            self.now, self.is_dated = time, True
        return self.now

    def pass_interval(self) -> float:
        """Goes on to the next reading, which has no time of its own; returns its time."""
        self.now = min(self.now + self.interval, MAX_SECONDS - 1)
        return self.now

    def _set_part(self, kind: str, text: str) -> float:
        """Takes a day, or a time of day; one that is earlier than the one before is of the next day."""
        if kind == "day":
            match = DAY.fullmatch(text)
            year = int(match["year"] or match["end"] or 0) if match else 0
            stamp = f"{year % 100 + 2000}-{match['month']}-{match['day']} 00:00:00" if match else ""
            self._day = find_stamp(stamp, self._dates.offset) if stamp else None
            return self.now
        clock = TIME_OF_DAY.fullmatch(text)
        if clock is None:
            return self.now
        hour = int(clock["hour"]) % 12 + 12 * (clock["half"] == "PM") if clock["half"] else int(clock["hour"])
        begin = self.now - self.now % DAY_S if self._day is None else self._day
        time = begin + 3600 * hour + 60 * int(clock["minute"]) + int(clock["second"])
        if self._day is not None:
            while self.is_dated and time < self.now - DAY_S / 2:
                self._day, time = self._day + DAY_S, time + DAY_S
        if 0 <= time < MAX_SECONDS:
            self.now, self.is_dated = time, True
        return self.now

    def _find_long(self, text: str) -> float | None:
        if match := CTIME.search(text, 0, 200):
            if (first := find_stamp(text[: match.start()], self._dates.offset)) is not None:
                return first
            year = match["year"] or ""
            month, day = _month_number(match["month"]), int(match["day"])
            stamp = f"{month:02}-{day:02} {match['clock']}"
            return find_stamp(f"{year}-{stamp}", self._dates.offset) if year else self._dates.find(stamp)
        if match := GLOG.search(text):
            return self._dates.find(f"{match['month']}-{match['day']} {match['clock']}")
        if match := EPOCH.search(text):
            return float(match["seconds"])
        return None

    def _find_clock(self, text: str) -> float | None:
        """Returns the time of a line that has no day, unless another line of the file has one."""
        match = CLOCK.search(text)
        if match is None or (self.is_dated and not self.is_dateless):
            return None
        self.is_dateless = True
        return self._days.place(match["clock"])
