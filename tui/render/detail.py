"""One incident in words: what, where, since when, how sure; why and why not; what cannot be seen; what to do. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from skewscope.engine.model.incident import Advice, CompetingCondition, Incident, IncidentEvidence
from skewscope.kb.model import Catalogue, Mitigation
from skewscope.tui.render import units
from skewscope.tui.render.text import Line, fit, justify, line, line_width, pad, width, wrap

SEVERITY_GLYPHS = {"critical": ("✖", "crit"), "warning": ("!", "warn"), "info": ("·", "info"), "resolved": ("✓", "ok")}
"""Severity, or resolved: its glyph and role."""

ALTERNATIVES_LABEL = "or one of"
_LABEL_WIDTH = 10
_QUANTITY = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) ?\* ?([A-Za-z]\w*(?:/[A-Za-z]\w*)?)(?![\w.(\[])")
"""A number times a unit; what is multiplied with a signal or a function is no quantity."""
_EXPAND_ORDER = ("do", "unseen", "why", "rivals", ALTERNATIVES_LABEL, "against", "ruled out", "unknown")
"""What is told in whole sentences first where there are rows to spare."""
_DROP_ORDER = ("explains", "ruled out", "unknown", "rivals", "against", "unseen", ALTERNATIVES_LABEL, "do")
"""What goes first where there are not enough rows, least wanted first."""


@dataclass(frozen=True)
class DisplayNames:
    """Names for ids, and the other incidents that one may point to."""

    catalogue: Catalogue
    incidents: tuple[Incident, ...] = ()
    draw_series: Callable[[Incident, IncidentEvidence], Line] | None = field(default=None, compare=False)
    """A small picture of the series behind a piece of evidence, where there is one."""

    def condition_name(self, id_: str) -> str:
        """A condition's name, or its id where the catalogue has none."""
        known = self.catalogue.conditions.get(id_)
        return known.name if known else id_

    def mitigation_name(self, id_: str) -> str:
        """A mitigation's name, or its id."""
        known = self.catalogue.mitigations.get(id_)
        return known.name if known else id_

    def incident_title(self, incident: Incident) -> str:
        """Returns `<condition's name> on <location>`."""
        return f"{self.condition_name(incident.condition)} on {format_location(incident)}"

    def find_incident(self, id_: str) -> Incident | None:
        """The incident with this id, where it is known."""
        return next((i for i in self.incidents if i.id == id_), None)

    def explained_incidents(self, id_: str) -> tuple[Incident, ...]:
        """What an incident explains."""
        return tuple(i for i in self.incidents if i.explained_by == id_ and i.id != id_)


@dataclass(frozen=True, slots=True)
class Section:
    """One label and its items; an item is one line that may be wrapped."""

    label: str
    items: tuple[Line, ...]


def severity_glyph(incident: Incident) -> tuple[str, str]:
    """The glyph and role of an incident's severity, or of its end."""
    return SEVERITY_GLYPHS["resolved" if incident.state == "resolved" else incident.severity]


def format_location(incident: Incident) -> str:
    """`rank n2`, `link n2/ew +3`."""
    more = f" +{len(incident.also)}" if incident.also else ""
    return f"{incident.kind} {incident.name}{more}"


def format_confidence(incident: Incident) -> str:
    """`94 %`."""
    return f"{round(100 * incident.confidence)} %"


def format_impact(incident: Incident) -> str:
    """`round_rate −38 %`, or nothing where it could not be measured."""
    change = incident.impact.change
    if change is None:
        return ""
    return f"{incident.impact.metric} {units.format_value(change, incident.impact.unit, share=True, signed=True)}"


def format_impact_short(incident: Incident) -> str:
    """The same with the number first: of what is cut off, that must stay."""
    change = incident.impact.change
    if change is None:
        return ""
    return f"{units.format_value(change, incident.impact.unit, share=True, signed=True)} {incident.impact.metric}"


def format_blast_radius(incident: Incident) -> str:
    """`2 nodes, 1 group`."""
    hit = incident.blast_radius
    parts = [(hit.nodes, "node"), (hit.groups, "group"), (hit.replicas, "replica")]
    return ", ".join(units.format_count(n, noun) for n, noun in parts if n)


def duration(incident: Incident, now: float) -> float:
    """Seconds from its start to its end, or to now."""
    return max((incident.resolved_at or now) - incident.opened_at, 0.0)


def format_value(item: IncidentEvidence) -> str:
    """An item's value with its unit; a share is in percent where its expression compares with percent."""
    return units.format_value(item.value, item.unit, share="percent" in item.expr)


def format_name(name: str) -> str:
    """An item's name as words: `same_rank` is `same rank`."""
    return name.replace("_", " ")


def format_expression(expression: str) -> str:
    """An expression for reading: `12*percent` is `12%`, `4*s` is `4s`, `8*streams` is `8 streams`."""
    return _QUANTITY.sub(_format_quantity, expression)


def _format_quantity(found: re.Match[str]) -> str:
    number, unit = found.groups()
    unit = "%" if unit == "percent" else unit
    return f"{number}{unit}" if len(unit) <= 2 else f"{number} {unit}"


def headline(incident: Incident, words: DisplayNames, now: float) -> tuple[Line, Line, Line]:
    """What and where; state and confidence; since when and at what cost."""
    mark, role = severity_glyph(incident)
    what = ((f"{mark} ", role), (words.incident_title(incident), "title"))
    state = (
        (incident.severity, role),
        (f" · {incident.state} · ", ""),
        (f"{format_confidence(incident)} sure", "title"),
    )
    ended = f", ended {units.format_time(incident.resolved_at)}" if incident.resolved_at is not None else ""
    lasted = units.format_duration(duration(incident, now))
    since = f"since {units.format_time(incident.opened_at)} UTC, for {lasted}{ended}"
    cost = format_impact(incident) or "impact not measurable"
    hit = format_blast_radius(incident)
    facts = [since, cost, f"hits {hit}" if hit else ""]
    return what, state, line("  " + " · ".join(filter(None, facts)), "dim")


def sections(incident: Incident, words: DisplayNames) -> tuple[Section, ...]:
    """All there is to say about an incident, in reading order, without the empty parts."""
    parts = (
        *_evidence_sections(incident, words),
        Section("rivals", tuple(_alternative_line(c, words) for c in incident.competing)),
        Section(ALTERNATIVES_LABEL, _candidate_lines(incident, words)),
        Section("unseen", _unseen_lines(incident)),
        Section("do", _advice_lines(incident, words)),
        Section("follows", _cause_lines(incident, words)),
        Section("explains", _effect_lines(incident, words)),
    )
    return tuple(part for part in parts if part.items)


def _evidence_sections(incident: Incident, words: DisplayNames) -> tuple[Section, ...]:
    """The evidence by what it says, in columns."""
    pro, contra = incident.evidence, incident.against
    names = min(max((width(format_name(e.name)) for e in (*pro, *contra)), default=0), 24)
    values = max((width(format_value(e)) for e in (*pro, *contra)), default=0)

    def lines(items: tuple[IncidentEvidence, ...], verdict: str, mark: str, role: str) -> tuple[Line, ...]:
        drawn = (
            (e, words.draw_series(incident, e) if words.draw_series else ()) for e in items if e.verdict == verdict
        )
        return tuple(
            (*_evidence_line(e, names, values, (mark, role)), *picture, *_expression_line(e)) for e, picture in drawn
        )

    return (
        Section("why", lines(pro, "yes", "+", "ok")),
        Section("against", lines(contra, "yes", "+", "warn") + lines(pro, "no", "−", "warn")),
        Section("ruled out", lines(contra, "no", "−", "dim")),
        Section("unknown", lines((*pro, *contra), "unknown", "?", "warn")),
    )


def _evidence_line(item: IncidentEvidence, names: int, values: int, mark: tuple[str, str]) -> Line:
    shown = pad(format_value(item), values, right=True)
    return (
        (f"{mark[0]} ", mark[1]),
        (pad(format_name(item.name), names), "key"),
        (f"  {shown}  ", ""),
    )


def _expression_line(item: IncidentEvidence) -> Line:
    return ((format_expression(item.expr), "dim"),)


def _alternative_line(rival: CompetingCondition, words: DisplayNames) -> Line:
    name = f"{words.condition_name(rival.condition)} ({round(100 * rival.confidence)} %)"
    return ((name, "key"), (f": {rival.separate_by}" if rival.separate_by else "", ""))


def _candidate_lines(incident: Incident, words: DisplayNames) -> tuple[Line, ...]:
    """What it may be as well, for all that can be seen here."""
    names = [f"{words.condition_name(one)}{incident.format_location(one)}" for one in incident.candidates]
    return (line(f"{len(names)} that nothing here can judge: {', '.join(names)}"),) if names else ()


def _unseen_lines(incident: Incident) -> tuple[Line, ...]:
    if not incident.unseen:
        return ()
    return (
        line(f"no data of {', '.join(incident.unseen)}; {round(100 * incident.coverage)} % of the evidence was seen"),
    )


def _advice_lines(incident: Incident, words: DisplayNames) -> tuple[Line, ...]:
    return tuple(_advice_line(n, advice, words) for n, advice in enumerate(incident.mitigations, 1))


def _advice_line(n: int, advice: Advice, words: DisplayNames) -> Line:
    known = words.catalogue.mitigations.get(advice.id)
    name = known.name if known else advice.id
    return (
        (f"{n} ", "dim"),
        (name, "key"),
        (f" ({advice.actor})", "dim"),
        (f": {advice.why}" if advice.why else "", ""),
    )


def _cause_lines(incident: Incident, words: DisplayNames) -> tuple[Line, ...]:
    if not incident.explained_by:
        return ()
    root = words.find_incident(incident.explained_by)
    name = words.incident_title(root) if root else incident.explained_by
    return (line(f"from {name}"),)


def _effect_lines(incident: Incident, words: DisplayNames) -> tuple[Line, ...]:
    return tuple(_effect_line(each, words) for each in words.explained_incidents(incident.id))


def _effect_line(incident: Incident, words: DisplayNames) -> Line:
    ended = f" to {units.format_time(incident.resolved_at)}" if incident.resolved_at is not None else ""
    what = words.incident_title(incident)
    since = f", since {units.format_time(incident.opened_at)}{ended}, {format_confidence(incident)} sure"
    return (severity_glyph(incident), (f" {what}{since}", ""), (f" ({incident.id})", "dim"))


def best_fit_lines(incident: Incident, words: DisplayNames, now: float, columns: int, rows: int) -> list[Line]:
    """Everything about an incident where it fits in so many rows, else the essence."""
    for airy in (True, False):
        everything = full_lines(incident, words, now, columns, airy=airy)
        if len(everything) <= rows:
            return everything
    whole = [row for part in sections(incident, words) for row in section_lines(part, columns)]
    head = _headline_lines(incident, words, now, columns)
    return [*head, *whole] if len(head) + len(whole) <= rows else brief_lines(incident, words, now, columns, rows)


def _headline_lines(incident: Incident, words: DisplayNames, now: float, columns: int) -> list[Line]:
    """The headline in two lines: the state beside the name where there is room, else before the time."""
    what, state, since = headline(incident, words, now)
    if line_width(what) + line_width(state) < columns:
        return [justify(what, state, columns), fit(since, columns)]
    (text, role), *rest = since
    return [fit(what, columns), fit((("  ", ""), *state, (f" · {text.lstrip()}", role), *rest), columns)]


def brief_lines(incident: Incident, words: DisplayNames, now: float, columns: int, rows: int) -> list[Line]:
    """An incident in so many rows: one line an item, the least wanted left out and counted."""
    head = _headline_lines(incident, words, now, columns)
    shown = _squeeze_sections(sections(incident, words), rows - len(head))
    parts = {part.label: _crop_section(part, most, columns) for part, most in shown}
    left = rows - len(head) - sum(map(len, parts.values()))
    # Where rows are left, what matters most is told in whole sentences.
    whole = {part.label: section_lines(part, columns) for part, most in shown if most == len(part.items)}
    for label in _EXPAND_ORDER:
        more = len(whole.get(label, ())) - len(parts.get(label, ()))
        if 0 < more <= left:
            parts[label] = whole[label]
            left -= more
    return head + [row for part in parts.values() for row in part]


def _squeeze_sections(parts: tuple[Section, ...], rows: int) -> list[tuple[Section, int]]:
    most = {part.label: len(part.items) for part in parts}
    while sum(most.values()) > max(rows, 1):
        largest = max(most, key=lambda label: most[label])
        if most[largest] > 1:
            most[largest] -= 1
        else:
            del most[next((label for label in _DROP_ORDER if label in most), largest)]
    return [(part, most[part.label]) for part in parts if part.label in most]


def _crop_section(part: Section, most: int, columns: int) -> list[Line]:
    hidden = len(part.items) - most
    rows = [_add_label(part.label if n == 0 else "", item) for n, item in enumerate(part.items[:most])]
    if hidden:
        tail = f" +{hidden} more"
        rows[-1] = (*fit(rows[-1], columns - len(tail)), (tail, "dim"))
    return [fit(row, columns) for row in rows]


def _add_label(label: str, item: Line) -> Line:
    return ((label.ljust(_LABEL_WIDTH), "label"), *item)


def full_lines(incident: Incident, words: DisplayNames, now: float, columns: int, *, airy: bool = True) -> list[Line]:
    """Everything about an incident, wrapped; an empty line between its parts where it may be `airy`."""
    what, state, since = headline(incident, words, now)
    lines = [*wrap(what, columns, 2), *wrap((("  ", ""), *state), columns, 2), *wrap(since, columns, 2)]
    if incident.also:
        lines += wrap(line("  also hit: " + ", ".join(incident.also)), columns, 2)
    parts = [with_recipes(p, incident, words) if p.label == "do" else p for p in sections(incident, words)]
    for part in (*parts, *history_sections(incident, words)):
        lines += [()] if airy else []
        lines += section_lines(part, columns)
    return lines


def section_lines(part: Section, columns: int) -> list[Line]:
    """A section, wrapped."""
    rows: list[Line] = []
    for n, item in enumerate(part.items):
        rows += wrap(_add_label(part.label if n == 0 else "", item), columns, _LABEL_WIDTH + 2)
    return rows


def with_recipes(part: Section, incident: Incident, words: DisplayNames) -> Section:
    """What to do, with what it costs, how it is undone and how to see that it helped."""
    items: list[Line] = []
    for item, advice in zip(part.items, incident.mitigations, strict=True):
        items.append(item)
        if known := words.catalogue.mitigations.get(advice.id):
            items += recipe_lines(known)
    return Section(part.label, tuple(items))


def recipe_lines(known: Mitigation) -> list[Line]:
    """Effect, risk, undo and check of a mitigation, a line each."""
    risk = f"{known.risk} ({known.cost})" if known.cost else known.risk
    facts = (("effect", known.effect), ("risk", risk), ("undo", known.undo), ("verify", known.verify))
    return [((f"  {name}: ", "dim"), (text, "")) for name, text in facts if text]


def history_sections(incident: Incident, words: DisplayNames) -> tuple[Section, ...]:
    """What happened to it, and by which rule and input it was found."""
    flaps = units.format_count(incident.flaps, "time")
    history = [line(f"{units.format_time(time)}  {_format_event(what, words)}") for time, what in incident.history]
    if incident.moves:
        moved = units.format_count(incident.moves, "time")
        history.append(line(f"moved {moved} within its group: it follows the work, not a machine"))
    if incident.flaps:
        history.append(line(f"came back {flaps} after it had ended"))
    rule = line(
        f"{incident.rule} (content {incident.rule_hash[:12]}), input {incident.input_hash[:12] or 'unknown'}", "dim"
    )
    ids = line(f"{incident.id}, of the condition {incident.condition}", "dim")
    parts = (Section("history", tuple(history)), Section("rule", (rule,)), Section("id", (ids,)))
    return tuple(part for part in parts if part.items)


def _format_event(what: str, words: DisplayNames) -> str:
    """What happened, with another incident by its name rather than its id."""
    cause, by, id_ = what.rpartition(" by ")
    root = words.find_incident(id_)
    return f"{cause}{by}{words.incident_title(root)}" if root else what
