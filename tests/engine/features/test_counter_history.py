"""Totals of counters over time: those that have not counted need no column, and nobody sees that."""

import numpy as np
import pytest

from skewscope.engine.features.counter_history import SETTLE_STEPS, CounterHistory
from skewscope.engine.ingest.slots import SlotRing


@pytest.fixture(autouse=True)
def _few_lanes(monkeypatch):
    monkeypatch.setattr("skewscope.engine.features.counter_history.MIN_STILL_LANES", 0)


def step(history: CounterHistory, dense: SlotRing, t: float, counted: np.ndarray) -> None:
    """Takes in totals, into a ring with a column for each counter as well."""
    history.step(t, counted, t, lambda: 1.0)
    dense.grow(len(counted))
    dense.advance(t)
    dense.replace("counted", counted)


def assert_same(history: CounterHistory, dense: SlotRing, known: int) -> None:
    """Checks all totals that a window may ask for: `known` ticks have been."""
    lanes = np.array([3, 0, 7])
    for steps in range(1, min(known, dense.depth)):
        expected = dense.look_back("counted", steps)
        np.testing.assert_array_equal(history._totals_before(steps, slice(None)), expected)
        np.testing.assert_array_equal(history._totals_before(steps, lanes), expected[lanes])
    each = np.arange(len(expected)) % min(known, dense.depth) if known > 1 else 0
    np.testing.assert_array_equal(history._totals_before(each, slice(None)), dense.look_back("counted", each))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.6, 1.0])
@pytest.mark.parametrize("grown", [12, 20])
def test_the_totals_are_those_of_a_ring_with_a_column_for_each_counter(share, grown):
    rng = np.random.default_rng(int(10 * share))
    history, dense = CounterHistory(1.0, 1.0), SlotRing(1.0, 1.0, ("counted",))
    history.request(20.0)
    total = np.zeros(12)
    for tick in range(3 * SETTLE_STEPS):
        if tick == 50:
            total = np.append(total, np.zeros(grown - 12))
        counts = rng.random(len(total)) < share
        total = total + counts * rng.integers(0, 3, len(total)) * (tick > 5)
        step(history, dense, 100.0 + tick, total)
        if tick > 1:
            assert_same(history, dense, tick)
    columns = history.total_ring.layers["counted"].shape[1]
    assert columns == (0 if share == 0 else grown)


def test_few_counters_that_count_have_a_column_each_and_counters_that_came_later_lose_theirs():
    history, dense = CounterHistory(1.0, 1.0), SlotRing(1.0, 1.0, ("counted",))
    history.request(20.0)
    total = np.zeros(100)
    for tick in range(3 * SETTLE_STEPS):
        total[17] += tick > 10
        total[60] += tick == 30
        if tick == 40:
            total = np.append(total, np.zeros(5))
        step(history, dense, 100.0 + tick, total)
        if tick > 1:
            assert_same(history, dense, tick)
        if tick == 41:
            assert history.total_ring.layers["counted"].shape[1] == 7
    assert history.total_ring.layers["counted"].shape[1] == 2
    some = history.select(np.array([60, 4, 103, 17]))
    np.testing.assert_array_equal(some._totals_before(5, slice(None)), total[[60, 4, 103, 17]] - [0, 0, 0, 5])


def test_counters_that_all_count_at_first_and_are_then_taken_over_keep_their_order():
    history, dense = CounterHistory(1.0, 1.0), SlotRing(1.0, 1.0, ("counted",))
    history.request(20.0)
    rng = np.random.default_rng(1)
    total = np.zeros(8)
    for tick in range(30):
        # First some, then most of them.
        total = total + rng.integers(1, 5, 8) * (np.arange(8) % 4 < tick // 4)
        step(history, dense, 100.0 + tick, total)
    assert_same(history, dense, 30)
    assert history._moving is None
