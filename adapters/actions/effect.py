"""Measures what an action gave back: how well the work of a pool or group went before, during and after its fault.

Each tick, the series that tell how well work goes (latency, time per work, throughput, progress) are summed over each
pool and group. A level is a share of the healthy one: for latencies and times the healthy mean over the present one,
for throughput the present rate over the healthy one. What is taken out of a pool counts for as long as it does work.

Kept are sums over spans of a few seconds for some minutes, and one fading sum of the healthy past before them, so that
neither memory nor the cost of a measurement grows with time. A span in which a diagnosis of a scope fires, or a change
of it is judged, never counts as healthy.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.engine.actions.action import Action, Measurement
from skewscope.engine.actions.planning import find_nodes
from skewscope.engine.engine import Engine
from skewscope.engine.model.arrays import F64, Index
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue

SLOWNESS_ROLES, SPEED_ROLES = ("latency", "time-per-work"), ("throughput", "progress")
SPAN = 5.0
"""Seconds whose work is added up."""
SPANS = 80
"""Spans that are kept; what is older fades into the healthy sums."""
FADING = 0.5 ** (SPAN / 300.0)
"""What is left of the healthy sums after each further healthy span: half in five minutes."""
HEALTHY_GAP = 20.0
"""Seconds before an incident opens in which its fault may have begun."""
FAULT_LEAD, FAULT_TAIL = 10.0, 5.0
"""Seconds before the opening and after the start of the change that still count as the fault."""
MOST_SECONDS = 300.0
"""Length of the fault, and of the time after the change, that is looked at."""
SETTLE = 5.0
"""Seconds after a change that are not counted: work that was under way is still as slow."""
WORK_SECONDS = 30.0
"""Seconds without any of its work after which that of a scope counts as over; as long as a slow scrape takes twice."""
UNUSED = 60.0
"""Seconds without a measurement after which the levels before a change are dropped."""
MAX_PLACES = 10_000
"""Entities whose scopes are kept."""


@dataclass(frozen=True)
class _SignalRows:
    """The series of one signal that belong to a scope."""

    signal: str
    parts: tuple[tuple[Index, Index], ...]
    """For each part (numerator, denominator): positions of series, and the scope of each."""
    is_gauge: bool

    @property
    def work_side(self) -> int:
        """The part that shows work: of a histogram the number of requests or steps, not the time that they took."""
        return 1 if self.is_gauge or len(self.parts) == 2 else 0


class _SignalSums:
    """The sums of one signal: numerator and denominator by scope."""

    def __init__(self, scopes: int) -> None:
        self.spans = np.zeros((SPANS, 2, scopes), np.float32)
        self.healthy = np.zeros((2, scopes))
        self.totals = np.full((2, scopes), np.nan)
        """Of a counter: what it had counted at the last tick."""

    def retire(self, slot: int, is_well: np.ndarray) -> None:
        """Moves a span into the healthy sums of the scopes that were well in it ([scope] bool), and clears it."""
        self.healthy = np.where(is_well, self.healthy * FADING + self.spans[slot], self.healthy)
        self.spans[slot] = 0.0


@dataclass(frozen=True, slots=True)
class _Trial:
    """What was measured of a change before it had an effect."""

    scope: int
    levels: Mapping[str, tuple[float, float]]
    """By signal: its healthy mean, and the level during the fault."""
    worked: bool
    """Whether any work was seen before the change."""
    used: float
    """When it was last measured."""


@dataclass
class EffectMeter:
    """Sums of the work of pools and groups. `record` and `measure` may be called by two threads."""

    topology: Topology
    catalogue: Catalogue
    _rows: tuple[_SignalRows, ...] = ()
    _version: tuple[int, int] | None = None
    _sums: dict[str, _SignalSums] = field(default_factory=dict)
    """By signal, of those that are delivered."""
    _number: int | None = None
    """Number of the present span: its start, in spans since 1970."""
    _trials: dict[str, _Trial] = field(default_factory=dict)
    """By action."""
    _firing: frozenset[str] = frozenset()
    """Ids of the diagnoses that fired at the last tick."""
    _places: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

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
        self._is_ill = np.zeros((SPANS, len(self.scopes)), bool)

    @property
    def signals(self) -> frozenset[str]:
        """Ids of the signals that tell how well work goes."""
        return frozenset(self._roles)

    # --- record

    def record(self, engine: Engine, t: float, incidents: Iterable[Incident] = ()) -> None:
        """Adds the newest samples at a time. To be called by the thread that owns the engine."""
        rows = self._rows
        if engine.series_version != self._version:
            self._version = engine.series_version
            rows = tuple(self._find_rows(engine))
        sums = [self._sum(engine, each, t) for each in rows]
        firing = [one for one in incidents if one.state == "firing" and not one.is_symptom]
        with self._lock:
            if self._number is not None and t < self._number * SPAN:
                self._forget_spans(t - self._number * SPAN)
            is_new = self._move_to(int(t // SPAN))
            self._mark_ill(firing, t, is_new=is_new)
            self._rows = rows
            for each, more in zip(rows, sums, strict=True):
                self._add(each, more)

    def shift(self, seconds: float) -> None:
        """Goes on after the clock was set: levels that were measured stay, sums of other times do not."""
        with self._lock:
            self._forget_spans(seconds)

    def _forget_spans(self, seconds: float) -> None:
        self._number = None
        self._sums.clear()
        self._is_ill[:] = False
        self._trials = {id_: replace(one, used=one.used + seconds) for id_, one in self._trials.items()}

    def _move_to(self, number: int) -> bool:
        """Begins the span of a number; returns whether it is a new one."""
        if number == self._number:
            return False
        before = number - 1 if self._number is None or number < self._number else self._number
        for passed in range(max(before + 1, number - SPANS + 1), number + 1):
            slot = passed % SPANS
            for sums in self._sums.values():
                sums.retire(slot, ~self._is_ill[slot])
            self._is_ill[slot] = False
        self._number = number
        return True

    def _mark_ill(self, firing: list[Incident], t: float, *, is_new: bool) -> None:
        """Marks the spans that are not healthy: of diagnoses that are new also those before, where the fault began."""
        assert self._number is not None
        for one in firing:
            begun = one.id not in self._firing
            if begun or is_new:
                since = one.opened_at - HEALTHY_GAP if begun else t
                first = max(int(since // SPAN), self._number - SPANS + 1)
                slots = np.arange(min(first, self._number), self._number + 1) % SPANS
                self._is_ill[slots[:, None], np.array(self._scopes_of(one.kind, one.name), np.intp)] = True
        self._trials = {id_: trial for id_, trial in self._trials.items() if t - trial.used < UNUSED}
        self._is_ill[self._number % SPANS, [trial.scope for trial in self._trials.values()]] = True
        self._firing = frozenset(one.id for one in firing)

    def _scopes_of(self, kind: str, name: str) -> tuple[int, ...]:
        """Returns the scopes that an entity is part of, those of its nodes included."""
        known = self._places.get((kind, name))
        if known is None:
            groups = {g.name for node in find_nodes(name, self.topology) for g in self.topology.groups_on.get(node, ())}
            names = sorted({name} if name in self.topology.group else groups)
            known = tuple(dict.fromkeys(number for each in names for number in self._members.get(each, ())))
            if len(self._places) >= MAX_PLACES:
                self._places.clear()
            self._places[kind, name] = known
        return known

    def _add(self, rows: _SignalRows, more: F64) -> None:
        """Adds to the present span what a signal shows, [2, scope]: a gauge as it is, a counter by its increase."""
        assert self._number is not None
        sums = self._sums.get(rows.signal)
        if sums is None:
            sums = self._sums[rows.signal] = _SignalSums(len(self.scopes))
        is_known = np.isfinite(more).all(axis=0)
        if not rows.is_gauge:
            more, sums.totals = more - sums.totals, np.where(is_known, more, sums.totals)
            is_known = (more >= 0.0).all(axis=0)  # not where it is counted from zero again
        sums.spans[self._number % SPANS] += np.where(is_known, more, 0.0)

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

    # --- measure

    def measure(self, action: Action, t: float) -> Measurement:
        """Returns the levels of an action's scope by the signal that lost most, of those that show its condition."""
        scope = self.scopes.get(action.scope.pool or (action.scope.groups[0] if action.scope.groups else ""))
        if scope is None or action.applied_at is None or action.started_at is None:
            return action.measurement
        with self._lock:
            if self._number is None:
                return action.measurement
            trial = replace(self._trials.get(action.id) or self._begin_trial(action, scope, t), used=t)
            if t >= action.started_at + FAULT_TAIL:
                self._trials[action.id] = trial
            working = True if self._saw_work(scope, (t - WORK_SECONDS, t)) else False if trial.worked else None
            after = (max(action.applied_at + SETTLE, t - MOST_SECONDS), t)
            found = [
                (before, self._level(signal, norm, self._mean(signal, scope, after)), signal)
                for signal, (norm, before) in trial.levels.items()
            ]
        if not found:
            return replace(action.measurement, working=working)
        # A signal that is silent now tells nothing of the effect.
        before, level, signal = min(found, key=lambda one: (one[1] is None, one[0], one[2]))
        return Measurement(round(before, 3), None if level is None else round(level, 3), signal, working)

    def _begin_trial(self, action: Action, scope: int, t: float) -> _Trial:
        """Returns the levels of a scope before a change."""
        assert action.started_at is not None
        opened, end = action.reason.opened_at, action.started_at + FAULT_TAIL
        levels: dict[str, tuple[float, float]] = {}
        for signal in self._signals_of(action.reason.condition):
            norm = self._healthy_mean(signal, scope, opened - HEALTHY_GAP)
            fault = self._mean(signal, scope, (max(opened - FAULT_LEAD, end - MOST_SECONDS), end - SPAN))
            before = self._level(signal, norm, fault)
            if norm is not None and before is not None:
                levels[signal] = norm, before
        worked = any(sums.healthy[:, scope].any() for sums in self._sums.values())
        return _Trial(scope, levels, worked or self._saw_work(scope, (opened - MOST_SECONDS, action.started_at)), t)

    def _saw_work(self, scope: int, span: tuple[float, float]) -> bool:
        """Returns whether any signal shows work of a scope in a span, whose ends are seconds since 1970."""
        slots = self._slots(span)
        return any(bool(self._sums[rows.signal].spans[slots, rows.work_side, scope].any()) for rows in self._rows)

    def _signals_of(self, condition: str) -> list[str]:
        """Returns the signals of a condition's signature that are measured; all of them where it has none."""
        here = list(self._sums)
        known = self.catalogue.conditions.get(condition)
        shown = set(known.signature_signals) if known else set()
        return [signal for signal in here if signal in shown] or here

    def _level(self, signal: str, healthy: float | None, now: float | None) -> float | None:
        if healthy is None or now is None or healthy <= 0 or now <= 0:
            return None
        return healthy / now if self._roles[signal] in SLOWNESS_ROLES else now / healthy

    def _slots(self, span: tuple[float, float]) -> Index:
        """Returns the slots of the spans that begin between two times and are still kept."""
        assert self._number is not None
        first = max(int(np.ceil(span[0] / SPAN)), self._number - SPANS + 1)
        return np.arange(first, min(int(span[1] // SPAN), self._number) + 1) % SPANS

    def _mean(self, signal: str, scope: int, span: tuple[float, float]) -> float | None:
        """Returns the mean of a signal in a span; None where nothing was seen."""
        return _divide(self._sums[signal].spans[self._slots(span), :, scope].sum(axis=0, dtype=float))

    def _healthy_mean(self, signal: str, scope: int, until: float) -> float | None:
        """Returns the mean of a signal over the healthy past of a scope; None without one."""
        sums, slots = self._sums[signal], self._slots((0.0, until - SPAN))
        well = slots[~self._is_ill[slots, scope]]
        return _divide(sums.healthy[:, scope] + sums.spans[well, :, scope].sum(axis=0, dtype=float))


def _divide(pair: F64) -> float | None:
    """Returns numerator by denominator of a pair, [2] float64; None where nothing was seen."""
    return float(pair[0] / pair[1]) if pair[1] > 0 else None


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
