"""Parsing of text to Python's syntax tree, within bounds; nothing is executed, and no function raises."""

import ast
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

MAX_CHARACTERS = 800
MAX_DEPTH = 24
MAX_CACHED = 4096
"""Texts whose syntax is kept: loading asks for that of each text several times."""


@dataclass(frozen=True, slots=True)
class ExpressionProblem:
    """A problem of an expression, and its column (1-based)."""

    column: int
    found: str
    expected: str
    hint: str = ""


@lru_cache(MAX_CACHED)
def parse_syntax(text: str) -> ast.expr | ExpressionProblem:
    """Returns the syntax tree of an expression, not to be changed, or the reason why there is none."""
    if len(text) > MAX_CHARACTERS:
        hint = "Split it into several items of evidence."
        return ExpressionProblem(1, f"{len(text)} characters", f"at most {MAX_CHARACTERS}", hint)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        return ExpressionProblem(max(error.offset or 1, 1), f"no expression ({error.msg})", "an expression")
    except (ValueError, RecursionError, MemoryError) as error:
        return ExpressionProblem(1, f"no expression ({error})", "an expression")
    return (
        ExpressionProblem(1, f"nesting deeper than {MAX_DEPTH}", "a flatter expression") if _is_too_deep(tree) else tree
    )


def _is_too_deep(tree: ast.AST) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def mentioned_lets(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Returns those of the names that a text uses, once per use. Empty if it is no expression."""
    return tuple(name for name in _names(text)[0] if name in names) if names else ()


@lru_cache(MAX_CACHED)
def _names(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Returns (names outside subscripts, once per use; dotted names and their inner parts) of a text.

    Empty if it is no expression.
    """
    tree = parse_syntax(text)
    if isinstance(tree, ExpressionProblem):
        return (), frozenset()
    nodes = list(ast.walk(tree))
    words = {id(part) for node in nodes if isinstance(node, ast.Subscript) for part in ast.walk(node.slice)}
    plain = (node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in words)
    dotted = (dotted_name(node) for node in nodes if isinstance(node, ast.Attribute))
    return tuple(plain), frozenset(filter(None, dotted))


def mentioned_signals(text: str, lets: Mapping[str, Collection[str]] | None = None) -> tuple[str, ...]:
    """Returns the dotted names in a text, which are the signals that it reads; each once, in order.

    Empty if the text is no expression. `lets` has the signals of each let that the text may use.
    """
    found = set(_names(text)[1])
    for name in mentioned_lets(text, lets or {}):
        found.update((lets or {})[name])
    # The inner parts of a.b.c are attributes too: keep only the longest.
    return tuple(sorted(n for n in found if not any(other.startswith(n + ".") for other in found)))


def dotted_name(node: ast.AST) -> str:
    """Returns a dotted name as written; '' for any other node."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) and parts else ""


def parse_subscripts(node: ast.Subscript) -> tuple[str, ...] | None:
    """Returns the subscripts, sorted, each once, without `any`. None if one is not a word."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    found = [_parse_subscript(part) for part in parts]
    return tuple(sorted({word for word in found if word != "any"})) if all(found) else None


def _parse_subscript(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int) and not isinstance(node.value, bool):
        return str(node.value)[:64]
    return ""
