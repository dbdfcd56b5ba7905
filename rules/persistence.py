"""For how long a state has held, at least, when an expression says that it holds: by its windows and ages."""

from skewscope.rules.expression import Expr

SELECTIONS = frozenset({"front", "highest", "lowest", "number_of"})
"""Functions that return one of the values that they are given."""

AGES = frozenset({"age", "standing"})
"""Functions that return how long ago something was seen last."""


def find_persistence(expr: Expr) -> float:
    """Returns for how many seconds the state has held when an expression is yes; 0 where one sample is enough.

    A least value above a limit, a greatest one below it, and a counter that stands, say so of all of their window; an
    age says so of itself.
    """
    expr = _unwrap(expr)
    if expr.op in {"and", "or"}:
        join = max if expr.op == "and" else min
        return join(map(find_persistence, expr.args))
    if expr.op != "compare":
        return 0.0
    high, low = (_unwrap(arg) for arg in (expr.args if expr.name in {">", ">="} else reversed(expr.args)))
    if low.op == "number":
        return _find_window(high, "minimum") or _find_age(high, low.value)
    if high.op == "number":
        return _find_window(low, "maximum") or (_find_window(low, "rate") if high.value <= 0 else 0.0)
    return 0.0


def _unwrap(expr: Expr) -> Expr:
    while expr.op == "lift" or (expr.op == "call" and expr.name in SELECTIONS):
        expr = expr.args[0]
    return expr


def _find_window(expr: Expr, function: str) -> float:
    """Returns the seconds of the window of a call of a function; 0 for another expression."""
    return expr.params[-1] if (expr.op, expr.name) == ("call", function) else 0.0


def _find_age(expr: Expr, limit: float) -> float:
    """Returns a limit that an age exceeds, or what one is older than another one; 0 for another expression."""
    older = _unwrap(expr.args[0]) if (expr.op, expr.name) == ("arith", "-") else expr
    return max(limit, 0.0) if older.op == "call" and older.name in AGES else 0.0
