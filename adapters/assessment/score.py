"""Scores reported incidents against labels: detection, precision, localisation, delay, calibration."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewscope.adapters.assessment.calibration_fit import CalibrationSample
from skewscope.adapters.assessment.runner import ANYWHERE, AssessmentRun, FaultLabel, ReportedIncident
from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.incidents.confidence import prior_log_odds
from skewscope.kb.loader import catalogue

EARLY_TOLERANCE, LATE_TOLERANCE = 2.0, 10.0
"""Seconds before the start and after the end of a fault within which an incident may belong to it."""
BINS = 10
FIRST_CANDIDATES = 3
"""Candidates that a person is taken to check."""
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
"""Impact metrics that state the share of lost rounds ..."""
LONGER_ROUNDS = frozenset({"time of a round"})
"""... and those that state how much longer a round takes."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Roots with similar confidence."""

    count: int
    mean_confidence: float
    """Mean confidence."""
    accuracy: float
    """Share that was right."""
    weight: float
    """Sum of their weights; of outcomes without any, their number."""


@dataclass
class ConditionTally:
    """Counts of one condition."""

    true_positives: int = 0
    false_negatives: int = 0
    false_positives: int = 0
    """Incidents of this condition without a fault of it."""
    located: int = 0
    """True positives at the right place."""
    delays: list[float] = field(default_factory=list)
    by_severity: Counter[tuple[str, bool]] = field(default_factory=Counter)

    @property
    def precision(self) -> float:
        """Share of incidents that were right; NaN without incidents."""
        reported = self.true_positives + self.false_positives
        return self.true_positives / reported if reported else float("nan")

    @property
    def recall(self) -> float:
        """Share of faults that were found; NaN without faults."""
        there = self.true_positives + self.false_negatives
        return self.true_positives / there if there else float("nan")

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; NaN without faults and incidents."""
        total = 2 * self.true_positives + self.false_negatives + self.false_positives
        return 2 * self.true_positives / total if total else float("nan")

    @property
    def delay(self) -> float:
        """Median seconds from the start of a fault to its diagnosis."""
        return float(np.median(self.delays)) if self.delays else float("nan")


@dataclass
class AssessmentScore:
    """The scores of some runs."""

    conditions: dict[str, ConditionTally] = field(default_factory=dict)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(actual condition, reported condition); '' for none."""
    cost_pairs: list[tuple[float, float]] = field(default_factory=list)
    """(stated, actual) share of the job's lost rounds, where both are known."""
    root_outcomes: list[tuple[float, bool]] = field(default_factory=list)
    """Confidence of each root, including suspicions, and whether it was right."""
    symptom_outcomes: list[tuple[float, bool]] = field(default_factory=list)
    """Confidence of each symptom, and whether any fault was there when it opened."""
    candidate_outcomes: list[tuple[float, bool]] = field(default_factory=list)
    """Probability of the first candidate of each symptom during a fault, and whether it was right."""
    seen: int = 0
    """Faults at whose place and time anything was reported, a symptom too."""
    among_first: int = 0
    """Faults whose condition was reported, or was among the first three candidates of what was reported."""
    ambiguous: list[tuple[str, ReportedIncident]] = field(default_factory=list)
    """Incidents that name several indistinguishable candidates, and which of these was right. Neither an error nor a
    true positive.
    """
    quiet_node_days: float = 0.0
    false_alarms: list[tuple[str, ReportedIncident]] = field(default_factory=list)
    """Diagnoses in runs without a fault, with the name of the run."""
    quiet_symptoms: list[tuple[str, ReportedIncident]] = field(default_factory=list)
    """Symptoms in runs without a fault that no diagnosis explains, with the name of the run."""

    def tally(self, condition: str) -> ConditionTally:
        """Returns the tally of a condition."""
        return self.conditions.setdefault(condition, ConditionTally())

    def macro_mean(self, what: str) -> float:
        """Returns the mean of a measure over the conditions that occurred, ignoring NaN."""
        there = (tally for tally in self.conditions.values() if tally.true_positives + tally.false_negatives)
        values = [value for tally in there if not np.isnan(value := getattr(tally, what))]
        return float(np.mean(values)) if values else float("nan")

    @property
    def micro_precision(self) -> float:
        """Share of all incidents that were right."""
        found = sum(tally.true_positives for tally in self.conditions.values())
        wrong = sum(tally.false_positives for tally in self.conditions.values())
        return found / (found + wrong) if found + wrong else float("nan")

    @property
    def located_share(self) -> float:
        """Share of true positives that were at the right place."""
        found = sum(tally.true_positives for tally in self.conditions.values())
        return sum(tally.located for tally in self.conditions.values()) / found if found else float("nan")

    @property
    def delay(self) -> float:
        """Median delay of all true positives."""
        delays = [delay for tally in self.conditions.values() for delay in tally.delays]
        return float(np.median(delays)) if delays else float("nan")

    @property
    def reliability(self) -> list[ReliabilityBin]:
        """Returns roots by confidence in ten bins of equal width, with the share that was right."""
        return reliability_bins(self.root_outcomes)

    @property
    def calibration_error(self) -> float:
        """Expected calibration error of roots."""
        return expected_calibration_error(self.root_outcomes)

    @property
    def symptom_calibration_error(self) -> float:
        """Expected calibration error of symptoms: whether something is wrong where they are."""
        return expected_calibration_error(self.symptom_outcomes)

    @property
    def cost_error(self) -> float:
        """Median difference between stated and actual share of lost rounds."""
        return (
            float(np.median([abs(stated - true) for stated, true in self.cost_pairs]))
            if self.cost_pairs
            else float("nan")
        )

    @property
    def false_alarm_rate_limit(self) -> float:
        """False alarms per node-day: upper end of the 95 % interval (Poisson, exact)."""
        return (
            poisson_upper_limit(len(self.false_alarms)) / self.quiet_node_days if self.quiet_node_days else float("nan")
        )


def reliability_bins(
    outcomes: Iterable[tuple[float, bool]], weights: Sequence[float] | None = None
) -> list[ReliabilityBin]:
    """Returns outcomes by confidence in ten bins of equal width, with the share that was right.

    `weights` are those of the outcomes; None counts each of them once.
    """
    known, bins = list(outcomes), []
    each = [1.0] * len(known) if weights is None else weights
    for n in range(BINS):
        own = [(*one, w) for one, w in zip(known, each, strict=True) if min(int(one[0] * BINS), BINS - 1) == n]
        if own:
            said, right, weight = (np.array(column, float) for column in zip(*own, strict=True))
            mean, share = (float(np.average(column, weights=weight)) for column in (said, right))
            bins.append(ReliabilityBin(len(own), mean, share, float(weight.sum())))
    return bins


def expected_calibration_error(outcomes: Iterable[tuple[float, bool]], weights: Sequence[float] | None = None) -> float:
    """Returns the mean gap between confidence and accuracy of the bins, by their weight; NaN without outcomes."""
    bins = reliability_bins(outcomes, weights)
    whole = sum(one.weight for one in bins)
    return sum(one.weight * abs(one.mean_confidence - one.accuracy) for one in bins) / whole if whole else float("nan")


def to_json(score: AssessmentScore) -> dict[str, Any]:
    """Returns the score as JSON; NaN becomes null."""
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
    confusion = [{"was": was, "told": reported, "times": n} for (was, reported), n in sorted(score.confusion.items())]
    return {
        **{f"macro_{what}": _json_number(score.macro_mean(what)) for what in ("f1", "precision", "recall")},
        "placed": _json_number(score.located_share),
        "seen": score.seen,
        "among_first_three": score.among_first,
        "delay": _json_number(score.delay),
        "calibration_error": _json_number(score.calibration_error),
        "symptom_calibration_error": _json_number(score.symptom_calibration_error),
        "symptom_reliability": _bins_to_json(score.symptom_outcomes),
        "candidate_reliability": _bins_to_json(score.candidate_outcomes),
        "cost_error": _json_number(score.cost_error),
        "costs_stated": len(score.cost_pairs),
        "reliability": _bins_to_json(score.root_outcomes),
        "false_alarms": [_alarm_to_json(run, reported) for run, reported in score.false_alarms],
        "quiet_symptoms": [_alarm_to_json(run, reported) for run, reported in score.quiet_symptoms],
        "left_open": [
            {"was": was, "told": reported.condition, "candidates": list(reported.candidates)}
            for was, reported in score.ambiguous
        ],
        "quiet_node_days": score.quiet_node_days,
        "false_alarms_a_node_day_at_most": _json_number(score.false_alarm_rate_limit),
        "conditions": each,
        "confusion": confusion,
    }


def _bins_to_json(outcomes: Iterable[tuple[float, bool]]) -> list[dict[str, Any]]:
    return [
        {"told": b.count, "said": _json_number(b.mean_confidence), "right": _json_number(b.accuracy)}
        for b in reliability_bins(outcomes)
    ]


def _alarm_to_json(run: str, reported: ReportedIncident) -> dict[str, Any]:
    return {
        "run": run,
        "condition": reported.condition,
        "entity": reported.name,
        "opened": reported.opened_s,
        "rule": reported.rule,
    }


def _json_number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)


def poisson_upper_limit(events: int, level: float = 0.95) -> float:
    """Returns the upper confidence limit of a Poisson mean, given the number of events."""
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
    """Returns the score of some runs."""
    score = AssessmentScore()
    for one in runs:
        _score_run(one, score)
    return score


def _score_run(run: AssessmentRun, score: AssessmentScore) -> None:
    symptoms = [reported for reported in run.incidents if reported.is_symptom]
    named = [reported for reported in run.incidents if not reported.is_symptom]
    roots = [reported for reported in named if reported.is_diagnosis]
    score.root_outcomes += [(reported.confidence, _is_right(reported, run)) for reported in named if not reported.root]
    _score_symptoms(symptoms, run, score)
    used: set[int] = set()
    for truth in run.labels:
        there = [one for one in run.incidents if _overlaps(truth, one) and _is_seen_at(truth, one)]
        score.seen += bool(there)
        score.among_first += any(
            truth.accepts(name) for one in there for name in (one.condition, *one.candidates[:FIRST_CANDIDATES])
        )
        own = _match_incident(truth, roots, used)
        tally = score.tally(truth.condition)
        tally.by_severity[truth.severity, own is not None] += 1
        if own is None:
            tally.false_negatives += 1
            score.confusion[truth.condition, _reported_instead(truth, named)] += 1
            continue
        used.add(own)
        found = roots[own]
        tally.true_positives += 1
        tally.located += _is_located(truth, found)
        tally.delays.append(max(found.opened_s - truth.begin, 0.0))
        stated = _stated_round_share(found)
        if not np.isnan(stated + truth.lost_round_share):
            score.cost_pairs.append((stated, truth.lost_round_share))
    for n, reported in enumerate(roots):
        if n in used or _is_repeat(reported, run.labels):
            continue
        if was := _matching_candidate(reported, run.labels):
            score.ambiguous.append((was, reported))
            continue
        score.tally(reported.condition).false_positives += 1
        if run.labels:
            score.confusion[_actual_condition(reported, run.labels), reported.condition] += 1
    if not run.labels:
        score.quiet_node_days += run.nodes * run.duration / 86400
        score.false_alarms += [(run.name, reported) for reported in roots]
        score.quiet_symptoms += [(run.name, reported) for reported in symptoms if not reported.root]


def _score_symptoms(symptoms: Iterable[ReportedIncident], run: AssessmentRun, score: AssessmentScore) -> None:
    """Records whether something was wrong when each symptom opened, and whether its first candidate was.

    The candidates of a symptom that a diagnosis explains are not shown, and not compared with what rules say.
    """
    for reported in symptoms:
        around = [truth for truth in run.labels if is_during(truth, reported)]
        score.symptom_outcomes.append((reported.confidence, bool(around)))
        if around and reported.posterior and not reported.root:
            first, share = reported.posterior[0]
            score.candidate_outcomes.append((share, any(truth.accepts(first) for truth in around)))


def calibration_samples(runs: Iterable[AssessmentRun], causes: CauseGraph) -> list[CalibrationSample]:
    """Returns each rule's evidence and whether its condition was present, for fitting a calibration.

    Omits correct reports of effects of a present fault: these are not errors of their rules.
    """
    return [
        CalibrationSample(reported.rule, reported.weight, _is_right(reported, run), _prior(reported.condition))
        for run in runs
        for reported in run.incidents
        if not reported.is_symptom
        and not (
            reported.root
            and reported.condition in causes.effects(reported.root)
            and _is_present(reported.root, reported, run)
        )
    ]


def _prior(condition: str) -> float:
    return prior_log_odds(catalogue().conditions[condition].prevalence)


def _is_present(condition: str, reported: ReportedIncident, run: AssessmentRun) -> bool:
    return any(truth.accepts(condition) and is_during(truth, reported) for truth in run.labels)


def _is_right(reported: ReportedIncident, run: AssessmentRun) -> bool:
    """Returns whether an incident or one of its indistinguishable candidates is right."""
    return _is_present(reported.condition, reported, run) or bool(_matching_candidate(reported, run.labels))


def _matching_candidate(reported: ReportedIncident, truths: Iterable[FaultLabel]) -> str:
    """Returns the candidate of an incident that was right there and then; '' for none."""
    named = (truth for truth in truths if any(truth.accepts(one) for one in reported.candidates))
    return next(
        (truth.condition for truth in named if is_during(truth, reported) and _may_be_located(truth, reported)), ""
    )


def _match_incident(truth: FaultLabel, roots: Sequence[ReportedIncident], used: set[int]) -> int | None:
    """Returns the first root that matches a fault, preferably at the right place."""
    fits = [
        n
        for n, reported in enumerate(roots)
        if n not in used and truth.accepts(reported.condition) and is_during(truth, reported)
    ]
    return min(fits, key=lambda n: (not _is_located(truth, roots[n]), roots[n].opened_s), default=None)


def _stated_round_share(reported: ReportedIncident) -> float:
    """Returns the stated share of lost rounds; NaN if it states something else."""
    size = abs(math.nan if reported.impact is None else reported.impact)
    return (
        size / (1 + size)
        if reported.metric in LONGER_ROUNDS
        else size
        if reported.metric in SHARE_OF_ROUNDS
        else np.nan
    )


def is_during(truth: FaultLabel, reported: ReportedIncident) -> bool:
    """Returns whether an incident opened during a fault."""
    return truth.begin - EARLY_TOLERANCE <= reported.opened_s <= truth.end + LATE_TOLERANCE


def _overlaps(truth: FaultLabel, reported: ReportedIncident) -> bool:
    """Returns whether an incident fires at any time during a fault; one that began before it counts as well."""
    return reported.opened_s <= truth.end + LATE_TOLERANCE and reported.resolved_s >= truth.begin


def _is_seen_at(truth: FaultLabel, reported: ReportedIncident) -> bool:
    return _is_located(truth, reported) or not set(reported.also).isdisjoint(truth.names)


def _is_located(truth: FaultLabel, reported: ReportedIncident) -> bool:
    return reported.name in truth.names or ANYWHERE in truth.names


def _may_be_located(truth: FaultLabel, reported: ReportedIncident) -> bool:
    """Returns whether a candidate may be at the fault's place, or at another location that the incident names."""
    named = (name for condition, names in reported.candidate_locations if truth.accepts(condition) for name in names)
    return _is_located(truth, reported) or not {*reported.members, *named}.isdisjoint(truth.names)


def _is_repeat(reported: ReportedIncident, truths: Iterable[FaultLabel]) -> bool:
    """Returns whether it is a second incident of the same fault and place, after the first one cleared."""
    return any(t.accepts(reported.condition) and is_during(t, reported) and _is_located(t, reported) for t in truths)


def _reported_instead(truth: FaultLabel, reported: Iterable[ReportedIncident]) -> str:
    """Returns the condition reported during a fault that was missed."""
    during = [one for one in reported if is_during(truth, one)]
    if any(truth.accepts(one.condition) for one in during):
        root = next(one.root for one in during if truth.accepts(one.condition))
        return f"{root} (folded)" if root else SUSPECTED
    unsure = [one for one in during if one.is_diagnosis and _matching_candidate(one, [truth])]
    if unsure:
        return f"{unsure[0].condition}, or it"
    near = [one for one in during if one.is_diagnosis and _is_located(truth, one)] or [
        one for one in during if one.is_diagnosis
    ]
    return min(near, key=lambda one: one.opened_s).condition if near else ""


def _actual_condition(reported: ReportedIncident, truths: Iterable[FaultLabel]) -> str:
    """Returns the actual condition during a false positive."""
    during = [truth for truth in truths if is_during(truth, reported)]
    return during[0].condition if during else ""
