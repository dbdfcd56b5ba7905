"""The life of an action: what its next state is, given what was observed. Pure; nothing here calls a target.

`adapters/actions/coordinator.py` stores each new state before it makes the calls that the state stands for.
"""

import math
from dataclasses import dataclass, replace

from skewscope.engine.actions.action import (
    APPLIED,
    APPROVED,
    DONE,
    EXPIRED,
    FAILED,
    HELPED,
    LEAST_LOSS,
    NOT_HELPED,
    OVERRIDDEN,
    PROPOSED,
    UNDOING,
    UNDONE,
    UNPROVEN,
    VERIFIED,
    Action,
    Measurement,
)
from skewscope.engine.actions.change import ABSENT, FOREIGN, MIRROR, OURS

HELPED_SHARE = 0.5
"""Share of what was lost that has to come back for an action to have helped."""
SEEN_SHARE = 0.2
"""Share of the loss that a diagnosis tells which has to be seen in the work of its pool or group."""
STUCK_TRIES = 5
"""Failed tries to undo after which a person is told."""
MAX_WAIT = 60.0
"""Seconds between two tries at most."""
FORGOTTEN, TIME_OVER = "the target started anew and forgot it", "its time is over"
"""Why a change ends."""
END_SLACK = 10.0
"""Seconds by which a change may end by itself before its time is over: the clock of its target may be ahead."""
PROBES = 3
"""Probes in a row that have to find a member as quick as its peers before it is used again."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that the steps of an action may take."""

    approval_within: float = 900.0
    """Until a proposal is approved, or limits let an approved one start."""
    apply_within: float = 60.0
    """Until the calls are accepted."""
    state_within: float = 20.0
    """Until the target reports the new state."""
    traffic_within: float = 30.0
    """Until the work given to the member shows the change, after the state."""
    effect_within: float = 120.0
    """Until what was lost has to come back, after the calls were accepted."""
    time_to_live: float = 3600.0
    """After which a change is undone in any case."""
    hold: float = 60.0
    """How long the fault has to be gone before a change is undone, where no probe can tell."""
    probe_every: float = 5.0
    grace: float = 60.0
    """How long the controller and the member have to run before a change that no person has approved."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was observed for one action at one time."""

    t: float
    standing: str = ""
    """ABSENT, OURS or FOREIGN; '' where the target did not answer."""
    firing: bool | None = None
    """Whether the incident fires; None where it cannot be seen any more, such as after the member got no work."""
    quiet_for: float = 0.0
    """Seconds since the incident stopped firing; 0 while it fires."""
    traffic_follows: bool | None = None
    """Whether the work given to the member shows the change; None where it cannot be told yet."""
    measurement: Measurement | None = None
    probe_good: bool | None = None
    """Whether a probe found the member as quick as its peers; None for no probe now."""
    counts_work: bool = False
    """Whether the target counts the work given to its members."""
    has_probe: bool = False
    """Whether the target can probe members."""
    is_shown: bool = False
    """Whether telemetry shows the fault, and a probe could not show the contrary."""
    flaps: int = 0
    """How often its fault came back after all seemed well, as `hold_out.find_level` counts."""
    trouble: str = ""
    """What could not be read; '' for nothing."""
    run: str = ""
    """The run of the target, as in `TargetState.run`."""
    confirmation: str = ""
    """What shows the effect beside the signals of the diagnosis; '' for nothing."""
    others_ill: tuple[str, ...] = ()
    """The other replicas of its pool that fell ill since it was begun: it cannot give back what was lost by them."""


def lapse(action: Action, timing: Timing, obstacle: str, t: float) -> Action:
    """Returns a proposed or approved action as expired if something stands in its way, or if its time is over.

    Args:
        action: any action; one that has begun is returned as it is.
        timing: the times that are allowed.
        obstacle: why it must not be made any more, such as that its incident is over; '' for nothing.
        t: the present time.
    """
    if action.state not in (PROPOSED, APPROVED):
        return action
    if obstacle:
        return action.move(t, EXPIRED, obstacle, ending=obstacle)
    begun = action.created if action.state == PROPOSED else (action.approved_at or action.created)
    if t - begun > timing.approval_within:
        why = (
            "nobody approved it in time" if action.state == PROPOSED else f"limits never let it start: {action.waiting}"
        )
        return action.move(t, EXPIRED, why, ending=why)
    return action


def begin_undo(action: Action, why: str, t: float, by: str = "") -> Action:
    """Returns an action whose change is to be taken back; `by` names the person who asked for it.

    One without undo ends instead: trying for ever to take it back would help nobody.
    """
    if not action.reversible:
        outcome = action.outcome or UNPROVEN
        return action.move(t, DONE, f"ended: {why}; it has no undo", ending=why, ended_by=by, outcome=outcome)
    return action.move(t, UNDOING, f"undo: {why}", ending=why, ended_by=by, undo_at=t)


def is_late(action: Action, timing: Timing, t: float) -> bool:
    """Returns whether the time is over in which the calls of an action have to be accepted."""
    return t - (action.started_at or t) > timing.apply_within


def give_up(action: Action, trouble: str, standing: str, t: float) -> Action:
    """Returns an action whose calls were not accepted in time, so that nothing is left of it.

    Args:
        action: an action that is being applied.
        trouble: why.
        standing: ABSENT, OURS or FOREIGN; '' where the target did not answer. It decides about an action without undo.
        t: the present time.
    """
    why = f"could not be applied: {trouble}"
    if action.reversible:
        return begin_undo(action, why, t)
    if action.called_at is None:
        return action.move(t, FAILED, f"{why}; no call was made", ending=why)
    if standing == OURS:
        return action.move(t, APPLIED, "the target made it", applied_at=t)
    return _end_unhelpful(action, why, t)


def note_failure(action: Action, trouble: str, timing: Timing, t: float) -> Action:
    """Returns an action after a failed try of its calls; after too long it is undone, so that nothing is left of it."""
    tries = action.tries + 1
    wait = min(2.0 ** (tries - 1), MAX_WAIT)
    failed = replace(action, tries=tries, next_try=t + wait, waiting=trouble)
    if tries <= 2 or tries == STUCK_TRIES:
        failed = failed.note(t, f"failed, try {tries}: {trouble}")
    if action.state == UNDOING:
        return replace(failed, stuck=tries >= STUCK_TRIES)
    return give_up(failed, trouble, "", t) if is_late(action, timing, t) else failed


def finish_undo(action: Action, seen: Observation, timing: Timing) -> Action:
    """Returns an action after its undo, by what the target reports then.

    A change that was called for and never seen may still be on its way: its absence is believed after `state_within`.
    """
    if action.called_at is None:
        return action.move(seen.t, UNDONE, "no call was made", stuck=False)
    if seen.standing == FOREIGN:
        return action.move(seen.t, OVERRIDDEN, "somebody else changed the member; it stays as it is", stuck=False)
    if seen.standing != ABSENT:
        return action
    if not action.seen_in_state and seen.t - (action.undo_at or action.called_at) < timing.state_within:
        return replace(action, waiting="that the target is still as it was", next_try=seen.t + 1.0)
    never = action.applied_at is None
    return action.move(seen.t, FAILED if never else UNDONE, "the former state is back", stuck=False)


def is_over(action: Action, seen: Observation, timing: Timing) -> bool:
    """Returns whether the time to live of a change is over; some targets end it by themselves."""
    slack = END_SLACK if seen.standing == ABSENT else 0.0
    begun = action.started_at if action.started_at is not None else seen.t
    end = min(begun + timing.time_to_live, action.change.expires or begun + timing.time_to_live)
    return seen.t >= end - slack


def _end_from_outside(action: Action, seen: Observation, timing: Timing) -> Action | None:
    """Returns an action that somebody else or its time has ended; None for one that goes on."""
    if seen.standing == FOREIGN:
        return action.move(seen.t, OVERRIDDEN, "somebody else changed the member", ending="changed by somebody else")
    is_anew = seen.standing == ABSENT and "" not in (seen.run, action.run) and seen.run != action.run
    if is_anew and not _may_arrive(action, seen, timing):
        return action.move(seen.t, OVERRIDDEN, FORGOTTEN, ending=FORGOTTEN, forgotten=True)
    if action.state == APPLIED and not action.seen_in_state:
        return None
    if is_over(action, seen, timing):
        return begin_undo(action, TIME_OVER, seen.t)
    if seen.standing == ABSENT:
        return action.move(seen.t, OVERRIDDEN, "somebody else undid it", ending="undone by somebody else")
    return None


def _may_arrive(action: Action, seen: Observation, timing: Timing) -> bool:
    """Returns whether a change that was called for and never seen may still be on its way."""
    called = action.called_at if action.called_at is not None else -math.inf
    return not action.seen_in_state and seen.t - called < timing.state_within


def judge_trial(action: Action, seen: Observation, timing: Timing) -> Action:
    """Returns an action whose calls were accepted, judged by state, then traffic, then effect."""
    t, applied = seen.t, action.applied_at or seen.t
    ended = _end_from_outside(action, seen, timing)
    if ended is not None:
        return ended
    if not action.seen_in_state:
        if seen.standing == OURS:
            run = seen.run or action.run  # which the target may have begun after the call
            action = replace(action, seen_in_state=True, run=run, waiting="traffic")
            action = action.note(t, "the target reports the new state")
        elif t - applied > timing.state_within:
            return _end_unhelpful(action, "the target accepted it, but never reported the new state", t)
        else:
            return replace(action, waiting="the target's new state")
    if action.seen_in_traffic is None and seen.traffic_follows is not None:
        if seen.traffic_follows:
            action = replace(action, seen_in_traffic=True, waiting="its effect").note(t, "traffic follows it")
        elif t - applied > timing.state_within + timing.traffic_within:
            return _end_unhelpful(replace(action, seen_in_traffic=False), "traffic does not follow it", t)
    return _judge_effect(action, seen, timing)


def judge_without_view(action: Action, timing: Timing, t: float) -> Action:
    """Returns a change in place that could not be observed or judged: its times are over all the same."""
    if is_over(action, Observation(t), timing):
        return begin_undo(action, TIME_OVER, t)
    since = t - (action.applied_at or t)
    if action.state == APPLIED and since > timing.state_within + timing.traffic_within + timing.effect_within:
        return _end_unhelpful(action, f"it could not be judged in time: {action.waiting}", t)
    return action


def _judge_effect(action: Action, seen: Observation, timing: Timing) -> Action:
    t, applied = seen.t, action.applied_at or seen.t
    if action.change.kind == MIRROR:
        return _verify(action, UNPROVEN, "a copy gives nothing back by itself", t)
    action = _count_probes(replace(action, measurement=seen.measurement or action.measurement), seen, timing)
    if action.seen_in_traffic is None and seen.counts_work and t - applied <= timing.traffic_within:
        return action
    if action.good_probes >= PROBES:
        return _end_without_fault(action, t)
    return _judge_recovery(action, seen, timing)


def _judge_recovery(action: Action, seen: Observation, timing: Timing) -> Action:
    """Returns an action judged by what came back; it has helped only where somebody else confirms that."""
    since, back = seen.t - (action.applied_at or seen.t), action.measurement.recovery
    if back is not None and back >= HELPED_SHARE:
        if seen.confirmation:
            return _verify(action, HELPED, f"{_describe_recovery(back)}; {seen.confirmation}", seen.t)
        if _is_gone(seen, timing.hold):
            # Nobody can confirm an effect on a fault that is over: to wait on would only keep the change in place.
            return _judge_late_effect(action, seen)
        action = replace(action, waiting="a second witness of its effect")
    if since > timing.effect_within:
        return _judge_late_effect(action, seen)
    ended = back is None and seen.firing is False and since >= timing.hold
    # The incident of a job that is over ends as well, and says nothing about the change.
    if not ended or action.measurement.working is False:
        return action
    if seen.confirmation:
        return _verify(action, HELPED, f"the incident ended; {seen.confirmation}", seen.t)
    return _verify(action, UNPROVEN, "the incident ended, and nobody can tell whether by the change", seen.t)


def _is_gone(seen: Observation, hold: float) -> bool:
    """Returns whether a fault that no probe can look for is over for long enough, in seconds."""
    return not seen.has_probe and seen.firing is False and seen.quiet_for >= hold


def _describe_recovery(back: float) -> str:
    return f"{100 * min(back, 1.0):.0f} % of what was lost is back"


def _count_probes(action: Action, seen: Observation, timing: Timing) -> Action:
    """Returns an action with a probe counted, if there was one: those in a row that found the member well."""
    if seen.is_shown:
        return replace(action, good_probes=0)
    if seen.probe_good is None:
        return action
    good = action.good_probes + 1 if seen.probe_good else 0
    if not good and action.good_probes:
        action = action.note(seen.t, "a probe found it slow again")
    following = seen.t + timing.probe_every if action.state == VERIFIED else action.next_try
    return replace(action, good_probes=good, next_try=following)


def _end_without_fault(action: Action, t: float) -> Action:
    """Returns an action whose member was found as quick as its peers before an effect was seen."""
    what = f"{action.good_probes} probes find the member as quick as its peers"
    if action.witness:
        return _verify(action, UNPROVEN, f"{what}: its fault went by itself", t)
    return _end_unhelpful(action, f"{what}, and nobody but its own telemetry found it slower", t)


def _judge_late_effect(action: Action, seen: Observation) -> Action:
    """Returns an action after the time in which its effect had to show."""
    t, back = seen.t, action.measurement.recovery
    if back is not None:
        return _judge_late_recovery(action, back, seen)
    if _saw_no_loss(action):
        return _end_unhelpful(action, "nothing had been lost before it", t)
    if seen.firing:
        return _end_unhelpful(action, "the incident still fires", t)
    if action.measurement.working is False:
        return _verify(action, UNPROVEN, "the work itself has ended", t)
    return _verify(action, UNPROVEN, "nothing was seen by which to tell whether it helped", t)


def _judge_late_recovery(action: Action, back: float, seen: Observation) -> Action:
    """Returns an action after that time, of which a share of what was lost came back."""
    if back >= HELPED_SHARE:
        why = "by the telemetry of the diagnosis alone: no probe, and no router, confirms it"
        return _verify(action, UNPROVEN, f"{_describe_recovery(back)} {why}", seen.t)
    if seen.others_ill:
        why = f"{', '.join(seen.others_ill)} fell ill meanwhile: nobody can tell what it gave back"
        return _verify(action, UNPROVEN, why, seen.t)
    return _end_unhelpful(action, f"only {100 * max(back, 0.0):.0f} % of what was lost came back", seen.t)


def _saw_no_loss(action: Action) -> bool:
    """Returns whether the work before the change shows almost nothing of the loss that the diagnosis told."""
    expected = action.reason.loss / max(action.scope.peers, 1)
    before = action.measurement.before
    return before is not None and expected >= LEAST_LOSS and 1.0 - before < SEEN_SHARE * expected


def _verify(action: Action, outcome: str, what: str, t: float) -> Action:
    verified = action.move(t, VERIFIED if action.reversible else DONE, f"{outcome}: {what}", outcome=outcome)
    return replace(verified, verified_at=t)


def _end_unhelpful(action: Action, why: str, t: float) -> Action:
    """Returns an action that did not help: undone where that is possible."""
    action = replace(action, outcome=NOT_HELPED)
    if not action.reversible:
        return action.move(t, DONE, f"{NOT_HELPED}: {why}; it has no undo", ending=why)
    return begin_undo(action, why, t)


def watch_in_place(action: Action, seen: Observation, timing: Timing) -> Action:
    """Returns an action in place: undone once the fault is over or its time is up, and given up to others' changes.

    After each earlier time that the same member's fault came back, it has to be gone twice as long.
    """
    t = seen.t
    ended = _end_from_outside(action, seen, timing)
    if ended is not None:
        return ended
    if seen.measurement is not None and seen.measurement.after is not None:
        action = replace(action, measurement=seen.measurement)
    action = _count_probes(action, seen, timing)
    factor = 2**seen.flaps
    if action.good_probes >= PROBES * factor:
        return begin_undo(action, f"{action.good_probes} probes found it as quick as its peers", t)
    if _is_gone(seen, timing.hold * factor):
        return begin_undo(action, f"the fault is gone for {seen.quiet_for:.0f} s", t)
    return replace(action, waiting=_describe_hold(action, seen, timing, factor))


def _describe_hold(action: Action, seen: Observation, timing: Timing, factor: int) -> str:
    """Returns why a member is held out whose fault came back; '' where it did not."""
    if factor == 1:
        return ""
    needed = f"{timing.hold * factor:.0f} s without it are needed, {seen.quiet_for:.0f} s so far"
    if seen.has_probe or action.good_probes:
        needed = f"{PROBES * factor} good probes in a row are needed, {action.good_probes} so far"
    times = "once" if seen.flaps == 1 else f"{seen.flaps} times"
    return f"held out, since its fault came back {times}: {needed}"
