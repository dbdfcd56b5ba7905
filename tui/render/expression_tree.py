"""Expressions of evidence as trees ready to be put in words: lets inlined, guards on missing data left out. Pure."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from skewscope.rules.parsing import ExpressionProblem, dotted_name, parse_syntax

MAX_NODES = 600
"""Parts of a tree with its lets inlined; a larger one is not put in words part by part."""
GUARDS = ("known", "complete")
"""Functions that only ask for data."""
OPPOSITES: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


class TreeTooLargeError(LookupError):
    """A tree has too many parts to be put in words."""


def build_tree(expression: str, lets: Mapping[str, str]) -> ast.expr | None:
    """Returns the tree of an expression with its lets inlined; None where the text is no expression.

    Raises:
        TreeTooLargeError: it has too many parts.
    """
    tree = parse_syntax(expression)
    if isinstance(tree, ExpressionProblem):
        return None
    return _drop_guards(_Inliner(lets).inline(tree))


def function_name(node: ast.AST) -> str:
    """Returns the name of the function that is called, '' for anything else."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def signal_ids(node: ast.AST) -> tuple[str, ...]:
    """Returns the ids of the signals from left to right, each once."""
    return tuple(dict.fromkeys(_iter_signals(node)))


def is_missing(node: ast.AST) -> bool:
    """Returns whether a tree asks for data to be missing."""
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and function_name(node.operand) in GUARDS


def _iter_signals(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.expr) and (id_ := dotted_name(node)):
        yield id_
        return
    if isinstance(node, ast.Subscript):
        yield from _iter_signals(node.value)
        return
    for part in ast.iter_child_nodes(node):
        yield from _iter_signals(part)


class _Inliner:
    """Copies a tree with the definition of each let in its place, and each `not` pushed to the comparisons."""

    def __init__(self, lets: Mapping[str, str]) -> None:
        self._lets, self._left = lets, MAX_NODES

    def inline(self, node: ast.expr, *, negate: bool = False) -> ast.expr:
        """Returns the copy of a part."""
        self._left -= 1
        if self._left < 0:
            raise TreeTooLargeError
        if isinstance(node, ast.Name) and node.id in self._lets:
            return self._inline_let(node, negate=negate)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.inline(node.operand, negate=not negate)
        if isinstance(node, ast.BoolOp):
            values = [self.inline(part, negate=negate) for part in node.values]
            is_and = isinstance(node.op, ast.And) != negate
            return _join(ast.And() if is_and else ast.Or(), values)
        if isinstance(node, ast.Compare) and (len(node.ops) == 1 or not negate):
            ops = [OPPOSITES[type(op)]() if negate else op for op in node.ops]
            return ast.Compare(self.inline(node.left), ops, [self.inline(part) for part in node.comparators])
        copy = self._copy(node)
        return ast.UnaryOp(ast.Not(), copy) if negate else copy

    def _inline_let(self, node: ast.Name, *, negate: bool) -> ast.expr:
        tree = parse_syntax(self._lets[node.id])
        return node if isinstance(tree, ExpressionProblem) else self.inline(tree, negate=negate)

    def _copy(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Call):
            return ast.Call(node.func, [self.inline(part) for part in node.args], [])
        if isinstance(node, ast.BinOp):
            return ast.BinOp(self.inline(node.left), node.op, self.inline(node.right))
        if isinstance(node, ast.UnaryOp):
            return ast.UnaryOp(node.op, self.inline(node.operand))
        if isinstance(node, ast.Subscript):
            return ast.Subscript(self.inline(node.value), node.slice, node.ctx)
        return node


def _join(op: ast.boolop, values: Iterable[ast.expr]) -> ast.expr:
    """Returns a conjunction or alternative of parts; those of the same kind are merged into it."""
    flat: list[ast.expr] = []
    for value in values:
        flat += value.values if isinstance(value, ast.BoolOp) and type(value.op) is type(op) else [value]
    return ast.BoolOp(op, flat) if len(flat) > 1 else flat[0]


def _drop_guards(node: ast.expr) -> ast.expr:
    """Returns a tree without the parts of conjunctions that only ask whether there is data, or that never hold."""
    if not isinstance(node, ast.BoolOp):
        return node
    values = [_drop_guards(part) for part in node.values]
    if isinstance(node.op, ast.And):
        values = [part for part in values if not _is_guard(part)] or values
    else:
        values = [part for part in values if not _is_impossible(part)] or values
    return _join(node.op, values)


def _is_guard(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        return all(_is_guard(part) or is_missing(part) for part in node.values)
    return function_name(node) in GUARDS


def _is_impossible(node: ast.expr) -> bool:
    """Returns whether a part compares a rate or a state with less than zero: it is unknown or false, never true."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return any(map(_is_impossible, node.values))
    if not (isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt)):
        return False
    bound, measured = node.comparators[0], node.left
    if isinstance(measured, ast.Call) and function_name(measured) in ("maximum", "minimum") and measured.args:
        measured = measured.args[0]
    never_negative = function_name(measured) == "rate" or bool(dotted_name(measured))
    return never_negative and isinstance(bound, ast.Constant) and bound.value == 0
