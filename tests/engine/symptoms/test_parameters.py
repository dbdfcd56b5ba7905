"""The numbers of the detectors: few, each with its basis, and none hidden in the code."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from skewscope.engine.model import parameters

ENGINE = Path(parameters.__file__).parents[1]
FILES = sorted([Path(parameters.__file__), *(ENGINE / "symptoms").glob("*.py")])
MOST_NUMBERS = 40
ORDINARY = {0, 1, 2, 0.5, 100, 1000}
"""Bounds of arithmetic, halves and pairs, and units: per cent, thousands."""
BASES = ("source:", "judgement", "definition", "simulated", "computing:")
"""What a docstring says of where a number is from; the last one is of bounds of memory and processor time."""


def numbers(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node


def named_numbers(path: Path) -> dict[str, str]:
    """Returns the docstrings of the constants of a module that state a number, by name.

    Numbers of rows, which are tuples, and what follows from other numbers have no value of their own.
    """
    body, found = ast.parse(path.read_text()).body, {}
    for statement, following in zip(body, [*body[1:], ast.Pass()], strict=False):
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        is_derived = any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(statement.value))
        if any(numbers(statement.value)) and not is_derived and not isinstance(target, ast.Tuple):
            text = following.value if isinstance(following, ast.Expr) else None
            found[ast.unparse(target)] = str(text.value) if isinstance(text, ast.Constant) else ""
    return found


def hidden_numbers(path: Path) -> list[str]:
    """Returns the numbers in the code of functions that are none of the ordinary ones; numbers of rows are sizes."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    calls = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)]
    sized = [call for call in calls if ast.unparse(call.func) in ("range", "SparseColumns", "np.empty", "np.zeros")]
    sizes = {id(number) for call in sized for number in numbers(call)}
    return [
        f"{path.name}:{number.lineno}: {number.value}"
        for function in functions
        for number in numbers(function)
        if id(number) not in sizes and number.value not in ORDINARY
    ]


def test_there_are_few_numbers():
    """A new one needs two data sets of independent origin, named in its docstring; another one may go instead."""
    found = {f"{path.name}: {name}" for path in FILES for name in named_numbers(path)}
    assert len(found) <= MOST_NUMBERS, sorted(found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_number_states_its_basis(path):
    assert not {name for name, text in named_numbers(path).items() if not any(base in text for base in BASES)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_number_is_hidden_in_the_code(path):
    assert not hidden_numbers(path)


def test_the_length_of_runs_follows_from_the_rate_of_false_findings():
    assert parameters.RUN == 4
    assert pytest.approx(parameters.FALSE_RATE) == parameters.CHANCE**parameters.RUN
