"""Cases that run side by side, and how they went."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from skewscope.engine.casetest.case_data import START_TIME, CaseData, iter_blocks
from skewscope.engine.ingest.feed import Block, SeriesTable
from skewscope.engine.model.arrays import F64, Mask
from skewscope.engine.model.incident import SEVERITIES
from skewscope.engine.model.topology import Topology, merge_topologies
from skewscope.engine.model.verdict import UNKNOWN, RuleVerdict, Truth
from skewscope.kb.model import Catalogue
from skewscope.rules.case_file import ExpectedAlert, RuleCase
from skewscope.rules.model import Rule


@dataclass
class _Outcome:
    """The verdicts of the rule on each entity in the course of a case."""

    fired: dict[str, float] = field(default_factory=dict)
    cleared: dict[str, float] = field(default_factory=dict)
    severity: dict[str, int] = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)


class _OutcomeRecorder:
    """The verdicts of one rule so far: when each entity first fired and last cleared, and the worst severity."""

    def __init__(self, graded: Mask) -> None:
        """Begins before the first tick; severities are kept of entities that are `graded`."""
        size = len(graded)
        self._graded = graded
        self._fired, self._cleared = np.full(size, np.nan), np.full(size, np.nan)
        self._severity, self._state = np.zeros(size, np.int8), np.zeros(size, np.int8)
        self._snapshots: dict[float, tuple[F64, F64, Truth, Truth]] = {}

    def record(self, at: float, verdict: RuleVerdict, *, keep: bool) -> None:
        """Record a verdict after `at` seconds; with `keep` the state at that time can be restored later."""
        firing = verdict.firing
        self._fired[firing & np.isnan(self._fired)] = at
        self._cleared[firing] = np.nan
        if len(who := np.flatnonzero(firing & self._graded)):
            self._severity[who] = np.maximum(self._severity[who], verdict.evidence_of(who).severity)
        self._cleared[~firing & ~np.isnan(self._fired) & np.isnan(self._cleared)] = at
        self._state = verdict.state
        if keep:
            self._snapshots[at] = self._fired.copy(), self._cleared.copy(), self._severity.copy(), self._state.copy()

    def is_wrong(self, at: float, expected: tuple[F64, F64, F64]) -> bool:
        """Whether an entity fired too soon or late, or has not fired in time when `at` seconds have passed.

        `expected` are seconds [entity]: after which and by which it fires, and at which its case ends.
        """
        fired, (after, by, ends) = self._fired, expected
        untimely = ((fired < after) | (fired > by)) & (fired <= ends)
        return bool((untimely | (np.isnan(fired) & (by < at) & (at <= ends))).any())

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


class CaseDetector(Protocol):
    """What judges rules."""

    def entity_names(self, rule: str) -> tuple[str, ...]:
        """The entities that a rule judges, in the order of its verdicts."""

    def judge_samples(self, t: float, block: Block, table: SeriesTable) -> list[RuleVerdict]:
        """The verdicts of the tick that ends at `t`."""

    def leave_out(self, rule: str) -> None:
        """Judges a rule no longer."""


DetectorFactory = Callable[[Sequence[Rule], Catalogue, Topology, float], CaseDetector]


def group_alike(cases: Sequence[RuleCase]) -> list[list[int]]:
    """The positions of cases that are sampled alike: they may share the slots of windows."""
    alike: dict[object, list[int]] = {}
    for n, case in enumerate(cases):
        alike.setdefault(_sampling_key(case), []).append(n)
    return list(alike.values())


def prepare(cases: Iterable[RuleCase], catalogue: Catalogue) -> list[CaseData]:
    """Returns the telemetry of cases that run side by side."""
    table = SeriesTable()
    return [CaseData(case, catalogue, table, f"{n}|") for n, case in enumerate(cases)]


def _sampling_key(case: RuleCase) -> object:
    """Slots of windows follow how often most are sampled."""
    return case.tick, tuple(sorted({piece.every for given in case.inputs for piece in given.segments}))


class SideBySide:
    """Some rules on cases that are sampled alike, which are fleets of one topology.

    What a rule costs is mostly the number of ticks, hardly that of entities.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        scripts: Sequence[CaseData],
        catalogue: Catalogue,
        build: Callable[..., CaseDetector],
    ) -> None:
        """Takes what `prepare` returns, or a part; `build` makes the detector, as `RuleDetector` does."""
        self._table, self._tick = scripts[0].table, scripts[0].case.tick
        self.rules, self.scripts = rules, scripts
        self.wrong = [(*script.problems, *_unknown_entities(script, rules[0])) for script in self.scripts]
        """By case, what prevents that it is run."""
        self.sound = [script for script, faults in zip(self.scripts, self.wrong, strict=True) if not faults]
        topology = merge_topologies(script.topology for script in self.sound)
        self.detector = build(rules, catalogue, topology, self._tick)
        self._names = self.detector.entity_names(rules[0].id)
        places = [self._expected_alert(name) for name in self._names]
        graded = np.array([alert is not None and alert.severity != "" for _, alert in places], bool)
        self.notes = {rule.id: _OutcomeRecorder(graded) for rule in rules}
        after = np.array([np.inf if alert is None else alert.after - 1e-9 for _, alert in places])
        by = np.array([np.inf if alert is None else alert.by + 1e-9 for _, alert in places])
        self._times = after, by, np.array([script.duration for script, _ in places])
        self._ends = {script.duration for script in self.sound}

    def _expected_alert(self, name: str) -> tuple[CaseData, ExpectedAlert | None]:
        script = next(script for script in self.scripts if name.startswith(script.prefix))
        return script, next((alert for alert in script.case.expected if alert.at == script.case_name(name)), None)

    def ticks(self) -> Iterator[tuple[float, Block]]:
        """Returns the samples of each tick, with the seconds since the beginning."""
        for n, block in enumerate(iter_blocks(self.sound, self._tick)):
            yield n * self._tick, block

    def step(self, passed: float, block: Block) -> None:
        """Judges a tick."""
        for verdict in self.detector.judge_samples(START_TIME + passed, block, self._table):
            self.notes[verdict.rule].record(passed, verdict, keep=passed in self._ends)

    def find_failures(self) -> list[list[tuple[str, ...]]]:
        """Returns by case what each rule gets wrong."""
        for passed, block in self.ticks():
            self.step(passed, block)
        pairs = zip(self.scripts, self.wrong, strict=True)
        return [[faults or self._compare(script, rule.id) for rule in self.rules] for script, faults in pairs]

    def is_wrong(self, rule: str, at: float) -> bool:
        """Whether a rule has gone wrong by a tick, whatever comes after it: in a case that has ended, or before."""
        if self.notes[rule].is_wrong(at, self._times):
            return True
        return any(self._compare(script, rule) for script in self.sound if script.duration == at)

    def _compare(self, script: CaseData, rule: str) -> tuple[str, ...]:
        return tuple(_compare_outcome(script.case, self.notes[rule].outcome(script, self._names)))


def _unknown_entities(script: CaseData, rule: Rule) -> Iterator[str]:
    case, known = script.case, script.entities.numbers[rule.scope]
    for name in (*(firing.at for firing in case.expected), *(case.unknown or ())):
        if script.entity_name(rule.scope, name) not in known:
            yield f"expects something of {name!r}, which is no {rule.scope} of the case"


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
