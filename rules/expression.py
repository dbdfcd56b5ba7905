"""An expression of a rule after checking: a tree whose every node knows its unit and the kind of entity it is about."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields

from skewscope.kb.units import Dimension
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.units import NUMBER, unit_suffix


@dataclass(frozen=True, slots=True)
class Peers:
    """With whom an entity of `kind` is compared: `by` what they share, and which take part at all."""

    kind: str
    by: str
    groups: tuple[str, ...] = ()
    """Kinds of group that an entity must belong to; none: all take part."""
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expr:
    """One node of the tree. Numbers are in base units: seconds, bytes, shares of one."""

    op: str
    """number, signal, seen, call, lift, neg, arith, compare, and, or, not."""
    kind: str
    """The kind of entity that it has one value for; '' for a constant."""
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
        # Another process hashes text differently: there the tree is made anew.
        return Expr, tuple(getattr(self, name.name) for name in fields(self) if name.init)

    def __str__(self) -> str:
        return format_expression(self)

    def walk(self) -> Iterator["Expr"]:
        """Every node, children before parents."""
        for arg in self.args:
            yield from arg.walk()
        yield self

    @property
    def signals(self) -> tuple[str, ...]:
        """Ids of the signals read, each once, in order."""
        return tuple(sorted({node.name for node in self.walk() if node.op in {"signal", "seen"}}))

    def missing_signals(self, there: Collection[str]) -> tuple[str, ...]:
        """The signals that keep it from ever being known to hold, with those that are there; none: it can hold.

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
        """Number of nodes and of levels; a node that occurs several times counts each time."""
        known: dict[int, tuple[int, int]] = {}

        def measure(expr: "Expr") -> tuple[int, int]:
            if id(expr) not in known:
                parts = [measure(arg) for arg in expr.args]
                known[id(expr)] = 1 + sum(n for n, _ in parts), 1 + max((levels for _, levels in parts), default=0)
            return known[id(expr)]

        return measure(self)

    @property
    def comparisons(self) -> tuple["Expr", ...]:
        """The comparisons that decide it, from left to right."""
        if self.op == "compare":
            return (self,)
        if self.op in {"and", "or", "not"}:
            return tuple(found for arg in self.args for found in arg.comparisons)
        return ()


def number(value: float, dim: Dimension = NUMBER) -> Expr:
    """A constant."""
    return Expr("number", "", dim, value=value)


def lift(expr: Expr, kind: str) -> Expr:
    """What is true of the whole, told of each `kind` in it; a constant stays one."""
    if not expr.kind or expr.kind == kind:
        return expr
    return Expr("lift", kind, expr.dimension, expr.is_boolean, (expr,))


_COMPOUND = {"arith", "compare", "and", "or", "not", "neg"}


def format_expression(expr: Expr) -> str:
    """The expression as text that reads back as the same expression; what is implicit stays unwritten."""
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
    shown = [format_expression(arg) for arg in expr.args] if FUNCTIONS[expr.name].params else []
    units = FUNCTIONS[expr.name].param_units
    shown += [_format_number(number(value, units[n])) for n, value in enumerate(expr.params)]
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
