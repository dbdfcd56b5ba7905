"""Dates of many lines of one shape: which of their runs of digits are year, month and so on."""

import re
from typing import NamedTuple

import numpy as np

from skewscope.adapters.formats.line_shapes import DigitRuns
from skewscope.adapters.formats.log_times import MAX_STAMP_COLUMN, begin_of_day
from skewscope.engine.model.arrays import F64, Index
from skewscope.kb.line_patterns import mask_digits

STAMP = re.compile(
    r"(?<![/-])0[-/]0(?P<day>[-/]0)?(?P<gap>[T ]| - | \| |,? )0:0:0(?P<fraction>[.,]0)?(?P<zone>Z|[-+]0)?"
)
OTHER = re.compile(r"[a-z] {1,2}0 0:0:0|^[IWEF]0 0:0:0|^\W{0,3}0:0:0")
"""Shapes of times of other forms (`text_times.SHAPE`)."""
LONGEST_FRACTION = 9
YEARS = (1970, 2099)


class StampTrace(NamedTuple):
    """Where a date stands in the lines of a shape. Runs of digits are counted in a line, from 0."""

    first: int
    """The run of its year, or of its month."""
    has_year: bool
    fraction: int | None
    """The run of the parts of a second."""
    has_zone: bool
    """Whether it says that it is of UTC."""

    def months(self, runs: DigitRuns) -> Index:
        """Returns [line] the months."""
        return runs.whole(self.first + self.has_year)

    def times(self, runs: DigitRuns, year: int, offset: float) -> F64:
        """Returns [line] seconds since 1970; NaN where the line must be looked at.

        Args:
            runs: of the lines.
            year: of dates that have none.
            offset: seconds that the clock is ahead of UTC, where the date does not say.
        """
        place = range(self.first, self.first + 5 + self.has_year)
        lengths = runs.lengths[:, place.start : place.stop]
        is_valid = (lengths == [4, 2, 2, 2, 2, 2][-len(place) :]).all(axis=1)
        month, day, hour, minute, second = (runs.whole(n) for n in place[-5:])
        years = runs.whole(self.first) if self.has_year else np.full(len(month), year)
        is_valid &= (hour <= 23) & (minute <= 59) & (second <= 59) & (years >= YEARS[0]) & (years <= YEARS[1])
        times = _begins_of_days(years, month, day, is_valid) + hour * 3600.0 + minute * 60.0 + second
        last = place[-1]
        if self.fraction is not None:
            last, digits = self.fraction, np.minimum(runs.lengths[:, self.fraction], LONGEST_FRACTION)
            is_valid &= runs.lengths[:, last] <= LONGEST_FRACTION
            times = times + runs.whole(last) / 10.0**digits
        is_valid &= runs.columns(last) <= MAX_STAMP_COLUMN
        return np.where(is_valid, times - (0.0 if self.has_zone else offset), np.nan)


def _begins_of_days(years: Index, months: Index, days: Index, is_valid: np.ndarray) -> F64:
    """Returns [line] the begin of the day in seconds since 1970; NaN where there is none, or the date is not valid."""
    codes = np.where(is_valid, (years * 100 + months) * 100 + days, 0)
    known, which = np.unique(codes, return_inverse=True)
    begins = [begin_of_day(code // 10_000, code // 100 % 100, code % 100) if code else None for code in known.tolist()]
    return np.array([np.nan if begin is None else begin for begin in begins])[which]


def trace_stamp(text: str, begin: int = 0, end: int | None = None) -> StampTrace | None:
    """Returns where the only time of a line, or of a part of it, stands; None where that is not certain."""
    shape = mask_digits(text[begin:end])
    stamps = list(STAMP.finditer(shape))
    if len(stamps) != 1 or OTHER.search(shape) or shape.startswith("{"):
        return None
    (match,) = stamps
    # What begins a line may be seconds since 1970.
    is_usual = match["day"] or match["gap"] == " "
    if not is_usual or (match["zone"] or "Z") != "Z" or match["gap"] not in ("T", " ", " - "):
        return None
    if shape.lstrip("[").startswith("0") and match.start() > 1:
        return None
    first = len(re.findall(r"[0-9]+", mask_digits(text[:begin]))) + shape.count("0", 0, match.start())
    parts = 5 + bool(match["day"])
    fraction = first + parts if match["day"] and match["fraction"] else None
    return StampTrace(first, bool(match["day"]), fraction, bool(match["day"] and match["zone"]))
