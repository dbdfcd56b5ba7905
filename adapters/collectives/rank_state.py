"""The state of each rank of a job in its collectives, and who has not come to which: the unit that all readers feed.

Ranks of a group begin the same collectives in one order. Those that wait in a collective name it; who began fewer, or
does something else, has not joined it. Of a rank that nothing is known of, only a gap among the others tells.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

NOT_JOINED, DIFFER, NOT_FINISHED = "collective-not-joined", "collectives-differ", "collective-not-finished"
"""Ids of the events that findings are."""
MIN_WAITING, MOST_WAITING = 3, 0.75
"""Ranks, and their share of all, that wait in one collective where the only stacks are of one moment."""
LINE_NUMBER = re.compile(r":\d+")
MAX_NAMED = 8
"""Ranks that a sentence lists."""
MAX_RANK = 1 << 20
REPORT, FINGERPRINTS = "of the report of ranks out of step", "of the comparison of collectives"
"""Sources that number collectives in their own way: groups of all ranks."""
DEFAULT = "default_pg"
WHOLE = frozenset({"0", REPORT, FINGERPRINTS})
"""Names of groups of all ranks."""


@dataclass(frozen=True, slots=True)
class RankState:
    """What a rank does, as one source says."""

    rank: int
    group: str = ""
    """Process group or communicator whose ranks and numbers these are; '' where nothing says it."""
    number: int | None = None
    """Number of the newest collective that it began."""
    operation: str = ""
    """The collective that it waits in, or began last."""
    is_waiting: bool = False
    """Whether it waits in that collective."""
    place: str = ""
    """What else it does: function and line."""
    waited: float = 0.0
    """Seconds that it has waited."""
    time: float = 0.0
    """Seconds since 1970."""
    looks: int = 0
    """How often a stack of it showed this and nothing else, one after another; 0 where no stack says it."""


@dataclass(frozen=True, slots=True)
class StateFinding:
    """What the states of the ranks of a group show together."""

    event: str
    text: str
    time: float
    ranks: tuple[int, ...] = ()
    """The ranks that it names; () for the group."""


def judge_states(states: Iterable[RankState], size: int = 0) -> list[StateFinding]:
    """Returns who is missing, in each group.

    Args:
        states: in the order in which they were written; later ones complete earlier ones.
        size: ranks of the job, 0 where that is not known.
    """
    groups: dict[str, dict[int, RankState]] = {}
    for state in states:
        own = groups.setdefault(state.group, {})
        own[state.rank] = _join(own[state.rank], state) if state.rank in own else state
    found = [_GroupStates(name, own, size) for name, own in _name_single(groups).items()]
    return [finding for each in found for finding in each.findings()]


def _join(before: RankState, now: RankState) -> RankState:
    """Returns a state with what an earlier one said more; of a rank that went on between two stacks, neither."""
    if before.looks and now.looks:
        if _doing(before) != _doing(now):
            return replace(now, operation="", is_waiting=False, place="")
        return replace(now, looks=before.looks + 1)
    numbers = [one.number for one in (before, now) if one.number is not None]
    return replace(
        now,
        number=max(numbers, default=None),
        operation=now.operation or before.operation,
        is_waiting=before.is_waiting or now.is_waiting,
        waited=max(before.waited, now.waited),
        time=min(before.time, now.time),
    )


def _doing(state: RankState) -> tuple[str, str]:
    return state.operation, LINE_NUMBER.sub("", state.place)


def _name_single(groups: Mapping[str, dict[int, RankState]]) -> Mapping[str, dict[int, RankState]]:
    """Returns the groups; states without a group belong to the only one that has a name."""
    named = [name for name in groups if name]
    if "" not in groups or len(named) != 1:
        return groups
    joined = dict(groups[""])
    for rank, state in groups[named[0]].items():
        joined[rank] = _join(joined[rank], state) if rank in joined else state
    return {named[0]: joined}


@dataclass(frozen=True)
class _GroupStates:
    name: str
    states: Mapping[int, RankState]
    size: int

    def findings(self) -> Iterator[StateFinding]:
        """Yields who is missing, whose program differs, or that all have come; nothing where too little is known."""
        waiting = {rank: one for rank, one in self.states.items() if one.is_waiting}
        if not waiting or len(self.members) < 2:
            return
        target = _most_common(waiting.values())
        there = {rank: one for rank, one in waiting.items() if one.number == target.number}
        same = {rank for rank, one in there.items() if one.operation in ("", target.operation)}
        missing = [rank for rank in self.members if rank not in there and not self._is_past(rank, target)]
        differing = sorted(there.keys() - same)
        if differing:
            yield self._differ(target, sorted(same), differing)
        if missing and self._may_name(missing, same):
            for rank in missing[:MAX_NAMED]:
                yield self._not_joined(target, sorted(same), missing, rank)
        elif self._is_whole and not differing and len(same) == len(self.members):
            yield self._not_finished(target, sorted(same))

    @property
    def members(self) -> Sequence[int]:
        """The ranks that the group must have: all of a known size, else the smallest aligned block with those seen.

        A launcher gives a node the ranks of one block: 8 to 15, whose first is a multiple of its length.
        """
        low, high = min(self.states), max(self.states)
        if self._is_whole and high < self.size:
            return range(self.size)
        if any(one.place for one in self.states.values()):
            return sorted(self.states)
        length = next(n for n in range(high - low + 1, high + 2) if low // n == high // n)
        return range(low // length * length, low // length * length + length)

    @property
    def _is_whole(self) -> bool:
        """Whether the size of the job is known, and this is the group of all its ranks."""
        return self.size > 0 and (not self.name or self.name in WHOLE or DEFAULT in self.name)

    def _is_past(self, rank: int, target: RankState) -> bool:
        """Returns whether a rank that does not wait there has gone further, or nothing says where it is."""
        own = self.states.get(rank)
        if own is None:
            return False
        if own.number is not None and target.number is not None:
            return own.number > target.number or (own.number == target.number and not own.is_waiting)
        return not own.place and not own.is_waiting

    def _may_name(self, missing: Sequence[int], same: Iterable[int]) -> bool:
        """Returns whether those that wait show that the others are missing: most of the group wait.

        Stacks of one moment show a rank in the middle of its step as well: then nearly all others have to wait.
        """
        if all(one.looks == 1 for one in self.states.values()):
            waiting = len([*same])
            return waiting >= MIN_WAITING and waiting >= MOST_WAITING * len(self.members)
        return len(missing) < len([*same]) or any(rank in self.states for rank in missing)

    def _not_joined(self, target: RankState, waiting: Sequence[int], missing: Sequence[int], rank: int) -> StateFinding:
        have = "has" if len(missing) == 1 else "have"
        seconds = max(self.states[one].waited for one in waiting)
        waited = f", for {seconds:.0f} s" if seconds else ""
        wait = "waits" if len(waiting) == 1 else "wait"
        text = (
            f"{_ranks(missing).capitalize()} {have} not joined {_collective(target)}{self._where}: {_ranks(waiting)} "
            f"{wait} for it{waited}; {self._of(rank)}"
        )
        return StateFinding(NOT_JOINED, text, self._time(waiting), (rank,))

    def _of(self, rank: int) -> str:
        """Returns what is known of a missing rank."""
        own = self.states.get(rank)
        if own is None:
            return f"nothing here is of rank {rank}"
        if own.place:
            return f"rank {rank} is in {own.place}"
        return f"rank {rank} {'waits in' if own.is_waiting else 'began last'} {_collective(own)}"

    def _differ(self, target: RankState, same: Sequence[int], differing: Sequence[int]) -> StateFinding:
        others = ", ".join(f"rank {rank} {self.states[rank].operation}" for rank in differing[:MAX_NAMED])
        number = "" if target.number is None else f" as collective {target.number}"
        run = "runs" if len(same) == 1 else "run"
        text = (
            f"The programs of the ranks differ{self._where}: {_ranks(same)} {run} {target.operation}{number}, {others}"
        )
        return StateFinding(DIFFER, text, self._time(self.states))

    def _not_finished(self, target: RankState, same: Sequence[int]) -> StateFinding:
        text = (
            f"No rank is missing{self._where}: {_ranks(same)} joined {_collective(target)}, and none finished it; what "
            "holds it is not in their programs' order"
        )
        return StateFinding(NOT_FINISHED, text, self._time(same))

    @property
    def _where(self) -> str:
        return "" if not self.name or self.name in WHOLE or DEFAULT in self.name else f" of process group {self.name}"

    def _time(self, ranks: Iterable[int]) -> float:
        return min(self.states[rank].time for rank in ranks)


def _most_common(waiting: Iterable[RankState]) -> RankState:
    """Returns a state of the collective in which the most ranks wait; of two the later one."""
    states = list(waiting)
    counts = Counter(one.number for one in states)
    number = max(counts, key=lambda one: (counts[one], -1 if one is None else one))
    there = [one for one in states if one.number == number]
    operations = Counter(one.operation for one in there if one.operation)
    first = operations.most_common(1)[0][0] if operations else ""
    return next(one for one in there if one.operation == first)


def _collective(state: RankState) -> str:
    name = state.operation or "collective"
    return name if state.number is None else f"{name} {state.number}"


def _ranks(ranks: Sequence[int]) -> str:
    """Returns ranks as a text: `rank 3`, `ranks 1 to 3`, `ranks 0, 4 and 9 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    shown = [str(rank) for rank in ranks[:MAX_NAMED]]
    more = len(ranks) - len(shown)
    last = f"{more} more" if more else shown.pop()
    return f"ranks {', '.join(shown)} and {last}"
