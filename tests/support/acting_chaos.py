"""A pool behind two routers and on a cluster, in virtual time: persons who interfere, and a controller that dies.

Everything takes time: the store, targets, and one router accepts now and changes later. The controller dies at any
point at which it waits, and starts again with what is stored. `harm` lists what must never happen.
"""

import asyncio
import json
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from skewscope.adapters.actions.coordinator import ActionRequestError, ActionStoreError, Coordinator
from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.settings import ActionSettings, ModeRule
from skewscope.engine.actions.action import Action, Measurement, action_to_json, parse_action
from skewscope.engine.actions.lifecycle import Timing
from skewscope.engine.actions.limits import ActionLimits, Breaker
from skewscope.engine.model.incident import Advice, Incident
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue
from tests.support.acting_targets import PERSON, Cluster, PoolRouter, Weather
from tests.support.acting_world import SimulatedFault, build_incident

T0 = 1_790_000_000.0
REPLICAS = tuple(f"r{n}" for n in range(6))
NODES = {f"n{n}": name for n, name in enumerate(REPLICAS)}
MINIMUM = 3
SETTINGS = ActionSettings(
    mode="act",
    modes=(ModeRule("propose", rule=("asked",)),),
    limits=ActionLimits(
        *(2, 15, 1.0, 1.0, 1.0), minimum_healthy={"pool": MINIMUM}, cool_down=15.0, breaker=Breaker(30, 600.0, 60.0)
    ),
    timing=Timing(120.0, 30.0, 20.0, 10.0, 40.0, 300.0, 20.0, 5.0),
)
WISHES = {
    "proposed": {"approve": 0.1, "refuse": 0.01},
    "approved": {"refuse": 0.03},
    "applying": {"undo": 0.1},
    "applied": {"undo": 0.04},
    "verified": {"undo": 0.005},
}
"""Decisions of persons about an action in each state, and how often they make them each second."""
SEEN = 5.0
"""Seconds after which a controller must have seen what others did before it begins."""


@dataclass
class ChaosStore:
    """Keeps actions as they would be on disk; one write at a time."""

    weather: Weather
    rows: dict[str, Action] = field(default_factory=dict)
    """What was read back of each write, by id."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def save(self, action: Action, _t: float, _who: str, _what: str) -> None:
        """Stores an action."""
        async with self._lock:
            await self.weather.wait(0.1)
            if self.weather.rng.random() < 0.01:
                raise ActionStoreError("the disk is full")
            self.rows[action.id] = parse_action(json.loads(json.dumps(action_to_json(action))))
            await self.weather.wait(0.1)


@dataclass
class ChaosWorld:
    """The pool, its faults, persons, and the controller."""

    seed: int
    hours: float = 0.5
    kill_every: int = 60
    """Points at which the controller waits, on average, between two deaths; 0 for none."""
    kills: int = 0
    requests: int = 0
    """Decisions of persons that were answered with yes."""
    refused: set[str] = field(default_factory=set)
    coordinator: Coordinator | None = None
    _requests: set["asyncio.Task[None]"] = field(default_factory=set)
    _left: int = 0
    _back_at: float = 0.0
    _drained_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """When persons drained something, by router and member."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.weather = Weather(self.rng, self._cross)
        self.harm = self.weather.harm
        self.store = ChaosStore(self.weather)
        self.cluster = Cluster("cluster", NODES, self.weather, 10.0, self._check_evict)
        plain = PoolRouter("plain", REPLICAS, self.weather, False, 0.0, self.cluster.is_up, self._check_drain)
        marked = PoolRouter("marked", REPLICAS, self.weather, True, 18.0, self.cluster.is_up, self._check_drain)
        self.routers = (plain, marked)
        groups = tuple(Group(name, "tensor-parallel", (node,)) for node, name in NODES.items())
        self.topology = Topology(tuple(Node(name) for name in NODES), groups, (Pool("pool", REPLICAS),))
        self.faults = self._draw_faults()

    def _draw_faults(self) -> list[tuple[str, SimulatedFault]]:
        """Returns faults and the kind of their incident: of a replica, or of a node; a quarter of them are none."""
        found, t = [], 20.0
        while t < 3600.0 * self.hours:
            speed = 1.0 if self.rng.random() < 0.25 else 0.3
            start, length = T0 + t, self.rng.choice((20.0, 60.0, 120.0, 300.0))
            fault = SimulatedFault(self.rng.choice(REPLICAS), start, start + length, speed)
            found.append((self.rng.choice(("replica", "replica", "node")), fault))
            t += self.rng.expovariate(1 / 60.0)
        return found

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return T0 + asyncio.get_running_loop().time()

    def incidents(self) -> tuple[Incident, ...]:
        """Returns the incidents of the faults so far."""
        now = self.now
        seen = [(kind, one) for kind, one in self.faults if one.start + 5.0 <= now < one.end + 600.0]
        return tuple(self._build_incident(kind, one, now) for kind, one in seen)

    def _build_incident(self, kind: str, fault: SimulatedFault, now: float) -> Incident:
        made = build_incident(fault, now)
        rule = "asked" if int(fault.start) % 3 == 0 else made.rule
        if kind == "replica":
            return replace(made, rule=rule)
        node = next(node for node, name in NODES.items() if name == fault.replica)
        advice = (Advice("evict-on-check", "scheduler", "it is slow"),)
        return replace(made, id=f"{made.id}-node", kind="node", name=node, rule=rule, mitigations=advice)

    def measure(self, action: Action, t: float) -> Measurement:
        """Returns that an action helps where there is a fault."""
        here = [one for _, one in self.faults if one.replica in action.scope.groups]
        real = any(one.speed < 1.0 and one.start <= action.created < one.end for one in here)
        return Measurement(0.5, None if t < (action.applied_at or t) + 5.0 else 1.0 if real else 0.5)

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
        self._back_at = self.now + self.rng.choice((0.0, 3.0, 20.0, 90.0))
        for one in self.store.rows.values():
            if one.state == "applying" and one.called_at is None and one.change.target == "plain":
                # Nothing was called yet: what looks like the change is the work of a person.
                self._change_by_hand(self.routers[0], one.change.member)

    def _start(self) -> None:
        targets = [*self.routers, self.cluster]
        self.rng.shuffle(targets)
        planner = Planner(self.topology, catalogue(), {one.name: one for one in targets})
        self.coordinator = Coordinator(SETTINGS, planner, self.store, self.measure)
        self.coordinator.resume(self.store.rows.values(), self.now)
        self._left = self.rng.randint(1, 2 * self.kill_every) if self.kill_every else 0

    async def run(self) -> None:
        """Lets the time of the faults pass, and then enough for everything to end."""
        end = asyncio.get_running_loop().time() + 3600.0 * self.hours
        while asyncio.get_running_loop().time() < end:
            await self._tick()
            self._interfere()
        self.kill_every = self._left = 0
        self.faults = [(kind, one) for kind, one in self.faults if one.end < self.now]
        for router in self.routers:
            for member, owner in tuple(router.owners.items()):
                if owner == PERSON:
                    router.change(member, "")
        for _ in range(900):
            await self._tick()
        await self._check_end()

    async def _tick(self) -> None:
        await asyncio.sleep(1.0)
        if self.coordinator is None and self.now >= self._back_at:
            self._start()
        if self.coordinator is not None:
            self.coordinator.step(self.now, self.incidents())
            self._check_budget(self.coordinator)

    # --- persons

    def _interfere(self) -> None:
        """Lets persons do something at random: decide about actions, some at the same time, or change a router."""
        if self.rng.random() < 0.01:
            self._change_by_hand(self.rng.choice(self.routers), self.rng.choice(REPLICAS))
        for action in self.coordinator.actions.values() if self.coordinator is not None else ():
            for verb, often in WISHES.get(action.state, {}).items():
                if self.coordinator is not None and self.rng.random() < often:
                    self._ask(self.coordinator, verb, action.id)
                    if self.rng.random() < 0.15:
                        self._ask(self.coordinator, self.rng.choice(("approve", "refuse", "undo")), action.id)

    def _ask(self, coordinator: Coordinator, verb: str, id_: str) -> None:
        async def ask() -> None:
            await asyncio.sleep(self.rng.uniform(0.0, 1.0))
            try:
                await getattr(coordinator, verb)(id_, "ann", "so decided")
            except ActionRequestError:
                return
            self.requests += 1
            if verb == "refuse":
                self.refused.add(id_)

        self._keep(ask())

    def _keep(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(doing)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    def _change_by_hand(self, router: PoolRouter, member: str) -> None:
        """Drains a member, or uses it again. Where there are no marks, only what no controller can take for its own."""
        owner = router.owners.get(member, "")
        if not router.has_marks and owner != PERSON and self._may_seem_ours(router.name, member):
            return
        taken = "" if owner else PERSON
        router.change(member, taken)
        if taken:
            self._drained_at[router.name, member] = self.now

    def _may_seem_ours(self, router: str, member: str) -> bool:
        stored = self.store.rows.values()
        mine = [o for o in stored if o.is_live and (o.change.target, o.change.member) == (router, member)]
        return any(self.coordinator is not None or one.called_at is not None for one in mine)

    # --- what must never happen

    def _check_drain(self, member: str, action: str) -> None:
        self._check_effect(self.store.rows[action], f"{action} drained {member}")

    def _check_evict(self, node: str, action: str) -> None:
        known = self.store.rows
        self._check_effect(known[action], f"{action} evicted {node}")
        same = [a for n, a in self.cluster.evicted if known[a].reason.incident == known[action].reason.incident]
        if len(same) > 1:
            self.harm.append(f"{node} was evicted {len(same)} times for one incident")

    def _check_effect(self, action: Action, what: str) -> None:
        """Notes a change that was refused, not stored before, or leaves too few replicas."""
        if action.id in self.refused:
            self.harm.append(f"{what}, which was refused")
        if action.called_at is None or action.started_at is None:
            self.harm.append(f"{what} without a stored intent")
            return
        seen = action.started_at - SEEN
        out = {name for name in REPLICAS if not self.cluster.is_up(name)}
        for router in self.routers:
            for member, owner in router.owners.items():
                if owner != PERSON or self._drained_at[router.name, member] <= seen:
                    out.add(member)
        ill = {f.replica for _, f in self.faults if f.start + 5.0 <= seen and f.end + 5.0 > self.now}
        left = len(set(REPLICAS) - out - ill - set(action.scope.groups))
        if left < MINIMUM:
            self.harm.append(f"{what}: {left} of {MINIMUM} replicas were left; out {sorted(out)}, ill {sorted(ill)}")

    def _check_budget(self, coordinator: Coordinator) -> None:
        # Where the end of one could not be stored, it ends anew after a restart, while another one may have begun.
        in_place = [one for one in coordinator.actions.values() if one.is_in_place and one.state != "undoing"]
        places = [one.scope.entity for one in in_place]
        if len(places) != len(set(places)):
            self.harm.append(f"two changes of one member: {sorted(places)}")
        if len(places) > SETTINGS.limits.at_once:
            self.harm.append(f"{len(places)} changes at once")
        begun = [one.started_at for one in self.store.rows.values() if one.started_at is not None]
        if sum(at > self.now - 3600.0 for at in begun) > SETTINGS.limits.per_hour:
            self.harm.append("more changes than an hour allows")

    async def _check_end(self) -> None:
        assert self.coordinator is not None
        live = [one for one in self.coordinator.actions.values() if one.is_live]
        self.harm += [f"{one.id} is still {one.state}: {one.title}" for one in live]
        self.harm += [f"{each.name}: {each.owners} were left behind" for each in self.routers if each.owners]
        for id_ in self.refused:
            if (state := self.coordinator.actions[id_].state) != "refused":
                self.harm.append(f"{id_} was refused and is {state}")
        await self.coordinator.close()
