"""One step of an action at its target: begin, apply, observe, undo.

Each new state that stands for calls (`applying`, `undoing`) is stored before the first of them. Whatever a target
raises in a step is a failed try of that action, and of no other.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from skewscope.adapters.actions.action_book import ActionBook, AuditNote
from skewscope.adapters.actions.carry_out import ForeignStateError, find_member, make_change, read_member, undo_change
from skewscope.adapters.actions.effect import SETTLE
from skewscope.adapters.actions.planner import LOSSES, Planner, add_undo
from skewscope.adapters.actions.settings import OBSERVE, PROPOSE, ActionSettings
from skewscope.adapters.actions.surroundings import list_newly_ill, read_surroundings
from skewscope.adapters.actions.traffic import check_traffic
from skewscope.adapters.actions.view import IncidentView
from skewscope.adapters.actions.witness_readings import ASK_AGAIN, WitnessReadings, list_peers
from skewscope.adapters.targets.common.base import Target, TargetError
from skewscope.engine.actions import by_hand, lifecycle, witnesses
from skewscope.engine.actions.action import (
    APPLIED,
    APPLYING,
    APPROVED,
    EXPIRED,
    OVERRIDDEN,
    PROPOSED,
    UNDOING,
    VERIFIED,
    Action,
    Measurement,
)
from skewscope.engine.actions.approval import describe_persons
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, DRAIN, OURS, TargetState
from skewscope.engine.actions.comparison import MemberComparison
from skewscope.engine.actions.grounds import list_missing_grounds
from skewscope.engine.actions.hold_out import find_level
from skewscope.engine.actions.lifecycle import Observation
from skewscope.engine.actions.limits import TAKING_OUT, Surroundings, list_blocks
from skewscope.engine.actions.obstacles import NOT_HELD, NOT_JUDGED
from skewscope.engine.actions.planning import widen_scope
from skewscope.engine.model.incident import Incident

POLICY = "policy"
"""Who approves in the mode `act`."""

log = logging.getLogger(__name__)

Measure = Callable[[Action, float], Measurement]


class SupersededError(TargetError):
    """An action was changed while its next calls were prepared, or they could not be recorded: none is made."""


def describe_trouble(error: Exception) -> str:
    """Returns what went wrong at a target; an unexpected exception is named."""
    return str(error) if isinstance(error, TargetError) else f"unexpected {type(error).__name__}: {str(error)[:200]}"


def drop_numbers(reason: str) -> str:
    """Returns a reason without its numbers: seconds and counts differ from tick to tick."""
    return re.sub(r"\d+", "", reason)


def _is_blind(action: Action, probe: MemberComparison) -> bool:
    """Returns whether a probe could not show what the diagnosis says: so small a loss may be there or not."""
    return not probe.is_slower and not probe.contradicts(action.reason.loss)


def _widen(action: Action, target: Target, state: TargetState) -> Action:
    """Returns an action with all that its change touches."""
    return replace(action, scope=widen_scope(action.scope, action.change, target.members, state))


def _judge_probe(action: Action, probe: MemberComparison | None) -> bool | None:
    """Returns whether a probe found a member well; None where it could not show what the diagnosis says."""
    if probe is None or (action.state == APPLIED and _is_blind(action, probe)):
        return None
    return not probe.is_slower


@dataclass
class ActionSteps:
    """Lets actions go on."""

    settings: ActionSettings
    planner: Planner
    book: ActionBook
    view: IncidentView
    measure: Measure
    readings: WitnessReadings
    may_act: Callable[[], bool] = lambda: True
    """Whether this controller may call targets: of several only the leader may."""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while limits are checked and an intent is stored, so that no two actions use the same room."""
    unforeseen: int = 0
    """Steps that failed in a way that was not foreseen; they are tried again."""
    starts: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """Work given out at its target when each action was seen in state, by action."""

    async def advance(self, target: Target, id_: str) -> Exception | None:
        """Lets an action go on by one step; returns what went wrong at its target, None for nothing."""
        action = self.book.actions.get(id_)
        if action is None or not action.is_live or not self.may_act():
            return None  # A person refused it meanwhile, or another controller leads.
        try:
            await self._go_on(target, action)
        except SupersededError:
            return None
        except Exception as error:  # noqa: BLE001 - an adapter that fails must not stop the other actions
            self.unforeseen += not isinstance(error, TargetError)
            await self._note_trouble(self.book.actions[id_], describe_trouble(error))
            return error
        return None

    async def _go_on(self, target: Target, action: Action) -> None:
        lapsed = self.lapse(action)
        if lapsed is not action:
            await self._settle(action, lapsed, f"action expired: {lapsed.ending}")
            return
        if action.waiting in LOSSES:
            found = replace(action, stuck=False, waiting="")
            self.book.replace(action, found)
            action = found
        steps = {
            PROPOSED: self._ask_again,
            APPROVED: self._begin,
            APPLYING: self._apply,
            APPLIED: self._observe,
            VERIFIED: self._observe,
            UNDOING: self._undo,
        }
        if action.state in steps:
            await steps[action.state](target, action)

    async def _note_trouble(self, action: Action, trouble: str) -> None:
        """Takes over that a step of an action failed: it is tried again, or taken back once its time is over."""
        t, timing = self.view.t, self.settings.timing
        if action.state == APPROVED:
            await self._wait(action, trouble)
        elif not action.is_in_place:
            return
        elif by_hand.awaits_person(action):
            self.book.replace(action, replace(action, waiting=trouble, next_try=t + by_hand.POLL))
        elif action.state in (APPLYING, UNDOING):
            failed = lifecycle.note_failure(action, trouble, timing, t)
            what = "undo" if action.state == UNDOING else "action"
            await self._settle(action, failed, f"{what} failed: {trouble}")
        else:
            waiting = replace(action, waiting=trouble, next_try=t + 2.0)
            judged = lifecycle.judge_without_view(waiting, timing, t)
            if judged is waiting:
                self.book.replace(action, waiting)
            else:
                await self._settle(action, judged, f"action {judged.state}: {judged.ending}")

    # --- whether it may go on

    def mode_of(self, action: Action) -> str:
        """Returns the mode that the settings give to an action now."""
        reason, change = action.reason, action.change
        return self.settings.mode_of(reason.condition, reason.rule, change.target, change.kind)

    def lapse(self, action: Action) -> Action:
        """Returns a proposed or approved action as expired where it must not be made any more; any other as it is."""
        return lifecycle.lapse(action, self.settings.timing, self._find_obstacle(action), self.view.t)

    def _find_obstacle(self, action: Action) -> str:
        incident = self.view.incidents.get(action.reason.incident)
        if incident is None or incident.state != "firing":
            return "the incident is over"
        if loss := self.planner.find_loss(action):
            return loss
        if self.mode_of(action) == OBSERVE:
            return f"the mode is {OBSERVE}"
        return next(self.settings.find_obstacles(incident), "")

    def find_doubt(self, incident: Incident) -> str:
        """Returns why an incident does not suffice for a change that no person has approved; '' for none."""
        known = self.view.preconditions_of(incident, self.planner.topology)
        missing = list_missing_grounds(incident, known, self.settings.timing.grace)
        missing = missing if self.view.is_judged(incident.id) else (NOT_JUDGED, *missing)
        return "; ".join(filter(None, (*missing, self._find_lack_of_witnesses(incident))))

    def _find_lack_of_witnesses(self, incident: Incident) -> str:
        latest = self.readings.latest(incident.id, self.view.t)
        if latest is None:
            return witnesses.find_doubt(incident)
        if latest.contradicts(abs(incident.impact.change or 0.0)):
            return f"{latest.describe()}; a person has to look"
        return witnesses.find_doubt(incident, (latest.witness,) if latest.is_slower else ())

    async def ask_witnesses(
        self, target: Target, action: Action, state: TargetState | None = None, within: float = ASK_AGAIN
    ) -> bool:
        """Has the member of an action that is not made yet compared with its peers, where its target can.

        Not again `within` seconds after a comparison by probes. Returns whether that is over; False while probes run.
        """
        if action.change.kind not in (DEWEIGHT, *TAKING_OUT):
            return True
        try:
            return await self.readings.compare(target, action, state or await target.read_state(), self.view, within)
        except Exception as error:  # noqa: BLE001 - without a witness a person decides
            self.unforeseen += not isinstance(error, TargetError)
            return True

    async def _ask_again(self, target: Target, action: Action) -> None:
        """Asks the witnesses of a proposal: a person reads what they say, and what waits for them may go on then."""
        await self.ask_witnesses(target, action)
        t = self.view.t
        asked, said = replace(action, next_try=t + 1.0), self.readings.describe(action.reason.incident, t)
        if said and not any(what.startswith(said.partition("(")[0]) for _, what in action.history):
            await self._settle(action, asked.note(t, said), f"action proposed: {said}")
        else:
            self.book.replace(action, asked)

    def find_hold(self, action: Action, incident: Incident | None) -> str:
        """Returns why the policy may not approve an action, so that it waits for a person; '' for nothing."""
        doubt = self.find_doubt(incident) if incident is not None else ""
        return doubt or describe_persons(self.settings.persons_for(action), action.approvers)

    def _describe_witness(self, incident: str) -> str:
        """Returns who finds the accused member slower, and by how much; '' for nobody.

        A router cannot tell a slow member from one that is given more, such as longer prompts: where that is not known,
        it is no witness.
        """
        latest = self.readings.latest(incident, self.view.t)
        if latest is None or not latest.is_slower:
            return ""
        is_decided = latest.witness != witnesses.ROUTER or incident not in self.view.judgement.undecided
        return latest.describe() if is_decided else ""

    # --- begin

    async def _begin(self, target: Target, action: Action) -> None:
        """Checks mode and limits against the present state, stores the intent, and makes the calls."""
        if freeze := self.book.find_freeze(self.view.t):
            await self._wait(action, freeze.describe(), ["freeze"])
            return
        before, state = await read_member(target, action.change.member)
        is_out = before.serving is False and action.change.kind in (DEWEIGHT, DRAIN)
        if is_out or target.find_standing(action.change, before, state) != ABSENT:
            why = "the member is out of use already" if is_out else "it is made already, or changed by somebody else"
            await self._settle(action, action.move(self.view.t, EXPIRED, why, ending=why), f"action expired: {why}")
            return
        wide = _widen(action, target, state)
        around = await read_surroundings(self.planner, self.view, wide, state, self.book.actions.values())
        waits = list_blocks(wide, self.book.actions.values(), self.settings.limits, around, self.view.t)
        # It may have waited for limits: what was found before may be over.
        within = ASK_AGAIN if waits else self.settings.timing.probe_every
        if not await self.ask_witnesses(target, action, state, within):
            await self._wait(action, "probes of its member are under way", ["probe"])
            return
        intent = await self._store_intent(target, action, state, around)
        if intent is not None:
            await self._apply(target, intent)

    async def _store_intent(
        self, target: Target, action: Action, state: TargetState, around: Surroundings
    ) -> Action | None:
        """Returns an action that is begun, and stored as such; None for one that must not begin, or has to wait."""
        before = find_member(target, action.change.member, state)
        wide = _widen(action, target, state)
        async with self.starting:
            t = self.view.t
            if self.lapse(action) is not action:
                return None  # The next step lets it expire.
            incident = self.view.incidents.get(action.reason.incident)
            doubt = self.find_hold(action, incident)
            if action.approved_by == POLICY and (doubt or self.mode_of(action) == PROPOSE):
                why = doubt or f"the mode is {PROPOSE} now"
                proposed = action.move(t, PROPOSED, why, approved_by="", approved_at=None)
                proposed = replace(proposed, waiting=doubt)
                await self._settle(action, proposed, "action proposed again: it waits for a person")
                return None
            blocks = list_blocks(wide, self.book.actions.values(), self.settings.limits, around, t)
            waits = {block.text: block.reason for block in blocks}
            if action.approved_by == POLICY and not self.view.holds(action.reason.incident):
                waits[NOT_HELD] = "evidence"
            if waits:
                await self._wait(action, "; ".join(waits), waits.values())
                return None
            change = replace(action.change, expires=t + self.settings.timing.time_to_live)
            plan = add_undo(action.plan, target, change, before, state)
            witness = self._describe_witness(action.reason.incident)
            more = {"started_at": t, "change": change, "plan": plan, "witness": witness, "run": state.run}
            intent = wide.move(t, APPLYING, f"begun: {witness}" if witness else "begun", before=before, **more)
            note = AuditNote(t, action.approved_by, f"action begun: {action.title}")
            return intent if await self.book.settle(action, intent, note) else None

    async def _wait(self, action: Action, why: str, reasons: Iterable[str] = ("target",)) -> None:
        """Notes what an action waits for; only a new reason is stored and counted."""
        waiting = replace(action, waiting=why, next_try=self.view.t + 1.0)
        # Reasons differ in their seconds and counts from tick to tick.
        if drop_numbers(why) != drop_numbers(action.waiting):
            self.book.counts.blocks.update(set(reasons))
            await self._settle(action, waiting.note(self.view.t, f"waits: {why}"), f"action waits: {why}")
        else:
            self.book.replace(action, waiting)

    # --- apply and undo

    async def _await_person(self, target: Target, action: Action) -> None:
        """Looks whether a person has run the calls of an action, or has taken it back."""
        assert action.before is not None
        standing = target.find_standing(action.change, action.before, await target.read_state())
        t = self.view.t
        if action.state == APPLYING:
            found = by_hand.await_run(action, standing, self._find_obstacle(action), self.settings.timing, t)
        else:
            found = by_hand.await_undo(action, standing, t)
        if found.history == action.history:
            self.book.replace(action, found)
        else:
            await self._settle(action, found, f"action {found.state}: {found.history[-1][1]}")

    async def _apply(self, target: Target, action: Action) -> None:
        """Makes the calls; after a restart, those that are left. Those that a person runs are waited for."""
        if action.plan.by_hand:
            await self._await_person(target, action)
            return
        assert action.before is not None
        present = action

        async def admit() -> None:
            nonlocal present
            present = await self._record_call(present)

        if why := self._find_reason_to_give_up(action):
            await self._give_up(target, action, why)
            return
        was_called = action.called_at is not None
        try:
            await make_change(target, action.change, action.before, admit, was_called=was_called)
        except ForeignStateError as error:
            t, why = self.view.t, str(error)
            undo = present.reversible and present.called_at is not None
            left = present.move(t, OVERRIDDEN, why, ending="changed by somebody else")
            ended = lifecycle.begin_undo(present, why, t) if undo else left
            await self._settle(present, ended, f"action {ended.state}: {why}")
            return
        t = self.view.t
        applied = present.move(t, APPLIED, "the target accepted it", applied_at=t)
        await self._settle(present, applied, f"action applied: {action.title}")

    async def _record_call(self, action: Action) -> Action:
        """Returns the action with its first call recorded, before that is made.

        Raises:
            SupersededError: nothing must be called any more.
        """
        if not self.may_act() or self.book.actions.get(action.id) is not action:
            raise SupersededError(action.id)
        if action.called_at is not None:
            return action
        if self.book.find_freeze(self.view.t):
            raise SupersededError(action.id)
        called = replace(action, called_at=self.view.t)
        if not await self.book.settle(action, called, self._note(f"action called: {action.title}")):
            raise SupersededError(action.id)
        return called

    def _find_reason_to_give_up(self, action: Action) -> str:
        """Returns why no call must be made for an action that was begun earlier; '' where it goes on."""
        if self.mode_of(action) == OBSERVE:
            return f"the mode is {OBSERVE}"
        if action.called_at is None and (freeze := self.book.find_freeze(self.view.t)):
            return freeze.describe()
        late = lifecycle.is_late(action, self.settings.timing, self.view.t)
        return (action.waiting or "the controller was stopped while it was applied") if late else ""

    async def _give_up(self, target: Target, action: Action, why: str) -> None:
        standing = ""
        if not action.reversible and action.called_at is not None and action.before is not None:
            standing = target.find_standing(action.change, action.before, await target.read_state())
        ended = lifecycle.give_up(action, why, standing, self.view.t)
        await self._settle(action, ended, f"action {ended.state}: {why}")

    async def _undo(self, target: Target, action: Action) -> None:
        """Takes back what is left of a change, and reads the state."""
        if action.plan.by_hand and action.reversible:
            await self._await_person(target, action)
            return
        assert action.before is not None
        t = self.view.t
        if not action.reversible:
            ended = lifecycle.begin_undo(action, action.ending, t)
            await self._settle(action, ended, f"action {ended.state}: {ended.ending}")
            return
        standing = ABSENT
        if action.called_at is not None:
            await undo_change(target, action.change, action.before, partial(self._check_present, action))
            standing = target.find_standing(action.change, action.before, await target.read_state())
        ended = lifecycle.finish_undo(action, Observation(t, standing), self.settings.timing)
        if ended is action:
            raise TargetError("the change is still there")
        if ended.state == action.state:
            self.book.replace(action, ended)
        else:
            await self._settle(action, ended, f"action {ended.state}: {ended.ending}")

    async def _check_present(self, action: Action) -> None:
        """Raises SupersededError where an action has changed, or another controller leads."""
        if not self.may_act() or self.book.actions.get(action.id) is not action:
            raise SupersededError(action.id)

    # --- observe

    async def _observe(self, target: Target, action: Action) -> None:
        """Reads state, traffic and effect of a change in place, and judges them."""
        assert action.before is not None
        seen = await self._look(target, action)
        judge = lifecycle.judge_trial if action.state == APPLIED else lifecycle.watch_in_place
        is_new = bool(seen.trouble) and not action.has_note(seen.trouble)
        noted = action.note(self.view.t, seen.trouble) if is_new else action
        judged = judge(noted, seen, self.settings.timing)
        if judged.state == OVERRIDDEN and seen.standing == ABSENT:
            # Whoever took it back may have left parts of it, such as the meter of a flow.
            await undo_change(target, action.change, action.before, partial(self._check_present, action))
        if seen.standing == OURS and seen.run:
            judged = replace(judged, run=seen.run)
        if judged.next_try <= self.view.t:
            judged = replace(judged, next_try=self.view.t + (1.0 if judged.state == APPLIED else 2.0))
        if judged.state != action.state or judged.history != action.history:
            await self._settle(action, judged, f"action {judged.state}: {judged.history[-1][1]}")
        else:
            self.book.replace(action, judged)

    async def _look(self, target: Target, action: Action) -> Observation:
        assert action.before is not None
        t, incident = self.view.t, action.reason.incident
        state = await target.read_state()
        standing = by_hand.read_standing(action, target.find_standing(action.change, action.before, state))
        is_shown = self._is_shown(action)
        probe = await self._probe(target, action, state) if standing == OURS and not is_shown else None
        traffic = await self._look_at_traffic(target, action)
        measurement, trouble = self._measure(action, t)
        return Observation(
            t,
            standing,
            self.view.is_firing(incident),
            self.view.quiet_for(incident),
            traffic,
            measurement,
            _judge_probe(action, probe),
            counts_work=bool(self.starts.get(action.id)),
            has_probe=self.readings.has_probe(incident, t, self.settings.timing.probe_every),
            flaps=find_level(action, self.book.actions.values()),
            is_shown=is_shown,
            trouble=trouble,
            run=state.run,
            confirmation=await self._confirm(target, action, probe),
            others_ill=list_newly_ill(self.planner, self.view, action) if action.state == APPLIED else (),
        )

    def _is_shown(self, action: Action) -> bool:
        """Returns whether telemetry shows that a fault goes on, and a probe could not show the contrary.

        Of a member without work it shows what that answered to probes, and what it did before. Were a probe to wait
        until that looks well, each would put off the next one: so it counts for a loss that is too small for probes.
        """
        if action.state != VERIFIED or not self.view.holds(action.reason.incident):
            return False
        latest = self.readings.latest(action.reason.incident, self.view.t)
        is_blind = latest is not None and latest.witness == witnesses.PROBE and _is_blind(action, latest)
        return is_blind or action.change.kind not in TAKING_OUT

    async def _probe(self, target: Target, action: Action, state: TargetState) -> MemberComparison | None:
        """Returns how the member of a change in place compares with its peers by a probe; None for no probe now."""
        t = self.view.t
        settled = action.applied_at is not None and t - action.applied_at >= SETTLE
        if action.state == APPLIED and not (settled and action.seen_in_state):
            return None
        peers = list_peers(self.planner, self.view, target, action, state)
        return await self.readings.probe_in_place(target, action, peers, t, self.settings.timing.probe_every)

    async def _confirm(self, target: Target, action: Action, probe: MemberComparison | None) -> str:
        """Returns what shows the effect of a change beside the signals of the diagnosis; '' for nothing.

        A probe that finds the member well outweighs the router: that only shows that the pool is quicker without what
        the member was given, such as long prompts.
        """
        if action.state != APPLIED:
            return ""
        t = self.view.t
        await self.readings.sample(target, t)
        latest = probe or self.readings.latest(action.reason.incident, t)
        is_new = latest is not None and action.applied_at is not None and latest.t > action.applied_at
        if is_new and latest is not None and latest.contradicts(action.reason.loss):
            return ""
        if action.witness and (by_router := self.readings.confirm_by_router(target, action, t)):
            return by_router
        if is_new and latest is not None:
            return latest.describe() if latest.is_slower else ""
        follows = action.witness and action.seen_in_traffic
        return f"before the change: {action.witness}; it gets no work any more" if follows else ""

    def _measure(self, action: Action, t: float) -> tuple[Measurement | None, str]:
        """Returns what is measured of the effect; None and the trouble where that fails: all else is still judged."""
        try:
            return self.measure(action, t), ""
        except Exception as error:
            self.unforeseen += 1
            trouble = f"its effect cannot be measured: {describe_trouble(error)}"
            if not action.has_note(trouble):
                log.exception("%s: %s", action.id, trouble)
            return None, trouble

    async def _look_at_traffic(self, target: Target, action: Action) -> bool | None:
        """Returns whether work follows a change; None where that cannot be told: then its effect alone decides."""
        if action.state != APPLIED or action.seen_in_traffic is not None:
            return None
        try:
            now = await target.read_work()
        except Exception:  # noqa: BLE001 - a target that cannot count must not keep a change in place
            return None
        if not action.seen_in_state or action.id not in self.starts:
            self.starts[action.id] = now
            return None
        return check_traffic(action.change, self.starts[action.id], now)

    # --- storage

    def _note(self, what: str) -> AuditNote:
        return AuditNote(self.view.t, "controller", what)

    async def _settle(self, before: Action, after: Action, what: str) -> None:
        """Stores and takes over a new state, unless the action has changed since `before`."""
        await self.book.settle(before, after, self._note(what))
