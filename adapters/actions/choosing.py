"""Another change than the first one: a person names it by its number in the dry run, or by its title.

It goes the way of every change: planned from the target's present state, approved, held by the same limits.
"""

from skewscope.adapters.actions.action_book import ActionRequestError, AuditNote
from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.planner import ImpossibleChangeError
from skewscope.adapters.actions.settings import OBSERVE
from skewscope.adapters.targets.common.base import TargetError
from skewscope.engine.actions.action import EXPIRED, PROPOSED, Action
from skewscope.engine.actions.planning import Option, TargetOffer, list_options
from skewscope.engine.model.incident import Incident

MAX_OPTIONS = 20


def list_choices(coordinator: Coordinator, incident: Incident) -> tuple[Option, ...]:
    """Returns the changes that could be made for an incident, in the order in which they would be tried."""
    planner = coordinator.planner
    offers = [TargetOffer(each.name, each.members, each.support) for each in planner.targets.values()]
    past = list(coordinator.actions.values())
    return list_options(incident, offers, planner.topology, planner.catalogue, past)[:MAX_OPTIONS]


async def propose_choice(coordinator: Coordinator, incident: str, wanted: str, who: str, why: str) -> Action:
    """Plans the change of a person's choice for an incident; it waits for an approval like any proposal.

    Args:
        coordinator: has the actions.
        incident: id of an incident.
        wanted: number of a change in the dry run, from 1, or its title.
        who: the person.
        why: the reason.

    Raises:
        ActionRequestError: the incident or the change is not to be had, something is planned already, or it could not
            be stored.
    """
    present = coordinator.view.incidents.get(incident)
    if present is None:
        raise ActionRequestError(f"no incident {incident[:80]!r} at present")
    live = next(
        (each for each in coordinator.actions.values() if each.is_live and each.reason.incident == incident), None
    )
    if live is not None:
        raise ActionRequestError(f"{live.id} is {live.state} for it: approve that with another option, or end it first")
    return await _propose(coordinator, present, wanted, AuditNote(coordinator.view.t, who, why))


async def approve_choice(coordinator: Coordinator, id_: str, wanted: str, who: str, why: str) -> Action:
    """Approves another change in place of a proposal, which expires.

    Raises:
        ActionRequestError: it is no proposal, the change is not to be had, or it could not be stored.
    """
    action = coordinator.actions.get(id_)
    if action is None or action.state != PROPOSED:
        raise ActionRequestError(f"{id_[:40]} is no proposal: only a proposal can be approved")
    incident = coordinator.view.incidents.get(action.reason.incident)
    if incident is None:
        raise ActionRequestError(f"{id_} cannot be approved any more: its incident is over")
    option = _choose(coordinator, incident, wanted)
    if (option.kind, option.target, option.member) == (action.change.kind, action.change.target, action.change.member):
        return await coordinator.approve(id_, who, why)
    note = AuditNote(coordinator.view.t, who, why)
    ending = f"{who} chose another option: {option.title}"
    made = await _propose(coordinator, incident, wanted, note)

    def expire(present: Action) -> Action:
        if present.state != PROPOSED:
            raise ActionRequestError(f"{id_} is {present.state} by now")
        return present.move(note.t, EXPIRED, ending, ending=ending)

    await coordinator.book.decide(id_, AuditNote(note.t, who, f"action expired: {ending}"), expire)
    return await coordinator.approve(made.id, who, why)


def _choose(coordinator: Coordinator, incident: Incident, wanted: str) -> Option:
    choices = list_choices(coordinator, incident)
    for number, option in enumerate(choices, 1):
        if wanted in (str(number), option.title):
            return option
    listed = "; ".join(f"{number}. {option.title}" for number, option in enumerate(choices, 1))
    raise ActionRequestError(f"no option {wanted[:80]!r}; there are: {listed or 'none'}")


async def _propose(coordinator: Coordinator, incident: Incident, wanted: str, note: AuditNote) -> Action:
    option, settings = _choose(coordinator, incident, wanted), coordinator.settings
    obstacles = list(settings.find_obstacles(incident))
    if settings.mode_of_option(option, incident) == OBSERVE:
        obstacles.append(f"the mode of {option.title} is {OBSERVE}")
    if freeze := coordinator.book.find_freeze(note.t):
        obstacles.append(freeze.describe())
    if not coordinator.may_act():
        obstacles.append("another controller leads: ask that one")
    if obstacles:
        raise ActionRequestError("; ".join(obstacles))
    try:
        action, _mode = await coordinator.planner.plan(option, incident, note.t, settings)
    except (ImpossibleChangeError, TargetError) as error:
        raise ActionRequestError(f"{option.title}: {error}") from None
    if action is None:
        raise ActionRequestError(f"{option.title}: the member is out of use already")
    action = action.note(note.t, f"chosen by {note.who}: {note.what}")
    said = AuditNote(note.t, note.who, f"action proposed: {action.title}: {note.what}")
    if not await coordinator.book.settle(None, action, said):
        raise ActionRequestError("it could not be stored")
    return action
