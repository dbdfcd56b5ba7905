"""Evaluates the expressions of all rules over all entities, on demand: each distinct one at most once a tick.

Numbers are float64, NaN where unknown; truth values are int8, NO, UNKNOWN, YES, so that `and` is the smaller, `or` the
larger and `not` the negative of their arguments. Operators with memory take in a sample at every tick.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np

import skewscope.engine.features.operators as _  # noqa: F401 - its modules register the operators
from skewscope.engine.features.baselines import BaselineSlice, BaselineStore
from skewscope.engine.features.counter_store import CounterStore
from skewscope.engine.features.operators.protocol import (
    Junction,
    Operator,
    OperatorContext,
    Reads,
    Truth,
    operator_class,
    total_costs,
)
from skewscope.engine.features.window_store import WindowStore
from skewscope.engine.ingest.samples import CONSTANT_TIMESTAMP, CommonTimestamp, merge_timestamps
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.ingest.slots import EDGE_S
from skewscope.engine.model.arrays import F64, Index, Mask, has_any
from skewscope.engine.model.entities import EntityIndex, EntitySubset
from skewscope.engine.model.verdict import YES, RipeningFinder
from skewscope.kb.units import Dimension
from skewscope.rules.expression import Expr

SUBSET_FACTOR = 4
"""A subset is evaluated alone if there are so many times more entities."""
MIN_SUBSET_SIZE = 256
"""Of so few entities, all are as cheap as a subset."""
MAX_KEPT_SIZE = 1 << 10
"""Values of so many entities are kept over ticks and compared with the next ones; of more, each tick has new ones."""
MAX_KEPT_MASKS = 64
"""So many sets of sources that changed together are remembered, with what they change."""
SELECTIONS = frozenset({"lift", "front", "highest", "lowest", "min", "max"})
"""Operators whose value is one of those of their arguments."""


class Evaluator:
    """The expressions of all rules, numbered; arguments come before the expressions that contain them."""

    def __init__(self, expressions: Iterable[Expr], series_state: SeriesState, entities: EntityIndex) -> None:
        self.series_state = series_state
        self.entities = entities
        self.expressions: list[Expr] = []
        self._numbers: dict[Expr, int] = {}
        self._args: list[tuple[int, ...]] = []
        for expr in expressions:
            self._add(expr)
        self._windows, self._baselines = WindowStore(series_state.tick), BaselineStore()
        self._counters = CounterStore(series_state)
        context = OperatorContext(series_state, entities, self._numbers, self._windows, self._baselines, self._counters)
        self._operators: list[Operator] = [operator_class(expr).build(expr, context) for expr in self.expressions]
        self.baselines = {n: op.baseline for n, op in enumerate(self._operators) if op.baseline is not None}
        """The healthy past of each expression that compares with one, by its number."""
        self._stateful = [n for n, op in enumerate(self._operators) if op.is_stateful]
        self._costs = total_costs(self.expressions, self._args)
        self._plan_evaluation()
        self._make_memory(len(self.expressions))
        self._learned: list[BaselineSlice] = []
        """The pasts that learned before this tick."""
        self._age_limits: dict[int, list[float] | None] = {}
        """By expression, for ages: the seconds that they are compared with; None where that is not known."""
        self._times: dict[int, Any] = {}
        self._timestamps: dict[int, CommonTimestamp | None] = {}
        self._subsets: dict[tuple[str, bytes], EntitySubset] = {}
        self._t = -np.inf
        self._version = -1
        self.plan_count, self._is_planned_anew = 0, False
        """How often it was decided which expressions may be known, and whether in this tick."""
        self._fleeting: list[int] = []
        """The expressions whose values are not kept over ticks."""
        self._undelivered: list[int] = []
        """Numbers of the signals that no series delivers."""
        self._baseline_numbers = [past.number for past in self.baselines.values()]
        self._mask_of_past: Callable[[BaselineSlice], Mask | None] = lambda past: None  # noqa: ARG005
        """Returns the entities from which a past does not learn."""
        self._dependents = self._index_dependents()
        self._dirtied: dict[tuple[int, ...], Mask] = {}  # [expression] what may change with some sources together
        self._ripening = RipeningFinder(
            self.expressions, self._args, self._operators, self.value, self._width, self._may_be_known
        )

    def _make_memory(self, size: int) -> None:
        """Make room for the values of so many expressions."""
        self._constants: list[Any] = [None] * size
        """Values that do not change, among them those of expressions whose signals were never delivered."""
        self._values: list[Any] = list(self._constants)
        """As last computed; current where not `_stale`."""
        self._stale = bytearray(size)
        self._stale_mask = np.frombuffer(self._stale, np.bool_)
        """The same memory as an array."""
        self._dirty_mask = np.zeros(size, bool)
        """[expression] whether what it depends on may have changed in this tick."""
        self._unlearned_mask = np.zeros(size, bool)
        """[expression] the same, since baselines learned."""
        self._dirty = bytes(size)
        """The same; faster to read one by one."""
        self._is_kept = bytearray(size)
        """[expression] whether its values are kept over ticks."""
        self._step, self._changed_at, self._checked_at = 0, [0] * size, [0] * size
        """Number of the step; those in which each value last changed and in which it was last found to be current."""
        self._active = np.zeros(size, bool)
        self._is_active = bytes(size)  # the same; faster to read one by one
        self._widths = [0] * size  # entities of the kind of each
        self._subset_limits: list[float] = [0.0] * size
        """Of fewer entities than this, an expression is cheaper to evaluate for them alone."""

    def _add(self, expr: Expr) -> int:
        if expr not in self._numbers:
            args = tuple(self._add(arg) for arg in expr.args)
            self._numbers[expr] = len(self.expressions)
            self.expressions.append(expr)
            self._args.append(args)
        return self._numbers[expr]

    def _plan_evaluation(self) -> None:
        """Look up once what every evaluation needs to know of an operator."""
        self._evaluate = [op.evaluate for op in self._operators]
        self._reads = [
            args if op.reads is Reads.VALUES and op.junction is None else ()
            for op, args in zip(self._operators, self._args, strict=True)
        ]
        """The arguments whose values are computed first; of those that are joined, the ones that settled it last."""
        self._special: list[Callable[[], Any] | None] = [None] * len(self._operators)
        """How to evaluate operators that are not given the values of all arguments."""
        for n, op in enumerate(self._operators):
            if op.junction is not None:
                order = sorted(self._args[n], key=lambda arg: self._costs[arg])
                self._special[n] = partial(self._join, n, op.junction, order)
            elif op.reads is Reads.TIMES:
                self._special[n] = partial(self._evaluate_times, n)
        self._is_pure = [
            bool(args) and op.store is None and not op.is_stateful and special is None
            for op, args, special in zip(self._operators, self._reads, self._special, strict=True)
        ]
        """Whether each has the same values as long as its arguments have."""
        self._sample_times = [op.sample_times if "sample_times" in op.overrides else None for op in self._operators]

    def _index_dependents(self) -> Mask:
        """Returns [source, expression] whether a signal, a store or, the last one, the clock may change a value."""
        signals = self.series_state.signal_numbers
        stores = {id(op.store): op.store for op in self._operators if op.store is not None}
        self._source_of = {key: len(signals) + n for n, key in enumerate(stores)}
        """The source of each store, by its identity."""
        clock = len(signals) + len(stores)
        found: list[int] = []
        for expr, op, args in zip(self.expressions, self._operators, self._args, strict=True):
            bits = (op.reads is Reads.TIMES) << clock
            for arg in args:
                bits |= found[arg]
            if expr.op in {"signal", "seen"}:
                bits |= 1 << signals[expr.name]
            if op.store is not None:
                bits |= 1 << self._source_of[id(op.store)]
            found.append(bits)
        width = clock // 8 + 1
        rows = np.frombuffer(b"".join(bits.to_bytes(width, "little") for bits in found), np.uint8).reshape(-1, width)
        return np.unpackbits(np.ascontiguousarray(rows.T), axis=0, count=clock + 1, bitorder="little").astype(np.bool_)

    # --- ticks

    def step(self, t: float, *, has_samples: bool = True) -> None:
        """Start the tick that ends at `t` seconds: operators with memory take in a sample.

        Windows move on in ticks that `has_samples` of any series; else only what becomes stale changes them.
        """
        is_new = self._version != self.entities.version
        if is_new or self.series_state.changed_signals[self._undelivered].any():
            self.plan()
        self._t = t
        self._mark_changes(t, has_samples=has_samples)
        self._times.clear()
        self._timestamps.clear()
        self._subsets.clear()
        self._ripening.step(t)
        with np.errstate(all="ignore"):
            self._counters.step(t, self._has_samples, has_samples=has_samples)
            if self._windows.step(t, self._sample, self._is_dirty, has_samples=has_samples):
                self._mark_sources([self._source_of[id(buffer)] for buffer in self._windows.buffers.values()])
            for n in self._stateful:
                (arg,) = self._args[n]
                if self._active[n] and self._dirty[arg]:
                    self._operators[n].update(self.value(arg), partial(self._wide_time, arg))

    def _has_samples(self, signal: str) -> bool:
        """Whether samples of a signal came in this tick, or became stale."""
        return bool(self.series_state.changed_signals[self.series_state.signal_numbers[signal]])

    def _mark_changes(self, t: float, *, has_samples: bool) -> None:
        """Marks the expressions that may have other values than in the tick before."""
        self._dirty_mask[:] = False
        counters = self._counters.changing(t, self._has_samples) if has_samples else ()
        signals = np.flatnonzero(self.series_state.changed_signals[:-1]).tolist()
        self._mark_sources([*signals, *self._sources_of(chain(counters, self._learned)), -1])
        self._mark_sources(self._sources_of(self._windows.changing(t, self._is_dirty, has_samples=has_samples)))
        self._learned = []
        stale, values = self._stale, self._values
        for n in self._fleeting:
            stale[n], values[n] = True, None

    def _sources_of(self, stores: Iterable[object]) -> list[int]:
        """Returns the sources of those stores from which an operator reads."""
        return [self._source_of[id(store)] for store in stores if id(store) in self._source_of]

    def _mark_sources(self, sources: Sequence[int]) -> None:
        """Marks what depends on some sources as changed in this tick."""
        if not sources:
            return
        self._step += 1
        # Mostly, the samples of a tick are of the signals of those before.
        key = tuple(sources)
        if key not in self._dirtied:
            if len(self._dirtied) >= MAX_KEPT_MASKS:
                self._dirtied.clear()
            self._dirtied[key] = np.logical_or.reduce(self._dependents[sources], axis=0)
        self._dirty_mask |= self._dirtied[key] | self._is_planned_anew
        self._is_planned_anew = False
        self._dirty = self._dirty_mask.tobytes()
        self._stale_mask |= self._dirty_mask
        self._unlearned_mask |= self._dirty_mask

    def next_change(self) -> float:
        """Returns the time in seconds at which a value may next change although no sample comes."""
        return min(self._windows.next_stale_time(), self._next_age_change())

    def _next_age_change(self) -> float:
        """Returns when an age next reaches what it is compared with."""
        soonest = np.inf
        for n, limits in self._age_limits.items():
            if limits is None:
                return self._t
            ends = np.add.outer(np.ravel(self._time(self._args[n][0])), limits)
            soonest = min(soonest, float(np.fmin.reduce(ends[ends >= self._t - EDGE_S], initial=np.inf)))
        return soonest

    def plan(self) -> None:
        """Decide what is evaluated from now on: expressions whose signals were never delivered stay unknown."""
        self._version = self.entities.version
        kinds = {expr.kind for expr in self.expressions if expr.kind}
        counts = {"": 1, **{kind: self.entities.count(kind) for kind in kinds}}
        self._widths = [counts[expr.kind] for expr in self.expressions]
        names = {expr.name for expr in self.expressions if expr.op == "signal"}
        state = self.series_state
        self._undelivered = [state.signal_numbers[name] for name in names if not state.rows[name].selectors]
        self._active = active = np.zeros(len(self.expressions), bool)
        for n, (expr, op) in enumerate(zip(self.expressions, self._operators, strict=True)):
            args = [bool(active[arg]) for arg in self._args[n]]
            active[n] = op.is_available(args) if "is_available" in op.overrides else all(args)
            size = self.entities.count(expr.kind) if expr.kind else 1
            unknown = np.zeros(size, np.int8) if expr.is_boolean else np.full(size, np.nan)
            self._subset_limits[n] = (
                size / SUBSET_FACTOR if "evaluate_subset" in op.overrides and size > MAX_KEPT_SIZE else 0
            )
            is_variable = op.constant is None and active[n] and size > 0
            self._constants[n] = None if is_variable else unknown if op.constant is None else op.constant
            self._is_kept[n] = size <= MAX_KEPT_SIZE
        # What is first needed when something goes wrong is computed now: a tick should not wait for it then.
        for n, op in enumerate(self._operators):
            if active[n] and "prepare" in op.overrides:
                op.prepare()
        self._is_active = active.tobytes()
        for store in (self._windows, self._baselines):
            store.allocate(lambda number: bool(active[number]) and self._width(number) > 0, self.entities.count)
        self._counters.plan()
        self.plan_count += 1
        self._is_planned_anew = True
        self._values = list(self._constants)
        self._fleeting = [n for n, kept in enumerate(self._is_kept) if not kept and self._constants[n] is None]
        self._age_limits = {n: self._limits_of(n) for n, op in enumerate(self._operators) if self._is_age(n, op)}

    def _is_age(self, n: int, op: Operator) -> bool:
        return op.reads is Reads.TIMES and bool(self._active[n])

    def _limits_of(self, n: int) -> list[float] | None:
        """Returns the numbers that a value is compared with; None where something else is computed from it."""
        found: list[float] = []
        for user, args in enumerate(self._args):
            if n not in args or not self._active[user]:
                continue
            expr = self.expressions[user]
            name = expr.name if expr.op in {"call", "arith", "compare"} else expr.op
            if expr.op == "compare":
                other = self._operators[args[0] if args[1] == n else args[1]].constant
                limits = None if other is None or other.ndim else [float(other)]
            else:
                limits = [] if name == "known" else self._limits_of(user) if name in SELECTIONS else None
            if limits is None:
                return None
            found += limits
        return found

    def number_of(self, expr: Expr) -> int:
        """The number of an expression, by which it is evaluated."""
        return self._numbers[expr]

    def _may_be_known(self, n: int) -> bool:
        """Whether the signals of an expression were ever delivered."""
        return bool(self._active[n])

    def is_undelivered(self, numbers: Iterable[int]) -> bool:
        """Whether all of these expressions depend on signals that were never delivered."""
        return not any(self._active[number] for number in numbers)

    def cost(self, number: int) -> int:
        """Estimated cost of an expression, in comparisons."""
        return self._costs[number]

    def has_new_samples(self) -> bool:
        """Whether a baseline may learn from what changed since it learned."""
        return bool(self._unlearned_mask[self._baseline_numbers].any())

    def learn(self, suspicious: Mapping[int, Mask], *, everything: bool = True) -> None:
        """End the tick: baselines learn from entities that look healthy; [entity] masks exclude the suspicious.

        Without `everything`, the masks are those of the last time: only what changed since then is looked at.
        """
        if everything:
            self._mask_of_past = self._join_masks(suspicious)
        if everything or self.has_new_samples():
            with np.errstate(all="ignore"):
                self._learned = self._baselines.learn(
                    self._sample, self._mask_of_past, lambda n: everything or bool(self._unlearned_mask[n])
                )
        self._unlearned_mask[:] = False

    def _join_masks(self, suspicious: Mapping[int, Mask]) -> Callable[[BaselineSlice], Mask | None]:
        """Returns the masks by past: several expressions may share one."""
        frozen: dict[tuple[int, float], Mask] = {}
        for number, mask in suspicious.items():
            past = self.baselines[number]
            key = past.number, past.memory
            frozen[key] = frozen[key] | mask if key in frozen else mask
        some = {key: mask for key, mask in frozen.items() if has_any(mask)}
        return lambda past: some.get((past.number, past.memory))

    def _is_dirty(self, n: int) -> bool:
        """Whether what an expression depends on may have changed in this tick."""
        return bool(self._dirty[n])

    # --- values of all entities; they are asked for with numpy's warnings switched off

    def may_hold_later(self, number: int) -> Mask:
        """Returns [entity] where a truth value is not YES, and may be as soon as a window is long enough."""
        return self._ripening.turning(number, YES)

    def value(self, number: int) -> Any:
        """Returns [entity] the values of an expression at this tick, read-only; a constant has no axis."""
        if self._stale[number] or self._values[number] is None:
            self._refresh(number)
        return self._values[number]

    def _refresh(self, n: int) -> None:
        """Compute the values of an expression, unless those of its arguments are the same as before."""
        stale, values = self._stale, self._values
        stale[n] = False
        if self._constants[n] is not None:
            return
        before, special, reads, changed_at = values[n], self._special[n], self._reads[n], self._changed_at
        if special is not None:
            if before is not None and reads and self._are_unchanged(reads, self._checked_at[n]):
                self._checked_at[n] = self._step
                return
            found = special()
        else:
            checked, is_same = self._checked_at[n], before is not None
            for arg in reads:
                if stale[arg] or values[arg] is None:
                    self._refresh(arg)
                is_same = is_same and changed_at[arg] <= checked
            if is_same and self._is_pure[n]:
                self._checked_at[n] = self._step
                return
            found = self._evaluate[n](self._t, [values[arg] for arg in reads])
        self._checked_at[n] = self._step
        if self._is_kept[n]:
            if before is not None and _is_identical(before, found):
                return
            # What is a part of a larger array may be written to in the next tick.
            found = found.copy() if found.base is not None else found
        values[n], changed_at[n] = found, self._step

    def is_kept(self, number: int) -> bool:
        """Whether the values of an expression are kept as long as they do not change."""
        return bool(self._is_kept[number])

    def _are_unchanged(self, numbers: Iterable[int], step: int) -> bool:
        """Whether the values of some expressions are those of a step; stops at the first that are not."""
        stale, values, changed_at = self._stale, self._values, self._changed_at
        for n in numbers:
            if stale[n] or values[n] is None:
                self._refresh(n)
            if changed_at[n] > step:
                return False
        return True

    def is_steady(self, numbers: Iterable[int]) -> bool:
        """Whether the values of some expressions are kept, and none that may be known grows with the clock."""
        follows_clock = self._dependents[-1] & self._active
        return all(self._is_kept[n] and not follows_clock[n] for n in numbers)

    def has_changed(self, numbers: Iterable[int], step: int) -> bool:
        """Whether the values of some expressions have changed since a step, by the number of the step."""
        return not self._are_unchanged(numbers, step)

    def stale_numbers(self) -> int:
        """Returns the expressions that may have changed since they were last asked for, as the bits of a number."""
        return int.from_bytes(np.packbits(self._stale_mask, bitorder="little").tobytes(), "little")

    def mask_of(self, numbers: Iterable[int]) -> int:
        """Returns some expressions as the bits of a number."""
        return sum(1 << n for n in set(numbers))

    @property
    def step_number(self) -> int:
        """Number of the current step, for `has_changed`."""
        return self._step

    def _evaluate_times(self, n: int) -> Any:
        return self._evaluate[n](self._t, [self._time(arg) for arg in self._args[n]])

    def _join(self, n: int, junction: Junction, order: Sequence[int]) -> Truth:
        """Returns [entity] joined truth values; later arguments are evaluated where earlier ones settle nothing."""
        kind = self.expressions[n].kind
        size = self.entities.count(kind) if kind else 1
        truth: Truth = _broadcast(self.value(order[0]), size)
        used = 1
        for arg in order[1:]:
            is_open = truth != junction.settled
            count = np.count_nonzero(is_open)
            if not count:
                break
            used += 1
            if size <= MAX_KEPT_SIZE or SUBSET_FACTOR * count >= size:
                truth = junction.join(truth, self.value(arg))
            else:
                indices = np.flatnonzero(is_open)
                truth = truth.copy()
                truth[indices] = junction.join(truth[indices], self._subset_value(arg, self.subset_of(kind, indices)))
        self._reads[n] = tuple(order[:used]) if self._is_kept[n] else ()
        return truth

    def _sample(self, numbers: Sequence[int]) -> tuple[F64, F64 | float]:
        """Returns ([column] values of expressions side by side, times in seconds: one number if all are equal)."""
        values = [_broadcast(self.value(n), self._width(n)) for n in numbers]
        common = merge_timestamps(self._timestamp(n) for n in numbers)
        if common is not None and common is not CONSTANT_TIMESTAMP:
            return concat_columns(values), common.time
        return concat_columns(values), concat_columns([self._wide_time(n) for n in numbers])

    def _width(self, n: int) -> int:
        return self._widths[n]

    def _wide_time(self, n: int) -> F64:
        found: F64 = _broadcast(self._time(n), self._width(n))
        return found

    def _timestamp(self, n: int) -> CommonTimestamp | None:
        """The one time of the newest samples of all entities with a value; None where there are several."""
        if n not in self._timestamps:
            found = None
            if self._is_active[n] or not self._args[n]:
                found = self._operators[n].common_timestamp([self._timestamp(arg) for arg in self._args[n]])
            self._timestamps[n] = found
        return self._timestamps[n]

    def _time(self, n: int) -> Any:
        """Returns [entity] seconds of the newest samples; None if none was ever delivered."""
        if not self._is_active[n]:
            return None
        found = self._times.get(n)
        if found is None:
            args, sample_times = self._args[n], self._sample_times[n]
            times = [self._time(arg) for arg in args]
            if sample_times is None:
                found = _newest(times)
            else:
                found = sample_times(times, lambda place: self.value(args[place]))
            self._times[n] = found
        return found

    # --- values of subsets; they are asked for with numpy's warnings switched off

    def subset_of(self, kind: str, indices: Index) -> EntitySubset:
        """Some entities of a kind; small subsets are shared within a tick, with the values found for them."""
        if len(indices) > MIN_SUBSET_SIZE:
            return EntitySubset(indices)
        key = kind, indices.tobytes()
        if key not in self._subsets:
            self._subsets[key] = EntitySubset(indices)
        return self._subsets[key]

    def subset_value(self, number: int, subset: EntitySubset) -> Any:
        """Returns [subset] the values of an expression for some entities of its kind, equal to those of `value`."""
        return _broadcast(self._subset_value(number, subset), len(subset.indices))

    def _subset_value(self, n: int, subset: EntitySubset) -> Any:
        found = subset.values.get(n)
        if found is None:
            # What was never delivered is unknown, also where something else marked it as changed: it has no window.
            is_current = self._constants[n] is not None or (self._values[n] is not None and not self._stale[n])
            if is_current or len(subset.indices) >= self._subset_limits[n]:
                whole = self.value(n)
                found = whole[subset.indices] if self.expressions[n].kind else whole
            else:
                args = self._args[n]
                found = self._operators[n].evaluate_subset(
                    subset, lambda place, entities: self._subset_value(args[place], entities)
                )
            subset.values[n] = found
        return found

    def decisive_value(self, number: int, subset: EntitySubset) -> F64:
        """Returns [subset] the number that decided a truth value, in the unit of its first comparison; NaN for none."""
        found = self._decisive_value(number, unit_of(self.expressions[number]), subset)
        return np.full(len(subset.indices), np.nan) if found is None else found

    def _decisive_value(self, n: int, unit: Dimension, subset: EntitySubset) -> F64 | None:
        expr, args = self.expressions[n], self._args[n]
        if expr.op == "compare":
            side = args[0] if self.expressions[args[0]].kind else args[1]
            found: F64 = self.subset_value(side, subset)
            return found if self.expressions[side].dimension == unit else None
        if expr.op == "lift":
            upper = self.expressions[args[0]].kind
            if not self.entities.count(upper):
                return None
            up = self.entities.container_index(expr.kind, upper)[subset.indices]
            above = subset.related_subset((expr.kind, upper), lambda: np.maximum(up, 0))
            inner = self._decisive_value(args[0], unit, above)
            return None if inner is None else np.where(up >= 0, inner, np.nan)
        if expr.op == "not":
            return self._decisive_value(args[0], unit, subset)
        if expr.op not in {"and", "or"}:
            return None
        return self._decisive_part(n, unit, subset)

    def _decisive_part(self, n: int, unit: Dimension, subset: EntitySubset) -> F64 | None:
        """Returns [subset] the value of the joined argument that made the whole what it is; the first of equals."""
        sign = 1 if self.expressions[n].op == "or" else -1
        best: F64 | None = None
        rank: Truth | None = None
        for arg in self._args[n]:
            value = self._decisive_value(arg, unit, subset)
            if value is None:
                continue
            truth = sign * self.subset_value(arg, subset)
            if best is None or rank is None:
                best, rank = value, truth
            else:
                better = truth > rank
                best, rank = np.where(better, value, best), np.where(better, truth, rank)
        return best


def _is_identical(before: Any, after: Any) -> bool:
    """Whether two arrays are the same to the last bit."""
    return bool(before.tobytes() == after.tobytes() and before.shape == after.shape and before.dtype == after.dtype)


def _broadcast(value: Any, size: int) -> Any:
    """Returns [size] the values; a constant is repeated."""
    return value if value.shape == (size,) else np.broadcast_to(value, (size,))


def concat_columns(parts: Sequence[F64]) -> F64:
    """Returns [column] the arrays one after another, read-only."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def measured_side(comparison: Expr) -> Expr:
    """The side of a comparison that is measured: the left one, unless it is a constant."""
    left, right = comparison.args
    return left if left.kind else right


@cache
def unit_of(expr: Expr) -> Dimension:
    """The dimension of the number that `Evaluator.decisive_value` returns for a truth value."""
    found = next((node for node in expr.walk() if node.op == "compare"), None)
    return measured_side(found).dimension if found else ()


def _newest(times: Sequence[Any]) -> Any:
    """Returns [entity] the newest of the times of several arguments; None stands for one that never had a sample."""
    newest: Any = np.float64(-np.inf)
    for time in times:
        if time is not None and time is not newest:
            newest = time if newest.ndim == 0 else np.fmax(newest, time)
    return newest
