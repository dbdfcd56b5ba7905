"""Results of guidellm in CSV: a row for each load, with the mean and the median of each measure in columns."""

import csv
import re
from collections.abc import Mapping

from skewscope.adapters.results.result import OfferedLoad, ServingResult, to_count, to_number, to_rate
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.summaries import make_latency, read_date, seconds_in

MEASURES = {
    "time to first token": "ttft",
    "time per output token": "tpot",
    "inter token latency": "itl",
    "request latency": "e2e",
}
UNIT = re.compile(r"\((?P<unit>\w+)\)")
SECONDS = 1.0
"""The unit of latencies whose column names none."""
RATE = re.compile(r"@(?P<rate>[\d.]+)")
STATUSES = ("incomplete", "errored", "total")
"""Columns of requests that count for less than those that ended well."""


def _recognise(text: str) -> bool:
    line = text.lstrip("\ufeff").partition("\n")[0].lower()
    return "," in line and "time to first token" in line and "mean" in line and "inter token latency" in line


def _read(text: str, file: str) -> list[ServingResult]:
    rows = csv.DictReader(text.lstrip("\ufeff").splitlines())
    return [_read_row({str(name).lower(): cell for name, cell in row.items()}, file) for row in rows]


def _read_row(row: Mapping[str, object], file: str) -> ServingResult:
    latencies: dict[str, dict[str, float]] = {}
    for name, cell in row.items():
        measure = next((short for words, short in MEASURES.items() if words in name), "")
        statistic = next((word for word in ("mean", "median", "std") if name.rstrip().endswith(word)), "")
        value = to_number(cell)
        if measure and statistic and value is not None and not any(word in name for word in STATUSES):
            unit = UNIT.search(name)
            latencies.setdefault(measure, {})[statistic] = value * (
                (seconds_in(unit["unit"]) if unit else SECONDS) or 1.0
            )
    load = _find(row, "name") or _find(row, "strategy") or _find(row, "type")
    rate = RATE.search(load)
    is_at_once = load.startswith("throughput")
    return ServingResult(
        file,
        "guidellm",
        OfferedLoad(
            to_rate(rate["rate"]) if rate else None, 1.0 if load.startswith("synchronous") else None, is_at_once
        ),
        {name: summary for name, each in latencies.items() if (summary := make_latency(each))},
        to_count(_find(row, "successful")),
        to_count(_find(row, "errored")),
        to_number(_find(row, "duration")),
        to_number(_find(row, "server throughput mean") or _find(row, "requests per second mean")),
        to_number(_find(row, "output tokens per second mean")),
        started=read_date(to_number(_find(row, "start time"))),
    )


def _find(row: Mapping[str, object], name: str) -> str:
    """Returns the cell of the column of a name, else of the shortest one that ends with it; '' for none."""
    names = sorted((each for each in row if each == name or each.endswith(f" {name}")), key=len)
    return str(row[names[0]] or "") if names else ""


FORMAT = ResultFormat("guidellm", _recognise, _read)
