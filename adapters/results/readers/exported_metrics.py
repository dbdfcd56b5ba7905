"""Results of aiperf and GenAI-Perf: JSON with a unit for each metric, CSV in two parts, and the printed table."""

import csv
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from skewscope.adapters.results.result import (
    LatencySummary,
    OfferedLoad,
    ServingResult,
    to_count,
    to_number,
    to_rate,
)
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.summaries import json_values, make_latency, read_date, read_latency, seconds_in, walk

TOOL = "aiperf, GenAI-Perf"
LATENCIES = {
    "time_to_first_token": "ttft",
    "inter_token_latency": "itl",
    "time_per_output_token": "tpot",
    "request_latency": "e2e",
    "ttft": "ttft",
    "tpot": "tpot",
    "itl": "itl",
    "e2el": "e2e",
}
MARK = re.compile(
    r'"(?:time_to_first_token|inter_token_latency|request_latency|request_throughput|request_count)"\s*:\s*'
    r'\{\s*"(?:unit|avg)"'
)
TITLES = ("metric", "statistic", "performance parameters", "parameter")
"""Names of the column that says what a row is of."""
HEADER = re.compile(
    rf"^[^\w\n]{{0,200}}(?:{'|'.join(TITLES)})[ \t]*[,|│┃](?:[ \t]*stage[ \t]*[,|│┃])?"
    r"[ \t]*(?:avg|average|min|max|p\d\d)\b",
    re.MULTILINE | re.IGNORECASE,
)
QUANTITY = re.compile(r"(?P<number>[\d,]+(?:\.\d+)?) (?P<unit>s|ms|us)")
"""A cell that names its unit."""
BARS = re.compile(r"[|│┃]")
UNIT = re.compile(r"\s*\(([^)]*)\)\s*$")


def _recognise(text: str) -> bool:
    return bool(MARK.search(text)) if text.lstrip().startswith("{") else bool(HEADER.search(text))


def _read(text: str, file: str) -> list[ServingResult]:
    if not text.lstrip().startswith("{"):
        return list(_read_tables(text, file))
    return [_read_object(value, file) for value in json_values(text, file) if isinstance(value, Mapping)]


def _read_object(given: Mapping[str, Any], file: str) -> ServingResult:
    def summary(metric: str) -> LatencySummary | None:
        unit = seconds_in(walk(given, metric, "unit"))
        return read_latency(given.get(metric), unit) if unit else None

    def average(metric: str) -> float | None:
        return to_number(walk(given, metric, "avg"))

    errors = given.get("error_summary")
    counted = [to_count(walk(each, "count")) or 0 for each in errors] if isinstance(errors, list) else None
    failed = to_count(average("error_request_count"))
    return ServingResult(
        file,
        TOOL,
        _load(given.get("input_config")),
        {name: found for metric, name in LATENCIES.items() if (found := summary(metric))},
        to_count(average("request_count")),
        failed if failed is not None else (sum(counted) if counted is not None else None),
        average("benchmark_duration"),
        average("request_throughput"),
        average("output_token_throughput"),
        average("input_sequence_length"),
        average("output_sequence_length"),
        read_date(given.get("start_time")),
    )


def _load(config: object) -> OfferedLoad:
    """Returns the load of the settings of a run, which newer and older versions keep at different places."""
    places = (("loadgen",), ("perf_analyzer", "stimulus"), ("stimulus",), ())
    parts = [found for names in places if isinstance(found := walk(config, *names), Mapping)]
    rate = next((found for part in parts if (found := to_rate(part.get("request_rate")))), None)
    concurrency = next((found for part in parts if (found := to_rate(part.get("concurrency")))), None)
    return OfferedLoad(rate, None if rate else concurrency)


def _read_tables(text: str, file: str) -> Iterator[ServingResult]:
    """Yields a result for each table of statistics, with the single values that follow it."""
    columns: list[str] = []
    rows: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        cells = _cells(line)
        if cells[0].lower() in TITLES:
            if {"avg", "average"} & {cell.lower() for cell in cells} and rows:
                yield _table_result(rows, file)
                rows = {}
            columns = [cell.lower() for cell in cells[1:]]
        elif columns and len(cells) > 1:
            rows.setdefault(cells[0].lower(), dict(zip(columns, cells[1:], strict=False)))
    if rows:
        yield _table_result(rows, file)


def _cells(line: str) -> list[str]:
    """Returns the cells of a line: between bars, else between commas."""
    if BARS.search(line):
        return [cell.strip() for cell in BARS.split(line.strip().strip("|│┃"))]
    return [cell.strip() for cell in next(csv.reader([line]), [])] or [""]


def _table_result(rows: Mapping[str, Mapping[str, str]], file: str) -> ServingResult:
    latencies: dict[str, LatencySummary] = {}
    values: dict[str, float] = {}
    for title, cells in rows.items():
        unit = UNIT.search(title)
        metric = UNIT.sub("", title).replace(" ", "_")
        timed = {name: match for name, cell in cells.items() if (match := QUANTITY.fullmatch(cell))}
        numbers = {name: number for name, cell in cells.items() if (number := to_number(cell)) is not None}
        numbers |= {name: float(match["number"].replace(",", "")) for name, match in timed.items()}
        units = {unit[1]} if unit else {match["unit"] for match in timed.values()}
        scale = seconds_in(units.pop()) if len(units) == 1 else None
        if metric in LATENCIES and scale:
            scaled = make_latency({name: number * scale for name, number in numbers.items()})
            latencies |= {LATENCIES[metric]: scaled} if scaled else {}
        elif numbers:
            values.setdefault(
                metric, next(chain((numbers[n] for n in ("avg", "value") if n in numbers), numbers.values()))
            )
    return ServingResult(
        file,
        TOOL,
        OfferedLoad(),
        latencies,
        to_count(values.get("request_count")),
        to_count(values.get("error_request_count")),
        values.get("benchmark_duration"),
        values.get("request_throughput"),
        values.get("output_token_throughput"),
        values.get("input_sequence_length"),
        values.get("output_sequence_length"),
    )


FORMAT = ResultFormat(TOOL, _recognise, _read)
