"""A dry run: every change that could be made for an incident, with the very calls, and what stands in its way.

Targets are read, nothing is changed and nothing is stored. The modes are told, not obeyed, so that a controller that
observes can show what it would propose.
"""

import asyncio
from dataclasses import asdict, dataclass, replace
from typing import Any

from skewscope.adapters.actions.carry_out import find_member
from skewscope.adapters.actions.choosing import list_choices
from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.planner import add_undo, describe_reason
from skewscope.adapters.actions.readings import TargetReadings
from skewscope.adapters.actions.settings import OBSERVE, PROPOSE
from skewscope.adapters.actions.surroundings import read_surroundings
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import describe_calls
from skewscope.engine.actions.action import PROPOSED, Action, ActionPlan
from skewscope.engine.actions.change import ABSENT, Change
from skewscope.engine.actions.limits import find_blocks
from skewscope.engine.actions.planning import Option, build_reason, describe_plan, widen_scope
from skewscope.engine.model.incident import Incident

DRY_RUN_ID = "dry-run"
"""Stands for the id of the action in the calls."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One change that could be made."""

    option: Option
    mode: str
    plan: ActionPlan
    trouble: str = ""
    """Why the calls could not be rendered."""
    blocks: tuple[str, ...] = ()
    """Limits that would make it wait now."""

    def as_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            **asdict(self.option),
            "mode": self.mode,
            "plan": asdict(self.plan),
            "trouble": self.trouble,
            "blocks": self.blocks,
        }


async def plan_changes(
    coordinator: Coordinator, incident: Incident, readings: TargetReadings
) -> tuple[PlannedChange, ...]:
    """Returns the changes that could be made for an incident, in the order in which they would be tried."""
    planner = coordinator.planner
    options = list_choices(coordinator, incident)
    # All at once: they are kept while the options are planned one after another.
    names = {one.target for one in options}
    await asyncio.gather(*(readings.read(planner.targets[name]) for name in names), return_exceptions=True)
    return tuple([await _plan(coordinator, incident, one, readings) for one in options])


async def _plan(
    coordinator: Coordinator, incident: Incident, option: Option, readings: TargetReadings
) -> PlannedChange:
    planner, settings = coordinator.planner, coordinator.settings
    target = planner.targets[option.target]
    mode = settings.mode_of_option(option, incident)
    mitigation = planner.catalogue.mitigations[option.mitigation]
    reason = describe_reason(incident)
    change = Change(option.kind, option.target, option.member, DRY_RUN_ID, reason, share=option.share)
    try:
        state = await readings.read(target)
        before = find_member(target, option.member, state)
        standing = target.find_standing(change, before, state)
        option = replace(option, scope=widen_scope(option.scope, change, target.members, state))
        calls = describe_calls(target.render_change(change, state))
        plan = add_undo(describe_plan(option, incident, mitigation, calls), target, change, before, state)
    except TargetError as error:
        return PlannedChange(option, mode, describe_plan(option, incident, mitigation, ()), str(error))
    trouble = ""
    if before.serving is False or standing != ABSENT:
        trouble = "the member is out of use already" if before.serving is False else "it is made already"
    made = build_reason(incident, option.mitigation)
    t = coordinator.view.t
    action = Action(DRY_RUN_ID, PROPOSED, change, made, option.scope, plan, t, option.reversible)
    around = await read_surroundings(
        planner, coordinator.view, action, state, coordinator.actions.values(), readings.read
    )
    blocks = find_blocks(action, coordinator.actions.values(), settings.limits, around, t)
    return PlannedChange(option, mode, plan, trouble, blocks)


def list_obstacles(coordinator: Coordinator, incident: Incident, changes: tuple[PlannedChange, ...]) -> tuple[str, ...]:
    """Returns why nothing would be planned for an incident now, one sentence each; empty if something would be.

    Limits for which a change would wait are in its `blocks`.
    """
    found = coordinator.list_obstacles(incident)
    if found or not changes:
        return found or ("no target can carry out what is advised",)
    if all(one.mode == OBSERVE for one in changes):
        return (f"the mode is {OBSERVE}: set it to {PROPOSE} in the section actions of the config",)
    return ()
