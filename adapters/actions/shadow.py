"""Shadow runs: what acting would have done about incidents of the past, had the mode been `act`.

The coordinator, its planner, limits and lifecycle are those of acting; targets are simulated and time is that of the
data. What a change would have given back cannot be known from data without it: it is assumed to help, so a shadow run
never trips the breaker, and its faults last as long as they did.
"""

import asyncio
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from skewscope.adapters.actions.coordinator import Coordinator, Job
from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.settings import ACT, ActionSettings
from skewscope.adapters.actions.shadow_target import ShadowTarget, build_shadow
from skewscope.adapters.actions.view import JudgementState
from skewscope.adapters.runtime.tasks import start_job
from skewscope.adapters.targets.common.base import Target
from skewscope.engine.actions.action import (
    APPLIED,
    APPLYING,
    APPROVED,
    EXPIRED,
    UNDOING,
    Action,
    Measurement,
)
from skewscope.engine.actions.freeze import Freeze
from skewscope.engine.actions.places import HOUR
from skewscope.engine.actions.planning import find_nodes, find_replicas
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue

NEEDLESS_S = 60.0
"""A fault that ended by itself within so many seconds after its change began did not need it: judgement, about the time
in which the effect of a change is seen."""
FAST_STEP, SLOW_STEP = 1.0, 5.0
"""Seconds between two steps while an action is under way, and while incidents fire."""
KEPT_S = 60.0
"""Seconds for which an incident that ended is still shown."""
YIELD_STEPS = 50
"""Steps between two moments at which a run can be cancelled."""
MAX_ACTS = 10_000
ASSUMED = Measurement(0.5, 1.0, "assumed", working=True)
IN_TIME, NEEDLESS, TOO_LATE, ASKED, BLOCKED, ACTED, UNFINISHED = VERDICTS = (
    "in time",
    "needless",
    "too late",
    "asked",
    "blocked",
    "acted upon",
    "unfinished",
)
"""in time: the fault went on for longer; needless: it went by itself soon after; too late: it ended before the change
could begin; asked: a person would have been asked; blocked: limits never let it begin; acted upon:
something was really changed for its incident, so how long its fault would have lasted is unknown; unfinished: the data
ended."""

Moment = tuple[float, Sequence[Incident]]
"""A time, and the incidents that are known at it."""


@dataclass(frozen=True, slots=True)
class ShadowAct:
    """One change that would have been planned."""

    action: Action
    verdict: str
    """One of VERDICTS."""
    fault_ended: float | None
    """When its incident ended by itself in the data; None where it did not, or where something was really changed."""
    waits: tuple[str, ...]
    """What limits said before it began, one sentence each."""
    in_place_then: int
    """Changes that were in place when it began."""
    begun_within_hour: int
    """Changes that had begun in the hour before it."""


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """What acting would have done in a span of time."""

    since: float
    until: float
    incidents: int
    """Incidents of that time."""
    admitted: int
    """Those of them that acting may be for: sure roots."""
    acts: tuple[ShadowAct, ...]
    blocks: tuple[tuple[str, int], ...] = ()
    """Times that a limit stopped a change, by kind of limit."""

    def count(self, verdict: str) -> int:
        """Returns the number of changes with a verdict."""
        return sum(each.verdict == verdict for each in self.acts)


class _NoStore:
    """Keeps nothing: a shadow run ends with its process."""

    async def save(self, action: Action, t: float, who: str, what: str) -> None:
        """Does nothing."""

    async def save_freeze(self, freeze: Freeze | None, t: float, who: str, what: str) -> None:
        """Does nothing."""


@dataclass
class ShadowRun:
    """A coordinator over simulated targets, stepped through the past."""

    settings: ActionSettings
    topology: Topology
    catalogue: Catalogue
    targets: Sequence[ShadowTarget]
    acted: frozenset[str] = frozenset()
    """Incidents for which something was really changed."""
    coordinator: Coordinator = field(init=False)
    seen: dict[str, Action] = field(default_factory=dict)
    """Each action as it was last, also after it was forgotten."""
    ended: dict[str, float | None] = field(default_factory=dict)
    """When each incident ended; None while it fires."""
    _jobs: "list[asyncio.Task[None]]" = field(default_factory=list)
    _admitted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        settings = replace(self.settings, mode=ACT, modes=())
        planner = Planner(self.topology, self.catalogue, {each.name: each for each in self.targets})
        self.coordinator = Coordinator(settings, planner, _NoStore(), _assume, self._start)

    def _start(self, job: Job) -> None:
        self._jobs.append(start_job("shadow action", job(), is_awaited=True))

    @property
    def is_live(self) -> bool:
        """Whether any action may still change something."""
        return any(each.is_live for each in self.coordinator.actions.values())

    @property
    def is_calm(self) -> bool:
        """Whether no action is under way that goes on within seconds."""
        quick = (APPROVED, APPLYING, APPLIED, UNDOING)
        return not any(each.state in quick and not each.waiting for each in self.coordinator.actions.values())

    async def step(self, t: float, incidents: Sequence[Incident]) -> None:
        """Lets a moment pass."""
        actions = self.coordinator.actions
        firing = {each.id for each in incidents if each.state == "firing"}
        for each in incidents:
            self.ended[each.id] = None if each.id in firing else each.resolved_at
        self._admitted |= {each.id for each in incidents if self.settings.admits(each)}
        held = [each for each in actions.values() if each.is_in_place and each.reason.incident in firing]
        ill = self._list_ill(each for each in incidents if each.id in firing & self._admitted)
        for target in self.targets:
            target.faulty = frozenset(member for entity, member in target.members.items() if entity in ill)
        # What is changed does no usual work any more, so its rule cannot be judged.
        unknown = frozenset(each.reason.incident for each in held)
        self.coordinator.step(t, incidents, JudgementState(unknown, quiet=unknown))
        while self._jobs:
            await self._jobs.pop(0)
        self.seen |= actions

    def _list_ill(self, incidents: Iterable[Incident]) -> frozenset[str]:
        """Returns the entities that some incidents are about, with their nodes and replicas."""
        topology = self.topology
        return frozenset().union(
            *({each.name, *find_nodes(each.name, topology), *find_replicas(each.name, topology)} for each in incidents)
        )

    def build_result(self, since: float, until: float) -> ShadowResult:
        """Returns what was done so far."""
        actions = sorted(self.seen.values(), key=lambda each: (each.created, each.id))
        acts = tuple(self._judge(each, actions) for each in actions[:MAX_ACTS])
        blocks = tuple(sorted(self.coordinator.book.counts.blocks.items()))
        return ShadowResult(since, until, len(self.ended), len(self._admitted), acts, blocks)

    def _judge(self, action: Action, actions: Sequence[Action]) -> ShadowAct:
        ended, begun = self.ended.get(action.reason.incident), action.started_at
        waits = tuple(what.removeprefix("waits: ") for _, what in action.history if what.startswith("waits: "))
        others = [
            each for each in actions if begun is not None and each.started_at is not None and each.id != action.id
        ]
        here = [each for each in others if begun is not None and _is_in_place_at(each, begun)]
        recent = [each for each in others if begun is not None and begun - HOUR < (each.started_at or 0.0) <= begun]
        acted, verdict = action.reason.incident in self.acted, _find_verdict(action, ended)
        verdict = ACTED if acted and verdict != ASKED else verdict
        return ShadowAct(action, verdict, None if acted else ended, waits, len(here), len(recent))


def build_run(
    settings: ActionSettings, topology: Topology, catalogue: Catalogue, targets: Iterable[Target]
) -> ShadowRun:
    """Returns a run over the stand-ins of targets."""
    return ShadowRun(settings, topology, catalogue, tuple(build_shadow(each) for each in targets))


def _assume(_action: Action, _t: float) -> Measurement:
    return ASSUMED


def _is_in_place_at(action: Action, t: float) -> bool:
    return (action.started_at or t) < t and (action.ended_at is None or action.ended_at > t)


def _find_verdict(action: Action, fault_ended: float | None) -> str:
    if action.started_at is not None:
        if fault_ended is None:
            return IN_TIME if action.ended_at is not None else UNFINISHED
        return NEEDLESS if fault_ended - action.started_at <= NEEDLESS_S else IN_TIME
    if action.approved_at is None:
        return ASKED
    if action.state == EXPIRED and fault_ended is not None and fault_ended <= (action.ended_at or fault_ended):
        return TOO_LATE
    return BLOCKED if action.state == EXPIRED else UNFINISHED


@dataclass
class _Timeline:
    """Stored incidents as they were at a time that only grows. Of each its last state is known, and when it fired."""

    waiting: list[Incident]
    """Those that have not opened yet, the first one last."""
    present: list[Incident] = field(default_factory=list)

    def advance(self, t: float) -> list[Incident]:
        """Returns the incidents that fire at a time, and those that ended a short while ago."""
        while self.waiting and self.waiting[-1].opened_at <= t:
            self.present.append(self.waiting.pop())
        self.present = [each for each in self.present if each.resolved_at is None or t - each.resolved_at < KEPT_S]
        return [self._show_at(each, t) for each in self.present]

    @staticmethod
    def _show_at(incident: Incident, t: float) -> Incident:
        fires = incident.resolved_at is None or incident.resolved_at > t
        return replace(incident, state="firing", resolved_at=None) if fires else incident

    def next_edge(self, t: float) -> float:
        """Returns when the next incident opens or ends; infinity where none does."""
        ends = [each.resolved_at for each in self.present if each.resolved_at is not None and each.resolved_at > t]
        return min([*ends, *(each.opened_at for each in self.waiting[-1:])], default=math.inf)


async def run_over_incidents(run: ShadowRun, incidents: Iterable[Incident], since: float, until: float) -> ShadowResult:
    """Returns what acting would have done about stored incidents between two times."""
    mine = [each for each in incidents if each.opened_at <= until and (each.resolved_at or until) >= since]
    timeline = _Timeline(sorted(mine, key=lambda each: (-each.opened_at, each.id)))
    t = since
    for steps in itertools.count(1):
        present = timeline.advance(t)
        await run.step(t, present)
        if steps % YIELD_STEPS == 0:
            await asyncio.sleep(0)
        busy = any(each.state == "firing" for each in present) or run.is_live
        pace = math.inf if not busy else SLOW_STEP if run.is_calm else FAST_STEP
        t = min(t + pace, timeline.next_edge(t))
        if t > until:
            return run.build_result(since, until)
    raise AssertionError


async def run_over_moments(run: ShadowRun, moments: Iterable[Moment]) -> ShadowResult:
    """Returns what acting would have done about the incidents of a replay, tick by tick."""
    since = until = 0.0
    for steps, (t, incidents) in enumerate(moments):
        since, until = since or t, t
        await run.step(t, incidents)
        if steps % YIELD_STEPS == 0:
            await asyncio.sleep(0)
    return run.build_result(since, until)
