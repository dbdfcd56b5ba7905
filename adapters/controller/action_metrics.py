"""Actions as Prometheus metrics: how many are in each state, what waits and why, what a person has to look at."""

from collections import Counter
from collections.abc import Iterator

from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.controller.incident_metrics import Family
from skewscope.engine.actions.action import (
    FINAL_STATES,
    HELPED,
    LIVE_STATES,
    NOT_HELPED,
    PROPOSED,
    UNPROVEN,
    Action,
)
from skewscope.engine.actions.limits import BLOCK_REASONS, find_breaker_end

OTHER_REASONS = ("freeze", "target", "evidence")
"""Reasons to wait beside the kinds of limits: all actions are frozen; the target does not answer or refuses; the
evidence does not hold at present."""


def metric_families(coordinator: Coordinator) -> Iterator[Family]:
    """Yields the metrics of a controller's actions; all of them, whether or not it has any."""
    t, actions = coordinator.view.t, list(coordinator.actions.values())
    counts, limits = coordinator.book.counts, coordinator.settings.limits
    yield from _present_families(actions, t)
    frozen = coordinator.book.find_freeze(t) is not None
    yield "skewscope_actions_frozen", "gauge", "Whether nothing new begins, as a person froze it.", [({}, frozen)]
    is_open = find_breaker_end(actions, limits, t) is not None
    yield "skewscope_action_breaker_open", "gauge", "Whether nothing new begins after failures.", [({}, is_open)]
    for name, meaning, label, known, result in (
        ("entered", "Actions that came into a state.", "state", (*LIVE_STATES, *FINAL_STATES), counts.entered),
        ("judged", "Actions whose effect was judged.", "outcome", (HELPED, NOT_HELPED, UNPROVEN), counts.outcomes),
        ("blocked", "Waits of approved actions.", "reason", (*BLOCK_REASONS, *OTHER_REASONS), counts.blocks),
    ):
        yield f"skewscope_actions_{name}_total", "counter", meaning, [({label: each}, result[each]) for each in known]


def _present_families(actions: list[Action], t: float) -> Iterator[Family]:
    states = Counter(item.state for item in actions)
    proposals = [t - item.created for item in actions if item.state == PROPOSED]
    yield "skewscope_actions", "gauge", "Actions by state.", [({"state": item}, states[item]) for item in LIVE_STATES]
    stuck = [item for item in actions if item.is_live and item.stuck]
    yield "skewscope_actions_stuck", "gauge", "Actions that need a person, such as a failing undo.", [({}, len(stuck))]
    yield (
        *("skewscope_action_oldest_proposal_seconds", "gauge", "Age of the proposal that waits longest; 0 for none."),
        [({}, max(proposals, default=0.0))],
    )
