"""Operators that compare or reduce within sets of entities: peers, parts of a whole, and the whole of a part."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from skewscope.engine.features import peer_statistics
from skewscope.engine.features.operators.protocol import (
    OPERATORS,
    Operator,
    OperatorContext,
    Truth,
    Values,
    bind_constants,
    check_arity,
    operator_class,
    register,
    register_functions,
)
from skewscope.engine.ingest.samples import CommonTimestamp, merge_timestamps
from skewscope.engine.model.arrays import F64, Index, Mask, append_value, has_all
from skewscope.engine.model.entities import ArgumentFunction, EntityIndex, EntitySets, EntitySubset, SetSelection
from skewscope.rules.expression import Expr
from skewscope.rules.signatures import RuleFunction

RowFunction = Callable[..., F64]
"""From [set, member] values, NaN where unknown or absent, and constants, to [set, member] or [set] values."""


class SetFunction(Operator):
    """A function of the values of the members of each set."""

    function: ClassVar[RowFunction]
    memory = ("_ever_known",)
    needs_all_members: ClassVar[bool] = False
    """Whether it is unknown while a member that once reported does not."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        self.entities = context.entities
        self.is_stateful = self.needs_all_members
        self._function = bind_constants(type(self).function, expr.params)
        self._ever_known: Mask = np.empty(0, bool)

    @classmethod
    def check_declaration(cls, function: RuleFunction) -> str:
        return super().check_declaration(function) or check_arity(cls.function, function)

    def update(self, value: Values, times: Callable[[], F64]) -> None:  # noqa: ARG002 - the same for all operators
        if len(self._ever_known) == len(value) and has_all(self._ever_known):
            return
        known = ~np.isnan(value)
        known[: len(self._ever_known)] |= self._ever_known
        self._ever_known = known

    @staticmethod
    @abstractmethod
    def apply(sets: EntitySets | SetSelection, value: F64, function: RowFunction) -> F64:
        """Returns what a function makes of [entity] values of the members of sets."""

    def compute(self, sets: EntitySets | SetSelection, value: F64, ever_known: Mask) -> F64:
        """Returns its values, from [entity] values and whether each has ever had one."""
        found = self.apply(sets, value, self._function)
        if not self.needs_all_members or not (silent := ever_known & np.isnan(value)).any():
            return found
        return np.where(self.apply(sets, silent.astype(np.float64), type(self).most) > 0, np.nan, found)

    most: ClassVar[RowFunction]
    """The largest value of each set, in the form that `apply` takes."""

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:
        return merge_timestamps(parts)


# --- peers


def _maximum_for_members(x: F64) -> F64:
    return np.repeat(np.fmax.reduce(x, axis=1)[:, None], x.shape[1], axis=1)


class PeerComparison(SetFunction):
    """A value compared with those of the entity's peers."""

    forms = frozenset({"peers"})
    cost = 12
    most = staticmethod(_maximum_for_members)

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        super().__init__(expr, context)
        assert expr.peers is not None
        self.peers = expr.peers

    @staticmethod
    def apply(sets: EntitySets | SetSelection, value: F64, function: RowFunction) -> F64:
        return sets.map_members(value, function)

    def prepare(self) -> None:
        self.entities.peer_sets(self.peers).prepare(self.entities.count(self.peers.kind))

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        value = args[0]
        return _mask_unknown(value, self.compute(self.entities.peer_sets(self.peers), value, self._ever_known))

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> F64:
        count = self.entities.count(self.peers.kind)
        sets = subset.select_sets(
            self.peers, lambda: self.entities.peer_sets(self.peers).select_containing(subset.indices, count)
        )
        value = argument(0, subset.related_subset(self.peers, lambda: sets.members))
        ever_known = self._ever_known[sets.members] if self.needs_all_members else self._ever_known
        return _mask_unknown(argument(0, subset), self.compute(sets, value, ever_known))

    def ripening(self, t: float, unknown: Mask, args: Sequence[tuple[Values, Mask]]) -> Mask:  # noqa: ARG002
        value, ripens = args[0]
        beside = self.entities.peer_sets(self.peers).map_members(ripens.astype(np.float64), _maximum_for_members)
        return unknown & (ripens | (~np.isnan(value) & (beside > 0)))


def _mask_unknown(value: F64, found: F64) -> F64:
    """Returns [entity] `found`, changed in place: NaN where the value is."""
    found[np.isnan(value)] = np.nan
    return found


class WholePeerComparison(PeerComparison):
    """A value compared with those of all peers: unknown while a peer that once reported does not."""

    needs_all_members = True


register_functions(
    PeerComparison,
    (
        ("peer_z", peer_statistics.peer_z, "The distance from the median of the others, in their robust deviations."),
        ("peer_ratio", peer_statistics.peer_ratio, "The value over the median of the others."),
        ("peer_excess", peer_statistics.peer_excess, "The value minus the median of the others."),
        ("peer_median", peer_statistics.peer_median, "The median of the others."),
        ("peer_highest", peer_statistics.peer_highest, "The largest value of the others."),
        ("peer_lowest", peer_statistics.peer_lowest, "The smallest value of the others."),
        (
            *("peer_spread", peer_statistics.peer_spread),
            "The largest minus the smallest value of all peers, over their median.",
        ),
    ),
)
register_functions(
    WholePeerComparison,
    (
        ("share", peer_statistics.share, "The value over the sum of all peers."),
        ("gini", peer_statistics.gini, "The Gini coefficient of all peers."),
    ),
)


@register("heard")
class KnownPeers(PeerComparison):
    """The number of peers with a value now."""

    cost = 1
    function = peer_statistics.count_known


# --- the number of peers


class PeerCountComparison(Operator):
    """A number of peers compared with something: unknown where peers that never reported would decide.

    Two of four that reported do not prove that there are fewer than three.
    """

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        self.name, self.entities = expr.name, context.entities
        self.side = next(n for n, arg in enumerate(expr.args) if operator_class(arg).comparison is type(self))
        peers = expr.args[self.side].peers
        assert peers is not None
        self.peers = peers
        names = (">=", "<=") if self.name in {"==", "!="} else (self.name,)
        self._compare_values: Mapping[str, Callable[..., Any]] = {
            name: OPERATORS[name](expr, context).evaluate for name in names
        }
        self._class_sizes: tuple[int, F64] = (-1, np.empty(0))
        self._cached: tuple[tuple[Any, ...], Truth] = ((), np.empty(0, np.int8))

    def evaluate(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        """The truth where it is the same for every number from the peers that reported to all peers."""
        before, found = self._cached
        # Both sides are the same arrays until another peer reports.
        if len(before) != len(args) or any(old is not new for old, new in zip(before, args, strict=True)):
            found = self._compare(args)
            self._cached = tuple(args), found
        return found

    def _compare(self, args: Sequence[Any]) -> Truth:
        """Returns [entity] the comparison on the interval of possible numbers of peers."""
        most = [
            np.where(np.isnan(arg), arg, self._count_all()) if n == self.side else arg for n, arg in enumerate(args)
        ]
        if self.name not in {"==", "!="}:
            return self._compare_bounds(self.name, args, most)
        same = np.minimum(self._compare_bounds(">=", args, most), self._compare_bounds("<=", args, most))
        return same if self.name == "==" else -same

    def _compare_bounds(self, name: str, fewest: Sequence[Any], most: Sequence[Any]) -> Truth:
        """Returns [entity] what both ends of the interval agree on: an order that holds at both holds between them."""
        found = self._compare_values[name](0.0, fewest)
        return np.where(found == self._compare_values[name](0.0, most), found, np.int8(0))

    def _count_all(self) -> F64:
        """Returns [entity] the number of its peers, whether they report or not."""
        kind, entities = self.peers.kind, self.entities
        if self._class_sizes[0] != entities.known_count(kind) or len(self._class_sizes[1]) != entities.count(kind):
            everything = np.where(np.arange(entities.count(kind)) < entities.known_count(kind), 0.0, np.nan)
            sizes = entities.peer_sets(self.peers).map_members(everything, peer_statistics.count_known)
            self._class_sizes = entities.known_count(kind), sizes
        return self._class_sizes[1]


@register("peers")
class PeerCount(Operator):
    """The number of peers that ever reported; unknown while none did."""

    comparison = PeerCountComparison

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        assert expr.peers is not None
        self.peers, self.entities = expr.peers, context.entities
        self._input_key: tuple[int, tuple[int, ...]] = (-1, ())
        self._args: tuple[Any, ...] = ()
        self._count: F64 = np.empty(0)

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        # The arguments are the same arrays until another peer reports.
        key = self.entities.version, tuple(map(id, args))
        if key != self._input_key:
            self._input_key, self._args, self._count = key, tuple(args), self._count_members(args)
        return self._count

    def _count_members(self, args: Sequence[Any]) -> F64:
        seen = np.full(self.entities.count(self.peers.kind), np.nan)
        for arg in args:
            seen = np.fmax(seen, arg)
        count = self.entities.peer_sets(self.peers).map_members(seen, peer_statistics.count_known)
        return np.where(count > 0, count, np.nan)

    def is_available(self, args: Sequence[bool]) -> bool:  # noqa: ARG002
        return True


# --- parts of a whole


class Reduction(SetFunction):
    """One value from those of an entity's parts."""

    forms = frozenset({"reduce"})
    cost = 3
    most = staticmethod(peer_statistics.highest)

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        super().__init__(expr, context)
        self.lower, self.kind = expr.args[0].kind, expr.kind

    @classmethod
    def check_declaration(cls, function: RuleFunction) -> str:
        is_truth = "found the result 'truth', expected a number" if function.result == "truth" else ""
        return is_truth or super().check_declaration(function)

    @staticmethod
    def apply(sets: EntitySets | SetSelection, value: F64, function: RowFunction) -> F64:
        return sets.reduce(value, function)

    def prepare(self) -> None:
        self.entities.part_sets(self.lower, self.kind).prepare()

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self.compute(self.entities.part_sets(self.lower, self.kind), args[0], self._ever_known)

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> F64:
        sets, parts = _select_parts(self.lower, self.kind, self.entities, subset)
        ever_known = self._ever_known[sets.members] if self.needs_all_members else self._ever_known
        return self.compute(sets, argument(0, parts), ever_known)

    def ripening(self, t: float, unknown: Mask, args: Sequence[tuple[Values, Mask]]) -> Mask:  # noqa: ARG002
        sets = self.entities.part_sets(self.lower, self.kind)
        return unknown & (sets.reduce(args[0][1].astype(np.float64), peer_statistics.highest) > 0)

    def sample_times(self, times: Sequence[Any], argument: Callable[[int], Values]) -> F64:  # noqa: ARG002
        return self.entities.part_sets(self.lower, self.kind).reduce(times[0], peer_statistics.highest)


def _select_parts(
    lower: str, kind: str, entities: EntityIndex, subset: EntitySubset
) -> tuple[SetSelection, EntitySubset]:
    """The sets of parts of some entities, and the parts."""
    key = lower, kind
    sets = subset.select_sets(key, lambda: entities.part_sets(lower, kind).select_owners(subset.indices))
    return sets, subset.related_subset(key, lambda: sets.members)


register_functions(
    Reduction,
    (
        ("highest", peer_statistics.highest, "The largest value of the parts."),
        ("lowest", peer_statistics.lowest, "The smallest value of the parts."),
        ("average", peer_statistics.average, "The mean value of the parts."),
        ("middle", peer_statistics.lower_median, "The lower median of the values of the parts."),
    ),
)


@register("total")
class Total(Reduction):
    """The sum of the values of the parts."""

    function = peer_statistics.total
    needs_all_members = True


@register("complete")
class Completeness(Operator):
    """YES where all parts of an entity have a value, else UNKNOWN."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        self.lower, self.kind, self.entities = expr.args[0].kind, expr.kind, context.entities

    def prepare(self) -> None:
        self.entities.part_sets(self.lower, self.kind).prepare()

    def evaluate(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        return self._evaluate_sets(self.entities.part_sets(self.lower, self.kind), args[0])

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> Truth:
        sets, parts = _select_parts(self.lower, self.kind, self.entities, subset)
        return self._evaluate_sets(sets, argument(0, parts))

    def _evaluate_sets(self, sets: EntitySets | SetSelection, value: F64) -> Truth:
        missing = sets.reduce(np.isnan(value).astype(np.float64), peer_statistics.highest)
        found: Truth = (missing == 0).astype(np.int8)
        return found


# --- the whole of a part


class Propagation(Operator):
    """The value of another entity, for each that belongs to it."""

    default: float | int = np.nan
    """The value of what belongs to none."""

    @abstractmethod
    def index(self) -> Index:
        """Returns [entity] the place of the other one; that of the default, behind all, for none."""

    def propagate(self, value: Any) -> Values:
        """Returns [entity] the [other entity] values."""
        padded: Values = append_value(value, self.default)
        return padded[self.index()]

    def evaluate(self, t: float, args: Sequence[Any]) -> Values:  # noqa: ARG002
        return self.propagate(args[0])

    def ripening(self, t: float, unknown: Mask, args: Sequence[tuple[Values, Mask]]) -> Mask:  # noqa: ARG002
        # Asked too where a known truth value may turn, so not of the unknown ones alone.
        padded: Mask = append_value(args[0][1], False)
        return padded[self.index()]

    def sample_times(self, times: Sequence[Any], argument: Callable[[int], Values]) -> Values:  # noqa: ARG002
        return self.propagate(times[0])

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:
        return merge_timestamps(parts)


@register("lift")
class Lift(Propagation):
    """The value of the whole, for each of its parts."""

    cost = 3

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        self.lower, self.upper, self.entities = expr.kind, expr.args[0].kind, context.entities
        self.default = _truth_of_absent(expr.args[0]) if expr.is_boolean else np.nan

    def prepare(self) -> None:
        self.index()

    def index(self) -> Index:
        return self.entities.container_index(self.lower, self.upper)

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> Values:
        if not self.entities.count(self.upper):
            return self.propagate(np.empty(0, type(self.default)))[subset.indices]
        up = self.index()[subset.indices]
        value = argument(0, subset.related_subset((self.lower, self.upper), lambda: np.maximum(up, 0)))
        found: Values = np.where(up >= 0, value, value.dtype.type(self.default))
        return found


def _truth_of_absent(expr: Expr) -> int:
    """The truth of an expression about an entity that does not exist: no value of it is known."""
    parts = [_truth_of_absent(arg) for arg in expr.args if arg.is_boolean]
    if expr.op == "call" and expr.name == "known":
        return -1
    if expr.op == "not":
        return -parts[0]
    joined = {"and": min, "or": max, "lift": max}.get(expr.op)
    return joined(parts) if joined and len(parts) == len(expr.args) else 0


@register("front")
class FrontEnd(Propagation):
    """The value at the front-end node of a group or replica."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        self.kind = expr.kind
        self.node_index = context.entities.front_end_index(expr.kind)

    def index(self) -> Index:
        return self.node_index

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> F64:
        nodes = self.node_index[subset.indices]
        value = argument(0, subset.related_subset(("front", self.kind), lambda: np.maximum(nodes, 0)))
        return np.where(nodes >= 0, value, np.nan)
