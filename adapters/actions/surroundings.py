"""Reads what limits are checked against: which replicas are in use at all their targets, and which are ill."""

from collections.abc import Awaitable, Callable, Iterable

from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.view import IncidentView
from skewscope.adapters.targets.common.base import Target
from skewscope.engine.actions.action import Action
from skewscope.engine.actions.change import TargetState
from skewscope.engine.actions.limits import Surroundings, is_lasting, list_lost_replicas
from skewscope.engine.actions.planning import find_dependent_replicas

ReadTarget = Callable[[Target], Awaitable[TargetState]]
"""Returns the state of a target; raises TargetError."""


async def read_anew(target: Target) -> TargetState:
    """Returns the present state of a target."""
    return await target.read_state()


async def read_surroundings(
    planner: Planner,
    view: IncidentView,
    action: Action,
    state: TargetState,
    others: Iterable[Action] = (),
    read: ReadTarget = read_anew,
) -> Surroundings:
    """Returns the surroundings of an action.

    Args:
        planner: knows targets and topology.
        view: the incidents of the present.
        action: the action that would begin.
        state: the present state of its own target. Others that know replicas of the same pools are read here.
        others: all known actions. Targets where one of them has made a change without undo are read as well.
        read: reads a target.
    """
    lost = list_lost_replicas(action)
    pools = [pool.replicas for pool in planner.topology.pools if lost.intersection(pool.replicas)]
    names = [name for replicas in pools for name in replicas]
    states: dict[str, TargetState | None] = {action.change.target: state}
    changed = {other.change.target for other in others if is_lasting(other)}
    for target in planner.targets.values():
        concerned = target.name in changed or not target.members.keys().isdisjoint(names)
        if target.name not in states and concerned:
            states[target.name] = await _try(read, target)
    ill = list_ill_replicas(planner, view)
    found = {name: _find_serving(name, planner, states) for name in names}
    return Surroundings(
        planner.topology,
        {name: serving for name, (known, serving) in found.items() if known},
        frozenset(ill),
        ill,
        tuple(name for name, each in states.items() if each is None),
        frozenset(
            (name, one.member) for name, each in states.items() if each for one in each.members.values() if one.serving
        ),
    )


async def _try(read: ReadTarget, target: Target) -> TargetState | None:
    try:
        return await read(target)
    except Exception:  # noqa: BLE001 - its own actions tell the trouble; here it is only unknown
        return None


def _find_serving(replica: str, planner: Planner, states: dict[str, TargetState | None]) -> tuple[bool, bool | None]:
    """Returns whether any target knows a replica, and whether it is in use: at all of them, and none is silent."""
    told: list[bool | None] = []
    for name, state in states.items():
        target = planner.targets.get(name)
        if target is None or replica not in target.members:
            continue
        if state is None:
            return True, None
        member = state.member(target.members[replica])
        told.append(member.serving if member is not None else False)
    if False in told:
        return True, False
    # A target that does not tell at all, such as one for network cards, says nothing against the others.
    return bool(told), True if True in told else None


def list_ill_replicas(planner: Planner, view: IncidentView) -> dict[str, float]:
    """Returns the replicas with a firing diagnosis of their own or of what they need, and the share lost."""
    found: dict[str, float] = {}
    for one in view.incidents.values():
        if one.is_reason:
            for name in find_dependent_replicas(one.name, planner.topology):
                found[name] = max(found.get(name, 0.0), abs(one.impact.change or 0.0))
    return found


def list_newly_ill(planner: Planner, view: IncidentView, action: Action) -> tuple[str, ...]:
    """Returns the other replicas of an action's pool with a diagnosis of their own that opened since it was begun.

    Not those of what load brings about: the work that a change moves to them may do so.
    """
    pool = next((pool.replicas for pool in planner.topology.pools if pool.name == action.scope.pool), ())
    since = action.started_at or action.created
    new = (one for one in view.incidents.values() if one.is_reason and one.opened_at >= since)
    faults = (one for one in new if one.id != action.reason.incident and not planner.causes.is_of_load(one.condition))
    ill = {name for one in faults for name in find_dependent_replicas(one.name, planner.topology)}
    return tuple(sorted(ill.intersection(pool) - {action.scope.entity}))
