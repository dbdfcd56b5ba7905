"""Evaluates the expressions of all rules over all entities, on demand: each distinct one at most once a tick.

Numbers are float64, NaN where unknown; truth values are int8, NO, UNKNOWN, YES, so that `and` is the smaller, `or` the
larger and `not` the negative of their arguments. Operators with memory take in a sample at every tick.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import skewscope.engine.features.operators as _  # noqa: F401 - its modules register the operators
from skewscope.engine.features.baseline import BaselineSlice, BaselineStore
from skewscope.engine.features.counter_windows import CounterStore
from skewscope.engine.features.operators.protocol import (
    Junction,
    Operator,
    OperatorContext,
    Reads,
    Truth,
    operator_class,
    total_cost,
)
from skewscope.engine.features.windows import WindowStore
from skewscope.engine.ingest.sampling import CONSTANT_TIMESTAMP, CommonTimestamp, merge_timestamps
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.entities import EntityIndex, EntitySubset
from skewscope.kb.units import Dimension
from skewscope.rules.expression import Expr

SUBSET_FACTOR = 4
"""A subset is evaluated alone if there are so many times more entities."""
MIN_SUBSET_SIZE = 256
"""Of so few entities, all are as cheap as a subset."""


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
        self._costs = [total_cost(expr) for expr in self.expressions]
        self._plan_evaluation()
        size = len(self.expressions)
        self._constants: list[Any] = [None] * size
        """Values that do not change, among them those of expressions whose signals were never delivered."""
        self._values: list[Any] = list(self._constants)
        self._times: dict[int, Any] = {}
        self._timestamps: dict[int, CommonTimestamp | None] = {}
        self._subsets: dict[tuple[str, bytes], EntitySubset] = {}
        self._t = -np.inf
        self._version = -1
        self._active = np.zeros(size, bool)
        self._subset_limits: list[float] = [0.0] * size
        """Of fewer entities than this, an expression is cheaper to evaluate for them alone."""
        self._undelivered: tuple[str, ...] = ()
        self._units = [unit_of(expr) for expr in self.expressions]

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
        """The arguments whose values are computed first."""
        self._special: list[Callable[[], Any] | None] = [None] * len(self._operators)
        """How to evaluate operators that are not given the values of all arguments."""
        for n, op in enumerate(self._operators):
            if op.junction is not None:
                order = sorted(self._args[n], key=lambda arg: self._costs[arg])
                self._special[n] = partial(self._join, n, op.junction, order)
            elif op.reads is Reads.TIMES:
                self._special[n] = partial(self._evaluate_times, n)

    # --- ticks

    def step(self, t: float) -> None:
        """Start the tick that ends at `t` seconds: operators with memory take in a sample."""
        if self._version != self.entities.version or any(
            self.series_state.rows[name].selectors for name in self._undelivered
        ):
            self._plan()
        self._t = t
        self._values = list(self._constants)
        self._times.clear()
        self._timestamps.clear()
        self._subsets.clear()
        with np.errstate(all="ignore"):
            self._counters.step(t)
            self._windows.step(t, self._sample)
            for n in self._stateful:
                if self._active[n]:
                    (arg,) = self._args[n]
                    self._operators[n].update(self._value(arg), partial(self._wide_time, arg))

    def _plan(self) -> None:
        """Decide what is evaluated from now on: expressions whose signals were never delivered stay unknown."""
        self._version = self.entities.version
        names = {expr.name for expr in self.expressions if expr.op == "signal"}
        self._undelivered = tuple(sorted(name for name in names if not self.series_state.rows[name].selectors))
        self._active = active = np.zeros(len(self.expressions), bool)
        for n, (expr, op) in enumerate(zip(self.expressions, self._operators, strict=True)):
            active[n] = op.is_available([bool(active[arg]) for arg in self._args[n]])
            size = self.entities.count(expr.kind) if expr.kind else 1
            unknown = np.zeros(size, np.int8) if expr.is_boolean else np.full(size, np.nan)
            self._subset_limits[n] = size / SUBSET_FACTOR if op.supports_subset and size > MIN_SUBSET_SIZE else 0
            self._constants[n] = op.constant if op.constant is not None else None if active[n] else unknown
        # What is first needed when something goes wrong is computed now: a tick should not wait for it then.
        for n, op in enumerate(self._operators):
            if active[n]:
                op.prepare()
        for store in (self._windows, self._baselines):
            store.allocate(lambda number: bool(active[number]), self.entities.count)

    def number_of(self, expr: Expr) -> int:
        """The number of an expression, by which it is evaluated."""
        return self._numbers[expr]

    def is_undelivered(self, numbers: Iterable[int]) -> bool:
        """Whether all of these expressions depend on signals that were never delivered."""
        return not any(self._active[number] for number in numbers)

    def cost(self, number: int) -> int:
        """Estimated cost of an expression, in comparisons."""
        return self._costs[number]

    def learn(self, suspicious: Mapping[int, Mask]) -> None:
        """End the tick: baselines learn from entities that look healthy; [entity] masks exclude the suspicious."""
        frozen: dict[tuple[int, float], Mask] = {}
        for number, past in self.baselines.items():
            mask = suspicious.get(number)
            key = past.number, past.memory
            if mask is not None:
                frozen[key] = frozen[key] | mask if key in frozen else mask

        def mask_of(past: BaselineSlice) -> Mask | None:
            mask = frozen.get((past.number, past.memory))
            return mask if mask is not None and mask.any() else None

        with np.errstate(all="ignore"):
            self._baselines.learn(self._sample, mask_of)

    # --- values of all entities

    def value(self, number: int) -> Any:
        """Returns [entity] the values of an expression at this tick, read-only; a constant has no axis."""
        with np.errstate(all="ignore"):
            return self._value(number)

    def _value(self, n: int) -> Any:
        values = self._values
        found = values[n]
        if found is None:
            special = self._special[n]
            if special is not None:
                found = special()
            else:
                args = [self._value(arg) if values[arg] is None else values[arg] for arg in self._reads[n]]
                found = self._evaluate[n](self._t, args)
            values[n] = found
        return found

    def _evaluate_times(self, n: int) -> Any:
        return self._evaluate[n](self._t, [self._time(arg) for arg in self._args[n]])

    def _join(self, n: int, junction: Junction, order: Sequence[int]) -> Truth:
        """Returns [entity] joined truth values; later arguments are evaluated where earlier ones settle nothing."""
        kind = self.expressions[n].kind
        size = self.entities.count(kind) if kind else 1
        truth: Truth = _broadcast(self._value(order[0]), size)
        for arg in order[1:]:
            is_open = truth != junction.settled
            count = np.count_nonzero(is_open)
            if not count:
                break
            if size <= MIN_SUBSET_SIZE or SUBSET_FACTOR * count >= size:
                truth = junction.join(truth, self._value(arg))
            else:
                indices = np.flatnonzero(is_open)
                truth = truth.copy()
                truth[indices] = junction.join(truth[indices], self._subset_value(arg, self.subset_of(kind, indices)))
        return truth

    def _sample(self, numbers: Sequence[int]) -> tuple[F64, F64 | float]:
        """Returns ([column] values of expressions side by side, times in seconds: one number if all are equal)."""
        values = [_broadcast(self._value(n), self._width(n)) for n in numbers]
        common = merge_timestamps(self._timestamp(n) for n in numbers)
        if common is not None and common is not CONSTANT_TIMESTAMP:
            return concat_columns(values), common.time
        return concat_columns(values), concat_columns([self._wide_time(n) for n in numbers])

    def _width(self, n: int) -> int:
        return self.entities.count(self.expressions[n].kind)

    def _wide_time(self, n: int) -> F64:
        found: F64 = _broadcast(self._time(n), self._width(n))
        return found

    def _timestamp(self, n: int) -> CommonTimestamp | None:
        """The one time of the newest samples of all entities with a value; None where there are several."""
        if n not in self._timestamps:
            found = None
            if self._active[n] or not self._args[n]:
                found = self._operators[n].common_timestamp([self._timestamp(arg) for arg in self._args[n]])
            self._timestamps[n] = found
        return self._timestamps[n]

    def _time(self, n: int) -> Any:
        """Returns [entity] seconds of the newest samples; None if none was ever delivered."""
        if not self._active[n]:
            return None
        if n not in self._times:
            args, operator = self._args[n], self._operators[n]
            times = [self._time(arg) for arg in args]
            self._times[n] = (
                operator.sample_times(times, lambda place: self._value(args[place]))
                if operator.has_own_times
                else _newest(times)
            )
        return self._times[n]

    # --- values of subsets

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
        with np.errstate(all="ignore"):
            found = self._subset_value(number, subset)
        return _broadcast(found, len(subset.indices))

    def _subset_value(self, n: int, subset: EntitySubset) -> Any:
        found = subset.values.get(n)
        if found is None:
            if self._values[n] is not None or len(subset.indices) >= self._subset_limits[n]:
                whole = self._value(n)
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
        found = self._decisive_value(number, self._units[number], subset)
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
