"""Checks of function calls: arguments, and unit and kind of entity of the result."""

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from skewscope.kb.problems import suggest_name
from skewscope.kb.units import Dimension, format_dimension
from skewscope.rules import units
from skewscope.rules.entity_kinds import CONTAINERS, GROUP_LIKE, PEER_DEFAULTS, contains, kind_of
from skewscope.rules.expression import Expr, Peers, lift
from skewscope.rules.functions import FUNCTIONS, WINDOW_PARAMS, RuleFunction
from skewscope.rules.parsing import dotted_name

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
        return walker.add_problem(node, "a named or starred argument", _format_usage(function))
    if not function.min_arguments <= len(node.args) <= len(function.params):
        return walker.add_problem(node, f"{len(node.args)} arguments for {name}", _format_usage(function))
    return _form_builders[function.form](walker, node, function)


def _format_usage(function: RuleFunction) -> str:
    return f"{function.name}({', '.join(function.params)})"


# --- arguments


def _check_arguments(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Arguments | None:
    values: list[Expr | None] = []
    lengths: list[float | None] = []
    for arg, parameter in zip(node.args, function.params, strict=False):
        if parameter in WINDOW_PARAMS or parameter == "q":
            lengths.append(_constant_argument(walker, arg, parameter))
        else:
            values.append(_value_argument(walker, arg, parameter))
    if None in values or None in lengths:
        return None
    given = [length for length in lengths if length is not None]
    if function.name == "change" and len(given) == 1:
        given = [given[0] / 4, given[0]]
    given += function.defaults[len(given) :]
    return tuple(value for value in values if value), tuple(given)


def _value_argument(walker: "ExpressionBuilder", node: ast.expr, parameter: str) -> Expr | None:
    """Build one argument that has a value for each entity."""
    bare = bool(dotted_name(node.value if isinstance(node, ast.Subscript) else node))
    if parameter in {"counter", "histogram", "signal"} or (parameter == "any" and bare):
        return _series_argument(walker, node, parameter)
    expr = walker.build(node)
    if expr is None or not walker.require_number(node, expr):
        return None
    return expr if expr.kind else walker.add_problem(node, "a constant", "something that is measured")


def _series_argument(walker: "ExpressionBuilder", node: ast.expr, parameter: str) -> Expr | None:
    expr = walker.build_raw_signal(node)
    if expr is None:
        return None
    kind = walker.context.signals[expr.name].type
    if parameter in {"counter", "histogram"} and kind != parameter:
        rather = "Use mean(x, w)." if parameter == "counter" and kind != "histogram" else ""
        return walker.add_problem(node, f"the {kind} {expr.name}", f"a {parameter}", rather)
    return expr


def _constant_argument(walker: "ExpressionBuilder", node: ast.expr, parameter: str) -> float | None:
    """Returns one constant argument: a length of time in seconds, or a quantile between 0 and 1."""
    expr = walker.build(node)
    if expr is None:
        return None
    wanted = units.SECOND if parameter in WINDOW_PARAMS else units.NUMBER
    most = MAX_WINDOW if parameter in WINDOW_PARAMS else 1.0
    good = expr.op == "number" and expr.dimension == wanted and 0 <= expr.value <= most
    if good and (expr.value > 0 or parameter == "q"):
        return expr.value
    expected = f"a time up to {most:g}*s" if parameter in WINDOW_PARAMS else "a number from 0 to 1"
    walker.add_problem(node, f"{ast.unparse(node)[:40]!r} as {parameter}", expected)
    return None


def _result_dimension(function: RuleFunction, args: tuple[Expr, ...]) -> Dimension:
    if function.result == "same":
        known = [arg for arg in args if arg.op != "number" or arg.dimension or arg.value]
        return (known or list(args))[0].dimension
    if function.result == "per-second":
        return units.product(args[0].dimension, units.SECOND, -1)
    if function.result == "number":
        return units.without_counts(args[0].dimension)
    return {"seconds": units.SECOND, "speed": units.SPEED}.get(function.result, units.NUMBER)


# --- forms


def _window_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    turned = _move_counter_inside(node, function)
    if turned:
        return walker.build(turned)
    found = _check_arguments(walker, node, function)
    if found is None:
        return None
    (arg,), params = found
    return Expr("call", arg.kind, _result_dimension(function, (arg,)), args=(arg,), name=function.name, params=params)


def _move_counter_inside(node: ast.Call, function: RuleFunction) -> ast.Call | None:
    """Returns `front(rate(c, w))` for `rate(front(c), w)`: rates are computed where the counter is."""
    inner = node.args[0]
    if "counter" not in function.params or not isinstance(inner, ast.Call) or len(inner.args) != 1:
        return None
    name = inner.func.id if isinstance(inner.func, ast.Name) else ""
    if name not in FUNCTIONS or FUNCTIONS[name].form not in {"front", "reduce"}:
        return None
    rate = ast.Call(node.func, [inner.args[0], *node.args[1:]], [])
    return ast.copy_location(ast.Call(inner.func, [ast.copy_location(rate, node)], []), node)


def _peer_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    peers = walker.context.peers
    if not function.params:
        return Expr("call", peers.kind, args=_reporting_signals(walker), name=function.name, peers=peers)
    found = _check_arguments(walker, node, function)
    if found is None:
        return None
    arg = found[0][0]
    if arg.kind == peers.kind or contains(arg.kind, peers.kind):
        arg = lift(arg, peers.kind)
    else:
        peers = Peers(arg.kind, PEER_DEFAULTS[arg.kind])
    return Expr("call", arg.kind, _result_dimension(function, (arg,)), args=(arg,), name=function.name, peers=peers)


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
    return Expr("call", target, _result_dimension(function, (arg,)), function.result == "truth", (arg,), function.name)


def _front_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    scope, walker.target_kind = walker.target_kind, "node"
    found = _check_arguments(walker, node, function)
    walker.target_kind = scope
    arg = walker.lift_to_kind(node, found[0][0], "node") if found else None
    if arg is None:
        return None
    if scope not in {"group", "rank", "replica"}:
        return walker.add_problem(node, f"front() for a {scope}", "a rule about ranks, groups or replicas")
    return Expr("call", "replica" if scope == "replica" else "group", arg.dimension, args=(arg,), name="front")


def _topology_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    if function.name == "speed":
        return Expr("call", "port", units.SPEED, name="speed")
    kind = {"rank": "group", "group": "group", "replica": "replica", "pool": "pool"}.get(walker.target_kind)
    if kind is None:
        return walker.add_problem(
            node, f"size() for a {walker.target_kind}", "a rule about ranks, groups, replicas or pools"
        )
    return Expr("call", kind, name="size")


def _plain_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    found = _check_arguments(walker, node, function)
    if found is None:
        return None
    args = found[0]
    if function.name == "log10" and args[0].dimension:
        hint = "Divide it by one of its units first."
        return walker.add_problem(
            node, f"the logarithm of {format_dimension(args[0].dimension)}", "a number without unit", hint
        )
    dimension = _result_dimension(function, args)
    return Expr("call", args[0].kind, dimension, function.result == "truth", args, function.name)


def _pair_call(walker: "ExpressionBuilder", node: ast.Call, function: RuleFunction) -> Expr | None:
    """A function of two numbers of one kind of entity and of one unit; of a ratio, counted things may differ."""
    pair = walker.build_pair(node, node.args[0], node.args[1])
    if pair is None:
        return None
    first, second = pair
    is_quotient = function.result == "one"
    if is_quotient and units.without_counts(first.dimension) != units.without_counts(second.dimension):
        found = f"{format_dimension(first.dimension)} over {format_dimension(second.dimension)}"
        return walker.add_problem(node, found, "units that differ in nothing but what they count")
    if not is_quotient and not walker.require_same_unit(node, first, second):
        return None
    if not (first.kind or second.kind):
        return walker.add_problem(node, "two constants", "a signal on one side")
    if function.alternatives and not (first.kind and second.kind):
        hint = "A constant would hide that the value is missing."
        return walker.add_problem(node, "a constant", "something that is measured", hint)
    kind, dimension = first.kind or second.kind, _result_dimension(function, pair)
    return Expr("call", kind, dimension, args=pair, name=function.name)


_form_builders: Mapping[str, Callable[["ExpressionBuilder", ast.Call, RuleFunction], Expr | None]] = {
    "window": _window_call,
    "baseline": _window_call,
    "peers": _peer_call,
    "reduce": _reduce_call,
    "front": _front_call,
    "plain": _plain_call,
    "pair": _pair_call,
    "topology": _topology_call,
}
