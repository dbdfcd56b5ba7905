"""One rule judged on all entities of its scope: hold and clear times, and what baselines must not learn from.

Most entities are ruled out by the required evidence. Only the others are assessed in full.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skewscope.engine.features.column_statistics import sum_rows
from skewscope.engine.model.arrays import F64, Index, Mask, has_any
from skewscope.engine.model.entities import EntityIndex, EntitySubset
from skewscope.engine.model.verdict import (
    NO,
    UNKNOWN,
    YES,
    EvidenceBatch,
    EvidenceSupport,
    ExpressionValues,
    HoldTimer,
    RuleVerdict,
    Truth,
)
from skewscope.rules.expression import Expr
from skewscope.rules.model import EvidenceItem, Rule

ROUNDING = 1e-6
"""Tenths are no binary numbers: sums of weights and of times may miss what they should be by a little."""


@dataclass(frozen=True, slots=True)
class RuleAssessment:
    """The assessment of k entities: [items, k] and [k]."""

    truth: Truth
    applies: Truth
    score: F64
    max_score: F64
    """The score if all unknown evidence were in favour."""


class Judge:
    """One rule, with its state for each entity that it judges."""

    def __init__(self, rule: Rule, entities: EntityIndex, evaluator: ExpressionValues) -> None:
        self.rule = rule
        self.evaluator = evaluator
        self.entities = entities
        mask = entities.mask_where(rule.scope, rule.where)[: len(entities.names[rule.scope])]
        self.indices = np.flatnonzero(mask)
        self._selector: slice | Index = slice(0, len(self.indices)) if mask.all() else self.indices
        self.names = entities.names_where(rule.scope, rule.where)
        n = self._size = len(self.indices)
        self.firing = np.zeros(n, bool)
        self.since = np.full(n, np.nan)
        self.suspicious = np.zeros(n, bool)
        self._hold_timer, self._clear_timer = HoldTimer(n), HoldTimer(n)
        self._reported_since = np.full(n, np.nan)
        self._all_reported, self._latest_report = False, np.nan
        self._all_no, self._none_firing = np.full(n, NO, np.int8), np.zeros(n, bool)
        self._no_since = np.full(n, np.nan)
        self._t = np.nan
        self._cached_unknown: RuleVerdict | None = None
        self._last_verdict: RuleVerdict | None = None
        self._used: set[int] = set()
        """The expressions on whose values the last verdict rests."""
        self.watched = evaluator.mask_of(())
        """The same as the bits of a number."""
        self._judged_step = -1
        self._plan = -1, True, False
        """(plan of the evaluator, whether no signal of the rule was ever delivered by then, whether it is steady)."""
        self.wake_time = np.inf
        """From this time on the verdict may change although no value does, in seconds."""
        self.is_busy = self._is_held_back = self.is_known = False
        """Whether it fires or may begin to; whether evidence that is not ripe yet keeps it from that; whether it was
        ever yes or no on some entity."""
        self.suspicion_version = 0
        """Grows when other entities are suspicious than before."""
        self._conditions = [evaluator.number_of(item.when) for item in rule.evidence]
        self._applies_when = None if rule.applies_when is None else evaluator.number_of(rule.applies_when)
        self._impact = None if rule.impact is None else evaluator.number_of(rule.impact)
        self._level = None if rule.level is None else evaluator.number_of(rule.level)
        conditions = [item.when for item in rule.evidence]
        more = [] if rule.applies_when is None else [rule.applies_when]
        self._support = EvidenceSupport([*conditions, *more], entities, evaluator, n)
        self._required_parts = self._sort_by_cost(item.when for item in rule.evidence if item.required)
        """What each required item joins by `and`, the cheapest first."""
        self._decisive_parts = self._sort_by_cost(
            item.when for item in rule.evidence if not item.required and _is_decisive(rule, item)
        )
        """The same of the items without which neither to fire nor to look ill is possible."""
        self.numbers = {evaluator.number_of(node) for expr in rule.expressions for node in expr.walk()}
        """All expressions of the rule."""
        self.feeds_baselines = not self.numbers.isdisjoint(evaluator.baselines)
        """Whether baselines learn from entities that it does not suspect."""
        self._weight = np.array([item.weight for item in rule.evidence])[:, None]
        self._against = np.array([item.against for item in rule.evidence])[:, None]
        self._required = np.array([item.required for item in rule.evidence])[:, None]

    def step(self, t: float, passed: float) -> RuleVerdict:
        """The verdict of one tick."""
        if not self._size or self._is_undelivered():
            self._t = t
            return self._unknown_verdict()
        last = None if self.is_busy or t >= self.wake_time - ROUNDING else self._last_verdict
        if last is not None and not self._has_changed():
            return last
        self._t = t
        self._used.clear()
        before, fired = self.suspicious, self.firing
        self._is_held_back = False
        self._last_verdict = verdict = self._judge(t, passed)
        self.is_busy = has_any(self.firing) or has_any(verdict.state == YES)
        self.is_known = self.is_known or has_any(verdict.state != UNKNOWN)
        self.suspicion_version += not np.array_equal(before, self.suspicious)
        self._judged_step = self.evaluator.step_number
        self.watched = self.evaluator.mask_of(self._used)
        self.wake_time = self._next_wake_time(t, verdict, fired)
        return verdict

    def conclude(self) -> RuleVerdict | None:
        """Fires what has held since it could first be judged, where the data ended before the hold time of the rule.

        Nothing is known of before, and nothing comes after. Where all of the data is shorter than the hold time, half
        of it is enough. Returns the verdict; None where nothing begins to fire.
        """
        verdict = self._last_verdict
        if verdict is None or not has_any(verdict.state == YES):
            return None
        first = self._reported_since + self.rule.warm_up
        span = self._t - first
        latest = first + np.where(span < self.rule.fire.hold, np.maximum(span, 0.0) / 2, 0.0)
        starts = (verdict.state == YES) & ~self.firing & (self._hold_timer.started <= latest + ROUNDING)
        if not has_any(starts):
            return None
        self.firing = self.firing | starts
        self.since = np.where(starts, self._hold_timer.started, self.since)
        return self._verdict(verdict.state)

    def forget(self, gone: Mask) -> None:
        """Forgets what fires on [entity] some entities, and that they ever reported: what comes there next is new."""
        self.firing, self.suspicious = self.firing & ~gone, self.suspicious & ~gone
        self.since = np.where(gone, np.nan, self.since)
        self._reported_since[gone], self._all_reported = np.nan, False
        self._hold_timer.forget(gone)
        self._clear_timer.forget(gone)
        self._last_verdict = None

    def pass_time(self, seconds: float) -> None:
        """While busy, takes in ticks that were left out, of so many seconds together: all is as at the last step."""
        self._hold_timer.pass_time(seconds)
        if has_any(self.firing):
            self._clear_timer.pass_time(seconds)

    def _held_back(self, open_: Index, found: RuleAssessment, state: Truth) -> Mask:
        """Returns [open] what must not begin to fire, since evidence against it may yet ripen and prevent that."""
        held = np.zeros(len(open_), bool)
        begins = np.flatnonzero((state == YES) & ~self.firing[open_])
        if len(begins):
            entities, against = self.indices[open_[begins]], np.zeros(len(begins))
            for item, number in zip(self.rule.evidence, self._conditions, strict=True):
                if item.against:
                    against += item.weight * self.evaluator.may_hold_later(number)[entities]
            held[begins] = found.score[begins] - against < self.rule.fire.score - ROUNDING
            self._is_held_back = bool(held.any())
        return held

    def _is_undelivered(self) -> bool:
        plan = self.evaluator.plan_count
        if self._plan[0] != plan:
            self._last_verdict, self.wake_time, self.is_busy = None, np.inf, False
            undelivered = self.evaluator.is_undelivered(self._conditions)
            self._plan = plan, undelivered, self.evaluator.is_steady(self.numbers)
        return self._plan[1]

    def _has_changed(self) -> bool:
        """Whether a value on which the last verdict rests has changed."""
        return self.evaluator.has_changed(self._used, self._judged_step)

    def _next_wake_time(self, t: float, verdict: RuleVerdict, fired: Mask) -> float:
        """Returns when the verdict may next change although no value does; `fired` is what fired before it."""
        soonest = np.inf
        if self.is_busy:
            # What begins or ceases to fire is judged by its support and timers from the next tick on.
            if self._is_held_back or not self._plan[2] or not np.array_equal(fired, self.firing):
                return t
            pending = (verdict.state == YES) & ~self.firing
            soonest = t + self._hold_timer.seconds_until(self.rule.fire.hold, pending)
            if has_any(self.firing):
                soonest = min(soonest, t + self._clear_timer.seconds_until(self.rule.clear.hold, self.firing))
        elif not all(map(self.evaluator.is_kept, self._used)):
            return t
        if self._all_reported and t - self._latest_report >= self.rule.warm_up:
            return soonest
        ends = self._reported_since + self.rule.warm_up
        return float(np.fmin.reduce(ends[ends > t], initial=soonest))

    def _judge(self, t: float, passed: float) -> RuleVerdict:
        ruled_out, shows = self._rule_out()
        open_ = np.flatnonzero(~ruled_out | self.firing)
        if not len(open_) and self._all_reported:
            return self._quiet_verdict(shows)
        self._mark_reported(t, ruled_out)
        found = self._assess(self._subset(open_))
        if not self._all_reported:
            reported = (found.truth != UNKNOWN).any(axis=0)
            self._reported_since[open_[reported & np.isnan(self._reported_since[open_])]] = t
            self._all_reported = not has_any(np.isnan(self._reported_since))
            self._latest_report = t
        own = self._state(found)
        own[~(t - self._reported_since[open_] >= self.rule.warm_up - ROUNDING) & (own != NO)] = UNKNOWN
        held = self._held_back(open_, found, own)
        self._update_firing(t, passed, open_, (own, self._supported_health(open_, found), held))
        state = self._all_no.copy()
        state[open_] = own
        self.suspicious = self.firing | (state == YES) | shows
        self.suspicious[open_] |= found.score > self.rule.clear.score
        return self._verdict(state)

    def _quiet_verdict(self, shows: Mask) -> RuleVerdict:
        """The verdict when every entity is ruled out."""
        if not self._hold_timer.is_idle:
            self._hold_timer.reset()
        self.suspicious = shows
        self.firing, self.since = self._none_firing, self._no_since
        return self._verdict(self._all_no)

    def _mark_reported(self, t: float, ruled_out: Mask) -> None:
        """An entity that is ruled out has reported something."""
        if not self._all_reported:
            self._reported_since[ruled_out & np.isnan(self._reported_since)] = t

    def _rule_out(self) -> tuple[Mask, Mask]:
        """Returns [entity] (lacks something decisive, shows something required), as far as either matters."""
        out, shows = np.zeros(self._size, bool), np.zeros(self._size, bool)
        for parts in self._required_parts:
            truth = self._join_parts(parts, None if self.feeds_baselines else out)
            out |= truth == NO
            if self.feeds_baselines:
                shows |= truth == YES
        for parts in self._decisive_parts:
            out |= self._join_parts(parts, out) == NO
        return out, shows

    def _sort_by_cost(self, items: Iterable[Expr]) -> list[list[int]]:
        """Numbers of the expressions that each item joins by `and`; the cheapest first, of items and of parts."""
        cost = self.evaluator.cost
        split = ([self.evaluator.number_of(part) for part in conjuncts(expr)] for expr in items)
        return sorted((sorted(parts, key=cost) for parts in split), key=lambda parts: cost(parts[0]))

    def _join_parts(self, parts: list[int], out: Mask | None) -> Truth:
        """Returns [entity] the truth of all parts joined; each is evaluated only where none before it says no.

        Entities that are `out` already are not evaluated.
        """
        cost = self.evaluator.cost
        truth = np.full(self._size, YES, np.int8)
        if out is not None:
            truth[out] = NO
        for n, number in enumerate(parts):
            left = truth != NO
            count = np.count_nonzero(left)
            if not count:
                break
            self._used.add(number)
            if count == self._size:
                truth = np.minimum(truth, self.evaluator.value(number)[self._selector])
            else:
                at = np.flatnonzero(left)
                truth[at] = np.minimum(truth[at], self.evaluator.subset_value(number, self._subset(at)))
            if n and cost(number) < sum(map(cost, parts[:n])) and not has_any(truth != NO):
                # What rules out the last of them at less cost than all before it is asked first from now on.
                parts.insert(0, parts.pop(n))
                break
        return truth

    def _subset(self, at: Index) -> EntitySubset:
        """Some of the entities that are judged."""
        return self.evaluator.subset_of(self.rule.scope, self.indices[at])

    def _assess(self, some: EntitySubset) -> RuleAssessment:
        """The whole of the evidence, for some entities."""
        self._used.update(self._conditions)
        if self._applies_when is not None:
            self._used.add(self._applies_when)
        truth = np.empty((len(self._conditions), len(some.indices)), np.int8)
        for row, number in zip(truth, self._conditions, strict=True):
            row[:] = self.evaluator.subset_value(number, some)
        when = self._applies_when
        applies = np.full(len(some.indices), YES, np.int8) if when is None else self.evaluator.subset_value(when, some)
        score, most = self._scores(truth)
        return RuleAssessment(truth, applies, score, most)

    def _scores(self, truth: Truth) -> tuple[F64, F64]:
        """The score as known, and the highest that it could be if everything unknown were known."""
        sign = np.where(self._against, -self._weight, self._weight)
        score = sum_rows(sign * (truth == YES))
        return score, score + sum_rows(self._weight * ((truth == UNKNOWN) & ~self._against))

    def _state(self, found: RuleAssessment) -> Truth:
        needed = np.where(self._required, found.truth, YES).min(axis=0, initial=YES)
        fire = self.rule.fire.score - ROUNDING
        level = np.where(found.score >= fire, YES, np.where(found.max_score >= fire, UNKNOWN, NO))
        state: Truth = np.minimum(np.minimum(needed, found.applies), level).astype(np.int8)
        return state

    def _health(self, found: RuleAssessment) -> Truth:
        """Returns [entity] whether the rule's clearing condition holds: YES, NO or UNKNOWN."""
        truth, applies = found.truth, found.applies
        missing = (self._required & (truth == NO)).any(axis=0) | (applies == NO)
        blind = (self._required & (truth == UNKNOWN)).any(axis=0) | (applies == UNKNOWN)
        low = found.max_score <= self.rule.clear.score + ROUNDING
        return np.where(missing, YES, np.where(blind, UNKNOWN, np.where(low, YES, NO))).astype(np.int8)

    def _supported_health(self, at: Index, found: RuleAssessment) -> Truth:
        """The same; for firing entities, evidence that was unknown from the beginning does not count."""
        healthy = self._health(found)
        lacking = (self._required & (found.truth != YES)).any(axis=0) | (found.score <= self.rule.clear.score)
        doubt = np.flatnonzero(self.firing[at] & (healthy != YES) & lacking)
        if len(doubt):
            healthy[doubt] = self._health(self._assess_supported(at[doubt]))
        return healthy

    def _assess_supported(self, at: Index) -> RuleAssessment:
        truth = self._support.supported_truth(at, self._subset(at))
        applies = truth[-1] if self.rule.applies_when is not None else np.full(len(at), YES, np.int8)
        truth = truth[: len(self._conditions)]
        return RuleAssessment(truth, applies, *self._scores(truth))

    def _update_firing(self, t: float, passed: float, at: Index, found: tuple[Truth, Truth, Mask]) -> None:
        """Update which of the entities `at` fire, by their (state, health, held back); no other entity fires."""
        (state, healthy, held), fired = found, self.firing[at]
        yes, well = state == YES, healthy == YES
        if has_any(yes) or not self._hold_timer.is_idle:
            self._hold_timer.step(t, passed, at, (yes, state == NO))
        starts = yes & ~fired & ~held & (self._hold_timer.duration[at] >= self.rule.fire.hold - ROUNDING)
        since, self.firing, self.since = self.since[at], self._none_firing, self._no_since
        if not has_any(fired | starts):
            # An entity that begins to fire is not healthy: how long it was before does not matter.
            return
        if has_any(starts):
            self._support.record(at[starts], self._subset(at[starts]))
        self._clear_timer.step(t, passed, at, (well, healthy == NO))
        ends = well & fired & (self._clear_timer.duration[at] >= self.rule.clear.hold - ROUNDING)
        firing = (fired | starts) & ~ends
        self.firing, self.since = self._none_firing.copy(), self._no_since.copy()
        self.firing[at] = firing
        self.since[at] = np.where(starts, self._hold_timer.started[at], np.where(firing, since, np.nan))

    def _verdict(self, state: Truth) -> RuleVerdict:
        t = self._t

        def ask(at: Index, numbers: bool) -> EvidenceBatch:
            if self._t != t:
                raise ValueError(f"{self.rule.id}: evidence of {t:g} s is asked for at {self._t:g} s")
            with np.errstate(all="ignore"):
                return self._collect_evidence(at, numbers=numbers)

        return RuleVerdict(self.rule.id, self.rule.scope, self.names, self.firing, state, self.since, ask)

    def _collect_evidence(self, at: Index, *, numbers: bool) -> EvidenceBatch:
        some = self._subset(at)
        found = self._assess(some)
        known = found.truth != UNKNOWN
        values, impact, level = np.full(known.shape, np.nan), np.full(len(at), np.nan), np.full(len(at), np.nan)
        if numbers:
            values = np.array([self.evaluator.decisive_value(number, some) for number in self._conditions])
        if numbers and self._impact is not None:
            impact = self.evaluator.subset_value(self._impact, some)
        if numbers and self._level is not None:
            level = self.evaluator.subset_value(self._level, some)
        coverage = sum_rows(self._weight * known) / self._weight.sum()
        size = np.abs(impact)
        return EvidenceBatch(
            applies=found.applies != NO,
            score=found.score.astype(np.float32),
            coverage=coverage.astype(np.float32),
            evidence=found.truth,
            values=np.where(known, values, np.nan).astype(np.float32),
            impact=impact.astype(np.float32),
            level=level.astype(np.float32),
            severity=(size >= self.rule.warning).astype(np.int8) + (size >= self.rule.critical),
        )

    def _unknown_verdict(self) -> RuleVerdict:
        """The verdict while no signal of the rule was ever delivered."""
        if self._cached_unknown is None:
            state = np.zeros(self._size, np.int8)
            self._cached_unknown = RuleVerdict(
                self.rule.id, self.rule.scope, self.names, self.firing, state, self.since, self._unknown_evidence
            )
        return self._cached_unknown

    def _unknown_evidence(self, at: Index, _numbers: bool) -> EvidenceBatch:
        k, items = len(at), len(self._conditions)
        return EvidenceBatch(
            applies=np.ones(k, bool),
            score=np.zeros(k, np.float32),
            coverage=np.zeros(k, np.float32),
            evidence=np.zeros((items, k), np.int8),
            values=np.full((items, k), np.nan, np.float32),
            impact=np.full(k, np.nan, np.float32),
            level=np.full(k, np.nan, np.float32),
            severity=np.zeros(k, np.int8),
        )


def _is_decisive(rule: Rule, item: EvidenceItem) -> bool:
    """Whether the rule can neither fire nor suspect an entity where the item does not hold."""
    others = sum(other.weight for other in rule.evidence if other is not item and not other.against)
    return not item.against and others < rule.fire.score - 2 * ROUNDING and others <= rule.clear.score


def conjuncts(expr: Expr) -> list[Expr]:
    """The parts that must all hold for an expression to hold."""
    return [part for arg in expr.args for part in conjuncts(arg)] if expr.op == "and" else [expr]
