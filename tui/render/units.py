"""Times, spans and counts on screens, beside the quantities of `kb/quantities.py`. Pure."""

import math
from datetime import UTC, datetime

from skewscope.kb.quantities import (
    NORMALLY,
    PEERS,
    format_brief,
    format_comparison,
    format_duration,
    format_factor,
    format_number,
    format_value,
    is_share,
)

__all__ = (
    "NORMALLY",
    "PEERS",
    "format_brief",
    "format_comparison",
    "format_duration",
    "format_factor",
    "format_number",
    "format_value",
    "is_share",
)

UNDATED_S = 366 * 86_400.0
"""Times before this one are of logs without dates, which count from 1970-01-01."""
MOMENT_S = 1.0
"""What lasts less is one moment."""


def format_time(time: float) -> str:
    """Returns the time of day, UTC."""
    return datetime.fromtimestamp(math.floor(time), UTC).strftime("%H:%M:%S")


def format_datetime(time: float) -> str:
    """Returns date and time of day, UTC."""
    return datetime.fromtimestamp(math.floor(time), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def is_undated(time: float) -> bool:
    """Returns whether a time has no date: logs without dates count from 1970 on."""
    return time < UNDATED_S


def format_clock(time: float) -> str:
    """Returns `10:00:00 UTC`; what has no date has no time zone."""
    return format_time(time) + ("" if is_undated(time) else " UTC")


def format_span(begin: float, end: float) -> str:
    """Returns `2026-11-22 10:00:00 to 10:05:00 UTC`; the second date only where it is another one."""
    first, last = format_datetime(begin), format_datetime(end)
    same = first[:10] == last[:10]
    if is_undated(end):
        return f"{first[11:].removesuffix(' UTC')} to {last[11:].removesuffix(' UTC')}"
    if first == last:
        return first
    return f"{first.removesuffix(' UTC')} to {last[11:] if same else last}"


def format_count(number_: int, noun: str, plural: str = "") -> str:
    """Returns `1 node`, `8 nodes`."""
    return f"{number_:,} {noun if number_ == 1 else plural or noun + 's'}"


def format_short_duration(seconds_: float) -> str:
    """Returns a duration in at most four characters: `12s`, `25m`, `3h`, `2d`."""
    for size, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds_ >= size:
            return f"{seconds_ / size:.0f}{name}"
    return f"{max(seconds_, 0):.0f}s"
