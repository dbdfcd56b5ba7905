"""Which changes of a rule no case notices.

A changed rule is judged only in cases where what was changed gives other values than the rule as it is, and only until
it goes wrong in one of them. Cases that last long come last, when most changes have been noticed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from skewscope.engine.casetest.case_data import CaseData
from skewscope.engine.casetest.mutants import Mutant, generate_mutants
from skewscope.engine.casetest.side_by_side import SideBySide, case_number, group_alike, prepare
from skewscope.engine.judge.judge import ROUNDING, RuleAssessment
from skewscope.engine.judge.rule_detector import RuleDetector
from skewscope.engine.judge.transfer import transfer_judge
from skewscope.engine.model.arrays import F64, Mask
from skewscope.engine.model.transfer import match_places
from skewscope.engine.model.verdict import UNKNOWN
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


def is_killed(mutant: Mutant, cases: Iterable[RuleCase], catalogue: Catalogue) -> bool:
    """Does any case fail on the changed rule?"""
    return not select_survivors([mutant], cases, catalogue)


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
    scripts = prepare(cases, catalogue)
    comparison = _Comparison(alive, scripts, catalogue)
    begins = comparison.find_beginnings()
    counts = np.isfinite(begins)
    ends = np.where(counts, [case.duration for case in cases], -np.inf).max(axis=1)
    tried = [
        _Trial(n, alive[n], float(begins[n].min()), float(ends[n])) for n in np.flatnonzero(np.isfinite(ends)).tolist()
    ]
    used = [scripts[n] for n in np.flatnonzero(counts.any(axis=0)).tolist()]
    killed = _find_killed(tried, used, comparison.first_firing, catalogue) if tried else set()
    return [mutant for n, mutant in enumerate(alive) if n not in killed]


# --- from when on a change may show


@dataclass(frozen=True, slots=True)
class _Change:
    """What a mutant changes, as numbers of expressions."""

    row: int
    item: int | None
    """The changed item; None if it is left out."""
    parts: tuple[int, int] | None
    """The smallest part with a truth value, before and after."""
    asks_for_known: bool
    """Whether the item asks what is known: what is not yet may become so."""


class _Comparison:
    """The unchanged rule on some cases, with the values that its mutants would have in its stead.

    As long as the rule would be judged alike with these, the mutant suspects the same entities, and its baselines learn
    the same.
    """

    def __init__(self, mutants: Sequence[Mutant], scripts: Sequence[CaseData], catalogue: Catalogue) -> None:
        rule = mutants[0].original
        also = [after for _, after in (mutant.expressions for mutant in mutants) if after]
        self._run = SideBySide([rule], scripts, catalogue, partial(RuleDetector, also=also))
        self._evaluator, self._judge = self._run.detector.evaluator, self._run.detector.judge_of(rule.id)
        self._changes = {n: change for n, mutant in enumerate(mutants) if (change := self._build_change(mutant))}
        self._case_of = np.array([case_number(name) for name in self._judge.names], np.intp)
        self._ends = np.array([script.duration for script in self._run.scripts])[self._case_of]
        # What is not compared is tried in every case from its beginning.
        self._begins = np.zeros((len(mutants), len(scripts)))
        self._begins[list(self._changes)] = np.inf
        self.first_firing = np.inf
        """Seconds until the rule first fires."""

    def _build_change(self, mutant: Mutant) -> _Change | None:
        """Returns None where something required is left out, or a past is changed, which the rule does not have."""
        before, after = mutant.expressions
        asks = any(node.op == "call" and node.name == "known" for node in before.walk())
        if after is None:
            required = mutant.original.evidence[mutant.row].required
            return None if required else _Change(mutant.row, None, None, asks)
        number_of = self._evaluator.number_of
        if {number_of(node) for node in after.walk()} & {*self._evaluator.baselines} - self._judge.numbers:
            return None
        parts = _smallest_difference(before, after)
        numbers = number_of(parts[0]), number_of(parts[1])
        return _Change(mutant.row, number_of(after), numbers, asks)

    def find_beginnings(self) -> F64:
        """Returns [mutant, case] the seconds from which on it may be judged otherwise than its rule; inf for never."""
        fired, last = self._judge.firing, -1
        for passed, block in self._run.ticks():
            self._run.step(passed, block)
            if last == self._evaluator.step_number and not fired.any():
                continue  # nothing has changed since
            last = self._evaluator.step_number
            with np.errstate(all="ignore"):
                self._compare(passed, fired)
            fired = self._judge.firing
            if fired.any():
                self.first_firing = min(self.first_firing, passed)
        # In a case that the rule itself fails, so does each mutant that is like it.
        fails = [bool(faults) for (faults,) in self._run.collect_failures()]
        self._begins[:, fails] = 0.0
        return self._begins

    def _compare(self, passed: float, fired: Mask) -> None:
        """Notes in which of the cases each change may matter from now on; `fired` is what fired before this tick."""
        found, goes_on = self._judge.assess_all(), self._ends >= passed
        active = goes_on & (fired | self._judge.firing | (found.score >= self._judge.rule.fire.score - ROUNDING))
        for n, change in self._changes.items():
            wanted = goes_on & np.isinf(self._begins[n])[self._case_of]
            if wanted.any():
                self._begins[n, self._case_of[wanted & self._matters(change, found, active & wanted)]] = passed

    def _matters(self, change: _Change, found: RuleAssessment, active: Mask) -> Mask:
        was = found.truth[change.row]
        truth = None if change.item is None else self._judge.truth_of(change.item)
        matters = np.zeros(len(was), bool)
        if truth is None or not np.array_equal(truth, was):
            matters = self._judge.judges_otherwise(found, change.row, truth, active)
        # Which parts of an item are unknown counts while the item is.
        open_ = active & ((was == UNKNOWN) | change.asks_for_known)
        if open_.any() and (not change.parts or not np.array_equal(*map(self._evaluator.value, change.parts))):
            matters = matters | open_
        return matters


def _smallest_difference(before: Expr, after: Expr) -> tuple[Expr, Expr]:
    """Returns the smallest parts with a truth value that hold all that differs."""
    found = before, after
    while (before.op, before.name, len(before.args)) == (after.op, after.name, len(after.args)):
        differing = [pair for pair in zip(before.args, after.args, strict=True) if pair[0] != pair[1]]
        if len(differing) != 1:
            break
        before, after = differing[0]
        found = (before, after) if before.is_boolean else found
    return found


# --- what goes wrong


class _Trial:
    """A mutant, and from when until when it may be judged otherwise than its rule, in seconds."""

    def __init__(self, number: int, mutant: Mutant, begin: float, end: float) -> None:
        self.number, self.begin, self.end = number, begin, end
        self.rule = _isolate_rule(mutant.rule, number + 1)
        self.original = mutant.original


class _MutantDetector(RuleDetector):
    """Judges a rule, and each of its mutants from the tick on at which it may be judged otherwise, until it fails."""

    def begin(self, original: str) -> None:
        """Judges the unchanged rule only; the baselines of its mutants learn as its own do."""
        self._original = self.judge_of(original)
        self._asleep = {judge.rule.id: judge for judge in self._judges if judge is not self._original}
        self._judges = [self._original]
        self._places = match_places(self._original.names, self._original.names)

    def notes_as_original(self, rule: str) -> bool:
        """Whether a mutant that sleeps can take over what the rule noted when it began to fire."""
        return self._asleep[rule].notes_as(self._original)

    def wake(self, rule: str) -> None:
        """Judges a mutant from the next tick on: until now it was judged as the unchanged rule is."""
        judge = self._asleep.pop(rule)
        transfer_judge(judge, self._original, self._places)
        judge.is_busy, judge.wake_time, self._wake = self._original.is_busy, -np.inf, None
        self._judges.append(judge)

    def leave_out(self, rule: str) -> None:
        """Judges a mutant no longer."""
        self._judges = [judge for judge in self._judges if judge.rule.id != rule]

    def _judge_changed(self, t: float, passed: float) -> None:
        self._verdicts = [judge.step(t, passed) for judge in self._judges]
        for verdict in self._verdicts:
            verdict.forget_evidence()
        for judge in self._asleep.values():
            judge.suspicious, judge.suspicion_version = self._original.suspicious, self._original.suspicion_version


def _find_killed(
    tried: Sequence[_Trial], scripts: Sequence[CaseData], first_firing: float, catalogue: Catalogue
) -> set[int]:
    """Returns the numbers of those mutants that fail in a case."""
    original = tried[0].original
    run = SideBySide([original, *(trial.rule for trial in tried)], scripts, catalogue, _MutantDetector)
    if any(run.wrong):
        return {trial.number for trial in tried}
    run.detector.begin(original.id)
    for trial in tried:
        if not run.detector.notes_as_original(trial.rule.id):
            trial.begin = min(trial.begin, first_firing)
    return set(_run_trials(run, {trial.rule.id: trial for trial in tried}))


def _run_trials(run: SideBySide[_MutantDetector], left: dict[str, _Trial]) -> Iterator[int]:
    """Returns the numbers of mutants that fail, as they do."""
    original = run.rules[0].id
    for passed, block in run.ticks():
        for name, trial in left.items():
            if trial.begin == passed:
                run.notes[name].copy_from(run.notes[original])
                run.detector.wake(name)
        run.step(passed, block)
        for name, trial in [(name, trial) for name, trial in left.items() if trial.begin <= passed]:
            fails = run.is_wrong(name, passed)
            if fails:
                yield trial.number
            if fails or passed >= trial.end:
                run.detector.leave_out(name)
                del left[name]
        if not left:
            return


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
