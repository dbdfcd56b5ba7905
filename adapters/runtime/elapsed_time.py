"""Time that has passed by a clock that may be set: what it jumps does not count."""

from dataclasses import dataclass

from skewscope.adapters.runtime.clock import Clock


@dataclass(slots=True)
class ElapsedTime:
    """Seconds that passed; they never run backwards, and a step counts at most `max_step`."""

    max_step: float
    """Seconds beyond which a step is a jump of the clock."""
    seconds: float = 0.0
    at: float | None = None
    """Time of the last step, seconds since 1970."""
    max_first: float | None = None
    """The same of the first step, which may span a time in which nobody counted; None: no other."""

    def advance(self, t: float) -> float:
        """Returns the seconds that passed since the last step."""
        longest = self.max_step if self.max_first is None else self.max_first
        step = 0.0 if self.at is None else min(max(t - self.at, 0.0), longest)
        self.at, self.max_first = t, None
        self.seconds += step
        return step


@dataclass(slots=True)
class ClockChanges:
    """By how much a clock was set, found by the time that has passed meanwhile."""

    clock: Clock
    least: float
    """Seconds below which a change does not count yet; smaller ones add up."""
    _ahead: float | None = None
    """Time of the clock less the time that has passed."""

    def take(self) -> float:
        """Returns the seconds by which the clock was set since the last call: negative for back, 0 for not."""
        ahead = self.clock.now() - self.clock.uptime()
        change = 0.0 if self._ahead is None else ahead - self._ahead
        if self._ahead is not None and abs(change) < self.least:
            return 0.0
        self._ahead = ahead
        return change
