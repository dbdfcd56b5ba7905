"""Actions for tests."""

from typing import Any

from skewscope.engine.actions.action import Action, ActionPlan, ActionScope, Reason
from skewscope.engine.actions.change import Change, MemberState

T0 = 1_790_000_000.0


def build_action(**fields: Any) -> Action:
    """Returns a drain of replica r2, which is approved; any field may be given."""
    values: dict[str, Any] = {
        "id": "a-1",
        "state": "approved",
        "change": Change("drain", "router", "w2", "a-1", "tp-straggler at r2", T0 + 3600),
        "reason": Reason(
            *("i-1", "tp-straggler", "replica", "r2", "a-rule", "hash"),
            0.95,
            "critical",
            T0 - 5,
            "deweight-replica",
            0.8,
        ),
        "scope": ActionScope("r2", "replica", ("n2",), ("r2",), "pool", 3),
        "plan": ActionPlan(("drain w2",), "all of it", "low", "replica r2", "ready w2", "reading it", ("no weights",)),
        "created": T0,
        "before": MemberState("w2", True, 100.0, details=(("address", "127.0.0.1:1"),)),
        "approved_by": "policy",
        "approved_at": T0,
    }
    return Action(**(values | fields))
