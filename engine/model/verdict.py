"""The verdict of a rule on every entity of its scope at one tick: three-valued, as arrays. It is a batch of findings.

Whether each entity fires is known for all at once. Evidence is computed only for the entities it is asked for. Evidence
that was unknown when a rule began to fire, and that was never known since, does not keep it firing. What is unknown
only because a window or a past is still too short will become known, as telemetry arrives: it is ripening.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.entities import EntityIndex, EntitySubset
from skewscope.engine.model.finding import RULE, Finding, RuleSubject
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.topology import GonePlaces
from skewscope.rules.expression import Expr

NO, UNKNOWN, YES = -1, 0, 1
"""The three truth values, as int8."""


@dataclass(frozen=True, slots=True)
class EvidenceBatch:
    """The verdict of a rule on `k` entities, with its evidence."""

    applies: NDArray[np.bool_]
    score: NDArray[np.float32]
    coverage: NDArray[np.float32]
    """Share of the evidence's weight that could be judged, 0..1."""
    evidence: NDArray[np.int8]
    """[terms, k]: NO, UNKNOWN or YES of each term, in the rule's order (for and against alike)."""
    values: NDArray[np.float32]
    """[terms, k]: the number each term's decisive comparison looked at; NaN when unknown."""
    impact: NDArray[np.float32]
    """The rule's impact expression; NaN when unknown."""
    level: NDArray[np.float32]
    """What the impact is a change of, as of now; NaN where it is unknown or the impact is no such change."""
    severity: NDArray[np.int8]
    """0 info, 1 warning, 2 critical."""

    def select(self, at: Index) -> "EvidenceBatch":
        """The verdicts on some of them, by position."""
        return EvidenceBatch(
            self.applies[at],
            self.score[at],
            self.coverage[at],
            self.evidence[:, at],
            self.values[:, at],
            self.impact[at],
            self.level[at],
            self.severity[at],
        )


@dataclass(slots=True)
class RuleVerdict:
    """One rule's verdict on the `n` entities of its scope at one tick.

    Arrays but `state` are shared with the engine: copy what you keep. Evidence must be asked for before the next tick.
    """

    rule: str
    kind: str
    names: tuple[str, ...]
    """Names of the n entities, as in `SeriesKey.entity`."""
    firing: NDArray[np.bool_]
    """After hold and clear times: the verdict that counts."""
    state: NDArray[np.int8]
    """NO, UNKNOWN or YES of this tick alone, before hold."""
    since: NDArray[np.float64]
    """When the run of YES that led to `firing` began; NaN where not firing."""
    get_evidence: Callable[[Index, bool], EvidenceBatch]
    """What `of` gives."""
    _all_evidence: EvidenceBatch | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[Finding]:
        """Yields the findings of what fires: made here, from the columns, only where somebody asks for them.

        Their evidence is weighed where it is calibrated, so that it is no number here.
        """
        at = np.flatnonzero(self.firing)
        subject = RuleSubject(self.rule, self.rule)
        for n, score in zip(at.tolist(), self.evidence_of(at, numbers=False).score.tolist(), strict=True):
            place, since = Entity(self.kind, self.names[n]), float(self.since[n])
            yield Finding(subject, place, RULE, "begins", since, score, 0.0, nats=math.nan)

    def evidence_of(self, at: Index | Sequence[int], *, numbers: bool = True) -> EvidenceBatch:
        """The evidence of the entities at these positions; without `numbers`, impact and values are unknown."""
        at = np.asarray(at, np.intp)
        return self.get_evidence(at, numbers) if self._all_evidence is None else self._all_evidence.select(at)

    def all_evidence(self) -> EvidenceBatch:
        """The evidence of all entities of the rule: expensive for a large scope."""
        if self._all_evidence is None:
            self._all_evidence = self.get_evidence(np.arange(len(self.names)), True)
        return self._all_evidence

    def without(self, places: GonePlaces) -> "RuleVerdict":
        """Returns the verdict in which nothing fires, and nothing is known, at places that have ended."""
        is_gone = np.fromiter((places.has(Entity(self.kind, name)) for name in self.names), bool, len(self.names))
        if not is_gone.any():
            return self
        state = np.where(is_gone, np.int8(UNKNOWN), self.state)
        return replace(self, firing=self.firing & ~is_gone, state=state)

    def forget_evidence(self) -> None:
        """Drop the evidence that was asked for: the verdict counts for another tick, whose numbers may differ."""
        self._all_evidence = None

    @property
    def applies(self) -> NDArray[np.bool_]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().applies

    @property
    def score(self) -> NDArray[np.float32]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().score

    @property
    def coverage(self) -> NDArray[np.float32]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().coverage

    @property
    def evidence(self) -> NDArray[np.int8]:
        """[term, entity] as in `EvidenceBatch`."""
        return self.all_evidence().evidence

    @property
    def values(self) -> NDArray[np.float32]:
        """[term, entity] as in `EvidenceBatch`."""
        return self.all_evidence().values

    @property
    def impact(self) -> NDArray[np.float32]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().impact

    @property
    def severity(self) -> NDArray[np.int8]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().severity


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

    def is_steady(self, numbers: Iterable[int]) -> bool:
        """Whether the values of some expressions are kept, and none that may be known grows with the clock."""

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


class HoldTimer:
    """How long something has held on each entity: grows while it holds, stays while it is unknown, else zero."""

    def __init__(self, size: int) -> None:
        self.duration, self.started = np.zeros(size), np.full(size, np.nan)
        self._marked = np.zeros(size, bool)
        """[entity] whether it held at the last step."""
        self._indices, self._before = np.empty(0, np.intp), np.empty(0, bool)
        """Entities of the last step, and whether it held on each; nothing holds on any other entity."""

    @property
    def is_idle(self) -> bool:
        """Nothing has held since it was last reset."""
        return not len(self._indices)

    def pass_time(self, seconds: float) -> None:
        """Take in ticks that are like the last one and took so many seconds together."""
        self.duration[self._indices[self._before]] += seconds

    def seconds_until(self, hold: float, mask: Mask) -> float:
        """Returns the seconds until it has held for `hold` seconds on one of some entities where it holds now."""
        at = self._indices[self._before]
        return float(np.min(hold - self.duration[at[mask[at]]], initial=np.inf))

    def reset(self) -> None:
        """Nothing holds on any entity."""
        self.duration[self._indices], self.started[self._indices], self._marked[self._indices] = 0.0, np.nan, False
        self._indices, self._before = np.empty(0, np.intp), np.empty(0, bool)

    def forget(self, gone: Mask) -> None:
        """Nothing holds on [entity] some entities, nor did."""
        self.duration[gone], self.started[gone], self._marked[gone] = 0.0, np.nan, False
        kept = ~gone[self._indices]
        self._indices, self._before = self._indices[kept], self._before[kept]

    def step(self, t: float, passed: float, at: Index, masks: tuple[Mask, Mask]) -> None:
        """Take in one tick: masks of the entities `at` where it (holds, does not hold); it holds on no other entity.

        `passed` is the time in seconds since the tick before.
        """
        yes, no = masks
        held, begun, before = self.duration[at], self.started[at], self._marked[at]
        self.reset()
        held[yes & before] += passed
        held[no], begun[no] = 0.0, np.nan
        begun[yes & np.isnan(begun)] = t
        self.duration[at], self.started[at], self._marked[at] = held, begun, yes
        self._indices, self._before = at, yes


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


class RipeningValue(Protocol):
    """What an operator tells about its unknown values."""

    @property
    def overrides(self) -> frozenset[str]:
        """Has `ripening` where it tells that itself; else all unknown arguments must be ripening."""

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
            unknown = np.broadcast_to(unknown, self._size(n))
            operator = self._operators[n]
            found = (
                operator.ripening(self._t, unknown, args) if "ripening" in operator.overrides else _join_ripening(args)
            )
            self._unripe[n] = np.broadcast_to(found, unknown.shape) & unknown
        return self._unripe[n]


def _join_ripening(args: Sequence[tuple[Any, Mask]]) -> Mask:
    """Returns where some argument is ripening, and all unknown ones are."""
    some: Mask | bool = False
    unripe: Mask | bool = True
    for value, ripens in args:
        some = some | ripens
        unripe = unripe & (ripens | ~np.isnan(value))
    return np.asarray(some & unripe)


def find_decisive_unknowns(
    names: Sequence[str], weights: Sequence[float], against: Sequence[bool], truth: Sequence[int], fire: float
) -> tuple[str, ...]:
    """Returns the counter-evidence that is unknown and with which a rule would not fire.

    Args:
        names: of the items of the rule.
        weights: their weights.
        against: whether each is counter-evidence.
        truth: the verdict of each, 1 for yes, 0 for unknown, -1 for no.
        fire: the score from which the rule fires.
    """
    items = list(zip(names, weights, against, truth, strict=True))
    score = sum(-weight if other else weight for _name, weight, other, holds in items if holds > 0)
    return tuple(name for name, weight, other, holds in items if other and not holds and score - weight < fire)
