"""Compares the member of a diagnosis with its peers by readings that did not make it: probes, and the router's counts.

Each incident has its latest comparison. A probe is a small request with a deadline of its own, and a member gets few of
them in a minute, so that one that is sick is not loaded by being looked at. Probes run beside the steps of actions: one
that hangs keeps nothing else at its target waiting.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

from skewscope.adapters.actions.effect import SETTLE
from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.surroundings import list_ill_replicas
from skewscope.adapters.actions.view import IncidentView
from skewscope.adapters.targets.common.base import LoadTarget, Target, TargetError
from skewscope.engine.actions.action import Action
from skewscope.engine.actions.change import TargetState
from skewscope.engine.actions.comparison import (
    LoadSample,
    MemberComparison,
    compare_times,
    estimate_pool_time,
    estimate_times,
    has_recovered,
)
from skewscope.engine.actions.grounds import have_same_hardware
from skewscope.engine.actions.witnesses import PROBE, ROUTER

MAX_PEERS = 2
ROUNDS = 3
"""Probes before a change, of which the median counts; the first is enough where it is far beyond the limit."""
FAR = 2.0
MAX_PROBES, MAX_PEER_PROBES = 15, 60
"""Probes of one member within a minute: of one that is accused and in use, and in all. A peer is well, and is compared
with each member that is not: were it to get no more, the proposals of some would keep others from being found well."""
FRESH = 60.0
"""Seconds for which a comparison counts."""
ASK_AGAIN = 20.0
"""Seconds between two comparisons by probes while a change is not made yet."""
KEPT_SAMPLES = 120
MAX_INCIDENTS = 1000
PATIENCE = 2.0
"""Seconds for which a step waits for probes that it has begun: most end within them, also of members that are slow."""
READ_WITHIN = 5.0
"""Seconds after their end within which the next step reads what probes found."""
AT_ONCE = 16
"""Probes of one target that are under way at a time."""

Probing = Callable[[], Awaitable[MemberComparison | None]]
Start = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


@dataclass
class _Comparing:
    """Probes of a member and its peers that run beside the steps of actions."""

    begun: float
    latest: MemberComparison | None = None
    error: Exception | None = None
    took: float = math.inf
    """Seconds until all had ended; infinite while they run."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, probing: Probing) -> None:
        """Waits for the probes, and keeps what they found."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            self.latest = await probing()
        except Exception as error:  # noqa: BLE001 - whoever reads the result raises it
            self.error = error
        finally:
            self.took = clock() - begun
            self.ended.set()

    def read(self, t: float) -> MemberComparison | None:
        """Returns what was found, as of the end of the probes; None where nothing was.

        Raises:
            Exception: whatever a target raised.
        """
        if self.error is not None:
            raise self.error
        return self.latest and replace(self.latest, t=min(self.begun + self.took, t))

    async def wait(self) -> None:
        """Waits until they have ended, PATIENCE at most."""
        if not self.ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self.ended.wait()


@dataclass
class WitnessReadings:
    """What probes and routers said of members, and when they may be asked again."""

    planner: Planner
    start: Start
    """Starts a job that runs beside those of targets."""
    _comparisons: dict[str, MemberComparison] = field(default_factory=dict)
    """The latest by incident."""
    _probes: dict[tuple[str, str], deque[float]] = field(default_factory=dict)
    """Times of the latest probes by target and member."""
    _loads: dict[str, deque[LoadSample]] = field(default_factory=dict)
    """By target."""
    _under_way: dict[tuple[str, str], _Comparing] = field(default_factory=dict)
    """By incident and member: what was begun and not read yet."""
    _room: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    """For probes, by target."""

    def latest(self, incident: str, t: float) -> MemberComparison | None:
        """Returns the latest comparison for an incident; None where there is none that still counts."""
        kept = self._comparisons.get(incident)
        return kept if kept is not None and 0.0 <= t - kept.t <= FRESH else None

    async def compare(
        self, target: Target, action: Action, state: TargetState, view: IncidentView, within: float = ASK_AGAIN
    ) -> bool:
        """Compares the member of an action that is not made yet with its peers, unless it was within some seconds.

        Returns whether that is over; False while its probes are under way.
        """
        t, incident, member = view.t, action.reason.incident, action.change.member
        await self.sample(target, t)
        kept = self._comparisons.get(incident)
        if kept is not None and kept.witness == PROBE and 0.0 <= t - kept.t < within:
            return True
        peers = list_peers(self.planner, view, target, action, state)
        probed = await self._probe_beside(action, t, -math.inf, partial(self._probe_often, target, member, peers, t))
        if probed is None:
            return False
        latest = probed.read(t) or self._compare_loads(target, member, peers, t)
        if latest is not None:
            self._keep(incident, latest)
        return True

    async def _probe_beside(self, action: Action, t: float, since: float, probing: Probing) -> _Comparing | None:
        """Returns probes for an action that have ended, and begins them where there are none; None while they run.

        Those that were begun before `since`, and those that ended long ago, do not count.
        """
        key = action.reason.incident, action.change.member
        comparing = self._under_way.get(key)
        if comparing is None or not since <= comparing.begun <= t <= comparing.begun + comparing.took + READ_WITHIN:
            comparing = self._under_way[key] = _Comparing(t)
            self.start(partial(comparing.run, probing))
            await comparing.wait()
        if not comparing.ended.is_set():
            return None
        self._under_way.pop(key, None)
        return comparing

    def forget(self, known: Container[str]) -> None:
        """Drops the probes under way for incidents that are not among some."""
        self._under_way = {key: comparing for key, comparing in self._under_way.items() if key[0] in known}

    async def probe(
        self, target: Target, member: str, peers: Iterable[str], t: float, most: int = MAX_PROBES
    ) -> MemberComparison | None:
        """Returns how a member compares with up to two peers by one probe each.

        None where it cannot be probed, has no peer that answers, or had `most` probes in this minute. A member that
        gives no answer is slower than its peers.
        """
        asked = (self._probe_once(target, peer, t, MAX_PEER_PROBES) for peer in sorted(peers)[:MAX_PEERS])
        answers = await asyncio.gather(*asked)
        times = [seconds for seconds in answers if seconds is not None and math.isfinite(seconds)]
        if None in answers or not times:
            return None
        mine = await self._probe_once(target, member, t, most)
        return None if mine is None else MemberComparison(PROBE, t, mine, median(times))

    async def probe_in_place(
        self, target: Target, action: Action, peers: Iterable[str], t: float, every: float
    ) -> MemberComparison | None:
        """Returns a comparison by probes for a change in place, and keeps it; None where one is too early."""
        kept, applied = self._comparisons.get(action.reason.incident), action.applied_at or t
        if kept is not None and applied < kept.t <= t < kept.t + every:
            return None
        # One that is out is probed as often as its operator wants: it is put back by these probes.
        most = max(MAX_PROBES, ROUNDS + math.ceil(60.0 / every))
        probing = partial(self.probe, target, action.change.member, peers, t, most)
        probed = await self._probe_beside(action, t, applied, probing)
        if probed is None:
            return None
        latest = probed.read(t)
        if latest is not None:
            self._keep(action.reason.incident, latest)
        return latest

    def has_probe(self, incident: str, t: float, every: float) -> bool:
        """Returns whether the member of an incident was probed of late, answered or not, if that is due `every` s."""
        kept = self._comparisons.get(incident)
        return kept is not None and kept.witness == PROBE and 0.0 <= t - kept.t <= max(FRESH, 2.0 * every)

    def describe(self, incident: str, t: float) -> str:
        """Returns what the latest comparison for an incident says; '' for none."""
        kept = self.latest(incident, t)
        return kept.describe() if kept is not None else ""

    def _keep(self, incident: str, latest: MemberComparison) -> None:
        self._comparisons.pop(incident, None)
        self._comparisons[incident] = latest
        while len(self._comparisons) > MAX_INCIDENTS:
            del self._comparisons[next(iter(self._comparisons))]

    async def _probe_once(self, target: Target, member: str, t: float, most: int) -> float | None:
        """Returns the seconds of a probe, infinite where it has no answer; None where there is none now."""
        past = self._probes.setdefault((target.name, member), deque(maxlen=MAX_PEER_PROBES))
        if len(past) >= most and 0.0 <= t - past[-most] < 60.0:
            return None
        past.append(t)
        async with self._room.setdefault(target.name, asyncio.Semaphore(AT_ONCE)):
            try:
                return await target.probe(member)
            except TargetError:
                return math.inf

    async def _probe_often(
        self, target: Target, member: str, peers: Iterable[str], t: float
    ) -> MemberComparison | None:
        """Returns the comparison of the medians of some probes; None where there is none."""
        rounds: list[MemberComparison] = []
        while len(rounds) < ROUNDS:
            latest = await self.probe(target, member, peers, t)
            if latest is None:
                break
            rounds.append(latest)
            if latest.member > FAR * latest.limit:
                return latest
        return compare_times(PROBE, t, [each.member for each in rounds], [each.peers for each in rounds])

    # --- the router's own counts

    async def sample(self, target: Target, t: float) -> None:
        """Reads what a router counts of its members; nothing where it counts nothing, or does not answer."""
        if not isinstance(target, LoadTarget):
            return
        kept = self._loads.setdefault(target.name, deque(maxlen=KEPT_SAMPLES))
        if kept and t <= kept[-1][0]:
            if t == kept[-1][0]:
                return
            kept.clear()  # the clock was set back
        try:
            loads = await target.read_load()
        except Exception:  # noqa: BLE001 - a router that cannot count is no witness, and keeps nothing in place
            return
        if loads:
            kept.append((t, loads))

    def _samples(self, target: Target, start: float, end: float) -> Sequence[LoadSample]:
        return [sample for sample in self._loads.get(target.name, ()) if start <= sample[0] <= end]

    def _compare_loads(self, target: Target, member: str, peers: Iterable[str], t: float) -> MemberComparison | None:
        times = estimate_times(self._samples(target, t - FRESH, t))
        mine = [times[member]] if member in times else []
        return compare_times(ROUTER, t, mine, [times[peer] for peer in peers if peer in times])

    def confirm_by_router(self, target: Target, action: Action, t: float) -> str:
        """Returns what the router's own counts say for the effect of a change in place; '' where they do not.

        The member was slower than its peers there, and the pool is quicker without it: a pool may also have been slow
        because of others, which are well by now.
        """
        if action.started_at is None or action.applied_at is None:
            return ""
        samples = self._samples(target, action.started_at - FRESH, action.started_at)
        times = estimate_times(samples)
        mine = [times.pop(action.change.member)] if action.change.member in times else []
        accused = compare_times(ROUTER, t, mine, list(times.values()))
        before = estimate_pool_time(samples)
        after = estimate_pool_time(self._samples(target, action.applied_at + SETTLE, t))
        if accused is None or not accused.is_slower or before is None or after is None:
            return ""
        if not has_recovered(before, accused.peers, after):
            return ""
        return f"requests take {after:.2f} s at the router, {before:.2f} s before"


def list_peers(
    planner: Planner, view: IncidentView, target: Target, action: Action, state: TargetState
) -> tuple[str, ...]:
    """Returns the members that are in use beside an action's, of the same pool, without a diagnosis of their own.

    Those of other hardware are none: whoever is compared with them is slower or quicker, well or not.
    """
    pool = next((pool.replicas for pool in planner.topology.pools if pool.name == action.scope.pool), None)
    ill = list_ill_replicas(planner, view)
    entity_of = {member: entity for entity, member in target.members.items()}
    serving = [
        one.member
        for one in state.members.values()
        if one.serving
        and one.member != action.change.member
        and (pool is None or entity_of.get(one.member, "") in pool)
        and have_same_hardware(action.scope.entity, entity_of.get(one.member, ""), planner.topology) is not False
    ]
    return tuple(member for member in serving if entity_of.get(member) not in ill) or tuple(serving)
