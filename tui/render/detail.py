"""One incident as lines: location, time, confidence, evidence, missing signals and advice. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field

from skewscope.engine.advice.command_values import fill_commands
from skewscope.engine.model.incident import Advice, CompetingCondition, Incident, IncidentEvidence
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue, Mitigation
from skewscope.kb.problems import join_names
from skewscope.tui.render import expression_text, units
from skewscope.tui.render.command_lines import command_lines
from skewscope.tui.render.text import Line, line, pad, width

MIN_BITS = 16
"""A whole number from which on a value without unit is no share: 1,600 %."""
SEVERITY_GLYPHS = {"critical": ("✖", "crit"), "warning": ("!", "warn"), "info": ("·", "info"), "resolved": ("✓", "ok")}
"""Glyph and role by severity, or for resolved."""
SYMPTOM_GLYPH = "~"
"""Glyph of a symptom; its role is that of its severity."""

OTHERWISE_LABEL = "otherwise"
"""What it may be where a diagnosis is wrong. Only the diagnosis has a number: those of the alternatives say how well
each fits by itself, so they add up to more than what is left."""
CANDIDATES_LABEL = "unjudged"
MAX_CAUSES = 3
"""Causes that the lead names."""
MAX_ADVICE = 3
"""Mitigations that the lead names."""
MAX_EXPLAINED = 5
"""Explained incidents that the lead lists."""


@dataclass(frozen=True)
class DisplayNames:
    """Names of ids, and the other incidents that an incident may refer to."""

    catalogue: Catalogue
    incidents: tuple[Incident, ...] = ()
    draw_series: Callable[[Incident, IncidentEvidence], Line] | None = field(default=None, compare=False)
    """Draws the series of an evidence item, if there is one."""
    topology: Topology | None = field(default=None, compare=False)
    """Where the names in commands come from."""

    def condition_name(self, id_: str) -> str:
        """Returns the name of a condition or symptom, or its id if it is unknown."""
        known = self.catalogue.conditions.get(id_) or self.catalogue.symptoms.get(id_)
        return known.name if known else id_

    def incident_name(self, incident: Incident) -> str:
        """Returns the name of an incident's condition, or `Symptom: <name>`."""
        name = self.condition_name(incident.condition)
        return f"Symptom: {name}" if incident.is_symptom else name

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


def format_location(incident: Incident) -> str:
    """Returns `rank n2`, or `link n2/ew +3` with the number of further members."""
    more = f" +{len(incident.also)}" if incident.also else ""
    return f"{incident.kind} {incident.name}{more}"


def format_share(share: float) -> str:
    """Returns `46 %`, or `< 1 %` of a small one."""
    return f"{round(100 * share)} %" if share >= 0.005 or share <= 0 else "< 1 %"


def format_confidence(incident: Incident) -> str:
    """Returns `94 %`."""
    return f"{round(100 * incident.confidence)} %"


def format_impact(incident: Incident) -> str:
    """Returns `round_rate −38 %`, or '' if the impact is not measured."""
    change = incident.impact.change
    if change is None:
        return ""
    return f"{incident.impact.metric} {units.format_value(change, incident.impact.unit, share=True, signed=True)}"


def format_impact_short(incident: Incident) -> str:
    """Returns `−38 % round_rate`: the number survives cropping."""
    change = incident.impact.change
    if change is None:
        return ""
    return f"{units.format_value(change, incident.impact.unit, share=True, signed=True)} {incident.impact.metric}"


def format_blast_radius(incident: Incident) -> str:
    """Returns `2 nodes, 1 group`."""
    hit = incident.blast_radius
    parts = [(hit.nodes, "node"), (hit.groups, "group"), (hit.replicas, "replica")]
    return ", ".join(units.format_count(n, noun) for n, noun in parts if n)


def duration(incident: Incident, now: float) -> float:
    """Returns seconds from the start to the end, or to now."""
    return max((incident.resolved_at or now) - incident.opened_at, 0.0)


def format_value(item: IncidentEvidence) -> str:
    """Returns an item's value with its unit, '' where several values decided; percent if compared with percent."""
    if item.value is None and item.verdict != "unknown":
        return ""
    # An item that compares shares as well as bits may be decided by bits, such as 64.
    is_bits = item.value is not None and item.value >= MIN_BITS and item.value == round(item.value)
    return units.format_value(item.value, item.unit, share="percent" in item.expr and not is_bits)


def format_name(name: str) -> str:
    """Returns an item's name with blanks: `same_rank` is `same rank`."""
    return name.replace("_", " ")


def headline(incident: Incident, names: DisplayNames, now: float) -> tuple[Line, Line, Line]:
    """Returns three lines: condition and location; state and confidence; time, impact and extent."""
    mark, role = severity_glyph(incident)
    what = ((f"{mark} ", role), (names.incident_title(incident), "title"))
    state = (
        (incident.severity, role),
        (f" · {incident.state} · ", ""),
        (f"{format_confidence(incident)} sure", "title"),
        (_open_cause(incident), ""),
    )
    ended = f", ended {units.format_time(incident.resolved_at)}" if incident.resolved_at is not None else ""
    lasted = units.format_duration(duration(incident, now))
    clock = units.format_clock(incident.opened_at)
    is_moment = incident.resolved_at is None and duration(incident, now) < units.MOMENT_S
    since = f"at {clock}" if is_moment else f"since {clock}, for {lasted}{ended}"
    cost = format_impact(incident) or ("" if incident.is_symptom else "impact not measurable")
    hit = format_blast_radius(incident)
    facts = [since, cost, f"hits {hit}" if hit else ""]
    return what, state, line("  " + " · ".join(filter(None, facts)), "dim")


def _open_cause(incident: Incident) -> str:
    """Returns that the cause of a symptom is open however sure the symptom is, '' for a diagnosis."""
    return " · cause open" if len(incident.likely_causes) > 1 else ""


def lead_sections(incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns what an operator needs first: what is seen, likely causes, what to do, what would decide, relations."""
    parts = (
        Section("seen", _summary_lines(incident) + _seen_lines(incident, names)),
        Section("causes", _probable_causes(incident, names, MAX_CAUSES)),
        Section(OTHERWISE_LABEL, _alternative_lines(incident, names)),
        Section("do", _advice_lines(incident, names)),
        Section("decides", _decisive_lines(incident, names)),
        *_relation_sections(incident, names, MAX_EXPLAINED),
    )
    return tuple(part for part in parts if part.items)


def reasoning_sections(incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns the evidence with its expressions, all alternatives and the missing signals."""
    parts = (
        *_evidence_sections(incident, names),
        Section(OTHERWISE_LABEL, _competing_lines(incident, names)),
        Section(CANDIDATES_LABEL, _candidate_lines(incident, names)),
        Section("unseen", _unseen_lines(incident)),
    )
    return tuple(part for part in parts if part.items)


def full_sections(incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns all sections of an incident: causes, advice with recipes, relations, reasoning, history, rule, id."""
    parts = (
        Section("seen", _summary_lines(incident)),
        Section("causes", _probable_causes(incident, names, len(incident.likely_causes))),
        Section("do", recipe_items(incident, names)),
        Section("decides", _decisive_lines(incident, names) if incident.is_symptom else ()),
        *_relation_sections(incident, names, len(names.incidents)),
        *reasoning_sections(incident, names),
        *history_sections(incident, names),
    )
    return tuple(part for part in parts if part.items)


def _relation_sections(incident: Incident, names: DisplayNames, most: int) -> tuple[Section, Section]:
    """Returns what explains an incident, and up to `most` incidents that it explains."""
    below = names.explained_incidents(incident.id)
    effects = [_effect_line(each, names) for each in below[:most]]
    if len(below) > most:
        effects.append(line(f"and {len(below) - most} more", "dim"))
    return Section("explained", _cause_lines(incident, names)), Section("explains", tuple(effects))


def _summary_lines(incident: Incident) -> tuple[Line, ...]:
    return (line(incident.summary),) if incident.summary else ()


def _probable_causes(incident: Incident, names: DisplayNames, most: int) -> tuple[Line, ...]:
    """Returns up to `most` causes of a symptom, one a line, likeliest first, and how many more there are."""
    rows: list[Line] = []
    for n, (id_, probability) in enumerate(incident.likely_causes[:most], 1):
        likely = "" if probability is None else f"  {format_share(probability)}"
        where = incident.format_location(id_)
        rows.append(((f"{n} ", "dim"), (names.condition_name(id_), "key"), (f"{where}{likely}", "")))
    more = len(incident.likely_causes) - most
    return (
        *rows,
        *([line(f"and {more} less likely", "dim")] if more > 0 else []),
        *([line(none, "dim")] if rows and (none := _none_text(incident)) else []),
    )


def _none_text(incident: Incident) -> str:
    """Returns how likely it is that none of the catalogue explains an incident; '' where it was not worked out."""
    return "" if incident.none is None else f"none of the catalogue  {format_share(incident.none)}"


def _seen_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the evidence that holds, without expressions: one line with each series, or one line in all."""
    held = [item for item in incident.evidence if item.verdict == "yes"]
    if incident.is_symptom:
        return _abnormal_lines(held, incident, names)
    if names.draw_series is None:
        shown = ", ".join(_name_with_value(item) for item in held)
        return (line(shown),) if shown else ()
    name_width = max((width(format_name(item.name)) for item in held), default=0)
    value_width = max((width(format_value(item)) for item in held), default=0)
    return tuple(
        (*_evidence_line(item, name_width, value_width, ("+", "ok")), *names.draw_series(incident, item))
        for item in held
    )


def _name_with_value(item: IncidentEvidence) -> str:
    value = format_value(item)
    return f"{format_name(item.name)} ({value})" if value else format_name(item.name)


def _abnormal_lines(held: list[IncidentEvidence], incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the abnormal signals of a symptom; its summary has the values of the first one."""
    if names.draw_series is None:
        others = join_names(list(dict.fromkeys(item.expr for item in held[1:])), MAX_EXPLAINED)
        return (line(f"abnormal too: {others}"),) if others else ()
    name_width = max((width(item.expr) for item in held), default=0)
    return tuple(
        (("+ ", "ok"), (f"{pad(item.expr, name_width)}  ", "key"), *names.draw_series(incident, item)) for item in held
    )


def _alternative_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the likeliest alternatives in one line, how many more there are, and how many nothing tells of."""
    named = [names.condition_name(c.condition) for c in incident.competing]
    shown, more = named[:MAX_CAUSES], len(named) - MAX_CAUSES
    listed = {one.condition for one in incident.competing}
    unjudged = sum(name not in listed for name in incident.unjudged_conditions)
    notes = [
        f"{more} more" if more > 0 else "",
        f"{units.format_count(unjudged, 'condition')} without telemetry not judged" if unjudged else "",
    ]
    found = "; ".join(filter(None, (", ".join(shown), *notes)))
    return (line(found),) if found else ()


def _decisive_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the signal that would tell the causes of a symptom apart, or a test against the nearest alternative."""
    if incident.decides:
        missing = "; it has no data here" if incident.decides in incident.unseen else ""
        return (((names.signal_name(incident.decides), "key"), (f" would tell these causes apart{missing}", "")),)
    nearest = next(iter(incident.competing), None)
    if nearest is None or not nearest.separate_by:
        return ()
    return ((("against ", "dim"), (names.condition_name(nearest.condition), "key"), (f": {nearest.separate_by}", "")),)


def _evidence_sections(incident: Incident, names: DisplayNames) -> tuple[Section, ...]:
    """Returns the evidence grouped by verdict, in columns."""
    pro, contra = incident.evidence, incident.against
    name_width = min(max((width(format_name(e.name)) for e in (*pro, *contra)), default=0), 24)
    value_width = max((width(format_value(e)) for e in (*pro, *contra)), default=0)

    def lines(items: tuple[IncidentEvidence, ...], verdict: str, mark: str, role: str) -> tuple[Line, ...]:
        pictures = (
            (e, names.draw_series(incident, e) if names.draw_series else ()) for e in items if e.verdict == verdict
        )
        return tuple(
            (*_evidence_line(e, name_width, value_width, (mark, role)), *picture, *_expression_line(e))
            for e, picture in pictures
        )

    return (
        Section("why", lines(pro, "yes", "+", "ok")),
        Section("against", lines(contra, "yes", "+", "warn") + lines(pro, "no", "−", "warn")),
        Section("ruled out", lines(contra, "no", "−", "dim")),
        Section("unknown", lines((*pro, *contra), "unknown", "?", "warn")),
    )


def _evidence_line(item: IncidentEvidence, name_width: int, value_width: int, mark: tuple[str, str]) -> Line:
    shown = pad(format_value(item), value_width, right=True)
    return (
        (f"{mark[0]} ", mark[1]),
        (pad(format_name(item.name), name_width), "key"),
        (f"  {shown}  ", ""),
    )


def _expression_line(item: IncidentEvidence) -> Line:
    return ((expression_text.format_expression(item.expr), "dim"),)


def _competing_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the alternatives of a diagnosis with their tests, and with probabilities where these are known of all."""
    none = "" if incident.is_symptom else _none_text(incident)
    lines = (_competing_line(one, names, with_share=bool(none)) for one in incident.competing)
    return (*lines, *([line(none, "dim")] if none else []))


def _competing_line(competing: CompetingCondition, names: DisplayNames, *, with_share: bool) -> Line:
    name, test = names.condition_name(competing.condition), competing.separate_by
    share = f"  {format_share(competing.confidence)}" if with_share else ""
    return ((name, "key"), (share, "dim"), (f": {test}" if test else "", ""))


def _candidate_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns the candidates that lack telemetry, with their possible locations."""
    candidates = [f"{names.condition_name(one)}{incident.format_location(one)}" for one in incident.unjudged_conditions]
    count = units.format_count(len(candidates), "condition")
    return (line(f"{count} without telemetry: {', '.join(candidates)}"),) if candidates else ()


def _unseen_lines(incident: Incident) -> tuple[Line, ...]:
    if not incident.unseen:
        return ()
    return (line(f"no data for {', '.join(incident.unseen)}; coverage {round(100 * incident.coverage)} %"),)


def _advice_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    advice = [_advice_line(n, one, names) for n, one in enumerate(incident.mitigations[:MAX_ADVICE], 1)]
    more = len(incident.mitigations) - MAX_ADVICE
    return (*advice, *([line(f"and {more} more", "dim")] if more > 0 else []))


def recipe_items(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    """Returns all advice, each with effect, risk, undo, check and commands of the mitigation."""
    items: list[Line] = []
    for n, advice in enumerate(incident.mitigations, 1):
        items.append(_advice_line(n, advice, names))
        if known := names.catalogue.mitigations.get(advice.id):
            items += [*recipe_lines(known), *advised_command_lines(known, incident, names)]
    return tuple(items)


def advised_command_lines(known: Mitigation, incident: Incident, names: DisplayNames) -> list[Line]:
    """Returns the commands of a mitigation with the names of an incident, ready to copy."""
    return command_lines(fill_commands(known, incident, names.topology), known.no_command)


def _advice_line(n: int, advice: Advice, names: DisplayNames) -> Line:
    known = names.catalogue.mitigations.get(advice.id)
    name = known.name if known else advice.id
    return (
        (f"{n} ", "dim"),
        (name, "key"),
        (f" ({advice.actor})", "dim"),
        (f": {advice.why}" if advice.why else "", ""),
    )


def _cause_lines(incident: Incident, names: DisplayNames) -> tuple[Line, ...]:
    if not incident.explained_by:
        return ()
    root = names.find_incident(incident.explained_by.id)
    name = names.incident_title(root) if root else incident.explained_by.id
    return (line(f"{incident.explained_by.words} {name}"),)


def _effect_line(incident: Incident, names: DisplayNames) -> Line:
    ended = f" to {units.format_time(incident.resolved_at)}" if incident.resolved_at is not None else ""
    what = names.incident_title(incident)
    since = f", since {units.format_time(incident.opened_at)}{ended}, {format_confidence(incident)} sure"
    return (severity_glyph(incident), (f" {what}{since}", ""), (f" ({incident.id})", "dim"))


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
