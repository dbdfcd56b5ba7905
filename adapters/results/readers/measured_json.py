"""Results of fio and iperf3 in JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

from skewscope.adapters.results.readers.bandwidth_table import host_of_name
from skewscope.adapters.results.readers.measured_lines import BITS, BYTES, LATENCY
from skewscope.adapters.results.result import BandwidthResult, to_number
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.summaries import json_values, walk

DIRECTIONS = ("read", "write", "trim")


def _recognise(text: str) -> bool:
    head = text.lstrip()[:1]
    return head == "{" and ('"fio version"' in text or ('"iperf ' in text and '"test_start"' in text))


def _read(text: str, file: str) -> list[BandwidthResult]:
    values = [value for value in json_values(text, file) if isinstance(value, Mapping)]
    return [result for value in values for result in (*_read_fio(value, file), *_read_iperf(value, file))]


def _read_fio(given: Mapping[str, Any], file: str) -> Iterator[BandwidthResult]:
    jobs = given.get("jobs")
    for job in jobs if isinstance(jobs, list) else []:
        host = walk(job, "hostname")
        nodes = (str(host),) if host else host_of_name(file)
        for direction in DIRECTIONS:
            name = f"{walk(job, 'jobname') or 'job'} {direction}"
            if speed := to_number(walk(job, direction, "bw_bytes")):
                yield BandwidthResult(file, "fio", name, nodes, 0, {1: speed * 1e-9}, measure=BYTES)
            if time := to_number(walk(job, direction, "clat_ns", "mean")):
                yield BandwidthResult(file, "fio", f"{name} latency", nodes, 0, {1: time * 1e-3}, measure=LATENCY)


def _read_iperf(given: Mapping[str, Any], file: str) -> Iterator[BandwidthResult]:
    ends = (walk(given, "end", part, "bits_per_second") for part in ("sum_received", "sum", "sum_sent"))
    speed = next((value for end in ends if (value := to_number(end))), None)
    host = walk(given, "start", "connecting_to", "host")
    if speed:
        nodes = (str(host),) if host else host_of_name(file)
        started = to_number(walk(given, "start", "timestamp", "timesecs"))
        yield BandwidthResult(file, "iperf", "iperf", nodes, 0, {1: speed * 1e-9}, started=started, measure=BITS)


FORMAT = ResultFormat("fio, iperf3", _recognise, _read)
