"""Runs a rule alone on the telemetry of its cases and compares the verdicts with those expected."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from skewscope.engine.casetest.side_by_side import SideBySide, group_alike, prepare
from skewscope.engine.judge.rule_detector import RuleDetector
from skewscope.kb.model import Catalogue
from skewscope.rules.case_file import CaseFile, RuleCase
from skewscope.rules.model import Rule


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case went; `faults` is empty where it went as it should."""

    rule: str
    case: str
    kind: str
    faults: tuple[str, ...]
    line: int = 0

    @property
    def is_ok(self) -> bool:
        """Whether the rule gave the verdict that the case expects."""
        return not self.faults


def run_cases(rules: Mapping[str, Rule], cases: Iterable[CaseFile], catalogue: Catalogue) -> list[CaseResult]:
    """How every case went, in the order of files and cases; cases of a rule that is not there are passed over."""
    found: list[CaseResult] = []
    for file in cases:
        if rule := rules.get(file.rule):
            told = find_failures(rule, file.cases, catalogue)
            pairs = zip(file.cases, told, strict=True)
            found += [CaseResult(rule.id, case.name, case.kind, faults, case.line) for case, faults in pairs]
    return found


def find_failures(rule: Rule, cases: Sequence[RuleCase], catalogue: Catalogue) -> list[tuple[str, ...]]:
    """What a rule gets wrong in each case."""
    found: list[tuple[str, ...]] = [()] * len(cases)
    for numbers in group_alike(cases):
        scripts = prepare((cases[n] for n in numbers), catalogue)
        told = SideBySide([rule], scripts, catalogue, RuleDetector).find_failures()
        for n, (faults,) in zip(numbers, told, strict=True):
            found[n] = faults
    return found
