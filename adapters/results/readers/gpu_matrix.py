"""Results of nvbandwidth and of CUDA's peer-to-peer test: matrices with a row and a column of each GPU of a host."""

import re
from collections.abc import Iterator
from statistics import fmean

from skewscope.adapters.formats.log_lines import file_stem
from skewscope.adapters.results.readers.bandwidth_table import host_of_name
from skewscope.adapters.results.result import BandwidthResult, Measure, to_number
from skewscope.adapters.results.result_format import ResultFormat

MARK = re.compile(
    r"^nvbandwidth Version|^Running \w+_(?:ce|sm)\.|^(?:Uni|Bi)directional P2P=\w+ .*Bandwidth", re.MULTILINE
)
TITLE = re.compile(r"^(?:Running (?P<test>\w+)\.|(?P<peer>(?:Uni|Bi)directional P2P=\w+) .*Bandwidth)")
HEADER = re.compile(r"^\s+(?:D\\D\s+)?\d+(?:\s+\d+)*\s*$")
ROW = re.compile(r"^\s*(?P<gpu>\d+)\s+(?P<cells>(?:[\d.]+|N/A)(?:\s+(?:[\d.]+|N/A))*)\s*$")
MAX_LINE, MAX_GPUS = 4000, 1024
BANDWIDTH = Measure("bandwidth", "GB/s")


def _recognise(text: str) -> bool:
    return bool(MARK.search(text))


def _read(text: str, file: str) -> list[BandwidthResult]:
    """Returns the bandwidth of each GPU in each matrix: the mean of what it sends to the others and gets from them."""
    host = next(iter(host_of_name(file)), file_stem(file.rpartition("/")[2]))
    results: list[BandwidthResult] = []
    title, columns, rows = "", 0, dict[int, list[float | None]]()
    for line in (*(each[:MAX_LINE] for each in text.splitlines()), "Running end."):
        if named := TITLE.search(line):
            results += _list_gpus(title, rows, host, file)
            title, columns, rows = named["test"] or named["peer"], 0, {}
        elif HEADER.match(line) and not columns:
            columns = sum(cell.isdigit() for cell in line.split())
        elif (row := ROW.match(line)) and len(cells := row["cells"].split()) == columns <= MAX_GPUS:
            rows[int(row["gpu"])] = [to_number(cell) for cell in cells]
    return results


def _list_gpus(title: str, rows: dict[int, list[float | None]], host: str, file: str) -> Iterator[BandwidthResult]:
    speeds: dict[int, list[float]] = {}
    for source, cells in rows.items():
        for target, speed in enumerate(cells):
            # A GPU and itself exchange nothing over a link.
            if speed and (len(rows) == 1 or source != target):
                for gpu in {target} if len(rows) == 1 else {source, target}:
                    speeds.setdefault(gpu, []).append(speed)
    for gpu, some in sorted(speeds.items()):
        yield BandwidthResult(file, "nvbandwidth", title, (f"{host}/gpu{gpu}",), 1, {1: fmean(some)}, measure=BANDWIDTH)


FORMAT = ResultFormat("nvbandwidth, p2pBandwidthLatencyTest", _recognise, _read)
