"""Alerts: one for each condition and entity on which a rule fires, with the evidence of its rules.

Only entities that fire or have just changed are processed one by one; the others stay in masks.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.incidents.confidence import Calibration, prior_log_odds, weigh_evidence
from skewscope.engine.incidents.result_cache import ResultCache
from skewscope.engine.ingest.feed import TICK_S
from skewscope.engine.model.arrays import F64, Fills, Index, Mask, has_any, widen_items
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.topology import GonePlaces
from skewscope.engine.model.transfer import copy_items, match_places
from skewscope.engine.model.verdict import UNKNOWN, YES, EvidenceBatch, RuleVerdict, find_decisive_unknowns

SIGNIFICANT_GROWTH = 1.1
"""With an unchanged score, the impact or the values must grow by this factor to replace the peak evidence."""
UNKNOWN_MEMORY_S = 5.0
"""Seconds for which unknown verdicts are remembered."""

AlertKey = tuple[str, Entity]
"""A condition on an entity."""


@dataclass(frozen=True, slots=True)
class EvidenceSpec:
    """One item of a rule's evidence."""

    name: str
    weight: float
    against: bool = False
    required: bool = False
    expr: str = ""
    unit: str = "1"
    signals: tuple[str, ...] = ()
    rising: bool | None = None
    """Whether its decisive comparison holds for large values; None where it has no comparison."""


@dataclass(frozen=True)
class RuleInfo:
    """The constants of a rule that incidents need."""

    rule: str
    condition: str
    items: tuple[EvidenceSpec, ...]
    hash: str = ""
    impact_metric: str = ""
    impact_unit: str = "1"
    level_unit: str = "1"
    """Unit of what the impact is a change of."""
    fire: float = -math.inf
    """The score from which it fires."""
    lead: float = 0.0
    """How long before it fires its condition may have begun, seconds."""
    persistence: float = 0.0
    """How long, at least, its condition has held by the samples when its evidence holds, seconds."""
    prior: float = prior_log_odds("")
    """Log-odds of its condition before any evidence."""
    calibration: Calibration = field(default=Calibration(), repr=False, compare=False)

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Weights of its items."""
        return tuple(item.weight for item in self.items)

    @cached_property
    def against(self) -> tuple[bool, ...]:
        """Whether each item is evidence against the condition."""
        return tuple(item.against for item in self.items)

    @cached_property
    def required(self) -> tuple[bool, ...]:
        """Whether each item is required."""
        return tuple(item.required for item in self.items)


@dataclass(frozen=True, slots=True)
class EvidenceSnapshot:
    """The verdict of one rule on one entity at one time."""

    info: RuleInfo
    t: float
    score: float
    coverage: float
    impact: float
    verdicts: tuple[int, ...]
    values: tuple[float, ...]
    level: float = math.nan
    """What the impact is a change of; NaN where it is none or unknown."""
    log_odds: float = field(init=False, compare=False)
    """Calibrated log-odds of the condition by this evidence."""
    mean_log_magnitude: float = field(init=False, compare=False)
    """Mean logarithm of `magnitudes`; 0 where there are none."""

    def __post_init__(self) -> None:
        info, logs = self.info, [math.log(m) for m in self.magnitudes().values()]
        verdicts = np.array(self.verdicts, np.int8)[:, None]
        weight = float(weigh_evidence(info.weights, info.against, verdicts, info.required)[0])
        object.__setattr__(self, "log_odds", info.prior + info.calibration.rule_log_odds(info.rule, weight))
        object.__setattr__(self, "mean_log_magnitude", sum(logs) / len(logs) if logs else 0.0)

    @property
    def decisive_unknowns(self) -> tuple[str, ...]:
        """Names of the counter-evidence that is not seen and with which the rule would not fire."""
        info = self.info
        names = [item.name for item in info.items]
        return find_decisive_unknowns(names, info.weights, info.against, self.verdicts, info.fire)

    def magnitudes(self) -> dict[str, float]:
        """Returns the magnitude of each item that is evidence for the condition, by name: larger is worse."""
        found: dict[str, float] = {}
        for item, verdict, value in zip(self.info.items, self.verdicts, self.values, strict=True):
            if verdict == YES and not item.against and item.rising is not None and math.isfinite(value) and value:
                found[item.name] = abs(value) if item.rising or value < 0 else 1 / value
        return found

    def sort_key(self) -> tuple[float, float, float]:
        """Sorts the strongest evidence first: by score, impact, magnitude."""
        return -self.score, -_finite_magnitude(self.impact), -self.mean_log_magnitude

    def rank_key(self) -> tuple[float, tuple[float, float, float], str]:
        """Sorts the highest log-odds first; comparable across rules."""
        return -self.log_odds, self.sort_key(), self.info.rule


@dataclass(slots=True)
class Alert:
    """A condition on an entity, while a rule fires and for a short time after."""

    condition: str
    entity: Entity
    since: float
    """When the evidence first held."""
    evidence_by_rule: dict[str, EvidenceSnapshot] = field(default_factory=dict)
    """By rule: the strongest evidence of each rule that fires or fired."""
    firing_rules: set[str] = field(default_factory=set)
    cleared_at: float = math.inf
    severity: int = 0
    _peak_evidence: EvidenceSnapshot | None = field(default=None, init=False, repr=False)

    def update_evidence(self, rule: str, snapshot: EvidenceSnapshot) -> None:
        """Set the strongest evidence of a rule."""
        self.evidence_by_rule[rule] = snapshot
        self._peak_evidence = None

    @property
    def key(self) -> AlertKey:
        """Its condition and entity."""
        return self.condition, self.entity

    @property
    def peak_evidence(self) -> EvidenceSnapshot:
        """The strongest evidence of the rule with the highest log-odds."""
        if self._peak_evidence is None:
            self._peak_evidence = min(self.evidence_by_rule.values(), key=EvidenceSnapshot.rank_key)
        return self._peak_evidence

    @property
    def agreeing_rules(self) -> int:
        """Number of rules that fire or fired beside the best one."""
        return len(self.evidence_by_rule) - 1


@dataclass(frozen=True, slots=True)
class DerivedDiagnosis:
    """A condition that a policy derives from an alert on the same entity."""

    condition: str
    source_condition: str
    entity_key: str
    policy: str
    hash: str


PEAKS: Fills = {
    "firing": False,
    "score": np.float32(-np.inf),
    "impact": np.float32(0.0),
    "levels": -np.inf,
    "severity": np.int8(-1),
    "yes_since": np.nan,
}


class _RuleState:
    """The last masks of a rule, and the peaks of each entity since it fires; arrays are `[entity]`."""

    firing: Mask
    score: NDArray[np.float32]
    impact: NDArray[np.float32]
    levels: F64
    severity: NDArray[np.int8]
    yes_since: F64

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.has_pending = False
        """Whether any entity has a value in `yes_since`."""
        widen_items(self, PEAKS, len(names))

    def forget_peaks(self, at: Index) -> None:
        """Forgets how strong the evidence of some entities was."""
        for name in ("score", "impact", "levels", "severity"):
            getattr(self, name)[at] = PEAKS[name]


class AlertTracker:
    """All alerts, updated with the verdicts of each tick."""

    def __init__(self, rules: Mapping[str, RuleInfo], tick: float = TICK_S) -> None:
        """Constructs it for ticks of so many seconds of data."""
        self.rules, self._tick = rules, tick
        self._rules_of: dict[str, list[str]] = {}
        for rule, info in sorted(rules.items()):
            self._rules_of.setdefault(info.condition, []).append(rule)
        self._measured = frozenset(rules)
        self.active: dict[AlertKey, Alert] = {}
        self._sorted, self._firing = ResultCache[tuple[Alert, ...]](), ResultCache[tuple[Alert, ...]]()
        self.version = 0
        """Counts the changes that may change incidents."""
        self._states: dict[str, _RuleState] = {}
        self._verdicts: dict[str, RuleVerdict] = {}
        self.changed: set[str] = set()
        """The rules whose verdicts are not those of the tick before."""
        self._busy: set[str] = set()
        """The rules that fire on an entity, or may after their hold times."""
        self._recent_states: deque[tuple[float, dict[str, RuleVerdict]]] = deque()
        """(time, verdicts by rule) of the last ticks, oldest first; only their states count."""
        self._unknown: dict[str, NDArray[np.bool_]] = {}
        """By rule: [entity] what `unknown_mask` returns of them in this tick."""

    def list_active(self) -> tuple[Alert, ...]:
        """Returns all alerts by condition and entity, in order; the same object while nothing changes."""
        return self._sorted.get(self.version, lambda: tuple(self.active[key] for key in sorted(self.active)))

    def list_firing(self) -> tuple[Alert, ...]:
        """Returns those of them for which a rule fires, not only a policy that derives them."""
        return self._firing.get(self.version, lambda: tuple(filter(self._is_measured, self.list_active())))

    def _is_measured(self, alert: Alert) -> bool:
        return not self._measured.isdisjoint(alert.firing_rules)

    def update(self, t: float, verdicts: Iterable[RuleVerdict]) -> None:
        """Update the alerts with the verdicts of one tick; rules without a verdict keep theirs."""
        before, self._verdicts = self._verdicts, {v.rule: v for v in verdicts if v.rule in self.rules}
        self._remember_states(t)
        self._unknown.clear()
        self.changed = {rule for rule, verdict in self._verdicts.items() if verdict is not before.get(rule)}
        # The same verdict again changes nothing, unless something fires or is about to.
        for rule in sorted(self.changed | self._busy & self._verdicts.keys()):
            self._follow_verdict(t, self._verdicts[rule])
        self._hold_pending(t)

    def _hold_pending(self, t: float) -> None:
        """Keeps alerts open that no rule fires while the evidence of one holds, if not yet for its hold time."""
        cleared = [alert for alert in self.active.values() if not alert.firing_rules]
        pending = set(self._pending_keys()) if cleared else ()
        for alert in cleared:
            if (alert.key in pending) != math.isinf(alert.cleared_at):
                alert.cleared_at = math.inf if alert.key in pending else t
                self.version += 1

    def _pending_keys(self) -> Iterator[AlertKey]:
        for rule in self._busy & self._verdicts.keys():
            state = self._states[rule]
            if state.has_pending:
                yield from (
                    self._key(self._verdicts[rule], i) for i in np.flatnonzero(~np.isnan(state.yes_since)).tolist()
                )

    def _remember_states(self, t: float) -> None:
        """Store the states of this tick, and drop those that ended too long ago."""
        self._recent_states.append((t, self._verdicts))
        # States hold until the next ones: ticks that are left out between two would have had the same.
        while len(self._recent_states) > 1 and self._recent_states[1][0] - self._tick <= t - UNKNOWN_MEMORY_S:
            self._recent_states.popleft()

    def _follow_verdict(self, t: float, verdict: RuleVerdict) -> None:
        state = self._state_of(t, verdict)
        # A yes implies that the rule applies.
        pending = (verdict.state == YES) & ~verdict.firing
        if not (has_any(pending) or state.has_pending or has_any(verdict.firing) or has_any(state.firing)):
            return
        at = np.flatnonzero(pending)
        since = state.yes_since[at]
        state.has_pending = len(at) > 0
        state.yes_since[:] = np.nan
        state.yes_since[at] = np.where(np.isnan(since), t, since)
        if has_any(verdict.firing) or has_any(state.firing):
            self._follow_firing(t, verdict, state)
        if state.has_pending or state.firing.any():
            self._busy.add(verdict.rule)
        else:
            self._busy.discard(verdict.rule)

    def _follow_firing(self, t: float, verdict: RuleVerdict, state: _RuleState) -> None:
        """Record stronger evidence and higher severities of what fires; clear what stopped."""
        at = np.flatnonzero(verdict.firing)
        evidence = verdict.evidence_of(at)
        impact = np.nan_to_num(np.abs(evidence.impact), nan=0.0, posinf=0.0)
        levels = _mean_log_magnitudes(self.rules[verdict.rule].items, evidence)
        grown = (impact > SIGNIFICANT_GROWTH * state.impact[at]) | (
            levels > math.log(SIGNIFICANT_GROWTH) + state.levels[at]
        )
        same_score = evidence.score == state.score[at]
        stronger = (evidence.score > state.score[at]) | (same_score & grown) | ~state.firing[at]
        worse = evidence.severity > state.severity[at]
        for k in np.flatnonzero(stronger | worse).tolist():
            self._record_evidence(t, verdict, int(at[k]), evidence.select(np.array([k])), stronger=bool(stronger[k]))
        cleared = np.flatnonzero(state.firing & ~verdict.firing)
        for i in cleared.tolist():
            self._clear_rule(t, verdict.rule, self._key(verdict, i))
        state.forget_peaks(cleared)
        peaks = at[stronger]
        state.score[peaks], state.impact[peaks] = evidence.score[stronger], impact[stronger]
        state.levels[peaks] = levels[stronger]
        state.severity[at] = np.maximum(state.severity[at], evidence.severity)
        state.firing = verdict.firing.copy()

    def _state_of(self, t: float, verdict: RuleVerdict) -> _RuleState:
        state = self._states.get(verdict.rule)
        if state is None or (state.names is not verdict.names and state.names != verdict.names):
            fresh = _RuleState(verdict.names)
            if state is not None:
                self._carry_over(t, verdict, state, fresh)
            state = self._states[verdict.rule] = fresh
        return state

    def _carry_over(self, t: float, verdict: RuleVerdict, old: _RuleState, new: _RuleState) -> None:
        """Keep what fires when the list of entities changes; clear the alerts of removed entities."""
        kept = set(new.names)
        for name in (old.names[i] for i in np.flatnonzero(old.firing).tolist() if old.names[i] not in kept):
            self._clear_rule(t, verdict.rule, (self.rules[verdict.rule].condition, Entity(verdict.kind, name)))
        copy_items(new, old, PEAKS, match_places(old.names, new.names))
        new.has_pending = bool((~np.isnan(new.yes_since)).any())

    def take_over(self, before: "AlertTracker", is_known: Callable[[Entity], bool]) -> None:
        """Goes on with the alerts of another tracker, except those on entities that there are no more."""
        self.active = {key: alert for key, alert in before.active.items() if is_known(key[1])}
        self.version = before.version + 1
        self._states, self._busy = dict(before._states), set(before._busy)  # noqa: SLF001 - one of its own kind
        self._recent_states = before._recent_states.copy()  # noqa: SLF001

    def drop_places(self, gone: GonePlaces) -> None:
        """Drops the alerts at places that have ended."""
        self.active = {key: alert for key, alert in self.active.items() if not gone.has(key[1])}
        self.version += 1

    def _key(self, verdict: RuleVerdict, i: int) -> AlertKey:
        return self.rules[verdict.rule].condition, Entity(verdict.kind, verdict.names[i])

    def _record_evidence(
        self, t: float, verdict: RuleVerdict, i: int, evidence: EvidenceBatch, *, stronger: bool
    ) -> None:
        key = self._key(verdict, i)
        since = float(verdict.since[i]) if np.isfinite(verdict.since[i]) else t
        alert = self.active.setdefault(key, Alert(*key, since))
        if not alert.firing_rules:
            alert.cleared_at = math.inf
        alert.since = min(alert.since, since)
        alert.firing_rules.add(verdict.rule)
        alert.severity = max(alert.severity, int(evidence.severity[0]))
        before = alert.evidence_by_rule.get(verdict.rule)
        snapshot = build_snapshot(self.rules[verdict.rule], t, evidence)
        if stronger and (before is None or snapshot.sort_key() < before.sort_key()):
            alert.update_evidence(verdict.rule, snapshot)
        self.version += 1

    def _clear_rule(self, t: float, rule: str, key: AlertKey) -> None:
        alert = self.active.get(key)
        if alert is not None and rule in alert.firing_rules:
            alert.firing_rules.remove(rule)
            alert.cleared_at = math.inf if alert.firing_rules else t
            self.version += 1

    def derive(self, t: float, diagnoses: Iterable[DerivedDiagnosis]) -> None:
        """Replace the alerts that policies derive; each has the evidence of the alert it is derived from."""
        wanted: dict[AlertKey, tuple[Alert, DerivedDiagnosis]] = {}
        diagnoses = tuple(diagnoses)
        by_key = {(alert.condition, alert.entity.key): alert for alert in self.active.values()} if diagnoses else {}
        for one in diagnoses:
            source = by_key.get((one.source_condition, one.entity_key))
            if source is not None and source.firing_rules:
                wanted.setdefault((one.condition, source.entity), (source, one))
        derived = [alert for alert in self.list_active() if not self._measured.issuperset(alert.firing_rules)]
        for alert in derived:
            for rule in sorted(alert.firing_rules - self._measured):
                if alert.key not in wanted or wanted[alert.key][1].policy != rule:
                    self._clear_rule(t, rule, alert.key)
        for key, (source, one) in sorted(wanted.items(), key=lambda item: item[0]):
            self._apply_derived(key, source, one)

    def _apply_derived(self, key: AlertKey, source: Alert, one: DerivedDiagnosis) -> None:
        alert = self.active.get(key)
        if alert is not None and alert.firing_rules - {one.policy}:
            return  # a measured condition replaces a derived one
        if alert is None:
            alert = self.active[key] = Alert(*key, source.since)
        if one.policy not in alert.firing_rules:
            alert.cleared_at = math.inf
            alert.firing_rules.add(one.policy)
            self.version += 1
        info = replace(source.peak_evidence.info, rule=one.policy, condition=one.condition, hash=one.hash)
        snapshot = replace(source.peak_evidence, info=info)
        if source.severity > alert.severity or alert.evidence_by_rule.get(one.policy) != snapshot:
            alert.severity = max(alert.severity, source.severity)
            alert.update_evidence(one.policy, snapshot)
            self.version += 1

    def drop(self, cleared_before: float) -> None:
        """Remove the alerts that cleared before a time."""
        gone = [key for key, alert in self.active.items() if alert.cleared_at < cleared_before]
        for key in gone:
            del self.active[key]
        self.version += bool(gone)

    def current_verdicts(self) -> Iterable[RuleVerdict]:
        """Returns the verdicts of this tick."""
        return self._verdicts.values()

    def verdicts_of(self, condition: str) -> Iterator[tuple[RuleInfo, RuleVerdict]]:
        """Yields the rules of a condition with their verdicts of this tick. Call it before the next tick."""
        for rule in self._rules_of.get(condition, ()):
            if rule in self._verdicts:
                yield self.rules[rule], self._verdicts[rule]

    def unknown_mask(self, verdict: RuleVerdict, at: Index) -> NDArray[np.bool_]:
        """Returns `[len(at)]` bool: entities whose verdict is unknown, or was within `UNKNOWN_MEMORY_S`.

        A value just above its threshold falls below it at times; one such no does not exclude the condition.
        """
        if verdict.rule not in self._unknown:
            self._unknown[verdict.rule] = self._find_unknown(verdict)
        found: NDArray[np.bool_] = self._unknown[verdict.rule][at]
        return found

    def _find_unknown(self, verdict: RuleVerdict) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = verdict.state == UNKNOWN
        recent = (verdicts[verdict.rule] for _, verdicts in self._recent_states if verdict.rule in verdicts)
        for names, state in ((one.names, one.state) for one in recent):
            if names is verdict.names or names == verdict.names:
                found |= state == UNKNOWN
            else:
                unknown = {names[i] for i in np.flatnonzero(state == UNKNOWN).tolist()}
                found |= np.array([name in unknown for name in verdict.names], bool)
        return found


def _mean_log_magnitudes(items: tuple[EvidenceSpec, ...], evidence: EvidenceBatch) -> NDArray[np.float64]:
    """Returns `[entity]` float64: `EvidenceSnapshot.mean_log_magnitude` of each entity."""
    values = evidence.values.astype(np.float64)
    signs = np.array([0 if item.against or item.rising is None else 1 if item.rising else -1 for item in items])
    used = (evidence.evidence == YES) & (signs != 0)[:, None] & np.isfinite(values) & (values != 0)
    logs = np.log(np.abs(np.where(used, values, 1.0))) * np.where(values < 0, 1, signs[:, None])
    levels: NDArray[np.float64] = logs.sum(axis=0) / np.maximum(used.sum(axis=0), 1)
    return levels


def build_snapshot(info: RuleInfo, t: float, evidence: EvidenceBatch) -> EvidenceSnapshot:
    """Returns a copy of a verdict's evidence on one entity; `evidence` holds only that entity."""
    return EvidenceSnapshot(
        info,
        t,
        float(evidence.score[0]),
        float(evidence.coverage[0]),
        float(evidence.impact[0]),
        tuple(int(v) for v in evidence.evidence[:, 0]),
        tuple(float(v) for v in evidence.values[:, 0]),
        float(evidence.level[0]),
    )


def _finite_magnitude(value: float) -> float:
    return abs(value) if math.isfinite(value) else 0.0
