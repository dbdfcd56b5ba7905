"""A checked expression of a rule: a tree in which every node has a unit and a kind of entity."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from skewscope.kb.units import Dimension
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.units import NUMBER, unit_suffix


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers of an entity of `kind`: `by` is what they share; groups and networks restrict them."""

    kind: str
    by: str
    groups: tuple[str, ...] = ()
    """Kinds of group that an entity must belong to; empty: any or none."""
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expr:
    """One node of the tree. Numbers are in base units: seconds, bytes, shares of one."""

    op: str
    """number, signal, seen, call, lift, neg, arith, compare, and, or, not."""
    kind: str
    """The kind of entity with one value each; '' for a constant."""
    dimension: Dimension = NUMBER
    is_boolean: bool = False
    args: tuple["Expr", ...] = ()
    name: str = ""
    """The operator, the function, or the signal's id."""
    value: float = 0.0
    params: tuple[float, ...] = ()
    """Windows in seconds, quantiles."""
    subscripts: tuple[str, ...] = ()
    """Subscripts of a signal."""
    peers: Peers | None = None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Trees are keys of many look-ups at every tick: each is hashed once, from the hashes of its parts.
        parts = (self.op, self.kind, self.dimension, self.is_boolean, self.args, self.name)
        object.__setattr__(self, "_hash", hash((*parts, self.value, self.params, self.subscripts, self.peers)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["Expr"], tuple[object, ...]]:
        # Another process hashes text differently, so the tree is rebuilt there.
        return Expr, tuple(getattr(self, name.name) for name in fields(self) if name.init)

    def __str__(self) -> str:
        return format_expression(self)

    def walk(self) -> Iterator["Expr"]:
        """Returns every node, children before parents."""
        found, rest = [], [self]
        while rest:
            node = rest.pop()
            found.append(node)
            rest += node.args
        return reversed(found)

    @property
    def signals(self) -> tuple[str, ...]:
        """Returns the ids of the signals read, each once, in order."""
        return tuple(sorted({node.name for node in self.walk() if node.op in {"signal", "seen"}}))

    def missing_signals(self, there: Collection[str]) -> tuple[str, ...]:
        """Returns the missing signals without which it can never be yes; empty if it can.

        Of alternatives one that can be seen is enough, and so it is to count peers.
        """
        if self.op in {"signal", "seen"}:
            return () if self.name in there else (self.name,)
        found = [arg.missing_signals(there) for arg in self.args]
        enough = self.op == "or" or (self.op == "call" and FUNCTIONS[self.name].alternatives)
        if enough and not all(found):
            return ()
        return tuple(sorted({name for each in found for name in each}))

    def measure(self) -> tuple[int, int]:
        """Returns the number of nodes and of levels; a node that occurs several times counts each time."""
        known: dict[int, tuple[int, int]] = {}

        def measure(expr: "Expr") -> tuple[int, int]:
            if id(expr) not in known:
                parts = [measure(arg) for arg in expr.args]
                known[id(expr)] = 1 + sum(n for n, _ in parts), 1 + max((levels for _, levels in parts), default=0)
            return known[id(expr)]

        return measure(self)

    @property
    def comparisons(self) -> tuple["Expr", ...]:
        """Returns the comparisons that decide it, from left to right."""
        if self.op == "compare":
            return (self,)
        if self.op in {"and", "or", "not"}:
            return tuple(found for arg in self.args for found in arg.comparisons)
        return ()


def number(value: float, dim: Dimension = NUMBER) -> Expr:
    """Build a constant."""
    return Expr("number", "", dim, value=value)


def lift(expr: Expr, kind: str) -> Expr:
    """Assign the value of a whole to each `kind` in it; a constant stays one."""
    if not expr.kind or expr.kind == kind:
        return expr
    return Expr("lift", kind, expr.dimension, expr.is_boolean, (expr,))


def is_zero(expr: Expr) -> bool:
    """Returns whether it is a plain zero, which needs no unit."""
    return expr.op == "number" and expr.value == 0 and not expr.dimension


def value_dimension(args: Sequence[Expr]) -> Dimension:
    """Returns the common dimension of the values of a call; a plain zero takes that of the others."""
    return next((arg.dimension for arg in args if not is_zero(arg)), NUMBER)


_COMPOUND = {"arith", "compare", "and", "or", "not", "neg"}


def format_expression(expr: Expr) -> str:
    """Format an expression as text that parses to the same expression; lifts stay implicit."""
    return _formatters[expr.op](expr)


def _format_operand(expr: Expr) -> str:
    if expr.op == "lift":
        return _format_operand(expr.args[0])
    bare = expr.op not in _COMPOUND and not (expr.op == "number" and (expr.value < 0 or expr.dimension))
    return format_expression(expr) if bare else f"({format_expression(expr)})"


def _format_number(expr: Expr) -> str:
    value = int(expr.value) if expr.value.is_integer() and abs(expr.value) < 1e15 else expr.value
    return f"{value!r}{unit_suffix(expr.dimension)}"


def _format_signal(expr: Expr) -> str:
    words = ", ".join(word if word.isidentifier() else repr(word) for word in expr.subscripts)
    return f"{expr.name}[{words}]" if words else expr.name


def _format_call(expr: Expr) -> str:
    function = FUNCTIONS[expr.name]
    shown = [format_expression(arg) for arg in expr.args] if function.params else []
    units = function.constant_dimensions(value_dimension(expr.args))
    shown += [_format_number(number(value, unit)) for value, unit in zip(expr.params, units, strict=True)]
    return f"{expr.name}({', '.join(shown)})"


def _format_infix(expr: Expr) -> str:
    return f" {expr.name} ".join(_format_operand(arg) for arg in expr.args)


def _format_logic(expr: Expr) -> str:
    return f" {expr.op} ".join(_format_operand(arg) for arg in expr.args)


_formatters: Mapping[str, Callable[[Expr], str]] = {
    "number": _format_number,
    "signal": _format_signal,
    "seen": _format_signal,
    "call": _format_call,
    "lift": lambda e: format_expression(e.args[0]),
    "neg": lambda e: f"-{_format_operand(e.args[0])}",
    "arith": _format_infix,
    "compare": _format_infix,
    "and": _format_logic,
    "or": _format_logic,
    "not": lambda e: f"not {_format_operand(e.args[0])}",
}
