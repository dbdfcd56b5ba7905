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
        self._version = -1
        self._runs = np.zeros(len(self.order), bool)
        self._unheard: tuple[str, ...] = ()
        self._running: list[tuple[int, Step, tuple[int, ...]]] = []
        self._learning: list[tuple[Expr, operations.FromBaseline]] = []
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
        """Computes everything for the tick that ends at `t`."""
        if self._version != self.entities.version or any(self.panel.rows[name].selectors for name in self._unheard):
            self._plan()
        with np.errstate(all="ignore"):
            for n, step, args in self._running:
                values = [self._values[arg] for arg in args]
                if isinstance(step, operations.Timed):
                    step.times = [self._times[arg] for arg in args]
                self._values[n] = step.run(t, values)
                if self._timed[n]:
                    self._times[n] = operations.times(step, [self._times[a] for a in args])

    def _plan(self) -> None:
        """Settles what is computed from now on: what rests on signals that nobody ever delivered is unknown anyway."""
        self._version = self.entities.version
        names = {expr.name for expr in self.order if expr.op == "signal"}
        self._unheard = tuple(sorted(name for name in names if not self.panel.rows[name].selectors))
        self._runs = runs = self._heard()
        self._running = [(n, self._steps[n], self._args[n]) for n in np.flatnonzero(runs).tolist()]
        self._learning = [(expr, step) for expr, step in self.baselines.items() if runs[self._numbers[expr]]]
        for n in np.flatnonzero(~runs).tolist():
            size = self.entities.count(self.order[n].kind) if self.order[n].kind else 1
            self._values[n] = np.zeros(size, np.int8) if self.order[n].truth else np.full(size, np.nan)
            self._times[n] = None

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

    def value(self, expr: Expr) -> Any:
        """The value of an expression at this tick: an array over the entities of its kind, not to be written to."""
        return self._values[self._numbers[expr]]

    def learn(self, suspicious: Mapping[Expr, Mask]) -> None:
        """Ends the tick: baselines take in what is healthy. `suspicious` is told for each baseline expression."""
        with np.errstate(all="ignore"):
            for expr, step in self._learning:
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
