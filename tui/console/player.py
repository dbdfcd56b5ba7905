"""Where a replay stands and how it moves. Pure: time goes by because a caller says so."""

import re
from bisect import bisect_right
from dataclasses import dataclass, replace

SPEEDS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Player:
    """A place among the times of the snapshots; every move gives a new one."""

    times: tuple[float, ...]
    index: int = 0
    playing: bool = False
    speed_index: int = 2
    pending_s: float = 0.0
    """Data time that went by since the snapshot shown."""

    @classmethod
    def at_end(cls, times: tuple[float, ...]) -> "Player":
        """Held at the last snapshot, where everything that happened can be seen."""
        return cls(times, max(len(times) - 1, 0))

    @property
    def time(self) -> float:
        """The time shown."""
        return self.times[self.index] if self.times else 0.0

    @property
    def speed(self) -> int:
        """Seconds of data in a second."""
        return SPEEDS[self.speed_index]

    @property
    def is_at_end(self) -> bool:
        """Whether this is the last snapshot."""
        return self.index >= len(self.times) - 1

    def step(self, by: int) -> "Player":
        """So many snapshots on, held there."""
        index = min(max(self.index + by, 0), max(len(self.times) - 1, 0))
        return replace(self, index=index, playing=False, pending_s=0.0)

    def seek(self, time: float) -> "Player":
        """The last snapshot at or before a time."""
        index = min(max(bisect_right(self.times, time) - 1, 0), max(len(self.times) - 1, 0))
        return replace(self, index=index, pending_s=0.0)

    def jump(self, by_s: float) -> "Player":
        """So many seconds of data on."""
        return self.seek(self.time + by_s)

    def toggle(self) -> "Player":
        """Play or hold; from the end it plays from the start."""
        index = 0 if not self.playing and self.is_at_end else self.index
        return replace(self, index=index, playing=not self.playing and len(self.times) > 1, pending_s=0.0)

    def shift_speed(self, by: int) -> "Player":
        """A faster or slower gear."""
        return replace(self, speed_index=min(max(self.speed_index + by, 0), len(SPEEDS) - 1))

    def advance(self, seconds: float) -> "Player":
        """After so many seconds of somebody's time; it holds at the end."""
        if not self.playing:
            return self
        owed = self.pending_s + seconds * self.speed
        there = self.seek(self.time + owed)
        left = owed - (there.time - self.time)
        return replace(there, pending_s=left, playing=not there.is_at_end)


def parse_time(text: str, start: float, end: float) -> float | None:
    """The time that `12:03:11`, `12:03`, `+30` or `-10` (from the end) means, None when it means none."""
    text = text.strip()
    if relative := re.fullmatch(r"([+-])(\d{1,9}(?:\.\d{1,6})?)", text):
        seconds = float(relative[2])
        return start + seconds if relative[1] == "+" else end - seconds
    if not (clock := re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", text)):
        return None
    wanted = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
    midnight = start - start % 86400
    # A recording may run past midnight: the first such time that is not over before it starts.
    days = range(int((end - midnight) // 86400) + 1)
    return next((midnight + d * 86400 + wanted for d in days if midnight + d * 86400 + wanted >= start // 1), None)
