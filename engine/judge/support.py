"""What holds up a rule that fires: of its evidence only that which could be judged when it began to fire.

A site without an engine's metrics fires on what the wire tells. When that says no, all that is left is what nobody
there ever knew, and the fault is over. What was known and fell silent meanwhile may still be so, and goes on.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features.evaluator import Evaluator
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.entity_subset import EntitySubset
from skewscope.engine.model.sets import Index, Mask
from skewscope.engine.model.verdict import NO, UNKNOWN
from skewscope.rules.expression import Expr

Truth = NDArray[np.int8]
JOIN_FUNCTIONS = {"and": np.minimum, "or": np.maximum}


class EvidenceSupport:
    """For each entity of a rule, which parts of its evidence were unknown as it began to fire."""

    def __init__(self, items: Sequence[Expr], entities: EntityIndex, evaluator: Evaluator, size: int) -> None:
        self.items, self.entities, self.evaluator = tuple(items), entities, evaluator
        self.parts = {part: n for n, part in enumerate(dict.fromkeys(p for item in items for p in _leaves(item)))}
        self.size = size
        self._initially_unknown: Mask = np.zeros((len(self.parts), 0), bool)

    def record(self, at: Index, some: EntitySubset) -> None:
        """Notes what is unknown of some entities that begin to fire."""
        if not self._initially_unknown.shape[1]:
            self._initially_unknown = np.zeros((len(self.parts), self.size), bool)
        for item in self.items:
            self._walk(item, some, at, noting=True)

    def supported_truth(self, at: Index, some: EntitySubset) -> Truth:
        """[items, k] the truth of the items for entities that fire; what was unknown and still is counts as no."""
        return np.stack([self._walk(item, some, at, noting=False) for item in self.items])

    def _walk(self, expr: Expr, some: EntitySubset, at: Index, *, noting: bool) -> Truth:
        if expr.op in JOIN_FUNCTIONS:
            truths = [self._walk(arg, some, at, noting=noting) for arg in expr.args]
            found: Truth = JOIN_FUNCTIONS[expr.op].reduce(truths)
            return found
        if _is_joined_lift(expr):
            return self._walk_lift(expr, some, at, noting=noting)
        found = np.array(np.broadcast_to(self.evaluator.subset_value(expr, some), len(at)), np.int8)
        row = self.parts[expr]
        if noting:
            self._initially_unknown[row, at] = found == UNKNOWN
        else:
            found[(found == UNKNOWN) & self._initially_unknown[row, at]] = NO
        return found

    def _walk_lift(self, expr: Expr, some: EntitySubset, at: Index, *, noting: bool) -> Truth:
        """What several conditions together say of the whole that each entity is a part of."""
        (inner,) = expr.args
        up = self.entities.container_index(expr.kind, inner.kind)[some.indices]
        whole = self._walk(inner, self.evaluator.subset_of(inner.kind, np.maximum(up, 0)), at, noting=noting)
        return np.where(up >= 0, whole, self.evaluator.subset_value(expr, some)).astype(np.int8)


def _is_joined_lift(expr: Expr) -> bool:
    """Whether it joins several conditions about what an entity is a part of."""
    return expr.op == "lift" and expr.args[0].op in JOIN_FUNCTIONS


def _leaves(expr: Expr) -> list[Expr]:
    """What an item joins by `and` and `or`, however deep."""
    if expr.op in JOIN_FUNCTIONS or _is_joined_lift(expr):
        return [part for arg in expr.args for part in _leaves(arg)]
    return [expr]
