"""Results of perftest (ib_write_bw, ib_write_lat, ...) and of the OSU benchmarks: bandwidth or latency by size."""

import re

from skewscope.adapters.results.readers.bandwidth_table import host_of_name, nodes_of_name
from skewscope.adapters.results.result import BUS_BANDWIDTH, BandwidthResult, Measure, to_number
from skewscope.adapters.results.result_format import ResultFormat

PERFTEST = re.compile(r"#bytes\s+#iterations\s+BW peak\[\S+\]\s+BW average\[(?P<unit>[GM]i?[Bb])/s(?:ec)?\]")
PERFTEST_TIME = re.compile(r"#bytes\s+#iterations\s+t_min\[(?P<unit>usec)\].*?\st_typical\[usec\]")
OSU = re.compile(r"#\s*Size\s+Bandwidth \((?P<unit>[GM]i?B)/s\)")
OSU_TIME = re.compile(r"#\s*Size\s+(?:Avg )?Latency\s?\((?P<unit>us)\)")
OSU_TITLE = re.compile(r"#\s*OSU (?:MPI|NCCL|OpenSHMEM)\S*\s+(?P<title>.*(?:Bandwidth|Latency) Test)")
TEST = re.compile(r"(?P<title>(?:RDMA_\w+|Send|Raw Ethernet|Atomic)\s.*(?:BW|Latency) Test)")
DEVICE = re.compile(r"\bDevice\s*:\s*(?P<device>\S+)")
SCALES = {"Gb": 0.125, "GB": 1.0, "Mb": 0.125e-3, "MB": 1e-3, "MiB": 1.048576e-3, "GiB": 1.073741824}
"""GB in each unit, microseconds in those of times."""
SCALES |= {"us": 1.0, "usec": 1.0}
ROW = re.compile(r"^\s*(?P<size>\d+)\s+(?P<rest>[\d.]+(?:\s+[\d.]+)*)\s*$")
MAX_LINE = 400
END = "#bytes #iterations BW peak[GB/sec] BW average[GB/sec]"
"""A header after the last table, which ends it."""
PLACES = {PERFTEST: 2, OSU: 0, PERFTEST_TIME: 3, OSU_TIME: 0}
"""Place of the average, or of the typical time, among the numbers after the size."""
TIME = Measure("latency", "us", is_time=True)


def _recognise(text: str) -> bool:
    return any(header.search(text) for header in PLACES)


def _read(text: str, file: str) -> list[BandwidthResult]:
    """Returns a result for each header of columns, with the title and the device before it."""
    results: list[BandwidthResult] = []
    title, device, of_table = "", "", ("", "")
    nodes = nodes_of_name(file) or host_of_name(file)
    scale, place, values, measure = 0.0, 0, dict[int, float](), BUS_BANDWIDTH
    for line in (*(each[:MAX_LINE] for each in text.splitlines()), END):
        if header := next((found for kind in PLACES if (found := kind.search(line))), None):
            if values:
                operation, where = _name_table(*of_table, nodes)
                results.append(BandwidthResult(file, "a bandwidth test", operation, where, 0, values, measure=measure))
            scale, place, values = SCALES.get(header["unit"], 0.0), PLACES[header.re], {}
            measure = TIME if header.re in (PERFTEST_TIME, OSU_TIME) else BUS_BANDWIDTH
            of_table = title, device
        elif scale and (row := ROW.match(line)) and len(numbers := row["rest"].split()) > place:
            values[int(row["size"])] = (to_number(numbers[place]) or 0.0) * scale
        elif found := OSU_TITLE.search(line) or TEST.search(line):
            title, device = found["title"].strip(), ""
        if found := DEVICE.search(line):
            device = found["device"]
    return results


def _name_table(title: str, device: str, nodes: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Returns the operation of a table, and whose it is: a device of one host, or a path between hosts."""
    if len(nodes) > 1 or not device:
        return " ".join(filter(None, (title, device))), nodes
    return title, ("/".join((*nodes, device)),)


FORMAT = ResultFormat("perftest, OSU benchmarks", _recognise, _read)
