"""How much one sender may use: a rate, and a burst after a pause (a leaky bucket)."""

from dataclasses import dataclass


@dataclass(slots=True)
class WorkAllowance:
    """What a sender has used, less what its rate has given back since."""

    rate: float
    """Amount a second in the long run."""
    burst: float
    """Amount at once after a pause."""
    used: float = 0.0
    _at: float = 0.0

    def has_room(self, now: float) -> bool:
        """Returns whether anything may be used at a time."""
        return self.level(now) < self.burst

    def level(self, now: float) -> float:
        """Returns what is used up at a time."""
        self.used = max(self.used - max(now - self._at, 0.0) * self.rate, 0.0)
        self._at = now
        return self.used

    def use(self, amount: float) -> None:
        """Counts what was used."""
        self.used += amount

    @property
    def wait(self) -> float:
        """Seconds until there is room again."""
        return max(self.used - self.burst, 0.0) / self.rate
