"""What a version of the rules found, missed and told wrongly, where labels say what was wrong."""

from collections.abc import Collection
from dataclasses import dataclass, field

from skewscope.adapters.assessment.runner import (
    ANYWHERE,
    AssessmentRun,
    FaultLabel,
    ReportedIncident,
    to_reported_incidents,
)
from skewscope.adapters.assessment.score import (
    EARLY_TOLERANCE,
    LATE_TOLERANCE,
    expected_calibration_error,
    poisson_upper_limit,
    score_runs,
)
from skewscope.adapters.backtest.backtest import BacktestOutcome
from skewscope.adapters.backtest.run import RecordingOutcome
from skewscope.engine.model.incident import Incident

RIGHT, WRONG, OPEN = "right", "wrong", ""
"""Verdicts on an incident; OPEN where nobody said, or where it names the cause among others."""


@dataclass(frozen=True, slots=True)
class FoundFault:
    """A fault and the incident that told it."""

    recording: str
    label: FaultLabel
    incident: Incident
    delay_s: float
    """From the begin of the fault; never negative."""


@dataclass(frozen=True, slots=True)
class RecordedIncident:
    """An incident and the recording that it is of."""

    recording: str
    incident: Incident


@dataclass
class VersionScore:
    """The account of one version of the rules."""

    name: str
    diagnoses: list[RecordedIncident] = field(default_factory=list)
    """Likely causes that nothing else explains."""
    suspicions: list[RecordedIncident] = field(default_factory=list)
    """Less likely ones, and those that others explain."""
    symptoms: list[RecordedIncident] = field(default_factory=list)
    found: list[FoundFault] = field(default_factory=list)
    missed: list[tuple[str, FaultLabel]] = field(default_factory=list)
    """Faults of conditions that the rules can tell, with the recording."""
    wrong: list[RecordedIncident] = field(default_factory=list)
    """Diagnoses where nothing of that kind was wrong."""
    node_days: float = 0.0
    """Days of telemetry, of all nodes together, and those of labelled recordings."""
    labelled_node_days: float = 0.0
    calibration_error: float = float("nan")
    """Of the diagnoses and suspicions in labelled recordings."""
    verdicts: dict[tuple[str, str], str] = field(default_factory=dict)
    """By recording and incident id."""

    @property
    def false_alarms_a_node_day(self) -> float:
        """Diagnoses that were wrong, by day of one node; NaN without labels."""
        return len(self.wrong) / self.labelled_node_days if self.labelled_node_days else float("nan")

    @property
    def false_alarm_limit(self) -> float:
        """Upper end of the 95 % interval of that rate (Poisson, exact); NaN without labels."""
        days = self.labelled_node_days
        return poisson_upper_limit(len(self.wrong)) / days if days else float("nan")


def score_versions(outcome: BacktestOutcome) -> list[VersionScore]:
    """Returns the account of each version."""
    return [_score_version(outcome, number) for number in range(len(outcome.versions))]


def _score_version(outcome: BacktestOutcome, number: int) -> VersionScore:
    version = outcome.versions[number]
    score = VersionScore(version.name)
    runs = []
    for recording in outcome.recordings:
        incidents = recording.incidents[number]
        reported = to_reported_incidents(incidents, recording.start, recording.topology)
        score.node_days += recording.node_days
        _sort_incidents(recording, incidents, reported, score)
        if recording.labels is None:
            continue
        score.labelled_node_days += recording.node_days
        labels = tuple(one for one in recording.labels if version.conditions & {one.condition, *one.or_else})
        _match_labels(recording, labels, list(zip(incidents, reported, strict=True)), score)
        span = recording.end - recording.start
        nodes = len(recording.topology.nodes)
        runs.append(AssessmentRun(recording.name, nodes, span, reported, recording.labels))
    if runs:
        score.calibration_error = expected_calibration_error(score_runs(runs).root_outcomes)
    return score


def _sort_incidents(
    recording: RecordingOutcome,
    incidents: tuple[Incident, ...],
    reported: tuple[ReportedIncident, ...],
    score: VersionScore,
) -> None:
    for incident, one in zip(incidents, reported, strict=True):
        kind = score.symptoms if one.is_symptom else score.diagnoses if one.is_diagnosis else score.suspicions
        kind.append(RecordedIncident(recording.name, incident))


def _match_labels(
    recording: RecordingOutcome,
    labels: tuple[FaultLabel, ...],
    told: list[tuple[Incident, ReportedIncident]],
    score: VersionScore,
) -> None:
    """Gives each fault the diagnosis that told it, and each diagnosis its verdict."""
    diagnoses = [(incident, one) for incident, one in told if one.is_diagnosis]
    used: set[str] = set()
    for label in labels:
        fits = [pair for pair in diagnoses if pair[0].id not in used and is_right(label, pair[1])]
        best = min(fits, key=lambda pair: (not is_located(label, pair[1]), pair[1].opened_s), default=None)
        if best is None:
            score.missed.append((recording.name, label))
            continue
        used.add(best[0].id)
        delay = max(best[1].opened_s - label.begin, 0.0)
        score.found.append(FoundFault(recording.name, label, best[0], delay))
    for incident, one in told:
        verdict = _verdict(one, recording.labels or (), known=incident.id in used)
        score.verdicts[recording.name, incident.id] = verdict
        if verdict == WRONG and one.is_diagnosis:
            score.wrong.append(RecordedIncident(recording.name, incident))


def _verdict(one: ReportedIncident, labels: Collection[FaultLabel], *, known: bool) -> str:
    if known or any(is_right(label, one) for label in labels):
        return RIGHT
    during = [label for label in labels if is_during(label, one)]
    if one.is_symptom:
        return RIGHT if during else WRONG
    is_open = any(label.accepts(name) for label in during for name in one.candidates)
    return OPEN if is_open else WRONG


def is_right(label: FaultLabel, one: ReportedIncident) -> bool:
    """Returns whether an incident names the condition of a fault while it is there."""
    return label.accepts(one.condition) and is_during(label, one)


def is_during(label: FaultLabel, one: ReportedIncident) -> bool:
    """Returns whether an incident opens while a fault is there."""
    return label.begin - EARLY_TOLERANCE <= one.opened_s <= label.end + LATE_TOLERANCE


def is_located(label: FaultLabel, one: ReportedIncident) -> bool:
    """Returns whether an incident names the place of a fault."""
    return one.name in label.names or ANYWHERE in label.names
