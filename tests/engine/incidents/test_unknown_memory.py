"""How long an unknown verdict is remembered: seconds of data, whatever the length of a tick."""

import numpy as np
import pytest

from skewscope.engine.incidents.alerts import UNKNOWN_MEMORY_S, AlertTracker, RuleInfo
from skewscope.engine.model.verdict import NO, UNKNOWN, RuleVerdict

INFO = RuleInfo("a-rule", "tp-straggler", ())


def verdict(state: int) -> RuleVerdict:
    """The verdict of a rule on one node, which does not fire."""
    return RuleVerdict(
        "a-rule", "node", ("n0",), np.array([False]), np.array([state], np.int8), np.array([np.nan]), None
    )


@pytest.mark.parametrize(("tick", "later", "is_remembered"), [(1.0, 4.0, True), (1.0, 6.0, False), (60.0, 60.0, False)])
def test_an_unknown_verdict_is_remembered_for_the_same_time_at_any_tick(tick, later, is_remembered):
    tracker, latest = AlertTracker({"a-rule": INFO}, tick), verdict(NO)
    tracker.update(0.0, [verdict(UNKNOWN)])
    for t in np.arange(tick, later + tick, tick):
        tracker.update(float(t), [latest])
    assert tracker.unknown_mask(latest, np.array([0])).tolist() == [is_remembered]
    assert UNKNOWN_MEMORY_S == 5.0
