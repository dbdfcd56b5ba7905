"""Expressions over all entities at once, worked out when somebody asks: each distinct one at most once a tick.

Numbers are float64 with NaN for unknown; truths are int8, NO, UNKNOWN, YES, so that `and` is the smaller, `or` the
larger and `not` the negative of what they join. What remembers takes its samples at every tick, asked or not.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features.operators.series import HistogramStatistic, OperatorContext, Rate
from skewscope.engine.features.operators.stateless import (
    Constant,
    Elementwise,
    OperatorFactory,
    PeerComparison,
    Reduction,
    SampleAge,
    newest_times,
    newest_timestamp,
)
from skewscope.engine.features.operators.windowed import BaselineComparison, ExponentialMean, WindowStatistic
from skewscope.engine.features.window_store import BaselineSlice, BaselineStore, WindowStore
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.ingest.timestamps import CONSTANT_TIMESTAMP, CommonTimestamp, merge_timestamps
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.entity_subset import EntitySubset
from skewscope.engine.model.sets import F64, Index, Mask
from skewscope.engine.model.verdict import NO, YES
from skewscope.kb.units import Dimension
from skewscope.rules.expression import Expr

Truth = NDArray[np.int8]

SUBSET_FACTOR = 4
"""Something is worked out for some entities alone if there are so many times more."""
MIN_SUBSET_SIZE = 256
"""Of so few entities all are as cheap as some."""
_SELF_READING = (WindowStatistic, Rate, HistogramStatistic, ExponentialMean)
"""Steps that do not read the values of their arguments when they are asked."""


_COSTS = {
    **dict.fromkeys(
        ("peer_z", "peer_ratio", "peer_excess", "peer_highest", "peer_lowest", "peer_spread", "share", "gini"), 12
    ),
    **dict.fromkeys(("quantile", "slope", "bucket_quantile"), 12),
    **dict.fromkeys(("rate", "bucket_mean", "mean", "minimum", "maximum", "jitter", "change", "burst"), 4),
    **dict.fromkeys(("highest", "lowest", "total", "average", "middle", "lift"), 3),
}
"""What computing a node costs, where it is more than a comparison."""


class Evaluator:
    """All expressions of all rules."""

    def __init__(self, expressions: Iterable[Expr], panel: SeriesState, entities: EntityIndex) -> None:
        self.series_state = panel
        self.entities = entities
        self.expressions: list[Expr] = []
        """Arguments come first."""
        self._numbers: dict[Expr, int] = {}
        self._args: list[tuple[int, ...]] = []
        for expr in expressions:
            self._add(expr)
        shared = OperatorContext(panel, entities)
        self._window_store, self._baseline_store = WindowStore(panel.tick), BaselineStore()
        workshop = OperatorFactory(shared, self._window_store, self._baseline_store)
        self._operators: list[Any] = [workshop.build(expr) for expr in self.expressions]
        self._counter_windows = shared.counters
        self._run_functions: list[Callable[[float, Any], Any]] = [
            self._age(n) if isinstance(step, SampleAge) else step.run for n, step in enumerate(self._operators)
        ]
        self._reads = [
            () if isinstance(step, (*_SELF_READING, SampleAge)) else args
            for step, args in zip(self._operators, self._args, strict=True)
        ]
        pairs = list(zip(self.expressions, self._operators, strict=True))
        self.baselines = {expr: step for expr, step in pairs if isinstance(step, BaselineComparison)}
        """The steps that compare with an entity's own past."""
        self._stateful = [
            (n, step)
            for n, step in enumerate(self._operators)
            if isinstance(step, ExponentialMean)
            or (isinstance(step, PeerComparison | Reduction) and step.needs_all_members)
        ]
        self._constants: list[Any] = [None] * len(self.expressions)
        """The values of what nobody ever delivered anything for."""
        self._values: list[Any] = list(self._constants)
        self._times: dict[int, Any] = {}
        self._timestamps: dict[int, CommonTimestamp | None] = {}
        self._subsets: dict[tuple[str, bytes], EntitySubset] = {}
        self._t = -np.inf
        self._version = -1
        self._active = np.zeros(len(self.expressions), bool)
        self._subset_limits: list[float] = [0.0] * len(self.expressions)
        """Of fewer entities than this, an expression is better worked out for them alone."""
        self._undelivered: tuple[str, ...] = ()
        self._join_orders = [
            tuple(sorted(args, key=lambda arg: cost(self.expressions[arg]))) if expr.op in {"and", "or"} else ()
            for expr, args in zip(self.expressions, self._args, strict=True)
        ]
        """In which order the parts of what is joined are asked: the cheapest first."""
        self._units = {expr: unit_of(expr) for expr in self.expressions if expr.is_boolean}

    def _add(self, expr: Expr) -> int:
        if expr not in self._numbers:
            args = tuple(self._add(arg) for arg in expr.args)
            self._numbers[expr] = len(self.expressions)
            self.expressions.append(expr)
            self._args.append(args)
        return self._numbers[expr]

    # --- ticks

    def step(self, t: float) -> None:
        """Starts the tick that ends at `t`: what remembers takes its samples."""
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
            for (signal, _), lanes in self._counter_windows.items():
                if self.series_state.rows[signal].selectors:
                    lanes.step(t)
            self._window_store.step(t, self._sample)
            for n, step in self._stateful:
                if self._active[n]:
                    self._update_operator(n, step)

    def _update_operator(self, n: int, step: Any) -> None:
        (arg,) = self._args[n]
        if isinstance(step, ExponentialMean):
            step.update(self._value(arg), self._wide_time(self.expressions[arg]))
        else:
            step.update(self._value(arg))

    def _plan(self) -> None:
        """Settles what is computed from now on: what rests on signals that nobody ever delivered is unknown anyway."""
        self._version = self.entities.version
        names = {expr.name for expr in self.expressions if expr.op == "signal"}
        self._undelivered = tuple(sorted(name for name in names if not self.series_state.rows[name].selectors))
        self._active = runs = self._find_active()
        for n, expr in enumerate(self.expressions):
            size = self.entities.count(expr.kind) if expr.kind else 1
            unknown = np.zeros(size, np.int8) if expr.is_boolean else np.full(size, np.nan)
            step = self._operators[n]
            apart = isinstance(step, Elementwise) or hasattr(step, "run_subset")
            self._subset_limits[n] = size / SUBSET_FACTOR if apart and size > MIN_SUBSET_SIZE else 0
            self._constants[n] = step.value if isinstance(step, Constant) else None if runs[n] else unknown
        # What is first needed when something goes wrong is made now: a tick should not wait for it then.
        for n, step in enumerate(self._operators):
            if runs[n] and hasattr(step, "prepare"):
                step.prepare()
        for memory in (self._window_store, self._baseline_store):
            memory.allocate(lambda expr: bool(runs[self._numbers[expr]]), self.entities.count)

    def _find_active(self) -> Mask:
        """Which expressions may say something: not all that they rest on was never delivered."""
        heard = np.zeros(len(self.expressions), bool)
        silent = frozenset(self._undelivered)
        for n, expr in enumerate(self.expressions):
            args = heard[list(self._args[n])]
            if expr.op == "signal":
                heard[n] = expr.name not in silent
            elif expr.op in {"and", "or"} or (expr.op == "call" and expr.name == "coalesce"):
                heard[n] = args.any()
            else:
                heard[n] = args.all() or (expr.op == "call" and expr.name in {"known", "peers"})
        return heard

    def is_undelivered(self, expressions: Iterable[Expr]) -> bool:
        """Whether all of these rest on signals that nobody ever delivered."""
        return not any(self._active[self._numbers[expr]] for expr in expressions)

    def learn(self, suspicious: Mapping[Expr, Mask]) -> None:
        """Ends the tick: baselines take in what is healthy. `suspicious` is told for each baseline expression."""
        frozen: dict[tuple[Expr, float], Mask] = {}
        for expr, step in self.baselines.items():
            mask = suspicious.get(expr)
            key = step.baseline_slice.expr, step.baseline_slice.memory
            if mask is not None:
                frozen[key] = frozen[key] | mask if key in frozen else mask

        def of(past: BaselineSlice) -> Mask | None:
            mask = frozen.get((past.expr, past.memory))
            return mask if mask is not None and mask.any() else None

        with np.errstate(all="ignore"):
            self._baseline_store.learn(self._sample, of)

    # --- values of all entities

    def value(self, expr: Expr) -> Any:
        """The value of an expression at this tick: an array over the entities of its kind, not to be written to."""
        with np.errstate(all="ignore"):
            return self._value(self._numbers[expr])

    def _value(self, n: int) -> Any:
        values = self._values
        found = values[n]
        if found is None:
            if self._join_orders[n]:
                found = self._join(n)
            else:
                args = [self._value(arg) if values[arg] is None else values[arg] for arg in self._reads[n]]
                found = self._run_functions[n](self._t, args)
            values[n] = found
        return found

    def _age(self, n: int) -> Callable[[float, Any], F64]:
        (arg,), step = self._args[n], self._operators[n]
        return lambda t, _: step.run(t, [self._time(arg)])

    def _join(self, n: int) -> Truth:
        """Parts joined by `and` or `or`: the later ones are not asked about whom the earlier ones have settled."""
        joins, settled = (np.minimum, NO) if self.expressions[n].op == "and" else (np.maximum, YES)
        first, *others = self._join_orders[n]
        size = self.entities.count(self.expressions[n].kind) if self.expressions[n].kind else 1
        truth: Truth = _broadcast(self._value(first), size)
        for arg in others:
            left = truth != settled
            number = np.count_nonzero(left)
            if not number:
                break
            if size <= MIN_SUBSET_SIZE or SUBSET_FACTOR * number >= size:
                truth = joins(truth, self._value(arg))
            else:
                at = np.flatnonzero(left)
                truth = truth.copy()
                truth[at] = joins(truth[at], self._subset_value(arg, self.subset_of(self.expressions[n].kind, at)))
        return truth

    def _sample(self, expressions: Sequence[Expr]) -> tuple[F64, F64 | float]:
        """The values of expressions side by side, and when they were sampled: one number if all were together."""
        values = [self._wide_value(expr) for expr in expressions]
        moment = merge_timestamps(self._timestamp(self._numbers[expr]) for expr in expressions)
        if moment is not None and moment is not CONSTANT_TIMESTAMP:
            return concat_columns(values), moment.time
        return concat_columns(values), concat_columns([self._wide_time(expr) for expr in expressions])

    def _wide_value(self, expr: Expr) -> F64:
        found: F64 = _broadcast(self._value(self._numbers[expr]), self.entities.count(expr.kind))
        return found

    def _wide_time(self, expr: Expr) -> F64:
        found: F64 = _broadcast(self._time(self._numbers[expr]), self.entities.count(expr.kind))
        return found

    def _timestamp(self, n: int) -> CommonTimestamp | None:
        """When an expression was last sampled, if that is the same for all who have a value."""
        if n not in self._timestamps:
            found = self._active[n] or not self._args[n]
            parts = (self._timestamp(arg) for arg in self._args[n])
            self._timestamps[n] = newest_timestamp(self._operators[n], parts) if found else None
        return self._timestamps[n]

    def _time(self, n: int) -> Any:
        """When what an expression is made of was last sampled; None of what nobody ever delivered anything for."""
        if not self._active[n]:
            return None
        if n not in self._times:
            self._times[n] = newest_times(self._operators[n], [self._time(arg) for arg in self._args[n]])
        return self._times[n]

    # --- values of some

    def subset_of(self, kind: str, at: Index) -> EntitySubset:
        """Some entities of a kind: what was found out about the same few is not worked out again in a tick."""
        if len(at) > MIN_SUBSET_SIZE:
            return EntitySubset(at)
        key = kind, at.tobytes()
        if key not in self._subsets:
            self._subsets[key] = EntitySubset(at)
        return self._subsets[key]

    def subset_value(self, expr: Expr, some: EntitySubset) -> Any:
        """The value of an expression for some entities of its kind: the same as `value`, where that is cheaper."""
        with np.errstate(all="ignore"):
            found = self._subset_value(self._numbers[expr], some)
        return _broadcast(found, len(some.indices))

    def _subset_value(self, n: int, some: EntitySubset) -> Any:
        found = some.values.get(n)
        if found is None:
            if self._values[n] is not None or len(some.indices) >= self._subset_limits[n]:
                whole = self._value(n)
                found = whole[some.indices] if self.expressions[n].kind else whole
            else:
                step, args = self._operators[n], self._args[n]
                if isinstance(step, Elementwise):
                    found = step.run(self._t, [self._subset_value(arg, some) for arg in args])
                else:
                    found = step.run_subset(some, lambda place, others: self._subset_value(args[place], others))
            some.values[n] = found
        return found

    def decisive_value(self, expr: Expr, some: EntitySubset) -> F64:
        """The number that some entities' decisive comparison looked at, among those in the unit of the first."""
        found = self._decisive_value(expr, self._units[expr], some)
        return np.full(len(some.indices), np.nan) if found is None else found

    def _decisive_value(self, expr: Expr, unit: Dimension, some: EntitySubset) -> F64 | None:
        if expr.op == "compare":
            side = measured_side(expr)
            found: F64 = self.subset_value(side, some)
            return found if side.dimension == unit else None
        if expr.op == "lift":
            up = self.entities.container_index(expr.kind, expr.args[0].kind)[some.indices]
            if not self.entities.count(expr.args[0].kind):
                return None
            above = some.related_subset((expr.kind, expr.args[0].kind), lambda: np.maximum(up, 0))
            inner = self._decisive_value(expr.args[0], unit, above)
            return None if inner is None else np.where(up >= 0, inner, np.nan)
        if expr.op == "not":
            return self._decisive_value(expr.args[0], unit, some)
        if expr.op not in {"and", "or"}:
            return None
        return self._decisive_part(expr, unit, some)

    def _decisive_part(self, expr: Expr, unit: Dimension, some: EntitySubset) -> F64 | None:
        """Of parts joined, the value of the one that made the whole what it is; the first of equals."""
        best: F64 | None = None
        rank: Truth | None = None
        for part in expr.args:
            value = self._decisive_value(part, unit, some)
            if value is None:
                continue
            truth = self.subset_value(part, some) if expr.op == "or" else -self.subset_value(part, some)
            if best is None or rank is None:
                best, rank = value, truth
            else:
                better = truth > rank
                best, rank = np.where(better, value, best), np.where(better, truth, rank)
        return best


@cache
def cost(expr: Expr) -> int:
    """How dear an expression is to compute, roughly."""
    return sum(_COSTS.get(node.name if node.op == "call" else node.op, 1) for node in {*expr.walk()})


def _broadcast(value: Any, size: int) -> Any:
    """A constant for each of so many entities; what is no constant stays as it is."""
    return value if value.shape == (size,) else np.broadcast_to(value, (size,))


def concat_columns(parts: Sequence[F64]) -> F64:
    """The arrays one after another, not to be written to."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def measured_side(comparison: Expr) -> Expr:
    """The side of a comparison that was measured: the left one, if it is no constant."""
    left, right = comparison.args
    return left if left.kind else right


def unit_of(expr: Expr) -> Dimension:
    """The dimension of the number that `decisive` tells for a truth."""
    found = next((node for node in expr.walk() if node.op == "compare"), None)
    return measured_side(found).dimension if found else ()
