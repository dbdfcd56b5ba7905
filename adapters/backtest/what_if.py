"""What would have been told if telemetry or a rule had been another; and why something was not told."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skewscope.adapters.backtest.difference import SAME, IncidentDifference, compare_versions
from skewscope.adapters.backtest.edits import SignalEdit, build_editor
from skewscope.adapters.backtest.probe import RuleState, probe_rules, rules_of
from skewscope.adapters.backtest.rule_set import RuleSet, load_rule_set
from skewscope.adapters.backtest.telemetry import NamedRecording, load_telemetry
from skewscope.adapters.backtest.track import Segment, Track, TrackSetup, build_setup, cut_recording
from skewscope.adapters.backtest.verdicts import VersionScore
from skewscope.adapters.inputs.recording import RecordingData
from skewscope.engine.model.incident import Incident
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.rules.loader import RULES_FOLDER

OPENED = "opened"
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Supposition:
    """What is supposed to have been another way."""

    edits: tuple[SignalEdit, ...] = ()
    rule: str = ""
    """A rule file that replaces the installed rule of its id; '' for none."""


@dataclass(frozen=True)
class WhatIfOutcome:
    """An incident as it was told, and what would have been told."""

    incident: Incident
    told_at: float
    """When it was told, seconds since 1970."""
    difference: IncidentDifference
    """Of the incident."""
    others: tuple[IncidentDifference, ...]
    """Of other incidents that would not be the same."""
    before: RuleState | None
    after: RuleState | None
    """Its rule when it was told; None for symptoms, which have none."""


@dataclass(frozen=True)
class WhyNotOutcome:
    """The rules of a condition on an entity at one time."""

    condition: str
    time: float
    """End of the tick, seconds since 1970."""
    states: tuple[RuleState, ...]
    incidents: tuple[Incident, ...]
    """Those that were open there at that time, of any condition."""


def suppose(
    found: NamedRecording,
    incident: str,
    supposition: Supposition,
    progress: Progress | None = None,
    rules: RuleSet | None = None,
) -> WhatIfOutcome:
    """Returns what would have been told instead of an incident.

    Args:
        found: the recording.
        incident: id of the incident, or its begin.
        supposition: what to change.
        progress: receives the current step and the share of all work that is done.
        rules: the rules that tell the incident; None: all that are installed.

    Raises:
        InputError: there is no such incident, or nothing to change.
    """
    report, known = progress or (lambda _, __: None), catalogue()
    loaded, recording = load_telemetry(found.recording, lambda what, share: report(what, share / 3), None)
    installed = rules or load_rule_set(str(RULES_FOLDER), known)
    segments = list(cut_recording(loaded, recording))
    before = _Run(build_setup(loaded, recording, installed))
    before.play(segments, incident, lambda share: report("as it was", (1 + share) / 3))
    one = _find_incident(incident, before.incidents)
    here = (one.name, *one.also)
    changed = segments
    if supposition.edits:
        editor = build_editor(supposition.edits, loaded.table.keys, known, recording.topology, here)
        changed = [editor.edit(segment) for segment in segments]
    others = load_rule_set(supposition.rule, known, with_others=rules is None) if supposition.rule else installed
    after = _Run(build_setup(loaded, recording, others), {one.rule}, (one.name,), before.told_at.get(one.id))
    after.play(changed, None, lambda share: report("as it might be", (2 + share) / 3))
    return _build_outcome(one, before, after)


class _Run:
    """One version of the telemetry and the rules, played to its end."""

    def __init__(
        self, setup: TrackSetup, rules: Iterable[str] = (), places: Sequence[str] = (), at: float | None = None
    ) -> None:
        """`rules` on `places` are looked at `at` a time in seconds; None: when the incident that is asked for opens."""
        self._setup, self._track = setup, Track(setup)
        self._rules, self._places, self._at = tuple(rules), places, at
        self.told_at: dict[str, float] = {}
        self.states: list[RuleState] = []

    def play(self, segments: Sequence[Segment], incident: str | None, report: Callable[[float], None]) -> None:
        """Plays all segments; `incident` is the begin of the id of the one to look at, None for none."""
        for number, segment in enumerate(segments):
            for t, changes in self._track.play(segment):
                for change in changes:
                    if change.what == OPENED:
                        self.told_at.setdefault(change.id, t)
                        if incident is not None and change.id.startswith(incident):
                            self._look_at_incident(change.id, t)
                if self._at is not None and t >= self._at:
                    self.states = self._probe(self._rules, self._places, t)
                    self._at = None
            report((number + 1) / len(segments))

    def _look_at_incident(self, id_: str, t: float) -> None:
        for one in self.incidents:
            if one.id == id_ and one.rule:
                self.states = self._probe((one.rule,), (one.name,), t)

    def _probe(self, rules: Iterable[str], places: Sequence[str], t: float) -> list[RuleState]:
        return probe_rules(self._track.engine, self._setup.topology, rules, places, t)

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """All incidents so far."""
        return self._track.list_incidents()


def _find_incident(wanted: str, incidents: Sequence[Incident]) -> Incident:
    found = [one for one in incidents if one.id == wanted] or [one for one in incidents if one.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    ids = [one.id for one in incidents]
    mismatch = f"the start of {len(found)} incident ids" if found else "no incident of the recording"
    hint = suggest_name(wanted, ids) or f"Incidents: {', '.join(ids) or 'none'}."
    raise InputError([Problem(repr(wanted), 0, "", mismatch, "the id of an incident", hint)])


def _build_outcome(one: Incident, before: _Run, after: _Run) -> WhatIfOutcome:
    nothing = VersionScore("")
    differences = compare_versions([("", before.incidents, after.incidents)], nothing, nothing)
    own = next(each for each in differences if each.before is not None and each.before.id == one.id)
    others = tuple(each for each in differences if each is not own and each.kind != SAME)
    states = [next((state for state in run.states if state.rule == one.rule), None) for run in (before, after)]
    return WhatIfOutcome(one, before.told_at.get(one.id, one.opened_at), own, others, *states)


def ask_why_not(
    found: NamedRecording,
    question: tuple[str, str, float],
    progress: Progress | None = None,
    rules: RuleSet | None = None,
) -> WhyNotOutcome:
    """Returns how the rules of a condition judged an entity at a time, and what was told there.

    Args:
        found: the recording.
        question: the id of the condition, the name of the entity with or without its kind (`n2`, `rank n2`, `n2/ew`),
            and the time in seconds since 1970.
        progress: receives the current step and the share of all work that is done.
        rules: the rules to judge by; None: all that are installed.

    Raises:
        InputError: no rule judges that condition on that entity, or there is no data at that time.
    """
    report, (condition, entity, time) = progress or (lambda _, __: None), question
    installed = rules or load_rule_set(str(RULES_FOLDER), catalogue())
    asked = rules_of(installed.rules, condition)
    if not asked:
        hint = suggest_name(condition, sorted(installed.conditions))
        raise InputError([Problem("--why-not", 0, "", repr(condition), "a condition that a rule judges", hint)])
    loaded, recording = load_telemetry(found.recording, lambda what, share: report(what, share / 2), None)
    _check_time(recording.path, loaded, time)
    track, last = Track(build_setup(loaded, recording, installed)), loaded.start
    for segment in _until(cut_recording(loaded, recording), time):
        for t, _ in track.play(segment):
            last = t
        report("diagnosing", 0.5 + 0.5 * (last - loaded.start) / max(time - loaded.start, 1.0))
    states = probe_rules(track.engine, recording.topology, asked, (entity,), last)
    if not states:
        raise InputError([_no_entity(track, asked, entity)])
    places = {entity, *(state.name for state in states)}
    near = [one for one in track.list_incidents() if not places.isdisjoint({one.name, *one.also})]
    return WhyNotOutcome(condition, last, tuple(states), tuple(one for one in near if one.state == "firing"))


def _until(segments: Iterable[Segment], time: float) -> Iterator[Segment]:
    """Yields the ticks that end by a time."""
    for segment in segments:
        count = int((segment.ends <= time).sum())
        if count == len(segment.ends):
            yield segment
            continue
        if count:
            yield replace(segment, ends=segment.ends[:count], sizes=segment.sizes[:count])
        return


def _check_time(path: Path, loaded: RecordingData, time: float) -> None:
    if not loaded.start <= time <= loaded.end + 1.0:
        found = (
            f"a time {loaded.start - time:.0f} s before" if time < loaded.start else f"{time - loaded.end:.0f} s after"
        )
        raise InputError([Problem("--time", 0, "", f"{found} the data of {path.name}", "a time within it")])


def _no_entity(track: Track, rules: Sequence[str], entity: str) -> Problem:
    names: dict[str, None] = {}
    for verdict in track.engine.verdicts:
        if verdict.rule in rules:
            names.update(dict.fromkeys(track.engine.display_name(verdict.kind, name)[1] for name in verdict.names))
    some = f"They judge {', '.join(list(names)[:5])}{' ...' if len(names) > 5 else ''}." if names else ""
    hint = suggest_name(entity, names) or some or "The topology has no entity that they judge."
    return Problem("--at", 0, "", f"{entity!r}, which {' and '.join(rules)} do not judge", "an entity", hint)
