"""Results of nccl-tests and rccl-tests: the tables that they print, and their JSON; several of them in a file."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from skewscope.adapters.formats.log_lines import file_stem
from skewscope.adapters.results.result import BandwidthResult, to_count, to_number
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.result_order import FIRST, LAST
from skewscope.adapters.results.summaries import json_values, read_date, walk

BEGIN = re.compile(r"# (?:nccl-tests version|Collective test starting|nThread \d+ nGpus)|rccl-tests: Version")
DEVICE = re.compile(
    r"Rank +(?P<rank>\d+)(?: +Group +\d+)? +Pid +\d+ on +(?P<node>\S+) +device +\d+ *(?:\[\S*\] *(?P<model>.*))?"
)
OPERATION = re.compile(
    r"\b(?P<operation>(?:all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|gather|hypercube|reduce|scatter|sendrecv))_perf"
)
HEADER = re.compile(r"\bsize\s+count\s+.*\bbusbw\b")
ROW = re.compile(
    r"(?:^|\s)(?P<size>\d+)\s+(?P<count>\d+)\s+(?P<type>(?:u?int|b?float|fp|f|u|i)\d*\w*|half|double|char)\s+(?P<rest>\S.*)$"
)
WRONG = re.compile(r"Out of bounds values\s*:\s*(?P<count>\d+)\s*(?P<verdict>OK|FAILED)?")
AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(?P<value>[\d.]+)\s*(?P<verdict>FAILED)?")
GROUP = ("time", "algbw", "busbw", "#wrong")
"""Columns of one way of running, where no header names them: the last ones of a row."""
MAX_ROWS = 100_000
MAX_LINE, HEAD_LINES = 1000, 1000
SIDES = FIRST | LAST
DATE = re.compile(r"(?<!\d)20\d\d([-_]?)[01]\d\1[0-3]\d(?:[-_T]?\d{2}[-_:]?\d\d(?:[-_:]?\d\d)?Z?)?(?!\d)")
RUN_WORD = re.compile(r"(?:run|try|trial|iter|rep|pass|attempt|v)-?\d+", re.IGNORECASE)
JOINTS = re.compile(r"__|--|-to-|_to_|-vs-|_vs_|[-_+,]")
TOOL_WORDS = re.compile(
    r"^(?:(?:nccl|rccl|tests?|perf|ib|osu|bw|results?|logs?|out|all|reduce|gather|scatter|sendrecv|alltoall|allreduce"
    r"|hpl|hpcg|linpack|fio|iperf3?|stream|ior|dd|nvbandwidth|lat|latency|write|read|send|bench|benchmark|to|from|on)[-_.])+"
)
"""Words of programs before the names of nodes."""


def _recognise(text: str) -> bool:
    if text.lstrip().startswith("{"):
        return '"bus_bw"' in text or '"average_bus_bandwidth"' in text
    lines = [line[:MAX_LINE] for line in text.splitlines()[:HEAD_LINES]]
    is_table = any(HEADER.search(line) or AVERAGE.search(line) for line in lines)
    return is_table or sum(1 for line in lines if _find_row(line)) > 1


def _find_row(line: str) -> re.Match[str] | None:
    """Returns the cells of a row of numbers; None for another line."""
    found = ROW.search(line)
    return found if found and len(found["rest"].split()) >= len(GROUP) else None


@dataclass
class _Table:
    """What is read of one table."""

    nodes: dict[int, str] = field(default_factory=dict)
    models: set[str] = field(default_factory=set)
    operation: str = ""
    columns: list[str] = field(default_factory=list)
    bandwidths: dict[int, list[float]] = field(default_factory=dict)
    wrong: int = 0
    verdict: str = ""
    is_over: bool = False

    def add_row(self, found: re.Match[str]) -> None:
        """Adds a row of numbers: the bus bandwidth by the header's names, else by the order of the last columns."""
        cells = found["rest"].split()
        names = self.columns[3:] if len(self.columns) == len(cells) + 3 else None
        names = names or ["" for _ in cells[: len(cells) % len(GROUP)]] + [*GROUP] * (len(cells) // len(GROUP))
        found_values = [to_number(cell) for name, cell in zip(names, cells, strict=False) if name == "busbw"]
        values = [value for value in found_values if value is not None and value > 0]
        if values:
            self.bandwidths.setdefault(int(found["size"]), []).extend(values)
        wrong = (to_number(cell) for name, cell in zip(names, cells, strict=False) if name == "#wrong")
        self.wrong += sum(round(each) for each in wrong if each)

    def result(self, file: str) -> BandwidthResult:
        """Returns the result of the table."""
        nodes = tuple(sorted(set(self.nodes.values()))) or nodes_of_name(file)
        means = {size: sum(each) / len(each) for size, each in sorted(self.bandwidths.items())}
        return BandwidthResult(
            file,
            "nccl-tests",
            self.operation,
            nodes,
            len(self.nodes),
            means,
            self.wrong,
            self.verdict,
            model=next(iter(self.models)) if len(self.models) == 1 else "",
        )


def nodes_of_name(file: str) -> tuple[str, ...]:
    """Returns the nodes that the name of a file joins, such as node-a_node-b.log; () where it joins none.

    The two are alike: their letters are the same where they have digits, or but for a last letter.
    """
    stem = TOOL_WORDS.sub("", file_stem(PurePath(file).name))
    for joint in JOINTS.finditer(stem):
        first, second = stem[: joint.start()], stem[joint.end() :]
        if first != second and _shape(first) == _shape(second):
            return tuple(sorted((first, second)))
    return ()


def host_of_name(file: str) -> tuple[str, ...]:
    """Returns the host that the name of a file says, such as fio-node-07.txt; () where it says none.

    A name of a host has letters and digits; dates, runs and the words before and after are none.
    """
    words = re.split(r"[-_.]+", TOOL_WORDS.sub("", DATE.sub("", file_stem(PurePath(file).name))))
    name = "-".join(word for word in words if word and word.lower() not in SIDES)
    is_name = re.search(r"[a-z]", name, re.IGNORECASE) and re.search(r"\d", name)
    return (name,) if is_name and not RUN_WORD.fullmatch(name) else ()


def _shape(name: str) -> str:
    """Returns what names of nodes of one kind have in common; different for each name that is none."""
    if re.search(r"\d", name) and re.search(r"[a-z]", name, re.IGNORECASE):
        return re.sub(r"\d+", "0", name)
    return re.sub(r"(?<=[-_.])[a-z]$", "a", name) if re.search(r"[a-z][-_.][a-z]$", name) else f"?{name}"


def _read(text: str, file: str) -> list[BandwidthResult]:
    if text.lstrip().startswith("{"):
        return [_read_json(value, file) for value in json_values(text, file) if walk(value, "results")]
    tables: list[_Table] = []
    table, rows = _Table(), 0
    for line in (each[:MAX_LINE] for each in text.splitlines()):
        is_begin = BEGIN.search(line) or ((device := DEVICE.search(line)) and int(device["rank"]) in table.nodes)
        if is_begin and (table.bandwidths or table.is_over):
            tables.append(table)
            table = _Table(operation=table.operation)
        rows += _read_line(line, table)
        if rows > MAX_ROWS:
            break
    return [each.result(file) for each in (*tables, table) if each.bandwidths or each.is_over]


def _read_line(line: str, table: _Table) -> int:
    """Reads a line into a table; returns 1 for a row of numbers."""
    if found := DEVICE.search(line):
        table.nodes[int(found["rank"])] = found["node"]
        table.models.add((found["model"] or "").strip())
    elif HEADER.search(line):
        table.columns = line[line.index("size") :].split()
    elif found := WRONG.search(line):
        table.wrong = max(table.wrong, int(found["count"]))
        table.is_over = True
    elif found := AVERAGE.search(line):
        table.verdict = "the average is below the one that it expects" if found["verdict"] else table.verdict
        table.is_over = True
    elif found := ROW.search(line):
        table.add_row(found)
        return 1
    if found := OPERATION.search(line):
        table.operation = found["operation"]
    return 0


def _read_json(given: Mapping[str, Any], file: str) -> BandwidthResult:
    devices = walk(given, "config", "devices") or given.get("devices") or []
    hosts = [str(walk(each, "hostname")) for each in devices if walk(each, "hostname")]
    models = {str(walk(each, "device_info") or "").strip() for each in devices}
    bandwidths: dict[int, float] = {}
    for row in given["results"] if isinstance(given["results"], list) else []:
        size = to_count(walk(row, "size"))
        values = [to_number(walk(row, part, "bus_bw")) for part in ("out_of_place", "in_place")]
        known = [value for value in values if value]
        if size is not None and known:
            bandwidths[size] = sum(known) / len(known)
    command = json.dumps(given.get("args") or "")
    operation = OPERATION.search(command)
    return BandwidthResult(
        file,
        "nccl-tests",
        operation["operation"] if operation else "",
        tuple(sorted(set(hosts))) or nodes_of_name(file),
        len(hosts),
        bandwidths,
        to_count(walk(given, "out_of_bounds", "count")) or 0,
        "the average is below the one that it expects"
        if walk(given, "average_bus_bandwidth", "okay") == "false"
        else "",
        read_date(given.get("start_time")),
        models.pop() if len(models) == 1 else "",
    )


FORMAT = ResultFormat("nccl-tests, rccl-tests", _recognise, _read)
