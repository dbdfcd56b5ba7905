"""What each kind of sub-expression does with the values of its arguments. Built once, run when somebody asks.

`run` gives the value of every entity, `part` the same of some of them; `part` asks for what it needs of its arguments.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.banks import Banks, Pasts
from skewscope.engine.counts import Members, OfCount, is_count
from skewscope.engine.features import REDUCE, WHOLE, WITHIN, finite
from skewscope.engine.memories import WINDOWS, FromBaseline, Smoothed, Windowed
from skewscope.engine.moments import ALWAYS, Moment, together
from skewscope.engine.readings import Buckets, Rate, Seen, Shared, Signal
from skewscope.engine.sets import F64, Mask, Picked, Sets
from skewscope.engine.some import Ask, Some
from skewscope.rules.expr import Expr
from skewscope.rules.functions import FUNCTIONS

Truth = NDArray[np.int8]


class Plain:
    """A function of the arguments' values alone, entity by entity."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002 - the same for all steps
        return self.function(*args)


class Fixed:
    """What is always the same."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002
        return self.value


# --- sets


class Within:
    """A value compared with those of the peers."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        assert expr.peers is not None
        self.peers, self.entities = expr.peers, shared.entities
        self.function = WITHIN[expr.name]
        self.whole = expr.name in WHOLE
        self.ever = np.empty(0, bool)

    def prepare(self) -> None:
        """Makes the sets, and who is in which."""
        self.entities.peers(self.peers).prepare(self.entities.count(self.peers.kind))

    def take(self, value: F64) -> None:
        """Notes who has ever had a value."""
        self.ever = _ever(self.ever, value)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        value = args[0]
        found = self.entities.peers(self.peers)
        told = _where_known(value, found.mapped(value, self.function))
        if not self.whole or not (silent := self.ever & np.isnan(value)).any():
            return told
        return np.where(found.mapped(silent.astype(np.float64), _spread_maximum) > 0, np.nan, told)

    def part(self, some: Some, ask: Ask) -> F64:
        count = self.entities.count(self.peers.kind)
        found = some.picked(self.peers, lambda: self.entities.peers(self.peers).around(some.at, count))
        value = ask(0, some.elsewhere(self.peers, lambda: found.members))
        told = _where_known(ask(0, some), found.mapped(value, self.function))
        if not self.whole or not (silent := self.ever[found.members] & np.isnan(value)).any():
            return told
        return np.where(found.mapped(silent.astype(np.float64), _spread_maximum) > 0, np.nan, told)


def _where_known(value: F64, told: F64) -> F64:
    """What was told of whose value is known; changes `told`."""
    told[np.isnan(value)] = np.nan
    return told


def _spread_maximum(x: F64) -> F64:
    return np.repeat(np.fmax.reduce(x, axis=1)[:, None], x.shape[1], axis=1)


def _ever(ever: Mask, value: F64) -> Mask:
    """Who ever had a value."""
    if len(ever) == len(value) and ever.all():
        return ever
    known = ~np.isnan(value)
    known[: len(ever)] |= ever
    return known


class Reduce:
    """One value from those of an entity's parts."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.lower, self.kind, self.entities = expr.args[0].kind, expr.kind, shared.entities
        self.function = REDUCE[expr.name]
        self.whole = expr.name in WHOLE
        self.ever = np.empty(0, bool)

    def prepare(self) -> None:
        """Makes the sets, and who is in which."""
        self.entities.down(self.lower, self.kind).prepare()

    def take(self, value: F64) -> None:
        """Notes who has ever had a value."""
        self.ever = _ever(self.ever, value)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        value, found = args[0], self.entities.down(self.lower, self.kind)
        reduced = found.reduced(value, self.function)
        if not self.whole or not (silent := self.ever & np.isnan(value)).any():
            return reduced
        return np.where(found.reduced(silent.astype(np.float64), REDUCE["highest"]) > 0, np.nan, reduced)

    def part(self, some: Some, ask: Ask) -> F64:
        key = self.lower, self.kind
        found = some.picked(key, lambda: self.entities.down(self.lower, self.kind).of(some.at))
        value = ask(0, some.elsewhere(key, lambda: found.members))
        reduced = found.reduced(value, self.function)
        if not self.whole or not (silent := self.ever[found.members] & np.isnan(value)).any():
            return reduced
        return np.where(found.reduced(silent.astype(np.float64), REDUCE["highest"]) > 0, np.nan, reduced)


class Complete:
    """Whether all of an entity's parts have a value: yes or unknown."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.lower, self.kind, self.entities = expr.args[0].kind, expr.kind, shared.entities

    def prepare(self) -> None:
        """Makes the sets, and who is in which."""
        self.entities.down(self.lower, self.kind).prepare()

    def run(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        return self._of(self.entities.down(self.lower, self.kind), args[0])

    def part(self, some: Some, ask: Ask) -> Truth:
        key = self.lower, self.kind
        found = some.picked(key, lambda: self.entities.down(self.lower, self.kind).of(some.at))
        return self._of(found, ask(0, some.elsewhere(key, lambda: found.members)))

    def _of(self, sets: Sets | Picked, value: F64) -> Truth:
        lacking = sets.reduced(np.isnan(value).astype(np.float64), REDUCE["highest"])
        found: Truth = (lacking == 0).astype(np.int8)
        return found


class Lift:
    """What is true of the whole, told of each of its parts."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.lower, self.upper, self.entities = expr.kind, expr.args[0].kind, shared.entities
        self.nothing = _of_nobody(expr.args[0]) if expr.truth else np.nan

    def prepare(self) -> None:
        """Makes out in whom everybody lies."""
        self.entities.up(self.lower, self.upper)

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002
        return self.of(args[0])

    def of(self, value: Any) -> Any:
        """A value of the upper kind on the lower one."""
        padded = np.append(value, value.dtype.type(self.nothing))
        return padded[self.entities.up(self.lower, self.upper)]

    def part(self, some: Some, ask: Ask) -> Any:
        if not self.entities.count(self.upper):
            return self.run(0.0, [np.empty(0, type(self.nothing))])[some.at]
        up = self.entities.up(self.lower, self.upper)[some.at]
        key = self.lower, self.upper
        value = ask(0, some.elsewhere(key, lambda: np.maximum(up, 0)))
        return np.where(up >= 0, value, value.dtype.type(self.nothing))


def _of_nobody(expr: Expr) -> int:
    """The truth of an expression about an entity that there is not: nothing is known of it, and that much is known."""
    parts = [_of_nobody(arg) for arg in expr.args if arg.truth]
    if expr.op == "call" and expr.name == "known":
        return -1
    if expr.op == "not":
        return -parts[0]
    joined = {"and": min, "or": max, "lift": max}.get(expr.op)
    return joined(parts) if joined and len(parts) == len(expr.args) else 0


class Front:
    """The value at the front-end node of a group or replica."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.kind = expr.kind
        self.at = shared.entities.front(expr.kind)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self.of(args[0])

    def of(self, value: F64) -> F64:
        """A node's value on the group it is the front end of."""
        return np.append(value, np.nan)[self.at]

    def part(self, some: Some, ask: Ask) -> F64:
        at = self.at[some.at]
        return np.where(at >= 0, ask(0, some.elsewhere(("front", self.kind), lambda: np.maximum(at, 0))), np.nan)


# --- the rest


class Age:
    """Seconds since the last sample, from the time of that; unknown where none came."""

    def run(self, t: float, args: Sequence[Any]) -> F64:
        age: F64 = np.maximum(t - args[0], 0.0)
        return age


def _above(a: Any, b: Any) -> Truth:
    return _signs(a > b, a <= b)


def _signs(yes: Any, no: Any) -> Truth:
    """YES, NO, and where neither holds UNKNOWN: a NaN is neither above nor below."""
    found: Truth = np.asarray(yes).view(np.int8) - np.asarray(no).view(np.int8)
    return found


COMPARE: Mapping[str, Callable[[Any, Any], Truth]] = {
    ">": _above,
    ">=": lambda a, b: _signs(a >= b, a < b),
    "<": lambda a, b: _signs(a < b, a >= b),
    "<=": lambda a, b: _signs(a <= b, a > b),
    "==": lambda a, b: _signs(a == b, (a < b) | (a > b)),
    "!=": lambda a, b: _signs((a < b) | (a > b), a == b),
}

ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: finite(a * b),
    "/": lambda a, b: finite(a / b),
}


def _known(x: F64) -> Truth:
    return _signs(~np.isnan(x), np.isnan(x))


PLAIN: Mapping[str, Callable[..., Any]] = {
    "known": _known,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "log10": lambda x: finite(np.log10(x)),
}


def _smallest(*parts: Truth) -> Truth:
    found: Truth = np.minimum.reduce(parts)
    return found


def _largest(*parts: Truth) -> Truth:
    found: Truth = np.maximum.reduce(parts)
    return found


@dataclass
class Workshop:
    """What steps are made with: what they share, and where they remember."""

    shared: Shared
    banks: Banks
    pasts: Pasts

    def step(self, expr: Expr) -> Any:
        """The step that computes one sub-expression."""
        if expr.op == "call":
            return self._call(expr)
        if expr.op in {"signal", "seen", "lift"}:
            return {"signal": Signal, "seen": Seen, "lift": Lift}[expr.op](expr, self.shared)
        if expr.op == "compare" and any(map(is_count, expr.args)):
            return OfCount(expr, self.shared, COMPARE)
        return Fixed(np.float64(expr.value)) if expr.op == "number" else Plain(_plain(expr))

    def _call(self, expr: Expr) -> Any:
        form, shared = FUNCTIONS[expr.name].form, self.shared
        if expr.name in {"age", "ewma"}:
            return Age() if expr.name == "age" else Smoothed(expr)
        if form == "window" and expr.name in WINDOWS:
            return Windowed(expr, shared, self.banks)
        if form == "baseline":
            return FromBaseline(expr, self.pasts)
        builder = _named.get(expr.name) or _by_form.get(form)
        if builder:
            return builder(expr, shared)
        if expr.name == "known" and expr.args[0].op == "signal":
            return Plain(_known) if _gauge(expr.args[0], shared) else Known(expr.args[0], shared)
        return Plain(PLAIN[expr.name])


_named: Mapping[str, Callable[[Expr, Shared], Any]] = {
    "rate": Rate,
    "bucket_quantile": Buckets,
    "bucket_mean": Buckets,
    "peers": Members,
    "complete": Complete,
}
_by_form: Mapping[str, Callable[[Expr, Shared], Any]] = {
    "peers": Within,
    "reduce": Reduce,
    "front": Front,
    "topology": lambda e, s: Fixed(s.entities.speed if e.name == "speed" else s.entities.size(e.kind)),
}


def _plain(expr: Expr) -> Callable[..., Any]:
    if expr.op == "arith":
        return ARITHMETIC[expr.name]
    if expr.op == "compare":
        return COMPARE[expr.name]
    return {"and": _smallest, "or": _largest}.get(expr.op, np.negative)


def _gauge(expr: Expr, shared: Shared) -> bool:
    return shared.panel.signals[expr.name].type not in {"counter", "histogram"}


class Known:
    """Whether a counter has been read lately."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.signal = Signal(expr, shared)

    def run(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        return _known(self.signal.run(t, ()))

    def part(self, some: Some, ask: Ask) -> Truth:
        return _known(self.signal.part(some, ask))


def times(step: Any, args: Sequence[Any]) -> Any:
    """When what an expression is made of was last sampled: the latest of its arguments."""
    if isinstance(step, Signal):
        return step.time()
    if isinstance(step, Lift | Front):
        return step.of(args[0])
    if isinstance(step, Reduce):
        return step.entities.down(step.lower, step.kind).reduced(args[0], REDUCE["highest"])
    newest: Any = np.float64(-np.inf)
    for arg in args:
        if arg is not None and arg is not newest:
            newest = arg if newest.ndim == 0 else np.fmax(newest, arg)
    return newest


def moment(step: Any, args: Iterable[Moment | None]) -> Moment | None:
    """When what an expression is made of was last sampled, if that is the same for all who have a value now."""
    if isinstance(step, Signal):
        return step.moment()
    if isinstance(step, Fixed):
        return ALWAYS
    if isinstance(step, Plain | Within | Reduce | Lift | Front):
        return together(args)
    if isinstance(step, Windowed | Smoothed | Rate | Buckets | FromBaseline):
        # These have a value even of whom nothing came just now.
        found = together(args)
        return found if found is not None and found.whole else None
    return None
