"""What each kind of sub-expression does with the values of its arguments. Built once, run when somebody asks.

`run` gives the value of every entity, `part` the same of some of them; `part` asks for what it needs of its arguments.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features.operators.peer_count import PeerCount, PeerCountComparison, is_peer_count
from skewscope.engine.features.operators.series import (
    HistogramStatistic,
    OperatorContext,
    Rate,
    SignalPresence,
    SignalReader,
)
from skewscope.engine.features.operators.windowed import (
    WINDOW_FUNCTIONS,
    BaselineComparison,
    ExponentialMean,
    WindowStatistic,
)
from skewscope.engine.features.peer_statistics import COMPLETE_ONLY, PEER_FUNCTIONS, REDUCTIONS, inf_to_nan
from skewscope.engine.features.window_store import BaselineStore, WindowStore
from skewscope.engine.ingest.timestamps import CONSTANT_TIMESTAMP, CommonTimestamp, merge_timestamps
from skewscope.engine.model.entity_subset import ArgumentFunction, EntitySubset
from skewscope.engine.model.sets import F64, EntitySets, Mask, SetSelection
from skewscope.rules.expression import Expr
from skewscope.rules.functions import FUNCTIONS

Truth = NDArray[np.int8]


class Elementwise:
    """A function of the arguments' values alone, entity by entity."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002 - the same for all steps
        return self.function(*args)


class Constant:
    """What is always the same."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002
        return self.value


# --- sets


class PeerComparison:
    """A value compared with those of the peers."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        assert expr.peers is not None
        self.peers, self.entities = expr.peers, shared.entities
        self.function = PEER_FUNCTIONS[expr.name]
        self.needs_all_members = expr.name in COMPLETE_ONLY
        self.ever_known = np.empty(0, bool)

    def prepare(self) -> None:
        """Makes the sets, and who is in which."""
        self.entities.peer_sets(self.peers).prepare(self.entities.count(self.peers.kind))

    def update(self, value: F64) -> None:
        """Notes who has ever had a value."""
        self.ever_known = _update_ever_known(self.ever_known, value)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        value = args[0]
        found = self.entities.peer_sets(self.peers)
        told = _mask_unknown(value, found.map_members(value, self.function))
        if not self.needs_all_members or not (silent := self.ever_known & np.isnan(value)).any():
            return told
        return np.where(found.map_members(silent.astype(np.float64), _maximum_for_members) > 0, np.nan, told)

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> F64:
        count = self.entities.count(self.peers.kind)
        found = some.select_sets(
            self.peers, lambda: self.entities.peer_sets(self.peers).select_containing(some.indices, count)
        )
        value = ask(0, some.related_subset(self.peers, lambda: found.members))
        told = _mask_unknown(ask(0, some), found.map_members(value, self.function))
        if not self.needs_all_members or not (silent := self.ever_known[found.members] & np.isnan(value)).any():
            return told
        return np.where(found.map_members(silent.astype(np.float64), _maximum_for_members) > 0, np.nan, told)


def _mask_unknown(value: F64, told: F64) -> F64:
    """What was told of whose value is known; changes `told`."""
    told[np.isnan(value)] = np.nan
    return told


def _maximum_for_members(x: F64) -> F64:
    return np.repeat(np.fmax.reduce(x, axis=1)[:, None], x.shape[1], axis=1)


def _update_ever_known(ever: Mask, value: F64) -> Mask:
    """Who ever had a value."""
    if len(ever) == len(value) and ever.all():
        return ever
    known = ~np.isnan(value)
    known[: len(ever)] |= ever
    return known


class Reduction:
    """One value from those of an entity's parts."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        self.lower, self.kind, self.entities = expr.args[0].kind, expr.kind, shared.entities
        self.function = REDUCTIONS[expr.name]
        self.needs_all_members = expr.name in COMPLETE_ONLY
        self.ever_known = np.empty(0, bool)

    def prepare(self) -> None:
        """Makes the sets, and who is in which."""
        self.entities.part_sets(self.lower, self.kind).prepare()

    def update(self, value: F64) -> None:
        """Notes who has ever had a value."""
        self.ever_known = _update_ever_known(self.ever_known, value)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        value, found = args[0], self.entities.part_sets(self.lower, self.kind)
        reduced = found.reduce(value, self.function)
        if not self.needs_all_members or not (silent := self.ever_known & np.isnan(value)).any():
            return reduced
        return np.where(found.reduce(silent.astype(np.float64), REDUCTIONS["highest"]) > 0, np.nan, reduced)

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> F64:
        key = self.lower, self.kind
        found = some.select_sets(
            key, lambda: self.entities.part_sets(self.lower, self.kind).select_owners(some.indices)
        )
        value = ask(0, some.related_subset(key, lambda: found.members))
        reduced = found.reduce(value, self.function)
        if not self.needs_all_members or not (silent := self.ever_known[found.members] & np.isnan(value)).any():
            return reduced
        return np.where(found.reduce(silent.astype(np.float64), REDUCTIONS["highest"]) > 0, np.nan, reduced)


class Completeness:
    """Whether all of an entity's parts have a value: yes or unknown."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        self.lower, self.kind, self.entities = expr.args[0].kind, expr.kind, shared.entities

    def prepare(self) -> None:
        """Makes the sets, and who is in which."""
        self.entities.part_sets(self.lower, self.kind).prepare()

    def run(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        return self._evaluate_sets(self.entities.part_sets(self.lower, self.kind), args[0])

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> Truth:
        key = self.lower, self.kind
        found = some.select_sets(
            key, lambda: self.entities.part_sets(self.lower, self.kind).select_owners(some.indices)
        )
        return self._evaluate_sets(found, ask(0, some.related_subset(key, lambda: found.members)))

    def _evaluate_sets(self, sets: EntitySets | SetSelection, value: F64) -> Truth:
        lacking = sets.reduce(np.isnan(value).astype(np.float64), REDUCTIONS["highest"])
        found: Truth = (lacking == 0).astype(np.int8)
        return found


class Lift:
    """What is true of the whole, told of each of its parts."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        self.lower, self.upper, self.entities = expr.kind, expr.args[0].kind, shared.entities
        self.default = _truth_of_absent(expr.args[0]) if expr.is_boolean else np.nan

    def prepare(self) -> None:
        """Makes out in whom everybody lies."""
        self.entities.container_index(self.lower, self.upper)

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002
        return self.propagate(args[0])

    def propagate(self, value: Any) -> Any:
        """A value of the upper kind on the lower one."""
        padded = np.append(value, value.dtype.type(self.default))
        return padded[self.entities.container_index(self.lower, self.upper)]

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> Any:
        if not self.entities.count(self.upper):
            return self.run(0.0, [np.empty(0, type(self.default))])[some.indices]
        up = self.entities.container_index(self.lower, self.upper)[some.indices]
        key = self.lower, self.upper
        value = ask(0, some.related_subset(key, lambda: np.maximum(up, 0)))
        return np.where(up >= 0, value, value.dtype.type(self.default))


def _truth_of_absent(expr: Expr) -> int:
    """The truth of an expression about an entity that there is not: nothing is known of it, and that much is known."""
    parts = [_truth_of_absent(arg) for arg in expr.args if arg.is_boolean]
    if expr.op == "call" and expr.name == "known":
        return -1
    if expr.op == "not":
        return -parts[0]
    joined = {"and": min, "or": max, "lift": max}.get(expr.op)
    return joined(parts) if joined and len(parts) == len(expr.args) else 0


class FrontEnd:
    """The value at the front-end node of a group or replica."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        self.kind = expr.kind
        self.node_index = shared.entities.front_end_index(expr.kind)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self.propagate(args[0])

    def propagate(self, value: F64) -> F64:
        """A node's value on the group it is the front end of."""
        return np.append(value, np.nan)[self.node_index]

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> F64:
        at = self.node_index[some.indices]
        return np.where(at >= 0, ask(0, some.related_subset(("front", self.kind), lambda: np.maximum(at, 0))), np.nan)


# --- the rest


class SampleAge:
    """Seconds since the last sample, from the time of that; unknown where none came."""

    def run(self, t: float, args: Sequence[Any]) -> F64:
        age: F64 = np.maximum(t - args[0], 0.0)
        return age


def _above(a: Any, b: Any) -> Truth:
    return _to_truth(a > b, a <= b)


def _to_truth(yes: Any, no: Any) -> Truth:
    """YES, NO, and where neither holds UNKNOWN: a NaN is neither above nor below."""
    found: Truth = np.asarray(yes).view(np.int8) - np.asarray(no).view(np.int8)
    return found


COMPARE: Mapping[str, Callable[[Any, Any], Truth]] = {
    ">": _above,
    ">=": lambda a, b: _to_truth(a >= b, a < b),
    "<": lambda a, b: _to_truth(a < b, a >= b),
    "<=": lambda a, b: _to_truth(a <= b, a > b),
    "==": lambda a, b: _to_truth(a == b, (a < b) | (a > b)),
    "!=": lambda a, b: _to_truth((a < b) | (a > b), a == b),
}

ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: inf_to_nan(a * b),
    "/": lambda a, b: inf_to_nan(a / b),
}


def _is_known(x: F64) -> Truth:
    return _to_truth(~np.isnan(x), np.isnan(x))


PLAIN_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "known": _is_known,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "coalesce": lambda a, b: np.where(np.isnan(a), b, a),
    "ratio": lambda a, b: inf_to_nan(a / b),
    "number_of": lambda x: x,
    "log10": lambda x: inf_to_nan(np.log10(x)),
}


def _truth_and(*parts: Truth) -> Truth:
    found: Truth = np.minimum.reduce(parts)
    return found


def _truth_or(*parts: Truth) -> Truth:
    found: Truth = np.maximum.reduce(parts)
    return found


@dataclass
class OperatorFactory:
    """What steps are made with: what they share, and where they remember."""

    context: OperatorContext
    window_store: WindowStore
    baseline_store: BaselineStore

    def build(self, expr: Expr) -> Any:
        """The step that computes one sub-expression."""
        if expr.op == "call":
            return self._build_call(expr)
        if expr.op in {"signal", "seen", "lift"}:
            return {"signal": SignalReader, "seen": SignalPresence, "lift": Lift}[expr.op](expr, self.context)
        if expr.op == "compare" and any(map(is_peer_count, expr.args)):
            return PeerCountComparison(expr, self.context, COMPARE)
        return Constant(np.float64(expr.value)) if expr.op == "number" else Elementwise(_plain_function(expr))

    def _build_call(self, expr: Expr) -> Any:
        form, shared = FUNCTIONS[expr.name].form, self.context
        if expr.name in {"age", "ewma"}:
            return SampleAge() if expr.name == "age" else ExponentialMean(expr)
        if form == "window" and expr.name in WINDOW_FUNCTIONS:
            return WindowStatistic(expr, shared, self.window_store)
        if form == "baseline":
            return BaselineComparison(expr, self.baseline_store)
        builder = _BUILDERS_BY_NAME.get(expr.name) or _BUILDERS_BY_FORM.get(form)
        if builder:
            return builder(expr, shared)
        if expr.name == "known" and expr.args[0].op == "signal":
            return Elementwise(_is_known) if _is_gauge(expr.args[0], shared) else CounterFreshness(expr.args[0], shared)
        return Elementwise(PLAIN_FUNCTIONS[expr.name])


_BUILDERS_BY_NAME: Mapping[str, Callable[[Expr, OperatorContext], Any]] = {
    "rate": Rate,
    "bucket_quantile": HistogramStatistic,
    "bucket_mean": HistogramStatistic,
    "peers": PeerCount,
    "complete": Completeness,
}
_BUILDERS_BY_FORM: Mapping[str, Callable[[Expr, OperatorContext], Any]] = {
    "peers": PeerComparison,
    "reduce": Reduction,
    "front": FrontEnd,
    "topology": lambda e, s: Constant(s.entities.speed if e.name == "speed" else s.entities.size(e.kind)),
}


def _plain_function(expr: Expr) -> Callable[..., Any]:
    if expr.op == "arith":
        return ARITHMETIC[expr.name]
    if expr.op == "compare":
        return COMPARE[expr.name]
    return {"and": _truth_and, "or": _truth_or}.get(expr.op, np.negative)


def _is_gauge(expr: Expr, shared: OperatorContext) -> bool:
    return shared.series_state.signals[expr.name].type not in {"counter", "histogram"}


class CounterFreshness:
    """Whether a counter has been read lately."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        self.reader = SignalReader(expr, shared)

    def run(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        return _is_known(self.reader.run(t, ()))

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> Truth:
        return _is_known(self.reader.run_subset(some, ask))


def newest_times(step: Any, args: Sequence[Any]) -> Any:
    """When what an expression is made of was last sampled: the latest of its arguments."""
    if isinstance(step, SignalReader):
        return step.time()
    if isinstance(step, Lift | FrontEnd):
        return step.propagate(args[0])
    if isinstance(step, Reduction):
        return step.entities.part_sets(step.lower, step.kind).reduce(args[0], REDUCTIONS["highest"])
    newest: Any = np.float64(-np.inf)
    for arg in args:
        if arg is not None and arg is not newest:
            newest = arg if newest.ndim == 0 else np.fmax(newest, arg)
    return newest


def newest_timestamp(step: Any, args: Iterable[CommonTimestamp | None]) -> CommonTimestamp | None:
    """When what an expression is made of was last sampled, if that is the same for all who have a value now."""
    if isinstance(step, SignalReader):
        return step.timestamp()
    if isinstance(step, Constant):
        return CONSTANT_TIMESTAMP
    if isinstance(step, Elementwise | PeerComparison | Reduction | Lift | FrontEnd):
        return merge_timestamps(args)
    if isinstance(step, WindowStatistic | ExponentialMean | Rate | HistogramStatistic | BaselineComparison):
        # These have a value even of whom nothing came just now.
        found = merge_timestamps(args)
        return found if found is not None and found.is_complete else None
    return None
