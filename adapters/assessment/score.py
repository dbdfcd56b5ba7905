"""What was told held against what was true: found or missed, right or wrong, where, how soon, how sure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewscope.adapters.assessment.runner import ANYWHERE, AssessmentRun, FaultLabel, ReportedIncident
from skewscope.engine.attribution.calibration import CalibrationSample
from skewscope.engine.attribution.causes import CauseGraph

EARLY_TOLERANCE, LATE_TOLERANCE = 2.0, 10.0
"""Seconds before the beginning and after the end of a fault in which what is told may be about it."""
BINS = 10
SUSPECTED = "itself, as a suspicion"
SHARE_OF_ROUNDS = frozenset(
    {
        "rounds of the group",
        "speed of the job against before",
        "time of a round spent waiting for this rank",
        "time of a round for which others wait for somebody at worst",
        "time of a step that ranks wait at the barrier",
    }
)
"""What rules call it where their impact is the share of a job's rounds that are lost..."""
LONGER_ROUNDS = frozenset({"time of a round"})
"""...and where it is how much longer a round takes."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Roots that were told with about the same confidence."""

    count: int
    mean_confidence: float
    """Mean confidence."""
    accuracy: float
    """Share that was so."""


@dataclass
class ConditionTally:
    """How one condition fared."""

    true_positives: int = 0
    false_negatives: int = 0
    false_positives: int = 0
    """Incidents of this condition that nothing of the kind was behind."""
    located: int = 0
    """Of those found, how many at the right place."""
    delays: list[float] = field(default_factory=list)
    by_severity: Counter[tuple[str, bool]] = field(default_factory=Counter)

    @property
    def precision(self) -> float:
        """Share of what was told that was so; NaN where nothing was."""
        told = self.true_positives + self.false_positives
        return self.true_positives / told if told else float("nan")

    @property
    def recall(self) -> float:
        """Share of what was so that was told; NaN where nothing was."""
        there = self.true_positives + self.false_negatives
        return self.true_positives / there if there else float("nan")

    @property
    def f1(self) -> float:
        """Harmonic mean of the two; NaN where the condition neither was nor was told."""
        total = 2 * self.true_positives + self.false_negatives + self.false_positives
        return 2 * self.true_positives / total if total else float("nan")

    @property
    def delay(self) -> float:
        """Median seconds from the beginning of a fault to its diagnosis."""
        return float(np.median(self.delays)) if self.delays else float("nan")


@dataclass
class AssessmentScore:
    """How everything fared."""

    conditions: dict[str, ConditionTally] = field(default_factory=dict)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(what was so, what was told instead); '' for nothing."""
    cost_pairs: list[tuple[float, float]] = field(default_factory=list)
    """(stated, true) share of its rounds that the job lost, where a rule states it and the truth is known."""
    root_outcomes: list[tuple[float, bool]] = field(default_factory=list)
    """Confidence of each root, suspicions among them, and whether it was so."""
    ambiguous: list[tuple[str, ReportedIncident]] = field(default_factory=list)
    """What was told as one of several that cannot be told apart there, and which of the others it was.

    That is no error, and finds nothing."""
    quiet_node_days: float = 0.0
    false_alarms: list[tuple[str, ReportedIncident]] = field(default_factory=list)
    """What was told in runs without a fault."""

    def tally(self, condition: str) -> ConditionTally:
        """The tally of a condition."""
        return self.conditions.setdefault(condition, ConditionTally())

    def macro_mean(self, what: str) -> float:
        """Mean of a measure over the conditions that were there, of those for which it is known."""
        there = (tally for tally in self.conditions.values() if tally.true_positives + tally.false_negatives)
        values = [value for tally in there if not np.isnan(value := getattr(tally, what))]
        return float(np.mean(values)) if values else float("nan")

    @property
    def micro_precision(self) -> float:
        """Share of everything told that was so."""
        found = sum(tally.true_positives for tally in self.conditions.values())
        wrong = sum(tally.false_positives for tally in self.conditions.values())
        return found / (found + wrong) if found + wrong else float("nan")

    @property
    def located_share(self) -> float:
        """Share of what was found that was found at the right place."""
        found = sum(tally.true_positives for tally in self.conditions.values())
        return sum(tally.located for tally in self.conditions.values()) / found if found else float("nan")

    @property
    def delay(self) -> float:
        """Median delay of everything that was found."""
        delays = [delay for tally in self.conditions.values() for delay in tally.delays]
        return float(np.median(delays)) if delays else float("nan")

    @property
    def reliability(self) -> list[ReliabilityBin]:
        """What was said with about the same confidence, and how much of it was so: ten bins of equal width."""
        bins = []
        for n in range(BINS):
            own = [(said, right) for said, right in self.root_outcomes if min(int(said * BINS), BINS - 1) == n]
            if own:
                said, right = (np.array(column, float) for column in zip(*own, strict=True))
                bins.append(ReliabilityBin(len(own), float(said.mean()), float(right.mean())))
        return bins

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: how far confidence and truth lie apart in each bin, weighed by its size."""
        whole = sum(one.count for one in self.reliability)
        errors = (one.count * abs(one.mean_confidence - one.accuracy) for one in self.reliability)
        return sum(errors) / whole if whole else float("nan")

    @property
    def cost_error(self) -> float:
        """Median difference of the stated and the true share of its rounds that a job lost."""
        return (
            float(np.median([abs(stated - true) for stated, true in self.cost_pairs]))
            if self.cost_pairs
            else float("nan")
        )

    @property
    def false_alarm_rate_limit(self) -> float:
        """False alarms in a node-day: the upper end of the 95 % interval (Poisson, exact)."""
        return (
            poisson_upper_limit(len(self.false_alarms)) / self.quiet_node_days if self.quiet_node_days else float("nan")
        )


def to_json(score: AssessmentScore) -> dict[str, Any]:
    """The score as JSON has it; NaN is null."""
    each = {
        name: {
            "found": tally.true_positives,
            "missed": tally.false_negatives,
            "wrong": tally.false_positives,
            "placed": tally.located,
            **{what: _json_number(getattr(tally, what)) for what in ("precision", "recall", "f1", "delay")},
            "by_severity": {
                f"{s} {'found' if ok else 'missed'}": n for (s, ok), n in sorted(tally.by_severity.items())
            },
        }
        for name, tally in sorted(score.conditions.items())
    }
    confusion = [{"was": was, "told": told, "times": n} for (was, told), n in sorted(score.confusion.items())]
    return {
        **{f"macro_{what}": _json_number(score.macro_mean(what)) for what in ("f1", "precision", "recall")},
        "placed": _json_number(score.located_share),
        "delay": _json_number(score.delay),
        "calibration_error": _json_number(score.calibration_error),
        "cost_error": _json_number(score.cost_error),
        "costs_stated": len(score.cost_pairs),
        "reliability": [
            {"told": b.count, "said": _json_number(b.mean_confidence), "right": _json_number(b.accuracy)}
            for b in score.reliability
        ],
        "false_alarms": [
            {"run": run, "condition": told.condition, "entity": told.name, "opened": told.opened_s, "rule": told.rule}
            for run, told in score.false_alarms
        ],
        "left_open": [
            {"was": was, "told": told.condition, "candidates": list(told.candidates)} for was, told in score.ambiguous
        ],
        "quiet_node_days": score.quiet_node_days,
        "false_alarms_a_node_day_at_most": _json_number(score.false_alarm_rate_limit),
        "conditions": each,
        "confusion": confusion,
    }


def _json_number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)


def poisson_upper_limit(events: int, level: float = 0.95) -> float:
    """The largest mean of a Poisson count that is not refuted by having seen so few events."""
    low, high = 0.0, events + 10.0 * np.sqrt(events + 1) + 10
    for _ in range(60):
        mean = (low + high) / 2
        terms = np.cumsum(np.concatenate(([0.0], np.log(mean) - np.log(np.arange(1, events + 1)))))
        if np.exp(terms - mean).sum() > 1 - level:
            low = mean
        else:
            high = mean
    return float(high)


def score_runs(runs: Iterable[AssessmentRun]) -> AssessmentScore:
    """The score of some runs."""
    score = AssessmentScore()
    for one in runs:
        _score_run(one, score)
    return score


def _score_run(run: AssessmentRun, score: AssessmentScore) -> None:
    roots = [told for told in run.incidents if told.is_diagnosis]
    score.root_outcomes += [(told.confidence, _is_right(told, run)) for told in run.incidents if not told.root]
    used: set[int] = set()
    for truth in run.labels:
        own = _match_incident(truth, roots, used)
        tally = score.tally(truth.condition)
        tally.by_severity[truth.severity, own is not None] += 1
        if own is None:
            tally.false_negatives += 1
            score.confusion[truth.condition, _reported_instead(truth, run.incidents)] += 1
            continue
        used.add(own)
        found = roots[own]
        tally.true_positives += 1
        tally.located += _is_located(truth, found)
        tally.delays.append(max(found.opened_s - truth.begin, 0.0))
        stated = _stated_round_share(found)
        if not np.isnan(stated + truth.lost_round_share):
            score.cost_pairs.append((stated, truth.lost_round_share))
    for n, told in enumerate(roots):
        if n in used or _is_repeat(told, run.labels):
            continue
        if was := _matching_candidate(told, run.labels):
            score.ambiguous.append((was, told))
            continue
        score.tally(told.condition).false_positives += 1
        if run.labels:
            score.confusion[_actual_condition(told, run.labels), told.condition] += 1
    if not run.labels:
        score.quiet_node_days += run.nodes * run.duration / 86400
        score.false_alarms += [(run.name, told) for told in roots]


def calibration_samples(runs: Iterable[AssessmentRun], causes: CauseGraph) -> list[CalibrationSample]:
    """What each rule said, and whether its condition was there: what a calibration is fitted to.

    Left out is what was rightly told as the effect of a fault that was there: that is no error of its rule.
    """
    return [
        CalibrationSample(told.rule, told.log_odds, _is_right(told, run))
        for run in runs
        for told in run.incidents
        if not (told.root and told.condition in causes.effects(told.root) and _is_present(told.root, told, run))
    ]


def _is_present(condition: str, told: ReportedIncident, run: AssessmentRun) -> bool:
    return any(condition == truth.condition and _is_during(truth, told) for truth in run.labels)


def _is_right(told: ReportedIncident, run: AssessmentRun) -> bool:
    """Whether it is what is told, or one of those from which it cannot be told apart."""
    return _is_present(told.condition, told, run) or bool(_matching_candidate(told, run.labels))


def _matching_candidate(told: ReportedIncident, truths: Iterable[FaultLabel]) -> str:
    """Which of what something may be as well it was, there and then; '' for none."""
    named = (truth for truth in truths if truth.condition in told.candidates)
    return next((truth.condition for truth in named if _is_during(truth, told) and _may_be_located(truth, told)), "")


def _match_incident(truth: FaultLabel, roots: Sequence[ReportedIncident], used: set[int]) -> int | None:
    """The first root that tells of a fault; one at the right place before others."""
    fits = [
        n
        for n, told in enumerate(roots)
        if n not in used and told.condition == truth.condition and _is_during(truth, told)
    ]
    return min(fits, key=lambda n: (not _is_located(truth, roots[n]), roots[n].opened_s), default=None)


def _stated_round_share(told: ReportedIncident) -> float:
    """The share of its rounds that a job loses, as an incident states it; NaN where it states something else."""
    size = abs(told.impact)
    return size / (1 + size) if told.metric in LONGER_ROUNDS else size if told.metric in SHARE_OF_ROUNDS else np.nan


def _is_during(truth: FaultLabel, told: ReportedIncident) -> bool:
    return truth.begin - EARLY_TOLERANCE <= told.opened_s <= truth.end + LATE_TOLERANCE


def _is_located(truth: FaultLabel, told: ReportedIncident) -> bool:
    return told.name in truth.names or ANYWHERE in truth.names


def _may_be_located(truth: FaultLabel, told: ReportedIncident) -> bool:
    """Whether a candidate may be where it was: there, at any member of a group, or where else the incident names it."""
    named = (name for condition, names in told.candidate_locations if condition == truth.condition for name in names)
    return _is_located(truth, told) or not {*told.members, *named}.isdisjoint(truth.names)


def _is_repeat(told: ReportedIncident, truths: Iterable[FaultLabel]) -> bool:
    """A second incident of the same fault at the same place: it cleared between and came back."""
    return any(told.condition == t.condition and _is_during(t, told) and _is_located(t, told) for t in truths)


def _reported_instead(truth: FaultLabel, told: Iterable[ReportedIncident]) -> str:
    """What was told while a fault that was missed was there."""
    during = [one for one in told if _is_during(truth, one)]
    if any(one.condition == truth.condition for one in during):
        root = next(one.root for one in during if one.condition == truth.condition)
        return f"{root} (folded)" if root else SUSPECTED
    unsure = [one for one in during if one.is_diagnosis and _matching_candidate(one, [truth])]
    if unsure:
        return f"{unsure[0].condition}, or it"
    near = [one for one in during if one.is_diagnosis and _is_located(truth, one)] or [
        one for one in during if one.is_diagnosis
    ]
    return min(near, key=lambda one: one.opened_s).condition if near else ""


def _actual_condition(told: ReportedIncident, truths: Iterable[FaultLabel]) -> str:
    """What was so when something wrong was told."""
    during = [truth for truth in truths if _is_during(truth, told)]
    return during[0].condition if during else ""
