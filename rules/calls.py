"""Checks of function calls: arguments, and unit and kind of entity of the result."""

import ast
import math
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from skewscope.kb.problems import suggest_name
from skewscope.kb.units import Dimension, format_dimension
from skewscope.rules import units
from skewscope.rules.entity_kinds import CONTAINERS, GROUP_LIKE, PEER_DEFAULTS, SCOPES, contains, kind_of
from skewscope.rules.expression import Expr, Peers, is_zero, lift, value_dimension
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.parsing import dotted_name
from skewscope.rules.signatures import Parameter, RuleFunction, result_dimension

if TYPE_CHECKING:
    from skewscope.rules.language import ExpressionBuilder

MAX_WINDOW = 3600.0

Arguments = tuple[tuple[Expr, ...], tuple[float, ...]]
"""Arguments with a value for each entity, then the constant ones."""


def build_call(walker: "ExpressionBuilder", node: ast.Call) -> Expr | None:
    """Build the tree of a function call."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    function = FUNCTIONS.get(name)
    if function is None:
        return walker.add_problem(node, f"an unknown function {name!r}", "a function", suggest_name(name, FUNCTIONS))
    if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
        return walker.add_problem(node, "a named or starred argument", function.usage)
    if not function.min_arguments <= len(node.args) <= len(function.params):
        return walker.add_problem(node, f"{len(node.args)} arguments for {name}", function.usage)
    return _form_builders[function.form](walker, node, function)


# --- arguments


def _check_arguments(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Arguments | None:
    pairs = list(zip(node.args, function.params, strict=False))
    values = [_value_argument(walker, arg, function, p) for arg, p in pairs if not p.is_constant]
    known = tuple(value for value in values if value is not None)
    unit = value_dimension(known)
    given = [_constant_argument(walker, arg, p, unit) for arg, p in pairs if p.is_constant]
    if len(known) < len(values) or None in given:
        return None
    constants = [length for length in given if length is not None]
    if len(constants) == 1:
        constants = [constants[0] * factor for factor in function.single_window] or constants
    constants += [p.default for p in function.constant_params[len(constants) :] if p.default is not None]
    return known, tuple(constants)


def _value_argument(
    walker: "ExpressionBuilder", node: ast.expr, function: RuleFunction, parameter: Parameter
) -> Expr | None:
    """Build one argument that has a value for each entity."""
    bare = bool(dotted_name(node.value if isinstance(node, ast.Subscript) else node))
    if parameter.type in {"counter", "histogram", "signal"} or (parameter.type == "any" and bare):
        return _series_argument(walker, node, parameter)
    expr = walker.build(node)
    if expr is None or not walker.require_number(node, expr):
        return None
    if expr.kind or parameter.type == "operand":
        return expr
    hint = "A constant would hide that the value is missing." if function.alternatives else ""
    return walker.add_problem(node, "a constant", "something that is measured", hint)


def _series_argument(walker: "ExpressionBuilder", node: ast.expr, parameter: Parameter) -> Expr | None:
    expr = walker.build_raw_signal(node)
    if expr is None:
        return None
    kind, wanted = walker.context.signals[expr.name].type, parameter.type
    if wanted in {"counter", "histogram"} and kind != wanted:
        rather = "Use mean(x, w)." if wanted == "counter" and kind != "histogram" else ""
        return walker.add_problem(node, f"the {kind} {expr.name}", f"a {wanted}", rather)
    return expr


def _constant_argument(
    walker: "ExpressionBuilder", node: ast.expr, parameter: Parameter, unit: Dimension
) -> float | None:
    """Returns one constant argument in base units; the values have the dimension `unit`."""
    expr = walker.build(node)
    if expr is None:
        return None
    wanted, (lowest, highest), expected = {
        "window": (units.SECOND, (sys.float_info.min, MAX_WINDOW), f"a time up to {MAX_WINDOW:g}*s"),
        "quantile": (units.NUMBER, (0.0, 1.0), "a number from 0 to 1"),
        "constant": (unit, (-math.inf, math.inf), f"a constant, {units.describe_number(unit)}"),
    }.get(parameter.type, (units.NUMBER, (-math.inf, math.inf), "a constant without unit"))
    fits = expr.dimension == wanted or (parameter.type == "constant" and is_zero(expr))
    if expr.op == "number" and fits and lowest <= expr.value <= highest:
        return expr.value
    walker.add_problem(node, f"{ast.unparse(node)[:40]!r} as {parameter.name}", expected)
    return None


def _call(function: RuleFunction, kind: str, arguments: Arguments, peers: Peers | None = None) -> Expr:
    """Build a call on a kind of entity, with the unit of its result."""
    args, constants = arguments
    dimension = result_dimension(function, value_dimension(args))
    return Expr("call", kind, dimension, function.result == "truth", args, function.name, 0.0, constants, (), peers)


# --- forms


def _window_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    moved = _move_counter_inside(node, function)
    if moved:
        return walker.build(moved)
    found = _check_arguments(walker, node, function)
    return _call(function, found[0][0].kind, found) if found else None


def _move_counter_inside(node: ast.Call, function: RuleFunction) -> ast.Call | None:
    """Returns `front(rate(c, w))` for `rate(front(c), w)`: rates are computed where the counter is."""
    inner = node.args[0]
    if all(p.type != "counter" for p in function.params) or not isinstance(inner, ast.Call) or len(inner.args) != 1:
        return None
    name = inner.func.id if isinstance(inner.func, ast.Name) else ""
    if name not in FUNCTIONS or FUNCTIONS[name].form not in {"front", "reduce"}:
        return None
    rate = ast.Call(node.func, [inner.args[0], *node.args[1:]], [])
    return ast.copy_location(ast.Call(inner.func, [ast.copy_location(rate, node)], []), node)


def _peer_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    peers = walker.context.peers
    if not function.params:
        return _call(function, peers.kind, (_reporting_signals(walker), ()), peers)
    found = _check_arguments(walker, node, function)
    if found is None:
        return None
    (arg,), constants = found
    if arg.kind == peers.kind or contains(arg.kind, peers.kind):
        arg = lift(arg, peers.kind)
    else:
        peers = Peers(arg.kind, PEER_DEFAULTS[arg.kind])
    return _call(function, arg.kind, ((arg,), constants), peers)


def _reporting_signals(walker: "ExpressionBuilder") -> tuple[Expr, ...]:
    """Returns what `peers()` counts: whether each signal of the rule was ever seen, on the judged kind.

    What is told of several peers together says of none of them that it is heard, unless the rule reads nothing else.
    """
    scope, peers = walker.context.scope, walker.context.peers
    together = {peers.by, *CONTAINERS.get(peers.by, ()), "pool", "fleet", *(GROUP_LIKE if scope == "rank" else ())} - {
        scope
    }
    own: list[Expr] = []
    shared: list[Expr] = []
    for name in walker.context.peer_signals:
        signal = walker.context.signals.get(name)
        kind = kind_of(signal.entity) if signal else ""
        if kind and (scope in {kind, "fleet"} or "link" not in {kind, scope}):
            seen = Expr("seen", kind, name=name)
            near = kind == scope or contains(kind, scope)
            expr = lift(seen, scope) if near else Expr("call", scope, args=(seen,), name="highest")
            (shared if near and kind in together else own).append(expr)
    return tuple(own or shared)


def _reduce_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    found = _check_arguments(walker, node, function)
    if found is None:
        return None
    arg, target = found[0][0], walker.target_kind
    if arg.kind == target or contains(arg.kind, target):
        hint = f"Leave {function.name}() out."
        return walker.add_problem(
            node, f"{function.name}() of what each {target} has one of", f"parts of a {target}", hint
        )
    if "link" in {arg.kind, target} and target != "fleet":
        return walker.add_problem(node, f"{function.name}() from {arg.kind} to {target}", "kinds that hold one another")
    return _call(function, target, found)


def _front_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    scope, walker.target_kind = walker.target_kind, "node"
    found = _check_arguments(walker, node, function)
    walker.target_kind = scope
    arg = walker.lift_to_kind(node, found[0][0], "node") if found else None
    if arg is None:
        return None
    if scope not in {"group", "rank", "replica"}:
        return walker.add_problem(node, f"front() for a {scope}", "a rule about ranks, groups or replicas")
    return _call(function, "replica" if scope == "replica" else "group", ((arg,), ()))


def _topology_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    """Build a value that the topology states, on the judged kind or on the nearest kind that contains it."""
    near = [kind for kind in (walker.target_kind, *CONTAINERS[walker.target_kind]) if kind in function.kinds]
    if near or len(function.kinds) == 1:
        return _call(function, (near or function.kinds)[0], ((), ()))
    scopes = [f"{kind}s" for kind in SCOPES if {kind, *CONTAINERS[kind]} & {*function.kinds}]
    expected = f"a rule about {', '.join(scopes)}"
    return walker.add_problem(node, f"{function.name}() for a {walker.target_kind}", expected)


def _elementwise_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    """Build a function of values that belong to one kind of entity and whose units agree."""
    found = _check_arguments(walker, node, function)
    if found is None:
        return None
    args = walker.align_all(node, found[0])
    if args is None or not _check_units(walker, node, function, args):
        return None
    kind = next((arg.kind for arg in args if arg.kind), "")
    if not kind:
        return walker.add_problem(node, "only constants", "something that is measured in one of the arguments")
    return _call(function, kind, (args, found[1]))


def _check_units(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction, args: tuple[Expr, ...]) -> bool:
    """Returns whether the units of the values are as declared; records a problem otherwise."""
    if function.units == "same":
        first = next((arg for arg in args if not is_zero(arg)), args[0])
        return all(walker.require_same_unit(node, first, arg) for arg in args if arg is not first)
    if function.units == "comparable":
        shown = [units.describe_unit(arg.dimension) for arg in args]
        found = "" if len({units.without_counts(arg.dimension) for arg in args}) == 1 else " over ".join(shown)
        expected, hint = "units that differ in nothing but what they count", ""
    else:
        wrong = next((arg for arg in args if arg.dimension), None)
        found = f"{function.name}() of {format_dimension(wrong.dimension)}" if wrong else ""
        expected, hint = "a number without unit", "Divide it by one of its units first."
    if found:
        walker.add_problem(node, found, expected, hint)
    return not found


_form_builders: Mapping[str, Callable[["ExpressionBuilder", ast.Call, RuleFunction], Expr | None]] = {
    "window": _window_call,
    "baseline": _window_call,
    "peers": _peer_call,
    "reduce": _reduce_call,
    "front": _front_call,
    "elementwise": _elementwise_call,
    "topology": _topology_call,
}
