"""The functions of the rule language, checked: their arguments, the unit and the kind of entity of what they give."""

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from skewscope.kb.problems import nearest
from skewscope.kb.units import Dimension, shown
from skewscope.rules import units
from skewscope.rules.expr import Expr, Peers, lift
from skewscope.rules.functions import FUNCTIONS, WINDOWS, Function
from skewscope.rules.kinds import CONTAINERS, GROUP_LIKE, PEER_DEFAULTS, contains, kind_of
from skewscope.rules.parsing import dotted

if TYPE_CHECKING:
    from skewscope.rules.language import Walker

LONGEST_WINDOW = 3600.0

Arguments = tuple[tuple[Expr, ...], tuple[float, ...]]
"""Those with a value for each entity, then the constant ones."""


def call(walker: "Walker", node: ast.Call) -> Expr | None:
    """A function applied."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    function = FUNCTIONS.get(name)
    if function is None:
        return walker.fault(node, f"an unknown function {name!r}", "a function", nearest(name, FUNCTIONS))
    if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
        return walker.fault(node, "a named or starred argument", _usage(function))
    if not function.least <= len(node.args) <= len(function.params):
        return walker.fault(node, f"{len(node.args)} arguments for {name}", _usage(function))
    return _forms[function.form](walker, node, function)


def _usage(function: Function) -> str:
    return f"{function.name}({', '.join(function.params)})"


# --- arguments


def _arguments(walker: "Walker", node: ast.Call, function: Function) -> Arguments | None:
    values: list[Expr | None] = []
    lengths: list[float | None] = []
    for arg, parameter in zip(node.args, function.params, strict=False):
        if parameter in WINDOWS or parameter == "q":
            lengths.append(_length(walker, arg, parameter))
        else:
            values.append(_value(walker, arg, parameter))
    if None in values or None in lengths:
        return None
    given = [length for length in lengths if length is not None]
    if function.name == "change" and len(given) == 1:
        given = [given[0] / 4, given[0]]
    given += function.defaults[len(given) :]
    return tuple(value for value in values if value), tuple(given)


def _value(walker: "Walker", node: ast.expr, parameter: str) -> Expr | None:
    """One argument that has a value for each entity."""
    bare = bool(dotted(node.value if isinstance(node, ast.Subscript) else node))
    if parameter in {"counter", "histogram", "signal"} or (parameter == "any" and bare):
        return _series(walker, node, parameter)
    expr = walker.build(node)
    if expr is None or not walker.numeric(node, expr):
        return None
    return expr if expr.kind else walker.fault(node, "a constant", "something that is measured")


def _series(walker: "Walker", node: ast.expr, parameter: str) -> Expr | None:
    expr = walker.raw(node)
    if expr is None:
        return None
    kind = walker.setting.signals[expr.name].type
    if parameter in {"counter", "histogram"} and kind != parameter:
        rather = "Use mean(x, w)." if parameter == "counter" and kind != "histogram" else ""
        return walker.fault(node, f"the {kind} {expr.name}", f"a {parameter}", rather)
    return expr


def _length(walker: "Walker", node: ast.expr, parameter: str) -> float | None:
    """One argument that is the same for all: a length of time, or a quantile between 0 and 1."""
    expr = walker.build(node)
    if expr is None:
        return None
    wanted = units.SECOND if parameter in WINDOWS else units.NUMBER
    most = LONGEST_WINDOW if parameter in WINDOWS else 1.0
    good = expr.op == "number" and expr.dim == wanted and 0 <= expr.value <= most
    if good and (expr.value > 0 or parameter == "q"):
        return expr.value
    expected = f"a time up to {most:g}*s" if parameter in WINDOWS else "a number from 0 to 1"
    walker.fault(node, f"{ast.unparse(node)[:40]!r} as {parameter}", expected)
    return None


def _gives(function: Function, args: tuple[Expr, ...]) -> Dimension:
    if function.gives == "same":
        known = [arg for arg in args if arg.op != "number" or arg.dim or arg.value]
        return (known or list(args))[0].dim
    if function.gives == "per-second":
        return units.product(args[0].dim, units.SECOND, -1)
    return {"seconds": units.SECOND, "speed": units.SPEED}.get(function.gives, units.NUMBER)


# --- forms


def _windowed(walker: "Walker", node: ast.Call, function: Function) -> Expr | None:
    turned = _turned(node, function)
    if turned:
        return walker.build(turned)
    found = _arguments(walker, node, function)
    if found is None:
        return None
    (arg,), params = found
    return Expr("call", arg.kind, _gives(function, (arg,)), args=(arg,), name=function.name, params=params)


def _turned(node: ast.Call, function: Function) -> ast.Call | None:
    """`rate(front(c), w)` as `front(rate(c, w))`: a counter is counted where it is, then brought elsewhere."""
    inner = node.args[0]
    if "counter" not in function.params or not isinstance(inner, ast.Call) or len(inner.args) != 1:
        return None
    name = inner.func.id if isinstance(inner.func, ast.Name) else ""
    if name not in FUNCTIONS or FUNCTIONS[name].form not in {"front", "reduce"}:
        return None
    rate = ast.Call(node.func, [inner.args[0], *node.args[1:]], [])
    return ast.copy_location(ast.Call(inner.func, [ast.copy_location(rate, node)], []), node)


def _peers(walker: "Walker", node: ast.Call, function: Function) -> Expr | None:
    peers = walker.setting.peers
    if not function.params:
        return Expr("call", peers.kind, args=_watched(walker), name=function.name, peers=peers)
    found = _arguments(walker, node, function)
    if found is None:
        return None
    arg = found[0][0]
    if arg.kind == peers.kind or contains(arg.kind, peers.kind):
        arg = lift(arg, peers.kind)
    else:
        peers = Peers(arg.kind, PEER_DEFAULTS[arg.kind])
    return Expr("call", arg.kind, _gives(function, (arg,)), args=(arg,), name=function.name, peers=peers)


def _watched(walker: "Walker") -> tuple[Expr, ...]:
    """What `peers()` counts: whether each signal of the rule was ever seen, on the judged kind.

    What is told of several peers together says of none of them that it is heard, unless the rule reads nothing else.
    """
    scope, peers = walker.setting.scope, walker.setting.peers
    together = {peers.by, *CONTAINERS.get(peers.by, ()), "pool", "fleet", *(GROUP_LIKE if scope == "rank" else ())} - {
        scope
    }
    own: list[Expr] = []
    shared: list[Expr] = []
    for name in walker.setting.watched:
        signal = walker.setting.signals.get(name)
        kind = kind_of(signal.entity) if signal else ""
        if kind and (scope in {kind, "fleet"} or "link" not in {kind, scope}):
            seen = Expr("seen", kind, name=name)
            near = kind == scope or contains(kind, scope)
            expr = lift(seen, scope) if near else Expr("call", scope, args=(seen,), name="highest")
            (shared if near and kind in together else own).append(expr)
    return tuple(own or shared)


def _reduce(walker: "Walker", node: ast.Call, function: Function) -> Expr | None:
    found = _arguments(walker, node, function)
    if found is None:
        return None
    arg, target = found[0][0], walker.target
    if arg.kind == target or contains(arg.kind, target):
        hint = f"Leave {function.name}() out."
        return walker.fault(node, f"{function.name}() of what each {target} has one of", f"parts of a {target}", hint)
    if "link" in {arg.kind, target} and target != "fleet":
        return walker.fault(node, f"{function.name}() from {arg.kind} to {target}", "kinds that hold one another")
    return Expr("call", target, _gives(function, (arg,)), function.gives == "truth", (arg,), function.name)


def _front(walker: "Walker", node: ast.Call, function: Function) -> Expr | None:
    scope, walker.target = walker.target, "node"
    found = _arguments(walker, node, function)
    walker.target = scope
    arg = walker.lifted(node, found[0][0], "node") if found else None
    if arg is None:
        return None
    if scope not in {"group", "rank", "replica"}:
        return walker.fault(node, f"front() for a {scope}", "a rule about ranks, groups or replicas")
    return Expr("call", "replica" if scope == "replica" else "group", arg.dim, args=(arg,), name="front")


def _topology(walker: "Walker", node: ast.Call, function: Function) -> Expr | None:
    if function.name == "speed":
        return Expr("call", "port", units.SPEED, name="speed")
    kind = {"rank": "group", "group": "group", "replica": "replica", "pool": "pool"}.get(walker.target)
    if kind is None:
        return walker.fault(node, f"size() for a {walker.target}", "a rule about ranks, groups, replicas or pools")
    return Expr("call", kind, name="size")


def _plain(walker: "Walker", node: ast.Call, function: Function) -> Expr | None:
    args = _two(walker, node) if function.name in {"min", "max"} else (_arguments(walker, node, function) or ((),))[0]
    if not args:
        return None
    if function.name == "log10" and args[0].dim:
        hint = "Divide it by one of its units first."
        return walker.fault(node, f"the logarithm of {shown(args[0].dim)}", "a number without unit", hint)
    kind = args[0].kind or args[-1].kind
    return Expr("call", kind, _gives(function, args), function.gives == "truth", args, function.name)


def _two(walker: "Walker", node: ast.Call) -> tuple[Expr, ...]:
    """The arguments of min and max: of one kind and unit."""
    pair = walker.pair(node, node.args[0], node.args[1])
    if pair is None or not walker.same_unit(node, *pair):
        return ()
    if not any(side.kind for side in pair):
        walker.fault(node, "two constants", "a signal on one side")
        return ()
    return pair


_forms: Mapping[str, Callable[["Walker", ast.Call, Function], Expr | None]] = {
    "window": _windowed,
    "baseline": _windowed,
    "peers": _peers,
    "reduce": _reduce,
    "front": _front,
    "plain": _plain,
    "topology": _topology,
}
