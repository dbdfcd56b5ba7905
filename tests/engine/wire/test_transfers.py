"""How fast caches travel between prefill and decode, as the sending port tells it."""

import numpy as np
import pytest

from skewscope.engine.ingest.feed import SeriesTable
from skewscope.engine.wire.packets import Packets
from skewscope.engine.wire.reducer import PortReducer
from skewscope.engine.wire.view import GroupView, PortView
from tests.support.traffic import Told, packets, reduced

HOST, DECODE = 1, 2
GROUP = GroupView("G", "prefill-decode", 0, ("n0", "n1"), {HOST: 0, DECODE: 1})
VIEW = PortView("n0/ew", "n0", "east-west", frozenset([HOST]), {DECODE: "n1/ew"}, (GROUP,))


def cache(at: float, segments: int, speed: float, size: int = 60_000) -> Packets:
    """A cache sent from `at` on, segment after segment."""
    n = segments
    return packets(
        time=1000.0 + at + np.arange(n) * size / speed, src=np.full(n, HOST), dst=np.full(n, DECODE),
        seq=np.int64(at * 1e6) + np.arange(n) * size, length=np.full(n, size),
    )  # fmt: skip


def tokens(seconds: float) -> Packets:
    """Small messages in between, one for each step."""
    n = int(seconds / 0.02)
    return packets(
        time=1000.0 + np.arange(n) * 0.02, src=np.full(n, HOST), dst=np.full(n, DECODE), sport=np.full(n, 9),
        seq=np.arange(n) * 68, length=np.full(n, 68),
    )  # fmt: skip


@pytest.mark.parametrize("speed", [1e8, 6e6])
def test_the_speed_of_a_transfer_is_told_whatever_its_size_and_whatever_runs_between(speed: float) -> None:
    captured = Packets.concat([tokens(20), *(cache(1 + 0.9 * i, 10 + i, speed) for i in range(18))])
    table = SeriesTable()
    says = Told(table, reduced(PortReducer(VIEW), captured, table, 5))
    told = says.of("wire.transfer_speed", "n0/ew")[3:]
    assert np.median(told) == pytest.approx(speed, rel=0.15)
    assert 10 * 60_000 <= np.median(says.of("wire.transfer_bytes", "n0/ew")) <= 28 * 60_000


def test_messages_are_no_transfers() -> None:
    table = SeriesTable()
    says = Told(table, reduced(PortReducer(VIEW), tokens(10), table, 5))
    assert not len(says.of("wire.transfer_speed", "n0/ew"))
