"""How many peers there are: those who were ever heard, and what that says while others are silent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features.operators.series import OperatorContext
from skewscope.engine.features.peer_statistics import count_known
from skewscope.engine.model.sets import F64
from skewscope.rules.expression import Expr

Truth = NDArray[np.int8]
Compare = Callable[[Any, Any], Truth]


class PeerCount:
    """How many peers ever reported anything; unknown while none did."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        assert expr.peers is not None
        self.peers, self.entities = expr.peers, shared.entities
        self._input_key: tuple[int, tuple[int, ...]] = (-1, ())
        self._args: tuple[Any, ...] = ()
        self._count: F64 = np.empty(0)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        # Who was ever seen is told by the same arrays until somebody new is.
        of = self.entities.version, tuple(map(id, args))
        if of != self._input_key:
            self._input_key, self._args, self._count = of, tuple(args), self._count_members(args)
        return self._count

    def _count_members(self, args: Sequence[Any]) -> F64:
        seen = np.full(self.entities.count(self.peers.kind), np.nan)
        for arg in args:
            seen = np.fmax(seen, arg)
        count = self.entities.peer_sets(self.peers).map_members(seen, count_known)
        return np.where(count > 0, count, np.nan)


class PeerCountComparison:
    """A number of peers compared with something: unknown where those who are silent would decide.

    Two of four who were heard are no proof that there are fewer than three.
    """

    def __init__(self, expr: Expr, shared: OperatorContext, compare: Mapping[str, Compare]) -> None:
        self.name, self.compare, self.entities = expr.name, compare, shared.entities
        self.side = next(n for n, arg in enumerate(expr.args) if is_peer_count(arg))
        peers = expr.args[self.side].peers
        assert peers is not None
        self.peers = peers
        self._class_sizes: tuple[int, F64] = (-1, np.empty(0))
        self._cached: tuple[tuple[Any, ...], Truth] = ((), np.empty(0, np.int8))

    def run(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        """The truth where it is the same for all numbers from those who were heard to those who may be there."""
        before, told = self._cached
        # Both sides are the same arrays until somebody new is heard.
        if len(before) != len(args) or any(old is not new for old, new in zip(before, args, strict=True)):
            told = self._compare(args)
            self._cached = tuple(args), told
        return told

    def _compare(self, args: Sequence[Any]) -> Truth:
        there = [
            np.where(np.isnan(arg), arg, self._count_all()) if n == self.side else arg for n, arg in enumerate(args)
        ]
        if self.name not in {"==", "!="}:
            return self._compare_bounds(self.name, args, there)
        same = np.minimum(self._compare_bounds(">=", args, there), self._compare_bounds("<=", args, there))
        return same if self.name == "==" else -same

    def _compare_bounds(self, name: str, heard: Sequence[Any], there: Sequence[Any]) -> Truth:
        """What both ends of the interval agree on; an order holds between them if it holds at both."""
        told = self.compare[name](*heard)
        return np.where(told == self.compare[name](*there), told, np.int8(0))

    def _count_all(self) -> F64:
        """How many there are in each class, heard or not."""
        kind, entities = self.peers.kind, self.entities
        if self._class_sizes[0] != entities.known_count(kind) or len(self._class_sizes[1]) != entities.count(kind):
            everybody = np.where(np.arange(entities.count(kind)) < entities.known_count(kind), 0.0, np.nan)
            self._class_sizes = (
                entities.known_count(kind),
                entities.peer_sets(self.peers).map_members(everybody, count_known),
            )
        return self._class_sizes[1]


def is_peer_count(expr: Expr) -> bool:
    """Whether an expression is the number of peers itself."""
    return expr.op == "call" and expr.name == "peers"
