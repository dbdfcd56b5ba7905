"""Two measurements side by side, results of benchmarks or recordings: what is worse, and which conditions fit."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from skewscope.adapters.comparison.recording_levels import compare_recordings
from skewscope.adapters.comparison.result_files import read_side
from skewscope.adapters.notify.incident_text import title
from skewscope.adapters.results.result_finding import ResultFinding
from skewscope.adapters.results.result_judgement import compare_results
from skewscope.adapters.results.run_comparison import ALIKE, BETTER, WORSE, QuantityChange
from skewscope.engine.attribution.posterior import find_posterior
from skewscope.engine.attribution.signature_evidence import SignatureModel
from skewscope.engine.incidents.confidence import load_calibration
from skewscope.engine.model.finding import EVENT, Finding
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.locality import Entity
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, NothingKnownError, Problem

RESULTS, RECORDINGS = "results", "recordings"


@dataclass(frozen=True, slots=True)
class SideComparison:
    """What is different between two sides."""

    kind: str
    """results or recordings."""
    changes: tuple[QuantityChange, ...]
    findings: tuple[ResultFinding, ...]
    """What the changes say together, of results of benchmarks."""
    causes: tuple[tuple[str, float], ...]
    """(condition, probability) of those that fit, likeliest first."""
    incidents: tuple[Incident, ...] = ()
    """Of recordings: those that the first one lacks."""

    @property
    def verdict(self) -> str:
        """worse, better or alike."""
        verdicts = {change.verdict for change in self.changes}
        if self.findings or self.incidents or WORSE in verdicts:
            return WORSE
        return BETTER if BETTER in verdicts else ALIKE

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.findings:
            return f"{self.findings[0].text}."
        if self.incidents:
            more = f"; {len(self.incidents) - 1} more are new" if len(self.incidents) > 1 else ""
            return f"New is {title(self.incidents[0])}{more}."
        by_verdict = {name: [each for each in self.changes if each.verdict == name] for name in (WORSE, BETTER)}
        if worse := by_verdict[WORSE]:
            first = max(worse, key=lambda each: each.badness)
            more = f"; {len(worse) - 1} more are worse" if len(worse) > 1 else ""
            return f"{first.what} of {first.place} is worse: {first.text}{more}."
        if better := by_verdict[BETTER]:
            first = max(better, key=lambda each: each.badness)
            return f"Nothing is worse; better is {first.what}: {first.text}."
        return "Nothing is worse: all differences are within what repeats vary."


def compare_sides(before: Path, after: Path, progress: Callable[[str, float], None] | None = None) -> SideComparison:
    """Returns what is different after, against before: of results where both sides have some, else of recordings.

    Raises:
        InputError: a side cannot be read, or the sides are of different kinds; NothingKnownError: they have nothing in
            common that can be judged.
    """
    sides = [read_side(path) for path in (before, after)]
    if all(sides):
        judged = compare_results(*sides)
        _check_common(judged.changes, before, after)
        return SideComparison(RESULTS, judged.changes, judged.findings, _causes_of_findings(judged.findings))
    if any(sides):
        lacking = after if sides[0] else before
        found = "a recording or telemetry, beside results of a benchmark"
        raise InputError([Problem(str(lacking), 0, "", found, "the same kind on both sides")])
    levels = compare_recordings(before, after, progress)
    _check_common(levels.changes, before, after)
    causes = rank_causes(levels.findings, levels.delivered, levels.group_kinds)
    return SideComparison(RECORDINGS, levels.changes, (), causes, levels.incidents)


def _check_common(changes: Sequence[QuantityChange], before: Path, after: Path) -> None:
    if not changes:
        found = "no load, nodes or signals that both have"
        hint = "Run the benchmark with the same load, or record the same signals."
        raise NothingKnownError([Problem(f"{before} and {after}", 0, "", found, "some that can be compared", hint)])


def _causes_of_findings(findings: Sequence[ResultFinding]) -> tuple[tuple[str, float], ...]:
    known = catalogue()
    events = [known.events[each.event] for each in findings]
    events_found = [
        Finding(known.signals[event.signal], Entity(event.entity, ""), EVENT, "begins", 0.0, 1.0, 0.0)
        for event in events
    ]
    return rank_causes(events_found, [event.signal for event in events], ())


def rank_causes(
    findings: Sequence[Finding], delivered: Collection[str], group_kinds: Collection[str]
) -> tuple[tuple[str, float], ...]:
    """Returns (condition, probability) of what some findings fit, likeliest first."""
    if not findings:
        return ()
    fitting = SignatureModel(catalogue()).weigh(findings, delivered, group_kinds)
    return find_posterior({one.condition: one.log_odds for one in fitting}, load_calibration()).list_likeliest()
