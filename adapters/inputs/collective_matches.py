"""Which operations in the traces of several ranks are one collective: by number, else by place, else by step.

A rank's processor runs ahead of its device, so its marks of steps may come earlier than those of others by some
collectives. Places count over a whole trace for that reason.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skewscope.engine.model.arrays import F64, Index

MAX_SHIFT = 64
"""Collectives that one trace has and another one lacks at its begin or its end."""
ROUGHNESS = 20
"""Differences of a place are alike within this part of the median time between collectives."""


@dataclass(frozen=True)
class RankCollectives:
    """The collectives of one rank in one group, in the order of their begins; [collective] each."""

    ends: F64
    """Seconds on the clock of the rank."""
    lengths: F64
    """Seconds."""
    steps: Index
    """Number of the step in which each ends; -1 for none."""
    sequence: F64
    """Number of each in its group; NaN where the trace does not say it."""


Match = list[tuple[int, int]]
"""Member and place in its trace of each part of one collective."""


def match_collectives(members: Sequence[RankCollectives]) -> Iterator[Match]:
    """Yields the parts of each collective that two or more members have."""
    if all(len(each.sequence) and np.isfinite(each.sequence).all() for each in members):
        yield from _match_keys([_sequence_keys(each) for each in members])
        return
    counts = {len(each.ends) for each in members}
    shifts = [0] * len(members) if len(counts) == 1 else _find_shifts(members)
    if shifts is None:
        yield from _match_keys(_step_keys(members))
    else:
        keys = [
            [(place + shift, 0) for place in range(len(each.ends))] for each, shift in zip(members, shifts, strict=True)
        ]
        yield from _match_keys(keys)


Key = tuple[int, int]


def _match_keys(keys: Sequence[Sequence[Key | None]]) -> Iterator[Match]:
    """Yields the parts that have the same key."""
    found: dict[Key, Match] = {}
    for member, own in enumerate(keys):
        for place, key in enumerate(own):
            if key is not None:
                found.setdefault(key, []).append((member, place))
    yield from (parts for _, parts in sorted(found.items()) if len(parts) > 1)


def _sequence_keys(member: RankCollectives) -> list[Key | None]:
    """Returns the number of each collective, and how many of the same number came before it."""
    times: Counter[int] = Counter()
    keys: list[Key | None] = []
    for number in member.sequence.astype(np.int64).tolist():
        keys.append((number, times[number]))
        times[number] += 1
    return keys


def _step_keys(members: Sequence[RankCollectives]) -> list[list[Key | None]]:
    """Returns the step of each collective and its place there, where all members that have the step have as many."""
    counts = [Counter(each.steps.tolist()) for each in members]
    equal = {step for step in set().union(*counts) - {-1} if len({each[step] for each in counts if each[step]}) == 1}
    keys: list[list[Key | None]] = []
    for each in members:
        seen: Counter[int] = Counter()
        own: list[Key | None] = []
        for step in each.steps.tolist():
            own.append((step, seen[step]) if step in equal else None)
            seen[step] += 1
        keys.append(own)
    return keys


def _find_shifts(members: Sequence[RankCollectives]) -> list[int] | None:
    """Returns by how many places each trace begins behind that of the first member; None where they do not fit.

    All ranks end a collective together: with the right shift the ends of two ranks differ by the same time, the one
    between their clocks.
    """
    first = members[0].ends
    if len(first) < 2:
        return None
    unit = float(np.median(np.diff(first))) / ROUGHNESS
    shifts = [_find_shift(first, each.ends, unit) for each in members]
    found = [shift for shift in shifts if shift is not None]
    return found if len(found) == len(members) else None


def _find_shift(first: F64, other: F64, unit: float) -> int | None:
    """Returns by how many places a trace begins behind another one; None where no shift fits."""
    most = len(first) - len(other)
    best: tuple[float, float, int] | None = None
    for shift in range(min(most, 0), max(most, 0) + 1):
        own = first[max(shift, 0) :]
        rest = other[max(-shift, 0) :]
        count = min(len(own), len(rest))
        if abs(shift) > MAX_SHIFT or count < 2:
            continue
        differences = rest[:count] - own[:count]
        offset = float(np.median(differences))
        # The largest one counts: a trace may lack collectives in its middle.
        spread = float(np.abs(differences - offset).max())
        # Where each step is like the one before, several shifts fit; clocks of one job are near each other.
        rank = (spread // unit if unit > 0 else spread, abs(offset), shift)
        best = rank if best is None else min(best, rank)
    return best[2] if best and best[0] < ROUGHNESS / 4 else None
