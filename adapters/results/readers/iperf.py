"""Results of iperf: what arrived of each connection, what was sent again, and the speed of each interval."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from skewscope.adapters.results.lasting_fall import find_fall
from skewscope.adapters.results.readers.bandwidth_table import host_of_name
from skewscope.adapters.results.readers.measured_lines import BINARY, BITS, MAX_LINE, MAX_LINES, PREFIXES
from skewscope.adapters.results.result import BandwidthResult
from skewscope.adapters.results.result_format import ResultFormat

MARK = re.compile(
    r"^(?:Connecting to host|Client connecting to|Server listening on) |^\[ ?ID\] +Interval ", re.MULTILINE
)
HOST = re.compile(r"^(?:Connecting to host|Client connecting to) (?P<host>[\w.:-]+),")
ROW = re.compile(
    r"^\[(?P<stream>SUM| *\d+)\] +(?P<begin>[\d.]+)-(?P<end>\s*[\d.]+) +sec"
    r" +(?P<amount>[\d.]+) (?P<amount_prefix>[KMGT]?)Bytes"
    r" +(?P<speed>[\d.]+) (?P<prefix>[KMGT]?)(?P<what>bits|Bytes)/sec"
    r"(?: +(?P<again>\d+)(?= |$))?(?P<rest>.*)$"
)
SEGMENT_BYTES = 1448
"""Data of a segment in an Ethernet frame of the usual size: larger frames have more, so that fewer were sent."""
SUM = "SUM"
"""What iperf calls all its parallel streams."""


class IperfRow(NamedTuple):
    """One line of the table."""

    stream: str
    begin: float
    """Seconds since the begin of the test, as..."""
    end: float
    """...this one."""
    speed: float
    """Gbit/s"""
    sent: float
    """Segments, at the least."""
    again: int | None
    """Segments that were sent again; None where the line does not say it."""
    side: str
    """`sender`, `receiver`, or '' of an interval."""


def _recognise(text: str) -> bool:
    return bool(MARK.search(text)) and any(True for _ in _rows(text))


def _read(text: str, file: str) -> list[BandwidthResult]:
    rows = list(_rows(text))
    # Of parallel streams the sum alone.
    sums = [row for row in rows if row.stream == SUM]
    streams: dict[str, list[IperfRow]] = {}
    for row in sums or rows:
        streams.setdefault(row.stream, []).append(row)
    host = next((match["host"] for line in text.splitlines()[:MAX_LINES] if (match := HOST.match(line))), "")
    nodes = (host,) if host else host_of_name(file)
    return [_result(stream, nodes, file) for stream in streams.values()]


def _rows(text: str) -> Iterator[IperfRow]:
    for line in text.splitlines()[:MAX_LINES]:
        if match := ROW.match(line[:MAX_LINE]):
            speed = float(match["speed"]) * PREFIXES[match["prefix"].lower()] * 1e-9
            amount = float(match["amount"]) * BINARY.get(match["amount_prefix"].lower(), 1.0)
            side = next((side for side in ("sender", "receiver") if side in match["rest"]), "")
            yield IperfRow(
                match["stream"].strip(),
                float(match["begin"]),
                float(match["end"]),
                speed * (8 if match["what"] == "Bytes" else 1),
                amount / SEGMENT_BYTES,
                int(match["again"]) if match["again"] else None,
                side,
            )


def _result(rows: Sequence[IperfRow], nodes: tuple[str, ...], file: str) -> BandwidthResult:
    """Returns the result of one stream: what the receiver had, else the sender, else the intervals on average."""
    # A line of the whole test at the end of intervals is none of them.
    intervals = [row for row in rows if not row.side and not (row.begin == 0 and row.end > rows[0].end)]
    whole = [row for row in rows if row not in intervals] or intervals
    received = next((row for side in ("receiver", "", "sender") for row in whole if row.side == side), whole[-1])
    speed = received.speed if whole is not intervals else sum(row.speed for row in rows) / len(rows)
    rates = tuple(row.speed for row in intervals)
    fall = find_fall(rates)
    # What a fall had of loss is not thinned by what was well before it.
    parts = [whole, intervals[fall.place :] if fall else []]
    resent = max(_share_resent(part) for part in parts)
    period = intervals[0].end - intervals[0].begin if intervals else 0.0
    return BandwidthResult(
        file,
        "iperf",
        "iperf",
        nodes,
        0,
        {1: speed},
        measure=BITS,
        resent=resent,
        rates=rates,
        period=period,
    )


def _share_resent(rows: Sequence[IperfRow]) -> float:
    """Returns the share of segments that were sent again, at the least; 0 where none says it."""
    told = [row for row in rows if row.again is not None and row.side != "receiver"]
    sent = sum(row.sent for row in told)
    return sum(row.again or 0 for row in told) / sent if sent else 0.0


FORMAT = ResultFormat("iperf, iperf3", _recognise, _read)
