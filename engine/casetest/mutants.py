"""Mutants of rules: each differs from its rule in one place, and a case of the rule should fail on it.

A case that no change to the rule can fail tests nothing. The changes are those of mutation testing (DeMillo, Lipton
and Sayward, 1978): a constant moved by a quarter, a comparison turned round, a term or an item left out. The number one
counts as a unit and stays.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from skewscope.rules.expression import Expr
from skewscope.rules.model import EvidenceItem, Rule

CONSTANT_FACTORS = (1.25, 0.75)
INVERTED_COMPARISONS = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed rule."""

    rule: Rule
    change: str
    """What was changed, in words."""


def generate_mutants(rule: Rule) -> Iterator[Mutant]:
    """Every mutant of a rule, in the order of its items."""
    for row, item in enumerate(rule.evidence):
        for expr, change in _mutate_expr(item.when):
            yield Mutant(_replace_item(rule, row, replace(item, when=expr)), f"{item.name}: {change}")
        if len(rule.evidence) > 1:
            yield Mutant(_replace_item(rule, row, None), f"{item.name}: left out")


def _replace_item(rule: Rule, row: int, item: EvidenceItem | None) -> Rule:
    return replace(rule, evidence=(*rule.evidence[:row], *([item] if item else ()), *rule.evidence[row + 1 :]))


def _mutate_expr(expr: Expr) -> Iterator[tuple[Expr, str]]:
    """The expression with one constant or one comparison changed."""
    if expr.op == "number" and expr.value not in (0.0, 1.0):
        for factor in CONSTANT_FACTORS:
            changed = replace(expr, value=expr.value * factor)
            yield changed, f"{expr} becomes {changed}"
    if expr.op == "compare" and expr.name in INVERTED_COMPARISONS:
        changed = replace(expr, name=INVERTED_COMPARISONS[expr.name])
        yield changed, f"{expr} becomes {changed}"
    if expr.op in {"and", "or"}:
        yield from _drop_parts(expr)
    for place, arg in enumerate(expr.args):
        for changed, what in _mutate_expr(arg):
            yield replace(expr, args=(*expr.args[:place], changed, *expr.args[place + 1 :])), what


def _drop_parts(expr: Expr) -> Iterator[tuple[Expr, str]]:
    """What was joined, with one part left out."""
    for place, part in enumerate(expr.args):
        left = (*expr.args[:place], *expr.args[place + 1 :])
        yield replace(expr, args=left) if len(left) > 1 else left[0], f"{part} left out"
