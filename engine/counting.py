"""Windows over counters: how much they counted, and in what time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.moments import even
from skewscope.engine.rhythm import LONGEST, or_zero
from skewscope.engine.ring import ALL, FEW, SOON, WIDE, At, Back, Ring, depth_for, widened
from skewscope.engine.sets import F64


@dataclass(frozen=True, slots=True)
class Tally:
    """How counters stand: how much they counted since `born`, up to the sample at `time`."""

    sum: F64
    time: F64
    born: F64
    born_sum: F64
    period: F64
    fresh: NDArray[np.bool_]
    longest: float
    """The longest period."""
    newest_born: float = np.nan
    """When the last began, where all are fresh and were read at one time."""


class Counted:
    """What counters counted: how much more, and in what time, since some while ago. One lane for each series."""

    def __init__(self, tick: float, slot: float) -> None:
        self.ring = Ring(tick, slot, ("counted",))
        self.clock = Ring(tick, slot, ("time",))
        """When they were read: one lane for all, as long as they are read together."""
        self._shared = False
        self.reach = 0.0
        self.expected = 0
        """Lanes that there will be: those of a fleet come one after another."""
        self._taken = 0

    def want(self, window: float) -> None:
        """Keeps enough for a window."""
        self.reach = max(self.reach, window)
        self._coarsen(self.reach)

    def _coarsen(self, longest: float) -> None:
        self.ring.coarsen(longest)
        self.clock.coarsen(longest)

    def step(self, t: float, counted: F64, time: F64 | float, usual: Callable[[], float]) -> None:
        """Takes in how much the counters counted, up to when; `usual` gives their usual period."""
        if not self.ring.size and (lanes := max(len(counted), self.expected)) > WIDE:
            depth = depth_for(lanes, self.reach, self.ring.slot)
            self.ring, self.clock = (
                Ring(self.ring.tick, self.ring.slot, (name,), depth=depth) for name in ("counted", "time")
            )
            self._coarsen(self.reach)
        self._fit(len(counted), isinstance(time, float))
        for ring, name, row in ((self.ring, "counted", counted), (self.clock, "time", time)):
            ring.advance(t)
            ring.replace(name, row)
        if self._taken < SOON or self._taken % SOON == 0:
            self._coarsen(max(self.reach, FEW * min(usual(), LONGEST)))
        self._taken += 1

    def _fit(self, size: int, together: bool) -> None:
        """Makes room for `size` lanes, and for their times one by one if they are not read together."""
        if not self.ring.size:
            self._shared = together
        elif self._shared and not (together and size == self.ring.size):
            self.clock.widen(self.ring.size)
            self._shared = False
        elif together and not self._shared and self._taken % SOON == 0:
            self._shared = self.clock.narrow()
        self.ring.grow(size)
        self.clock.grow(1 if self._shared else size)

    def over(self, window: float, tally: Tally, at: At = ALL) -> tuple[F64, F64]:
        """(increase, seconds) from the last sample before the window, or since counting began; NaN where too short.

        `tally` is of the lanes `at`.
        """
        wide: F64 | float = window
        steps: Back = self.ring.every(window)
        if FEW * tally.longest > window:
            steps, wide = self.ring.steps(window, tally.period), widened(window, tally.period)
        sums, times = self.ring.back("counted", steps, at), self._times(steps, at)
        if isinstance(wide, float) and len(times) == 1 and times[0] >= tally.newest_born:
            took = float(tally.time[0] - times[0])
            if took >= wide / 2 and took > 0:
                return tally.sum - sums, even(took, len(sums))
        since, more = tally.time - times, tally.sum - sums
        short = ~(times >= tally.born)
        if short.any():
            since = np.where(short, tally.time - tally.born, since)
            more = np.where(short, tally.sum - tally.born_sum, more)
        good = tally.fresh & (since > 0)
        half = wide / 2
        if not (since >= half).all():
            good &= since + or_zero(tally.period) >= half
        return (more, since) if good.all() else (np.where(good, more, np.nan), np.where(good, since, np.nan))

    def _times(self, steps: Back, at: At) -> F64:
        """When some lanes were last read before so many slots; one time if that is the same for all."""
        if not self._shared:
            return self.clock.back("time", steps, at)
        if isinstance(steps, int):
            return self.clock.back("time", steps)
        return self.clock.back("time", steps, np.zeros(len(steps), np.intp))
