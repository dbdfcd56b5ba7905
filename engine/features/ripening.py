"""What is unknown only because a window or a past is still too short: telemetry arrives, so it becomes known."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from skewscope.engine.model.arrays import Mask
from skewscope.engine.model.verdict import UNKNOWN, YES
from skewscope.rules.expression import Expr


class RipeningValue(Protocol):
    """What an operator tells about its unknown values."""

    def ripening(self, t: float, unknown: Mask, args: Sequence[tuple[Any, Mask]]) -> Mask:
        """Returns [entity] where a value is unknown only since a window or a past is still too short."""


class RipeningFinder:
    """Finds which truth values may turn to YES or to NO as soon as windows and pasts are long enough.

    Masks are [entity of the expression's kind] bool. What rests on telemetry that never came is not ripening.
    """

    def __init__(
        self,
        expressions: Sequence[Expr],
        args: Sequence[tuple[int, ...]],
        operators: Sequence[RipeningValue],
        value: Callable[[int], Any],
        size: Callable[[int], int],
        may_be_known: Callable[[int], bool],
    ) -> None:
        self._expressions, self._args, self._operators = expressions, args, operators
        self._value, self._size, self._may_be_known = value, size, may_be_known
        self._t = -np.inf
        self._unripe: dict[int, Mask] = {}
        self._turning: dict[tuple[int, int], Mask] = {}

    def step(self, t: float) -> None:
        """Start the tick that ends at `t` seconds."""
        self._t = t
        self._unripe.clear()
        self._turning.clear()

    def turning(self, n: int, truth: int) -> Mask:
        """Returns where an expression does not have this truth value and may turn to it by ripening."""
        key = n, truth
        if key not in self._turning:
            self._turning[key] = self._find_turning(n, truth)
        return self._turning[key]

    def _find_turning(self, n: int, truth: int) -> Mask:
        op, args = self._expressions[n].op, self._args[n]
        none = np.zeros(self._size(n), bool)
        if not self._may_be_known(n):
            return none
        if op == "not":
            return self.turning(args[0], -truth)
        if op in {"and", "or"}:
            has = [np.broadcast_to(self._value(arg) == truth, none.shape) for arg in args]
            may = [np.broadcast_to(self.turning(arg, truth), none.shape) for arg in args]
            everyone = np.logical_and.reduce([one | other for one, other in zip(has, may, strict=True)])
            needs_all = (op == "and") == (truth == YES)
            found = everyone if needs_all else np.logical_or.reduce(may)
            return np.asarray(found & (self._value(n) != truth))
        return self._find_turning_leaf(n, truth)

    def _find_turning_leaf(self, n: int, truth: int) -> Mask:
        """Returns the same of an expression that joins no truth values."""
        expr, args = self._expressions[n], self._args[n]
        if expr.op == "lift":
            whole = [(self._value(args[0]), self.turning(args[0], truth))]
            return np.asarray(self._operators[n].ripening(self._t, np.zeros(self._size(n), bool), whole))
        if expr.op == "compare":
            return np.asarray(self.unripe(n) & (self._value(n) != truth))
        if expr.name == "known" and expr.op == "call" and truth == YES:
            return self.unripe(args[0])
        return np.zeros(self._size(n), bool)

    def unripe(self, n: int) -> Mask:
        """Returns where the value of an expression is unknown and ripening."""
        if n not in self._unripe:
            value = self._value(n)
            if not self._may_be_known(n):
                return np.zeros(self._size(n), bool)
            unknown = np.isnan(value) if value.dtype.kind == "f" else value == UNKNOWN
            args = [(self._value(arg), self.unripe(arg)) for arg in self._args[n]]
            found = self._operators[n].ripening(self._t, np.broadcast_to(unknown, self._size(n)), args)
            self._unripe[n] = found & unknown
        return self._unripe[n]
