"""Expressions over all entities at once, worked out when somebody asks: each distinct one at most once a tick.

Numbers are float64 with NaN for unknown; truths are int8, NO, UNKNOWN, YES, so that `and` is the smaller, `or` the
larger and `not` the negative of what they join. What remembers takes its samples at every tick, asked or not.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.banks import Banks, Past, Pasts
from skewscope.engine.entities import Entities
from skewscope.engine.memories import FromBaseline, Smoothed, Windowed
from skewscope.engine.moments import ALWAYS, Moment, together
from skewscope.engine.operations import Age, Fixed, Plain, Reduce, Within, Workshop, moment, times
from skewscope.engine.panel import Panel
from skewscope.engine.readings import Buckets, Rate, Shared
from skewscope.engine.sets import F64, Index, Mask
from skewscope.engine.some import Some
from skewscope.engine.verdict import NO, YES
from skewscope.kb.units import Dimension
from skewscope.rules.expr import Expr

Truth = NDArray[np.int8]

FEW = 4
"""Something is worked out for some entities alone if there are so many times more."""
SMALL = 256
"""Of so few entities all are as cheap as some."""
_BY_ITSELF = (Windowed, Rate, Buckets, Smoothed)
"""Steps that do not read the values of their arguments when they are asked."""


_DEAR = {
    **dict.fromkeys(("peer_z", "peer_ratio", "peer_excess", "peer_highest", "peer_spread", "share", "gini"), 12),
    **dict.fromkeys(("quantile", "slope", "bucket_quantile"), 12),
    **dict.fromkeys(("rate", "bucket_mean", "mean", "minimum", "maximum", "jitter", "change", "burst"), 4),
    **dict.fromkeys(("highest", "lowest", "total", "average", "middle", "lift"), 3),
}
"""What computing a node costs, where it is more than a comparison."""


class Evaluator:
    """All expressions of all rules."""

    def __init__(self, expressions: Iterable[Expr], panel: Panel, entities: Entities) -> None:
        self.panel = panel
        self.entities = entities
        self.order: list[Expr] = []
        """Arguments come first."""
        self._numbers: dict[Expr, int] = {}
        self._args: list[tuple[int, ...]] = []
        for expr in expressions:
            self._add(expr)
        shared = Shared(panel, entities)
        self._banks, self._pasts = Banks(panel.tick), Pasts()
        workshop = Workshop(shared, self._banks, self._pasts)
        self._steps: list[Any] = [workshop.step(expr) for expr in self.order]
        self._lanes = shared.lanes
        self._run: list[Callable[[float, Any], Any]] = [
            self._age(n) if isinstance(step, Age) else step.run for n, step in enumerate(self._steps)
        ]
        self._reads = [
            () if isinstance(step, (*_BY_ITSELF, Age)) else args
            for step, args in zip(self._steps, self._args, strict=True)
        ]
        pairs = list(zip(self.order, self._steps, strict=True))
        self.baselines = {expr: step for expr, step in pairs if isinstance(step, FromBaseline)}
        """The steps that compare with an entity's own past."""
        self._takers = [
            (n, step)
            for n, step in enumerate(self._steps)
            if isinstance(step, Smoothed) or (isinstance(step, Within | Reduce) and step.whole)
        ]
        self._fixed: list[Any] = [None] * len(self.order)
        """The values of what nobody ever delivered anything for."""
        self._values: list[Any] = list(self._fixed)
        self._times: dict[int, Any] = {}
        self._moments: dict[int, Moment | None] = {}
        self._looked_at: dict[tuple[str, bytes], Some] = {}
        self._t = -np.inf
        self._version = -1
        self._runs = np.zeros(len(self.order), bool)
        self._few: list[float] = [0.0] * len(self.order)
        """Of fewer entities than this, an expression is better worked out for them alone."""
        self._unheard: tuple[str, ...] = ()
        self._order = [
            tuple(sorted(args, key=lambda arg: cost(self.order[arg]))) if expr.op in {"and", "or"} else ()
            for expr, args in zip(self.order, self._args, strict=True)
        ]
        """In which order the parts of what is joined are asked: the cheapest first."""
        self._units = {expr: unit_of(expr) for expr in self.order if expr.truth}

    def _add(self, expr: Expr) -> int:
        if expr not in self._numbers:
            args = tuple(self._add(arg) for arg in expr.args)
            self._numbers[expr] = len(self.order)
            self.order.append(expr)
            self._args.append(args)
        return self._numbers[expr]

    # --- ticks

    def step(self, t: float) -> None:
        """Starts the tick that ends at `t`: what remembers takes its samples."""
        if self._version != self.entities.version or any(self.panel.rows[name].selectors for name in self._unheard):
            self._plan()
        self._t = t
        self._values = list(self._fixed)
        self._times.clear()
        self._moments.clear()
        self._looked_at.clear()
        with np.errstate(all="ignore"):
            for (signal, _), lanes in self._lanes.items():
                if self.panel.rows[signal].selectors:
                    lanes.step(t)
            self._banks.step(t, self._sampled)
            for n, step in self._takers:
                if self._runs[n]:
                    self._taken(n, step)

    def _taken(self, n: int, step: Any) -> None:
        (arg,) = self._args[n]
        if isinstance(step, Smoothed):
            step.take(self._value(arg), self._when(self.order[arg]))
        else:
            step.take(self._value(arg))

    def _plan(self) -> None:
        """Settles what is computed from now on: what rests on signals that nobody ever delivered is unknown anyway."""
        self._version = self.entities.version
        names = {expr.name for expr in self.order if expr.op == "signal"}
        self._unheard = tuple(sorted(name for name in names if not self.panel.rows[name].selectors))
        self._runs = runs = self._heard()
        for n, expr in enumerate(self.order):
            size = self.entities.count(expr.kind) if expr.kind else 1
            unknown = np.zeros(size, np.int8) if expr.truth else np.full(size, np.nan)
            step = self._steps[n]
            apart = isinstance(step, Plain) or hasattr(step, "part")
            self._few[n] = size / FEW if apart and size > SMALL else 0
            self._fixed[n] = step.value if isinstance(step, Fixed) else None if runs[n] else unknown
        # What is first needed when something goes wrong is made now: a tick should not wait for it then.
        for n, step in enumerate(self._steps):
            if runs[n] and hasattr(step, "prepare"):
                step.prepare()
        for memory in (self._banks, self._pasts):
            memory.lay(lambda expr: bool(runs[self._numbers[expr]]), self.entities.count)

    def _heard(self) -> Mask:
        """Which expressions may say something: not all that they rest on was never delivered."""
        heard = np.zeros(len(self.order), bool)
        silent = frozenset(self._unheard)
        for n, expr in enumerate(self.order):
            args = heard[list(self._args[n])]
            if expr.op == "signal":
                heard[n] = expr.name not in silent
            elif expr.op in {"and", "or"}:
                heard[n] = args.any()
            else:
                heard[n] = args.all() or (expr.op == "call" and expr.name in {"known", "peers"})
        return heard

    def silent(self, expressions: Iterable[Expr]) -> bool:
        """Whether all of these rest on signals that nobody ever delivered."""
        return not any(self._runs[self._numbers[expr]] for expr in expressions)

    def learn(self, suspicious: Mapping[Expr, Mask]) -> None:
        """Ends the tick: baselines take in what is healthy. `suspicious` is told for each baseline expression."""
        frozen: dict[tuple[Expr, float], Mask] = {}
        for expr, step in self.baselines.items():
            mask = suspicious.get(expr)
            key = step.past.expr, step.past.memory
            if mask is not None:
                frozen[key] = frozen[key] | mask if key in frozen else mask

        def of(past: Past) -> Mask | None:
            mask = frozen.get((past.expr, past.memory))
            return mask if mask is not None and mask.any() else None

        with np.errstate(all="ignore"):
            self._pasts.learn(self._sampled, of)

    # --- values of all entities

    def value(self, expr: Expr) -> Any:
        """The value of an expression at this tick: an array over the entities of its kind, not to be written to."""
        with np.errstate(all="ignore"):
            return self._value(self._numbers[expr])

    def _value(self, n: int) -> Any:
        values = self._values
        found = values[n]
        if found is None:
            if self._order[n]:
                found = self._joined(n)
            else:
                args = [self._value(arg) if values[arg] is None else values[arg] for arg in self._reads[n]]
                found = self._run[n](self._t, args)
            values[n] = found
        return found

    def _age(self, n: int) -> Callable[[float, Any], F64]:
        (arg,), step = self._args[n], self._steps[n]
        return lambda t, _: step.run(t, [self._time(arg)])

    def _joined(self, n: int) -> Truth:
        """Parts joined by `and` or `or`: the later ones are not asked about whom the earlier ones have settled."""
        joins, settled = (np.minimum, NO) if self.order[n].op == "and" else (np.maximum, YES)
        first, *others = self._order[n]
        size = self.entities.count(self.order[n].kind) if self.order[n].kind else 1
        truth: Truth = _wide(self._value(first), size)
        for arg in others:
            left = truth != settled
            number = np.count_nonzero(left)
            if not number:
                break
            if size <= SMALL or FEW * number >= size:
                truth = joins(truth, self._value(arg))
            else:
                at = np.flatnonzero(left)
                truth = truth.copy()
                truth[at] = joins(truth[at], self._some(arg, self.those(self.order[n].kind, at)))
        return truth

    def _sampled(self, expressions: Sequence[Expr]) -> tuple[F64, F64 | float]:
        """The values of expressions side by side, and when they were sampled: one number if all were together."""
        values = [self._wide_value(expr) for expr in expressions]
        moment = together(self._moment(self._numbers[expr]) for expr in expressions)
        if moment is not None and moment is not ALWAYS:
            return side_by_side(values), moment.time
        return side_by_side(values), side_by_side([self._when(expr) for expr in expressions])

    def _wide_value(self, expr: Expr) -> F64:
        found: F64 = _wide(self._value(self._numbers[expr]), self.entities.count(expr.kind))
        return found

    def _when(self, expr: Expr) -> F64:
        found: F64 = _wide(self._time(self._numbers[expr]), self.entities.count(expr.kind))
        return found

    def _moment(self, n: int) -> Moment | None:
        """When an expression was last sampled, if that is the same for all who have a value."""
        if n not in self._moments:
            found = self._runs[n] or not self._args[n]
            parts = (self._moment(arg) for arg in self._args[n])
            self._moments[n] = moment(self._steps[n], parts) if found else None
        return self._moments[n]

    def _time(self, n: int) -> Any:
        """When what an expression is made of was last sampled; None of what nobody ever delivered anything for."""
        if not self._runs[n]:
            return None
        if n not in self._times:
            self._times[n] = times(self._steps[n], [self._time(arg) for arg in self._args[n]])
        return self._times[n]

    # --- values of some

    def those(self, kind: str, at: Index) -> Some:
        """Some entities of a kind: what was found out about the same few is not worked out again in a tick."""
        if len(at) > SMALL:
            return Some(at)
        key = kind, at.tobytes()
        if key not in self._looked_at:
            self._looked_at[key] = Some(at)
        return self._looked_at[key]

    def some(self, expr: Expr, some: Some) -> Any:
        """The value of an expression for some entities of its kind: the same as `value`, where that is cheaper."""
        with np.errstate(all="ignore"):
            found = self._some(self._numbers[expr], some)
        return _wide(found, len(some.at))

    def _some(self, n: int, some: Some) -> Any:
        found = some.values.get(n)
        if found is None:
            if self._values[n] is not None or len(some.at) >= self._few[n]:
                whole = self._value(n)
                found = whole[some.at] if self.order[n].kind else whole
            else:
                step, args = self._steps[n], self._args[n]
                if isinstance(step, Plain):
                    found = step.run(self._t, [self._some(arg, some) for arg in args])
                else:
                    found = step.part(some, lambda place, others: self._some(args[place], others))
            some.values[n] = found
        return found

    def decisive(self, expr: Expr, some: Some) -> F64:
        """The number that some entities' decisive comparison looked at, among those in the unit of the first."""
        found = self._decisive(expr, self._units[expr], some)
        return np.full(len(some.at), np.nan) if found is None else found

    def _decisive(self, expr: Expr, unit: Dimension, some: Some) -> F64 | None:
        if expr.op == "compare":
            side = measured(expr)
            found: F64 = self.some(side, some)
            return found if side.dim == unit else None
        if expr.op == "lift":
            up = self.entities.up(expr.kind, expr.args[0].kind)[some.at]
            if not self.entities.count(expr.args[0].kind):
                return None
            above = some.elsewhere((expr.kind, expr.args[0].kind), lambda: np.maximum(up, 0))
            inner = self._decisive(expr.args[0], unit, above)
            return None if inner is None else np.where(up >= 0, inner, np.nan)
        if expr.op == "not":
            return self._decisive(expr.args[0], unit, some)
        if expr.op not in {"and", "or"}:
            return None
        return self._deciding(expr, unit, some)

    def _deciding(self, expr: Expr, unit: Dimension, some: Some) -> F64 | None:
        """Of parts joined, the value of the one that made the whole what it is; the first of equals."""
        best: F64 | None = None
        rank: Truth | None = None
        for part in expr.args:
            value = self._decisive(part, unit, some)
            if value is None:
                continue
            truth = self.some(part, some) if expr.op == "or" else -self.some(part, some)
            if best is None or rank is None:
                best, rank = value, truth
            else:
                better = truth > rank
                best, rank = np.where(better, value, best), np.where(better, truth, rank)
        return best


@cache
def cost(expr: Expr) -> int:
    """How dear an expression is to compute, roughly."""
    return sum(_DEAR.get(node.name if node.op == "call" else node.op, 1) for node in {*expr.walk()})


def _wide(value: Any, size: int) -> Any:
    """A constant for each of so many entities; what is no constant stays as it is."""
    return value if value.shape == (size,) else np.broadcast_to(value, (size,))


def side_by_side(parts: Sequence[F64]) -> F64:
    """The arrays one after another, not to be written to."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def measured(comparison: Expr) -> Expr:
    """The side of a comparison that was measured: the left one, if it is no constant."""
    left, right = comparison.args
    return left if left.kind else right


def unit_of(expr: Expr) -> Dimension:
    """The dimension of the number that `decisive` tells for a truth."""
    found = next((node for node in expr.walk() if node.op == "compare"), None)
    return measured(found).dim if found else ()
