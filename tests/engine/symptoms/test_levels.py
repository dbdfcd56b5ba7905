"""Levels that return: load that is as usual again, and faults that recur."""

from dataclasses import replace

import numpy as np
import pytest

from skewscope.engine.symptoms.levels import LevelShifts
from skewscope.engine.symptoms.shift_limits import ShiftLimits

YES, NO = np.ones(1, bool), np.zeros(1, bool)
STEP_TIME = ShiftLimits(np.array([0.1]), np.zeros(1), YES, NO, np.array([3.0]), YES)
LOAD = ShiftLimits(np.array([1.0]), np.array([0.1]), YES, NO, np.array([30.0]), NO, follows_load=YES)
HOUR = 12
"""Values five minutes apart."""


def shift_starts(limits, *stretches, pause=300.0):
    """Returns in which of the stretches, each of (level, values), a series begins to be shifted."""
    shifts, chance = LevelShifts(replace(limits)), np.random.default_rng(4)
    shifts.grow(limits)
    found, time, before = [], 0.0, 0
    for number, (level, count) in enumerate(stretches):
        for _ in range(count):
            time += pause
            shifts.step(np.zeros(1, int), np.array([level * (1 + 0.02 * chance.standard_normal())]), np.array([time]))
            if shifts.shift[0] and not before:
                found.append(number)
            before = shifts.shift[0]
    return found


@pytest.mark.parametrize("low", [0.25, 0.03])
def test_load_that_returns_to_its_usual_level_is_no_shift(low):
    assert not shift_starts(LOAD, (0.92, 72 * HOUR), (low, 11 * HOUR), (0.92, 24 * HOUR), (low, 11 * HOUR), (0.9, HOUR))


def test_load_beyond_its_usual_level_is_a_shift():
    assert shift_starts(LOAD, (0.4, 72 * HOUR), (0.04, 11 * HOUR), (0.4, 24 * HOUR), (0.99, 5 * HOUR)) == [3]


def test_a_level_is_forgotten_after_as_many_values_as_came_before_it_was_left():
    assert shift_starts(LOAD, (0.92, 8 * HOUR), (0.25, 24 * HOUR), (0.92, HOUR)) == [2]


def test_a_level_that_was_reported_is_reported_again_when_it_returns():
    day = 24 * HOUR
    assert shift_starts(LOAD, (0.3, day), (0.92, 2 * HOUR), (0.3, day), (0.92, HOUR)) == [1, 3]
    # Even where it lasted until it counted as the new level.
    assert shift_starts(LOAD, (0.3, day), (0.92, day), (0.3, day), (0.92, HOUR)) == [1, 3]


def test_peaks_do_not_become_a_level():
    peaks = [stretch for _ in range(48) for stretch in ((0.3, 10), (0.92, 2))]
    assert shift_starts(LOAD, *peaks, (0.92, HOUR)) == [len(peaks)]


def test_steps_that_are_as_slow_again_as_at_first_are_a_shift():
    assert shift_starts(STEP_TIME, (2.0, 300), (1.0, 300), (2.0, 10), pause=15.0) == [2]


def test_the_rest_of_what_was_reported_teaches_nothing():
    rest = (0.42, 40)
    assert shift_starts(LOAD, (0.3, 24 * HOUR), (0.92, 2 * HOUR), rest, (0.3, 3), (0.7, HOUR)) == [1, 4]


def test_a_level_that_stays_a_little_higher_after_a_shift_is_learned():
    shifts = LevelShifts(STEP_TIME)
    shifts.grow(STEP_TIME)
    for n in range(400):
        value = 1.0 if n < 100 else 1.5 if n < 120 else 1.04
        shifts.step(np.zeros(1, int), np.array([value]), np.array([15.0 * n]))
    assert shifts.median[0] == pytest.approx(1.04)
    assert not shifts.shift[0]


def test_few_times_that_scatter_need_a_larger_shift():
    lags = [(level, 1) for level in (0.1, 0.4, 0.05, 0.3, 0.02, 0.35)]
    assert not shift_starts(STEP_TIME, *lags, (0.6, 5), pause=1.0)
    assert shift_starts(STEP_TIME, *lags, (2.0, 5), pause=1.0)
