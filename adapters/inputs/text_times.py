"""Times of lines of any text: dates in many forms, seconds since 1970, else that of the newest line with one."""

import re
from collections.abc import Mapping

from skewscope.adapters.formats.log_times import ShortDates, find_stamp
from skewscope.adapters.formats.openmetrics import MAX_SECONDS

MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
CTIME = re.compile(
    r"\b(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)"
    r"(?:\.\d+)?(?: (?P<year>(?:19|20)\d\d)\b)?"
)
"""As `dmesg -T`, `date` and syslog write it; without a year in syslog."""
GLOG = re.compile(r"^[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)")
EPOCH = re.compile(r"^\[?(?P<seconds>1[0-9]{9})(?:\.\d{1,9})?(?![\d.])")
FACTORS = {"epoch": 1.0, "epoch-ms": 1e-3}


class LineTimes:
    """Gives each line of one file its time."""

    def __init__(self, labels: Mapping[str, str], file: str, fallback: float) -> None:
        """Starts at `fallback`, seconds since 1970, which stands for all lines of a file without any time."""
        self._dates = ShortDates(labels, file)
        self._fallback = fallback
        self.now = fallback
        self.is_dated = False
        """Whether any line had a time."""
        self._begin: float | None = None

    @property
    def year(self) -> int:
        """The year that is known; 0 for none."""
        return self._dates.year

    def read(self, text: str) -> float:
        """Returns the time of a line, seconds since 1970; without one that of the newest line that had one."""
        self._dates.learn_year(text)
        time = self._find(text)
        if time is not None and 0 <= time < MAX_SECONDS:
            self.now, self.is_dated = time, True
        return self.now

    def set(self, kind: str, text: str) -> float:
        """Takes the time that a format says a part of a line is; returns that of the line."""
        if kind == "date":
            return self.read(text)
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

    def _find(self, text: str) -> float | None:
        if (found := self._dates.find(text)) is not None:
            return found
        if match := CTIME.search(text, 0, 200):
            year = match["year"] or ""
            month, day = MONTHS.index(match["month"]) // 3 + 1, int(match["day"])
            stamp = f"{month:02}-{day:02} {match['clock']}"
            return find_stamp(f"{year}-{stamp}", self._dates.offset) if year else self._dates.find(stamp)
        if match := GLOG.search(text):
            return self._dates.find(f"{match['month']}-{match['day']} {match['clock']}")
        if match := EPOCH.search(text):
            return float(match["seconds"])
        return None
