"""Numbers with units as people read them: `12.4 ms`, `34 %`, `1.2 MB`, `12.9 ms, peers 0.2 ms (65×)`. Pure.

Console, text, HTML and notifications all format with these functions, so that one value reads the same everywhere.
"""

import math
import re
from collections.abc import Sequence
from functools import cache

SHARE_EPSILON = 1e-5
MAX_PERCENT = 3.0
"""Share above which a percentage is harder to grasp than a factor: 8,318 % is 84×."""
SAME_FACTOR = 1.05
"""A factor below this one is no difference that a reader could use."""
PEERS, NORMALLY = "peers", "normally"
"""What a value is compared with, in words that precede it."""
_SI_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_LARGE_COUNT = 1e6
"""Count from which on its digits say less than a prefix."""
_TIME_UNITS = ((1.0, 1.0, "s"), (1e-3, 1e-3, "ms"), (1e-6, 1e-6, "µs"), (0.0, 1e-9, "ns"))
_UNIT_NAMES = {"By": "B", "By/s": "B/s", "bit": "bit", "bit/s": "bit/s", "Hz": "Hz", "W": "W", "J": "J"}
_COUNTED_NOUN = re.compile(r"\{(\w+)\}")
TIME_SHARES = {"ns/s": 1e-9, "us/s": 1e-6, "ms/s": 1e-3, "s/s": 1.0}
"""Time per second is a share of the time."""
_leading_number = re.compile(r"[−\d.,]+")
_UNIT_SYMBOLS = {"Cel": "°C", "%": "%"}


def format_value(value: float | None, unit: str, *, share: bool = False, signed: bool = False) -> str:
    """Returns a value with its unit; `share` writes unit '1' in percent, `signed` adds a plus sign to a change."""
    if value is None or math.isnan(value):
        return "unknown"
    if unit in TIME_SHARES:
        value, unit, share = value * TIME_SHARES[unit], "1", True
    if share and unit == "1":
        value = 0.0 if abs(value) < SHARE_EPSILON else value  # rounding errors
        if MAX_PERCENT < value < math.inf:
            return format_factor(1 + value if signed else value)
    sign = "−" if value < 0 else "+" if signed and value > 0 else ""
    return sign + _format_magnitude(abs(value), unit, share=share)


def format_factor(ratio: float) -> str:
    """Returns `2.5×`, `84×`."""
    return f"{ratio:.2g}×" if ratio < 99.5 else f"{_format_count(round(ratio))}×"


def format_comparison(value: float, reference: float, unit: str, against: str, *, share: bool = False) -> str:
    """Returns `12.9 ms, peers 0.2 ms (65×)`: a value, what it is compared with, and the factor if it says something.

    Args:
        value: the value.
        reference: what it is compared with, at the same moment.
        unit: the unit of both.
        against: PEERS or NORMALLY.
        share: whether values without unit are shares.
    """
    text = f"{format_brief(value, unit, share=share)}, {against} {format_brief(reference, unit, share=share)}"
    ratio = value / reference if reference > 0 else 0.0
    return f"{text} ({format_factor(ratio)})" if ratio >= SAME_FACTOR and math.isfinite(ratio) else text


def format_change(before: float, now: float, unit: str, *, share: bool = False) -> str:
    """Returns `8.7→21.6 ms`: a value as it was and as it is, with its unit once where both have the same."""
    first, second = (format_brief(value, unit, share=share) for value in (before, now))
    number, second_number = (_leading_number.match(text) for text in (first, second))
    has_same_unit = number and second_number and first[number.end() :] == second[second_number.end() :]
    return f"{number[0] if number and has_same_unit else first}→{second}"


def _format_magnitude(value: float, unit: str, *, share: bool) -> str:
    if math.isinf(value):
        return "infinite"
    if unit == "1":
        return f"{format_number(100 * value)} %" if share else _format_count(value)
    if unit == "s":
        return format_duration(value)
    if unit in _UNIT_NAMES:
        return _format_with_prefix(value, _UNIT_NAMES[unit])
    if unit.startswith("1/"):
        return f"{_format_count(value)} per {unit[2:]}"
    return f"{_format_count(value)} {_UNIT_SYMBOLS.get(unit) or _pluralise_unit(unit, value)}".rstrip()


def _format_count(value: float) -> str:
    """Returns a count in full, or with a prefix where it is large: `2.53 M`."""
    return _format_with_prefix(value, "").rstrip() if value >= _LARGE_COUNT * 0.9995 else format_number(value)


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


def format_brief(value: float, unit: str, *, share: bool = False) -> str:
    """Returns a value without the noun of its unit, for tables: `13`, `12/s`, `2.53 M/s`."""
    text = format_value(value, _strip_noun(unit), share=share)
    return text.replace(" /s", "/s").replace(" per ", "/").rstrip()


@cache
def _strip_noun(unit: str) -> str:
    return _COUNTED_NOUN.sub("", unit)


def round_together(shares: Sequence[float]) -> list[float]:
    """Returns shares of one whole in steps of a percent that add up to the same: the largest rests are rounded up."""
    percents = [100 * share for share in shares]
    floors = [math.floor(percent) for percent in percents]
    missing = round(sum(percents)) - sum(floors)
    order = sorted(range(len(shares)), key=lambda n: floors[n] - percents[n])
    ups = set(order[:missing])
    return [(floor + (n in ups)) / 100 for n, floor in enumerate(floors)]


def format_probability(value: float) -> str:
    """Returns `46 %`; `< 1 %` of a small one, which may have been rounded to zero. Nothing is certain: at most 99 %."""
    return f"{min(round(100 * value), 99)} %" if value >= 0.005 else "< 1 %"


def is_share(signal: str) -> bool:
    """Returns whether a signal without unit is a share, shown in percent."""
    return signal.endswith(("ratio", "share", "active", "idle", "utilisation", "usage")) or "_share_" in signal
