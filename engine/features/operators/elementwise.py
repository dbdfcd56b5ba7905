"""Operators that compute each entity from its own present values."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from skewscope.engine.features.operators.protocol import (
    Junction,
    Operator,
    OperatorContext,
    Reads,
    Truth,
    Values,
    bind_constants,
    check_arity,
    operator_class,
    register,
    register_functions,
)
from skewscope.engine.features.operators.series import SignalReader
from skewscope.engine.features.peer_statistics import inf_to_nan
from skewscope.engine.ingest.samples import (
    CONSTANT_TIMESTAMP,
    CommonTimestamp,
    merge_timestamps,
)
from skewscope.engine.model.arrays import F64, Mask
from skewscope.engine.model.entities import ArgumentFunction, EntitySubset
from skewscope.engine.model.verdict import NO, YES
from skewscope.rules.expression import Expr
from skewscope.rules.signatures import RuleFunction

# --- constants


class Constant(Operator):
    """A value that never changes."""

    constant: Values

    def evaluate(self, t: float, args: Sequence[Any]) -> Values:  # noqa: ARG002 - the same for all operators
        return self.constant

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:  # noqa: ARG002
        return CONSTANT_TIMESTAMP


@register("number")
class Number(Constant):
    """A number in base units."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:  # noqa: ARG002
        self.constant = np.array(expr.value)


@register("speed")
class PortSpeed(Constant):
    """[port] the speed of each port, bytes per second."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:  # noqa: ARG002
        self.constant = context.entities.speed


@register("size")
class MemberCount(Constant):
    """[group, replica or pool] the number of members of each."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        self.constant = context.entities.size(expr.kind)


# --- functions of the arguments' values


class Elementwise(Operator):
    """A function of the arguments' values, entity by entity; constants of the call follow the values.

    It returns float64, or int8 (`to_truth`) where the result is declared as `truth`.
    """

    forms = frozenset({"elementwise"})
    function: ClassVar[Callable[..., Values]]

    def __init__(self, expr: Expr, context: OperatorContext) -> None:  # noqa: ARG002
        self._function: Callable[..., Values] = bind_constants(type(self).function, expr.params)
        self._places = range(len(expr.args))

    @classmethod
    def check_declaration(cls, function: RuleFunction) -> str:
        return super().check_declaration(function) or check_arity(cls.function, function)

    def evaluate(self, t: float, args: Sequence[Any]) -> Values:  # noqa: ARG002
        return self._function(*args)

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> Values:
        return self._function(*[argument(n, subset) for n in self._places])

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:
        return merge_timestamps(parts)


register_functions(
    Elementwise,
    (
        ("+", np.add, "a + b."),
        ("-", np.subtract, "a - b."),
        ("*", lambda a, b: inf_to_nan(a * b), "a * b; unknown where the product is infinite."),
        ("/", lambda a, b: inf_to_nan(a / b), "a / b; unknown where b is zero."),
        ("ratio", lambda a, b: inf_to_nan(a / b), "a / b as a plain number, whatever each of them counts."),
        ("neg", np.negative, "-a."),
        ("not", np.negative, "NO for YES and YES for NO; UNKNOWN stays."),
        ("abs", np.abs, "|a|."),
        ("min", np.minimum, "The smaller of two values; unknown where either is."),
        ("max", np.maximum, "The larger of two values; unknown where either is."),
        ("log10", lambda x: inf_to_nan(np.log10(x)), "The logarithm to the base of ten; unknown for zero and less."),
        ("number_of", lambda x: x, "The value itself: only its unit changes."),
    ),
)


@register("coalesce")
class Coalesce(Elementwise):
    """The first value where it is known, else the second."""

    @staticmethod
    def function(a: F64, b: F64) -> F64:
        return np.where(np.isnan(a), b, a)

    def ripening(self, t: float, unknown: Mask, args: Sequence[tuple[Values, Mask]]) -> Mask:  # noqa: ARG002
        return unknown & (args[0][1] | args[1][1])

    def is_available(self, args: Sequence[bool]) -> bool:
        return any(args)

    def sample_times(self, times: Sequence[Any], argument: Callable[[int], Values]) -> Any:
        first, second = times
        if first is None or second is None:
            return second if first is None else first
        return np.where(np.isnan(argument(0)), second, first)


@register("age")
class SampleAge(Operator):
    """Seconds since the last sample; unknown where none came."""

    reads = Reads.TIMES

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        """Nothing to prepare."""

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:
        age: F64 = np.maximum(t - args[0], 0.0)
        return age


# --- comparisons


def to_truth(yes: Any, no: Any) -> Truth:
    """Returns [entity] YES, NO, and UNKNOWN where neither holds: NaN is neither above nor below."""
    found: Truth = np.asarray(yes).view(np.int8) - np.asarray(no).view(np.int8)
    return found


class ValueComparison(Elementwise):
    """Two numbers compared: unknown where either is."""

    @classmethod
    def build(cls, expr: Expr, context: OperatorContext) -> Operator:
        special = next((found for arg in expr.args if (found := operator_class(arg).comparison)), None)
        return special(expr, context) if special else cls(expr, context)


register_functions(
    ValueComparison,
    (
        (">", lambda a, b: to_truth(a > b, a <= b), "a > b."),
        (">=", lambda a, b: to_truth(a >= b, a < b), "a >= b."),
        ("<", lambda a, b: to_truth(a < b, a >= b), "a < b."),
        ("<=", lambda a, b: to_truth(a <= b, a > b), "a <= b."),
        ("==", lambda a, b: to_truth(a == b, (a < b) | (a > b)), "a == b."),
        ("!=", lambda a, b: to_truth((a < b) | (a > b), a == b), "a != b."),
    ),
)


# --- logic


class LogicalJunction(Elementwise):
    """Truth values joined, of which some may be missing."""

    def is_available(self, args: Sequence[bool]) -> bool:
        return any(args)


@register("and")
class And(LogicalJunction):
    """YES where all arguments are, NO where any is."""

    junction = Junction(np.minimum, NO)

    @staticmethod
    def function(*args: Truth) -> Truth:
        found: Truth = np.minimum.reduce(args)
        return found


@register("or")
class Or(LogicalJunction):
    """YES where any argument is, NO where all are."""

    junction = Junction(np.maximum, YES)

    @staticmethod
    def function(*args: Truth) -> Truth:
        found: Truth = np.maximum.reduce(args)
        return found


# --- presence


@register("known")
class Known(Elementwise):
    """YES where a value is known, else NO; of a counter, whether it was read lately."""

    @staticmethod
    def function(x: F64) -> Truth:
        return to_truth(~np.isnan(x), np.isnan(x))

    @classmethod
    def build(cls, expr: Expr, context: OperatorContext) -> Operator:
        (arg,) = expr.args
        is_total = arg.op == "signal" and context.series_state.signals[arg.name].type in {"counter", "histogram"}
        return _KnownCounter(expr, context) if is_total else cls(expr, context)

    def is_available(self, args: Sequence[bool]) -> bool:  # noqa: ARG002
        return True


class _KnownCounter(Operator):
    """YES where a counter was read lately, else NO."""

    reads = Reads.NOTHING

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        self.reader = SignalReader(expr.args[0], context)

    def is_available(self, args: Sequence[bool]) -> bool:  # noqa: ARG002
        return True

    def evaluate(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        return Known.function(self.reader.evaluate(t, ()))

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> Truth:
        return Known.function(self.reader.evaluate_subset(subset, argument))
