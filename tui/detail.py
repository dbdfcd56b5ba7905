"""One incident in words: what, where, since when, how sure; why and why not; what cannot be seen; what to do. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from skewscope.engine.incident import Advice, Competing, Evidence, Incident
from skewscope.kb.model import Catalogue, Mitigation
from skewscope.tui import units
from skewscope.tui.text import Line, fit, line, line_width, pad, spread, width, wrap

GLYPHS = {"critical": ("✖", "crit"), "warning": ("!", "warn"), "info": ("·", "info"), "resolved": ("✓", "ok")}
"""Severity, or resolved: its glyph and role."""

OR = "or one of"
_LABEL = 10
_QUANTITY = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) ?\* ?([A-Za-z]\w*(?:/[A-Za-z]\w*)?)(?![\w.(\[])")
"""A number times a unit; what is multiplied with a signal or a function is no quantity."""
_UNFOLD = ("do", "unseen", "why", "rivals", OR, "against", "ruled out", "unknown")
"""What is told in whole sentences first where there are rows to spare."""
_DROP = ("explains", "ruled out", "unknown", "rivals", "against", "unseen", OR, "do")
"""What goes first where there are not enough rows, least wanted first."""


@dataclass(frozen=True)
class Words:
    """Names for ids, and the other incidents that one may point to."""

    catalogue: Catalogue
    incidents: tuple[Incident, ...] = ()
    draw: Callable[[Incident, Evidence], Line] | None = field(default=None, compare=False)
    """A small picture of the series behind a piece of evidence, where there is one."""

    def condition(self, id_: str) -> str:
        """A condition's name, or its id where the catalogue has none."""
        known = self.catalogue.conditions.get(id_)
        return known.name if known else id_

    def mitigation(self, id_: str) -> str:
        """A mitigation's name, or its id."""
        known = self.catalogue.mitigations.get(id_)
        return known.name if known else id_

    def incident(self, id_: str) -> Incident | None:
        """The incident with this id, where it is known."""
        return next((i for i in self.incidents if i.id == id_), None)

    def explained_by(self, id_: str) -> tuple[Incident, ...]:
        """What an incident explains."""
        return tuple(i for i in self.incidents if i.explained_by == id_ and i.id != id_)


@dataclass(frozen=True, slots=True)
class Section:
    """One label and its items; an item is one line that may be wrapped."""

    label: str
    items: tuple[Line, ...]


def glyph(incident: Incident) -> tuple[str, str]:
    """The glyph and role of an incident's severity, or of its end."""
    return GLYPHS["resolved" if incident.state == "resolved" else incident.severity]


def where(incident: Incident) -> str:
    """`rank n2`, `link n2/ew +3`."""
    more = f" +{len(incident.also)}" if incident.also else ""
    return f"{incident.kind} {incident.name}{more}"


def sure(incident: Incident) -> str:
    """`94 %`."""
    return f"{round(100 * incident.confidence)} %"


def impact(incident: Incident) -> str:
    """`round_rate −38 %`, or nothing where it could not be measured."""
    change = incident.impact.change
    if change is None:
        return ""
    return f"{incident.impact.metric} {units.human(change, incident.impact.unit, share=True, signed=True)}"


def cost(incident: Incident) -> str:
    """The same with the number first: of what is cut off, that must stay."""
    change = incident.impact.change
    if change is None:
        return ""
    return f"{units.human(change, incident.impact.unit, share=True, signed=True)} {incident.impact.metric}"


def spread_of(incident: Incident) -> str:
    """`2 nodes, 1 group`."""
    hit = incident.blast_radius
    parts = [(hit.nodes, "node"), (hit.groups, "group"), (hit.replicas, "replica")]
    return ", ".join(units.count(n, noun) for n, noun in parts if n)


def lasted(incident: Incident, now: float) -> float:
    """Seconds from its start to its end, or to now."""
    return max((incident.resolved_at or now) - incident.opened_at, 0.0)


def value(item: Evidence) -> str:
    """An item's value with its unit; a share is in percent where its expression compares with percent."""
    return units.human(item.value, item.unit, share="percent" in item.expr)


def spoken(name: str) -> str:
    """An item's name as words: `same_rank` is `same rank`."""
    return name.replace("_", " ")


def readable(expression: str) -> str:
    """An expression for reading: `12*percent` is `12%`, `4*s` is `4s`, `8*streams` is `8 streams`."""
    return _QUANTITY.sub(_quantity, expression)


def _quantity(found: re.Match[str]) -> str:
    number, unit = found.groups()
    unit = "%" if unit == "percent" else unit
    return f"{number}{unit}" if len(unit) <= 2 else f"{number} {unit}"


def headline(incident: Incident, words: Words, now: float) -> tuple[Line, Line, Line]:
    """What and where; state and confidence; since when and at what cost."""
    mark, role = glyph(incident)
    what = ((f"{mark} ", role), (f"{words.condition(incident.condition)} on {where(incident)}", "title"))
    state = ((incident.severity, role), (f" · {incident.state} · ", ""), (f"{sure(incident)} sure", "title"))
    ended = f", ended {units.clock(incident.resolved_at)}" if incident.resolved_at is not None else ""
    since = f"since {units.clock(incident.opened_at)} UTC, for {units.seconds(lasted(incident, now))}{ended}"
    cost = impact(incident) or "impact not measurable"
    hit = spread_of(incident)
    facts = [since, cost, f"hits {hit}" if hit else ""]
    return what, state, line("  " + " · ".join(filter(None, facts)), "dim")


def sections(incident: Incident, words: Words) -> tuple[Section, ...]:
    """All there is to say about an incident, in reading order, without the empty parts."""
    parts = (
        *_weighed(incident, words),
        Section("rivals", tuple(_rival(c, words) for c in incident.competing)),
        Section(OR, _candidates(incident, words)),
        Section("unseen", _unseen(incident)),
        Section("do", _advices(incident, words)),
        Section("follows", _follows(incident, words)),
        Section("explains", _explains(incident, words)),
    )
    return tuple(part for part in parts if part.items)


def _weighed(incident: Incident, words: Words) -> tuple[Section, ...]:
    """The evidence by what it says, in columns."""
    pro, contra = incident.evidence, incident.against
    names = min(max((width(spoken(e.name)) for e in (*pro, *contra)), default=0), 24)
    values = max((width(value(e)) for e in (*pro, *contra)), default=0)

    def lines(items: tuple[Evidence, ...], verdict: str, mark: str, role: str) -> tuple[Line, ...]:
        drawn = ((e, words.draw(incident, e) if words.draw else ()) for e in items if e.verdict == verdict)
        return tuple((*_evidence(e, names, values, (mark, role)), *picture, *_expression(e)) for e, picture in drawn)

    return (
        Section("why", lines(pro, "yes", "+", "ok")),
        Section("against", lines(contra, "yes", "+", "warn") + lines(pro, "no", "−", "warn")),
        Section("ruled out", lines(contra, "no", "−", "dim")),
        Section("unknown", lines((*pro, *contra), "unknown", "?", "warn")),
    )


def _evidence(item: Evidence, names: int, values: int, mark: tuple[str, str]) -> Line:
    shown = pad(value(item), values, right=True)
    return (
        (f"{mark[0]} ", mark[1]),
        (pad(spoken(item.name), names), "key"),
        (f"  {shown}  ", ""),
    )


def _expression(item: Evidence) -> Line:
    return ((readable(item.expr), "dim"),)


def _rival(rival: Competing, words: Words) -> Line:
    name = f"{words.condition(rival.condition)} ({round(100 * rival.confidence)} %)"
    return ((name, "key"), (f": {rival.separate_by}" if rival.separate_by else "", ""))


def _candidates(incident: Incident, words: Words) -> tuple[Line, ...]:
    """What it may be as well, for all that can be seen here."""
    names = [f"{words.condition(one)}{incident.whereabouts(one)}" for one in incident.candidates]
    return (line(f"{len(names)} that nothing here can judge: {', '.join(names)}"),) if names else ()


def _unseen(incident: Incident) -> tuple[Line, ...]:
    if not incident.unseen:
        return ()
    return (
        line(f"no data of {', '.join(incident.unseen)}; {round(100 * incident.coverage)} % of the evidence was seen"),
    )


def _advices(incident: Incident, words: Words) -> tuple[Line, ...]:
    return tuple(_advice(n, advice, words) for n, advice in enumerate(incident.mitigations, 1))


def _advice(n: int, advice: Advice, words: Words) -> Line:
    known = words.catalogue.mitigations.get(advice.id)
    name = known.name if known else advice.id
    return (
        (f"{n} ", "dim"),
        (name, "key"),
        (f" ({advice.actor})", "dim"),
        (f": {advice.why}" if advice.why else "", ""),
    )


def _follows(incident: Incident, words: Words) -> tuple[Line, ...]:
    if not incident.explained_by:
        return ()
    root = words.incident(incident.explained_by)
    name = f"{words.condition(root.condition)} on {where(root)}" if root else incident.explained_by
    return (line(f"from {name}"),)


def _explains(incident: Incident, words: Words) -> tuple[Line, ...]:
    return tuple(_explained(each, words) for each in words.explained_by(incident.id))


def _explained(incident: Incident, words: Words) -> Line:
    ended = f" to {units.clock(incident.resolved_at)}" if incident.resolved_at is not None else ""
    what = f"{words.condition(incident.condition)} on {where(incident)}"
    since = f", since {units.clock(incident.opened_at)}{ended}, {sure(incident)} sure"
    return (glyph(incident), (f" {what}{since}", ""), (f" ({incident.id})", "dim"))


def best(incident: Incident, words: Words, now: float, columns: int, rows: int) -> list[Line]:
    """Everything about an incident where it fits in so many rows, else the essence."""
    for airy in (True, False):
        everything = full(incident, words, now, columns, airy=airy)
        if len(everything) <= rows:
            return everything
    whole = [row for part in sections(incident, words) for row in block(part, columns)]
    head = _head(incident, words, now, columns)
    return [*head, *whole] if len(head) + len(whole) <= rows else brief(incident, words, now, columns, rows)


def _head(incident: Incident, words: Words, now: float, columns: int) -> list[Line]:
    """The headline in two lines: the state beside the name where there is room, else before the time."""
    what, state, since = headline(incident, words, now)
    if line_width(what) + line_width(state) < columns:
        return [spread(what, state, columns), fit(since, columns)]
    (text, role), *rest = since
    return [fit(what, columns), fit((("  ", ""), *state, (f" · {text.lstrip()}", role), *rest), columns)]


def brief(incident: Incident, words: Words, now: float, columns: int, rows: int) -> list[Line]:
    """An incident in so many rows: one line an item, the least wanted left out and counted."""
    head = _head(incident, words, now, columns)
    shown = _squeezed(sections(incident, words), rows - len(head))
    parts = {part.label: _cropped(part, most, columns) for part, most in shown}
    left = rows - len(head) - sum(map(len, parts.values()))
    # Where rows are left, what matters most is told in whole sentences.
    whole = {part.label: block(part, columns) for part, most in shown if most == len(part.items)}
    for label in _UNFOLD:
        more = len(whole.get(label, ())) - len(parts.get(label, ()))
        if 0 < more <= left:
            parts[label] = whole[label]
            left -= more
    return head + [row for part in parts.values() for row in part]


def _squeezed(parts: tuple[Section, ...], rows: int) -> list[tuple[Section, int]]:
    most = {part.label: len(part.items) for part in parts}
    while sum(most.values()) > max(rows, 1):
        largest = max(most, key=lambda label: most[label])
        if most[largest] > 1:
            most[largest] -= 1
        else:
            del most[next((label for label in _DROP if label in most), largest)]
    return [(part, most[part.label]) for part in parts if part.label in most]


def _cropped(part: Section, most: int, columns: int) -> list[Line]:
    hidden = len(part.items) - most
    rows = [_labelled(part.label if n == 0 else "", item) for n, item in enumerate(part.items[:most])]
    if hidden:
        tail = f" +{hidden} more"
        rows[-1] = (*fit(rows[-1], columns - len(tail)), (tail, "dim"))
    return [fit(row, columns) for row in rows]


def _labelled(label: str, item: Line) -> Line:
    return ((label.ljust(_LABEL), "label"), *item)


def full(incident: Incident, words: Words, now: float, columns: int, *, airy: bool = True) -> list[Line]:
    """Everything about an incident, wrapped; an empty line between its parts where it may be `airy`."""
    what, state, since = headline(incident, words, now)
    lines = [*wrap(what, columns, 2), *wrap((("  ", ""), *state), columns, 2), *wrap(since, columns, 2)]
    if incident.also:
        lines += wrap(line("  also hit: " + ", ".join(incident.also)), columns, 2)
    parts = [with_recipes(p, incident, words) if p.label == "do" else p for p in sections(incident, words)]
    for part in (*parts, *record(incident, words)):
        lines += [()] if airy else []
        lines += block(part, columns)
    return lines


def block(part: Section, columns: int) -> list[Line]:
    """A section, wrapped."""
    rows: list[Line] = []
    for n, item in enumerate(part.items):
        rows += wrap(_labelled(part.label if n == 0 else "", item), columns, _LABEL + 2)
    return rows


def with_recipes(part: Section, incident: Incident, words: Words) -> Section:
    """What to do, with what it costs, how it is undone and how to see that it helped."""
    items: list[Line] = []
    for item, advice in zip(part.items, incident.mitigations, strict=True):
        items.append(item)
        if known := words.catalogue.mitigations.get(advice.id):
            items += recipe(known)
    return Section(part.label, tuple(items))


def recipe(known: Mitigation) -> list[Line]:
    """Effect, risk, undo and check of a mitigation, a line each."""
    risk = f"{known.risk} ({known.cost})" if known.cost else known.risk
    facts = (("effect", known.effect), ("risk", risk), ("undo", known.undo), ("verify", known.verify))
    return [((f"  {name}: ", "dim"), (text, "")) for name, text in facts if text]


def record(incident: Incident, words: Words) -> tuple[Section, ...]:
    """What happened to it, and by which rule and input it was found."""
    flaps = units.count(incident.flaps, "time")
    history = [line(f"{units.clock(time)}  {_happened(what, words)}") for time, what in incident.history]
    if incident.moves:
        moved = units.count(incident.moves, "time")
        history.append(line(f"moved {moved} within its group: it follows the work, not a machine"))
    if incident.flaps:
        history.append(line(f"came back {flaps} after it had ended"))
    rule = line(
        f"{incident.rule} (content {incident.rule_hash[:12]}), input {incident.input_hash[:12] or 'unknown'}", "dim"
    )
    ids = line(f"{incident.id}, of the condition {incident.condition}", "dim")
    parts = (Section("history", tuple(history)), Section("rule", (rule,)), Section("id", (ids,)))
    return tuple(part for part in parts if part.items)


def _happened(what: str, words: Words) -> str:
    """What happened, with another incident by its name rather than its id."""
    cause, by, id_ = what.rpartition(" by ")
    root = words.incident(id_)
    return f"{cause}{by}{words.condition(root.condition)} on {where(root)}" if root else what
