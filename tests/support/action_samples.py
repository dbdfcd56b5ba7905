"""Actions in several states, for what shows them."""

from dataclasses import replace

from skewscope.engine.actions.action import (
    APPLIED,
    HELPED,
    PROPOSED,
    REFUSED,
    VERIFIED,
    Action,
    ActionPlan,
    ActionScope,
    Measurement,
    Reason,
)
from skewscope.engine.actions.change import Change, MemberState

T0 = 1795177128.0
"""2026-11-20 12:18:48 UTC."""
REASON = Reason(
    *("tp-straggler@n2#1", "tp-straggler", "rank", "n2", "tp-straggler-on-the-wire", "5d2ac1a9e0f37b6655aa"),
    *(0.938, "critical", T0 + 25, "drain-rank"),
)
PLAN = ActionPlan(
    calls=("set server be/w2 state drain    (to /run/haproxy/admin.sock)",),
    effect="up to 38 % of wire.round_rate, which the incident takes; no new requests go to the slow replica",
    risk="medium",
    blast_radius="replica r2; one of the replicas of chat",
    undo="Set the server to ready.",
    undo_calls=("set server be/w2 state ready    (to /run/haproxy/admin.sock)",),
    verification="The target reports the new state, the work given to the member follows.",
    notes=("deweight is passed over: what is left there would lose 38 % all the same",),
)


def build_proposal(**fields: object) -> Action:
    """Returns a proposal: drain w2 at front for a straggler."""
    change = Change("drain", "front", "w2", "a-0123456789ab", "tp-straggler at n2, 94 % sure", T0 + 3700)
    scope = ActionScope("r2", "replica", ("n2",), ("r2",), "chat")
    action = Action("a-0123456789ab", PROPOSED, change, REASON, scope, PLAN, T0 + 30).note(T0 + 30, "planned")
    return replace(action, **fields)  # type: ignore[arg-type]


def build_verified() -> Action:
    """Returns a change in place that helped."""
    before = MemberState("w2", True, 100.0, details=(("admin", "0"),))
    action = build_proposal(id="a-fedcba987654", before=before, approved_by="alice", created=T0 - 600)
    action = replace(action, change=replace(action.change, member="w1", action=action.id))
    action = action.move(T0 - 590, APPLIED, "the target accepted it", applied_at=T0 - 590, started_at=T0 - 591)
    measured = Measurement(0.41, 0.97, "inference.ttft")
    return action.move(
        T0 - 560, VERIFIED, "helped: 95 % of what was lost is back", outcome=HELPED, measurement=measured
    )


def build_refused() -> Action:
    """Returns an action that was refused."""
    action = build_proposal(id="a-aaaaaaaaaaaa", created=T0 - 4000)
    return action.move(T0 - 3900, REFUSED, "refused by bob: not now", ending="refused by bob: not now")
