"""Docstrings name what exists: each identifier in backticks is one of the code, of the catalogue or of the language."""

import ast
import builtins
import keyword
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bench.code_measures import parse_sources

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("rules", "engine", "adapters", "tui")
IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
IDENTIFIERS = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)(\(.*\))?")
SIGNALS = frozenset(path.stem for path in (ROOT / "kb" / "signals").glob("*.yaml"))
FOREIGN = frozenset(
    (
        *("health_event.proto", "HealthEvent", "HealthEvents", "concurrent.futures", "hw_counters"),
        *("some_kind.py", "some_name.py", "some_kind", "x_j", "c_i", "_total", "Authorization", "same_rank"),
    )
)
"""Names of other software, of formulas and of examples."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields line and text of the strings that stand alone: docstrings, also of attributes."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.lineno, str(statement.value.value)


def local_names(tree: ast.Module) -> set[str]:
    """Returns every name that a module uses."""
    found: set[str] = set()
    for node in ast.walk(tree):
        for field in ("name", "id", "attr", "arg", "asname"):
            value = getattr(node, field, None)
            found |= set(value.split(".")) if isinstance(value, str) else set()
        found |= set(node.module.split(".")) if isinstance(node, ast.ImportFrom) and node.module else set()
    return found


@cache
def public_names() -> frozenset[str]:
    """Returns the modules, functions, classes, attributes and parameters of all modules, and words in their texts."""
    trees = parse_sources(ROOT)
    found = {part for path in trees for part in path.relative_to(ROOT).with_suffix("").parts} | set(dir(builtins))
    for tree in trees.values():
        texts = {text for _, text in docstrings(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            if isinstance(node, ast.ClassDef | ast.Module):
                targets = [t for s in node.body if isinstance(s, ast.Assign) for t in s.targets]
                targets += [s.target for s in node.body if isinstance(s, ast.AnnAssign)]
                found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in texts:
                found |= set(re.findall(r"\w+", node.value))
    return frozenset(found)


@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.slow
def test_docstrings_name_what_exists(floor):
    missing = []
    for path, tree in parse_sources(ROOT).items():
        if path.relative_to(ROOT).parts[0] != floor:
            continue
        known = local_names(tree) | set(keyword.kwlist) | {"py", "md", "yaml", "json"}
        for line, text in docstrings(tree):
            for token in IN_BACKTICKS.findall(text):
                match = IDENTIFIERS.fullmatch(token)
                if not match or {token, match[1]} & (FOREIGN | SIGNALS):
                    continue
                if set(match[1].split(".")) - known - public_names():
                    missing.append(f"{path.relative_to(ROOT)}:{line} {token}")
    assert not missing
