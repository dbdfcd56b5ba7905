"""Runs a rule alone on the telemetry of its cases and compares the verdicts with those expected."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.engine.casetest.case_data import START_TIME, CaseData, iter_blocks
from skewscope.engine.casetest.mutants import Mutant, generate_mutants
from skewscope.engine.ingest.feed import SeriesTable
from skewscope.engine.judge.judge import RuleDetector
from skewscope.engine.model.arrays import F64
from skewscope.engine.model.incident import SEVERITIES
from skewscope.engine.model.topology import merge_topologies
from skewscope.engine.model.verdict import UNKNOWN, RuleVerdict, Truth
from skewscope.kb.model import Catalogue
from skewscope.rules.case_file import CaseFile, ExpectedAlert, RuleCase
from skewscope.rules.expression import Expr
from skewscope.rules.functions import FUNCTIONS
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


@dataclass
class _Outcome:
    """The verdicts of the rule on each entity in the course of a case."""

    fired: dict[str, float] = field(default_factory=dict)
    cleared: dict[str, float] = field(default_factory=dict)
    severity: dict[str, int] = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)


class _OutcomeRecorder:
    """The verdicts of one rule so far: when each entity first fired and last cleared, and the worst severity."""

    def __init__(self, size: int) -> None:
        self._fired, self._cleared = np.full(size, np.nan), np.full(size, np.nan)
        self._severity, self._state = np.zeros(size, np.int8), np.zeros(size, np.int8)
        self._snapshots: dict[float, tuple[F64, F64, Truth, Truth]] = {}

    def record(self, at: float, verdict: RuleVerdict, *, keep: bool) -> None:
        """Record a verdict after `at` seconds; with `keep` the state at that time can be restored later."""
        firing = verdict.firing
        self._fired[firing & np.isnan(self._fired)] = at
        self._cleared[firing] = np.nan
        if firing.any():
            who = np.flatnonzero(firing)
            self._severity[who] = np.maximum(self._severity[who], verdict.evidence_of(who).severity)
        self._cleared[~firing & ~np.isnan(self._fired) & np.isnan(self._cleared)] = at
        self._state = verdict.state
        if keep:
            self._snapshots[at] = self._fired.copy(), self._cleared.copy(), self._severity.copy(), self._state.copy()

    def outcome(self, script: CaseData, names: Sequence[str]) -> _Outcome:
        """The outcome on a case's own entities by its end, among all entities that the rule judges."""
        fired, cleared, severity, state = self._snapshots[script.duration]
        own = [(n, script.case_name(name)) for n, name in enumerate(names) if name.startswith(script.prefix)]
        return _Outcome(
            {name: fired[n] for n, name in own if not np.isnan(fired[n])},
            {name: cleared[n] for n, name in own if not np.isnan(cleared[n])},
            {name: int(severity[n]) for n, name in own},
            {name: int(state[n]) for n, name in own},
        )


def run_cases(rules: Mapping[str, Rule], cases: Iterable[CaseFile], catalogue: Catalogue) -> list[CaseResult]:
    """How every case went, in the order of files and cases; cases of a rule that is not there are passed over."""
    found: list[CaseResult] = []
    for file in cases:
        if rule := rules.get(file.rule):
            told = find_failures([rule], file.cases, catalogue)
            pairs = zip(file.cases, told, strict=True)
            found += [CaseResult(rule.id, case.name, case.kind, faults[0], case.line) for case, faults in pairs]
    return found


def run_case(rule: Rule, case: RuleCase, catalogue: Catalogue) -> CaseResult:
    """How one case went."""
    (((faults,)),) = find_failures([rule], [case], catalogue)
    return CaseResult(rule.id, case.name, case.kind, faults, case.line)


def find_failures(
    rules: Sequence[Rule], cases: Sequence[RuleCase], catalogue: Catalogue
) -> list[list[tuple[str, ...]]]:
    """What each of several rules about one kind of entity gets wrong in each case; the rules' ids differ.

    Cases that are sampled alike are fleets of one topology, judged side by side: what a rule costs is mostly the
    number of ticks, hardly that of entities.
    """
    found: list[list[tuple[str, ...]]] = [[()] * len(rules) for _ in cases]
    alike: dict[object, list[int]] = {}
    for n, case in enumerate(cases):
        alike.setdefault(_sampling_key(case), []).append(n)
    for numbers in alike.values():
        told = _run_side_by_side(rules, [cases[n] for n in numbers], catalogue)
        for n, faults in zip(numbers, told, strict=True):
            found[n] = faults
    return found


def _sampling_key(case: RuleCase) -> object:
    """Cases for which this is the same may share the slots of windows, which follow how often most are sampled."""
    return case.tick, tuple(sorted({piece.every for given in case.inputs for piece in given.segments}))


def _run_side_by_side(
    rules: Sequence[Rule], cases: Sequence[RuleCase], catalogue: Catalogue
) -> list[list[tuple[str, ...]]]:
    table, tick = SeriesTable(), cases[0].tick
    scripts = [CaseData(case, catalogue, table, f"{n}|") for n, case in enumerate(cases)]
    wrong = [(*script.problems, *_unknown_entities(script, rules[0])) for script in scripts]
    sound = [script for script, faults in zip(scripts, wrong, strict=True) if not faults]
    detector = RuleDetector(rules, catalogue, merge_topologies(script.topology for script in sound), tick)
    notes = _run_detector(detector, sound, table, tick)
    found = []
    for script, faults in zip(scripts, wrong, strict=True):
        told = [
            tuple(_compare_outcome(script.case, notes[rule.id].outcome(script, detector.entity_names(rule.id))))
            for rule in rules
            if not faults
        ]
        found.append(told or [faults] * len(rules))
    return found


def _unknown_entities(script: CaseData, rule: Rule) -> Iterator[str]:
    case, known = script.case, script.entities.numbers[rule.scope]
    for name in (*(firing.at for firing in case.expected), *(case.unknown or ())):
        if script.entity_name(rule.scope, name) not in known:
            yield f"expects something of {name!r}, which is no {rule.scope} of the case"


def _run_detector(
    detector: RuleDetector, scripts: Sequence[CaseData], table: SeriesTable, tick: float
) -> dict[str, _OutcomeRecorder]:
    notes = {rule: _OutcomeRecorder(len(detector.entity_names(rule))) for rule in detector.rules}
    ends = {len(script.times) - 1 for script in scripts}
    for n, block in enumerate(iter_blocks(scripts, tick)):
        for verdict in detector.judge_samples(START_TIME + n * tick, block, table):
            notes[verdict.rule].record(n * tick, verdict, keep=n in ends)
    return notes


def _compare_outcome(case: RuleCase, outcome: _Outcome) -> Iterator[str]:
    expected = {firing.at: firing for firing in case.expected}
    for name in sorted(set(outcome.fired) - set(expected)):
        yield f"{name} fires after {outcome.fired[name]:g} s, and should not"
    for name, firing in expected.items():
        yield from _compare_firing(name, firing, outcome)
    for name in sorted(outcome.state) if case.unknown == () else case.unknown or ():
        if outcome.state.get(name) != UNKNOWN:
            yield f"{name} is judged in the end ({outcome.state.get(name)}), and should be unknown"


def _compare_firing(name: str, firing: ExpectedAlert, outcome: _Outcome) -> Iterator[str]:
    at = outcome.fired.get(name)
    if at is None:
        yield f"{name} does not fire"
        return
    if at > firing.by + 1e-9:
        yield f"{name} fires after {at:g} s, later than {firing.by:g} s"
    if at < firing.after - 1e-9:
        yield f"{name} fires after {at:g} s, sooner than {firing.after:g} s"
    if firing.clears_by is not None and outcome.cleared.get(name, np.inf) > firing.clears_by + 1e-9:
        yield f"{name} does not clear by {firing.clears_by:g} s"
    if firing.severity and SEVERITIES[outcome.severity[name]] != firing.severity:
        yield f"{name} is {SEVERITIES[outcome.severity[name]]}, not {firing.severity}"


# --- mutants

MEMORY_EPSILON = 1e-10
"""Relative difference between the baseline memories of two mutants, so that they share no baseline."""


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
