"""One incident as lines: location, time, confidence, evidence, missing signals and advice. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from skewscope.engine.advice.command_values import fill_commands
from skewscope.engine.advice.cost_words import describe_cost, describe_cost_by_size, describe_size, find_user_cost
from skewscope.engine.advice.incident_words import (
    describe_cause,
    describe_incident,
    format_location,
    format_others,
    format_where,
)
from skewscope.engine.advice.steps import AdvisedStep, advised_steps
from skewscope.engine.model.incident import CompetingCondition, Incident, IncidentEvidence
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue, Mitigation
from skewscope.kb.problems import join_names
from skewscope.kb.quantities import format_probability, round_together
from skewscope.tui.render import expression_text, units
from skewscope.tui.render.command_lines import command_lines
from skewscope.tui.render.evidence_value import SeriesReading, format_evidence
from skewscope.tui.render.text import Line, cut_words, line, pad, width

SEVERITY_GLYPHS = {"critical": ("✖", "crit"), "warning": ("!", "warn"), "info": ("·", "info"), "resolved": ("✓", "ok")}
"""Glyph and role by severity, or for resolved."""
SYMPTOM_GLYPH = "~"
"""Glyph of a symptom; its role is that of its severity."""

IF_WRONG_LABEL = "if wrong"
"""What it may be where a diagnosis is wrong. Only the diagnosis has a number: those of the alternatives say how well
each fits by itself, so they add up to more than what is left."""
CANDIDATES_LABEL = "not known"
UNSEEN_LABEL = "no data"
CAUSED_BY_LABEL, EFFECTS_LABEL = "caused by", "also"
LEAST_WORDS = 5
"""Columns from which on a part of the words after a number is useful..."""
_OPEN_WORDS = frozenset({"a", "an", "at", "by", "for", "from", "in", "is", "of", "on", "than", "that", "the", "to"})
"""...which does not end in one of these."""
MAX_OTHERS = 8
"""Columns up to which a row or a line of an incident names further members."""
MAX_CAUSES = 3
"""Causes that the lead names."""


@dataclass(frozen=True)
class DisplayNames:
    """Names of ids, and the other incidents that an incident may refer to."""

    catalogue: Catalogue
    incidents: tuple[Incident, ...] = ()
    read_series: Callable[[Incident, IncidentEvidence], SeriesReading | None] | None = field(
        default=None, compare=False
    )
    """Reads the series of an evidence item, if there is one."""
    topology: Topology | None = field(default=None, compare=False)
    """Where the names in commands come from."""

    def condition_name(self, id_: str) -> str:
        """Returns the name of a condition or symptom, or its id if it is unknown."""
        known = self.catalogue.conditions.get(id_) or self.catalogue.symptoms.get(id_)
        return known.name if known else id_

    def incident_name(self, incident: Incident) -> str:
        """Returns the name of an incident's condition or symptom."""
        return self.condition_name(incident.condition)

    def signal_name(self, id_: str) -> str:
        """Returns `<id> (<name>)`, or the id of an unknown signal."""
        known = self.catalogue.signals.get(id_)
        return f"{id_} ({known.name})" if known else id_

    def mitigation_name(self, id_: str) -> str:
        """Returns a mitigation's name, or its id if it is unknown."""
        known = self.catalogue.mitigations.get(id_)
        return known.name if known else id_

    def incident_title(self, incident: Incident) -> str:
        """Returns `<name> on <location>`."""
        return f"{self.incident_name(incident)} on {format_location(incident)}"

    def sentence(self, incident: Incident) -> str:
        """Returns what goes wrong where: `n2 holds up group A: every rank waits for it`."""
        return describe_incident(incident, self.catalogue, self.topology)

    def find_incident(self, id_: str) -> Incident | None:
        """Returns the incident with this id, None if it is unknown."""
        return next((i for i in self.incidents if i.id == id_), None)

    def explained_incidents(self, id_: str) -> tuple[Incident, ...]:
        """Returns the incidents that an incident explains."""
        return tuple(i for i in self.incidents if i.root_id == id_ and i.id != id_)


@dataclass(frozen=True, slots=True)
class Section:
    """A label and its items, each a line that may be wrapped."""

    label: str
    items: tuple[Line, ...]


def severity_glyph(incident: Incident) -> tuple[str, str]:
    """Returns glyph and role of an incident's severity, of a symptom, or of a resolved incident."""
    glyph, role = SEVERITY_GLYPHS["resolved" if incident.state == "resolved" else incident.severity]
    return (SYMPTOM_GLYPH, role) if incident.is_symptom and incident.state != "resolved" else (glyph, role)


def format_confidence(incident: Incident) -> str:
    """Returns `94 %`."""
    return format_probability(incident.confidence)


def format_impact(incident: Incident, names: DisplayNames) -> str:
    """Returns `time of a round 8.7→21.6 ms (2.5×)` or a sentence, or '' if the impact is not measured."""
    return describe_cost(incident, names.catalogue)


def format_impact_short(incident: Incident, names: DisplayNames) -> str:
    """Returns `8.7→21.6 ms (2.5×) time of a round`: the number survives cropping."""
    return describe_cost_by_size(incident, names.catalogue)


def shorten_impact(incident: Incident, text: str, room: int) -> str:
    """Returns the cost as it fits in `room` columns: with a part of its words, or the size alone, or its factor.

    A number that is cut would be another number.
    """
    size = describe_size(incident)
    short = cut_words(text, room)
    words = short.removesuffix("…").rstrip()
    while words.rpartition(" ")[2] in _OPEN_WORDS:
        words = words.rpartition(" ")[0]
    if size in words and len(words) >= len(size) + LEAST_WORDS:
        return f"{words} …"
    levels, _, factor = size.removesuffix(")").partition(" (")
    return next((one for one in (size, levels, factor) if one and width(one) <= room), text)


def format_blast_radius(incident: Incident) -> str:
    """Returns `2 nodes, 1 group`."""
    hit = incident.blast_radius
    parts = [(hit.nodes, "node"), (hit.groups, "group"), (hit.replicas, "replica")]
    return ", ".join(units.format_count(n, noun) for n, noun in parts if n)


def duration(incident: Incident, now: float) -> float:
    """Returns seconds from the start to the end, or to now."""
    return max((incident.resolved_at or now) - incident.began, 0.0)


def evidence_value(item: IncidentEvidence, incident: Incident, names: DisplayNames) -> str:
    """Returns what an item measured: beside what is normal where its series shows it, else by itself."""
    is_read = names.read_series is not None and item.reference is None
    reading = names.read_series(incident, item) if names.read_series and is_read else None
    return (reading.text if reading else "") or format_evidence(item)


def format_name(name: str) -> str:
    """Returns an item's name with blanks: `same_rank` is `same rank`; what has blanks has names of its own in it."""
    return name if " " in name else name.replace("_", " ")


class Headline(NamedTuple):
    """What an incident begins with."""

    what: Line
    """What goes wrong where."""
    state: Line
    """Severity, state and confidence."""
    since: Line
    """Time, impact and extent."""
    name: str
    """The name of the condition where the sentence does not have it, else ''."""

    @property
    def named_state(self) -> Line:
        """Returns the state, with the name after it."""
        return (*self.state, (f" · {self.name}", "")) if self.name else self.state


def headline(incident: Incident, names: DisplayNames, now: float) -> Headline:
    """Returns what an incident begins with, as lines."""
    mark, role = severity_glyph(incident)
    sentence = names.sentence(incident)
    what = ((f"{mark} ", role), (sentence, "title"))
    state = ((_severity_words(incident), role), (f" · {state_words(incident)}", ""), *_certainty(incident, names))
    ended = f", ended {units.format_time(incident.resolved_at)}" if incident.resolved_at is not None else ""
    lasted = units.format_duration(duration(incident, now))
    clock = units.format_clock(incident.began)
    is_moment = incident.resolved_at is None and duration(incident, now) < units.MOMENT_S
    since = f"at {clock}" if is_moment else f"since {clock}, for {lasted}{ended}"
    cost = format_impact(incident, names) or ("" if incident.is_symptom else "cost not measurable")
    name = names.incident_name(incident)
    facts = [since, _users_cost(incident, names), cost, _affected(incident, names), _also_hit(incident)]
    since_line = line("  " + " · ".join(filter(None, facts)), "dim")
    return Headline(what, state, since_line, "" if sentence.startswith(name) else name)


def _severity_words(incident: Incident) -> str:
    """Returns the severity, of what is over as a past one."""
    return f"was {incident.severity}" if incident.state == "resolved" else incident.severity


def state_words(incident: Incident) -> str:
    """Returns the state of an incident in words: `gone` where it ended with its place."""
    if incident.state == "resolved":
        return "gone" if incident.is_gone else "over"
    return incident.state


def _certainty(incident: Incident, names: DisplayNames) -> Line:
    """Returns how sure a diagnosis is; a symptom is a fact, whose cause is likely or not known."""
    if not incident.is_symptom:
        return ((" · ", ""), (f"{format_confidence(incident)} sure", "title"))
    return () if incident.explained_by else ((f" · {describe_cause(incident, names.catalogue)}", ""),)


def _users_cost(incident: Incident, names: DisplayNames) -> str:
    """Returns what users wait: `users wait: time to first byte 121× as long`, '' if no effect of that kind is seen."""
    felt = find_user_cost(names.explained_incidents(incident.id), names.catalogue)
    if felt is None or incident.explained_by:
        return ""
    cost = describe_cost(felt, names.catalogue)
    return f"users wait: {cost}{' as long' if cost.endswith('×') else ''}"


def _affected(incident: Incident, names: DisplayNames) -> str:
    """Returns `affects 4 of 8 nodes, 1 group`."""
    hit = format_blast_radius(incident)
    whole = len(names.topology.nodes) if names.topology else 0
    nodes = units.format_count(incident.blast_radius.nodes, "node")
    if whole > 1 and hit.startswith(nodes):
        hit = f"{incident.blast_radius.nodes:,} of {units.format_count(whole, 'node')}{hit[len(nodes) :]}"
    return f"affects {hit}" if hit else ""


def _also_hit(incident: Incident) -> str:
    """Returns the further members where the location has their number only."""
    others = format_others(incident)
    return f"also hit {join_names(incident.also)}" if others == f"+{len(incident.also)}" else ""


def reasoning_sections(incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns the evidence with its expressions, all alternatives and the missing signals."""
    parts = (
        *_evidence_sections(incident, names),
        Section(IF_WRONG_LABEL, _competing_lines(incident, names)),
        Section(CANDIDATES_LABEL, _candidate_lines(incident, names)),
        Section(UNSEEN_LABEL, _unseen_lines(incident)),
    )
    return tuple(part for part in parts if part.items)


def full_sections(incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns all sections of an incident: causes, advice with recipes, relations, reasoning, history, rule, id."""
    parts = (
        Section("why", summary_lines(incident)),
        Section("causes", probable_causes(incident, names, len(incident.likely_causes))),
        Section("do", recipe_items(incident, names)),
        *relation_sections(incident, names, len(names.incidents)),
        *reasoning_sections(incident, names),
        *history_sections(incident, names),
    )
    return tuple(part for part in parts if part.items)


def relation_sections(incident: Incident, names: DisplayNames, most: int) -> tuple[Section, Section]:
    """Returns what explains an incident, and up to `most` incidents that it explains."""
    below = names.explained_incidents(incident.id)
    effects = [_effect_line(each, incident, names) for each in below[:most]]
    if len(below) > most:
        effects.append(line(f"and {len(below) - most} more", "dim"))
    return Section(CAUSED_BY_LABEL, cause_lines(incident, names)), Section(EFFECTS_LABEL, tuple(effects))


def summary_lines(incident: Incident) -> tuple[Line, ...]:
    return (line(incident.summary),) if incident.summary else ()


def probable_causes(incident: Incident, names: DisplayNames, most: int) -> tuple[Line, ...]:
    """Returns up to `most` causes of a symptom, one a line, likeliest first, and how many more there are."""
    shown = incident.likely_causes[:most]
    more = len(incident.likely_causes) - most
    *likely, others, none = _cause_shares(shown, incident.none)
    rows: list[Line] = []
    for n, ((id_, _), probability) in enumerate(zip(shown, likely, strict=True), 1):
        where = incident.format_location(id_)
        rows.append(((f"{n} ", "dim"), (names.condition_name(id_), "key"), (f"{where}{probability}", "")))
    rest = f"{others} together" if others else ""
    return (
        *rows,
        *([line(f"others, each less likely{rest}", "dim")] if more > 0 else []),
        *([line(f"none of the catalogue{none}", "dim")] if rows and none else []),
    )


def _cause_shares(shown: Sequence[tuple[str, float | None]], none: float | None) -> list[str]:
    """Returns the probabilities of causes, of all others together and of none: in whole percent that add up to 100.

    Where not all are known, those that are, each by itself.
    """
    known = [probability for _, probability in shown if probability is not None]
    if none is None or len(known) < len(shown):
        each = ["" if one is None else format_probability(one) for _, one in shown]
        return [f"  {text}" if text else "" for text in (*each, "", "")]
    whole = round_together([*known, max(1.0 - none - sum(known), 0.0), none])
    return [f"  {format_probability(share)}" for share in whole]


def _none_text(incident: Incident) -> str:
    """Returns how likely it is that none of the catalogue explains an incident; '' where it was not worked out."""
    return "" if incident.none is None else f"none of the catalogue  {format_probability(incident.none)}"


def _evidence_sections(incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns the evidence grouped by verdict, in columns."""
    pro, contra = incident.evidence, incident.against
    name_width = min(max((width(format_name(e.name)) for e in (*pro, *contra)), default=0), 24)
    values = {e.name: evidence_value(e, incident, names) for e in (*pro, *contra)}
    value_width = max(map(width, values.values()), default=0)

    def lines(items: tuple[IncidentEvidence, ...], verdict: str, mark: str, role: str) -> tuple[Line, ...]:
        return tuple(
            (
                (f"{mark} ", role),
                (pad(format_name(e.name), name_width), "key"),
                (f"  {pad(values[e.name], value_width)}  ", ""),
                (expression_text.format_expression(e.expr), "dim"),
            )
            for e in items
            if e.verdict == verdict
        )

    return (
        Section("why", lines(pro, "yes", "+", "ok")),
        Section("against", lines(contra, "yes", "+", "warn") + lines(pro, "no", "−", "warn")),
        Section("ruled out", lines(contra, "no", "−", "dim")),
        Section("unknown", lines((*pro, *contra), "unknown", "?", "warn")),
    )


def _competing_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the alternatives of a diagnosis with their tests, and with probabilities where these are known of all."""
    none = "" if incident.is_symptom else _none_text(incident)
    lines = (_competing_line(one, names, with_share=bool(none)) for one in incident.competing)
    return (*lines, *([line(none, "dim")] if none else []))


def _competing_line(competing: CompetingCondition, names: DisplayNames, *, with_share: bool) -> Line:
    name, test = names.condition_name(competing.condition), competing.separate_by
    share = f"  {format_probability(competing.confidence)}" if with_share else ""
    return ((name, "key"), (share, "dim"), (f": {test}" if test else "", ""))


def _candidate_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the candidates that lack telemetry, with their possible locations."""
    candidates = [f"{names.condition_name(one)}{incident.format_location(one)}" for one in incident.unjudged_conditions]
    count = units.format_count(len(candidates), "condition")
    return (line(f"{count} cannot be checked here (no data): {', '.join(candidates)}"),) if candidates else ()


def _unseen_lines(incident: Incident) -> tuple[Line, ...]:
    if not incident.unseen:
        return ()
    share = f"{round(100 * incident.coverage)} % of the evidence could be looked at"
    return (line(f"{', '.join(incident.unseen)}; {share}"),)


def recipe_items(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns all advice, each with effect, risk, undo, check and commands of the mitigation."""
    items: list[Line] = []
    for n, step in enumerate(advised_steps(incident, names.catalogue, names.topology), 1):
        items.append(_advice_line(n, step))
        commands = [one.command for one in step.commands]
        if known := step.mitigation:
            items += [*recipe_lines(known), *command_lines(commands, known.no_command)]
        elif step.shows:
            items += [*command_lines(commands), (("  look for: ", "dim"), (step.shows, ""))]
    return tuple(items)


def advised_command_lines(known: Mitigation, incident: Incident, names: DisplayNames) -> list[Line]:
    """Returns the commands of a mitigation with the names of an incident, ready to copy."""
    return command_lines(fill_commands(known, incident, names.topology), known.no_command)


def _advice_line(n: int, step: AdvisedStep) -> Line:
    advice, name = step.advice, step.mitigation.name if step.mitigation else ""
    about = f"{name}, {advice.actor}" if name and name != step.title else advice.actor
    return (
        (f"{n} ", "dim"),
        (step.title, "key"),
        (f" ({about})", "dim"),
        (f": {advice.why}" if advice.why else "", ""),
    )


def cause_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    if not incident.explained_by:
        return ()
    root = names.find_incident(incident.explained_by.id)
    name = names.incident_title(root) if root else incident.explained_by.id
    relation = incident.explained_by.words
    over = f", over since {units.format_time(root.resolved_at)}" if root and root.resolved_at is not None else ""
    return (
        line(f"{name if relation == CAUSED_BY_LABEL else f'{relation} {name}'}{over}"),
        line("open it for what to do", "dim"),
    )


def _effect_line(effect: Incident, cause: Incident, names: DisplayNames) -> Line:
    """Returns an effect with its times, as far as they are not those of its cause."""
    ended = f" to {units.format_time(effect.resolved_at)}" if effect.resolved_at is not None else ""
    began = units.format_time(effect.began)
    since = f", since {began}{ended}" if ended or began != units.format_time(cause.began) else ""
    what = f"{names.incident_name(effect)} on {format_where(effect, MAX_OTHERS)}"
    return (severity_glyph(effect), (f" {what}, caused by it{since}", ""))


def recipe_lines(known: Mitigation) -> list[Line]:
    """Returns effect, risk, undo and check of a mitigation, one line each."""
    risk = f"{known.risk} ({known.cost})" if known.cost else known.risk
    facts = (("effect", known.effect), ("risk", risk), ("undo", known.undo), ("verify", known.verify))
    return [((f"  {name}: ", "dim"), (text, "")) for name, text in facts if text]


def history_sections(incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns history, rule and id of an incident."""
    flaps = units.format_count(incident.flaps, "time")
    history = [line(f"{units.format_time(time)}  {_format_event(what, names)}") for time, what in incident.history]
    if incident.moves:
        moved = units.format_count(incident.moves, "time")
        history.append(line(f"moved {moved} within its group, so it follows the workload, not a node"))
    if incident.flaps:
        history.append(line(f"reopened {flaps}"))
    decided = f"{incident.rule} (hash {incident.rule_hash[:12]}), " if incident.rule else ""
    rule = line(f"{decided}input {incident.input_hash[:12] or 'unknown'}", "dim")
    ids = line(f"{incident.id}, condition {incident.condition}", "dim")
    parts = (Section("history", tuple(history)), Section("rule", (rule,)), Section("id", (ids,)))
    return tuple(part for part in parts if part.items)


def _format_event(what: str, names: DisplayNames) -> str:
    """Returns an event with an incident's id replaced by its name."""
    cause, by, id_ = what.rpartition(" by ")
    root = names.find_incident(id_)
    return f"{cause}{by}{names.incident_title(root)}" if root else what
