"""Expressions of evidence as text: for people, and which signals decide them. Pure; any text is taken.

The text of an item is its expression, followed by the definitions of its lets: `a > b where a = ...; b = ...`.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from skewscope.rules.model import DEFINITIONS_MARK
from skewscope.rules.parsing import ExpressionProblem, dotted_name, parse_syntax

_QUANTITY = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) ?\* ?([A-Za-z]\w*(?:/[A-Za-z]\w*)?)(?![\w.(\[])")
"""A number times a unit; a number times a signal, a function or a let is not a quantity."""
PEER_DIFFERENCE = "peer_excess"
"""Function whose value is the difference between an entity and its peers, in the unit of its signal."""


def split_definitions(text: str) -> tuple[str, dict[str, str]]:
    """Returns the expression, and the definition of each of its lets."""
    expression, _, definitions = text.partition(DEFINITIONS_MARK)
    parts = (part.partition(" = ") for part in definitions.split("; ") if part)
    return expression, {name: definition for name, _, definition in parts}


def format_expression(text: str) -> str:
    """Returns a readable expression with its lets: `lag > 4s`, or `lag > 0.5 * limit where limit = 8s`."""
    expression, lets = split_definitions(text)

    def format_quantity(found: re.Match[str]) -> str:
        number, unit = found.groups()
        if unit.partition("/")[0] in lets:
            return found[0]
        unit = "%" if unit == "percent" else unit
        return f"{number}{unit}" if len(unit) <= 2 else f"{number} {unit}"

    meanings = "; ".join(f"{name} = {_QUANTITY.sub(format_quantity, meaning)}" for name, meaning in lets.items())
    return _QUANTITY.sub(format_quantity, expression) + (f"{DEFINITIONS_MARK}{meanings}" if meanings else "")


def decisive_signals(text: str) -> tuple[str, ...]:
    """Returns the signals that the first comparison measures, in order; all signals where nothing is compared."""
    expression, definitions = split_definitions(text)
    lets = {name: tree for name, meaning in definitions.items() if (tree := _parse(meaning)) is not None}
    tree = _parse(expression)
    if tree is None:
        return ()
    side = _decisive_side(tree, lets)
    return _signals(tree if side is None else side, lets)


def is_difference_from_peers(text: str) -> bool:
    """Returns whether the first comparison measures how far an entity is from its peers."""
    expression, definitions = split_definitions(text)
    lets = {name: tree for name, meaning in definitions.items() if (tree := _parse(meaning)) is not None}
    tree = _parse(expression)
    side = _decisive_side(tree, lets) if tree is not None else None
    calls = (node.func for node in _walk(side, lets) if isinstance(node, ast.Call)) if side is not None else ()
    return any(isinstance(name, ast.Name) and name.id == PEER_DIFFERENCE for name in calls)


def decisive_function(text: str) -> str:
    """Returns the outermost function of what the first comparison measures, '' where that is a bare signal."""
    expression, definitions = split_definitions(text)
    lets = {name: tree for name, meaning in definitions.items() if (tree := _parse(meaning)) is not None}
    tree = _parse(expression)
    side = _decisive_side(tree, lets) if tree is not None else None
    while isinstance(side, ast.Name) and side.id in lets:
        side = lets.pop(side.id)
    return side.func.id if isinstance(side, ast.Call) and isinstance(side.func, ast.Name) else ""


def functions_of(text: str) -> frozenset[str]:
    """Returns the names of all functions that an expression and its lets use."""
    expression, definitions = split_definitions(text)
    trees = (_parse(part) for part in (expression, *definitions.values()))
    calls = (node for tree in trees if tree is not None for node in _walk(tree, {}) if isinstance(node, ast.Call))
    return frozenset(call.func.id for call in calls if isinstance(call.func, ast.Name))


def _decisive_side(tree: ast.expr, lets: Mapping[str, ast.expr]) -> ast.expr | None:
    """Returns the side of the first comparison that is measured, None where nothing is compared."""
    for node in _walk(tree, lets):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                if _signals(side, lets):
                    return side
    return None


def all_signals(text: str) -> tuple[str, ...]:
    """Returns the signals of an expression and its lets, each once."""
    expression, definitions = split_definitions(text)
    trees = (_parse(part) for part in (expression, *definitions.values()))
    return tuple(dict.fromkeys(name for tree in trees if tree is not None for name in _signals(tree, {})))


def _parse(text: str) -> ast.expr | None:
    tree = parse_syntax(text)
    return None if isinstance(tree, ExpressionProblem) else tree


def _signals(tree: ast.expr, lets: Mapping[str, ast.expr]) -> tuple[str, ...]:
    """Returns the ids of the signals from left to right, each once."""
    return tuple(dict.fromkeys(name for node in _walk(tree, lets) if (name := dotted_name(node))))


def _walk(tree: ast.expr, lets: Mapping[str, ast.expr]) -> Iterator[ast.expr]:
    """Yields the nodes from left to right, with the definition of each let where it first occurs.

    Subscripts, names of functions and the parts of a signal's id are omitted.
    """
    unvisited = dict(lets)
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr):
            yield node
        parts: Iterable[ast.AST] = () if isinstance(node, ast.Attribute) else ast.iter_child_nodes(node)
        if isinstance(node, ast.Name):
            parts = [unvisited.pop(node.id)] if node.id in unvisited else []
        elif isinstance(node, ast.Subscript):
            parts = [node.value]
        elif isinstance(node, ast.Call):
            parts = node.args
        stack += reversed(list(parts))
