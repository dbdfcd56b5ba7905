"""Time that has passed by a clock that may be set: what it jumps does not count."""

from dataclasses import dataclass


@dataclass(slots=True)
class ElapsedTime:
    """Seconds that passed; they never run backwards, and a step counts at most `max_step`."""

    max_step: float
    """Seconds beyond which a step is a jump of the clock."""
    seconds: float = 0.0
    at: float | None = None
    """Time of the last step, seconds since 1970."""

    def advance(self, t: float) -> float:
        """Returns the seconds that passed since the last step."""
        step = 0.0 if self.at is None else min(max(t - self.at, 0.0), self.max_step)
        self.at = t
        self.seconds += step
        return step
