"""Pools of which a replica is out of service, or was a moment ago: the others are meant to take its load."""

import numpy as np

from skewscope.engine.model.arrays import Index, Mask
from skewscope.engine.model.transfer import copy_items, match_places
from skewscope.engine.symptoms.cells import JudgedCells

SETTLE_S = 60.0
"""Seconds until a replica that returns has its load."""


class UnsettledPools:
    """The pools of a fleet, [pool] each."""

    def __init__(self, cells: JudgedCells) -> None:
        self.cells = cells
        pools = cells.topology.pools
        self.numbers = {name: n for n, pool in enumerate(pools) for name in pool.replicas if len(pool.replicas) > 1}
        """Number of the pool of each replica that has others beside it."""
        self.size = np.array([len(pool.replicas) for pool in pools], float)
        self.ready: Index = np.full(len(pools), -1, np.intp)
        """The series that counts the replicas in service, or -1."""
        self._engine, self._engine_pool = (np.empty(0, np.intp) for _ in range(2))
        self._out_at = np.full(len(pools), -np.inf)
        """When a replica was last out of service, seconds."""
        self.unsettled: Mask = np.zeros(len(pools), bool)
        """Whether a replica is out of service, or was a moment ago."""

    def pool_of(self, cell: int) -> int:
        """Returns the number of the pool among whose replicas a cell is; -1 for none."""
        return self.numbers.get(getattr(self.cells.serving_group(cell), "name", ""), -1)

    def grow(self) -> None:
        """Looks up the series that are new."""
        cells = self.cells
        self.ready = np.array([cells.series_of("pool.ready", pool.name) for pool in cells.topology.pools], np.intp)
        engines = [(cells.series_of("serve.running", name), pool) for name, pool in self.numbers.items()]
        self._engine, self._engine_pool = np.array([one for one in engines if one[0] >= 0], np.intp).reshape(-1, 2).T

    def step(self, t: float) -> None:
        """Learns at `t` seconds which pools have a replica that is out of service, or whose engine is silent."""
        state, out = self.cells.state, np.zeros(len(self.size), bool)
        at = np.flatnonzero(self.ready >= 0)
        out[at] = state.fresh_values(self.ready[at]) < self.size[at]
        silent = np.isnan(state.fresh_values(self._engine)) & ~np.isnan(state.times[self._engine])
        out[self._engine_pool[silent]] = True
        self._out_at[out] = t
        self.unsettled = t - self._out_at < SETTLE_S

    def take_over(self, before: "UnsettledPools") -> None:
        """Goes on with what another one learned of the pools that both have."""
        names = [[pool.name for pool in one.cells.topology.pools] for one in (before, self)]
        copy_items(self, before, ("_out_at", "unsettled"), match_places(*names))
