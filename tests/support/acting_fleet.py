"""A simulated pool to which a random scenario happens, with a coordinator that acts on it, in virtual time.

Each member has a true speed, and another one by telemetry; its router and its probe measure the true one. The
controller dies at any point at which it waits. `acting_truth.py` checks what must never happen.
"""

import asyncio
import math
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from skewscope.adapters.actions.action_book import AuditNote
from skewscope.adapters.actions.coordinator import ActionRequestError, Coordinator
from skewscope.adapters.actions.freezing import set_freeze
from skewscope.adapters.actions.planner import LOSSES, Planner
from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.view import JudgementState
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call
from skewscope.engine.actions.action import APPLYING, PROPOSED, Action, Measurement
from skewscope.engine.actions.change import TargetState
from skewscope.engine.actions.comparison import MemberLoad
from skewscope.engine.actions.freeze import Freeze
from skewscope.engine.actions.lifecycle import Timing
from skewscope.engine.actions.limits import ActionLimits, Breaker
from skewscope.engine.model.incident import Advice, BlastRadius, Impact, Incident, IncidentEvidence
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue
from tests.support import acting_scenarios as happens
from tests.support.acting_chaos import T0, ChaosStore
from tests.support.acting_scenarios import Accusation, ActingScenario, ScenarioEvent
from tests.support.acting_targets import PERSON, PoolRouter, Weather
from tests.support.acting_time import run_virtual
from tests.support.acting_truth import TruthCheck
from tests.support.acting_world import CONDITION, DIAGNOSIS_DELAY, MITIGATION

TIMING = Timing(120.0, 30.0, 20.0, 15.0, 60.0, 300.0, 20.0, 5.0, 30.0)
LIMITS = ActionLimits(2, 30, 1.0, 1.0, 0.34, cool_down=15.0, breaker=Breaker(4, 600.0, 60.0))
WISHES = {
    "proposed": {"approve": 0.02, "refuse": 0.005},
    "approved": {"refuse": 0.01},
    "applied": {"undo": 0.004},
    "verified": {"undo": 0.004},
}
"""Decisions of persons about an action in each state, and how often they make them each second."""
SETTLE_S = 900.0
"""Seconds in which everything has to end after the last event."""
RESTART_S = 8.0
"""Seconds that a member, or the target, takes to start again."""
HEALTHY_SECONDS = 0.5
REQUESTS = 20.0
"""Requests a second that are the work of one member of usual speed."""


@dataclass
class FleetRouter(PoolRouter):
    """A router whose members come and go, and which starts anew; by configuration it has other members for a while."""

    present: set[str] = field(default_factory=set)
    """The members that it has; `names` are those of the config."""
    run: str = "1"
    is_down: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    """Of a small request at each member; infinite where there is no answer."""
    loads: dict[str, MemberLoad] = field(default_factory=dict)
    scenario: ActingScenario | None = None

    async def read_state(self) -> TargetState:
        """Returns who is drained, of the members that it has."""
        await self.weather.wait(0.3)
        if self.is_down or self.weather.fails():
            raise TargetError(f"{self.name}: no answer within 5 s")
        return TargetState({name: self._report(name) for name in sorted(self.present)}, run=self.run)

    async def make_call(self, call: Call) -> None:
        """Accepts a line, unless it does not run."""
        if self.is_down:
            raise TargetError(f"{self.name}: no connection")
        await super().make_call(call)

    def _carry_out(self, what: str, member: str, action: str, version: int) -> None:
        assert self.scenario is not None
        ignored = self.weather.rng.random() < self.scenario.ignoring
        if not ignored and not self.is_down and member in self.present:
            super()._carry_out(what, member, action, version)

    async def read_load(self) -> Mapping[str, MemberLoad]:
        """Returns what it counts of its members."""
        assert self.scenario is not None
        if self.is_down:
            raise TargetError(f"{self.name}: no connection")
        return dict(self.loads) if self.scenario.counts_load else {}

    async def read_work(self) -> Mapping[str, float]:
        """Returns the requests given to each member."""
        return {name: load.done for name, load in (await self.read_load()).items()}

    async def probe(self, member: str) -> float | None:
        """Returns the true seconds of a small request."""
        assert self.scenario is not None
        if not self.scenario.has_probe:
            return None
        await self.weather.wait(0.2)
        if math.isinf(self.seconds.get(member, math.inf)):
            raise TargetError(f"{member}: no answer to a probe")
        return self.seconds[member]

    def start_anew(self) -> None:
        """Comes back, with all members in use."""
        self.is_down, self.run = False, f"{int(self.run) + 1}"
        self.owners.clear()
        self.versions.clear()
        self.loads.clear()


@dataclass
class FleetStore(ChaosStore):
    """Keeps a freeze beside actions, and the true times of what was stored."""

    freeze: Freeze | None = None
    begun: dict[str, float] = field(default_factory=dict)
    """When each intent was stored first, seconds since the start."""
    called: dict[str, float] = field(default_factory=dict)

    async def save(self, action: Action, t: float, who: str, what: str) -> None:
        """Stores an action."""
        try:
            await super().save(action, t, who, what)
        finally:
            # A controller that dies while it waits for the answer has stored it all the same.
            stored, now = self.rows.get(action.id), asyncio.get_running_loop().time()
            if stored is not None and stored.state == APPLYING:
                self.begun.setdefault(action.id, now)
            if stored is not None and stored.called_at is not None:
                self.called.setdefault(action.id, now)

    async def save_freeze(self, freeze: Freeze | None, _t: float, _who: str, _what: str) -> None:
        """Stores a freeze."""
        await self.weather.wait(0.1)
        self.freeze = freeze


@dataclass
class AccusedTimes:
    """When the incident of an accusation was opened and resolved, seconds since the start."""

    opened: float
    resolved: float | None = None


@dataclass
class FleetWorld:
    """The pool, what happens to it, persons, and the controller."""

    scenario: ActingScenario
    mode: str = "act"
    kills: int = 0
    requests: int = 0
    served: float = 0.0
    wanted: float = 0.0
    coordinator: Coordinator | None = None
    _left: int = 0
    _back_at: float = 0.0
    _started: float = 0.0
    _clock: float = 0.0
    """What was added to the clock."""
    _down: dict[str, float] = field(default_factory=dict)
    """Until when each member, '' for the target, is starting."""
    _joined: dict[str, float] = field(default_factory=dict)
    """When a member began to report, where that was not at the start."""
    _in_use_since: dict[str, float] = field(default_factory=dict)
    incident_times: dict[str, AccusedTimes] = field(default_factory=dict)
    _inherited: set[str] = field(default_factory=set)
    _told: "deque[tuple[float, float]]" = field(default_factory=lambda: deque(maxlen=1000))
    _requests: set["asyncio.Task[None]"] = field(default_factory=set)

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.rng = random.Random(scenario.seed + 1_000_000)
        self.weather = Weather(self.rng, self._cross, scenario.failing)
        self.store = FleetStore(self.weather)
        self.router = FleetRouter(
            *("router", scenario.members, self.weather, scenario.has_marks, scenario.lag, self.is_up),
            present=set(scenario.members),
            scenario=scenario,
        )
        self.truth = TruthCheck(self)
        self.router.on_drain = self.truth.check_drain
        self.settings = ActionSettings(mode=self.mode, limits=LIMITS, timing=TIMING)

    @property
    def t(self) -> float:
        """True seconds since the start."""
        return asyncio.get_running_loop().time()

    @property
    def now(self) -> float:
        """What the clock shows, seconds since 1970."""
        return T0 + self.t + self._clock

    @property
    def availability(self) -> float:
        """The share of the demand that was served."""
        return self.served / self.wanted

    def is_up(self, member: str) -> bool:
        """Returns whether a member runs."""
        return member in self.router.present and self._down.get(member, 0.0) <= self.t

    def is_well(self, member: str) -> bool:
        """Returns whether a member runs as quickly as its hardware allows."""
        return self.is_up(member) and not self.scenario.is_ill(member, self.t)

    def in_use(self) -> list[str]:
        """Returns the members that are given work."""
        return [name for name in sorted(self.router.present) if name not in self.router.owners and self.is_up(name)]

    # --- what the controller knows

    def _create_coordinator(self) -> Coordinator:
        names = self.router.names
        kinds = {name: f"{self.scenario.hardware.get(name, 1.0):g}x" for name in names}
        hardware = kinds if self.scenario.names_hardware else dict.fromkeys(names, "")
        nodes = tuple(Node(f"n{name}", hardware=hardware[name]) for name in names)
        groups = tuple(Group(name, "tensor-parallel", (f"n{name}",)) for name in names)
        topology = Topology(nodes, groups, (Pool("pool", names),))
        planner = Planner(topology, catalogue(), {self.router.name: self.router})
        return Coordinator(self.settings, planner, self.store, self.measure)

    def measure(self, action: Action, _t: float) -> Measurement:
        """Returns the pool's level before and with a change, as telemetry reports it."""
        if action.started_at is None:
            return Measurement()
        begun, opened = action.started_at - T0 - self._clock, action.reason.opened_at - T0 - self._clock
        applied = math.inf if action.applied_at is None else action.applied_at - T0 - self._clock + 5.0
        spans = ((opened, begun), (applied, math.inf))
        levels = [[level for t, level in self._told if start <= t < end] for start, end in spans]
        before, after = (sum(each) / len(each) if each else None for each in levels)
        return Measurement(before, after, "requests", working=True)

    def _follow_incidents(self) -> None:
        """Opens and resolves the incidents of accusations; a member without work may not be judged."""
        for each in self.scenario.accusations:
            times = self.incident_times.get(each.id)
            if not self._is_judged(each.member):
                continue
            self._inherited.discard(each.id)
            if times is None and each.start + DIAGNOSIS_DELAY <= self.t < each.end:
                self.incident_times[each.id] = AccusedTimes(self.t)
            elif times is not None and times.resolved is None and self.t >= each.end + DIAGNOSIS_DELAY:
                times.resolved = self.t

    def _is_judged(self, member: str) -> bool:
        since = self._in_use_since.get(member, math.inf)
        return self.scenario.judges_drained or self.t - since >= DIAGNOSIS_DELAY

    def _build_incident(self, accusation: Accusation, times: AccusedTimes) -> Incident:
        start = T0 + self._clock
        resolved = None if times.resolved is None else start + times.resolved
        expr = "change(rate) < -0.2" if accusation.shows_past else "peer_ratio(rate) < 0.8"
        return Incident(
            *(accusation.id, CONDITION, "replica", accusation.member),
            *("firing" if resolved is None else "resolved", start + times.opened, resolved, "critical", 0.95, 1.0),
            *(Impact("rate", accusation.speed - 1.0, "1"), BlastRadius(1, 1, 1), "a-rule", "hash"),
            evidence=(IncidentEvidence("slow", "yes", 1.0, accusation.speed, "1", expr),),
            mitigations=(Advice(MITIGATION, "router", "it is slow"),),
            witnesses=accusation.senders,
        )

    def _judge(self) -> tuple[tuple[Incident, ...], JudgementState]:
        open_ones = [a for a in self.scenario.accusations if a.id in self.incident_times]
        known = [(a, self.incident_times[a.id]) for a in open_ones]
        firing = [a for a, times in known if times.resolved is None]
        unknown = {a.id for a in firing if not self._is_judged(a.member)}
        quiet = unknown | {a.id for a in firing if self.t >= a.end}
        ages = {a.id: self.t - self._joined[a.member] for a in firing if a.member in self._joined}
        undecided = {a.id: ("longer_prompts",) for a in firing if a.kind == happens.PROMPTS}
        inherited = frozenset(self._inherited)
        state = JudgementState(frozenset(unknown), frozenset(quiet), inherited, self.t - self._started, ages, undecided)
        return tuple(self._build_incident(a, times) for a, times in known), state

    # --- the controller's life

    def _cross(self) -> None:
        self._left -= 1
        if self._left == 0 and self.coordinator is not None:
            self._die()
            raise asyncio.CancelledError  # All that crosses is part of the controller.

    def _die(self) -> None:
        assert self.coordinator is not None
        self.kills += 1
        for task in (*self.coordinator._tasks, *self._requests):
            task.cancel()
        self.coordinator = None
        self._back_at = self.t + self.rng.choice((0.0, 3.0, 15.0))
        self.truth.forgive_all()

    def _start(self) -> None:
        self.coordinator = self._create_coordinator()
        self.coordinator.resume(self.store.rows.values(), self.now)
        self.coordinator.book.freeze = self.store.freeze
        self._started = self.t
        self._inherited = {id_ for id_, times in self.incident_times.items() if times.resolved is None}

    async def _reload(self) -> None:
        """Takes over the members that the router has, in the config and in the topology."""
        before = self.coordinator
        self.router.names = tuple(sorted(self.router.present))
        if before is None:
            return
        await before.close()
        if self.coordinator is before:
            self.coordinator = self._create_coordinator()
            self.coordinator.take_over(before)

    async def run(self) -> None:
        """Lets everything happen, and then enough time pass for everything to end."""
        events = deque(self.scenario.events)
        while self.t < happens.EVENTS_S:
            await self._let_pass_second()
            while events and events[0].t <= self.t:
                await self._happen(events.popleft())
            self._decide_as_persons()
        await self._end_interference()
        end = self.t + SETTLE_S
        while self.t < end and not self._is_settled():
            await self._let_pass_second()
            self._give_up_lost()
        assert self.coordinator is not None
        self.truth.check_end(self.coordinator)
        await self.coordinator.close()

    def _is_settled(self) -> bool:
        live = self.coordinator is None or any(each.is_live for each in self.coordinator.actions.values())
        return not live and all(times.resolved is not None for times in self.incident_times.values())

    async def _let_pass_second(self) -> None:
        await asyncio.sleep(1.0)
        if self.router.is_down and self._down.get("", 0.0) <= self.t:
            self.router.start_anew()
        self._share_work()
        self._follow_incidents()
        if self.coordinator is None and self.t >= self._back_at:
            self._start()
        if self.coordinator is not None:
            self.coordinator.step(self.now, *self._judge())
        self.truth.check_second()

    def _share_work(self) -> None:
        """Gives out the work of one second, and notes what router and telemetry see of it."""
        used, scenario = [] if self.router.is_down else self.in_use(), self.scenario
        slowest = min(scenario.hardware.get(name, 1.0) for name in self.router.present)
        demand = scenario.load * slowest * (len(self.router.present) // 2 + 1)
        share = demand / max(len(used), 1)
        self.wanted += demand
        for name in self.router.present:
            speed = scenario.slow_speed(name, self.t)
            self.router.seconds[name] = HEALTHY_SECONDS / speed if self.is_up(name) else math.inf
        prompts = self._place_prompts(used)
        for name in used:
            speed = scenario.slow_speed(name, self.t)
            done = min(share, speed)
            self.served += done
            longer = prompts.get(name, 1.0)
            waiting = REQUESTS * done * HEALTHY_SECONDS / speed / longer * (3.0 if share > speed else 1.0)
            before = self.router.loads.get(name, MemberLoad(0.0, 0.0))
            self.router.loads[name] = MemberLoad(before.done + REQUESTS * done, waiting)
        for name in self.router.loads.keys() - set(used):
            self.router.loads[name] = MemberLoad(self.router.loads[name].done, 0.0)
        self._in_use_since = {name: self._in_use_since.get(name, self.t) for name in used}
        told = [scenario.told_speed(name, self.t) * prompts.get(name, 1.0) for name in used]
        if told:
            self._told.append((self.t, sum(told) / len(told)))

    def _place_prompts(self, used: list[str]) -> dict[str, float]:
        """Returns the share of its rate that each member has left with longer prompts; others get those of one out."""
        spans = [a for a in self.scenario.accusations if a.kind == happens.PROMPTS and a.start <= self.t < a.end]
        return {a.member if a.member in used else used[0]: a.speed for a in spans if used}

    # --- what happens

    async def _happen(self, event: ScenarioEvent) -> None:
        member = event.member
        if event.kind == happens.KILL:
            self._left = self.rng.randint(1, 20)
        elif event.kind == happens.RESTART_TARGET:
            self._down[""], self.router.is_down = self.t + RESTART_S, True
            self.truth.forgive_all()
        elif event.kind in (happens.RESTART_MEMBER, happens.REGISTER_ANEW) and member in self.router.present:
            self._restart_member(member, anew=event.kind == happens.REGISTER_ANEW)
        elif event.kind in (happens.DRAIN, happens.READY):
            self._change_by_hand(member, PERSON if event.kind == happens.DRAIN else "")
        elif event.kind in (happens.FREEZE, happens.FREEZE_ALL, happens.THAW):
            await self._freeze(event.kind)
        elif event.kind == happens.LEAVE and len(self.router.present) > 3:
            self.router.present.discard(member)
            self.router.change(member, "")
        elif event.kind == happens.JOIN and member not in self.router.present:
            self.router.present.add(member)
            self._joined[member] = self.t
        elif event.kind == happens.CLOCK:
            self._clock -= event.value
        elif event.kind == happens.RELOAD:
            await self._reload()
        self.truth.note_event(event)

    def _restart_member(self, member: str, *, anew: bool) -> None:
        self._down[member] = self._joined[member] = self.t + RESTART_S
        if anew:
            self.router.change(member, "")

    def _change_by_hand(self, member: str, owner: str) -> None:
        """Drains a member, or uses it again. Where there are no marks, only what no controller can take for its own."""
        if member not in self.router.present or self.router.is_down:
            return
        begun = (each for each in self.store.rows.values() if each.is_live and each.state != PROPOSED)
        may_seem_ours = not self.router.has_marks and any(each.change.member == member for each in begun)
        if self.router.owners.get(member, PERSON) != PERSON or may_seem_ours:
            self.truth.persons_interfered = True
        if not owner or not (member in self.router.owners or may_seem_ours):
            self.router.change(member, owner)

    async def _freeze(self, kind: str) -> None:
        if self.coordinator is None:
            return
        freeze = Freeze(self.now, "ann", "a rollout", None, kind == happens.FREEZE_ALL)
        wanted = None if kind == happens.THAW else freeze
        self.truth.frozen = wanted
        self.truth.frozen_since = self.t
        task = asyncio.create_task(self._store_freeze(self.coordinator, wanted))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _store_freeze(self, coordinator: Coordinator, freeze: Freeze | None) -> None:
        await set_freeze(coordinator, freeze, AuditNote(self.now, "ann", "freeze"))

    def _decide_as_persons(self) -> None:
        coordinator = self.coordinator
        for action in tuple(coordinator.actions.values()) if coordinator is not None else ():
            for verb, often in WISHES.get(action.state, {}).items():
                if coordinator is self.coordinator is not None and self.rng.random() < often:
                    self._ask(verb, action.id)

    def _ask(self, verb: str, id_: str) -> None:
        coordinator = self.coordinator

        async def ask() -> None:
            try:
                await getattr(coordinator, verb)(id_, "ann", "so decided")
            except ActionRequestError:
                return
            self.requests += 1
            if verb == "refuse":
                self.truth.refused.add(id_)

        task = asyncio.get_running_loop().create_task(ask())
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _end_interference(self) -> None:
        """Lets persons thaw, put back what they drained, and reload; the controller dies no more."""
        self._left = 0
        while self.coordinator is None:
            await self._let_pass_second()
        await self._freeze(happens.THAW)
        for member, owner in tuple(self.router.owners.items()):
            if owner == PERSON:
                self.router.change(member, "")
        await self._reload()

    def _give_up_lost(self) -> None:
        """Lets persons give up the changes of members that are gone for good."""
        for action in self.coordinator.actions.values() if self.coordinator is not None else ():
            if action.is_in_place and action.waiting in LOSSES:
                self._ask("undo", action.id)


def simulate_scenario(scenario: ActingScenario, mode: str = "act") -> FleetWorld:
    """Returns the world after a scenario has happened to it."""

    async def run() -> FleetWorld:
        world = FleetWorld(scenario, mode)
        await world.run()
        return world

    return run_virtual(run())
