"""The rule language: text in Python's expression syntax, checked into a typed tree. Nothing is ever executed.

This module checks names, operators and their units and kinds; `calls.py` checks functions, `functions.py` lists them.
The engine evaluates the trees.
"""

import ast
import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from skewscope.kb.latest_cache import cache_latest
from skewscope.kb.model import Signal
from skewscope.kb.problems import suggest_name
from skewscope.kb.units import Dimension, Unit, is_unit, parse_unit
from skewscope.rules import calls, units
from skewscope.rules.entity_kinds import NETWORKS, contains, kind_of
from skewscope.rules.expression import Expr, Peers, is_zero, lift, number, value_dimension
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.parsing import ExpressionProblem, dotted_name, parse_subscripts, parse_syntax

MAX_NODES = 600
"""Nodes of one expression after its lets are expanded."""
MAX_EXPANDED_DEPTH = 32
"""Levels of one expression after its lets are expanded."""
RESERVED_NAMES = frozenset({"any", "tx", "rx", *(network.replace("-", "_") for network in NETWORKS)})
"""Words that stand in subscripts."""

RESULT_TYPES = {
    "truth": "a comparison (yes or no)",
    "share": "a share",
    "seconds": "a length of time",
    "number": "a number",
}


@dataclass(frozen=True)
class ExpressionContext:
    """The context of an expression: signals, the judged kind, its peers, and the signals that `peers()` counts."""

    signals: Mapping[str, Signal]
    scope: str
    peers: Peers
    peer_signals: tuple[str, ...] = ()
    lets: Mapping[str, Expr | None] = field(default_factory=dict)
    """Named sub-expressions that a text may use; None for one that is faulty."""

    @cached_property
    def units(self) -> Mapping[str, Unit]:
        """Returns units by their name in expressions."""
        return _units_of(self.signals)


@cache_latest
def _units_of(signals: Mapping[str, Signal]) -> Mapping[str, Unit]:
    return units.expression_units(frozenset(signal.unit for signal in signals.values()))


@cache_latest
def _first_words(signals: Mapping[str, Signal]) -> frozenset[str]:
    return frozenset(signal.partition(".")[0] for signal in signals)


def compile_expression(
    text: str, setting: ExpressionContext, wants: str = "truth"
) -> tuple[Expr | None, tuple[ExpressionProblem, ...]]:
    """Returns the checked tree of a text about `setting.scope` and its problems; no tree if there are any.

    Args:
        text: the expression.
        setting: its context.
        wants: truth, share, seconds or number.
    """
    tree = parse_syntax(text)
    if isinstance(tree, ExpressionProblem):
        return None, (tree,)
    walker = ExpressionBuilder(setting, target_kind=setting.scope)
    expr = walker.check_expanded_size(tree, walker.build_root(tree, wants))
    return (None if walker.problems else expr), tuple(walker.problems)


def compile_let(name: str, text: str, setting: ExpressionContext) -> tuple[Expr | None, tuple[ExpressionProblem, ...]]:
    """Returns the checked tree of a let, of any unit and kind, and its problems; no tree if there are any.

    Args:
        name: the name under which later expressions use it.
        text: its definition.
        setting: the rule's context, with the lets that stand before it.
    """
    if problem := _check_let_name(name, setting):
        return None, (problem,)
    tree = parse_syntax(text)
    if isinstance(tree, ExpressionProblem):
        return None, (tree,)
    walker = ExpressionBuilder(setting, target_kind=setting.scope)
    expr = walker.check_expanded_size(tree, walker.build(tree))
    return (None if walker.problems else expr), tuple(walker.problems)


def _check_let_name(name: str, setting: ExpressionContext) -> ExpressionProblem | None:
    """Returns the problem of a let whose name would hide another name of the language."""
    taken = {
        "a function": name in FUNCTIONS,
        "a unit": name in setting.units,
        "the first word of a signal": name in _first_words(setting.signals),
        "a word of the language": keyword.iskeyword(name) or name in RESERVED_NAMES,
    }
    what = next((what for what, hidden in taken.items() if hidden), "")
    return ExpressionProblem(1, f"the name {name!r}, which is {what}", "another name") if what else None


_ARITHMETIC_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARISON_SIGNS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


@dataclass
class ExpressionBuilder:
    """Builds a tree in one pass; collects problems and omits what depends on a faulty part."""

    context: ExpressionContext
    target_kind: str
    """The kind of entity to which highest() and its like reduce."""
    problems: list[ExpressionProblem] = field(default_factory=list)

    def build_root(self, node: ast.expr, wants: str) -> Expr | None:
        """Build the whole expression, of the wanted type, about the judged kind (or a constant)."""
        expr = self.build(node)
        if expr is None:
            return None
        wrong = {"share": units.NUMBER, "seconds": units.SECOND}.get(
            wants, expr.dimension
        ) != expr.dimension and not is_zero(expr)
        if wrong or expr.is_boolean != (wants == "truth"):
            found = "yes or no" if expr.is_boolean else units.describe_number(expr.dimension)
            return self.add_problem(node, found, RESULT_TYPES[wants])
        return expr if not expr.kind else self.lift_to_kind(node, expr, self.context.scope)

    def build(self, node: ast.expr) -> Expr | None:
        """Build one node of the text."""
        builder = _node_builders.get(type(node))
        if builder is None:
            what = type(node).__name__.lower()
            return self.add_problem(node, f"{what}, which the language does not have", "numbers, signals and functions")
        return builder(self, node)

    def add_problem(self, node: ast.AST, found: str, expected: str, hint: str = "") -> Expr | None:
        """Record a problem at a node; return None in place of its tree."""
        self.problems.append(ExpressionProblem(getattr(node, "col_offset", 0) + 1, found, expected, hint))
        return None

    def check_expanded_size(self, node: ast.expr, expr: Expr | None) -> Expr | None:
        """Returns the expression unless its lets expand to a tree that is too large or too deep."""
        if expr is None or not self.context.lets:
            return expr
        size, depth = expr.measure()
        if size <= MAX_NODES and depth <= MAX_EXPANDED_DEPTH:
            return expr
        found = f"{size} nodes on {depth} levels once its lets are expanded"
        return self.add_problem(node, found, f"at most {MAX_NODES} on {MAX_EXPANDED_DEPTH}", "Split the item.")

    # --- leaves

    def build_constant(self, node: ast.Constant) -> Expr | None:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.add_problem(node, f"{str(value)[:20]!r}", "a number", "Write comparisons with numbers only.")
        try:
            real = float(value)
        except OverflowError:
            real = math.inf
        return number(real) if math.isfinite(real) else self.add_problem(node, "a number too large", "a finite number")

    def build_name(self, node: ast.Name) -> Expr | None:
        if node.id in self.context.lets:
            return self.context.lets[node.id]
        found = self.context.units.get(node.id)
        if found:
            return number(found.factor, found.dimension)
        if node.id in FUNCTIONS:
            return self.add_problem(node, f"the function {node.id} without its arguments", f"{node.id}(...)")
        known = [*self.context.lets, *self.context.units, *FUNCTIONS, *self.context.signals]
        hint = suggest_name(node.id, known)
        return self.add_problem(node, f"an unknown name {node.id!r}", "a let, a unit, a signal or a function", hint)

    def build_signal(self, node: ast.Attribute | ast.Subscript) -> Expr | None:
        """Build a signal that has a value, and no bare counter or histogram."""
        expr = self.build_raw_signal(node)
        if expr is None:
            return None
        kind = self.context.signals[expr.name].type
        if kind in {"counter", "histogram"}:
            rather = f"rate({expr.name}, 5*s)" if kind == "counter" else f"bucket_quantile({expr.name}, 0.95, 30*s)"
            return self.add_problem(node, f"the bare {kind} {expr.name}", "a value", f"Write {rather}.")
        return expr

    def build_raw_signal(self, node: ast.expr) -> Expr | None:
        """Build a signal of any type, for functions that read more than its value."""
        name = dotted_name(node.value if isinstance(node, ast.Subscript) else node)
        signal = self.context.signals.get(name)
        if isinstance(node, ast.Name) and node.id in self.context.lets:
            hint = "Call the function in the definition of the let."
            return self.add_problem(node, f"the let {node.id!r}, which is a value", "a signal's id", hint)
        if signal is None:
            hint = suggest_name(name, self.context.signals) if name else ""
            return self.add_problem(node, f"an unknown signal {name!r}" if name else "no signal", "a signal's id", hint)
        kind = kind_of(signal.entity)
        if not kind or not is_unit(signal.unit):
            found = f"a signal on a {signal.entity!r} in {signal.unit!r}"
            return self.add_problem(node, found, "an entity and a unit that rules know")
        chosen = self.check_subscripts(node, name) if isinstance(node, ast.Subscript) else ()
        known = parse_unit(signal.unit)
        return Expr("signal", kind, known.dimension, name=name, value=known.factor, subscripts=chosen)

    def check_subscripts(self, node: ast.Subscript, name: str) -> tuple[str, ...]:
        """Returns the subscripts without a direction that the signal's id already names."""
        found = parse_subscripts(node)
        if found is None:
            self.add_problem(node.slice, "a subscript that is no word", "words such as tx, east_west, p3")
            return ()
        own = set(re.split(r"[._]", name)) & {"tx", "rx"}
        for word in found:
            if word in {"tx", "rx"} and own and word not in own:
                self.add_problem(node, f"{name}[{word}]", f"the direction that {name} is about", f"Leave [{word}] out.")
        if sum(word.replace("_", "-") in NETWORKS for word in found) > 1:
            self.add_problem(node, f"two networks for {name}", "one network")
        return tuple(word for word in found if word not in own)

    # --- operators

    def build_unary(self, node: ast.UnaryOp) -> Expr | None:
        if isinstance(node.op, ast.Invert):
            return self.add_problem(node, "the operator ~", "not")
        arg = self.build(node.operand)
        if arg is None:
            return None
        if isinstance(node.op, ast.Not):
            return (
                Expr("not", arg.kind, is_boolean=True, args=(arg,)) if self.require_boolean(node.operand, arg) else None
            )
        if not self.require_number(node.operand, arg):
            return None
        if isinstance(node.op, ast.UAdd):
            return arg
        return (
            number(-arg.value, arg.dimension)
            if arg.op == "number"
            else Expr("neg", arg.kind, arg.dimension, args=(arg,))
        )

    def build_binary(self, node: ast.BinOp) -> Expr | None:
        sign = _ARITHMETIC_SIGNS.get(type(node.op))
        if sign is None:
            return self.add_problem(node, f"the operator {type(node.op).__name__.lower()}", "+, -, * or /")
        pair = self.build_pair(node, node.left, node.right)
        if pair is None or (sign in "+-" and not self.require_same_unit(node, *pair)):
            return None
        a, b = pair
        dim = (
            value_dimension(pair) if sign in "+-" else units.product(a.dimension, b.dimension, 1 if sign == "*" else -1)
        )
        if max((abs(power) for _, power in dim), default=0) > 9:
            return self.add_problem(node, units.describe_number(dim), "a unit that means something")
        if a.op == b.op == "number":
            return self.fold_constants(node, sign, pair, dim)
        return Expr("arith", a.kind or b.kind, dim, args=pair, name=sign)

    def fold_constants(self, node: ast.AST, sign: str, pair: tuple[Expr, Expr], dim: Dimension) -> Expr | None:
        a, b = pair
        if sign == "/" and b.value == 0:
            return self.add_problem(node, "a division by zero", "a divisor other than zero")
        value = _constant_operations[sign](a.value, b.value)
        return (
            number(value, dim)
            if math.isfinite(value)
            else self.add_problem(node, "a number too large", "a finite number")
        )

    def build_comparison_chain(self, node: ast.Compare) -> Expr | None:
        operands = [node.left, *node.comparators]
        built = [self.build(operand) for operand in operands]
        parts: list[tuple[ast.AST, Expr]] = []
        for n, op in enumerate(node.ops):
            left, right = built[n], built[n + 1]
            if left is None or right is None:
                continue
            if self.require_number(operands[n], left) and self.require_number(operands[n + 1], right):
                part = self.build_comparison(node, op, (left, right))
                parts += [(node, part)] if part else []
        return self.build_logic("and", parts) if len(parts) == len(node.ops) else None

    def build_comparison(self, node: ast.AST, op: ast.cmpop, pair: tuple[Expr, Expr]) -> Expr | None:
        sign = _COMPARISON_SIGNS.get(type(op))
        if sign is None:
            return self.add_problem(node, f"the comparison {type(op).__name__.lower()}", "<, <=, >, >=, == or !=")
        sides = self.align_kinds(node, *pair)
        if sides is None or not self.require_same_unit(node, *sides):
            return None
        kind = sides[0].kind or sides[1].kind
        if not kind:
            return self.add_problem(node, "a comparison of two constants", "a signal on one side")
        return Expr("compare", kind, is_boolean=True, args=sides, name=sign)

    def build_boolean(self, node: ast.BoolOp) -> Expr | None:
        built = [(value, self.build(value)) for value in node.values]
        good = [(value, expr) for value, expr in built if expr is not None and self.require_boolean(value, expr)]
        if len(good) < len(built):
            return None
        return self.build_logic("and" if isinstance(node.op, ast.And) else "or", good)

    def build_logic(self, op: str, parts: Sequence[tuple[ast.AST, Expr]]) -> Expr | None:
        """Join booleans on the smallest of their kinds; a nested operator of the same name is flattened."""
        whole = parts[0][1]
        for node, other in parts[1:]:
            pair = self.align_kinds(node, whole, other)
            if pair is None:
                return None
            whole = pair[0]
        args = tuple(lift(part, whole.kind) for _, part in parts)
        flat = tuple(inner for arg in args for inner in (arg.args if arg.op == op else (arg,)))
        return args[0] if len(args) == 1 else Expr(op, whole.kind, is_boolean=True, args=flat)

    # --- agreement

    def require_number(self, node: ast.AST, expr: Expr) -> bool:
        """Returns whether it is a number; records a problem otherwise."""
        if expr.is_boolean:
            self.add_problem(node, "yes or no", "a number", "Join comparisons with and, or, not.")
        return not expr.is_boolean

    def require_boolean(self, node: ast.AST, expr: Expr) -> bool:
        """Returns whether it is yes or no; records a problem otherwise."""
        if not expr.is_boolean:
            self.add_problem(
                node, units.describe_number(expr.dimension), "a comparison", "Compare it with a threshold."
            )
        return expr.is_boolean

    def require_same_unit(self, node: ast.AST, a: Expr, b: Expr) -> bool:
        """Returns whether both have the same unit; zero has any unit."""
        if a.dimension == b.dimension or is_zero(a) or is_zero(b):
            return True
        found = f"{units.describe_unit(a.dimension)} beside {units.describe_unit(b.dimension)}"
        self.add_problem(node, found, "the same unit on both sides", _unit_hint(a, b))
        return False

    def build_pair(self, node: ast.AST, left: ast.expr, right: ast.expr) -> tuple[Expr, Expr] | None:
        """Build two numbers on one kind of entity."""
        a, b = self.build(left), self.build(right)
        if a is None or b is None:
            return None
        return (
            self.align_kinds(node, a, b) if all([self.require_number(left, a), self.require_number(right, b)]) else None
        )

    def align_kinds(self, node: ast.AST, a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
        """Lift the larger of two kinds of entity to the smaller one."""
        if a.kind == b.kind or not a.kind or not b.kind:
            return a, b
        for kind in (a.kind, b.kind, self.target_kind):
            if all(side.kind == kind or contains(side.kind, kind) for side in (a, b)):
                return lift(a, kind), lift(b, kind)
        hint = f"Reduce one of them, for example with highest(...), which gives a value for each {self.target_kind}."
        self.add_problem(node, f"a value of a {a.kind} beside one of a {b.kind}", "values of one kind of entity", hint)
        return None

    def align_all(self, node: ast.AST, args: Sequence[Expr]) -> tuple[Expr, ...] | None:
        """Lift numbers to the smallest of their kinds; constants stay."""
        whole = args[0]
        for other in args[1:]:
            pair = self.align_kinds(node, whole, other)
            if pair is None:
                return None
            whole = pair[0] if pair[0].kind else pair[1]
        return tuple(lift(arg, whole.kind) for arg in args)

    def lift_to_kind(self, node: ast.AST, expr: Expr, kind: str) -> Expr | None:
        """Lift an expression to `kind`, if each entity of that kind lies in exactly one of the expression's kind."""
        if expr.kind == kind or contains(expr.kind, kind):
            return lift(expr, kind)
        reducers = "highest(), lowest(), total(), average() or middle()"
        at_front = expr.kind == "node" and kind in {"group", "replica"}
        hint = f"Reduce it with {reducers}{', or take the value at its front() end' if at_front else ''}."
        return self.add_problem(node, f"a value of each {expr.kind}", f"one value of each {kind}", hint)


def _unit_hint(a: Expr, b: Expr) -> str:
    plain = next((e for e in (a, b) if e.op == "number" and not e.dimension), None)
    other = b if plain is a else a
    return f"Write {plain.value:g}{units.unit_suffix(other.dimension)}." if plain else ""


_constant_operations: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}

# Each function takes the type of node that it is listed under.
_node_builders: Mapping[type[ast.expr], Callable[[ExpressionBuilder, Any], Expr | None]] = {
    ast.Constant: ExpressionBuilder.build_constant,
    ast.Name: ExpressionBuilder.build_name,
    ast.Attribute: ExpressionBuilder.build_signal,
    ast.Subscript: ExpressionBuilder.build_signal,
    ast.UnaryOp: ExpressionBuilder.build_unary,
    ast.BinOp: ExpressionBuilder.build_binary,
    ast.Compare: ExpressionBuilder.build_comparison_chain,
    ast.BoolOp: ExpressionBuilder.build_boolean,
    ast.Call: calls.build_call,
}
