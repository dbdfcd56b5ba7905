"""Plans, approves, carries out, verifies and undoes actions.

`step` is called after each tick and never waits for a target: each target has at most one job under way, so one that
hangs delays its own actions only. What a job does with an action is in `steps.py`; each change of an action goes
through its book, so that a controller that dies in the middle finishes or undoes it after its restart.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from itertools import islice
from typing import Any

from skewscope.adapters.actions.action_book import (
    ActionBook,
    ActionRequestError,
    ActionStore,
    ActionStoreError,
    AuditNote,
)
from skewscope.adapters.actions.planner import ImpossibleChangeError, Planner
from skewscope.adapters.actions.settings import ACT, OBSERVE, PROPOSE, ActionSettings
from skewscope.adapters.actions.steps import POLICY, ActionSteps, Measure, describe_trouble, drop_numbers
from skewscope.adapters.actions.view import NOTHING_KNOWN, IncidentView, JudgementState
from skewscope.adapters.actions.witness_readings import WitnessReadings
from skewscope.adapters.runtime.tasks import record_failure, start_job
from skewscope.adapters.targets.common.base import Target, TargetError
from skewscope.engine.actions import by_hand, lifecycle
from skewscope.engine.actions.action import (
    APPLIED,
    APPLYING,
    APPROVED,
    FAILED,
    NOT_HELPED,
    OVERRIDDEN,
    PROPOSED,
    REFUSED,
    UNDOING,
    VERIFIED,
    Action,
)
from skewscope.engine.actions.approval import add_approval
from skewscope.engine.actions.obstacles import list_past_obstacles
from skewscope.engine.actions.planning import Option
from skewscope.engine.advice.advice import ContextFact
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.locality import Entity

__all__ = ["ActionRequestError", "ActionStore", "ActionStoreError", "Coordinator"]

CLOSE_WAIT = 10.0
"""Seconds that jobs under way may take when the controller stops."""
MAX_IDLE = 1000
"""Incidents for which it is told why nothing is planned."""
REPLAN_WAIT = 10.0
"""Seconds before a plan that could not be made is tried again."""
PROBES = "probes of a member"
"""Name of the tasks that wait for members, which may hang."""

log = logging.getLogger(__name__)

Job = Callable[[], Coroutine[Any, Any, None]]
Spawn = Callable[[Job], None]


def _place(action: Action) -> Entity:
    """Returns the entity that was changed, as policies know it: a replica is a group."""
    scope = action.scope
    return Entity("group", scope.entity) if scope.kind == "replica" else Entity("node", scope.nodes[0])


def _approve_by_policy(action: Action, t: float) -> Action:
    return action.move(t, APPROVED, "approved by policy", approved_by=POLICY, approved_at=t)


@dataclass
class _Work:
    """What is known of one target between jobs."""

    busy: bool = False
    trouble: str = ""


@dataclass
class Coordinator:
    """All actions of one controller."""

    settings: ActionSettings
    planner: Planner
    store: InitVar[ActionStore]
    measure: InitVar[Measure | None] = None
    spawn: Spawn | None = None
    """How a job is started; None for a task of the event loop."""
    may_act: Callable[[], bool] = lambda: True
    """Whether this controller may change anything: of several only the leader may."""
    view: IncidentView = field(default_factory=IncidentView)
    book: ActionBook = field(init=False)
    steps: ActionSteps = field(init=False)
    _work: dict[str, _Work] = field(default_factory=dict)
    _chores: _Work = field(default_factory=_Work)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _is_closed: bool = False
    _replan_at: dict[str, float] = field(default_factory=dict)
    _impossible: dict[tuple[str, str, str, str], str] = field(default_factory=dict)
    """Why a change cannot be made, by incident, kind, target and member."""

    def __post_init__(self, store: ActionStore, measure: Measure | None) -> None:
        self.book = ActionBook(store)
        measure = measure or (lambda action, _t: action.measurement)
        readings = WitnessReadings(self.planner, self._start_probes)
        self.steps = ActionSteps(self.settings, self.planner, self.book, self.view, measure, readings, self.may_act)

    @property
    def actions(self) -> Mapping[str, Action]:
        """All known actions by id: those that are live, and ended ones for as long as they count."""
        return self.book.actions

    def list_failures(self) -> tuple[ContextFact, ...]:
        """Returns the mitigations that did not help where they were tried, as facts for policies."""
        tried = [one for one in self.actions.values() if one.outcome == NOT_HELPED or one.state == FAILED]
        facts = {ContextFact("tried", _place(one), one.reason.mitigation) for one in tried}
        return tuple(sorted(facts))

    # --- each tick

    def step(self, t: float, incidents: Sequence[Incident], judgement: JudgementState = NOTHING_KNOWN) -> None:
        """Starts what has to be done at a time; returns at once."""
        if self._is_closed:
            return
        if t < self.view.t:
            self.shift(t - self.view.t)
        self.view.update(t, incidents, judgement)
        if not self._chores.busy and self.may_act() and (chores := [*self._list_chores(), *self._list_unsaved()]):
            self._start(self._chores, self._build_chores_job(chores))
        wanted = self._choose_options(t)
        for target in self.planner.targets.values():
            work = self._work.setdefault(target.name, _Work())
            due = self._due_actions(target, t)
            if not work.busy and (due or target.name in wanted):
                self._start(work, self._build_job(target, due, wanted.get(target.name)))
        self._forget(t)

    def _list_chores(self) -> Iterator[tuple[Action, Action, str]]:
        """Yields the actions that change without their target, which may hang, or be gone: before, after, and why."""
        for one in self.actions.values():
            lapsed = self.steps.lapse(one)
            if lapsed is not one:
                yield one, lapsed, f"action expired: {lapsed.ending}"
            elif (doubt := self._find_present_doubt(one)) == "":
                yield one, _approve_by_policy(one, self.view.t), f"action approved: {one.title}; its doubt is gone"
            elif doubt is not None and drop_numbers(doubt) != drop_numbers(one.waiting):
                waits = replace(one, waiting=doubt).note(self.view.t, f"waits for a person: {doubt}")
                yield one, waits, f"action waits: {doubt}"
            elif one.is_in_place and (loss := self.planner.find_loss(one)) and one.waiting != loss:
                stuck = replace(one, stuck=True, waiting=loss).note(self.view.t, loss)
                yield one, stuck, f"action is stuck: {loss}"

    def _find_present_doubt(self, action: Action) -> str | None:
        """Returns why the policy still leaves an action to a person, '' where it need not; None where it never did."""
        incident = self.view.incidents.get(action.reason.incident)
        if incident is None or action.state != PROPOSED or not action.waiting or self.steps.mode_of(action) != ACT:
            return None
        if not self.view.holds(incident.id):
            return None  # What does not hold at present is no ground to approve anything.
        return self.steps.find_hold(action, incident)

    def _list_unsaved(self) -> Iterator[tuple[Action, Action, str]]:
        """Yields the actions that went on while the store could not be written."""
        for id_ in sorted(self.book.unsaved):
            one = self.actions[id_]
            yield one, one, f"action {one.state}, stored again: {one.ending}"

    def _build_chores_job(self, chores: Sequence[tuple[Action, Action, str]]) -> Job:
        async def run() -> None:
            for before, after, what in chores:
                await self.book.settle(before, after, AuditNote(self.view.t, "controller", what))

        return run

    def _choose_options(self, t: float) -> dict[str, tuple[Option, Incident]]:
        """Returns for each target the first change to plan there, with the surest incident that wants it."""
        found: dict[str, tuple[Option, Incident]] = {}
        if self.settings.is_observing or self.book.find_freeze(t):
            return found
        past = self._past_by_incident()
        for incident in self._plannable(t):
            options = [
                option
                for option in self.planner.list_options(incident, past.get(incident.id, ()), self.settings)
                if (incident.id, option.kind, option.target, option.member) not in self._impossible
            ]
            if options:
                found.setdefault(options[0].target, (options[0], incident))
            else:
                self._replan_at[incident.id] = t + REPLAN_WAIT
        return found

    def _due_actions(self, target: Target, t: float) -> list[str]:
        """Returns the actions at a target that have to go on: undoing first, then what is under way, then the rest."""
        order: tuple[str, ...] = (UNDOING, APPLYING, APPLIED, VERIFIED, APPROVED, PROPOSED)
        freeze = self.book.find_freeze(t)
        if freeze is not None and freeze.holds_undos:
            order = order[1:]
        mine = [one for one in self.actions.values() if one.state in order and one.change.target == target.name]
        mine = [one for one in mine if not self.planner.find_loss(one)]
        due = [one for one in mine if one.next_try <= t]
        return [one.id for one in sorted(due, key=lambda one: (order.index(one.state), one.created, one.id))]

    def _build_job(self, target: Target, due: Sequence[str], wanted: tuple[Option, Incident] | None) -> Job:
        """Returns a job that lets each due action go on by one step, and then makes a plan."""

        async def run() -> None:
            for id_ in due:
                self._note_trouble(target, await self.steps.advance(target, id_))
            if wanted is not None:
                option, incident = wanted
                self._replan_at[incident.id] = self.view.t + REPLAN_WAIT
                await self._plan(target, option, incident)

        return run

    def _plannable(self, t: float) -> list[Incident]:
        """Returns the incidents for which nothing is planned yet, the surest and worst first."""
        past = self._past_by_incident()
        found = [
            one
            for one in self.view.incidents.values()
            if self._replan_at.get(one.id, t) <= t
            and self.settings.admits(one)
            and not self._find_refusals(one, past.get(one.id, ()))
        ]
        # Of two that are about as sure the worse one comes first: limits may leave room for one only.
        return sorted(found, key=lambda one: (-round(one.confidence, 1), -abs(one.impact.change or 0.0), one.id))

    def _past_by_incident(self) -> dict[str, list[Action]]:
        found: dict[str, list[Action]] = {}
        for one in self.actions.values():
            found.setdefault(one.reason.incident, []).append(one)
        return found

    def _find_refusals(self, incident: Incident, past: Sequence[Action]) -> tuple[str, ...]:
        """Returns why nothing is planned for an incident that the settings admit, one sentence each."""
        view, id_ = self.view, incident.id
        blind = ("it cannot be judged at present",) if id_ in view.judgement.unknown else ()
        held = view.held_since(id_)
        return (*blind, *list_past_obstacles(past, is_judged=view.is_judged(id_), held_since=held))

    def list_obstacles(self, incident: Incident) -> tuple[str, ...]:
        """Returns why nothing is planned for an incident now, one sentence each; empty if something will be."""
        past = [one for one in self.actions.values() if one.reason.incident == incident.id]
        found = (*self.settings.find_obstacles(incident), *self._find_refusals(incident, past))
        if freeze := self.book.find_freeze(self.view.t):
            found = (freeze.describe(), *found)
        if found:
            return found
        if self.settings.is_observing:
            return (f"the mode is {OBSERVE}: set it to {PROPOSE} in the section actions of the config",)
        options = self.planner.list_options(incident, past, self.settings)
        keys = [(incident.id, option.kind, option.target, option.member) for option in options]
        if any(key not in self._impossible for key in keys):
            return ()
        tried = any(one.outcome == NOT_HELPED or one.state == FAILED for one in past)
        nothing = (
            "what could be done was tried, and did not help" if tried else "no target can carry out what is advised"
        )
        return tuple(self._impossible[key] for key in keys) or (nothing,)

    def list_idle(self) -> dict[str, tuple[str, ...]]:
        """Returns why nothing is planned for the diagnoses that fire without an action; of many for the first ones."""
        busy = {one.reason.incident for one in self.actions.values() if one.is_live}
        firing = (one for one in self.view.incidents.values() if one.state == "firing" and not one.is_symptom)
        idle = islice((one for one in firing if one.id not in busy), MAX_IDLE)
        found = {one.id: self.list_obstacles(one) for one in idle}
        return {id_: why for id_, why in found.items() if why}

    def _start(self, work: _Work, job: Job) -> None:
        work.busy = True

        async def run() -> None:
            try:
                await job()
            except Exception as error:  # noqa: BLE001 - the next step goes on with what is stored
                record_failure("action", error)
            finally:
                work.busy = False

        self._spawn("action", run)

    def _start_probes(self, job: Job) -> None:
        self._spawn(PROBES, job)

    def _spawn(self, name: str, job: Job) -> None:
        if self.spawn is not None:
            self.spawn(job)
            return
        task = start_job(name, job())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _forget(self, t: float) -> None:
        """Drops ended actions that count for no limit any more and whose incident is over."""
        known, since = self.view.incidents, t - self.settings.limits.memory
        old = [
            id_
            for id_, one in self.actions.items()
            if one.ended_at is not None and one.ended_at < since and one.reason.incident not in known
        ]
        self.book.forget(old)
        live = {one.id for one in self.actions.values() if one.is_live}
        self.steps.starts = {id_: start for id_, start in self.steps.starts.items() if id_ in live}
        self._impossible = {key: why for key, why in self._impossible.items() if key[0] in known}
        self._replan_at = {id_: at for id_, at in self._replan_at.items() if id_ in known}
        self.steps.readings.forget(known)

    async def close(self) -> None:
        """Starts nothing more and waits for the jobs under way; what they have stored is continued by the next run."""
        self._is_closed = True
        for task in self._tasks:
            if task.get_name() == PROBES:
                task.cancel()  # nothing of them is stored
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
        except Exception as error:  # noqa: BLE001 - whatever a target answers, it is tried again later
            self._note_trouble(target, error)
            return
        if action is not None:
            await self.steps.ask_witnesses(target, action)
        t = self.view.t
        if action is None or t < action.created:
            return  # The clock was set back meanwhile: it is planned again.
        doubt = self.steps.find_hold(action, incident) if mode == ACT else ""
        if doubt:
            action = replace(action, waiting=doubt).note(t, f"waits for a person: {doubt}")
        elif mode == ACT:
            action = _approve_by_policy(action, t)
        who = POLICY if action.approved_by else "planner"
        note = AuditNote(t, who, f"action {action.state}: {action.title}" + (f"; {doubt}" if doubt else ""))
        async with self.steps.starting:
            # The target took its time: by now the incident may be another one, or have its action.
            now = self.view.incidents.get(incident.id)
            past = self._past_by_incident().get(incident.id, [])
            wanted = now is not None and self.settings.admits(now) and not self._find_refusals(now, past)
            if self.may_act() and wanted:
                await self.book.settle(None, action, note)

    def _note_trouble(self, target: Target, error: Exception | None) -> None:
        """Logs what is wrong with a target, once; with the place in the code where it was not foreseen."""
        work = self._work.setdefault(target.name, _Work())
        trouble = "" if error is None else describe_trouble(error)
        if error is not None and trouble != work.trouble:
            log.warning("%s: %s", target.name, trouble, exc_info=None if isinstance(error, TargetError) else error)
        work.trouble = trouble

    # --- storage

    def take_over(self, before: "Coordinator") -> None:
        """Goes on with the actions of a coordinator that was closed, with what it saw last, and with its locks."""
        self.book = self.steps.book = before.book
        for id_, action in self.book.actions.items():
            self.book.actions[id_] = self.planner.follow_system(action)
        self.view = self.steps.view = before.view

    def replace_all(self, actions: Iterable[Action], t: float) -> None:
        """Takes over the actions of another controller in place of its own."""
        self.book.forget(list(self.actions))
        self.resume(actions, t)

    def resume(self, actions: Iterable[Action], t: float) -> None:
        """Takes over stored actions after a start; those under way go on at the next step.

        One whose times lie ahead was stored before the clock was set back: the latest of them counts as now.
        """
        for stored in actions:
            action = self.planner.follow_system(stored)
            ahead = action.newest_time - t
            action = action.shift(-ahead) if ahead > 0 else action
            self.book.actions[stored.id] = replace(action, next_try=min(action.next_try, t))

    def shift(self, seconds: float) -> None:
        """Moves all times by what the clock was set, so that durations are those of the time that has passed."""
        self.book.shift(seconds)
        self.view.shift(seconds)
        self._replan_at.clear()

    # --- what persons ask for

    async def approve(self, id_: str, who: str, why: str) -> Action:
        """Approves a proposal; where several persons have to, it waits for the others.

        Raises:
            ActionRequestError: there is no such action, it is no proposal, this person has approved it already, or it
                must not be made any more.
        """

        def choose(action: Action) -> Action:
            if action.state != PROPOSED:
                raise ActionRequestError(f"{id_} is {action.state}: only a proposal can be approved")
            if freeze := self.book.find_freeze(self.view.t):
                raise ActionRequestError(f"{id_} cannot be approved now: {freeze.describe()}")
            lapsed = self.steps.lapse(action)
            if lapsed is not action:
                raise ActionRequestError(f"{id_} cannot be approved any more: {lapsed.ending}")
            if who in action.approvers:
                raise ActionRequestError(f"{who} has approved {id_} already: another person has to")
            return add_approval(action, who, why, self.settings.persons_for(action), self.view.t)

        return await self._decide(id_, choose, AuditNote(self.view.t, who, f"action approved: {why}"))

    async def refuse(self, id_: str, who: str, why: str) -> Action:
        """Refuses a proposal, or an approved action that has not begun.

        Raises:
            ActionRequestError: there is no such action, or it has begun.
        """

        def choose(action: Action) -> Action:
            if action.state not in (PROPOSED, APPROVED):
                raise ActionRequestError(
                    f"{id_} is {action.state}: undo it instead" if action.is_in_place else f"{id_} is over"
                )
            said = f"refused by {who}: {why}"
            return action.move(self.view.t, REFUSED, said, ending=said, ended_by=who)

        return await self._decide(id_, choose, AuditNote(self.view.t, who, f"action refused: {why}"))

    async def undo(self, id_: str, who: str, why: str) -> Action:
        """Has a change in place taken back; one without undo ends, and so does one whose target is gone.

        Raises:
            ActionRequestError: there is no such action, or it is not in place.
        """

        def choose(action: Action) -> Action:
            loss = self.planner.find_loss(action) if action.is_in_place else ""
            if action.state not in (APPLYING, APPLIED, VERIFIED) and not loss:
                raise ActionRequestError(f"{id_} is {action.state}: nothing of it is in place")
            t, said = self.view.t, f"asked by {who}: {why}"
            if loss:
                given_up = f"{said}; {loss}, and what it changed there stays"
                return action.move(t, OVERRIDDEN, given_up, ending=given_up, ended_by=who, stuck=False)
            return lifecycle.begin_undo(action, said, t, who)

        return await self._decide(id_, choose, AuditNote(self.view.t, who, f"action undo: {why}"))

    async def confirm(self, id_: str, who: str, why: str) -> Action:
        """Takes a person's word that the calls of an action, or those of its undo, were run by hand.

        Raises:
            ActionRequestError: there is no such action, or it waits for nobody.
        """

        def choose(action: Action) -> Action:
            if not by_hand.awaits_person(action):
                raise ActionRequestError(f"{id_} is {action.state}, and waits for nobody to run its calls")
            return by_hand.confirm(action, who, why, self.view.t)

        return await self._decide(id_, choose, AuditNote(self.view.t, who, f"action done by hand: {why}"))

    async def _decide(self, id_: str, choose: Callable[[Action], Action], note: AuditNote) -> Action:
        if not self.may_act():
            raise ActionRequestError("another controller leads, or this one is about to: ask again")
        return await self.book.decide(id_, note, choose)
