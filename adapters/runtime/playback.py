"""The step from tick to tick of recorded telemetry; replays and backtests share it."""

from dataclasses import dataclass

from skewscope.engine.engine import Engine, IncidentChange
from skewscope.engine.ingest.feed import Block, SeriesTable

TIME_MARGIN_S = 1e-3
"""A tick that ends less than this before something may change is evaluated."""


@dataclass
class TickPlayer:
    """Plays ticks to an engine; ticks without a sample are left out while nothing can change."""

    engine: Engine
    table: SeriesTable
    until: float | None = None
    """Until then nothing changes unless a sample comes, seconds; None: not asked since the last step."""

    def play(self, t: float, block: Block, *, sampled: bool = False) -> tuple[IncidentChange, ...]:
        """Plays the tick that ends at `t` seconds and returns the changes to incidents.

        `sampled`: whether samples came, though the block has none of them.
        """
        return () if self.leave_out(t, block, sampled=sampled) else self.step(t, block, sampled=sampled)

    def leave_out(self, t: float, block: Block, *, sampled: bool = False) -> bool:
        """Leaves a tick out where it cannot change anything; returns whether it did."""
        if sampled or len(block):
            return False
        self.until = self.engine.next_change() - TIME_MARGIN_S if self.until is None else self.until
        if t >= self.until:
            return False
        self.engine.skip(t)
        return True

    def step(self, t: float, block: Block, *, sampled: bool = False) -> tuple[IncidentChange, ...]:
        """Steps the engine and returns the changes to incidents."""
        self.until = None
        return self.engine.step(t, block, self.table, sampled=sampled)
