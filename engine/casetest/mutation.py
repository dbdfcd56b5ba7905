"""Which changes of a rule no case notices.

A changed rule is judged only until it goes wrong in a case. Cases that last long come last, when most changes have been
noticed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from skewscope.engine.casetest.mutants import Mutant, generate_mutants
from skewscope.engine.casetest.side_by_side import SideBySide, group_alike, prepare
from skewscope.engine.judge.rule_detector import RuleDetector
from skewscope.kb.model import Catalogue
from skewscope.rules.case_file import CaseFile, RuleCase
from skewscope.rules.expression import Expr
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.model import Rule

MEMORY_EPSILON = 1e-10
"""Relative difference between the baseline memories of two mutants, so that they share no baseline."""
LONGEST = 2.0
"""Cases that run side by side last at most so many times as long as the shortest of them."""


def find_survivors(rules: Mapping[str, Rule], cases: Iterable[CaseFile], catalogue: Catalogue) -> list[Mutant]:
    """The mutants that no case of their rule notices."""
    files = [file for file in cases if file.rule in rules]
    return [m for file in files for m in select_survivors(generate_mutants(rules[file.rule]), file.cases, catalogue)]


def select_survivors(mutants: Iterable[Mutant], cases: Iterable[RuleCase], catalogue: Catalogue) -> list[Mutant]:
    """Those of one rule's mutants on which no case fails."""
    alive = list(mutants)
    for batch in sorted(_batches(list(cases)), key=lambda batch: batch[-1].duration / batch[-1].tick):
        if alive:
            alive = _select_survivors_of_batch(alive, batch, catalogue)
    return alive


def _batches(cases: Sequence[RuleCase]) -> Iterator[list[RuleCase]]:
    """Cases that are sampled alike and last about as long, the shortest first."""
    for numbers in group_alike(cases):
        batch: list[RuleCase] = []
        for case in sorted((cases[n] for n in numbers), key=lambda case: case.duration):
            if batch and case.duration > LONGEST * batch[0].duration:
                yield batch
                batch = []
            batch.append(case)
        yield batch


def _select_survivors_of_batch(alive: list[Mutant], cases: list[RuleCase], catalogue: Catalogue) -> list[Mutant]:
    left = {f"{mutant.rule.id}-{n}": mutant for n, mutant in enumerate(alive)}
    rules = [_isolate_rule(mutant.rule, name, n + 1) for n, (name, mutant) in enumerate(left.items())]
    run = SideBySide(rules, prepare(cases, catalogue), catalogue, RuleDetector)
    if any(run.wrong):
        return []
    for passed, block in run.ticks():
        run.step(passed, block)
        for name in [name for name in left if run.is_wrong(name, passed)]:
            run.detector.leave_out(name)
            del left[name]
        if not left:
            break
    return list(left.values())


def _isolate_rule(rule: Rule, name: str, n: int) -> Rule:
    """The rule under a name of its own and with baselines of its own: what others suspect is none of its business."""
    evidence = tuple(replace(item, when=_isolate_expr(item.when, n)) for item in rule.evidence)
    applies, impact = (expr and _isolate_expr(expr, n) for expr in (rule.applies_when, rule.impact))
    return replace(rule, id=name, evidence=evidence, applies_when=applies, impact=impact)


def _isolate_expr(expr: Expr, n: int) -> Expr:
    """The expression with every memory shorter by nothing that matters, so that it is no other expression's."""
    args = tuple(_isolate_expr(arg, n) for arg in expr.args)
    if expr.op == "call" and FUNCTIONS[expr.name].form == "baseline":
        return replace(expr, args=args, params=tuple(length * (1 - n * MEMORY_EPSILON) for length in expr.params))
    return replace(expr, args=args) if args != expr.args else expr
