"""Plans, approves, carries out, verifies and undoes actions.

`step` is called after each tick and never waits for a target: each target has at most one job under way, so one that
hangs delays its own actions only. A state that stands for calls (`applying`, `undoing`) is stored before the first of
them, so that a controller that dies in the middle finishes or undoes the action after its restart.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, read_member, undo_change
from skewscope.adapters.actions.planner import ImpossibleChangeError, Planner
from skewscope.adapters.actions.probing import probe_member
from skewscope.adapters.actions.settings import ACT, ActionSettings
from skewscope.adapters.actions.traffic import check_traffic
from skewscope.adapters.actions.view import IncidentView
from skewscope.adapters.targets.common.base import Target, TargetError
from skewscope.engine.actions import lifecycle
from skewscope.engine.actions.action import (
    APPLIED,
    APPLYING,
    APPROVED,
    EXPIRED,
    FAILED,
    NOT_HELPED,
    OVERRIDDEN,
    PROPOSED,
    REFUSED,
    UNDOING,
    VERIFIED,
    Action,
    Measurement,
)
from skewscope.engine.actions.change import OURS, TargetState
from skewscope.engine.actions.lifecycle import Observation
from skewscope.engine.actions.limits import Surroundings, find_blocks
from skewscope.engine.actions.planning import Option
from skewscope.engine.advice.advice import ContextFact
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.locality import Entity

KEPT_SECONDS = 86400.0
"""Seconds that ended actions are kept in memory: limits and flaps look back that far."""
CLOSE_WAIT = 10.0
"""Seconds that jobs under way may take when the controller stops."""
REPLAN_WAIT = 10.0
"""Seconds before a plan that could not be made is tried again."""
POLICY = "policy"
"""Who approves in the mode `act`."""

log = logging.getLogger(__name__)

Job = Callable[[], Awaitable[None]]
Spawn = Callable[[Job], None]
Measure = Callable[[Action, float], Measurement]


class ActionStoreError(Exception):
    """An action could not be stored."""


class ActionRequestError(Exception):
    """A person asked for what an action cannot do now."""


class ActionStore(Protocol):
    """Where actions are kept."""

    async def save(self, action: Action, t: float, who: str, what: str) -> None:
        """Stores an action durably, with a line of the audit log.

        Raises:
            ActionStoreError: it could not be written.
        """
        ...


def _place(action: Action) -> Entity:
    """Returns the entity that was changed, as policies know it: a replica is a group."""
    scope = action.scope
    return Entity("group", scope.entity) if scope.kind == "replica" else Entity("node", scope.nodes[0])


@dataclass
class _TargetWork:
    """What is known of one target between jobs."""

    busy: bool = False
    start: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """Work given out when each action was seen in state, by action."""
    trouble: str = ""


@dataclass
class Coordinator:
    """All actions of one controller."""

    settings: ActionSettings
    planner: Planner
    store: ActionStore
    measure: Measure = lambda action, _t: action.measurement
    spawn: Spawn | None = None
    """How a job is started; None for a task of the event loop."""
    actions: dict[str, Action] = field(default_factory=dict)
    view: IncidentView = field(default_factory=IncidentView)
    _work: dict[str, _TargetWork] = field(default_factory=dict)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _replan_at: dict[str, float] = field(default_factory=dict)
    _impossible: dict[tuple[str, str, str, str], str] = field(default_factory=dict)
    """Why a change cannot be made, by incident, kind, target and member."""
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def list_failures(self) -> tuple[ContextFact, ...]:
        """Returns the mitigations that did not help where they were tried, as facts for policies."""
        tried = [one for one in self.actions.values() if one.outcome == NOT_HELPED or one.state == FAILED]
        facts = {ContextFact("tried", _place(one), one.reason.mitigation) for one in tried}
        return tuple(sorted(facts))

    # --- each tick

    def step(self, t: float, incidents: Sequence[Incident], unknown: frozenset[str] = frozenset()) -> None:
        """Starts what has to be done at a time; returns at once."""
        self.view.update(t, incidents, unknown)
        wanted = self._choose_options(t)
        for target in self.planner.targets.values():
            work = self._work.setdefault(target.name, _TargetWork())
            due = self._due_actions(target, t)
            if not work.busy and (due or target.name in wanted):
                self._start(work, self._build_job(target, due, wanted.get(target.name)))
        self._forget(t)

    def _choose_options(self, t: float) -> dict[str, tuple[Option, Incident]]:
        """Returns for each target the first change to plan there, with the surest incident that wants it."""
        found: dict[str, tuple[Option, Incident]] = {}
        if self.settings.is_observing:
            return found
        for incident in self._plannable(t):
            past = [one for one in self.actions.values() if one.reason.incident == incident.id]
            options = [
                option
                for option in self.planner.list_options(incident, past, self.settings)
                if (incident.id, option.kind, option.target, option.member) not in self._impossible
            ]
            if options:
                found.setdefault(options[0].target, (options[0], incident))
            else:
                self._replan_at[incident.id] = t + REPLAN_WAIT
        return found

    def _due_actions(self, target: Target, t: float) -> list[str]:
        """Returns the actions at a target that have to go on: undoing first, then what is under way, then the rest."""
        order = (UNDOING, APPLYING, APPLIED, VERIFIED, APPROVED, PROPOSED)
        mine = [one for one in self.actions.values() if one.is_live and one.change.target == target.name]
        due = [one for one in mine if one.next_try <= t and (one.state != PROPOSED or self._is_over(one, t))]
        return [one.id for one in sorted(due, key=lambda one: (order.index(one.state), one.created, one.id))]

    def _build_job(self, target: Target, due: Sequence[str], wanted: tuple[Option, Incident] | None) -> Job:
        """Returns a job that lets each due action go on by one step, and then makes a plan."""

        async def run() -> None:
            for id_ in due:
                await self._advance(target, id_)
            if wanted is not None:
                option, incident = wanted
                self._replan_at[incident.id] = self.view.t + REPLAN_WAIT
                await self._plan(target, option, incident)

        return run

    def _is_over(self, action: Action, t: float) -> bool:
        firing = self.view.is_firing(action.reason.incident) is not False
        return lifecycle.lapse(action, self.settings.timing, firing, t) is not action

    def _plannable(self, t: float) -> list[Incident]:
        """Returns the incidents for which nothing is planned yet, the surest first."""
        taken = {one.reason.incident for one in self.actions.values() if one.is_live}
        # What a person refused, undid or changed otherwise is not tried again for the same incident.
        refused = {one.reason.incident for one in self.actions.values() if one.ended_by or one.state == OVERRIDDEN}
        found = [
            one
            for one in self.view.incidents.values()
            if self.settings.admits(one)
            and one.id not in taken
            and one.id not in refused
            and one.id not in self.view.unknown
            and self._replan_at.get(one.id, t) <= t
        ]
        return sorted(found, key=lambda one: (-one.confidence, one.opened_at, one.id))

    def _start(self, work: _TargetWork, job: Job) -> None:
        work.busy = True

        async def run() -> None:
            try:
                await job()
            except Exception:
                log.exception("an action failed in an unexpected way")
            finally:
                work.busy = False

        if self.spawn is not None:
            self.spawn(run)
            return
        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _forget(self, t: float) -> None:
        old = [id_ for id_, one in self.actions.items() if one.ended_at is not None and one.ended_at < t - KEPT_SECONDS]
        for id_ in old:
            del self.actions[id_]
        live = {one.id for one in self.actions.values() if one.is_live}
        for work in self._work.values():
            work.start = {id_: start for id_, start in work.start.items() if id_ in live}
        known = self.view.incidents
        self._impossible = {key: why for key, why in self._impossible.items() if key[0] in known}
        self._replan_at = {id_: at for id_, at in self._replan_at.items() if id_ in self.view.incidents}

    async def close(self) -> None:
        """Waits for the jobs under way; what they have stored is continued by the next run."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_WAIT)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # --- plans

    async def _plan(self, target: Target, option: Option, incident: Incident) -> None:
        try:
            action, mode = await self.planner.plan(option, incident, self.view.t, self.settings)
        except ImpossibleChangeError as error:
            # The next change in order is planned at the next tick.
            self._impossible[incident.id, option.kind, option.target, option.member] = str(error)
            self._replan_at.pop(incident.id, None)
            return
        except TargetError as error:
            self._note_trouble(target, str(error))
            return
        if action is None:
            return
        t = self.view.t
        if mode == ACT:
            action = action.move(t, APPROVED, "approved by policy", approved_by=POLICY, approved_at=t)
        await self._save(action, POLICY if mode == ACT else "planner", f"action {action.state}: {action.title}")

    def _note_trouble(self, target: Target, trouble: str) -> None:
        work = self._work[target.name]
        if trouble and trouble != work.trouble:
            log.warning("%s: %s", target.name, trouble)
        work.trouble = trouble

    # --- one step of an action

    async def _advance(self, target: Target, id_: str) -> None:
        action = self.actions[id_]
        if not action.is_live:
            return  # A person refused it meanwhile.
        if action.state in (PROPOSED, APPROVED):
            firing = self.view.is_firing(action.reason.incident) is not False
            lapsed = lifecycle.lapse(action, self.settings.timing, firing, self.view.t)
            if lapsed is not action:
                await self._settle(action, lapsed, f"action expired: {lapsed.ending}")
                return
            if action.state == PROPOSED:
                return
        steps = {
            APPROVED: self._begin,
            APPLYING: self._apply,
            APPLIED: self._observe,
            VERIFIED: self._observe,
            UNDOING: self._undo,
        }
        await steps[action.state](target, action)

    async def _begin(self, target: Target, action: Action) -> None:
        """Checks the limits against the present state, stores the intent, and makes the calls."""
        t = self.view.t
        try:
            before, state = await read_member(target, action.change.member)
        except TargetError as error:
            await self._wait(action, str(error))
            return
        if before.serving is False and action.change.kind in ("deweight", "drain"):
            why = "the member is out of use already"
            await self._settle(action, action.move(t, EXPIRED, why, ending=why), f"action expired: {why}")
            return
        async with self._starting:
            around = Surroundings(self.planner.topology, self._serving(target, action, state))
            blocks = find_blocks(action, self.actions.values(), self.settings.limits, around, t)
            if self.actions[action.id] is not action:
                return  # A person refused it meanwhile.
            if blocks:
                await self._wait(action, "; ".join(blocks))
                return
            change = replace(action.change, expires=t + self.settings.timing.time_to_live)
            intent = action.move(t, APPLYING, "begun", before=before, started_at=t, change=change)
            if not await self._save(intent, action.approved_by, f"action begun: {action.title}"):
                return
        await self._apply(target, intent)

    def _serving(self, target: Target, action: Action, state: TargetState) -> dict[str, bool | None]:
        """Returns whether each replica of the action's pool is in use, by the name of the replica."""
        pool = next((each for each in self.planner.topology.pools if each.name == action.scope.pool), None)
        if pool is None:
            return {}
        members = {name: state.member(target.members[name]) for name in pool.replicas if name in target.members}
        return {name: member.serving if member else False for name, member in members.items()}

    async def _wait(self, action: Action, why: str) -> None:
        """Notes what an action waits for; only a new reason is stored."""
        waiting = replace(action, waiting=why, next_try=self.view.t + 1.0)
        # Reasons differ in their seconds and counts from tick to tick.
        if re.sub(r"\d+", "", why) != re.sub(r"\d+", "", action.waiting):
            await self._settle(action, waiting.note(self.view.t, f"waits: {why}"), f"action waits: {why}")
        else:
            self._replace(action, waiting)

    async def _apply(self, target: Target, action: Action) -> None:
        """Makes the calls; after a restart, those that are left."""
        assert action.before is not None
        try:
            await make_change(target, action.change, action.before)
        except ForeignStateError as error:
            await self._settle(action, lifecycle.begin_undo(action, str(error), self.view.t), f"action undo: {error}")
        except TargetError as error:
            failed = lifecycle.note_failure(action, str(error), self.settings.timing, self.view.t)
            await self._settle(action, failed, f"action failed: {error}")
        else:
            t = self.view.t
            applied = action.move(t, APPLIED, "the target accepted it", applied_at=t)
            await self._settle(action, applied, f"action applied: {action.title}")

    async def _undo(self, target: Target, action: Action) -> None:
        """Takes back what is left of a change, and reads the state."""
        assert action.before is not None
        try:
            await undo_change(target, action.change, action.before)
            state = await target.read_state()
        except TargetError as error:
            failed = lifecycle.note_failure(action, str(error), self.settings.timing, self.view.t)
            await self._settle(action, failed, f"undo failed: {error}")
            return
        seen = Observation(self.view.t, target.find_standing(action.change, action.before, state))
        ended = lifecycle.finish_undo(action, seen)
        if ended is action:
            ended = lifecycle.note_failure(action, "the change is still there", self.settings.timing, self.view.t)
        await self._settle(action, ended, f"action {ended.state}: {ended.ending}")

    async def _observe(self, target: Target, action: Action) -> None:
        """Reads state, traffic and effect of a change in place, and judges them."""
        try:
            seen = await self._look(target, action)
        except TargetError as error:
            self._note_trouble(target, str(error))
            self._replace(action, self._judge_unseen(action, str(error)))
            return
        self._note_trouble(target, "")
        judge = lifecycle.judge_trial if action.state == APPLIED else lifecycle.watch_in_place
        judged = judge(action, seen, self.settings.timing)
        if judged.next_try <= self.view.t:
            judged = replace(judged, next_try=self.view.t + (1.0 if judged.state == APPLIED else 2.0))
        if judged.state != action.state or judged.history != action.history:
            await self._settle(action, judged, f"action {judged.state}: {judged.history[-1][1]}")
        else:
            self._replace(action, judged)

    def _judge_unseen(self, action: Action, trouble: str) -> Action:
        """Returns an action whose target does not answer: past its time to live it is undone as soon as it does."""
        t = self.view.t
        if t - (action.applied_at or t) >= self.settings.timing.time_to_live:
            return lifecycle.begin_undo(action, "its time is over", t)
        return replace(action, waiting=trouble, next_try=t + 2.0)

    async def _look(self, target: Target, action: Action) -> Observation:
        assert action.before is not None
        t, incident = self.view.t, action.reason.incident
        state = await target.read_state()
        standing = target.find_standing(action.change, action.before, state)
        probe_good: bool | None = None
        if action.state == VERIFIED and standing == OURS and self.view.is_firing(incident) is not True:
            peers = [m.member for m in state.members.values() if m.serving and m.member != action.change.member]
            probe_good = await probe_member(target, action.change.member, peers)
        traffic = await self._look_at_traffic(target, action)
        return Observation(
            t,
            standing,
            self.view.is_firing(incident),
            self.view.quiet_for(incident),
            traffic,
            self.measure(action, t),
            probe_good,
            counts_work=bool(self._work[target.name].start.get(action.id)),
            has_probe=probe_good is not None,
            flaps=self._count_flaps(action),
        )

    async def _look_at_traffic(self, target: Target, action: Action) -> bool | None:
        if action.state != APPLIED or action.seen_in_traffic is not None:
            return None
        now = await target.read_work()
        start = self._work[target.name].start
        if not action.seen_in_state or action.id not in start:
            start[action.id] = now
            return None
        return check_traffic(action.change, start[action.id], now)

    def _count_flaps(self, action: Action) -> int:
        """Returns how many earlier changes of the member for the same condition were undone since it seemed well."""
        return sum(
            other.id != action.id
            and other.scope.entity == action.scope.entity
            and other.reason.condition == action.reason.condition
            and other.verified_at is not None
            and other.ended_at is not None
            and action.created - KEPT_SECONDS < other.ended_at <= action.created
            for other in self.actions.values()
        )

    # --- storage

    def resume(self, actions: Sequence[Action], t: float) -> None:
        """Takes over stored actions after a start: intents that are too old to be carried out are undone."""
        for stored in actions:
            action = stored
            begun = stored.started_at if stored.started_at is not None else t
            if stored.state == APPLYING and t - begun > self.settings.timing.apply_within:
                action = lifecycle.begin_undo(stored, "the controller was stopped while it was applied", t)
            self.actions[action.id] = replace(action, next_try=min(action.next_try, t))

    def _replace(self, before: Action, after: Action) -> None:
        """Takes over a new state, unless a person has changed the action since `before`."""
        if self.actions.get(before.id) is before:
            self.actions[before.id] = after

    async def _settle(self, before: Action, after: Action, what: str) -> None:
        """Stores and takes over a new state, unless a person has changed the action since `before`."""
        if self.actions.get(before.id) is before:
            await self._save(after, "controller", what)

    async def _save(self, action: Action, who: str, what: str) -> bool:
        """Stores an action and takes it over; returns False where it could not be stored.

        An undo goes on without a store: what was changed is taken back in any case.
        """
        try:
            await self.store.save(action, self.view.t, who, what)
        except ActionStoreError as error:
            log.error("%s: %s", action.id, error)  # noqa: TRY400
            if action.state in (PROPOSED, APPROVED, APPLYING):
                return False
        self.actions[action.id] = action
        return True

    # --- what persons ask for

    async def approve(self, id_: str, who: str, why: str) -> Action:
        """Approves a proposal.

        Raises:
            ActionRequestError: there is no such action, or it is no proposal.
        """
        action = self._find(id_)
        if action.state != PROPOSED:
            raise ActionRequestError(f"{id_} is {action.state}: only a proposal can be approved")
        t = self.view.t
        approved = action.move(t, APPROVED, f"approved by {who}: {why}", approved_by=who, approved_at=t)
        return await self._save_request(approved, who, f"action approved: {why}")

    async def refuse(self, id_: str, who: str, why: str) -> Action:
        """Refuses a proposal, or an approved action that has not begun.

        Raises:
            ActionRequestError: there is no such action, or it has begun.
        """
        action = self._find(id_)
        if action.state not in (PROPOSED, APPROVED):
            raise ActionRequestError(
                f"{id_} is {action.state}: undo it instead" if action.is_in_place else f"{id_} is over"
            )
        said = f"refused by {who}: {why}"
        refused = action.move(self.view.t, REFUSED, said, ending=said, ended_by=who)
        return await self._save_request(refused, who, f"action refused: {why}")

    async def undo(self, id_: str, who: str, why: str) -> Action:
        """Has a change in place taken back.

        Raises:
            ActionRequestError: there is no such action, it is not in place, or it has no undo.
        """
        action = self._find(id_)
        if action.state not in (APPLYING, APPLIED, VERIFIED):
            raise ActionRequestError(f"{id_} is {action.state}: nothing of it is in place")
        if not action.reversible:
            raise ActionRequestError(f"{id_} has no undo")
        return await self._save_request(
            lifecycle.begin_undo(action, f"asked by {who}: {why}", self.view.t, who), who, f"action undo: {why}"
        )

    def _find(self, id_: str) -> Action:
        if id_ not in self.actions:
            raise ActionRequestError(f"no action {id_[:40]!r}")
        return self.actions[id_]

    async def _save_request(self, action: Action, who: str, what: str) -> Action:
        try:
            await self.store.save(action, self.view.t, who, what)
        except ActionStoreError as error:
            raise ActionRequestError(f"it could not be stored: {error}") from None
        self.actions[action.id] = action
        return action
