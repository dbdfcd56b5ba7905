"""Programs that print one number on a line for each thing that they measure: of disks, hosts and network paths."""

import re
from dataclasses import dataclass

from skewscope.adapters.results.readers.bandwidth_table import host_of_name
from skewscope.adapters.results.result import FLOPS, BandwidthResult, Measure, to_number
from skewscope.adapters.results.result_format import ResultFormat

MAX_LINE = 1000
MAX_LINES = 200_000
BYTES, BITS = Measure("bandwidth", "GB/s"), Measure("bandwidth", "Gbit/s")
LATENCY = Measure("latency", "us", is_time=True)
PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
BINARY = {"k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}
UNIT = re.compile(r"(?P<prefix>[KMGTP]?)(?P<binary>i?)(?P<what>B|bit|b)", re.IGNORECASE)
TIMES = {"nsec": 1e-3, "usec": 1.0, "msec": 1e3, "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "sec": 1e6}
"""Microseconds in each unit."""


@dataclass(frozen=True, slots=True)
class MeasuredLine:
    """A line with a number: groups `value`, and `unit` and `operation` where it names them."""

    pattern: re.Pattern[str]
    measure: Measure
    unit: str = ""
    operation: str = ""
    """The operation where the line names none; of `+ latency` it is that of the line before."""


@dataclass(frozen=True, slots=True)
class MeasuringProgram:
    """What one program prints."""

    tool: str
    mark: re.Pattern[str]
    """What every output of it has."""
    lines: tuple[MeasuredLine, ...]
    job: re.Pattern[str] | None = None
    """A line that names, as `operation`, what the lines after it are of."""


NUMBER = r"(?P<value>\d[\d,.]*(?:e[-+]?\d+)?)"
HOST = re.compile(r"^\s*(?:Node|Host(?:name)?)\s*[:=]\s*(?P<host>[\w.-]+)", re.IGNORECASE)
PROGRAMS = (
    MeasuringProgram(
        "fio",
        re.compile(r"^fio-\d|^[ \t]+(?:read|write)[ \t]*: IOPS=", re.MULTILINE),
        (
            MeasuredLine(
                re.compile(rf"^\s+(?P<operation>read|write|trim)\s*: IOPS=\S+ BW={NUMBER}(?P<unit>\w+)/s"), BYTES
            ),
            MeasuredLine(
                re.compile(rf"^\s+clat \((?P<unit>\w+)\): .*\bavg= *{NUMBER}"), LATENCY, operation="+ latency"
            ),
        ),
        re.compile(r"^(?P<operation>[^\s:]+): \(groupid="),
    ),
    MeasuringProgram(
        "HPL",
        re.compile(r"^T/V\s+N\s+NB\s+P\s+Q\s+Time\s+Gflops", re.MULTILINE),
        (
            MeasuredLine(
                re.compile(rf"^(?P<operation>W[A-Z]\w+\s+\d+\s+\d+\s+\d+\s+\d+)\s+[\d.]+\s+{NUMBER}"), FLOPS, "Gflops"
            ),
        ),
    ),
    MeasuringProgram(
        "HPCG",
        re.compile(r"GFLOP/s rating of"),
        (MeasuredLine(re.compile(rf"GFLOP/s rating of\s*=\s*{NUMBER}"), FLOPS, "Gflops", "HPCG"),),
    ),
    MeasuringProgram(
        "STREAM",
        re.compile(r"^Function\s+Best Rate MB/s", re.MULTILINE),
        (MeasuredLine(re.compile(rf"^(?P<operation>Copy|Scale|Add|Triad):\s+{NUMBER}"), BYTES, "MB"),),
    ),
    MeasuringProgram(
        "IOR",
        re.compile(r"^IOR-\d|^Max (?:Write|Read):", re.MULTILINE),
        (MeasuredLine(re.compile(rf"^Max (?P<operation>Write|Read):\s+{NUMBER} (?P<unit>\w+)/sec"), BYTES),),
    ),
    MeasuringProgram(
        "dd",
        re.compile(r"^\d+ bytes .*copied, ", re.MULTILINE),
        (MeasuredLine(re.compile(rf"^\d+ bytes .*copied, .*, {NUMBER} (?P<unit>\w+)/s\s*$"), BYTES, operation="copy"),),
    ),
)


def _recognise(text: str) -> bool:
    return _find_program(text) is not None


def _find_program(text: str) -> MeasuringProgram | None:
    """Returns the program whose mark a text has, with at least one line of its numbers."""
    lines = text.splitlines()[:MAX_LINES]
    marked = (item for item in PROGRAMS if item.mark.search(text))
    return next((item for item in marked if any(_find(item, line[:MAX_LINE]) for line in lines)), None)


def _find(program: MeasuringProgram, line: str) -> tuple[MeasuredLine, re.Match[str]] | None:
    matched = ((item, item.pattern.search(line)) for item in program.lines)
    return next(((item, match) for item, match in matched if match), None)


def _read(text: str, file: str) -> list[BandwidthResult]:
    program = _find_program(text)
    if program is None:
        return []
    nodes, results = host_of_name(file), dict[tuple[str, Measure], float]()
    job = operation = ""
    for line in (each[:MAX_LINE] for each in text.splitlines()[:MAX_LINES]):
        if host := HOST.search(line):
            nodes = (host["host"],)
        elif program.job and (named := program.job.search(line)):
            job = named["operation"]
        elif matched := _find(program, line):
            operation = _name_operation(job, operation, *matched)
            if (value := _value(*matched)) is not None:
                results[operation, matched[0].measure] = value
    return [
        BandwidthResult(file, program.tool, operation, nodes, 0, {1: value}, measure=measure)
        for (operation, measure), value in results.items()
    ]


def _name_operation(job: str, before: str, line: MeasuredLine, match: re.Match[str]) -> str:
    if line.operation.startswith("+"):
        return f"{before.removesuffix(' latency')} latency".strip()
    own = match.groupdict().get("operation") or line.operation
    return " ".join(filter(None, (job, *own.split())))


def _value(line: MeasuredLine, match: re.Match[str]) -> float | None:
    """Returns a number in the unit of its measure; None where it is none, or of an unknown unit."""
    value, unit = to_number(match["value"].rstrip(".,")), match.groupdict().get("unit") or line.unit
    if value is None or not value:
        return None
    if line.measure is FLOPS:
        return value
    if line.measure.is_time:
        return value * TIMES[unit] if unit in TIMES else None
    matched = UNIT.match(unit)
    if matched is None:
        return None
    scale = (BINARY if matched["binary"] else PREFIXES).get(matched["prefix"].lower(), 1.0)
    is_bytes = matched["what"] == "B"
    return value * scale * 1e-9 * ((1 if is_bytes else 0.125) if line.measure is BYTES else (8 if is_bytes else 1))


FORMAT = ResultFormat("fio, HPL, HPCG, STREAM, IOR, dd", _recognise, _read)
