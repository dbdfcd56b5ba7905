"""Rules changed a little in each place, to see whether their cases would notice.

A case that no change to the rule can fail tests nothing. The changes are those of mutation testing (DeMillo, Lipton
and Sayward, 1978): a constant doubled or halved, a comparison turned round, an item left out. The number one counts as
a unit and stays.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from skewscope.engine.trial import run_case
from skewscope.kb.model import Catalogue
from skewscope.rules.case import Case, CaseFile
from skewscope.rules.expr import Expr
from skewscope.rules.model import Evidence, Rule

FACTORS = (2.0, 0.5)
TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
SOONEST = ("boundary", "look-alike", "fires", "quiet", "missing")
"""Kinds of case in the order in which they tend to notice."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed rule."""

    rule: Rule
    change: str
    """What was changed, in words."""


def survivors(rules: Mapping[str, Rule], cases: Iterable[CaseFile], catalogue: Catalogue) -> list[Mutant]:
    """The mutants that no case of their rule notices."""
    files = [file for file in cases if file.rule in rules]
    return [m for file in files for m in mutants(rules[file.rule]) if not noticed(m, file.cases, catalogue)]


def noticed(mutant: Mutant, cases: Iterable[Case], catalogue: Catalogue) -> bool:
    """Does any case fail on the changed rule?"""
    ordered = sorted(cases, key=lambda case: SOONEST.index(case.kind))
    return any(not run_case(mutant.rule, case, catalogue).good for case in ordered)


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Every mutant of a rule, in the order of its items."""
    for row, item in enumerate(rule.evidence):
        for expr, change in _exprs(item.when):
            yield Mutant(_with(rule, row, replace(item, when=expr)), f"{item.name}: {change}")
        if len(rule.evidence) > 1:
            yield Mutant(_with(rule, row, None), f"{item.name}: left out")


def _with(rule: Rule, row: int, item: Evidence | None) -> Rule:
    return replace(rule, evidence=(*rule.evidence[:row], *([item] if item else ()), *rule.evidence[row + 1 :]))


def _exprs(expr: Expr) -> Iterator[tuple[Expr, str]]:
    """The expression with one constant or one comparison changed."""
    if expr.op == "number" and expr.value not in (0.0, 1.0):
        for factor in FACTORS:
            changed = replace(expr, value=expr.value * factor)
            yield changed, f"{expr} becomes {changed}"
    if expr.op == "compare" and expr.name in TURNED:
        changed = replace(expr, name=TURNED[expr.name])
        yield changed, f"{expr} becomes {changed}"
    for place, arg in enumerate(expr.args):
        for changed, what in _exprs(arg):
            yield replace(expr, args=(*expr.args[:place], changed, *expr.args[place + 1 :])), what
