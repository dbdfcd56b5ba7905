"""Pools that gain or lose replicas: what their load shows then passes with the change."""

from collections.abc import Iterator

from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.series_detector import SeriesDetector
from skewscope.engine.symptoms.unsettled_pools import UnsettledPools

COUNT_SIGNAL = "pool.replicas"


class PoolChanges(SeriesDetector):
    """Pools whose replicas have changed of late."""

    def __init__(self, cells: JudgedCells, pools: UnsettledPools) -> None:
        super().__init__(cells)
        self.pools = pools

    def judge(self, _tick: Tick) -> None:
        """The pools have taken in the tick already."""

    def find(self) -> Iterator[Finding]:
        """Yields the pools that are changing."""
        signal = self.cells.state.signals.get(COUNT_SIGNAL)
        if signal is None:
            return
        for change in self.pools.recent_changes():
            place = Entity("pool", change.pool)
            direction = "up" if change.after > change.before else "down"
            yield Finding(signal, place, PAST, direction, change.moment, change.after, change.before)
