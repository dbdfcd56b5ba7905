"""Rows of monitors that print a table of GPUs each period, with or without a time: what their readers share.

A new round begins where a GPU comes again. Without times, rounds are one period apart: the labels `start` (seconds
since 1970) and `period` (seconds) of the input say otherwise.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from skewscope.adapters.formats.log_times import find_stamp, parse_offset
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.inputs.file_origin import find_node
from skewscope.kb.problems import InputError, Problem

MISSING = frozenset(("-", "N/A", "[N/A]", "nan", "NaN"))
DEFAULT_PERIOD = 1.0
"""Seconds; that of `dcgmi dmon` and `nvidia-smi dmon` without -d."""
MAX_PERIOD = DAY = 86_400.0
CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d(?:\.\d{1,9})?)")


@dataclass
class RoundTimes:
    """Times and node of the rows of one table."""

    file: str
    labels: Mapping[str, str]
    seen: set[str] = field(default_factory=set)
    """GPUs of the round."""
    rounds: int = 0
    """Rounds that began."""
    assumed: bool = False
    """Whether a row had no time."""
    _clock: float = 0.0
    _midnights: int = 0

    def __post_init__(self) -> None:
        self.offset = parse_offset(self.labels, self.file)
        self.node, self.unnamed = find_node(self.labels, self.file)
        self._start = seconds_label(self.labels, "start", self.file, 0.0)
        self._period = seconds_label(self.labels, "period", self.file, DEFAULT_PERIOD)

    def place(self, gpu: str, stamp: str) -> float:
        """Returns the time of a row in seconds since 1970.

        Args:
            gpu: whose row it is.
            stamp: text that may hold its time.
        """
        clock = CLOCK.fullmatch(stamp.strip())
        return self.place_at(gpu, self._place_clock(clock) if clock else find_stamp(stamp, self.offset))

    def _place_clock(self, clock: re.Match[str]) -> float:
        """Returns the seconds since the midnight before the first row."""
        time = int(clock[1]) * 3600.0 + int(clock[2]) * 60.0 + float(clock[3])
        if time < self._clock - DAY / 2:
            self._midnights += 1
        self._clock = time
        return time + self._midnights * DAY

    def place_at(self, gpu: str, time: float | None) -> float:
        """Returns the time of a row in seconds since 1970: the given one, else that of its round."""
        if gpu in self.seen or not self.rounds:
            self.rounds += 1
            self.seen.clear()
        self.seen.add(gpu)
        if time is None:
            self.assumed = True
            return self._start + (self.rounds - 1) * self._period
        return time

    def describe(self) -> str:
        """Returns the warning about times that are assumed; '' where the file gives them."""
        if not self.assumed:
            return ""
        given = "start" in self.labels and "period" in self.labels
        hint = (
            ""
            if given
            else "; give the input the labels start and period, or take it through `ts '%Y-%m-%dT%H:%M:%S%z'`"
        )
        return f"its rows have no times: rounds are {self._period:g} s apart from {self._start:g} s on{hint}"


def seconds_label(labels: Mapping[str, str], name: str, file: str, default: float) -> float:
    """Returns the seconds that a label of an input says.

    Args:
        labels: those of the input.
        name: `start` or `period`.
        file: name for messages.
        default: without the label.

    Raises:
        InputError: it is no number of seconds.
    """
    text = labels.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < MAX_SECONDS or (name == "period" and not 0 < value <= MAX_PERIOD):
        raise InputError([Problem(file, 0, name, f"{text!r:.40}", "a number of seconds")])
    return value


def parse_number(cell: str) -> float | None:
    """Returns the number of a cell; None where it has none."""
    if cell in MISSING:
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
