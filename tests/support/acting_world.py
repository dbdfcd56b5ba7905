"""A simulated pool of replicas behind a router, on which a coordinator acts: for harm that it might do.

Time passes in whole seconds, jobs run at once, and nothing waits, so that a month takes seconds. Replicas fall ill by a
seed; diagnoses come some seconds later, sometimes wrongly, and cannot be judged while a replica gets no work.
"""

import asyncio
import json
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from skewscope.adapters.actions.coordinator import ActionStoreError, Coordinator, Spawn
from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.settings import ActionSettings
from skewscope.adapters.actions.view import JudgementState
from skewscope.adapters.targets.common.base import Target, TargetError
from skewscope.adapters.targets.common.calls import Call, SocketCall
from skewscope.engine.actions.action import Action, Measurement, action_to_json, parse_action
from skewscope.engine.actions.change import (
    ABSENT,
    DEWEIGHT,
    DRAIN,
    FOREIGN,
    OURS,
    Change,
    ChangeSupport,
    MemberState,
    TargetState,
)
from skewscope.engine.actions.freeze import Freeze
from skewscope.engine.model.incident import Advice, BlastRadius, Impact, Incident
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue

CONDITION, MITIGATION = "tp-straggler", "deweight-replica"
DIAGNOSIS_DELAY = 5.0


class KilledError(BaseException):
    """The controller's process died."""


@dataclass
class SimulatedRouter:
    """A router with weights, which can misbehave."""

    names: tuple[str, ...]
    weights: dict[str, float] = field(default_factory=dict)
    drained: set[str] = field(default_factory=set)
    given: dict[str, float] = field(default_factory=dict)
    trouble: Callable[[str], str] = lambda _line: ""
    """For each line and reading: '' to carry it out, `refuse`, `ignore` (accepted, nothing happens), or `lose` (carried
    out, and the answer is lost)."""
    crossing: Callable[[str], None] = lambda _what: None
    """Called before and after each call; may raise KilledError."""
    lines: list[str] = field(default_factory=list)
    name: str = "router"
    delay: float = 0.0
    """Seconds that a reading takes."""
    run: str = ""
    """Another one after each start; '' for none."""

    def __post_init__(self) -> None:
        self.weights = dict.fromkeys(self.names, 100.0)
        self.given = dict.fromkeys(self.names, 0.0)

    support: Mapping[str, ChangeSupport] = field(
        default_factory=lambda: {DEWEIGHT: ChangeSupport(), DRAIN: ChangeSupport()}
    )

    @property
    def members(self) -> Mapping[str, str]:
        """Members have the names of their replicas."""
        return {name: name for name in self.names}

    async def read_state(self) -> TargetState:
        """Returns weights and drains."""
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.trouble("read") == "refuse":
            raise TargetError("router: no answer within 5 s")
        members = (MemberState(n, n not in self.drained, self.weights[n]) for n in self.names)
        return TargetState({one.member: one for one in members}, run=self.run)

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns one line."""
        if change.kind == DEWEIGHT and state.members[change.member].weight == 1.0:
            raise TargetError("router: the weight 1 cannot be lowered")
        line = f"drain {change.member}" if change.kind == DRAIN else f"weight {change.member} {100 * change.share:.0f}"
        return (SocketCall("router", line),)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns one line, none where nothing of ours is left."""
        if self.find_standing(change, before, state) != OURS:
            return ()
        line = f"ready {change.member}" if change.kind == DRAIN else f"weight {change.member} {before.weight:.0f}"
        return (SocketCall("router", line),)

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with the drain, or with the lower weight."""
        if change.kind == DRAIN:
            return state.with_member(change.member, serving=False)
        return state.with_member(change.member, weight=round(100 * change.share))

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Compares the member with its former and its wanted state."""
        now = state.members[change.member]
        wanted = before if change.kind == DRAIN else replace(before, weight=round(100 * change.share))
        wanted = replace(wanted, serving=change.kind != DRAIN)
        return OURS if now == wanted else ABSENT if now == before else FOREIGN

    async def make_call(self, call: Call) -> None:
        """Carries out one line."""
        assert isinstance(call, SocketCall)
        self.crossing(f"before {call.line}")
        trouble = self.trouble(call.line)
        if trouble == "refuse":
            raise TargetError(f"{call.line}: the answer 500")
        if trouble != "ignore":
            self.carry_out(call.line)
        self.crossing(f"after {call.line}")
        if trouble == "lose":
            raise TargetError(f"{call.line}: no answer within 5 s")

    def start_anew(self, run: str) -> None:
        """Restarts the router, which forgets what it was told."""
        self.run, self.drained = run, set()
        self.weights = dict.fromkeys(self.names, 100.0)

    def carry_out(self, line: str) -> None:
        """Changes the state, for the coordinator or for somebody else."""
        self.lines.append(line)
        what, member, *rest = line.split()
        if what == "drain":
            self.drained.add(member)
        elif what == "ready":
            self.drained.discard(member)
        else:
            self.weights[member] = float(rest[0])

    async def read_work(self) -> Mapping[str, float]:
        """Returns the work given to each member."""
        return dict(self.given)

    probe_seconds: Callable[[str], float | None] = lambda _name: None

    async def probe(self, member: str) -> float | None:
        """Returns the seconds of a probe, by the member's speed."""
        return self.probe_seconds(member)

    def share_work(self, demand: float, speeds: Mapping[str, float]) -> float:
        """Gives a second's demand out by weight; returns what is served of it."""
        weights = {n: self.weights[n] for n in self.names if n not in self.drained}
        total = sum(weights.values())
        served = 0.0
        for name, weight in weights.items():
            load = demand * weight / total
            self.given[name] += load
            served += min(load, speeds[name])
        return served


@dataclass
class MemoryStore:
    """Keeps actions as they would be on disk."""

    rows: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    freeze: Freeze | None = None
    broken: bool = False
    crossing: Callable[[str], None] = lambda _what: None

    async def save(self, action: Action, _t: float, who: str, what: str) -> None:
        """Stores an action."""
        self.crossing(f"before save {action.state}")
        if self.broken:
            raise ActionStoreError("the disk is full")
        self.rows[action.id] = json.dumps(action_to_json(action))
        self.lines.append(f"{who}: {what}")
        self.crossing(f"after save {action.state}")

    async def save_freeze(self, freeze: Freeze | None, _t: float, who: str, what: str) -> None:
        """Stores a freeze."""
        if self.broken:
            raise ActionStoreError("the disk is full")
        self.freeze = freeze
        self.lines.append(f"{who}: {what}")

    def load(self) -> list[Action]:
        """Returns what is stored."""
        return [parse_action(json.loads(row)) for row in self.rows.values()]


@dataclass(frozen=True, slots=True)
class SimulatedFault:
    """A replica that is slow for a while, or is only said to be."""

    replica: str
    start: float
    end: float
    speed: float
    """1 for one that is not ill: a wrong diagnosis."""


@dataclass
class ActingWorld:
    """A pool, its faults, and the coordinator of its router."""

    replicas: int = 3
    demand: float = 1.8
    """Work that comes each second; each replica can do 1."""
    settings: ActionSettings = field(default_factory=lambda: ActionSettings(mode="act"))
    faults: tuple[SimulatedFault, ...] = ()
    t: float = 1_790_000_000.0
    has_probe: bool = True
    more_targets: tuple[Target, ...] = ()
    """Beside the router."""
    judgement: JudgementState = field(default_factory=JudgementState)
    """What is known besides; drained members cannot be judged."""
    quiet: frozenset[str] = frozenset()
    """Ids of firing incidents whose evidence does not hold."""
    echo: float = 0.0
    """Seconds for which telemetry shows what a member without work answered to a probe; it is judged by that alone."""
    systems: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the targets, by name."""
    spawn: Spawn | None = field(default_factory=lambda: run_now)
    """None for tasks of the event loop."""
    router: SimulatedRouter = field(init=False)
    store: MemoryStore = field(default_factory=MemoryStore)
    coordinator: Coordinator = field(init=False)
    served: float = 0.0
    wanted: float = 0.0
    fewest_in_use: int = 99
    most_in_place: int = 0
    _over: set[str] = field(default_factory=set)
    _answers: dict[str, deque[tuple[float, bool]]] = field(default_factory=dict)
    """By replica: when it answered a probe, and whether it was slow."""
    _unsure_at: dict[str, float] = field(default_factory=dict)
    """By replica: when telemetry last showed it slow, or nothing, while it was out."""
    _levels: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=600))

    def __post_init__(self) -> None:
        names = tuple(f"r{n}" for n in range(self.replicas))
        nodes = tuple(Node(f"n{n}") for n in range(self.replicas))
        groups = tuple(Group(name, "tensor-parallel", (f"n{n}",)) for n, name in enumerate(names))
        self.topology = Topology(nodes, groups, (Pool("pool", names),))
        self.router = SimulatedRouter(names)
        if self.has_probe:
            self.router.probe_seconds = self._answer_probe
        self.coordinator = self.create_coordinator()

    def create_coordinator(self) -> Coordinator:
        """Returns a coordinator as a controller that was just started has it."""
        targets = {one.name: one for one in (self.router, *self.more_targets)}
        planner = Planner(self.topology, catalogue(), targets, self.systems)
        made = Coordinator(self.settings, planner, self.store, self.measure, self.spawn)
        made.resume(self.store.load(), self.t)
        made.book.freeze = self.store.freeze
        return made

    def restart(self) -> None:
        """Starts the controller anew, with what is stored."""
        self.coordinator = self.create_coordinator()

    def speeds(self) -> dict[str, float]:
        """Returns the speed of each replica now."""
        ill = {f.replica: f.speed for f in self.faults if f.start <= self.t < f.end}
        return {name: ill.get(name, 1.0) for name in self.router.names}

    def _answer_probe(self, name: str) -> float:
        speed = self.speeds()[name]
        self._answers.setdefault(name, deque(maxlen=100)).append((self.t, speed < 1.0))
        return 0.1 / speed

    def _list_echoes(self, name: str) -> list[bool]:
        """Returns which of the answers to probes that telemetry of a replica still shows are slow."""
        return [slow for at, slow in self._answers.get(name, ()) if self.t - at < self.echo]

    def incidents(self) -> tuple[Incident, ...]:
        """Returns the incidents of the faults so far; that of the latest ends once telemetry shows that all is well."""
        recent = self._recent_faults()
        latest = {fault.replica: fault for fault in recent}
        told = [self._extend(fault) if fault is latest[fault.replica] else fault for fault in recent]
        return tuple(build_incident(fault, self.t) for fault in told if fault.start + DIAGNOSIS_DELAY <= self.t)

    def _extend(self, fault: SimulatedFault) -> SimulatedFault:
        return replace(fault, end=max(fault.end, self._unsure_at.get(fault.replica, fault.end)))

    def _recent_faults(self) -> list[SimulatedFault]:
        return [fault for fault in self.faults if fault.start <= self.t < fault.end + 900]

    def measure(self, action: Action, t: float) -> Measurement:
        """Returns what was served of the demand before and after a change."""
        spans = ((action.reason.opened_at, action.started_at or t), ((action.applied_at or t) + 5.0, t + 1.0))
        levels = [[level for at, level in self._levels if a <= at < b] for a, b in spans]
        before, after = (sum(some) / len(some) if some else None for some in levels)
        return Measurement(before, after, "served")

    def step(self) -> None:
        """Lets one second pass."""
        self.t += 1.0
        self.share_work()
        self.coordinator.step(self.t, *self._judge())
        self.fewest_in_use = min(self.fewest_in_use, len(self.router.names) - len(self.router.drained))
        places = [one.scope.entity for one in self.coordinator.actions.values() if one.is_in_place]
        assert len(places) == len(set(places)), "two actions on one member"
        self.most_in_place = max(self.most_in_place, len(places))

    def _judge(self) -> tuple[tuple[Incident, ...], JudgementState]:
        """Returns the incidents, and how far they are judged: a drained member is by its answers to probes alone."""
        echoes = {name: self._list_echoes(name) for name in self.router.drained}
        if self.echo:
            self._unsure_at |= {name: self.t for name, slow in echoes.items() if any(slow) or not slow}
        incidents = self.incidents()
        blind = frozenset(one.id for one in incidents if one.state == "firing" and echoes.get(one.name) == [])
        over = {f for f in self._recent_faults() if self.t >= f.end and not any(echoes.get(f.replica, ()))}
        self._over.update(name_incident(fault) for fault in over)
        return incidents, replace(self.judgement, unknown=blind, quiet=blind | self._over | self.quiet)

    def share_work(self) -> None:
        """Gives out the work of one second."""
        served = self.router.share_work(self.demand, self.speeds())
        self.served += served
        self.wanted += self.demand
        self._levels.append((self.t, served / self.demand))

    def run(self, seconds: float) -> None:
        """Lets time pass; spans in which nothing happens are passed over."""
        end = self.t + seconds
        while self.t < end:
            if not self.is_quiet():
                self.step()
                continue
            edges = (edge for f in self.faults for edge in (f.start, f.start + DIAGNOSIS_DELAY, f.end))
            times = [edge for edge in edges if edge > self.t]
            skipped = max(min([end, *times]) - self.t - 1.0, 0.0)
            per_second = self.router.share_work(self.demand, self.speeds())
            self.t += skipped
            self.served += skipped * per_second
            self.wanted += skipped * self.demand
            self.step()

    def is_quiet(self) -> bool:
        """Whether no incident fires and no action is live."""
        live = any(one.is_live for one in self.coordinator.actions.values())
        return not live and all(one.state == "resolved" for one in self.incidents())

    @property
    def availability(self) -> float:
        """The share of the demand that was served."""
        return self.served / self.wanted if self.wanted else 1.0

    def is_restored(self) -> bool:
        """Whether the router is as it was before any action."""
        return not self.router.drained and set(self.router.weights.values()) == {100.0}


def name_incident(fault: SimulatedFault) -> str:
    """Returns the id of the incident of a fault."""
    return f"i-{fault.replica}-{fault.start:.0f}"


def build_incident(fault: SimulatedFault, t: float) -> Incident:
    """Returns the incident of a fault as it is at a time."""
    opened, over = fault.start + DIAGNOSIS_DELAY, fault.end + DIAGNOSIS_DELAY
    loss = 0.5 if fault.speed == 1.0 else 1.0 - fault.speed
    resolved = t >= over
    return Incident(
        *(name_incident(fault), CONDITION, "replica", fault.replica),
        *("resolved" if resolved else "firing", opened, over if resolved else None, "critical", 0.95, 1.0),
        *(Impact("round rate", -loss, "1"), BlastRadius(1, 1, 1), "a-rule", "hash"),
        mitigations=(Advice(MITIGATION, "router", "it is slow"),),
        witnesses=(fault.replica, "probe"),
    )


def draw_faults(seed: int, days: float, names: tuple[str, ...], start: float) -> tuple[SimulatedFault, ...]:
    """Returns random faults: about two a day, some short and repeated, some together, one of ten a wrong diagnosis."""
    rng = random.Random(seed)
    found: list[SimulatedFault] = []
    t = start + 600.0
    while t < start + 86400.0 * days:
        replica = rng.choice(names)
        speed = 1.0 if rng.random() < 0.1 else rng.uniform(0.0, 0.8)
        length = rng.choice((20.0, 120.0, 900.0, 7200.0))
        for _ in range(rng.choice((1, 1, 1, 5))):
            found.append(SimulatedFault(replica, t, t + length, speed))
            if rng.random() < 0.1:
                found.append(SimulatedFault(rng.choice([n for n in names if n != replica]), t + 3, t + length, 0.3))
            t += length + rng.uniform(20.0, 300.0)
        t += rng.expovariate(1 / 40_000.0)
    return tuple(found)


def run_now(job: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a job to its end; beside the loop where one is running already."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        _loop.run_until_complete(job())
    else:
        _beside.add(task := running.create_task(job()))
        task.add_done_callback(_beside.discard)


_loop = asyncio.new_event_loop()
_beside: set["asyncio.Task[None]"] = set()
