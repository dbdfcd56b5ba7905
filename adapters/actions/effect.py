"""Measures what an action gave back: how well the work of a pool or group went before, during and after its fault.

Each tick, the series that tell how well work goes (latency, time per work, throughput, progress) are summed over each
pool and group. A level is a share of the healthy one: for latencies and times the healthy mean over the present one,
for throughput the present rate over the healthy one. What is taken out of a pool counts for as long as it does work.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.engine.actions.action import Action, Measurement
from skewscope.engine.engine import Engine
from skewscope.engine.model.arrays import F64, Index
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue

SLOWNESS_ROLES, SPEED_ROLES = ("latency", "time-per-work"), ("throughput", "progress")
KEPT_SECONDS = 1800
HEALTHY_SECONDS, HEALTHY_GAP = 300.0, 20.0
"""Length of the healthy span, and its distance from the opening of the incident, by which its fault had begun."""
FAULT_LEAD, FAULT_TAIL = 10.0, 5.0
"""Seconds before the opening and after the start of the change that still count as the fault."""
SETTLE = 5.0
"""Seconds after a change that are not counted: work that was under way is still as slow."""
LEAST_SPAN = 5.0
WORK_SECONDS = 30.0
"""Seconds without any of its work after which that of a scope counts as over; as long as a slow scrape takes twice."""


@dataclass(frozen=True)
class _SignalRows:
    """The series of one signal that belong to a scope."""

    signal: str
    parts: tuple[tuple[Index, Index], ...]
    """For each part (numerator, denominator): positions of series, and the scope of each."""
    is_gauge: bool


@dataclass
class EffectMeter:
    """Sums of the work of pools and groups over the last half hour."""

    topology: Topology
    catalogue: Catalogue
    _rows: tuple[_SignalRows, ...] = ()
    _version: tuple[int, int] | None = None
    _ticks: deque[tuple[float, dict[str, F64]]] = field(default_factory=lambda: deque(maxlen=KEPT_SECONDS))
    """Time, and by signal [2, scope] float64: numerator and denominator, NaN where nothing was delivered."""

    def __post_init__(self) -> None:
        self.scopes = {
            name: number
            for number, name in enumerate(
                dict.fromkeys([pool.name for pool in self.topology.pools] + [g.name for g in self.topology.groups])
            )
        }
        self._members = _scope_numbers(self.topology, self.scopes)
        self._roles = {
            id_: signal.judged.role
            for id_, signal in self.catalogue.signals.items()
            if signal.judged is not None and signal.judged.role in (*SLOWNESS_ROLES, *SPEED_ROLES)
        }

    @property
    def signals(self) -> frozenset[str]:
        """Ids of the signals that tell how well work goes."""
        return frozenset(self._roles)

    def record(self, engine: Engine, t: float) -> None:
        """Adds the newest samples at a time. To be called by the thread that owns the engine."""
        if engine.series_version != self._version:
            self._version = engine.series_version
            self._rows = tuple(self._find_rows(engine))
        self._ticks.append((t, {rows.signal: self._sum(engine, rows, t) for rows in self._rows}))

    def _find_rows(self, engine: Engine) -> Iterable[_SignalRows]:
        for series in engine.list_series():
            role = self._roles.get(series.signal)
            if role is None:
                continue
            signal = self.catalogue.signals[series.signal]
            wanted = ("sum", "count") if signal.type == "histogram" else ("",)
            parts = []
            for part in wanted:
                ends = [not part or selector.rpartition(",")[2] == part for selector in series.selectors]
                pairs = [
                    (position, scope)
                    for position, entity, selector in zip(series.position, series.entity, series.selector, strict=True)
                    if ends[selector]
                    for scope in self._members.get(series.entity_names[entity], ())
                ]
                numbers = np.array(pairs, np.intp).reshape(-1, 2)
                parts.append((numbers[:, 0], numbers[:, 1]))
            if all(len(positions) for positions, _scopes in parts):
                yield _SignalRows(series.signal, tuple(parts), signal.type == "gauge")

    def _sum(self, engine: Engine, rows: _SignalRows, t: float) -> F64:
        out = np.full((2, len(self.scopes)), np.nan)
        for number, (positions, scopes) in enumerate(rows.parts):
            newest = engine.newest_samples(positions)
            fresh = t - newest.time <= newest.stale_after if rows.is_gauge else np.isfinite(newest.counter_total)
            values = np.where(fresh, newest.value if rows.is_gauge else newest.counter_total, 0.0)
            values = np.nan_to_num(values)
            seen = np.bincount(scopes, fresh, len(self.scopes))
            out[number] = np.where(seen > 0, np.bincount(scopes, values, len(self.scopes)), np.nan)
            if rows.is_gauge:
                out[1] = np.where(seen > 0, seen, np.nan)
        if not rows.is_gauge and len(rows.parts) == 1:
            out[1] = np.where(np.isfinite(out[0]), t, np.nan)
        return out

    def measure(self, action: Action, t: float) -> Measurement:
        """Returns the levels of an action's scope by the signal that lost most, of those that show its condition."""
        scope = self.scopes.get(action.scope.pool or (action.scope.groups[0] if action.scope.groups else ""))
        if scope is None or action.applied_at is None or action.started_at is None:
            return action.measurement
        opened = action.reason.opened_at
        healthy = (opened - HEALTHY_GAP - HEALTHY_SECONDS, opened - HEALTHY_GAP)
        fault = (opened - FAULT_LEAD, action.started_at + FAULT_TAIL)
        after = (max(action.applied_at + SETTLE, t - HEALTHY_SECONDS), t)
        ticks = list(self._ticks)
        found: list[tuple[float, float | None, str]] = []
        for signal in self._signals_of(action.reason.condition):
            norm, during = (self._mean(ticks, signal, scope, span) for span in (healthy, fault))
            before = self._level(signal, norm, during)
            if before is not None:
                now = self._mean(ticks, signal, scope, after) if t - after[0] >= LEAST_SPAN else None
                found.append((before, self._level(signal, norm, now), signal))
        working = self._sees_work(ticks, scope, (opened - HEALTHY_SECONDS, action.started_at), t)
        if not found:
            return replace(action.measurement, working=working)
        before, level, signal = min(found)
        return Measurement(round(before, 3), None if level is None else round(level, 3), signal, working)

    def _sees_work(
        self, ticks: list[tuple[float, dict[str, F64]]], scope: int, earlier: tuple[float, float], t: float
    ) -> bool | None:
        """Returns whether a scope does any work at a time; None where it did none earlier either."""
        signals = [rows.signal for rows in self._rows]
        if any(self._moves(ticks, signal, scope, (t - WORK_SECONDS, t)) for signal in signals):
            return True
        return False if any(self._moves(ticks, signal, scope, earlier) for signal in signals) else None

    def _moves(
        self, ticks: list[tuple[float, dict[str, F64]]], signal: str, scope: int, span: tuple[float, float]
    ) -> bool:
        """Returns whether a signal shows work in a span: a gauge by any sample, a counter by its increase."""
        rows = next(rows for rows in self._rows if rows.signal == signal)
        # Of a histogram the number of requests or steps counts, not the time that they took.
        side = 1 if len(rows.parts) == 2 else 0
        inside = [float(sums[signal][side, scope]) for t, sums in ticks if span[0] <= t <= span[1] and signal in sums]
        known = [one for one in inside if np.isfinite(one)]
        return bool(known) and (rows.is_gauge or known[-1] > known[0])

    def _signals_of(self, condition: str) -> list[str]:
        """Returns the signals of a condition's signature that are measured; all of them where it has none."""
        here = [rows.signal for rows in self._rows]
        known = self.catalogue.conditions.get(condition)
        shown = set(known.signature_signals) if known else set()
        return [signal for signal in here if signal in shown] or here

    def _level(self, signal: str, healthy: float | None, now: float | None) -> float | None:
        if healthy is None or now is None or healthy <= 0 or now <= 0:
            return None
        return healthy / now if self._roles[signal] in SLOWNESS_ROLES else now / healthy

    def _mean(
        self, ticks: list[tuple[float, dict[str, F64]]], signal: str, scope: int, span: tuple[float, float]
    ) -> float | None:
        """Returns the mean of a signal in a span: of gauges over all samples, of others numerator by denominator."""
        rows = next(rows for rows in self._rows if rows.signal == signal)
        inside = [sums[signal][:, scope] for t, sums in ticks if span[0] <= t <= span[1] and signal in sums]
        pairs = np.array([pair for pair in inside if np.isfinite(pair).all()]).reshape(-1, 2)
        if len(pairs) < 2:
            return None
        top, bottom = pairs.sum(axis=0) if rows.is_gauge else pairs[-1] - pairs[0]
        return float(top / bottom) if bottom > 0 else None


def _scope_numbers(topology: Topology, scopes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Returns the scopes that each entity belongs to: a replica to its pool and itself, a rank to its groups."""
    found: dict[str, list[int]] = {}
    for pool in topology.pools:
        for replica in pool.replicas:
            found.setdefault(replica, []).append(scopes[pool.name])
    for group in topology.groups:
        for name in (group.name, *group.members):
            found.setdefault(name, []).append(scopes[group.name])
    return {name: tuple(dict.fromkeys(numbers)) for name, numbers in found.items()}
