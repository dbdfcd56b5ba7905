"""Tables of Locust: its statistics, a row for each endpoint, and their history, a row for each second."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median

from skewscope.adapters.results.result import (
    LatencySummary,
    OfferedLoad,
    ServingResult,
    to_count,
    to_number,
)
from skewscope.adapters.results.result_format import ResultFormat

TOOL = "Locust"
HEADER = re.compile(r"^(?:Timestamp,User Count,)?Type,Name,(?:Request Count|Requests/s|# requests),", re.MULTILINE)
QUANTILE = re.compile(r"(\d+(?:\.\d+)?)%$")
ALL = "Aggregated"
PARTS_OF_LEVEL = 4
"""Parts of the time at one number of users, of which the first and the last are compared."""
MIN_ROWS = 5
"""Rows of a part that make a result of it."""


def _recognise(text: str) -> bool:
    return bool(HEADER.search(text))


def _read(text: str, file: str) -> list[ServingResult]:
    begin = HEADER.search(text)
    rows = list(csv.DictReader(text[begin.start() :].splitlines())) if begin else []
    if rows and "User Count" in rows[0]:
        return list(_read_history(rows, file))
    totals = [row for row in rows if row.get("Name") == ALL] or rows
    return [_read_statistics(row, file) for row in totals if to_count(row.get("Request Count"))]


def _quantiles(row: Mapping[str, str | None]) -> Iterator[tuple[float, float]]:
    for name, cell in row.items():
        found = QUANTILE.fullmatch(name or "")
        value = to_number(cell)
        if found and value is not None and float(found[1]) <= 100:
            yield float(found[1]) / 100, value / 1000


def _read_statistics(row: Mapping[str, str | None], file: str) -> ServingResult:
    total, failed = to_count(row.get("Request Count")) or 0, to_count(row.get("Failure Count"))
    mean = to_number(row.get("Average Response Time"))
    summary = LatencySummary(mean / 1000 if mean is not None else None, None, tuple(sorted(_quantiles(row))))
    return ServingResult(
        file,
        TOOL,
        latencies={"e2e": summary},
        completed=max(total - (failed or 0), 0),
        failed=failed,
        request_rate=to_number(row.get("Requests/s")),
        subject=str(row.get("Name") or ""),
    )


def _read_history(rows: Sequence[Mapping[str, str | None]], file: str) -> Iterator[ServingResult]:
    """Yields a result for the first and the last part of each time with one number of users, in their order."""
    own = [row for row in rows if row.get("Name") == ALL] or [row for row in rows if row.get("Timestamp")]
    used = [row for row in own if to_number(row.get("50%")) is not None]
    for users, same in groupby(used, key=lambda row: to_count(row.get("User Count"))):
        level = list(same)
        size = len(level) // PARTS_OF_LEVEL
        if not users or size < MIN_ROWS:
            continue
        for part in (level[:size], level[-size:]):
            yield _read_part(part, OfferedLoad(concurrency=float(users)), file)


def _read_part(rows: Sequence[Mapping[str, str | None]], load: OfferedLoad, file: str) -> ServingResult:
    by_share: dict[float, list[float]] = {}
    for row in rows:
        for share, value in _quantiles(row):
            by_share.setdefault(share, []).append(value)
    counts = [
        [to_count(row.get(f"Total {what} Count")) or 0 for row in (rows[0], rows[-1])]
        for what in ("Request", "Failure")
    ]
    requests, failed = (max(last - first, 0) for first, last in counts)
    rates = [rate for row in rows if (rate := to_number(row.get("Requests/s"))) is not None]
    summary = LatencySummary(quantiles=tuple((share, median(each)) for share, each in sorted(by_share.items())))
    return ServingResult(
        file,
        TOOL,
        load,
        {"e2e": summary},
        max(requests - failed, 0),
        failed,
        request_rate=median(rates) if rates else None,
        started=to_number(rows[0].get("Timestamp")),
        subject=ALL,
    )


FORMAT = ResultFormat(TOOL, _recognise, _read)
