"""A mirror is for inspection: it is judged by its state, and never counted as one that did not help."""

from dataclasses import replace

from skewscope.engine.actions import lifecycle
from skewscope.engine.actions.action import APPLIED, UNPROVEN, VERIFIED, Measurement
from skewscope.engine.actions.change import ABSENT, MIRROR, OURS
from skewscope.engine.actions.lifecycle import Observation, Timing
from tests.support.actions import T0, build_action

TIMING = Timing()


def test_a_mirror_is_verified_by_its_state_and_stays_while_its_incident_fires():
    action = build_action(state=APPLIED, started_at=T0, applied_at=T0 + 1)
    action = replace(action, change=replace(action.change, kind=MIRROR))
    nothing = Measurement(0.4, 0.4, "x")
    waits = lifecycle.judge_trial(action, Observation(T0 + 2, ABSENT, True, measurement=nothing), TIMING)
    assert waits.state == APPLIED
    verified = lifecycle.judge_trial(waits, Observation(T0 + 3, OURS, True, measurement=nothing), TIMING)
    assert (verified.state, verified.outcome) == (VERIFIED, UNPROVEN)
    later = Observation(T0 + 600, OURS, True, measurement=nothing)
    assert lifecycle.watch_in_place(verified, later, TIMING).state == VERIFIED
