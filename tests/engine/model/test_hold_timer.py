"""How long something has held, tick by tick and over several ticks at once."""

import numpy as np

from skewscope.engine.model.verdict import HoldTimer

ALL = np.arange(3)
HOLDS, UNKNOWN, ENDS = (np.array([n == place for n in range(3)]) for place in range(3))


def timer() -> HoldTimer:
    """One that has seen something hold everywhere, then on the first entity alone; of the second nothing is known."""
    found = HoldTimer(3)
    found.step(0.0, 1.0, ALL, (np.ones(3, bool), np.zeros(3, bool)))
    found.step(1.0, 1.0, ALL, (HOLDS, ENDS))
    return found


def test_ticks_that_are_alike_may_be_taken_in_at_once():
    every, once = timer(), timer()
    for n in range(5):
        every.step(2.0 + n, 1.0, ALL, (HOLDS, ENDS))
    once.pass_time(5.0)
    assert once.duration.tolist() == every.duration.tolist() == [6.0, 0.0, 0.0]


def test_the_next_end_of_a_hold_time_is_that_of_what_holds_now():
    assert timer().seconds_until(4.0, np.ones(3, bool)) == 3.0
    assert timer().seconds_until(4.0, UNKNOWN) == np.inf
    idle = HoldTimer(3)
    idle.pass_time(5.0)
    assert idle.seconds_until(4.0, np.ones(3, bool)) == np.inf
