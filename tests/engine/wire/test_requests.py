"""Requests and response streams as a front end's port tells them."""

import numpy as np
import pytest

from skewscope.engine.ingest.feed import SeriesTable
from skewscope.engine.wire.packets import ACK, FIN, SYN, Packets
from skewscope.engine.wire.reducer import PortReducer
from skewscope.engine.wire.view import PortView
from tests.support.traffic import Told, packets, reduced

SERVER, CLIENT = 1, 50
VIEW = PortView("n0/ns", "n0", "north-south", frozenset([SERVER]), {})


def conversation(
    start: float, port: int, wait: float, chunks: int, gap: float, *, opened: bool = True, closed: bool = True
):
    """(time, from client, port, bytes, flags) of one request and its streamed response."""
    if opened:
        yield start, True, port, 0, SYN
    yield start + 1e-3, True, port, 700, ACK
    yield start + 1.2e-3, True, port, 300, ACK
    answer = start + 1.2e-3 + wait
    for i in range(chunks):
        yield answer + i * gap, False, port, 90, ACK
    if closed:
        yield answer + chunks * gap, False, port, 0, ACK | FIN


def captured(rows) -> Packets:
    time, asked, port, length, flags = (np.array(c) for c in zip(*sorted(rows), strict=True))
    seq = np.zeros(len(time), np.int64)
    for key in set(zip(asked.tolist(), port.tolist(), strict=True)):
        mine = (asked == key[0]) & (port == key[1])
        seq[mine] = np.cumsum(length[mine]) - length[mine] + ((flags[mine] & SYN) == 0)
    return packets(
        time=1000.0 + time, src=np.where(asked, CLIENT, SERVER), dst=np.where(asked, SERVER, CLIENT),
        sport=np.where(asked, port, 8000), dport=np.where(asked, 8000, port), length=length, flags=flags, seq=seq,
    )  # fmt: skip


def told(rows, chunk: int = 5) -> Told:
    table = SeriesTable()
    return Told(table, reduced(PortReducer(VIEW), captured(rows), table, chunk))


@pytest.mark.parametrize("chunk", [1, 3, 20])
def test_requests_are_counted_timed_and_closed(chunk: int) -> None:
    rows = [r for i in range(20) for r in conversation(0.1 + i * 0.5, 40_000 + i, 0.08, 25, 0.03)]
    says = told(rows, chunk)
    assert says.of("wire.requests", "n0")[-1] == 20
    assert says.of("wire.responses", "n0")[-1] == 20
    assert says.of("wire.request_bytes", "n0")[-1] == 20_000
    assert says.of("wire.open_streams", "n0")[-1] == 0
    assert says.of("wire.first_byte_delay", "n0") == pytest.approx(0.08, abs=1e-6)
    assert np.median(says.of("wire.stream_gap", "n0")) == pytest.approx(0.03, abs=1e-6)
    assert np.median(says.of("wire.stream_chunks", "n0")) == 25
    assert np.median(says.of("wire.stream_duration", "n0")) == pytest.approx(24 * 0.03, abs=1e-3)


def test_requests_in_turn_on_one_connection_are_several() -> None:
    rows = [r for i in range(8) for r in conversation(i * 1.0, 40_000, 0.05, 10, 0.02, opened=i == 0, closed=False)]
    says = told(rows)
    assert says.of("wire.requests", "n0")[-1] == 8
    assert says.of("wire.responses", "n0")[-1] >= 7


def test_a_response_left_open_ends_when_it_falls_silent() -> None:
    rows = list(conversation(0.0, 40_000, 0.05, 10, 0.02, closed=False))
    rows += list(conversation(6.0, 40_001, 0.05, 400, 0.02))
    says = told(rows)
    streams = says.of("wire.open_streams", "n0")
    assert streams[0] == 1
    assert streams[4] == 0
    assert streams[-1] == 1 or says.of("wire.responses", "n0")[-1] == 2


def test_requests_that_wait_are_open_and_have_no_first_byte() -> None:
    rows = [r for i in range(30) for r in conversation(i * 0.1, 40_000 + i, 60.0, 2, 0.02)]
    says = told([r for r in rows if r[0] < 10])
    assert says.of("wire.open_streams", "n0").max() == 30
    assert not len(says.of("wire.first_byte_delay", "n0"))


def test_what_the_host_asks_of_others_is_no_request_to_it() -> None:
    rows = [(t, not asked, port, n, f) for t, asked, port, n, f in conversation(0.0, 40_000, 0.05, 10, 0.02)]
    p = captured(rows)
    swapped = Packets(**{**{f: getattr(p, f) for f in Packets.__slots__}, "sport": p.dport, "dport": p.sport})
    table = SeriesTable()
    says = Told(table, reduced(PortReducer(VIEW), swapped, table))
    assert not len(says.of("wire.requests", "n0")) or says.of("wire.requests", "n0").max() == 0
