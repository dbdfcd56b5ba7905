"""From text to Python's syntax tree, within bounds; nothing is executed, and nothing raises."""

import ast
import warnings
from dataclasses import dataclass

MOST_CHARACTERS = 800
MOST_DEPTH = 24


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in an expression, and at which column (1-based)."""

    column: int
    found: str
    expected: str
    hint: str = ""


def parsed(text: str) -> ast.expr | Fault:
    """The syntax tree of an expression, or why there is none."""
    if len(text) > MOST_CHARACTERS:
        hint = "Split it into several items of evidence."
        return Fault(1, f"{len(text)} characters", f"at most {MOST_CHARACTERS}", hint)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        return Fault(max(error.offset or 1, 1), f"no expression ({error.msg})", "an expression")
    except (ValueError, RecursionError, MemoryError) as error:
        return Fault(1, f"no expression ({error})", "an expression")
    return Fault(1, f"nesting deeper than {MOST_DEPTH}", "a flatter expression") if _deep(tree) else tree


def _deep(tree: ast.AST) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(MOST_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def mentioned(text: str) -> tuple[str, ...]:
    """The dotted names in a text, each once, in order: signals it would read. Empty where it is no expression."""
    tree = parsed(text)
    if isinstance(tree, Fault):
        return ()
    found = {name for node in ast.walk(tree) if (name := dotted(node))}
    # The inner parts of a.b.c are attributes too: keep only the longest.
    return tuple(sorted(n for n in found if not any(other.startswith(n + ".") for other in found)))


def dotted(node: ast.AST) -> str:
    """`wire.onset_lag` as written; '' for what is no dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) and parts else ""


def words(node: ast.Subscript) -> tuple[str, ...] | None:
    """The subscripts, sorted and each once; `any` says nothing and is left out. None where one is no word."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    found = [_word(part) for part in parts]
    return tuple(sorted({word for word in found if word != "any"})) if all(found) else None


def _word(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int) and not isinstance(node.value, bool):
        return str(node.value)[:64]
    return ""
