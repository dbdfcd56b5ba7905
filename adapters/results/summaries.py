"""Parts that results of several programs share: summaries of latencies, units, and texts of several JSON values."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from skewscope.adapters.formats.bounded_json import count_parts, parse_json
from skewscope.adapters.formats.bounds import JSON_BYTES, PARTS
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.results.result import LatencySummary, to_number
from skewscope.kb import yamlfile

SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds in a unit."""
MEANS = ("mean", "avg", "average")
DEVIATIONS = ("std", "stddev", "std_dev", "stdev")
QUANTILE = re.compile(r"p_?(\d{1,3})(?:[.p_](\d{1,3}))?$")
ENDLESS = re.compile(r"(?<=[:-] )[-+]?\.(?:inf|nan)\b", re.IGNORECASE)
DATE = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)$")


def seconds_in(unit: object) -> float | None:
    """Returns the seconds in a unit such as ms or s/token; None for another one."""
    return SECONDS.get(str(unit).partition("/")[0].strip().lower())


def read_latency(given: object, scale: float) -> LatencySummary | None:
    """Returns the summary in an object such as `{"mean": 1, "p99": 2}`, times `scale`; None where it has no number."""
    if not isinstance(given, Mapping):
        return None
    flat = {**given, **(given["percentiles"] if isinstance(given.get("percentiles"), Mapping) else {})}
    numbers = {
        str(name).lower(): value * scale
        for name, each in flat.items()
        if (value := to_number(each)) is not None and value >= 0
    }
    return make_latency(numbers)


def make_latency(numbers: Mapping[str, float]) -> LatencySummary | None:
    """Returns the summary of numbers by names such as mean, median, p99 and min; None where there is none."""
    mean = next((numbers[name] for name in MEANS if name in numbers), None)
    std = next((numbers[name] for name in DEVIATIONS if name in numbers), None)
    quantiles = {share: value for name, value in numbers.items() if (share := _share_of(name)) is not None}
    if mean is None and not quantiles:
        return None
    return LatencySummary(mean, std, tuple(sorted(quantiles.items())))


def _share_of(name: str) -> float | None:
    """Returns the share of p99, p99.9, p99p9 or p999 (three digits count in thousandths), or median."""
    named = {"median": 0.5, "min": 0.0, "max": 1.0}
    if name in named:
        return named[name]
    found = QUANTILE.fullmatch(name)
    if not found:
        return None
    whole, part = found.groups()
    percent = float(f"{whole}.{part}") if part else float(whole) / (10.0 if len(whole) > 2 and whole != "100" else 1.0)
    return percent / 100 if percent <= 100 else None


def json_values(text: str, file: str) -> Iterator[Any]:
    """Yields the values of a JSON text: one, the items of a list, or one a line.

    Raises:
        InputError: it is too large, or no JSON.
    """
    JSON_BYTES.check(file, len(text))
    PARTS.check(file, count_parts(text))
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and (several := [_json_or_none(line) for line in lines]) and sum(map(bool, several)) > 1:
        yield from filter(None, several)
        return
    value = parse_json(text.encode(), file)
    yield from value if isinstance(value, list) else (value,)


def yaml_value(text: str, file: str) -> Any:
    """Returns the value of a YAML text; what is infinite in it, such as a limit that is not set, is None.

    Raises:
        InputError: it is damaged.
    """
    return yamlfile.parse(ENDLESS.sub("null", text), file).data


def _json_or_none(line: str) -> Any:
    """Returns the object in a line; None for a line that is none, such as the last one of a file that is cut off."""
    try:
        value = json.loads(line) if line.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return value


def read_date(value: object) -> float | None:
    """Returns seconds since 1970 of a number or a date (20260914-080000, ISO 8601); None where it is none."""
    number = to_number(value)
    if number is not None and not isinstance(value, str):
        return number if 0 < number < MAX_SECONDS else None
    if not isinstance(value, str):
        return value.replace(tzinfo=value.tzinfo or UTC).timestamp() if isinstance(value, datetime) else None
    if found := DATE.match(value.strip()):
        value = "{}-{}-{}T{}:{}:{}".format(*found.groups())
    try:
        when = datetime.fromisoformat(value.strip())
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def walk(value: object, *names: str) -> Any:
    """Returns what lies under some names in nested objects; None where one of them is missing."""
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
