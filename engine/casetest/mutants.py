"""Rules changed a little in each place, to see whether their cases would notice.

A case that no change to the rule can fail tests nothing. The changes are those of mutation testing (DeMillo, Lipton
and Sayward, 1978): a constant moved by a quarter, a comparison turned round, a term or an item left out. The number one
counts as a unit and stays.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from skewscope.engine.casetest.case_runner import find_failures
from skewscope.kb.model import Catalogue
from skewscope.rules.case_file import CaseFile, RuleCase
from skewscope.rules.expression import Expr
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.model import EvidenceItem, Rule

CONSTANT_FACTORS = (1.25, 0.75)
MEMORY_EPSILON = 1e-10
INVERTED_COMPARISONS = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed rule."""

    rule: Rule
    change: str
    """What was changed, in words."""


def find_survivors(rules: Mapping[str, Rule], cases: Iterable[CaseFile], catalogue: Catalogue) -> list[Mutant]:
    """The mutants that no case of their rule notices."""
    files = [file for file in cases if file.rule in rules]
    return [m for file in files for m in select_survivors(generate_mutants(rules[file.rule]), file.cases, catalogue)]


def is_killed(mutant: Mutant, cases: Iterable[RuleCase], catalogue: Catalogue) -> bool:
    """Does any case fail on the changed rule?"""
    return not select_survivors([mutant], cases, catalogue)


def select_survivors(found: Iterable[Mutant], cases: Iterable[RuleCase], catalogue: Catalogue) -> list[Mutant]:
    """Those of one rule's mutants on which no case fails. All of them go through all cases together."""
    changed = list(found)
    apart = [_isolate_rule(mutant.rule, n) for n, mutant in enumerate(changed)]
    told = find_failures(apart, list(cases), catalogue) if changed else []
    return [mutant for n, mutant in enumerate(changed) if not any(faults[n] for faults in told)]


def _isolate_rule(rule: Rule, n: int) -> Rule:
    """The rule under a name of its own and with baselines of its own: what others suspect is none of its business."""
    evidence = tuple(replace(item, when=_isolate_expr(item.when, n)) for item in rule.evidence)
    applies, impact = (expr and _isolate_expr(expr, n) for expr in (rule.applies_when, rule.impact))
    return replace(rule, id=f"{rule.id}-{n}", evidence=evidence, applies_when=applies, impact=impact)


def _isolate_expr(expr: Expr, n: int) -> Expr:
    """The expression with every memory shorter by nothing that matters, so that it is no other expression's."""
    args = tuple(_isolate_expr(arg, n) for arg in expr.args)
    if expr.op == "call" and FUNCTIONS[expr.name].form == "baseline":
        return replace(expr, args=args, params=tuple(length * (1 - n * MEMORY_EPSILON) for length in expr.params))
    return replace(expr, args=args) if args != expr.args else expr


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
