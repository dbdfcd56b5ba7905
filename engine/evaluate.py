"""Expressions over all entities at once: each distinct sub-expression is computed once a tick.

Numbers are float64 with NaN for unknown; truths are int8, NO, UNKNOWN, YES, so that `and` is the smaller, `or` the
larger and `not` the negative of what they join.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.engine import operations
from skewscope.engine.entities import Entities
from skewscope.engine.panel import Panel
from skewscope.engine.readings import Shared
from skewscope.engine.sets import F64
from skewscope.kb.units import Dimension
from skewscope.rules.expr import Expr
from skewscope.rules.functions import FUNCTIONS

Truth = NDArray[np.int8]
Mask = NDArray[np.bool_]


class Step(Protocol):
    """One sub-expression, with whatever it must remember."""

    def run(self, t: float, args: Sequence[Any]) -> Any:
        """The value of each entity, from the values of the arguments."""
        ...


class Evaluator:
    """All expressions of all rules, in an order in which arguments come first."""

    def __init__(self, expressions: Iterable[Expr], panel: Panel, entities: Entities) -> None:
        self.panel = panel
        self.entities = entities
        self.order: list[Expr] = []
        self._numbers: dict[Expr, int] = {}
        self._args: list[tuple[int, ...]] = []
        for expr in expressions:
            self._add(expr)
        self._timed = self._with_times()
        shared = Shared(panel, entities)
        self._steps: list[Step] = [operations.step(expr, shared) for expr in self.order]
        self._values: list[Any] = [None] * len(self.order)
        self._times: list[Any] = [None] * len(self.order)
        self._heard = [_always_heard(expr) for expr in self.order]
        self._blank: dict[tuple[bool, int], Any] = {}
        pairs = zip(self.order, self._steps, strict=True)
        self.baselines = {expr: step for expr, step in pairs if isinstance(step, operations.FromBaseline)}
        """The steps that compare with an entity's own past."""
        self._units = {expr: unit_of(expr) for expr in self.order if expr.truth}

    def _add(self, expr: Expr) -> int:
        if expr not in self._numbers:
            args = tuple(self._add(arg) for arg in expr.args)
            self._numbers[expr] = len(self.order)
            self.order.append(expr)
            self._args.append(args)
        return self._numbers[expr]

    def _with_times(self) -> Mask:
        """Whose sample times are needed: what lies below anything that remembers."""
        timed = np.zeros(len(self.order), bool)
        for n in reversed(range(len(self.order))):
            if timed[n] or _remembers(self.order[n]):
                timed[list(self._args[n])] = True
        return timed

    def step(self, t: float) -> None:
        """Computes everything for the tick that ends at `t`.

        What rests on signals that nobody ever delivered is unknown without being computed: a site has few of them all.
        """
        with np.errstate(all="ignore"):
            for n, step in enumerate(self._steps):
                if self._unheard(n):
                    self._values[n], self._times[n] = self._nothing(self.order[n]), None
                    continue
                args = [self._values[arg] for arg in self._args[n]]
                if isinstance(step, operations.Timed):
                    step.times = [self._times[arg] for arg in self._args[n]]
                self._values[n] = step.run(t, args)
                if self._timed[n]:
                    self._times[n] = operations.times(step, [self._times[a] for a in self._args[n]])

    def _unheard(self, n: int) -> bool:
        """Whether an expression is unknown for everybody, since what it rests on was never delivered."""
        if self._heard[n]:
            return False
        expr = self.order[n]
        if expr.op == "signal":
            heard = bool(self.panel.rows[expr.name].selectors)
        elif expr.op in {"and", "or"}:
            heard = any(self._heard[arg] for arg in self._args[n])
        else:
            heard = all(self._heard[arg] for arg in self._args[n])
        self._heard[n] = heard
        return not heard

    def _nothing(self, expr: Expr) -> Any:
        size = self.entities.count(expr.kind)
        key = expr.truth, size
        if key not in self._blank:
            self._blank[key] = np.zeros(size, np.int8) if expr.truth else np.full(size, np.nan)
        return self._blank[key]

    def value(self, expr: Expr) -> Any:
        """The value of an expression at this tick: an array over the entities of its kind, not to be written to."""
        return self._values[self._numbers[expr]]

    def learn(self, suspicious: Mapping[Expr, Mask]) -> None:
        """Ends the tick: baselines take in what is healthy. `suspicious` is told for each baseline expression."""
        for expr, step in self.baselines.items():
            if self._heard[self._numbers[expr]]:
                with np.errstate(all="ignore"):
                    step.learn(suspicious.get(expr))

    def decisive(self, expr: Expr) -> F64:
        """The number that each entity's decisive comparison looked at, among those in the unit of the first."""
        found = self._decisive(expr, self._units[expr])
        return np.full(self.entities.count(expr.kind), np.nan) if found is None else found

    def _decisive(self, expr: Expr, unit: Dimension) -> F64 | None:
        if expr.op == "compare":
            side = measured(expr)
            return self._wide(side, expr.kind) if side.dim == unit else None
        if expr.op == "lift":
            inner = self._decisive(expr.args[0], unit)
            return None if inner is None else np.append(inner, np.nan)[self.entities.up(expr.kind, expr.args[0].kind)]
        if expr.op == "not":
            return self._decisive(expr.args[0], unit)
        if expr.op not in {"and", "or"}:
            return None
        return self._deciding(expr, unit)

    def _deciding(self, expr: Expr, unit: Dimension) -> F64 | None:
        """Of parts joined, the value of the one that made the whole what it is; the first of equals."""
        best: F64 | None = None
        rank: Truth | None = None
        for part in expr.args:
            value = self._decisive(part, unit)
            if value is None:
                continue
            truth = self.value(part) if expr.op == "or" else -self.value(part)
            if best is None or rank is None:
                best, rank = value, truth
            else:
                better = truth > rank
                best, rank = np.where(better, value, best), np.where(better, truth, rank)
        return best

    def _wide(self, expr: Expr, kind: str) -> F64:
        return np.broadcast_to(self.value(expr), (self.entities.count(kind),))


def _always_heard(expr: Expr) -> bool:
    """Whether an expression may say something though nothing that it rests on was ever delivered."""
    return expr.op in {"number", "seen"} or (expr.op == "call" and expr.name in {"known", "peers", "speed", "size"})


def measured(comparison: Expr) -> Expr:
    """The side of a comparison that was measured: the left one, if it is no constant."""
    left, right = comparison.args
    return left if left.kind else right


def unit_of(expr: Expr) -> Dimension:
    """The dimension of the number that `decisive` tells for a truth."""
    found = next((node for node in expr.walk() if node.op == "compare"), None)
    return measured(found).dim if found else ()


def _remembers(expr: Expr) -> bool:
    return expr.op == "call" and (expr.name == "age" or FUNCTIONS[expr.name].form in {"window", "baseline"})
