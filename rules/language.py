"""The rule language: text in Python's expression syntax, checked into a typed tree. Nothing is ever executed.

Here are names, operators and their agreement in unit and kind; the functions are in `calls.py`, their table in
`functions.py`. How a tree is evaluated is the engine's business.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from skewscope.kb.model import Signal
from skewscope.kb.problems import nearest
from skewscope.kb.units import Dimension, Unit, is_unit, shown, unit
from skewscope.rules import calls, units
from skewscope.rules.expr import Expr, Peers, lift, number
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.kinds import NETWORKS, contains, kind_of
from skewscope.rules.parsing import Fault, dotted, parsed, words

WANTED = {"truth": "a comparison (yes or no)", "share": "a share", "seconds": "a length of time", "number": "a number"}


@dataclass(frozen=True)
class Setting:
    """Where an expression stands: which signals there are, what is judged, its peers, and what `peers()` counts."""

    signals: Mapping[str, Signal]
    scope: str
    peers: Peers
    watched: tuple[str, ...] = ()

    @cached_property
    def units(self) -> Mapping[str, Unit]:
        """Units by the name that an expression calls them."""
        return units.names(frozenset(signal.unit for signal in self.signals.values()))


def compiled(text: str, setting: Setting, wants: str = "truth") -> tuple[Expr | None, tuple[Fault, ...]]:
    """The checked tree of a text about `setting.scope`, and what is wrong with it; None if anything is.

    Args:
        text: what the rule says.
        setting: where it says it.
        wants: truth, share, seconds or number.
    """
    tree = parsed(text)
    if isinstance(tree, Fault):
        return None, (tree,)
    walker = Walker(setting, target=setting.scope)
    expr = walker.top(tree, wants)
    return (None if walker.faults else expr), tuple(walker.faults)


_ARITHMETIC: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


@dataclass
class Walker:
    """Walks a parsed text once; faults collect, and what depends on something faulty is left out."""

    setting: Setting
    target: str
    """The kind of entity to which highest() and its like reduce."""
    faults: list[Fault] = field(default_factory=list)

    def top(self, node: ast.expr, wants: str) -> Expr | None:
        """The whole text, of the type that is wanted, about the judged kind (or a constant)."""
        expr = self.build(node)
        if expr is None:
            return None
        wrong = {"share": units.NUMBER, "seconds": units.SECOND}.get(wants, expr.dim) != expr.dim and not is_zero(expr)
        if wrong or expr.truth != (wants == "truth"):
            found = "yes or no" if expr.truth else f"a number in {shown(expr.dim)}"
            return self.fault(node, found, WANTED[wants])
        return expr if not expr.kind else self.lifted(node, expr, self.setting.scope)

    def build(self, node: ast.expr) -> Expr | None:
        """One node of the text."""
        builder = _builders.get(type(node))
        if builder is None:
            what = type(node).__name__.lower()
            return self.fault(node, f"{what}, which the language does not have", "numbers, signals and functions")
        return builder(self, node)

    def fault(self, node: ast.AST, found: str, expected: str, hint: str = "") -> Expr | None:
        """Nothing in the place of what is wrong at a node, which is remembered."""
        self.faults.append(Fault(getattr(node, "col_offset", 0) + 1, found, expected, hint))
        return None

    # --- leaves

    def constant(self, node: ast.Constant) -> Expr | None:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.fault(node, f"{str(value)[:20]!r}", "a number", "Write comparisons with numbers only.")
        try:
            real = float(value)
        except OverflowError:
            real = math.inf
        return number(real) if math.isfinite(real) else self.fault(node, "a number too large", "a finite number")

    def name(self, node: ast.Name) -> Expr | None:
        found = self.setting.units.get(node.id)
        if found:
            return number(found.factor, found.dimension)
        if node.id in FUNCTIONS:
            return self.fault(node, f"the function {node.id} without its arguments", f"{node.id}(...)")
        known = [*self.setting.units, *FUNCTIONS, *self.setting.signals]
        hint = nearest(node.id, known)
        return self.fault(node, f"an unknown name {node.id!r}", "a unit, a signal or a function", hint)

    def signal(self, node: ast.Attribute | ast.Subscript) -> Expr | None:
        """A signal that has a value of its own."""
        expr = self.raw(node)
        if expr is None:
            return None
        kind = self.setting.signals[expr.name].type
        if kind in {"counter", "histogram"}:
            rather = f"rate({expr.name}, 5*s)" if kind == "counter" else f"bucket_quantile({expr.name}, 0.95, 30*s)"
            return self.fault(node, f"the bare {kind} {expr.name}", "a value", f"Write {rather}.")
        return expr

    def raw(self, node: ast.expr) -> Expr | None:
        """A signal of whatever type, for the functions that read more than its value."""
        name = dotted(node.value if isinstance(node, ast.Subscript) else node)
        signal = self.setting.signals.get(name)
        if signal is None:
            hint = nearest(name, self.setting.signals) if name else ""
            return self.fault(node, f"an unknown signal {name!r}" if name else "no signal", "a signal's id", hint)
        kind = kind_of(signal.entity)
        if not kind or not is_unit(signal.unit):
            found = f"a signal on a {signal.entity!r} in {signal.unit!r}"
            return self.fault(node, found, "an entity and a unit that rules know")
        chosen = self.chosen(node, name) if isinstance(node, ast.Subscript) else ()
        known = unit(signal.unit)
        return Expr("signal", kind, known.dimension, name=name, value=known.factor, words=chosen)

    def chosen(self, node: ast.Subscript, name: str) -> tuple[str, ...]:
        """The subscripts that still say something: a direction that the id already names is left out."""
        found = words(node)
        if found is None:
            self.fault(node.slice, "a subscript that is no word", "words such as tx, east_west, p3")
            return ()
        own = set(re.split(r"[._]", name)) & {"tx", "rx"}
        for word in found:
            if word in {"tx", "rx"} and own and word not in own:
                self.fault(node, f"{name}[{word}]", f"the direction that {name} is about", f"Leave [{word}] out.")
        if sum(word.replace("_", "-") in NETWORKS for word in found) > 1:
            self.fault(node, f"two networks for {name}", "one network")
        return tuple(word for word in found if word not in own)

    # --- operators

    def unary(self, node: ast.UnaryOp) -> Expr | None:
        if isinstance(node.op, ast.Invert):
            return self.fault(node, "the operator ~", "not")
        arg = self.build(node.operand)
        if arg is None:
            return None
        if isinstance(node.op, ast.Not):
            return Expr("not", arg.kind, truth=True, args=(arg,)) if self.truth(node.operand, arg) else None
        if not self.numeric(node.operand, arg):
            return None
        if isinstance(node.op, ast.UAdd):
            return arg
        return number(-arg.value, arg.dim) if arg.op == "number" else Expr("neg", arg.kind, arg.dim, args=(arg,))

    def binary(self, node: ast.BinOp) -> Expr | None:
        sign = _ARITHMETIC.get(type(node.op))
        if sign is None:
            return self.fault(node, f"the operator {type(node.op).__name__.lower()}", "+, -, * or /")
        pair = self.pair(node, node.left, node.right)
        if pair is None or (sign in "+-" and not self.same_unit(node, *pair)):
            return None
        a, b = pair
        dim = either(a, b) if sign in "+-" else units.product(a.dim, b.dim, 1 if sign == "*" else -1)
        if max((abs(power) for _, power in dim), default=0) > 9:
            return self.fault(node, f"a number in {shown(dim)}", "a unit that means something")
        if a.op == b.op == "number":
            return self.folded(node, sign, pair, dim)
        return Expr("arith", a.kind or b.kind, dim, args=pair, name=sign)

    def folded(self, node: ast.AST, sign: str, pair: tuple[Expr, Expr], dim: Dimension) -> Expr | None:
        a, b = pair
        if sign == "/" and b.value == 0:
            return self.fault(node, "a division by zero", "a divisor other than zero")
        value = _folds[sign](a.value, b.value)
        return number(value, dim) if math.isfinite(value) else self.fault(node, "a number too large", "a finite number")

    def compare(self, node: ast.Compare) -> Expr | None:
        operands = [node.left, *node.comparators]
        built = [self.build(operand) for operand in operands]
        parts: list[tuple[ast.AST, Expr]] = []
        for n, op in enumerate(node.ops):
            left, right = built[n], built[n + 1]
            if left is None or right is None:
                continue
            if self.numeric(operands[n], left) and self.numeric(operands[n + 1], right):
                part = self.compared(node, op, (left, right))
                parts += [(node, part)] if part else []
        return self.logic("and", parts) if len(parts) == len(node.ops) else None

    def compared(self, node: ast.AST, op: ast.cmpop, pair: tuple[Expr, Expr]) -> Expr | None:
        sign = _COMPARE.get(type(op))
        if sign is None:
            return self.fault(node, f"the comparison {type(op).__name__.lower()}", "<, <=, >, >=, == or !=")
        sides = self.aligned(node, *pair)
        if sides is None or not self.same_unit(node, *sides):
            return None
        kind = sides[0].kind or sides[1].kind
        if not kind:
            return self.fault(node, "a comparison of two constants", "a signal on one side")
        return Expr("compare", kind, truth=True, args=sides, name=sign)

    def boolean(self, node: ast.BoolOp) -> Expr | None:
        built = [(value, self.build(value)) for value in node.values]
        good = [(value, expr) for value, expr in built if expr is not None and self.truth(value, expr)]
        if len(good) < len(built):
            return None
        return self.logic("and" if isinstance(node.op, ast.And) else "or", good)

    def logic(self, op: str, parts: Sequence[tuple[ast.AST, Expr]]) -> Expr | None:
        """Truths joined, on the smallest of their kinds; the same operator within itself is one."""
        whole = parts[0][1]
        for node, other in parts[1:]:
            pair = self.aligned(node, whole, other)
            if pair is None:
                return None
            whole = pair[0]
        args = tuple(lift(part, whole.kind) for _, part in parts)
        flat = tuple(inner for arg in args for inner in (arg.args if arg.op == op else (arg,)))
        return args[0] if len(args) == 1 else Expr(op, whole.kind, truth=True, args=flat)

    # --- agreement

    def numeric(self, node: ast.AST, expr: Expr) -> bool:
        """Is it a number? If not, that is a fault."""
        if expr.truth:
            self.fault(node, "yes or no", "a number", "Join comparisons with and, or, not.")
        return not expr.truth

    def truth(self, node: ast.AST, expr: Expr) -> bool:
        """Is it yes or no? If not, that is a fault."""
        if not expr.truth:
            self.fault(node, f"a number in {shown(expr.dim)}", "a comparison", "Compare it with a threshold.")
        return expr.truth

    def same_unit(self, node: ast.AST, a: Expr, b: Expr) -> bool:
        """Do both measure the same? Zero does with anything."""
        if a.dim == b.dim or is_zero(a) or is_zero(b):
            return True
        found = f"{shown(a.dim)} beside {shown(b.dim)}"
        self.fault(node, found, "the same unit on both sides", _unit_hint(a, b))
        return False

    def pair(self, node: ast.AST, left: ast.expr, right: ast.expr) -> tuple[Expr, Expr] | None:
        """Two numbers on one kind of entity."""
        a, b = self.build(left), self.build(right)
        if a is None or b is None:
            return None
        return self.aligned(node, a, b) if all([self.numeric(left, a), self.numeric(right, b)]) else None

    def aligned(self, node: ast.AST, a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
        """Both on one kind of entity: the larger lifted to the smaller."""
        if a.kind == b.kind or not a.kind or not b.kind:
            return a, b
        for kind in (a.kind, b.kind, self.target):
            if all(side.kind == kind or contains(side.kind, kind) for side in (a, b)):
                return lift(a, kind), lift(b, kind)
        hint = f"Reduce one of them, for example with highest(...), which gives a value for each {self.target}."
        self.fault(node, f"a value of a {a.kind} beside one of a {b.kind}", "values of one kind of entity", hint)
        return None

    def lifted(self, node: ast.AST, expr: Expr, kind: str) -> Expr | None:
        """The expression on `kind`, where each entity of that kind lies in just one of the expression's."""
        if expr.kind == kind or contains(expr.kind, kind):
            return lift(expr, kind)
        reducers = "highest(), lowest(), total(), average() or middle()"
        at_front = expr.kind == "node" and kind in {"group", "replica"}
        hint = f"Reduce it with {reducers}{', or take the value at its front() end' if at_front else ''}."
        return self.fault(node, f"a value of each {expr.kind}", f"one value of each {kind}", hint)


def is_zero(expr: Expr) -> bool:
    """Is it a plain zero, which needs no unit?"""
    return expr.op == "number" and expr.value == 0 and not expr.dim


def either(a: Expr, b: Expr) -> Dimension:
    """The dimension of what agrees: that of a plain zero is the other's."""
    return b.dim if is_zero(a) else a.dim


def _unit_hint(a: Expr, b: Expr) -> str:
    plain = next((e for e in (a, b) if e.op == "number" and not e.dim), None)
    other = b if plain is a else a
    return f"Write {plain.value:g}{units.suffix(other.dim)}." if plain else ""


_folds: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}

# Each takes the kind of node that it is listed under.
_builders: Mapping[type[ast.expr], Callable[[Walker, Any], Expr | None]] = {
    ast.Constant: Walker.constant,
    ast.Name: Walker.name,
    ast.Attribute: Walker.signal,
    ast.Subscript: Walker.signal,
    ast.UnaryOp: Walker.unary,
    ast.BinOp: Walker.binary,
    ast.Compare: Walker.compare,
    ast.BoolOp: Walker.boolean,
    ast.Call: calls.call,
}
