"""Rules changed a little in each place, to see whether their cases would notice.

A case that no change to the rule can fail tests nothing. The changes are those of mutation testing (DeMillo, Lipton
and Sayward, 1978): a constant moved by a quarter, a comparison turned round, a term or an item left out. The number one
counts as a unit and stays.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from skewscope.engine.trial import judged
from skewscope.kb.model import Catalogue
from skewscope.rules.case import Case, CaseFile
from skewscope.rules.expr import Expr
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.model import Evidence, Rule

FACTORS = (1.25, 0.75)
TRIFLE = 1e-10
TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed rule."""

    rule: Rule
    change: str
    """What was changed, in words."""


def survivors(rules: Mapping[str, Rule], cases: Iterable[CaseFile], catalogue: Catalogue) -> list[Mutant]:
    """The mutants that no case of their rule notices."""
    files = [file for file in cases if file.rule in rules]
    return [m for file in files for m in unnoticed(mutants(rules[file.rule]), file.cases, catalogue)]


def noticed(mutant: Mutant, cases: Iterable[Case], catalogue: Catalogue) -> bool:
    """Does any case fail on the changed rule?"""
    return not unnoticed([mutant], cases, catalogue)


def unnoticed(found: Iterable[Mutant], cases: Iterable[Case], catalogue: Catalogue) -> list[Mutant]:
    """Those of one rule's mutants on which no case fails. All of them go through all cases together."""
    changed = list(found)
    apart = [_apart(mutant.rule, n) for n, mutant in enumerate(changed)]
    told = judged(apart, list(cases), catalogue) if changed else []
    return [mutant for n, mutant in enumerate(changed) if not any(faults[n] for faults in told)]


def _apart(rule: Rule, n: int) -> Rule:
    """The rule under a name of its own and with baselines of its own: what others suspect is none of its business."""
    evidence = tuple(replace(item, when=_own(item.when, n)) for item in rule.evidence)
    applies, impact = (expr and _own(expr, n) for expr in (rule.applies_when, rule.impact))
    return replace(rule, id=f"{rule.id}-{n}", evidence=evidence, applies_when=applies, impact=impact)


def _own(expr: Expr, n: int) -> Expr:
    """The expression with every memory shorter by nothing that matters, so that it is no other expression's."""
    args = tuple(_own(arg, n) for arg in expr.args)
    if expr.op == "call" and FUNCTIONS[expr.name].form == "baseline":
        return replace(expr, args=args, params=tuple(length * (1 - n * TRIFLE) for length in expr.params))
    return replace(expr, args=args) if args != expr.args else expr


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
    if expr.op in {"and", "or"}:
        yield from _shorter(expr)
    for place, arg in enumerate(expr.args):
        for changed, what in _exprs(arg):
            yield replace(expr, args=(*expr.args[:place], changed, *expr.args[place + 1 :])), what


def _shorter(expr: Expr) -> Iterator[tuple[Expr, str]]:
    """What was joined, with one part left out."""
    for place, part in enumerate(expr.args):
        left = (*expr.args[:place], *expr.args[place + 1 :])
        yield replace(expr, args=left) if len(left) > 1 else left[0], f"{part} left out"
