"""From samples to verdicts: the panel takes the samples in, each rule is judged, hold and clear times are kept.

Time comes from the ticks alone: the same blocks at the same ticks give the same verdicts, bit by bit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.entities import Entities
from skewscope.engine.evaluate import Evaluator, unit_of
from skewscope.engine.feed import F64, Block, SeriesTable
from skewscope.engine.panel import Panel
from skewscope.engine.topology import Topology
from skewscope.engine.verdict import NO, UNKNOWN, YES, RuleVerdict
from skewscope.kb.model import Catalogue
from skewscope.kb.units import shown
from skewscope.rules.expr import Expr
from skewscope.rules.kinds import contains, kind_of
from skewscope.rules.model import Rule

Derivation = Callable[[float, SeriesTable, F64, F64], Block]
"""New samples from the newest values and times of all series, by number: called each tick before rules are judged."""

ROUNDING = 1e-6
"""Tenths are no binary numbers: sums of weights and of times may miss what they should be by a little."""

Mask = NDArray[np.bool_]
Truth = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Term:
    """One item of evidence, as a report shows it."""

    name: str
    text: str
    unit: str
    """Of the number that `RuleVerdict.values` gives for it, as UCUM writes it."""
    weight: float
    against: bool
    required: bool


@dataclass
class _Clock:
    """For how long something has held on each entity: grows while it does, stands while nobody knows, else zero."""

    held: F64
    before: Mask
    begun: F64

    def step(self, t: float, passed: float, yes: Mask, no: Mask) -> None:
        """Takes in one tick; `passed` is the time since the one before."""
        self.held[yes & self.before] += passed
        self.held[no] = 0.0
        self.begun[no] = np.nan
        self.begun[yes & np.isnan(self.begun)] = t
        self.before = yes


class _Judge:
    """One rule, and what it remembers about each entity it judges."""

    def __init__(self, rule: Rule, entities: Entities, evaluator: Evaluator) -> None:
        self.rule = rule
        self.evaluator = evaluator
        self.entities = entities
        mask = entities.where(rule.scope, rule.where)[: len(entities.names[rule.scope])]
        self.at = np.flatnonzero(mask)
        self.names = tuple(entities.names[rule.scope][n] for n in self.at)
        n = len(self.at)
        self.firing = np.zeros(n, bool)
        self.since = np.full(n, np.nan)
        self.suspicious = np.zeros(n, bool)
        self._rising = _Clock(np.zeros(n), np.zeros(n, bool), np.full(n, np.nan))
        self._falling = _Clock(np.zeros(n), np.zeros(n, bool), np.full(n, np.nan))
        self._began = np.full(n, np.nan)
        self._asked = (*(item.when for item in rule.evidence), *([rule.applies_when] if rule.applies_when else []))
        self._nothing: RuleVerdict | None = None
        self._weight = np.array([item.weight for item in rule.evidence])[:, None]
        self._against = np.array([item.against for item in rule.evidence])[:, None]
        self._required = np.array([item.required for item in rule.evidence])[:, None]

    def step(self, t: float, passed: float) -> RuleVerdict:
        """The verdict of one tick."""
        if self.evaluator.silent(self._asked):
            return self._unknown()
        truth = self._truths()
        known = truth != UNKNOWN
        applies = self._applies()
        score, most = self._scores(truth)
        state = self._state(truth, applies, score, most)
        state[self._warming(t, known.any(axis=0)) & (state != NO)] = UNKNOWN
        self._hold(t, passed, state, self._healthy(truth, applies, most))
        self._suspect(truth, state, score)
        return self._verdict(truth, known, applies, state, score)

    def _unknown(self) -> RuleVerdict:
        """The verdict while nobody ever delivered anything that the rule reads."""
        if self._nothing is None:
            n, items = len(self.at), len(self.rule.evidence)
            self._nothing = RuleVerdict(
                rule=self.rule.id,
                kind=self.rule.scope,
                names=self.names,
                applies=np.ones(n, bool),
                firing=self.firing,
                state=np.zeros(n, np.int8),
                since=self.since,
                score=np.zeros(n, np.float32),
                coverage=np.zeros(n, np.float32),
                evidence=np.zeros((items, n), np.int8),
                values=np.full((items, n), np.nan, np.float32),
                impact=np.full(n, np.nan, np.float32),
                severity=np.zeros(n, np.int8),
            )
        return self._nothing

    def _truths(self) -> Truth:
        rows = [np.asarray(self.evaluator.value(item.when))[self.at] for item in self.rule.evidence]
        return np.stack(rows)

    def _applies(self) -> Truth:
        when = self.rule.applies_when
        return np.full(len(self.at), YES, np.int8) if when is None else self.evaluator.value(when)[self.at]

    def _scores(self, truth: Truth) -> tuple[F64, F64]:
        """The score as known, and the highest that it could be if everything unknown were known."""
        sign = np.where(self._against, -self._weight, self._weight)
        score = (sign * (truth == YES)).sum(axis=0)
        return score, score + (self._weight * ((truth == UNKNOWN) & ~self._against)).sum(axis=0)

    def _state(self, truth: Truth, applies: Truth, score: F64, most: F64) -> Truth:
        needed = np.where(self._required, truth, YES).min(axis=0, initial=YES)
        fire = self.rule.fire.score - ROUNDING
        level = np.where(score >= fire, YES, np.where(most >= fire, UNKNOWN, NO))
        found: Truth = np.minimum(np.minimum(needed, applies), level).astype(np.int8)
        return found

    def _healthy(self, truth: Truth, applies: Truth, most: F64) -> Truth:
        """Whether the rule's clearing holds: YES, NO, or UNKNOWN where that cannot be told."""
        missing = (self._required & (truth == NO)).any(axis=0) | (applies == NO)
        blind = (self._required & (truth == UNKNOWN)).any(axis=0) | (applies == UNKNOWN)
        low = most <= self.rule.clear.score + ROUNDING
        return np.where(missing, YES, np.where(blind, UNKNOWN, np.where(low, YES, NO))).astype(np.int8)

    def _warming(self, t: float, reported: Mask) -> Mask:
        self._began[reported & np.isnan(self._began)] = t
        warm: Mask = t - self._began >= self.rule.warm_up - ROUNDING
        return ~warm

    def _hold(self, t: float, passed: float, state: Truth, healthy: Truth) -> None:
        self._rising.step(t, passed, state == YES, state == NO)
        self._falling.step(t, passed, healthy == YES, healthy == NO)
        starts = (state == YES) & ~self.firing & (self._rising.held >= self.rule.fire.hold - ROUNDING)
        ends = (healthy == YES) & self.firing & (self._falling.held >= self.rule.clear.hold - ROUNDING)
        self.firing = (self.firing | starts) & ~ends
        self.since = np.where(starts, self._rising.begun, np.where(self.firing, self.since, np.nan))

    def _suspect(self, truth: Truth, state: Truth, score: F64) -> None:
        """Who must not teach its baseline: whoever fires, may soon, or shows any evidence that is required."""
        shows = ((truth == YES) & self._required & ~self._against).any(axis=0)
        self.suspicious = self.firing | (state == YES) | shows | (score > self.rule.clear.score)

    def _verdict(self, truth: Truth, known: Mask, applies: Truth, state: Truth, score: F64) -> RuleVerdict:
        values = np.full(truth.shape, np.nan, np.float32)
        if self.suspicious.any():
            # What nobody suspects nobody asks for.
            values = np.stack([self.evaluator.decisive(item.when)[self.at] for item in self.rule.evidence])
        impact = self._impact()
        return RuleVerdict(
            rule=self.rule.id,
            kind=self.rule.scope,
            names=self.names,
            applies=applies != NO,
            firing=self.firing.copy(),
            state=state,
            since=self.since,
            score=score.astype(np.float32),
            coverage=((self._weight * known).sum(axis=0) / self._weight.sum()).astype(np.float32),
            evidence=truth,
            values=np.where(known, values, np.nan).astype(np.float32),
            impact=impact.astype(np.float32),
            severity=self._severity(impact),
        )

    def _impact(self) -> F64:
        if self.rule.impact is None:
            return np.full(len(self.at), np.nan)
        whole = np.broadcast_to(self.evaluator.value(self.rule.impact), (self.entities.count(self.rule.scope),))
        found: F64 = whole[self.at]
        return found

    def _severity(self, impact: F64) -> Truth:
        size = np.abs(impact)
        return ((size >= self.rule.warning).astype(np.int8) + (size >= self.rule.critical)).astype(np.int8)


class Detector:
    """Judges all rules on all entities of a topology, tick by tick."""

    def __init__(
        self,
        rules: Iterable[Rule],
        catalogue: Catalogue,
        topology: Topology,
        tick: float,
        derivations: Sequence[Derivation] = (),
    ) -> None:
        self.rules: Mapping[str, Rule] = {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}
        self.catalogue = catalogue
        self.derivations = tuple(derivations)
        self.entities = Entities(topology)
        wanted = {name for rule in self.rules.values() for name in rule.signals}
        self.panel = Panel(catalogue.signals, self.entities, wanted, tick)
        expressions = (expr for rule in self.rules.values() for expr in rule.expressions)
        self.evaluator = Evaluator(expressions, self.panel, self.entities)
        self._judges = [_Judge(rule, self.entities, self.evaluator) for rule in self.rules.values()]
        self._readers = self._baseline_readers()
        self._t = np.nan

    def step(self, t: float, block: Block, table: SeriesTable) -> list[RuleVerdict]:
        """The verdicts of the tick that ends at `t`, in the order of rule ids."""
        t = float(np.fmax(t, self._t))
        passed = 0.0 if np.isnan(self._t) else t - self._t
        self._t = t
        self._absorb(t, block, table)
        self.evaluator.step(t)
        verdicts = [judge.step(t, passed) for judge in self._judges]
        self.evaluator.learn(self._frozen())
        return verdicts

    def _absorb(self, t: float, block: Block, table: SeriesTable) -> None:
        self.panel.begin(t)
        self.panel.absorb(block, table)
        for derive in self.derivations:
            size = len(table.keys)
            self.panel.absorb(derive(t, table, self.panel.latest[:size], self.panel.times[:size]), table)
        self.panel.settle()

    # --- baselines

    def _baseline_readers(self) -> Mapping[Expr, list[_Judge]]:
        found: dict[Expr, list[_Judge]] = {expr: [] for expr in self.evaluator.baselines}
        for judge in self._judges:
            nodes = {node for expr in judge.rule.expressions for node in expr.walk()}
            for expr, readers in found.items():
                if expr in nodes:
                    readers.append(judge)
        return found

    def _frozen(self) -> Mapping[Expr, Mask]:
        found = {}
        for expr, judges in self._readers.items():
            mask = np.zeros(self.entities.count(expr.kind), bool)
            for judge in judges:
                mask |= self._touched(judge, expr.kind)
            found[expr] = mask
        return found

    def _touched(self, judge: _Judge, kind: str) -> Mask:
        """Entities of a kind that a rule's suspicious ones are, hold, or lie in."""
        scope = judge.rule.scope
        suspicious = np.zeros(self.entities.count(scope) + 1)
        suspicious[judge.at[judge.suspicious]] = 1.0
        if scope == kind:
            return suspicious[:-1] > 0
        if contains(scope, kind):
            return suspicious[self.entities.up(kind, scope)] > 0
        return self.entities.down(scope, kind).reduced(suspicious[:-1], _any) > 0

    # --- for reports

    def names(self, rule: str) -> tuple[str, ...]:
        """The entities that a rule judges, in the order of its verdicts."""
        return next(judge.names for judge in self._judges if judge.rule.id == rule)

    def terms(self, rule: str) -> tuple[Term, ...]:
        """A rule's evidence, in the order of the verdict's rows."""
        return tuple(
            Term(item.name, item.text, shown(unit_of(item.when)), item.weight, item.against, item.required)
            for item in self.rules[rule].evidence
        )

    def signals(self, rule: str) -> tuple[str, ...]:
        """Ids of the signals that a rule reads."""
        return self.rules[rule].signals

    def unseen(self, rule: str, entity: str) -> tuple[str, ...]:
        """Signals of a rule that were never seen on an entity: on it, on what it lies in, or on any of its parts."""
        scope = self.rules[rule].scope
        number = self.entities.numbers[scope].get(entity, -1)
        return tuple(name for name in self.signals(rule) if number < 0 or not self._seen(name, scope)[number])

    def _seen(self, name: str, scope: str) -> Mask:
        rows = self.panel.lay(name).series
        seen: Mask = ~np.isnan(np.fmax.reduce(self.panel.newest(rows), axis=0, initial=np.nan))
        kind = kind_of(self.catalogue.signals[name].entity)
        if kind == scope:
            return seen
        if contains(kind, scope):
            return np.append(seen, False)[self.entities.up(scope, kind)]
        return self.entities.down(kind, scope).reduced(seen.astype(np.float64), _any) > 0


def _any(x: F64) -> F64:
    found: F64 = np.fmax.reduce(x, axis=1)
    return found
