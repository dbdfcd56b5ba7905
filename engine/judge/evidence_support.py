"""Which evidence was unknown when a rule began to fire: what was never known does not keep it firing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.entities import EntityIndex, EntitySubset
from skewscope.engine.model.verdict import NO, UNKNOWN
from skewscope.rules.expression import Expr

Truth = NDArray[np.int8]


class ExpressionValues(Protocol):
    """The values of numbered expressions at one tick: what a rule is judged by."""

    @property
    def baselines(self) -> Mapping[int, object]:
        """The healthy pasts that expressions compare with, by the number of the expression."""

    @property
    def plan_count(self) -> int:
        """Grows when other expressions may be known than before."""

    @property
    def step_number(self) -> int:
        """Number of the current step."""

    def has_changed(self, numbers: Iterable[int], step: int) -> bool:
        """Whether the values of some expressions have changed since a step, by its number."""

    def may_hold_later(self, number: int) -> Mask:
        """Returns [entity] where a truth value is not YES, and may be as soon as a window is long enough."""

    def mask_of(self, numbers: Iterable[int]) -> int:
        """Expressions as the bits of a number."""

    def is_kept(self, number: int) -> bool:
        """Whether the values of an expression are kept as long as they do not change."""

    def number_of(self, expr: Expr) -> int:
        """The number of an expression."""

    def cost(self, number: int) -> int:
        """Estimated cost of an expression, in comparisons."""

    def is_undelivered(self, numbers: Iterable[int]) -> bool:
        """Whether all of these expressions depend on signals that were never delivered."""

    def value(self, number: int) -> Any:
        """Returns [entity] the values of an expression, read-only; a constant has no axis."""

    def subset_of(self, kind: str, indices: Index) -> EntitySubset:
        """Some entities of a kind."""

    def subset_value(self, number: int, subset: EntitySubset) -> Any:
        """Returns [subset] the values of an expression."""

    def decisive_value(self, number: int, subset: EntitySubset) -> F64:
        """Returns [subset] the number that decided a truth value; NaN for none."""


_JOIN_FUNCTIONS = {"and": np.minimum, "or": np.maximum}


@dataclass(frozen=True, slots=True)
class _SupportNode:
    """A part of the evidence: a leaf with a row of its own, truth values joined, or those of a whole."""

    number: int
    """Of the expression."""
    kind: str
    join: np.ufunc | None
    args: tuple["_SupportNode", ...] = ()
    row: int = -1


class EvidenceSupport:
    """For each entity of a rule, which parts of its evidence were unknown when it began to fire.

    A site without serving metrics fires on the signals of the wire. When those say no, what was never known does not
    keep the rule firing. What was known and is missing now may still hold, and does.
    """

    def __init__(self, items: Sequence[Expr], entities: EntityIndex, evaluator: ExpressionValues, size: int) -> None:
        self.entities, self.evaluator, self.size = entities, evaluator, size
        self._rows: dict[int, int] = {}
        self._items = tuple(self._compile(item) for item in items)
        self._initially_unknown: Mask = np.zeros((len(self._rows), 0), bool)

    def _compile(self, expr: Expr) -> _SupportNode:
        number = self.evaluator.number_of(expr)
        join = _JOIN_FUNCTIONS.get(expr.op)
        if join is None and not (expr.op == "lift" and expr.args[0].op in _JOIN_FUNCTIONS):
            return _SupportNode(number, expr.kind, None, row=self._rows.setdefault(number, len(self._rows)))
        return _SupportNode(number, expr.kind, join, tuple(self._compile(arg) for arg in expr.args))

    def record(self, at: Index, subset: EntitySubset) -> None:
        """Store what is unknown of entities that begin to fire: positions `at` among those judged."""
        if not self._initially_unknown.shape[1]:
            self._initially_unknown = np.zeros((len(self._rows), self.size), bool)
        for item in self._items:
            self._walk(item, subset, at, recording=True)

    def supported_truth(self, at: Index, subset: EntitySubset) -> Truth:
        """Returns [item, subset] truth values; what was unknown from the beginning and still is counts as NO."""
        return np.stack([self._walk(item, subset, at, recording=False) for item in self._items])

    def _walk(self, node: _SupportNode, subset: EntitySubset, at: Index, *, recording: bool) -> Truth:
        if node.join is not None:
            found: Truth = node.join.reduce([self._walk(arg, subset, at, recording=recording) for arg in node.args])
            return found
        if node.args:
            return self._walk_lift(node, subset, at, recording=recording)
        found = np.array(np.broadcast_to(self.evaluator.subset_value(node.number, subset), len(at)), np.int8)
        if recording:
            self._initially_unknown[node.row, at] = found == UNKNOWN
        else:
            found[(found == UNKNOWN) & self._initially_unknown[node.row, at]] = NO
        return found

    def _walk_lift(self, node: _SupportNode, subset: EntitySubset, at: Index, *, recording: bool) -> Truth:
        """Returns [subset] the joined truth values of the whole that each entity is a part of."""
        (inner,) = node.args
        up = self.entities.container_index(node.kind, inner.kind)[subset.indices]
        if (up < 0).all():
            return np.asarray(self.evaluator.subset_value(node.number, subset), np.int8)
        whole = self._walk(inner, self.evaluator.subset_of(inner.kind, np.maximum(up, 0)), at, recording=recording)
        return np.where(up >= 0, whole, self.evaluator.subset_value(node.number, subset)).astype(np.int8)
