"""Pools of which a replica is out of service, or was a moment ago: the others are meant to take its load."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skewscope.engine.model.arrays import Index, Mask
from skewscope.engine.model.parameters import EPISODE_S, RESTART_S
from skewscope.engine.model.transfer import copy_items, match_places
from skewscope.engine.symptoms.cells import JudgedCells


@dataclass(slots=True)
class PoolChange:
    """Replicas of a pool that came or went one after another."""

    pool: str
    newest: float
    """When the last one was seen to, seconds since 1970."""
    moment: float
    """When that did: of one that went, when it was read last."""
    before: float
    """How many reported before, and do now."""
    after: float


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
        self._reporting = np.zeros(len(pools))
        """How many replicas report, and when the first one began to, seconds."""
        self._begun_at = np.full(len(pools), np.nan)
        self._changes: dict[int, PoolChange] = {}
        self._t = -np.inf
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
        self.unsettled = t - self._out_at < RESTART_S
        self._find_changes(t)

    def _find_changes(self, t: float) -> None:
        """Finds the pools of which more or fewer replicas report than before, but for those that begin to be seen."""
        self._t = t
        fresh = ~np.isnan(self.cells.state.fresh_values(self._engine))
        now = np.bincount(self._engine_pool[fresh], minlength=len(self.size)).astype(float)
        self._begun_at[np.isnan(self._begun_at) & (now > 0)] = t
        settled = t - self._begun_at > RESTART_S
        for number in np.flatnonzero(settled & (now != self._reporting)).tolist():
            change = self._changes.get(number)
            if change is None or t - change.newest >= EPISODE_S:
                name, before = self.cells.topology.pools[number].name, float(self._reporting[number])
                change = self._changes[number] = PoolChange(name, t, t, before, before)
            is_loss = now[number] < self._reporting[number]
            change.moment = self._find_last_reading(number) if is_loss else t
            change.newest, change.after = t, float(now[number])
        self._reporting = now

    def _find_last_reading(self, pool: int) -> float:
        """Returns when a replica was last read, in seconds, of those of a pool that are no longer."""
        state, own = self.cells.state, self._engine[self._engine_pool == pool]
        times = state.times[own[np.isnan(state.fresh_values(own))]]
        return float(np.fmax.reduce(times, initial=-np.inf)) if (~np.isnan(times)).any() else self._t

    def recent_changes(self) -> Sequence[PoolChange]:
        """Returns the changes of pools that are still changing, in the order of pools.

        Kubernetes waits for EPISODE_S by default before it scales down again (stabilizationWindowSeconds).
        """
        return [one for _, one in sorted(self._changes.items()) if self._t - one.newest < EPISODE_S]

    def take_over(self, before: "UnsettledPools") -> None:
        """Goes on with what another one learned of the pools that both have."""
        names = [[pool.name for pool in one.cells.topology.pools] for one in (before, self)]
        copy_items(self, before, ("_out_at", "unsettled", "_reporting", "_begun_at"), match_places(*names))
        numbers = {name: n for n, name in enumerate(names[1])}
        self._t = before._t  # noqa: SLF001 - one of its own kind
        changes = before._changes.values()  # noqa: SLF001
        self._changes = {numbers[one.pool]: one for one in changes if one.pool in numbers}
