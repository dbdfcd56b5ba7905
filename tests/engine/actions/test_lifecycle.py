"""The life of an action, state by state."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.actions import lifecycle
from skewscope.engine.actions.action import (
    APPLIED,
    APPLYING,
    DONE,
    EXPIRED,
    FAILED,
    HELPED,
    NOT_HELPED,
    OVERRIDDEN,
    PROPOSED,
    UNDOING,
    UNDONE,
    UNPROVEN,
    VERIFIED,
    Measurement,
    action_to_json,
    name_action,
    parse_action,
)
from skewscope.engine.actions.change import ABSENT, FOREIGN, OURS
from skewscope.engine.actions.lifecycle import Observation, Timing
from tests.support.actions import T0, build_action

TIMING = Timing()
TRIAL = build_action(state=APPLIED, started_at=T0, called_at=T0, applied_at=T0)
SEEN = replace(TRIAL, seen_in_state=True)
GONE, BACK = Measurement(working=False), Measurement(0.6, 0.95)
CONFIRMED = replace(SEEN, witness="a probe finds it slower than its peers (1.00 s, theirs 0.20 s)")
IN_PLACE = replace(SEEN, state=VERIFIED, verified_at=T0 + 30, outcome=HELPED)


@pytest.mark.parametrize(
    ("action", "seen", "state", "outcome"),
    [
        (TRIAL, Observation(T0 + 1, ABSENT, True), APPLIED, ""),
        (TRIAL, Observation(T0 + 21, ABSENT, True), UNDOING, NOT_HELPED),  # accepted is not done
        (TRIAL, Observation(T0 + 1, FOREIGN, True), OVERRIDDEN, ""),
        (SEEN, Observation(T0 + 30, ABSENT, True), OVERRIDDEN, ""),
        (SEEN, Observation(T0 + 30, OURS, True), APPLIED, ""),
        (SEEN, Observation(T0 + 51, OURS, True, traffic_follows=False), UNDOING, NOT_HELPED),
        (SEEN, Observation(T0 + 20, OURS, True, measurement=BACK, confirmation="a probe"), VERIFIED, HELPED),
        (SEEN, Observation(T0 + 20, OURS, True, measurement=BACK), APPLIED, ""),  # by the accused's own word
        (SEEN, Observation(T0 + 121, OURS, True, measurement=BACK), VERIFIED, UNPROVEN),
        (SEEN, Observation(T0 + 70, OURS, False, 59, measurement=BACK), APPLIED, ""),
        (SEEN, Observation(T0 + 70, OURS, False, 61, measurement=BACK), VERIFIED, UNPROVEN),  # nobody will confirm it
        (SEEN, Observation(T0 + 70, OURS, False, 61, measurement=BACK, has_probe=True), APPLIED, ""),
        (SEEN, Observation(T0 + 20, OURS, True, measurement=Measurement(0.6, 0.95), counts_work=True), APPLIED, ""),
        (SEEN, Observation(T0 + 20, OURS, True, measurement=Measurement(0.6, 0.7)), APPLIED, ""),
        (SEEN, Observation(T0 + 121, OURS, False, measurement=Measurement(0.6, 0.7)), UNDOING, NOT_HELPED),
        (SEEN, Observation(T0 + 121, OURS, measurement=Measurement(0.6, 0.5), others_ill=("r1",)), VERIFIED, UNPROVEN),
        (SEEN, Observation(T0 + 121, OURS, None, measurement=Measurement(1.0, 1.0)), UNDOING, NOT_HELPED),
        (SEEN, Observation(T0 + 121, OURS, True), UNDOING, NOT_HELPED),
        (SEEN, Observation(T0 + 121, OURS, None), VERIFIED, UNPROVEN),
        (SEEN, Observation(T0 + 61, OURS, False), VERIFIED, UNPROVEN),  # the fault may have gone by itself
        (SEEN, Observation(T0 + 61, OURS, False, confirmation="a probe"), VERIFIED, HELPED),
        (SEEN, Observation(T0 + 61, OURS, False, measurement=Measurement(working=True)), VERIFIED, UNPROVEN),
        (SEEN, Observation(T0 + 61, OURS, False, measurement=GONE), APPLIED, ""),  # a job that ended proves nothing
        (SEEN, Observation(T0 + 121, OURS, False, measurement=GONE), VERIFIED, UNPROVEN),
        (replace(SEEN, reversible=False), Observation(T0 + 121, OURS, True), DONE, NOT_HELPED),
        (replace(SEEN, reversible=False), Observation(T0 + 61, OURS, False, confirmation="a probe"), DONE, HELPED),
        (replace(SEEN, reversible=False), Observation(T0 + 61, OURS, False), DONE, UNPROVEN),
        (replace(SEEN, good_probes=2), Observation(T0 + 20, OURS, True, probe_good=True), UNDOING, NOT_HELPED),
        (replace(CONFIRMED, good_probes=2), Observation(T0 + 20, OURS, True, probe_good=True), VERIFIED, UNPROVEN),
        (replace(SEEN, good_probes=2), Observation(T0 + 20, OURS, True, probe_good=False), APPLIED, ""),
    ],
)
def test_a_trial_is_judged_by_state_traffic_and_effect(action, seen, state, outcome):
    judged = lifecycle.judge_trial(action, seen, TIMING)
    assert (judged.state, judged.outcome) == (state, outcome)


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (Observation(T0 + 100, OURS, None, has_probe=True), VERIFIED),
        (Observation(T0 + 100, FOREIGN), OVERRIDDEN),
        (Observation(T0 + 100, ABSENT), OVERRIDDEN),
        (Observation(T0 + 3600, OURS, True), UNDOING),
        (Observation(T0 + 100, OURS, False, quiet_for=61), UNDOING),
        (Observation(T0 + 100, OURS, False, quiet_for=61, flaps=1), VERIFIED),
        (Observation(T0 + 200, OURS, False, quiet_for=121, flaps=1), UNDOING),
        (Observation(T0 + 100, OURS, False, quiet_for=61, has_probe=True, probe_good=False), VERIFIED),
    ],
)
def test_a_change_in_place_stays_until_its_fault_is_over(seen, state):
    assert lifecycle.watch_in_place(IN_PLACE, seen, TIMING).state == state


def test_probes_in_a_row_bring_a_member_back_and_one_bad_probe_starts_anew():
    action, states = IN_PLACE, []
    for n, good in enumerate((True, True, False, True, True, True)):
        seen = Observation(T0 + 100 + 5 * n, OURS, None, probe_good=good, has_probe=True)
        action = lifecycle.watch_in_place(action, seen, TIMING)
        states.append(action.state)
    assert states == [VERIFIED] * 5 + [UNDOING]


def test_calls_that_fail_for_long_are_undone_and_an_undo_is_never_given_up():
    action = build_action(state=APPLYING, started_at=T0, called_at=T0)
    for second in range(0, 61, 10):
        action = lifecycle.note_failure(action, "no answer", TIMING, T0 + second)
    assert action.state == APPLYING
    action = lifecycle.note_failure(action, "no answer", TIMING, T0 + 61)
    assert action.state == UNDOING
    for n in range(50):
        action = lifecycle.note_failure(action, "no answer", TIMING, T0 + 100 + 60 * n)
    assert (action.state, action.stuck) == (UNDOING, True)
    assert action.next_try - (T0 + 100 + 60 * 49) == lifecycle.MAX_WAIT
    assert len(action.history) < 20
    gone = Observation(T0 + 9000, ABSENT)
    assert lifecycle.finish_undo(action, gone, TIMING).state == FAILED
    assert lifecycle.finish_undo(replace(action, applied_at=T0), gone, TIMING).state == UNDONE
    assert lifecycle.finish_undo(action, Observation(T0 + 9000, FOREIGN), TIMING).state == OVERRIDDEN
    assert lifecycle.finish_undo(action, Observation(T0 + 9000, OURS), TIMING) is action


def test_a_change_that_was_never_seen_may_still_be_on_its_way():
    action = lifecycle.begin_undo(replace(TRIAL, seen_in_state=False), "it never came", T0 + 20)
    early = lifecycle.finish_undo(action, Observation(T0 + 21, ABSENT), TIMING)
    assert (early.state, early.next_try) == (UNDOING, T0 + 22)
    assert lifecycle.finish_undo(early, Observation(T0 + 40, ABSENT), TIMING).state == UNDONE
    seen = lifecycle.begin_undo(SEEN, "no longer wanted", T0 + 20)
    assert lifecycle.finish_undo(seen, Observation(T0 + 21, ABSENT), TIMING).state == UNDONE


def test_without_any_call_nothing_is_to_be_undone():
    action = lifecycle.begin_undo(build_action(state=APPLYING, started_at=T0), "asked by ann: no", T0 + 1, "ann")
    ended = lifecycle.finish_undo(action, Observation(T0 + 1, OURS), TIMING)
    assert (ended.state, ended.history[-1][1]) == (UNDONE, "no call was made")


def test_proposals_expire_with_their_incident_or_their_time():
    proposal = build_action(state=PROPOSED)
    assert lifecycle.lapse(proposal, TIMING, "", T0 + 899) is proposal
    assert lifecycle.lapse(proposal, TIMING, "", T0 + 901).state == EXPIRED
    ended = lifecycle.lapse(proposal, TIMING, "it is a symptom", T0 + 1)
    assert (ended.state, ended.ending) == (EXPIRED, "it is a symptom")
    assert lifecycle.lapse(TRIAL, TIMING, "it is a symptom", T0 + 9999) is TRIAL


def test_the_time_to_live_counts_from_the_begin_and_comes_before_what_ends_by_itself():
    action = replace(IN_PLACE, applied_at=T0 + 50)
    assert lifecycle.watch_in_place(action, Observation(T0 + 3600, OURS, True), TIMING).state == UNDOING
    for gone, state in ((3500, OVERRIDDEN), (3595, UNDOING), (3601, UNDOING)):
        ended = lifecycle.watch_in_place(action, Observation(T0 + gone, ABSENT), TIMING)
        assert (ended.state, ended.ending == "its time is over") == (state, state == UNDOING)
    # The target was told of the time that was set when the change began.
    longer = replace(TIMING, time_to_live=7200)
    assert lifecycle.watch_in_place(action, Observation(T0 + 3601, ABSENT), longer).state == UNDOING


@pytest.mark.parametrize(
    ("seen_in_state", "after", "state"),
    # Asked just before the restart, and accepted by the new process late; that it was seen leaves nothing on its way.
    [(False, 10.0, APPLIED), (False, 21.0, OVERRIDDEN), (True, 10.0, OVERRIDDEN)],
)
def test_a_target_that_starts_anew_may_still_accept_what_it_was_asked_before(seen_in_state, after, state):
    asked = replace(TRIAL, called_at=T0, applied_at=T0, seen_in_state=seen_in_state, run="1")
    judged = lifecycle.judge_trial(asked, Observation(T0 + after, ABSENT, run="2"), TIMING)
    assert (judged.state, judged.forgotten) == (state, state == OVERRIDDEN)
    if state == APPLIED:
        late = lifecycle.judge_trial(judged, Observation(T0 + after + 1, OURS, run="2"), TIMING)
        assert (late.state, late.seen_in_state, late.run) == (APPLIED, True, "2")


FOR_GOOD = build_action(state=APPLYING, started_at=T0, called_at=T0, reversible=False)


def test_what_has_no_undo_is_never_being_undone():
    assert lifecycle.begin_undo(FOR_GOOD, "asked by ann: enough", T0 + 1, "ann").state == DONE
    failed = lifecycle.note_failure(FOR_GOOD, "no answer", TIMING, T0 + 61)
    assert (failed.state, failed.outcome) == (DONE, NOT_HELPED)
    late = [lifecycle.give_up(FOR_GOOD, "it was stopped", standing, T0 + 99) for standing in (OURS, ABSENT, "")]
    assert [one.state for one in late] == [APPLIED, DONE, DONE]
    assert lifecycle.give_up(replace(FOR_GOOD, called_at=None), "it was stopped", OURS, T0 + 99).state == FAILED
    trial = replace(FOR_GOOD, state=APPLIED, applied_at=T0, seen_in_state=True)
    assert lifecycle.judge_trial(trial, Observation(T0 + 3600, OURS, True), TIMING).state == DONE


def test_an_action_of_an_earlier_version_was_called_when_it_began():
    told = {key: value for key, value in action_to_json(TRIAL).items() if key not in ("called_at", "undo_at")}
    assert parse_action(told).called_at == T0
    told = action_to_json(build_action(state=APPLYING, started_at=T0))
    assert parse_action(told).called_at is None


def test_an_action_survives_its_way_through_json():
    action = replace(IN_PLACE, measurement=Measurement(0.5, 0.9, "serve.e2e")).note(T0, "verified")
    assert parse_action(action_to_json(action)) == action
    assert action_to_json(action)["measurement"]["recovery"] == pytest.approx(0.8)


@given(st.lists(st.text(max_size=20), max_size=200))
def test_a_history_is_bounded_and_keeps_both_ends(texts):
    action = build_action()
    for n, text in enumerate(texts):
        action = action.note(T0 + n, text)
    assert len(action.history) <= 60
    if texts:
        assert (action.history[0][1], action.history[-1][1]) == (texts[0], texts[-1])


def test_ids_repeat_in_a_replay_and_differ_otherwise():
    first = build_action()
    assert name_action(first.reason, first.change, T0) == name_action(first.reason, first.change, T0)
    assert name_action(first.reason, first.change, T0) != name_action(first.reason, first.change, T0 + 1)


observations = st.builds(
    Observation,
    t=st.floats(T0, T0 + 10_000),
    standing=st.sampled_from((ABSENT, OURS, FOREIGN, "")),
    firing=st.sampled_from((True, False, None)),
    quiet_for=st.floats(0, 1000),
    traffic_follows=st.sampled_from((True, False, None)),
    measurement=st.none()
    | st.builds(Measurement, before=st.none() | st.floats(0, 2), after=st.none() | st.floats(0, 2)),
    probe_good=st.sampled_from((True, False, None)),
    counts_work=st.booleans(),
    has_probe=st.booleans(),
    flaps=st.integers(0, 100),
)


@given(st.lists(observations, max_size=20))
def test_whatever_is_observed_a_change_in_place_is_never_forgotten(seen):
    action = TRIAL
    for one in sorted(seen, key=lambda one: one.t):
        judge = {APPLIED: lifecycle.judge_trial, VERIFIED: lifecycle.watch_in_place}.get(action.state)
        if judge is None:
            break
        action = judge(action, one, TIMING)
    assert action.is_in_place or action.state == OVERRIDDEN


@pytest.mark.parametrize(
    ("action", "after", "state"),
    [
        (SEEN, 169, APPLIED),
        (SEEN, 171, UNDOING),
        (replace(SEEN, reversible=False), 171, DONE),
        (IN_PLACE, 171, VERIFIED),
        (IN_PLACE, 3601, UNDOING),
    ],
)
def test_what_cannot_be_judged_ends_in_time_all_the_same(action, after, state):
    judged = lifecycle.judge_without_view(replace(action, waiting="unexpected KeyError"), TIMING, T0 + after)
    assert judged.state == state
    if state != action.state and action is SEEN:
        assert (judged.outcome, judged.ending) == (NOT_HELPED, "it could not be judged in time: unexpected KeyError")
