"""Limits of actions: what stops a change from being made now. Undoing a change is never limited."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple

from skewscope.engine.actions.action import DONE, NOT_HELPED, UNPROVEN, Action
from skewscope.engine.actions.change import BLOCK, DRAIN, EVICT, MIRROR, REQUEUE
from skewscope.engine.actions.hold_out import is_return
from skewscope.engine.actions.places import HOUR, PlaceCheck, PlaceLimit
from skewscope.engine.model.topology import Topology

DAY = 86400.0
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WINDOW, BREAKER, MEMBER, COUNT, SHARE, MINIMUM = BLOCK_REASONS = (
    "window",
    "breaker",
    "member",
    "count",
    "share",
    "minimum",
)
"""Kinds of limits that stop an action: outside its windows; too many failures; its member is being changed or was a
short while ago; too many changes at a time or in an hour; too large a share; too few replicas left."""
TAKING_OUT = (DRAIN, REQUEUE, BLOCK, EVICT)
"""Kinds of changes after which a member gets no new work, or what it does is broken off."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A daily window in UTC; one whose end is before its start reaches into the next day."""

    start: float
    """Seconds since midnight."""
    end: float
    days: tuple[str, ...] = WEEKDAYS
    """Weekdays on which it starts."""

    def covers(self, t: float) -> bool:
        """Returns whether a time is inside."""
        when = datetime.fromtimestamp(t, UTC)
        second = t % 86400.0
        today, yesterday = WEEKDAYS[when.weekday()], WEEKDAYS[when.weekday() - 1]
        if self.start <= self.end:
            return today in self.days and self.start <= second < self.end
        return (today in self.days and second >= self.start) or (yesterday in self.days and second < self.end)


@dataclass(frozen=True, slots=True)
class Breaker:
    """Stops new actions after several that did not help or failed."""

    failures: int = 3
    within: float = HOUR
    """Seconds in which that many have ended."""
    pause: float = HOUR
    """Seconds after the last of them in which nothing new is started."""


@dataclass(frozen=True)
class ActionLimits:
    """Limits that hold together. The defaults let one replica of a pool, or one node of ten, be taken out at a time."""

    at_once: int = 2
    """Changes that may be in place at the same time."""
    per_hour: int = 6
    """Changes that may be started within an hour."""
    share_of_nodes: float = 0.1
    """Share of all nodes that changes may touch at the same time; those of one change are always allowed."""
    share_of_groups: float = 0.25
    """Share of all groups; one group is always allowed."""
    share_of_replicas: float = 0.34
    """Share of the replicas of a pool; one is always allowed, as far as the minimum allows it."""
    minimum_healthy: Mapping[str, int] = field(default_factory=dict)
    """Replicas of each pool that have to be left healthy and in use; where a pool is not named, more than half."""
    cool_down: float = 120.0
    """Seconds after the end of a change in which its member is left alone."""
    breaker: Breaker = field(default_factory=Breaker)
    windows: tuple[TimeWindow, ...] = ()
    """Windows in which changes may be made; empty for always."""
    places: tuple[PlaceLimit, ...] = ()
    """Limits of pools, racks and teams, which hold beside the others."""

    def minimum_of(self, pool: str, replicas: int) -> int:
        """Returns the least number of replicas of a pool that have to be left in use."""
        return self.minimum_healthy.get(pool, replicas // 2 + 1)

    @property
    def memory(self) -> float:
        """Seconds for which ended actions still count."""
        return max(DAY, self.breaker.within + self.breaker.pause, self.cool_down)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What limits are checked against."""

    topology: Topology
    serving: Mapping[str, bool | None] = field(default_factory=dict)
    """Whether replicas are given work, as all targets report it now; without those that no target knows of."""
    ill: frozenset[str] = frozenset()
    """Replicas with an incident of their own: they are not healthy, even if they are given work."""
    losses: Mapping[str, float] = field(default_factory=dict)
    """Of those that are ill: the share of its work that each loses, where it is known."""
    silent: tuple[str, ...] = ()
    """Targets that gave no answer, so that `serving` is None for their replicas."""
    members_in_use: frozenset[tuple[str, str]] = frozenset()
    """Members that their target reports to be given work, each as (target, member)."""


class LimitBlock(NamedTuple):
    """Why an action must not be started now."""

    reason: str
    """One of BLOCK_REASONS."""
    text: str
    """A sentence."""


def find_blocks(
    action: Action, others: Iterable[Action], limits: ActionLimits, around: Surroundings, t: float
) -> tuple[str, ...]:
    """Returns why an action must not be started now, one sentence each, as `list_blocks` does."""
    return tuple(block.text for block in list_blocks(action, others, limits, around, t))


def list_blocks(
    action: Action, others: Iterable[Action], limits: ActionLimits, around: Surroundings, t: float
) -> tuple[LimitBlock, ...]:
    """Returns why an action must not be started now; empty if it may.

    Args:
        action: the action that would be started.
        others: all known actions, those included that ended within `limits.memory`; the action itself is ignored.
        limits: the limits.
        around: the topology and the present state of the pools.
        t: the present time.
    """
    known = [other for other in others if other.id != action.id]
    holding = [other for other in known if other.is_in_place or is_lasting(other, around.members_in_use)]
    places = PlaceCheck(limits.places, around.topology, _changed_replicas)
    found = {
        WINDOW: _window_blocks(limits, t),
        BREAKER: _breaker_blocks(known, limits, t),
        MEMBER: _member_blocks(action, known, limits, t),
        COUNT: chain(_count_blocks(known, limits, t), places.find_counts(action, known, t)),
        SHARE: chain(_share_blocks(action, holding, limits, around.topology), places.find_shares(action, holding)),
        MINIMUM: _pool_blocks(action, holding, limits, around),
    }
    return tuple(LimitBlock(reason, text) for reason, texts in found.items() for text in texts)


def is_lasting(action: Action, members_in_use: Collection[tuple[str, str]] = ()) -> bool:
    """Returns whether a change without undo still holds its member: until that is reported to be given work again."""
    place = action.change.target, action.change.member
    return action.state == DONE and action.started_at is not None and place not in members_in_use


def _window_blocks(limits: ActionLimits, t: float) -> Iterator[str]:
    if limits.windows and not any(window.covers(t) for window in limits.windows):
        yield "outside the windows in which changes may be made"


def _breaker_blocks(known: list[Action], limits: ActionLimits, t: float) -> Iterator[str]:
    end = find_breaker_end(known, limits, t)
    if end is not None:
        yield f"{limits.breaker.failures} actions did not help: nothing new for {end - t:.0f} s"


def find_breaker_end(known: Iterable[Action], limits: ActionLimits, t: float) -> float | None:
    """Returns until when the breaker lets nothing new begin, in seconds since 1970; None while it is closed."""
    ended = sorted(end for other in known if (end := _bad_end(other)) is not None)
    breaker = limits.breaker
    recent = [end for end in ended if end <= t < end + breaker.within + breaker.pause]
    for first, last in zip(recent, recent[breaker.failures - 1 :], strict=False):
        if last - first <= breaker.within and t < last + breaker.pause:
            return last + breaker.pause
    return None


def _bad_end(action: Action) -> float | None:
    """Returns when an action failed or helped nobody; None where it did neither, or a person ran or ended it.

    What is unproven helped nobody where no witness had found the member slower, and nothing came back after it.
    """
    if action.plan.by_hand:
        return None
    seen = action.measurement
    is_unseen = seen.recovery is None and seen.working is not False and not action.witness and not action.ended_by
    in_vain = action.outcome == UNPROVEN and action.change.kind != MIRROR and is_unseen
    if action.state == "failed" or action.outcome == NOT_HELPED or in_vain:
        return action.ended_at if action.ended_at is not None else action.verified_at or action.started_at
    return None


def _member_blocks(action: Action, known: list[Action], limits: ActionLimits, t: float) -> Iterator[str]:
    entity = action.scope.entity
    same = [other for other in known if other.scope.entity == entity or other.change.member == action.change.member]
    same = [other for other in same if other.scope.entity == entity or other.change.target == action.change.target]
    for other in same:
        if other.is_in_place:
            yield f"{other.id} already changes {entity}"
    started = [other for other in same if other.started_at is not None and other.ended_at is not None]
    left = max(
        (other.ended_at + _cool_down(action, other, limits) - t for other in started if other.ended_at), default=0.0
    )
    if left > 0:
        yield f"{entity} was changed a short while ago: left alone for {left:.0f} s"


def _cool_down(action: Action, other: Action, limits: ActionLimits) -> float:
    """Returns the cool-down after another action; the next stronger step for the same incident need not wait.

    Nor does a fault that came back after all seemed well: its member is held out for longer instead.
    """
    if is_return(action, other):
        return 0.0
    stronger = other.reason.incident == action.reason.incident and other.change.kind != action.change.kind
    return 0.0 if stronger and other.outcome == NOT_HELPED else limits.cool_down


def _count_blocks(known: list[Action], limits: ActionLimits, t: float) -> Iterator[str]:
    in_place = sum(other.is_in_place for other in known)
    if in_place >= limits.at_once:
        yield f"{in_place} changes are in place, {limits.at_once} are allowed"
    started = [other for other in known if other.started_at is not None and t - HOUR < other.started_at <= t]
    if len(started) >= limits.per_hour:
        yield f"{len(started)} changes within an hour, {limits.per_hour} are allowed"


def _share_blocks(action: Action, holding: list[Action], limits: ActionLimits, topology: Topology) -> Iterator[str]:
    nodes = {name for other in (action, *holding) for name in other.scope.nodes}
    yield from _share_block("nodes", len(nodes), len(topology.nodes), limits.share_of_nodes, _own(action.scope.nodes))
    groups = {name for other in (action, *holding) for name in other.scope.groups}
    yield from _share_block(
        "groups", len(groups), len(topology.groups), limits.share_of_groups, _own(action.scope.groups)
    )
    yield from _replica_blocks(action, holding, limits, topology)


def _replica_blocks(action: Action, holding: list[Action], limits: ActionLimits, topology: Topology) -> Iterator[str]:
    mine = _changed_replicas(action)
    changed = mine.union(*(_changed_replicas(other) for other in holding))
    for pool in topology.pools:
        if own := mine.intersection(pool.replicas):
            count, what = len(changed.intersection(pool.replicas)), f"replicas of {pool.name}"
            yield from _share_block(what, count, len(pool.replicas), limits.share_of_replicas, len(own))


def _changed_replicas(action: Action) -> frozenset[str]:
    """Returns the replicas that a change touches: its own, or those on a node of which something is taken out."""
    if action.scope.kind == "replica":
        return frozenset({action.scope.entity})
    return list_lost_replicas(action)


def list_lost_replicas(action: Action) -> frozenset[str]:
    """Returns the replicas, and other groups, that get no work or lose it while a change is in place."""
    if action.change.kind not in TAKING_OUT:
        return frozenset()
    return frozenset({action.scope.entity} if action.scope.kind == "replica" else action.scope.groups)


def _own(groups: tuple[str, ...]) -> int:
    return max(len(groups), 1)


def _share_block(what: str, count: int, total: int, share: float, always: int = 1) -> Iterator[str]:
    """Yields a sentence where more than a share, and more than what is always allowed, would be touched."""
    allowed = max(int(share * total + 1e-9), always)
    if count > allowed:
        yield f"{count} of {total} {what} would be changed, {allowed} may be"


def _pool_blocks(action: Action, holding: list[Action], limits: ActionLimits, around: Surroundings) -> Iterator[str]:
    """Yields a sentence where too few healthy replicas would be left, or where it is unknown how many there are.

    What a target reports may be late: each replica that a change in place takes out counts as out, whatever is said.
    """
    mine = list_lost_replicas(action)
    if not mine:
        return
    out = mine.union(*(list_lost_replicas(other) for other in holding))
    pools = {action.scope.pool: tuple(around.serving)} if action.scope.pool else {}
    pools |= {pool.name: pool.replicas for pool in around.topology.pools if mine.intersection(pool.replicas)}
    for name, replicas in pools.items():
        used = {one for one in replicas if one not in out and around.serving.get(one, True) is True}
        left, least = len(used - around.ill), limits.minimum_of(name, len(replicas))
        if left < least:
            ill = _describe_ill(used & around.ill, around.losses)
            silent = f"; no answer from {', '.join(around.silent[:5])}" if around.silent else ""
            yield f"{left} replicas of {name} would be left in use, {least} have to be{ill}{silent}"


def _describe_ill(ill: Collection[str], losses: Mapping[str, float]) -> str:
    """Returns who is ill, the worst first, as the end of a sentence."""
    worst = sorted(ill, key=lambda name: (-losses.get(name, 0.0), name))
    lost = {name: f" (-{100 * losses[name]:.0f} %)" for name in worst if losses.get(name)}
    return f"; ill: {', '.join(name + lost.get(name, '') for name in worst[:5])}" if worst else ""
