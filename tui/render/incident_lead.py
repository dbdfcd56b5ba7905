"""What an operator needs of an incident first: why, what to do as commands, and what else it could be. Pure."""

from collections.abc import Iterable

from skewscope.engine.advice.cost_words import describe_normal
from skewscope.engine.advice.steps import AdvisedStep, StepCommand, advised_steps
from skewscope.engine.model.incident import CompetingCondition, Incident, IncidentEvidence
from skewscope.kb.problems import join_names
from skewscope.kb.quantities import format_probability
from skewscope.tui.render import units
from skewscope.tui.render.command_lines import COPY_ROLE
from skewscope.tui.render.detail import (
    IF_WRONG_LABEL,
    MAX_CAUSES,
    DisplayNames,
    Section,
    cause_lines,
    evidence_value,
    format_name,
    probable_causes,
    relation_sections,
    summary_lines,
)
from skewscope.tui.render.evidence_value import format_evidence, is_one_message
from skewscope.tui.render.text import Line, line, pad, width

MAX_STEPS = 3
"""Mitigations that the lead names."""
MAX_EFFECTS = 5
"""Incidents caused by this one that the lead lists."""
STEP_LABELS = ("do", "undo", "works if", "look for")
NO_DATA, RULED_OUT = "no data", "ruled out"


def lead_sections(incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns why, likely causes where none is known, what to do with undo and test, and what else it may be."""
    is_explained = bool(cause_lines(incident, names))
    steps = advised_steps(incident, names.catalogue, names.topology)
    caused_by, effects = relation_sections(incident, names, MAX_EFFECTS)
    parts = (
        Section("why", summary_lines(incident) + why_lines(incident, names)),
        caused_by,
        # Beside a cause that is known others would only compete with it.
        Section("causes", () if is_explained else _open_causes(incident, names)),
        *step_sections(steps, incident, names),
        Section(IF_WRONG_LABEL, (() if is_explained else alternative_lines(incident, names)) or _retreat_lines(steps)),
        effects,
    )
    return tuple(part for part in parts if part.items)


# --- why


def why_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the evidence that holds: one line with the series of each item, or one line in all."""
    held = [item for item in incident.evidence if item.verdict == "yes"]
    held = [item for item in held if not (is_one_message(item) and format_name(item.name) in incident.summary)]
    if names.read_series is None:
        shown = (
            _other_findings(held)
            if incident.is_symptom
            else ", ".join(_add_value(format_name(item.name), item) for item in held)
        )
        return (line(shown),) if shown else ()
    rows = [(name, *_reading(item, incident, names)) for name, item in _named(held)]
    name_width = max((width(name) for name, _, _ in rows), default=0)
    value_width = max((width(value) for _, value, _ in rows), default=0)
    return tuple(
        ((f"{pad(name, name_width)}  ", "key"), (f"{pad(value, value_width)}  ", ""), (curve, "info"))
        for name, value, curve in rows
    )


def _named(held: Iterable[IncidentEvidence]) -> list[tuple[str, IncidentEvidence]]:
    """Returns the items by the names to show; of several about one thing the strongest, which comes first."""
    found: dict[str, IncidentEvidence] = {}
    for item in held:
        found.setdefault(format_name(item.name).partition(" against its ")[0], item)
    return list(found.items())


def _reading(item: IncidentEvidence, incident: Incident, names: DisplayNames) -> tuple[str, str]:
    """Returns value and curve of an item."""
    reading = names.read_series(incident, item) if names.read_series else None
    return evidence_value(item, incident, names), reading.curve if reading else ""


def _add_value(name: str, item: IncidentEvidence) -> str:
    value = format_evidence(item)
    return f"{name} ({value})" if value else name


def _other_findings(held: list[IncidentEvidence]) -> str:
    """Returns the further findings of a symptom with their values; its summary has the first one."""
    others = join_names([_add_value(name, item) for name, item in _named(held[1:])], MAX_EFFECTS)
    return f"abnormal too: {others}" if others else ""


# --- what to do


def step_sections(steps: tuple[AdvisedStep, ...], incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns the advice, what can be run first; the first one with its command, its undo and its test."""
    if not steps:
        return ()
    do: list[Line] = []
    # Of what is over nothing has to be done now.
    when = ", if it comes back" if incident.state == "resolved" else ""
    for n, step in enumerate(steps[:MAX_STEPS], 1):
        do.append(((f"{n} ", "dim"), (step.title, "key"), (f"  {step_note(step)}{when}", "dim")))
        if n == 1 and step.first:
            do += _command_lines(step.first)
    more = len(steps) - MAX_STEPS
    do += [line(f"and {more} more", "dim")] if more > 0 else []
    first = steps[0]
    do_label, undo_label, test_label, shows_label = STEP_LABELS
    return (
        Section(do_label, tuple(do)),
        Section(undo_label, _undo_lines(first)),
        Section(shows_label if first.shows else test_label, _test_lines(first, incident, names)),
    )


def _command_lines(first: StepCommand) -> list[Line]:
    """Returns a command to copy, and what it needs or what to note before it."""
    notes = filter(None, (f"needs {first.command.needs}" if first.command.needs else "", first.note_first))
    return [(("  ", ""), (first.command.do, COPY_ROLE)), *(line(f"  ({note})", "dim") for note in notes)]


def step_note(step: AdvisedStep) -> str:
    """Returns risk of a step, and where it is typed or what keeps it from that: `low risk · fill in SERVER`."""
    first = step.first
    if first is None:
        state = f"no command, by the {step.advice.actor}"
    else:
        state = f"fill in {join_names(first.unfilled)}" if first.unfilled else first.place
    return " · ".join(filter(None, (step.risk, state)))


def _undo_lines(step: AdvisedStep) -> tuple[Line, ...]:
    is_command = step.first is not None and step.undo == step.first.command.undo
    return (line(step.undo, COPY_ROLE if is_command else ""),) if step.undo else ()


def _test_lines(step: AdvisedStep, incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the test of success, with the level to come back to where it was measured."""
    level = "" if incident.state == "resolved" or step.shows else describe_normal(incident, names.catalogue)
    return tuple(map(line, filter(None, (step.test, level))))


# --- what else it could be


def alternative_lines(incident: Incident, names: DisplayNames, most: int = MAX_CAUSES) -> tuple[Line, ...]:
    """Returns what it would be if it is wrong and what one would see then, what is ruled out, and what is not known."""
    lines = [alternative_line(one, incident, names) for one in incident.competing[:most]]
    more, listed = len(incident.competing) - most, {one.condition for one in incident.competing}
    ruled_out = [format_name(item.name) for item in incident.against if item.verdict == "no"]
    unjudged = sum(name not in listed for name in incident.unjudged_conditions)
    notes = (
        f"{more} more" if more > 0 else "",
        f"{RULED_OUT}: {join_names(ruled_out, MAX_CAUSES)}" if ruled_out else "",
        f"{units.format_count(unjudged, 'other')} cannot be checked here (no data)" if unjudged else "",
    )
    found = " · ".join(filter(None, notes))
    return (*lines, *([line(found, "dim")] if found else []))


def _retreat_lines(steps: tuple[AdvisedStep, ...]) -> tuple[Line, ...]:
    """Returns what to do where the first advice does not help and nothing else is known to compete."""
    if not steps:
        return ()
    then = f"2 {steps[1].title}" if len(steps) > 1 else ""
    if steps[0].shows:
        return (line(f"It shows none of that: {then}."),) if then else ()
    return (line(f"It does not help: take it back{', then ' if then else ''}{then}."),)


def alternative_line(one: CompetingCondition, incident: Incident, names: DisplayNames) -> Line:
    """Returns an alternative, whether it can be checked here, and the test that tells it from the diagnosis."""
    state = f" ({NO_DATA})" if one.condition in incident.unjudged_conditions else ""
    share = f" {format_probability(one.confidence)}" if incident.none is not None and not state else ""
    test = f": {one.separate_by}" if one.separate_by else ""
    return ((names.condition_name(one.condition), "key"), (f"{share}{state}", "dim"), (test, ""))


def _open_causes(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the likely causes of a symptom, and the signal that would tell them apart."""
    return probable_causes(incident, names, MAX_CAUSES) + _deciding_lines(incident, names)


def _deciding_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the signal that would tell the causes of a symptom apart."""
    if not incident.decides:
        return ()
    missing = f" ({NO_DATA})" if incident.decides in incident.unseen else ""
    return (((names.signal_name(incident.decides), "key"), (f" would tell these causes apart{missing}", "")),)
