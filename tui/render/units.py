"""Numbers with units: `12.4 ms`, `34 %`, `1.2 MB`. Pure."""

import math
import re
from datetime import UTC, datetime
from functools import cache

SHARE_EPSILON = 1e-5
UNDATED_S = 366 * 86_400.0
"""Times before this one are of logs without dates, which count from 1970-01-01."""
MOMENT_S = 1.0
"""What lasts less is one moment."""
FACTOR_THRESHOLD = 10.0
"""Relative change from which it is written as a factor."""
_SI_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIME_UNITS = ((1.0, 1.0, "s"), (1e-3, 1e-3, "ms"), (1e-6, 1e-6, "µs"), (0.0, 1e-9, "ns"))
_UNIT_NAMES = {"By": "B", "By/s": "B/s", "bit": "bit", "bit/s": "bit/s", "Hz": "Hz", "W": "W", "J": "J"}
_COUNTED_NOUN = re.compile(r"\{(\w+)\}")
_TIME_SHARES = {"ns/s": 1e-9, "us/s": 1e-6, "ms/s": 1e-3, "s/s": 1.0}
"""Time per second is a share of the time."""
_UNIT_SYMBOLS = {"Cel": "°C", "%": "%"}


def format_value(value: float | None, unit: str, *, share: bool = False, signed: bool = False) -> str:
    """Returns a value with its unit; `share` writes unit '1' in percent, `signed` adds a plus sign."""
    if value is None or math.isnan(value):
        return "unknown"
    if unit in _TIME_SHARES:
        value, unit, share = value * _TIME_SHARES[unit], "1", True
    if share and unit == "1":
        # Remove rounding errors, and write +9,200 % as a factor of 93.
        value = 0.0 if abs(value) < SHARE_EPSILON else value
        if signed and FACTOR_THRESHOLD <= value < math.inf:
            return f"×{format_number(1 + value)}"
    sign = "−" if value < 0 else "+" if signed and value > 0 else ""
    return sign + _format_magnitude(abs(value), unit, share=share)


def _format_magnitude(value: float, unit: str, *, share: bool) -> str:
    if math.isinf(value):
        return "infinite"
    if unit == "1":
        return f"{format_number(100 * value)} %" if share else format_number(value)
    if unit == "s":
        return format_duration(value)
    if unit in _UNIT_NAMES:
        return _format_with_prefix(value, _UNIT_NAMES[unit])
    if unit.startswith("1/"):
        return f"{format_number(value)} per {unit[2:]}"
    return f"{format_number(value)} {_UNIT_SYMBOLS.get(unit) or _pluralise_unit(unit, value)}".rstrip()


def _pluralise_unit(unit: str, value: float) -> str:
    """Returns a unit with its noun in the plural: `{packet}/s` is `packets/s`."""
    return _COUNTED_NOUN.sub(lambda m: m[1] if value == 1 or m[1].endswith("s") else f"{m[1]}s", unit)


def format_number(value: float) -> str:
    """Returns a number with three significant digits, without an exponent if possible."""
    if value == 0:
        return "0"
    if abs(value) >= 999.5:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3g}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.2g}"


def _format_with_prefix(value: float, unit: str) -> str:
    for size, prefix in _SI_PREFIXES:
        # 999.7 kB rounds to 1 MB.
        if value >= size * 0.9995:
            return f"{format_number(value / size)} {prefix}{unit}"
    return f"{format_number(value)} {unit}"


def format_duration(value: float) -> str:
    """Returns a duration: `812 µs`, `12.4 ms`, `31.2 s`, `4 min 12 s`, `2 h 5 min`, `3 d 4 h`."""
    if value >= 99.95:
        return _format_long_duration(round(value))
    if value == 0:
        return "0 s"
    for least, size, name in _TIME_UNITS:
        if value >= least * 0.9995:
            return f"{format_number(value / size)} {name}"
    return f"{format_number(value)} s"


def _format_long_duration(whole: int) -> str:
    for big, small, names in ((86400, 3600, "d h"), (3600, 60, "h min"), (60, 1, "min s")):
        if whole >= big:
            first, second = names.split()
            rest = whole % big // small
            return f"{whole // big} {first}" + (f" {rest} {second}" if rest else "")
    return f"{whole} s"


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


def format_brief(value: float, unit: str, *, share: bool = False) -> str:
    """Returns a value without the noun of its unit, for tables: `13`, `12/s`."""
    text = format_value(value, _strip_noun(unit), share=share)
    return text.replace(" /s", "/s").rstrip()


@cache
def _strip_noun(unit: str) -> str:
    return _COUNTED_NOUN.sub("", unit)


def format_short_duration(seconds_: float) -> str:
    """Returns a duration in at most four characters: `12s`, `25m`, `3h`, `2d`."""
    for size, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds_ >= size:
            return f"{seconds_ / size:.0f}{name}"
    return f"{max(seconds_, 0):.0f}s"


def is_share(signal: str) -> bool:
    """Returns whether a signal without unit is a share, shown in percent."""
    return signal.endswith(("ratio", "share", "active", "idle", "utilisation", "usage")) or "_share_" in signal
