"""How many peers there are: those who were ever heard, and what that says while others are silent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features import heard
from skewscope.engine.readings import Shared
from skewscope.engine.sets import F64
from skewscope.rules.expr import Expr

Truth = NDArray[np.int8]
Compare = Callable[[Any, Any], Truth]


class Members:
    """How many peers ever reported anything; unknown while none did."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        assert expr.peers is not None
        self.peers, self.entities = expr.peers, shared.entities
        self._of: tuple[int, tuple[int, ...]] = (-1, ())
        self._args: tuple[Any, ...] = ()
        self._count: F64 = np.empty(0)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        # Who was ever seen is told by the same arrays until somebody new is.
        of = self.entities.version, tuple(map(id, args))
        if of != self._of:
            self._of, self._args, self._count = of, tuple(args), self._counted(args)
        return self._count

    def _counted(self, args: Sequence[Any]) -> F64:
        seen = np.full(self.entities.count(self.peers.kind), np.nan)
        for arg in args:
            seen = np.fmax(seen, arg)
        count = self.entities.peers(self.peers).mapped(seen, heard)
        return np.where(count > 0, count, np.nan)


class OfCount:
    """A number of peers compared with something: unknown where those who are silent would decide.

    Two of four who were heard are no proof that there are fewer than three.
    """

    def __init__(self, expr: Expr, shared: Shared, compare: Mapping[str, Compare]) -> None:
        self.name, self.compare, self.entities = expr.name, compare, shared.entities
        self.side = next(n for n, arg in enumerate(expr.args) if is_count(arg))
        peers = expr.args[self.side].peers
        assert peers is not None
        self.peers = peers
        self._class: tuple[int, F64] = (-1, np.empty(0))
        self._told: tuple[tuple[Any, ...], Truth] = ((), np.empty(0, np.int8))

    def run(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        """The truth where it is the same for all numbers from those who were heard to those who may be there."""
        before, told = self._told
        # Both sides are the same arrays until somebody new is heard.
        if len(before) != len(args) or any(old is not new for old, new in zip(before, args, strict=True)):
            told = self._compared(args)
            self._told = tuple(args), told
        return told

    def _compared(self, args: Sequence[Any]) -> Truth:
        there = [np.where(np.isnan(arg), arg, self._all()) if n == self.side else arg for n, arg in enumerate(args)]
        if self.name not in {"==", "!="}:
            return self._between(self.name, args, there)
        same = np.minimum(self._between(">=", args, there), self._between("<=", args, there))
        return same if self.name == "==" else -same

    def _between(self, name: str, heard: Sequence[Any], there: Sequence[Any]) -> Truth:
        """What both ends of the interval agree on; an order holds between them if it holds at both."""
        told = self.compare[name](*heard)
        return np.where(told == self.compare[name](*there), told, np.int8(0))

    def _all(self) -> F64:
        """How many there are in each class, heard or not."""
        kind, entities = self.peers.kind, self.entities
        if self._class[0] != entities.known(kind) or len(self._class[1]) != entities.count(kind):
            everybody = np.where(np.arange(entities.count(kind)) < entities.known(kind), 0.0, np.nan)
            self._class = entities.known(kind), entities.peers(self.peers).mapped(everybody, heard)
        return self._class[1]


def is_count(expr: Expr) -> bool:
    """Whether an expression is the number of peers itself."""
    return expr.op == "call" and expr.name == "peers"
