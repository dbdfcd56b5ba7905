"""Counters of work on a target's own metrics page."""

import re

from skewscope.adapters.formats.openmetrics_grammar import REST, SERIES, parse_number, parse_series
from skewscope.adapters.targets.common.answers import parse_count
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.transports import show

MAX_LINES = 1_000_000


def sum_by_label(page: bytes, names: tuple[str, ...], label: str) -> dict[str, float]:
    """Returns the values of a page's series of some names, added up by the value of one label.

    Series without the label are left out. Lines of other metrics are not looked into.

    Raises:
        TargetError: a line of these metrics cannot be read.
    """
    found: dict[str, float] = {}
    wanted = tuple(name.encode() for name in names)
    for line in page.split(b"\n", MAX_LINES)[:MAX_LINES]:
        if not line.startswith(wanted):
            continue
        try:
            name, labels, value = _parse_line(line)
        except ValueError as error:
            raise TargetError(f"a line of metrics that cannot be read: {error}: {show(line)}") from None
        key = dict(labels).get(label)
        if name in names and key is not None:
            found[key] = found.get(key, 0.0) + parse_count(value, name)
    return found


def _parse_line(line: bytes) -> tuple[str, tuple[tuple[str, str], ...], float]:
    head = SERIES.match(line)
    rest: re.Match[bytes] | None = REST.fullmatch(line, head.end()) if head is not None else None
    if head is None or rest is None:
        raise ValueError("no sample")
    return *parse_series(head), parse_number(rest["value"])
