"""Windows over counters: how much they counted, and in what time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.rhythm import LONGEST, or_zero, usual
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


class Counted:
    """What counters counted: how much more, and in what time, since some while ago. One lane for each series."""

    def __init__(self, tick: float, slot: float) -> None:
        self.ring = Ring(tick, slot, ("counted", "time"))
        self.reach = 0.0
        self._taken = 0

    def want(self, window: float) -> None:
        """Keeps enough for a window."""
        self.reach = max(self.reach, window)
        self.ring.coarsen(self.reach)

    def step(self, t: float, counted: F64, time: F64, settled: Callable[[], F64]) -> None:
        """Takes in how much the counters counted, up to when; `settled` gives the periods that are known well."""
        if not self.ring.size and len(counted) > WIDE:
            self.ring = Ring(
                self.ring.tick,
                self.ring.slot,
                ("counted", "time"),
                depth=depth_for(len(counted), self.reach, self.ring.slot),
            )
            self.ring.coarsen(self.reach)
        self.ring.grow(len(counted))
        self.ring.advance(t)
        self.ring.row("counted")[:] = counted
        self.ring.row("time")[:] = time
        if self._taken < SOON or self._taken % SOON == 0:
            self.ring.coarsen(max(self.reach, FEW * min(usual(settled()), LONGEST)))
        self._taken += 1

    def over(self, window: float, tally: Tally, at: At = ALL) -> tuple[F64, F64]:
        """(increase, seconds) from the last sample before the window, or since counting began; NaN where too short.

        `tally` is of the lanes `at`.
        """
        wide: F64 | float = window
        steps: Back = self.ring.every(window)
        if FEW * np.fmax.reduce(tally.period, initial=0.0) > window:
            steps, wide = self.ring.steps(window, tally.period), widened(window, tally.period)
        sums, times = self.ring.back("counted", steps, at), self.ring.back("time", steps, at)
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
