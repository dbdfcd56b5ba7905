"""What the evaluator asks of an operator of the rule language, and the registry of operators.

An operator computes one node of an expression for all entities of its kind. Numbers are float64, NaN where unknown;
truth values are int8: NO, UNKNOWN or YES.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from inspect import signature
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features.baselines import BaselineSlice, BaselineStore
from skewscope.engine.features.counter_store import CounterStore
from skewscope.engine.features.window_store import WindowStore
from skewscope.engine.ingest.samples import CommonTimestamp
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.model.arrays import F64, Mask
from skewscope.engine.model.entities import ArgumentFunction, EntityIndex, EntitySubset
from skewscope.rules.expression import Expr
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.signatures import RuleFunction

Values = NDArray[Any]
"""[entity] float64 numbers or int8 truth values; no axis for a constant."""
Truth = NDArray[np.int8]
"""[entity] NO, UNKNOWN or YES."""


class Reads(Enum):
    """What an operator is given of its arguments when it is evaluated."""

    VALUES = "values"
    TIMES = "times of the newest samples"
    NOTHING = "nothing: it reads series, or what it stored during `update`"


@dataclass(frozen=True, slots=True)
class BoundFunction:
    """A function that receives the constants of a call after the values."""

    function: Callable[..., Any]
    constants: tuple[float, ...]

    def __call__(self, *args: Any) -> Any:
        """Returns the function's result."""
        return self.function(*args, *self.constants)


def bind_constants(function: Callable[..., Any], constants: tuple[float, ...]) -> Callable[..., Any]:
    """Returns a function of the values alone."""
    return BoundFunction(function, constants) if constants else function


@dataclass(frozen=True, slots=True)
class Junction:
    """How truth values are joined, and the value of one argument that settles the whole."""

    join: Callable[[Truth, Truth], Truth]
    settled: int


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What operators are built with: series, entities, and the stores that they ask for memory."""

    series_state: SeriesState
    entities: EntityIndex
    numbers: Mapping[Expr, int]
    """The number of each expression; arguments are numbered before the expressions that contain them."""
    windows: WindowStore
    baselines: BaselineStore
    counters: CounterStore
    selectors: dict[Expr, Any] = field(default_factory=dict)
    """By signal, what selects its series."""


OPTIONAL_HOOKS = ("evaluate_subset", "sample_times", "ripening", "is_available", "prepare")
"""Methods that the evaluator calls only on classes that override them."""


class Operator(ABC):
    """One node of an expression. Only `__init__` and `evaluate` are required.

    The other hooks have safe defaults, or are called only on classes that override them (`OPTIONAL_HOOKS`).

    Memory is asked for in `__init__`, from `context.windows`, `context.baselines` or `context.counters`.
    """

    forms: ClassVar[frozenset[str]] = frozenset()
    """Forms of functions that it can compute; empty for any."""
    cost: ClassVar[int] = 1
    """Cost of an evaluation, in comparisons."""
    reads: ClassVar[Reads] = Reads.VALUES
    junction: ClassVar[Junction | None] = None
    """Set where the arguments are truth values, joined in an order that the evaluator chooses."""
    comparison: ClassVar["type[Operator] | None"] = None
    """The operator that compares its values, where that is not the usual comparison."""
    overrides: ClassVar[frozenset[str]] = frozenset()
    """The names of the `OPTIONAL_HOOKS` that it overrides; set by the class itself."""
    memory: ClassVar[tuple[str, ...]] = ()
    """Names of its arrays, [entity of the argument's kind], that `update` changes: a later engine takes them over."""
    is_stateful: bool = False
    """Whether `update` is called at every tick."""
    constant: Values | None = None
    """Its value, if that never changes."""
    baseline: BaselineSlice | None = None
    """The healthy past that it compares with, if any."""
    store: object | None = None
    """The windows, counters or past that it reads: they change without its arguments."""

    def __init_subclass__(cls) -> None:
        """Note which optional methods the class overrides."""
        super().__init_subclass__()
        hooks = (name for name in OPTIONAL_HOOKS if getattr(cls, name) is not getattr(Operator, name))
        cls.overrides = frozenset(hooks)

    @abstractmethod
    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        """Build the operator of one expression."""

    @classmethod
    def check_declaration(cls, function: RuleFunction) -> str:
        """Returns why the class cannot compute a declared function; empty if it can."""
        if cls.forms and function.form not in cls.forms:
            return f"found the form {function.form!r}, expected {' or '.join(sorted(cls.forms))} for a {cls.__name__}"
        return ""

    @classmethod
    def build(cls, expr: Expr, context: OperatorContext) -> "Operator":
        """Returns the operator of an expression; overridden where its arguments decide the class."""
        return cls(expr, context)

    @abstractmethod
    def evaluate(self, t: float, args: Sequence[Any]) -> Values:
        """Returns [entity] its values at the tick that ends at `t` seconds, from `reads` of its arguments."""

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> Values:
        """Returns [subset] the values of some entities, equal to those of `evaluate`.

        `argument(n, entities)` returns the n-th argument's values of some entities of its own kind.
        """
        raise NotImplementedError(type(self).__name__)

    def ripening(self, t: float, unknown: Mask, args: Sequence[tuple[Values, Mask]]) -> Mask:
        """Returns [entity] where a value is unknown only since a window or a past is still too short.

        `unknown` marks the entities without a value at the tick that ends at `t` seconds; `args` are the values of the
        arguments and where these are ripening. Without an override, all unknown arguments must be ripening.
        """
        raise NotImplementedError(type(self).__name__)

    def is_available(self, args: Sequence[bool]) -> bool:
        """Whether it may be known, given which arguments may: if none that it needs was never delivered."""
        return all(args)

    def prepare(self) -> None:  # noqa: B027 - a hook: most operators have nothing to prepare
        """Compute what depends on the topology alone, whenever that changes, so that no tick has to wait for it."""

    def update(self, value: Values, times: Callable[[], F64]) -> None:  # noqa: B027 - a hook
        """Store the argument's values of one tick; `times()` returns [entity] seconds of its newest samples."""

    def sample_times(self, times: Sequence[Any], argument: Callable[[int], Values]) -> Any:
        """Returns [entity] seconds of the newest samples that its values depend on.

        Without an override, those of any argument count. `times` are those of the arguments, None where one was never
        delivered; `argument(n)` returns the values of the n-th.
        """
        raise NotImplementedError(type(self).__name__)

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:  # noqa: ARG002
        """The one time of the newest samples of all entities with a value, given those of the arguments.

        None, the default, makes the evaluator ask for `sample_times` instead.
        """
        return None


# --- registry

OPERATORS: dict[str, type[Operator]] = {}
"""By the name of a function, the sign of an arithmetic operator or comparison, or the kind of a node."""

_Class = TypeVar("_Class", bound=type[Operator])


def register(name: str) -> Callable[[_Class], _Class]:
    """Returns a decorator that registers a class for a name.

    Raises:
        ValueError: the name has a class already, or the class cannot compute the function that is declared.
    """

    def add(cls: _Class) -> _Class:
        if name in OPERATORS:
            raise ValueError(f"{name} is an operator already: {OPERATORS[name].__qualname__}")
        if name in FUNCTIONS and (problem := cls.check_declaration(FUNCTIONS[name])):
            raise ValueError(f"the operator of the function {name!r}: {problem}")
        OPERATORS[name] = cls
        return cls

    return add


def register_functions(base: type[Operator], functions: Iterable[tuple[str, Callable[..., Any], str]]) -> None:
    """Registers a class for each of some names: `base` with a function, and nothing else of its own.

    Args:
        base: the class, which calls `function`.
        functions: (name, function, what it returns) each.
    """
    for name, function, text in functions:
        own = {"__doc__": text, "__module__": base.__module__, "function": staticmethod(function)}
        made = register(name)(type(f"{base.__name__}[{name}]", (base,), own))
        # A state that was stored names the classes of its operators, and finds them in their modules.
        setattr(sys.modules[made.__module__], made.__name__, made)


def check_arity(function: Callable[..., Any], declaration: RuleFunction) -> str:
    """Returns why a function cannot take the declared parameters; empty if it can."""
    count = len(declaration.params)
    if isinstance(function, np.ufunc):
        fits = function.nin == count
    else:
        try:
            signature(function).bind(*range(count))
            fits = True
        except TypeError:
            fits = False
    return "" if fits else f"found a function of other parameters, expected those of {declaration.usage}"


def operator_class(expr: Expr) -> type[Operator]:
    """The class of the operator of an expression."""
    return OPERATORS[expr.name if expr.op in {"call", "arith", "compare"} else expr.op]


def total_costs(expressions: Sequence[Expr], args: Sequence[tuple[int, ...]]) -> list[int]:
    """Returns [expression] the estimated cost of each with all that it contains, in comparisons.

    `args` are the places of the arguments, which come before what contains them; no two expressions are equal.
    """
    costs = [operator_class(expr).cost for expr in expressions]
    of_cost = {cost: sum(1 << n for n, own in enumerate(costs) if own == cost) for cost in {*costs}}
    contained: list[int] = []  # which expressions each contains, as the bits of a number
    for n, places in enumerate(args):
        bits = 1 << n
        for place in places:
            bits |= contained[place]
        contained.append(bits)
    return [sum(cost * (bits & mask).bit_count() for cost, mask in of_cost.items()) for bits in contained]
