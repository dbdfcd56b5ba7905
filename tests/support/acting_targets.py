"""Simulated targets that take time: routers with and without marks over the same pool, and a cluster that evicts.

Each keeps, beside what it reports, the truth that it does not report: who made each change. A call that nobody may make
is noted in `harm`.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import Call, SocketCall
from skewscope.engine.actions.change import (
    ABSENT,
    DRAIN,
    EVICT,
    FOREIGN,
    OURS,
    Change,
    ChangeSupport,
    MemberState,
    TargetState,
)

PERSON = "a person"
DOWN_SECONDS = 30.0
"""Seconds that a replica takes to start again after an eviction."""


@dataclass
class Weather:
    """How targets behave, by a seed."""

    rng: random.Random
    crossing: Callable[[], None] = lambda: None
    """Called at each point at which the controller may die."""
    failing: float = 0.05
    """Share of calls and readings that fail."""
    harm: list[str] = field(default_factory=list)

    async def wait(self, most: float) -> None:
        """Lets some time pass, in which a controller may die."""
        self.crossing()
        await asyncio.sleep(self.rng.uniform(0.0, most))
        self.crossing()

    def fails(self) -> bool:
        """Returns whether something fails now."""
        return self.rng.random() < self.failing


@dataclass
class PoolRouter:
    """A router: `drain MEMBER ACTION VERSION` and `ready ...`. One without marks heeds no version either."""

    name: str
    names: tuple[str, ...]
    weather: Weather
    has_marks: bool
    lag: float = 0.0
    """Most seconds between the acceptance of a call and its effect."""
    is_up: Callable[[str], bool] = lambda _name: True
    on_drain: Callable[[str, str], None] = lambda _member, _action: None
    """Told of each drain of ours at the time of its effect."""
    owners: dict[str, str] = field(default_factory=dict)
    """Who drained each member: the id of an action, or PERSON."""
    versions: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    """(line, action) of each call that was accepted."""

    @property
    def support(self) -> Mapping[str, ChangeSupport]:
        """It drains."""
        return {DRAIN: ChangeSupport()}

    @property
    def members(self) -> Mapping[str, str]:
        """Members have the names of their replicas."""
        return {name: name for name in self.names}

    async def read_state(self) -> TargetState:
        """Returns who is drained, by whom where it keeps marks."""
        await self.weather.wait(0.3)
        if self.weather.fails():
            raise TargetError(f"{self.name}: no answer within 5 s")
        return TargetState({name: self._report(name) for name in self.names})

    def _report(self, name: str) -> MemberState:
        owner = self.owners.get(name, "") if self.has_marks else ""
        details = (("drained", "yes" if name in self.owners else ""), ("version", str(self.versions.get(name, 0))))
        return MemberState(name, name not in self.owners and self.is_up(name), 1.0, owner, details)

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns one line."""
        return (self._line("drain", change, state),)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns one line, none where nothing of ours is left."""
        return (self._line("ready", change, state),) if self.find_standing(change, before, state) == OURS else ()

    def _line(self, what: str, change: Change, state: TargetState) -> Call:
        version = state.members[change.member].detail("version")
        return SocketCall(self.name, f"{what} {change.member} {change.action} {version}")

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with a drained member."""
        return state.with_member(change.member, {"drained": "yes"}, serving=False, owner=change.action)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a drain stands: by its mark, or by the state alone."""
        now = state.members[change.member]
        if not now.detail("drained"):
            return ABSENT
        return OURS if not self.has_marks or now.owner == change.action else FOREIGN

    async def make_call(self, call: Call) -> None:
        """Accepts a line; it takes effect then, or later, whether or not its caller still lives."""
        assert isinstance(call, SocketCall)
        what, member, action, version = call.line.split()
        await self.weather.wait(0.3)
        fails = self.weather.fails()
        if fails and self.weather.rng.random() < 0.5:
            raise TargetError(f"{call.line}: refused")
        if self.has_marks and self.versions.get(member, 0) != int(version):
            raise ConflictError(f"{call.line}: changed meanwhile")
        self.calls.append((f"{what} {member}", action))
        lag = self.weather.rng.uniform(0.0, self.lag)
        asyncio.get_running_loop().call_later(lag, self._carry_out, what, member, action, int(version))
        await self.weather.wait(0.3)
        if fails:
            raise TargetError(f"{call.line}: no answer within 5 s")

    def _carry_out(self, what: str, member: str, action: str, version: int) -> None:
        if self.has_marks and self.versions.get(member, 0) != version:
            return
        owner = self.owners.get(member)
        if what == "drain":
            if owner not in (None, action):
                self.weather.harm.append(f"{action} drained {member} at {self.name}, which {owner} had drained")
            self.change(member, action)
            self.on_drain(member, action)
        elif owner is not None:
            if owner != action:
                self.weather.harm.append(f"{action} took back what {owner} did to {member} at {self.name}")
            self.change(member, "")

    def change(self, member: str, owner: str) -> None:
        """Drains a member for an owner; '' to use it again."""
        self.versions[member] = self.versions.get(member, 0) + 1
        self.owners.pop(member, None)
        if owner:
            self.owners[member] = owner

    async def read_work(self) -> Mapping[str, float]:
        """Counts nothing, or fails in a way that nobody foresaw."""
        if self.weather.fails():
            raise ValueError("could not convert string to float: ''")
        return {}

    async def probe(self, member: str) -> float | None:
        """Has no probe."""
        return None


@dataclass
class Cluster:
    """A scheduler that evicts what runs on a node: it is down for a while, and cannot be brought back."""

    name: str
    nodes: Mapping[str, str]
    """Replica of each node."""
    weather: Weather
    lag: float = 0.0
    on_evict: Callable[[str, str], None] = lambda _node, _action: None
    down_until: dict[str, float] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)
    evicted: list[tuple[str, str]] = field(default_factory=list)
    """(node, action) of each eviction."""

    @property
    def support(self) -> Mapping[str, ChangeSupport]:
        """It evicts, which has no undo."""
        return {EVICT: ChangeSupport(reversible=False)}

    @property
    def members(self) -> Mapping[str, str]:
        """Members have the names of their nodes."""
        return {name: name for name in self.nodes}

    def is_up(self, replica: str) -> bool:
        """Returns whether a replica runs."""
        now = asyncio.get_running_loop().time()
        return all(self.down_until.get(node, 0.0) <= now for node, one in self.nodes.items() if one == replica)

    async def read_state(self) -> TargetState:
        """Returns which pod runs on each node."""
        await self.weather.wait(0.3)
        if self.weather.fails():
            raise TargetError(f"{self.name}: no answer within 5 s")
        pods = {name: (("pod", str(self.pods.get(name, 0))),) for name in self.nodes}
        return TargetState({name: MemberState(name, True, details=pods[name]) for name in self.nodes})

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns one line, which names the pod."""
        pod = state.members[change.member].detail("pod")
        return (SocketCall(self.name, f"evict {change.member} {change.action} {pod}"),)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns nothing."""
        return ()

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state without its pod."""
        return state.with_member(change.member, {"pod": ""})

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns whether another pod runs there."""
        return ABSENT if state.members[change.member].detail("pod") == before.detail("pod") else OURS

    async def make_call(self, call: Call) -> None:
        """Accepts a line, which takes effect later."""
        assert isinstance(call, SocketCall)
        _, node, action, pod = call.line.split()
        await self.weather.wait(0.3)
        lag = self.weather.rng.uniform(0.0, self.lag)
        asyncio.get_running_loop().call_later(lag, self._carry_out, node, action, int(pod))
        await self.weather.wait(0.3)
        if self.weather.fails():
            raise TargetError(f"{call.line}: no answer within 5 s")

    def _carry_out(self, node: str, action: str, pod: int) -> None:
        if self.pods.get(node, 0) == pod:
            self.pods[node] = pod + 1
            self.down_until[node] = asyncio.get_running_loop().time() + DOWN_SECONDS
            self.evicted.append((node, action))
            self.on_evict(node, action)

    async def read_work(self) -> Mapping[str, float]:
        """Counts nothing."""
        return {}

    async def probe(self, member: str) -> float | None:
        """Has no probe."""
        return None
