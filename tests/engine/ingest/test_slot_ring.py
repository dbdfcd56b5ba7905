"""Rings of slots: many empty slots that open together leave what slots that open one by one leave, and counts of one
byte are as good as wide ones.
"""

import numpy as np
import pytest

from skewscope.engine.ingest.slots import NARROW_COUNTS, WIDE_COUNTS, SlotRing

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
            slot[:] = slot + row if name == "sum" else slot + 1 if name == "count" else row
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


@pytest.fixture
def narrow_rings(monkeypatch):
    """Has rings of any width count in one byte."""
    monkeypatch.setattr("skewscope.engine.ingest.slots.MIN_NARROW_COLUMNS", 0)


def count_samples(ring: SlotRing, t: float, columns: np.ndarray, times: int) -> None:
    """Counts so many samples of some columns in the slot of a time."""
    ring.advance(t)
    for _ in range(times):
        ring.expect_samples()
        ring.current_row("count")[columns] += 1


@pytest.mark.usefixtures("narrow_rings")
@pytest.mark.parametrize("most", [1, 3, 9, 40])
@pytest.mark.parametrize("slot", [1.0, 4.0])
def test_counts_of_one_byte_give_the_windows_of_wide_ones(most, slot):
    rng = np.random.default_rng(most)
    narrow, wide = (SlotRing(1.0, slot, ("count",), 0.0, depth=8) for _ in range(2))
    for ring in (narrow, wide):
        ring.grow(20)
    wide._widen_counts()
    for t in range(1, 600):
        columns, times = np.flatnonzero(rng.random(20) < 0.8), int(rng.integers(0, most + 1))
        for ring in (narrow, wide):
            count_samples(ring, float(t), columns, times)
            if t == 300:
                ring.grow(25)
        for steps in range(1, 8):
            found = narrow.window_sum("count", steps, 8 - steps)
            assert found.dtype == WIDE_COUNTS
            np.testing.assert_array_equal(found, wide.window_sum("count", steps, 8 - steps))
            np.testing.assert_array_equal(narrow.window_sum("count", steps), wide.window_sum("count", steps))
    if 8 * slot * most < 256:
        assert narrow.layers["count"].dtype == NARROW_COUNTS
    assert most < 40 or slot < 4 or narrow.layers["count"].dtype == WIDE_COUNTS


@pytest.mark.usefixtures("narrow_rings")
@pytest.mark.parametrize("is_wide", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("most", [(1, 1), (30, 1), (1, 60), (20, 25)])
def test_columns_of_rings_that_count_alike_are_copied_with_their_windows(most, is_wide):
    rings = [SlotRing(1.0, 1.0, ("count",), 0.0, depth=8) for _ in most]
    for ring, times in zip(rings, most, strict=True):
        ring.grow(4)
        for t in range(1, 30):
            count_samples(ring, float(t), np.arange(t % 3, 4), times)
    for ring in (one for one, wide in zip(rings, is_wide, strict=True) if wide):
        ring._widen_counts()
    both = SlotRing(1.0, 1.0, ("count",), 0.0, depth=8)
    both.grow(8)
    for n, ring in enumerate(rings):
        copied = ring.select(slice(0, 4))
        both.current = copied.current
        both.join_counts(copied)
        both.layers["count"][:, 4 * n : 4 * n + 4] = copied.layers["count"]
    for t in range(30, 60):
        for ring, columns in ((both, np.arange(8)), *((ring, np.arange(4)) for ring in rings)):
            count_samples(ring, float(t), columns, 2)
        for steps in range(1, 8):
            expected = np.concatenate([ring.window_sum("count", steps) for ring in rings])
            np.testing.assert_array_equal(both.window_sum("count", steps), expected)
