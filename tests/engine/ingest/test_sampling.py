"""How often a series is sampled, learned from its samples alone."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.engine.ingest.samples import MAX_PERIOD_S, STALE_PERIODS, SamplingPeriods
from skewscope.engine.model.arrays import pad_to_length


def learned(intervals, tick=1.0):
    """(period, horizon) of one series after these intervals."""
    rhythm = SamplingPeriods(tick)
    rhythm.grow(1)
    for interval in intervals:
        rhythm.learn(np.array([0]), np.array([interval]))
    return float(rhythm.period[0]), float(rhythm.stale_after()[0])


@pytest.mark.parametrize("period", [0.1, 1.0, 10.0, 30.0])
def test_a_steady_period_is_known_from_the_first_interval_on(period):
    assert learned([period]) == learned([period] * 50) == (period, STALE_PERIODS * max(period, 1.0))


def test_before_any_interval_a_series_stays_fresh_for_a_while():
    period, horizon = learned([])
    assert math.isnan(period)
    assert horizon == MAX_PERIOD_S / 2


@pytest.mark.parametrize("outage", [40.0, 600.0, 86_400.0])
@pytest.mark.parametrize("when", [0, 2, 20])
def test_one_outage_changes_little(outage, when):
    steady = [1.0] * 30
    assert learned([*steady[:when], outage, *steady[when:]])[0] == pytest.approx(1.0, rel=0.1)


def test_a_lasting_change_of_pace_is_followed_in_time():
    assert learned([1.0] * 10 + [10.0] * 60)[0] == pytest.approx(10.0, rel=0.1)
    assert learned([10.0] * 10 + [1.0] * 60)[0] == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("odd", [0.0, -5.0, math.nan])
def test_what_is_no_interval_teaches_nothing(odd):
    assert learned([2.0, odd, odd, 2.0]) == learned([2.0, 2.0])


@given(st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=40))
def test_a_period_lies_between_the_shortest_and_the_longest_interval(intervals):
    period, horizon = learned(intervals)
    assert min(intervals) * (1 - 1e-9) <= period <= max(intervals) * (1 + 1e-9)
    assert horizon >= STALE_PERIODS


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)), min_size=1, max_size=20))
def test_series_learn_beside_each_other_as_they_would_alone(pairs):
    rhythm = SamplingPeriods(1.0)
    rhythm.grow(2)
    for pair in pairs:
        rhythm.learn(np.array([0, 1]), np.array(pair))
    for n in (0, 1):
        assert learned([pair[n] for pair in pairs]) == (rhythm.period[n], rhythm.stale_after()[n])


def test_periods_settle_after_several_intervals():
    rhythm = SamplingPeriods(1.0)
    rhythm.grow(2)
    seen = []
    for _ in range(4):
        seen.append(rhythm.p90_period())
        rhythm.learn(np.array([0]), np.array([5.0]))
    assert seen == [0.0, 0.0, 0.0, 5.0]


def test_the_usual_period_is_that_of_nine_in_ten_of_those_that_are_known():
    rhythm = SamplingPeriods(1.0)
    rhythm.grow(30)
    for _ in range(3):
        rhythm.learn(np.arange(20), np.repeat([1.0, 2.0, 30.0], [10, 9, 1]))
    assert rhythm.p90_period() == rhythm.p90_period(slice(0, 30)) == 2.0
    assert rhythm.p90_period(np.arange(10)) == 1.0


def test_a_longer_array_keeps_what_it_had():
    assert np.array_equal(pad_to_length(np.array([[1.0, 2.0]]), 3), [[1.0, 2.0, np.nan]], equal_nan=True)
    kept = np.array([1.0, 2.0])
    assert pad_to_length(kept, 1) is kept
