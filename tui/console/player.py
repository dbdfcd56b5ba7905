"""Position and playback of a replay. Pure: callers pass elapsed time."""

import re
from bisect import bisect_right
from dataclasses import dataclass, replace

SPEEDS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Player:
    """A position among the snapshot times; every move returns a new player."""

    times: tuple[float, ...]
    index: int = 0
    playing: bool = False
    speed_index: int = 2
    pending_s: float = 0.0
    """Data time elapsed since the current snapshot."""

    @classmethod
    def at_end(cls, times: tuple[float, ...]) -> "Player":
        """Returns a paused player at the last snapshot."""
        return cls(times, max(len(times) - 1, 0))

    @property
    def time(self) -> float:
        """The time of the current snapshot."""
        return self.times[self.index] if self.times else 0.0

    @property
    def speed(self) -> int:
        """Seconds of data per second."""
        return SPEEDS[self.speed_index]

    @property
    def is_at_end(self) -> bool:
        """Whether this is the last snapshot."""
        return self.index >= len(self.times) - 1

    def step(self, by: int) -> "Player":
        """Move by snapshots and pause."""
        index = min(max(self.index + by, 0), max(len(self.times) - 1, 0))
        return replace(self, index=index, playing=False, pending_s=0.0)

    def seek(self, time: float) -> "Player":
        """Move to the last snapshot at or before a time."""
        index = min(max(bisect_right(self.times, time) - 1, 0), max(len(self.times) - 1, 0))
        return replace(self, index=index, pending_s=0.0)

    def jump(self, by_s: float) -> "Player":
        """Move by seconds of data."""
        return self.seek(self.time + by_s)

    def toggle(self) -> "Player":
        """Play or pause; at the end, play from the start."""
        index = 0 if not self.playing and self.is_at_end else self.index
        return replace(self, index=index, playing=not self.playing and len(self.times) > 1, pending_s=0.0)

    def shift_speed(self, by: int) -> "Player":
        """Change to a higher or lower speed."""
        return replace(self, speed_index=min(max(self.speed_index + by, 0), len(SPEEDS) - 1))

    def advance(self, seconds: float) -> "Player":
        """Advance by elapsed seconds; pauses at the end."""
        if not self.playing:
            return self
        owed = self.pending_s + seconds * self.speed
        there = self.seek(self.time + owed)
        left = owed - (there.time - self.time)
        return replace(there, pending_s=left, playing=not there.is_at_end)


def parse_time(text: str, start: float, end: float) -> float | None:
    """Parse `12:03:11`, `12:03`, `+30` or `-10` (from the end); None if it is not a time."""
    text = text.strip()
    if relative := re.fullmatch(r"([+-])(\d{1,9}(?:\.\d{1,6})?)", text):
        seconds = float(relative[2])
        return start + seconds if relative[1] == "+" else end - seconds
    if not (clock := re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", text)):
        return None
    wanted = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
    midnight = start - start % 86400
    # A recording may run past midnight: take the first such time that is not before its start.
    days = range(int((end - midnight) // 86400) + 1)
    return next((midnight + d * 86400 + wanted for d in days if midnight + d * 86400 + wanted >= start // 1), None)
