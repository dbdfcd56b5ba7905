"""What fires where: verdict arrays become few tracks, one for each condition and entity that a rule fires on.

Only entities that fire or have just changed are looked at one by one; the rest stays in masks.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.advice.policy import Conclusion
from skewscope.engine.attribution.calibration import Calibration
from skewscope.engine.attribution.confidence import log_odds, probability
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.sets import Index
from skewscope.engine.model.verdict import UNKNOWN, YES, EvidenceBatch, RuleVerdict

SIGNIFICANT_GROWTH = 1.1
"""With the score unchanged, the impact or the numbers must grow this much to count as louder."""
UNKNOWN_MEMORY_S = 5.0
"""Seconds for which it is remembered what rules could not tell."""

AlertKey = tuple[str, Entity]
"""A condition on an entity."""


@dataclass(frozen=True, slots=True)
class EvidenceSpec:
    """One piece of a rule's evidence, in the rule's order."""

    name: str
    weight: float
    against: bool = False
    required: bool = False
    expr: str = ""
    unit: str = "1"
    signals: tuple[str, ...] = ()
    rising: bool | None = None
    """Whether its decisive comparison is for large numbers; None when it has none."""


@dataclass(frozen=True)
class RuleInfo:
    """What is always the same about a rule."""

    rule: str
    condition: str
    items: tuple[EvidenceSpec, ...]
    hash: str = ""
    impact_metric: str = ""
    impact_unit: str = "1"
    calibration: Calibration = field(default=Calibration(), repr=False, compare=False)

    def calibrate(self, log_odds: Any) -> Any:
        """Log-odds by the weights of the evidence as what they have been worth."""
        return self.calibration.bias(self.rule) + self.calibration.scale * log_odds

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Of its items."""
        return tuple(item.weight for item in self.items)

    @cached_property
    def against(self) -> tuple[bool, ...]:
        """Which items speak against it."""
        return tuple(item.against for item in self.items)

    @cached_property
    def required(self) -> tuple[bool, ...]:
        """Which items it cannot do without."""
        return tuple(item.required for item in self.items)


@dataclass(frozen=True, slots=True)
class EvidenceSnapshot:
    """What one rule said of one entity at one time."""

    info: RuleInfo
    t: float
    score: float
    coverage: float
    impact: float
    verdicts: tuple[int, ...]
    values: tuple[float, ...]
    log_odds: float = field(init=False, compare=False)
    """How much this speaks for the condition."""
    mean_log_magnitude: float = field(init=False, compare=False)
    """The mean magnitude of the numbers that speak for it, as a logarithm; 0 where there are none."""

    def __post_init__(self) -> None:
        info, logs = self.info, [math.log(m) for m in self.magnitudes().values()]
        odds = log_odds(info.weights, info.against, self.verdicts, self.coverage, info.required)
        object.__setattr__(self, "log_odds", info.calibrate(odds))
        object.__setattr__(self, "mean_log_magnitude", sum(logs) / len(logs) if logs else 0.0)

    def magnitudes(self) -> dict[str, float]:
        """How far each item that speaks for it goes: larger is worse."""
        found: dict[str, float] = {}
        for item, verdict, value in zip(self.info.items, self.verdicts, self.values, strict=True):
            if verdict == YES and not item.against and item.rising is not None and math.isfinite(value) and value:
                found[item.name] = abs(value) if item.rising or value < 0 else 1 / value
        return found

    def sort_key(self) -> tuple[float, float, float]:
        """Sorts the loudest first."""
        return -self.score, -_finite_magnitude(self.impact), -self.mean_log_magnitude

    def rank_key(self) -> tuple[float, tuple[float, float, float], str]:
        """Sorts the most convincing first, across rules."""
        return -self.log_odds, self.sort_key(), self.info.rule


@dataclass(slots=True)
class Alert:
    """A condition on an entity, for as long as it fires and a while after."""

    condition: str
    entity: Entity
    since: float
    """When the evidence first held."""
    fired_at: float
    evidence_by_rule: dict[str, EvidenceSnapshot] = field(default_factory=dict)
    """By rule: the loudest moment of each rule that fires or fired."""
    firing_rules: set[str] = field(default_factory=set)
    cleared_at: float = math.inf
    severity: int = 0
    _peak_evidence: EvidenceSnapshot | None = field(default=None, init=False, repr=False)

    def update_evidence(self, rule: str, said: EvidenceSnapshot) -> None:
        """Take in what a rule says."""
        self.evidence_by_rule[rule] = said
        self._peak_evidence = None

    @property
    def key(self) -> AlertKey:
        """Condition and entity."""
        return self.condition, self.entity

    @property
    def peak_evidence(self) -> EvidenceSnapshot:
        """The best rule's loudest moment."""
        if self._peak_evidence is None:
            self._peak_evidence = min(self.evidence_by_rule.values(), key=EvidenceSnapshot.rank_key)
        return self._peak_evidence

    @property
    def confidence(self) -> float:
        """The chance of the condition by its rules alone."""
        return probability(self.peak_evidence.log_odds, agreeing=len(self.evidence_by_rule) - 1)


@dataclass
class _RuleState:
    """A rule's last masks, and how loud each entity has been since it fires."""

    names: tuple[str, ...]
    firing: NDArray[np.bool_]
    score: NDArray[np.float32]
    impact: NDArray[np.float32]
    levels: NDArray[np.float64]
    severity: NDArray[np.int8]
    yes_since: NDArray[np.float64]
    has_pending: bool = False
    """Whether there is anybody in `yes_since`."""


class AlertTracker:
    """All tracks, fed with verdicts."""

    def __init__(self, rules: Mapping[str, RuleInfo]) -> None:
        self.rules = rules
        self._rules_of: dict[str, list[str]] = {}
        for rule, info in sorted(rules.items()):
            self._rules_of.setdefault(info.condition, []).append(rule)
        self.active: dict[AlertKey, Alert] = {}
        self.version = 0
        """Grows with every change worth thinking about again."""
        self._states: dict[str, _RuleState] = {}
        self._verdicts: dict[str, RuleVerdict] = {}
        self._recent_states: deque[tuple[float, dict[str, tuple[tuple[str, ...], NDArray[np.int8]]]]] = deque()
        """(time, names and states by rule) of the last ticks."""

    def update(self, t: float, verdicts: Iterable[RuleVerdict]) -> None:
        """Follow the verdicts of one tick. A rule that is not among them stays as it was."""
        self._verdicts = {v.rule: v for v in verdicts if v.rule in self.rules}
        self._recent_states.append((t, {rule: (v.names, v.state) for rule, v in self._verdicts.items()}))
        while self._recent_states[0][0] <= t - UNKNOWN_MEMORY_S:
            self._recent_states.popleft()
        for _, verdict in sorted(self._verdicts.items()):
            self._follow_verdict(t, verdict)

    def _follow_verdict(self, t: float, verdict: RuleVerdict) -> None:
        state = self._state(t, verdict)
        # Whoever says yes has been found to apply.
        waiting = (verdict.state == YES) & ~verdict.firing
        if not (waiting.any() or state.has_pending or verdict.firing.any() or state.firing.any()):
            return
        who = np.flatnonzero(waiting)
        since = state.yes_since[who]
        state.has_pending = len(who) > 0
        state.yes_since[:] = np.nan
        state.yes_since[who] = np.where(np.isnan(since), t, since)
        if not (verdict.firing.any() or state.firing.any()):
            return
        at = np.flatnonzero(verdict.firing)
        said = verdict.evidence_of(at)
        impact = np.nan_to_num(np.abs(said.impact), nan=0.0, posinf=0.0)
        levels = _mean_log_magnitudes(self.rules[verdict.rule].items, said)
        more = (impact > SIGNIFICANT_GROWTH * state.impact[at]) | (
            levels > math.log(SIGNIFICANT_GROWTH) + state.levels[at]
        )
        louder = (said.score > state.score[at]) | ((said.score == state.score[at]) & more) | ~state.firing[at]
        worse = said.severity > state.severity[at]
        for k in np.flatnonzero(louder | worse).tolist():
            self._record_evidence(t, verdict, int(at[k]), said.select(np.array([k])), louder=bool(louder[k]))
        silent = np.flatnonzero(state.firing & ~verdict.firing)
        for i in silent.tolist():
            self._clear_rule(t, verdict.rule, self._key(verdict, i))
        state.score[silent], state.impact[silent] = -np.inf, 0.0
        state.levels[silent], state.severity[silent] = -np.inf, -1
        loud = at[louder]
        state.score[loud], state.impact[loud], state.levels[loud] = said.score[louder], impact[louder], levels[louder]
        state.severity[at] = np.maximum(state.severity[at], said.severity)
        state.firing = verdict.firing.copy()

    def _state(self, t: float, verdict: RuleVerdict) -> _RuleState:
        state = self._states.get(verdict.rule)
        if state is None or (state.names is not verdict.names and state.names != verdict.names):
            fresh = _new_rule_state(verdict.names)
            if state is not None:
                self._carry_over(t, verdict.rule, state, fresh)
            state = self._states[verdict.rule] = fresh
        return state

    def _carry_over(self, t: float, rule: str, old: _RuleState, new: _RuleState) -> None:
        """Keep what fires when the list of entities changes; one that is gone has nothing to fire on."""
        index = {name: i for i, name in enumerate(new.names)}
        kind = self._verdicts[rule].kind
        for i in np.flatnonzero(old.firing):
            at = index.get(old.names[i])
            if at is None:
                self._clear_rule(t, rule, (self.rules[rule].condition, Entity(kind, old.names[i])))
                continue
            new.firing[at], new.score[at], new.impact[at] = True, old.score[i], old.impact[i]
            new.severity[at], new.levels[at] = old.severity[i], old.levels[i]

    def _key(self, verdict: RuleVerdict, i: int) -> AlertKey:
        return self.rules[verdict.rule].condition, Entity(verdict.kind, verdict.names[i])

    def _record_evidence(self, t: float, verdict: RuleVerdict, i: int, own: EvidenceBatch, *, louder: bool) -> None:
        key = self._key(verdict, i)
        since = float(verdict.since[i]) if np.isfinite(verdict.since[i]) else t
        track = self.active.setdefault(key, Alert(*key, since, t))
        if not track.firing_rules:
            track.fired_at, track.cleared_at = t, math.inf
        track.since = min(track.since, since)
        track.firing_rules.add(verdict.rule)
        track.severity = max(track.severity, int(own.severity[0]))
        before = track.evidence_by_rule.get(verdict.rule)
        said = build_snapshot(self.rules[verdict.rule], t, own)
        if louder and (before is None or said.sort_key() < before.sort_key()):
            track.update_evidence(verdict.rule, said)
        self.version += 1

    def _clear_rule(self, t: float, rule: str, key: AlertKey) -> None:
        track = self.active.get(key)
        if track is not None and rule in track.firing_rules:
            track.firing_rules.remove(rule)
            track.cleared_at = math.inf if track.firing_rules else t
            self.version += 1

    def derive(self, t: float, said: Iterable[Conclusion]) -> None:
        """Follow the diagnoses that policies derive: they speak with the evidence of what they were derived from."""
        wanted: dict[AlertKey, tuple[Alert, Conclusion]] = {}
        by_key = {(condition, entity.key): track for (condition, entity), track in self.active.items()}
        for one in said:
            source = by_key.get((one.subject, one.entity))
            if one.diagnosis and source is not None and source.firing_rules:
                wanted.setdefault((one.diagnosis, source.entity), (source, one))
        for key, track in sorted(self.active.items()):
            for rule in sorted(track.firing_rules - self.rules.keys()):
                if key not in wanted or wanted[key][1].policy != rule:
                    self._clear_rule(t, rule, key)
        for key, (source, one) in sorted(wanted.items(), key=lambda item: item[0]):
            self._apply_derived(t, key, source, one)

    def _apply_derived(self, t: float, key: AlertKey, source: Alert, one: Conclusion) -> None:
        track = self.active.get(key)
        if track is not None and track.firing_rules - {one.policy}:
            return  # a rule measures it: that is better than a derivation
        if track is None:
            track = self.active[key] = Alert(*key, source.since, t)
        if one.policy not in track.firing_rules:
            track.fired_at, track.cleared_at = t, math.inf
            track.firing_rules.add(one.policy)
            self.version += 1
        track.severity = max(track.severity, source.severity)
        info = replace(source.peak_evidence.info, rule=one.policy, condition=one.diagnosis, hash=one.hash)
        track.update_evidence(one.policy, replace(source.peak_evidence, info=info))

    def drop(self, cleared_before: float) -> None:
        """Forget tracks that cleared before a time."""
        gone = [key for key, track in self.active.items() if track.cleared_at < cleared_before]
        for key in gone:
            del self.active[key]
        self.version += bool(gone)

    def iter_pending(self) -> Iterator[tuple[AlertKey, float, EvidenceSnapshot]]:
        """Where a rule's evidence holds, but not yet for long enough: on what, since when, what it says.

        To be asked right after `take`: verdicts are the engine's own arrays.
        """
        for rule, verdict in sorted(self._verdicts.items()):
            since = self._states[rule].yes_since
            at = np.flatnonzero(~np.isnan(since))
            said = verdict.evidence_of(at) if len(at) else None
            for k, i in enumerate(at.tolist()):
                if said is not None:
                    began, own = float(since[i]), said.select(np.array([k]))
                    yield self._key(verdict, i), began, build_snapshot(self.rules[rule], began, own)

    def current_verdicts(self) -> Iterable[RuleVerdict]:
        """What the rules say in this tick."""
        return self._verdicts.values()

    def verdicts_of(self, condition: str) -> Iterator[tuple[RuleInfo, RuleVerdict]]:
        """What the rules of a condition say in this tick. To be asked right after `take`."""
        for rule in self._rules_of.get(condition, ()):
            if rule in self._verdicts:
                yield self.rules[rule], self._verdicts[rule]

    def unknown_mask(self, verdict: RuleVerdict, at: Index) -> NDArray[np.bool_]:
        """Of which of the entities at these places a rule cannot tell, or could not a moment ago.

        What is just over its thresholds dips below them now and then: that does not rule it out.
        """
        found: NDArray[np.bool_] = verdict.state[at] == UNKNOWN
        for names, state in (said[verdict.rule] for _, said in self._recent_states if verdict.rule in said):
            if names is verdict.names or names == verdict.names:
                found |= state[at] == UNKNOWN
            else:
                unknown = {names[i] for i in np.flatnonzero(state == UNKNOWN).tolist()}
                found |= np.array([verdict.names[i] in unknown for i in at.tolist()], bool)
        return found


def _new_rule_state(names: tuple[str, ...]) -> _RuleState:
    n = len(names)
    return _RuleState(
        names,
        np.zeros(n, np.bool_),
        np.full(n, -np.inf, np.float32),
        np.zeros(n, np.float32),
        np.full(n, -np.inf),
        np.full(n, -1, np.int8),
        np.full(n, np.nan),
    )


def _mean_log_magnitudes(items: tuple[EvidenceSpec, ...], said: EvidenceBatch) -> NDArray[np.float64]:
    """`Voice.loudness` of all of whom something is said, at once."""
    values = said.values.astype(np.float64)
    ways = np.array([0 if item.against or item.rising is None else 1 if item.rising else -1 for item in items])
    spoken = (said.evidence == YES) & (ways != 0)[:, None] & np.isfinite(values) & (values != 0)
    logs = np.log(np.abs(np.where(spoken, values, 1.0))) * np.where(values < 0, 1, ways[:, None])
    levels: NDArray[np.float64] = logs.sum(axis=0) / np.maximum(spoken.sum(axis=0), 1)
    return levels


def build_snapshot(info: RuleInfo, t: float, own: EvidenceBatch) -> EvidenceSnapshot:
    """What a verdict says of one entity, copied."""
    return EvidenceSnapshot(
        info,
        t,
        float(own.score[0]),
        float(own.coverage[0]),
        float(own.impact[0]),
        tuple(int(v) for v in own.evidence[:, 0]),
        tuple(float(v) for v in own.values[:, 0]),
    )


def _finite_magnitude(value: float) -> float:
    return abs(value) if math.isfinite(value) else 0.0
