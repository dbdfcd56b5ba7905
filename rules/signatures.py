"""Declarations of the functions of the rule language: typed parameters, form and result, and which are supported."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from skewscope.kb.units import Dimension, parse_unit
from skewscope.rules.units import NUMBER, SECOND, product, without_counts

ParameterType = Literal[
    "value", "operand", "signal", "counter", "histogram", "any", "window", "quantile", "number", "constant"
]
Form = Literal["elementwise", "window", "baseline", "peers", "reduce", "front", "topology"]

CONSTANTS = frozenset({"window", "quantile", "number", "constant"})
"""Types of parameters that are constants; the others have a value for each entity."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function."""

    name: str
    type: ParameterType
    """What an argument is:

    - `value`: a measured number. `operand`: the same, or a constant if another argument is measured.
    - `signal`: a signal of any type, by its id. `counter`, `histogram`: a signal of this type.
      `any`: a signal of any type or a measured number.
    - `window`: a time of up to an hour. `quantile`: a number from 0 to 1. `number`: a constant without unit.
      `constant`: a constant in the unit of the values. An operator receives these after the values, in base units.
    """
    default: float | None = None
    """Of an optional constant, in base units."""

    @property
    def is_constant(self) -> bool:
        """Whether an argument is one number for all entities."""
        return self.type in CONSTANTS


@dataclass(frozen=True, slots=True)
class RuleFunction:
    """The declaration of one function.

    Raises:
        ValueError: the checks of calls do not support such a function.
    """

    name: str
    form: Form
    params: tuple[Parameter, ...]
    result: str
    """The unit of the result: `same` as the values, `number` (the same without what it counts), `per-second` (the same
    per second), `one` (a number without unit), `truth` (yes, no or unknown), or the text of a unit such as `By/s`."""
    description: str
    units: Literal["same", "comparable", "none"] = "same"
    """What the units of several values must be: the same; the same but for what they count; or none at all."""
    alternatives: bool = False
    """Whether one known argument is enough for a known result."""
    single_window: tuple[float, ...] = ()
    """The factors by which a single window gives all windows, where one may be given for all."""
    kinds: tuple[str, ...] = ()
    """Of the form `topology`: the kinds of entity that have the value."""

    def __post_init__(self) -> None:
        """Refuse what the checks of calls do not support."""
        if problem := check_declaration(self):
            raise ValueError(f"the function {self.name!r}: {problem}")

    @property
    def value_params(self) -> tuple[Parameter, ...]:
        """Parameters that have a value for each entity."""
        return tuple(parameter for parameter in self.params if not parameter.is_constant)

    @property
    def constant_params(self) -> tuple[Parameter, ...]:
        """Parameters that are one number for all entities."""
        return tuple(parameter for parameter in self.params if parameter.is_constant)

    @property
    def min_arguments(self) -> int:
        """Number of arguments that are required."""
        optional = len(self.single_window) - 1 if self.single_window else 0
        return len(self.params) - max(optional, sum(parameter.default is not None for parameter in self.params))

    @property
    def usage(self) -> str:
        """The call with the names of the parameters."""
        return f"{self.name}({', '.join(parameter.name for parameter in self.params)})"

    def constant_dimensions(self, values: Dimension) -> tuple[Dimension, ...]:
        """Dimensions of the constants, in order, where the values have the given dimension."""
        fixed = {"window": SECOND, "constant": values}
        return tuple(fixed.get(parameter.type, NUMBER) for parameter in self.constant_params)

    def window_spans(self, constants: tuple[float, ...]) -> tuple[float, ...]:
        """The windows among the constants of a call, seconds; each is followed by the one before it in time."""
        parameters = zip(constants, self.constant_params, strict=True)
        return tuple(n for n, parameter in parameters if parameter.type == "window")


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a form supports."""

    measured: frozenset[str]
    """Types of its measured parameters."""
    count: tuple[int, int]
    """The fewest and the most measured parameters."""
    constants: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()
    """Results that it gives beside `same`, `number`, `one`, `per-second` and units."""


_SHAPES: Mapping[str, _Shape] = {
    "elementwise": _Shape(
        frozenset({"value", "operand", "signal", "counter", "histogram", "any"}),
        (1, 8),
        CONSTANTS,
        frozenset({"truth"}),
    ),
    "window": _Shape(frozenset({"value", "counter", "histogram"}), (1, 1), CONSTANTS),
    "baseline": _Shape(frozenset({"value"}), (1, 1), frozenset({"window"})),
    "peers": _Shape(frozenset({"value"}), (0, 1), CONSTANTS - {"window"}),
    "reduce": _Shape(frozenset({"value"}), (1, 1), CONSTANTS - {"window"}, frozenset({"truth"})),
    "front": _Shape(frozenset({"value"}), (1, 1)),
    "topology": _Shape(frozenset(), (0, 0)),
}
_VALUE_RESULTS = frozenset({"same", "number", "per-second"})
RESULT_LABELS: Mapping[str, str] = {
    "same": "the unit of x",
    "number": "the unit of x without what it counts",
    "per-second": "the unit of x per second",
    "one": "a number",
    "truth": "yes or no",
}


def check_declaration(function: RuleFunction) -> str:
    """Returns why the checks of calls do not support a declared function; empty if they do."""
    if function.form not in _SHAPES:
        return f"found the form {function.form!r}, expected one of {', '.join(_SHAPES)}"
    return _check_parameters(function) or _check_result(function) or _check_options(function)


def _check_parameters(function: RuleFunction) -> str:
    shape, measured, constants = _SHAPES[function.form], function.value_params, function.constant_params
    fewest, most = shape.count
    wrong = [p for p in function.params if p.type not in (shape.constants if p.is_constant else shape.measured)]
    optional = [p.default is not None for p in function.params]
    checks = {
        f"found {function.usage}, expected the constants after the values": function.params != (*measured, *constants),
        f"found {function.usage}, expected parameters with different names": len({p.name for p in function.params})
        < len(function.params),
        f"found {len(measured)} values, expected {fewest} to {most} for {function.form}": not fewest
        <= len(measured)
        <= most,
        f"found {', '.join(f'{p.name}: {p.type}' for p in wrong)}, which {function.form} does not support": bool(wrong),
        "found a signal beside other values, expected it alone": len(measured) > 1
        and any(p.type not in {"value", "operand"} for p in measured),
        "found one operand, expected a value or several operands": [p.type for p in measured] == ["operand"],
        "found an optional value, expected defaults of constants only": any(optional[: len(measured)]),
        "found a required parameter after an optional one": optional != sorted(optional),
        "expected a window as the last parameter": function.form in {"window", "baseline"}
        and (not constants or constants[-1].type != "window"),
        "found several constants, expected the memory alone": function.form == "baseline" and len(constants) > 1,
        "found constants without a value": bool(constants) and not measured,
    }
    return next((problem for problem, is_wrong in checks.items() if is_wrong), "")


def _check_result(function: RuleFunction) -> str:
    if function.result in _VALUE_RESULTS:
        return "" if function.value_params else f"found the result {function.result!r} without a value that has a unit"
    if function.form == "front":
        return f"found the result {function.result!r}, expected 'same' for front"
    if function.result == "truth":
        gives_truth = function.result in _SHAPES[function.form].results
        return "" if gives_truth else f"found the result 'truth', which {function.form} does not give"
    try:
        _dimension_of(function.result)
    except ValueError:
        return f"found the result {function.result!r}, expected {', '.join(RESULT_LABELS)} or a unit"
    return ""


def _check_options(function: RuleFunction) -> str:
    are_values = all(p.type == "value" for p in function.params)
    windows = [p for p in function.constant_params if p.type == "window"]
    checks = {
        "found alternatives, expected several values and no constants for them": function.alternatives
        and not (are_values and (len(function.params) > 1 or function.form == "peers")),
        "found a single window, expected one factor for each constant": bool(function.single_window)
        and not len(function.single_window) == len(windows) == len(function.constant_params),
        "found no kinds of entity": function.form == "topology" and not function.kinds,
        "found kinds of entity, expected them for topology only": function.form != "topology" and bool(function.kinds),
    }
    return next((problem for problem, is_wrong in checks.items() if is_wrong), "")


def _dimension_of(result: str) -> Dimension:
    """The dimension of a result that does not depend on the arguments."""
    return NUMBER if result in {"one", "truth"} else parse_unit(result).dimension


def result_dimension(function: RuleFunction, values: Dimension) -> Dimension:
    """The dimension of a call's result, where its values have the given dimension."""
    if function.result == "same":
        return values
    if function.result == "per-second":
        return product(values, SECOND, -1)
    return without_counts(values) if function.result == "number" else _dimension_of(function.result)
