"""Rings of slots: many empty slots that open together leave what slots that open one by one leave."""

import numpy as np
import pytest

from skewscope.engine.ingest.slots import SlotRing

LAYERS = ("sum", "count", "low", "last", "time")


def fill(ring: SlotRing, times: np.ndarray, values: np.ndarray, *, one_by_one: bool) -> None:
    """Puts a sample of every column into the slot of each time; on the way, ticks of a second may come."""
    now = times[0]
    for t, row in zip(times, values, strict=True):
        for between in np.arange(now, t) if one_by_one else ():
            ring.advance(between)
        ring.advance(t)
        now = t
        for name in ring.layers:
            slot = ring.current_row(name)
            slot[:] = slot + row if name in {"sum", "count"} else row
    ring.initialise_slot()


@pytest.mark.parametrize("seed", range(12))
def test_empty_slots_that_open_together_are_those_that_open_one_by_one(seed):
    rng = np.random.default_rng(seed)
    depth, size = int(rng.integers(4, 70)), int(rng.integers(1, 90))
    times = 1000.0 + np.cumsum(rng.choice([1, 2, 15, 40, depth], 50))
    values = rng.normal(size=(50, size))
    together, single = (SlotRing(1.0, float(1 + seed % 2), LAYERS, depth=depth) for _ in range(2))
    for ring, one_by_one in ((together, False), (single, True)):
        ring.grow(size)
        fill(ring, times, values, one_by_one=one_by_one)
    assert together.current == single.current
    for name in LAYERS:
        assert together.layers[name].tobytes() == single.layers[name].tobytes(), name
