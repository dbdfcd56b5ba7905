"""What holds up a rule that fires: of its evidence only that which could be judged when it began to fire.

A site without an engine's metrics fires on what the wire tells. When that says no, all that is left is what nobody
there ever knew, and the fault is over. What was known and fell silent meanwhile may still be so, and goes on.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.entities import Entities
from skewscope.engine.evaluate import Evaluator
from skewscope.engine.sets import Index, Mask
from skewscope.engine.some import Some
from skewscope.engine.verdict import NO, UNKNOWN
from skewscope.rules.expr import Expr

Truth = NDArray[np.int8]
JOINS = {"and": np.minimum, "or": np.maximum}


class Support:
    """For each entity of a rule, which parts of its evidence were unknown as it began to fire."""

    def __init__(self, items: Sequence[Expr], entities: Entities, evaluator: Evaluator, size: int) -> None:
        self.items, self.entities, self.evaluator = tuple(items), entities, evaluator
        self.parts = {part: n for n, part in enumerate(dict.fromkeys(p for item in items for p in _parts(item)))}
        self.size = size
        self._dark: Mask = np.zeros((len(self.parts), 0), bool)

    def note(self, at: Index, some: Some) -> None:
        """Notes what is unknown of some entities that begin to fire."""
        if not self._dark.shape[1]:
            self._dark = np.zeros((len(self.parts), self.size), bool)
        for item in self.items:
            self._walk(item, some, at, noting=True)

    def truth(self, at: Index, some: Some) -> Truth:
        """[items, k] the truth of the items for entities that fire; what was unknown and still is counts as no."""
        return np.stack([self._walk(item, some, at, noting=False) for item in self.items])

    def _walk(self, expr: Expr, some: Some, at: Index, *, noting: bool) -> Truth:
        if expr.op in JOINS:
            truths = [self._walk(arg, some, at, noting=noting) for arg in expr.args]
            found: Truth = JOINS[expr.op].reduce(truths)
            return found
        if _whole(expr):
            return self._lifted(expr, some, at, noting=noting)
        found = np.array(np.broadcast_to(self.evaluator.some(expr, some), len(at)), np.int8)
        row = self.parts[expr]
        if noting:
            self._dark[row, at] = found == UNKNOWN
        else:
            found[(found == UNKNOWN) & self._dark[row, at]] = NO
        return found

    def _lifted(self, expr: Expr, some: Some, at: Index, *, noting: bool) -> Truth:
        """What several conditions together say of the whole that each entity is a part of."""
        (inner,) = expr.args
        up = self.entities.up(expr.kind, inner.kind)[some.at]
        whole = self._walk(inner, self.evaluator.those(inner.kind, np.maximum(up, 0)), at, noting=noting)
        return np.where(up >= 0, whole, self.evaluator.some(expr, some)).astype(np.int8)


def _whole(expr: Expr) -> bool:
    """Whether it joins several conditions about what an entity is a part of."""
    return expr.op == "lift" and expr.args[0].op in JOINS


def _parts(expr: Expr) -> list[Expr]:
    """What an item joins by `and` and `or`, however deep."""
    if expr.op in JOINS or _whole(expr):
        return [part for arg in expr.args for part in _parts(arg)]
    return [expr]
