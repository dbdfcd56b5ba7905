"""Counters that an exporter renews more rarely than they are read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rule_world import Lab

RATE = 100.0
KEY = ("port.tx_bytes", "n0/ns")


def rates(times, values, ticks: int, begin: int) -> list[float]:
    """Rates over 5 s at each tick from `begin` on; NaN where unknown."""
    lab, found, next_ = Lab(["rate(port.tx_bytes, 5*s)"], scope="port"), [], 0
    for n in range(1, ticks + 1):
        until = int(np.searchsorted(times, n, side="right"))
        samples = [(1000.0 + t, v) for t, v in zip(times[next_:until], values[next_:until], strict=True)]
        (value,) = lab.tick({KEY: samples} if samples else {}, 1000.0 + n)
        next_ = until
        found += [value["n0/ns"]] if n > begin else []
    return found


def renewed(times, interval: float):
    """A counter that grows by 100 each second and is renewed once in `interval` seconds."""
    return np.floor(np.asarray(times) / interval) * interval * RATE


@pytest.mark.parametrize(("poll", "interval"), [(1.0, 10.0), (5.0, 15.0), (5.0, 20.0), (2.0, 30.0)])
def test_a_rate_is_that_between_renewals(poll, interval):
    times = np.arange(0.3, 600, poll)
    found = rates(times, renewed(times, interval), 590, int(6 * interval) + 60)
    assert np.isfinite(found).all()
    assert max(found) == pytest.approx(RATE, rel=0.02)
    assert min(found) == pytest.approx(RATE, rel=0.02)


@given(st.integers(0, 1 << 32), st.sampled_from([(5.0, 15.0), (10.0, 15.0), (5.0, 30.0), (1.0, 15.0)]))
@settings(max_examples=8, deadline=None)
def test_uneven_polls_do_not_double_a_rate(seed, pace):
    poll, interval = pace
    random = np.random.default_rng(seed)
    times = np.sort(np.arange(1.0, 500, poll) + random.uniform(-0.4, 0.4, len(np.arange(1.0, 500, poll))))
    found = rates(times, renewed(times, interval), 490, 250)
    assert np.nanmin(found) > 0.7 * RATE
    assert np.nanmax(found) < 1.4 * RATE


def test_a_counter_that_stops_comes_to_zero():
    times = np.arange(0.3, 600, 5.0)
    found = rates(times, np.minimum(renewed(times, 15.0), 300 * RATE), 590, 250)
    assert found[0] == pytest.approx(RATE, rel=0.02)
    assert found[-1] == 0.0
    assert np.isfinite(found).all()


@pytest.mark.parametrize("period", [10.0, 15.0, 30.0, 60.0])
def test_a_short_window_stretches_to_rare_samples(period):
    times = np.arange(0.5, 900, period)
    found = rates(times, times * RATE, 890, int(4 * period))
    assert found == pytest.approx([RATE] * len(found))


def test_rare_events_are_not_taken_for_renewals():
    times = np.arange(0.5, 900, 1.0)
    events = np.searchsorted([100, 190, 300, 420, 700], times).astype(float)
    found = rates(times, events, 890, 100)
    assert max(found) == pytest.approx(0.2, rel=0.3)
