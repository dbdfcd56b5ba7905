"""Results of perftest (ib_write_bw and others) and of the OSU benchmarks: the bandwidth between two hosts by size."""

import re

from skewscope.adapters.results.readers.bandwidth_table import nodes_of_name
from skewscope.adapters.results.result import BandwidthResult, to_number
from skewscope.adapters.results.result_format import ResultFormat

PERFTEST = re.compile(r"#bytes\s+#iterations\s+BW peak\[\S+\]\s+BW average\[(?P<unit>[GM]i?[Bb])/s(?:ec)?\]")
OSU = re.compile(r"#\s*Size\s+Bandwidth \((?P<unit>[GM]i?B)/s\)")
OSU_TITLE = re.compile(r"#\s*OSU MPI\S*\s+(?P<title>.*Bandwidth Test)")
TEST = re.compile(r"(?P<title>(?:RDMA_\w+|Send|Raw Ethernet|Atomic)\s.*BW Test)")
DEVICE = re.compile(r"\bDevice\s*:\s*(?P<device>\S+)")
GBYTES = {"Gb": 0.125, "GB": 1.0, "Mb": 0.125e-3, "MB": 1e-3, "MiB": 1.048576e-3, "GiB": 1.073741824}
"""GB in each unit."""
ROW = re.compile(r"^\s*(?P<size>\d+)\s+(?P<rest>[\d.]+(?:\s+[\d.]+)*)\s*$")
MAX_LINE = 400
END = "#bytes #iterations BW peak[GB/sec] BW average[GB/sec]"
"""A header after the last table, which ends it."""
AVERAGE = {PERFTEST: 2, OSU: 0}
"""Place of the average among the numbers after the size."""


def _recognise(text: str) -> bool:
    return bool(PERFTEST.search(text) or OSU.search(text))


def _read(text: str, file: str) -> list[BandwidthResult]:
    """Returns a result for each header of columns, with the title and the device before it."""
    results: list[BandwidthResult] = []
    title, device = "", ""
    scale, place, bandwidths = 0.0, 0, dict[int, float]()
    for line in (
        *(each[:MAX_LINE] for each in text.splitlines()),
        "#bytes #iterations BW peak[GB/sec] BW average[GB/sec]",
    ):
        if header := next((found for kind in AVERAGE if (found := kind.search(line))), None):
            if bandwidths:
                operation = " ".join(filter(None, (title, device)))
                results.append(BandwidthResult(file, "a bandwidth test", operation, nodes_of_name(file), 0, bandwidths))
            scale, place, bandwidths = GBYTES.get(header["unit"], 0.0), AVERAGE[header.re], {}
        elif scale and (row := ROW.match(line)) and len(values := row["rest"].split()) > place:
            bandwidths[int(row["size"])] = (to_number(values[place]) or 0.0) * scale
        elif found := OSU_TITLE.search(line) or TEST.search(line):
            title = found["title"].strip()
        if found := DEVICE.search(line):
            device = found["device"]
    return results


FORMAT = ResultFormat("perftest, OSU benchmarks", _recognise, _read)
