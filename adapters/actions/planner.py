"""Makes the plan of an action: which change, at which target, with the calls rendered from the target's state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from skewscope.adapters.actions.carry_out import read_member
from skewscope.adapters.actions.settings import OBSERVE, ActionSettings
from skewscope.adapters.targets.common.base import Target, TargetError
from skewscope.adapters.targets.common.calls import Call, FileCall, describe_calls
from skewscope.engine.actions.action import PROPOSED, Action, ActionPlan, name_action
from skewscope.engine.actions.approval import describe_persons
from skewscope.engine.actions.change import ABSENT, Change, MemberState, TargetState
from skewscope.engine.actions.planning import (
    Option,
    TargetOffer,
    build_reason,
    describe_plan,
    list_options,
    widen_scope,
)
from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue

LOST_TARGET = "its target is not in the config"
OTHER_SYSTEM = "the config names another system for its target"
LOST_MEMBER = "its target does not name the member any more"
LOSSES = (LOST_TARGET, OTHER_SYSTEM, LOST_MEMBER)
"""Why a change in place cannot be read or taken back: it stays as it is, and so does what others did there."""
MAX_REASON = 120
"""Characters of the reason that is written to a target."""


class ImpossibleChangeError(TargetError):
    """A target cannot make a change of a member, such as half of a weight of 1."""


@dataclass(frozen=True)
class Planner:
    """Knows what there is to change."""

    topology: Topology
    catalogue: Catalogue
    targets: Mapping[str, Target] = field(default_factory=dict)
    """By name."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Of the systems that the targets are, by name."""

    @cached_property
    def causes(self) -> CauseGraph:
        """Which condition may bring about which."""
        return CauseGraph(self.catalogue)

    def find_loss(self, action: Action) -> str:
        """Returns why the system at which an action is made cannot be reached by its target, one of LOSSES, or ''."""
        target = self.targets.get(action.change.target)
        if target is None:
            return LOST_TARGET
        if action.fingerprint not in ("", self.fingerprints.get(target.name, "")):
            return OTHER_SYSTEM
        return "" if action.change.member in target.members.values() else LOST_MEMBER

    def follow_system(self, action: Action) -> Action:
        """Returns an action at the target that is its system now, whatever its name; as it is where there is none."""
        names = [name for name, each in self.fingerprints.items() if each == action.fingerprint]
        if not names or action.change.target in names:
            return action
        return replace(action, change=replace(action.change, target=names[0]))

    def list_options(self, incident: Incident, past: Iterable[Action], settings: ActionSettings) -> tuple[Option, ...]:
        """Returns the changes that may be planned for an incident, in order."""
        offers: Sequence[TargetOffer] = [TargetOffer(t.name, t.members, t.support) for t in self.targets.values()]
        options = list_options(incident, offers, self.topology, self.catalogue, past)
        return tuple(one for one in options if settings.mode_of_option(one, incident) != OBSERVE)

    async def plan(
        self, option: Option, incident: Incident, t: float, settings: ActionSettings
    ) -> tuple[Action | None, str]:
        """Returns an action, proposed, and its mode; None where the member is out of use already.

        Raises:
            ImpossibleChangeError: the target cannot make this change of this member.
            TargetError: the target does not answer.
        """
        target = self.targets[option.target]
        mode = settings.mode_of_option(option, incident)
        reason = build_reason(incident, option.mitigation)
        change = Change(option.kind, option.target, option.member, "", describe_reason(incident), share=option.share)
        change = replace(change, action=name_action(reason, change, t))
        before, state = await read_member(target, option.member)
        if before.serving is False or target.find_standing(change, before, state) != ABSENT:
            return None, mode
        mitigation = self.catalogue.mitigations[option.mitigation]
        try:
            option = replace(option, scope=widen_scope(option.scope, change, target.members, state))
            calls = describe_calls(target.render_change(change, state))
            plan = add_undo(describe_plan(option, incident, mitigation, calls), target, change, before, state)
        except TargetError as error:
            raise ImpossibleChangeError(str(error)) from None
        action = Action(change.action, PROPOSED, change, reason, option.scope, plan, t, option.reversible)
        action = replace(action, fingerprint=self.fingerprints.get(target.name, ""))
        if (persons := settings.persons_for(action)) > 1:
            notes = (*plan.notes, describe_persons(persons))
            action = replace(action, plan=replace(plan, notes=notes))
        return action.note(t, "planned"), mode


def add_undo(plan: ActionPlan, target: Target, change: Change, before: MemberState, state: TargetState) -> ActionPlan:
    """Returns a plan with the very calls that take it back; one without undo as it is.

    Raises:
        TargetError: the target cannot make the change.
    """
    calls = target.render_undo(change, before, target.predict(change, state))
    if not target.support[change.kind].reversible or not calls:
        return plan
    undo = "; ".join(map(_tell_call, calls)) if plan.by_hand else plan.undo
    return replace(plan, undo=undo, undo_calls=describe_calls(calls))


def _tell_call(call: Call) -> str:
    """Returns a call as a part of a line: of a file only what is written anew."""
    text = call.describe()
    if not isinstance(call, FileCall):
        return " ".join(text.split())
    lines = [line.removeprefix("+").strip() for line in text.splitlines() if line.startswith("+")]
    return f"in {call.path}: {' and '.join(lines[1:]) or 'without the line of the change'}"


def describe_reason(incident: Incident) -> str:
    """Returns a line of ASCII for people who look at the target."""
    text = f"{incident.condition} at {incident.name}, {100 * incident.confidence:.0f} % sure, {incident.id}"
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)[:MAX_REASON]
