"""A diagnosis in depth: evidence over time beside its peers, what leads to what, the rule term by term. Pure."""

from dataclasses import dataclass

import numpy as np

from skewscope.adapters.view.snapshot import EvidenceRow, ViewSnapshot
from skewscope.engine.model.incident import Incident
from skewscope.tui.render import charts, detail, evidence_series, units
from skewscope.tui.render.charts import Curve
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.node_lookup import NodeLookup
from skewscope.tui.render.status import join_columns
from skewscope.tui.render.text import Line, Span, cut, fit, line, pad, wrap

TWO_COLUMN_WIDTH = 110
CHART_ROWS = 8
MAX_CHARTS = 3
MAX_LISTED = 8
VERDICT_GLYPHS = {1: ("+", "ok"), 0: ("?", "warn"), -1: ("−", "dim")}
_VERDICT_VALUES = {"yes": 1, "unknown": 0, "no": -1}


@dataclass(frozen=True)
class DrilldownContext:
    """An incident, and all that is needed to tell of it."""

    incident: Incident
    snapshot: ViewSnapshot
    names: DisplayNames
    node_lookup: NodeLookup
    ascii: bool = False


def drilldown_lines(about: DrilldownContext, columns: int, rows: int = 40) -> list[Line]:
    """Everything, in two columns where there is room."""
    incident, now = about.incident, about.snapshot.time
    what, state, since = detail.headline(incident, about.names, now)
    out = [*wrap(what, columns, 2), *wrap((("  ", ""), *state), columns, 2), *wrap(since, columns, 2), ()]
    if columns < TWO_COLUMN_WIDTH:
        return [*out, *_left_column(about, columns, rows), *_right_column(about, columns)]
    left = (columns - 3) * 58 // 100
    return out + join_columns(_left_column(about, left, rows), _right_column(about, columns - left - 3), left, 3)


def _left_column(about: DrilldownContext, columns: int, rows: int) -> list[Line]:
    return [*chart_lines(about, columns, rows), *term_lines(about, columns), *_remaining_sections(about, columns)]


def _right_column(about: DrilldownContext, columns: int) -> list[Line]:
    return [*chain_lines(about, columns), *_history_lines(about, columns), *_source_lines(about, columns)]


def _title_line(text: str, note: str = "") -> Line:
    return ((text, "label"), (f"  {note}" if note else "", "dim"))


# --- evidence over time


def chart_lines(about: DrilldownContext, columns: int, rows: int) -> list[Line]:
    """The series that speak loudest, each with its peers."""
    found = evidence_series.list_series(about.incident, about.snapshot, about.node_lookup)[:MAX_CHARTS]
    if not found:
        return [_title_line("evidence over time", "none of its series is kept here"), ()]
    height = CHART_ROWS if rows > 30 else 6
    out: list[Line] = []
    for item, one in found if rows > 20 else found[:1]:
        out += _series_chart(about, detail.format_name(item.name), one, columns, height)
    return out


def _series_chart(
    about: DrilldownContext, name: str, one: evidence_series.EvidenceSeries, columns: int, rows: int
) -> list[Line]:
    scene = about.snapshot
    own, others = one.own_values(scene).astype(np.float64), one.peer_values(scene).astype(np.float64)
    times = scene.signals.times()
    curves = [Curve(values, "dim") for values in others if np.isfinite(values).any()]
    curves.append(Curve(own, "crit"))
    low, high = charts.bounds(curves)
    share = units.is_share(one.signal)
    labels = (units.format_value(low, one.unit, share=share), units.format_value(high, one.unit, share=share))
    gutter = max(map(len, labels))
    draw = charts.ascii_chart if about.ascii else charts.braille_chart
    body = draw(curves, max(columns - gutter - 2, 8), rows)
    peers = f"dim: {units.format_count(len(one.peer_rows), 'peer')}" if one.peer_rows else "nobody to compare with"
    head: Line = (
        (pad(name, min(len(name), 24)), "label"),
        (f"  {one.signal} of ", ""),
        (one.entity, "crit"),
        (f"  {peers}", "dim"),
    )
    ends = (units.format_time(times[0]), units.format_time(times[-1])) if len(times) else ("", "")
    opened = about.incident.opened_at
    place = (opened - times[0]) / (times[-1] - times[0]) if len(times) > 1 else -1.0
    mark = (float(place), f"▲{units.format_time(opened)}") if place >= 0 else (-1.0, "")
    return [fit(head, columns), *charts.frame_chart(body, labels, ends, columns, mark), ()]


# --- the rule as it was evaluated


def term_lines(about: DrilldownContext, columns: int) -> list[Line]:
    """Every term of the rule: its weight, what it says now, what it said when it spoke loudest, and over time."""
    incident = about.incident
    key = incident.rule, incident.kind, incident.name
    spoken = [(frame.evidence or {}).get(key) for frame in about.snapshot.signals.frames]
    now = spoken[-1] if spoken else None
    items = [(item, 1) for item in incident.evidence] + [(item, -1) for item in incident.against]
    order = {name: n for n, name in enumerate(about.snapshot.evidence_names.get(incident.rule, ()))}
    note = f"score {now.score:g} now, {round(100 * now.coverage)} % seen" if now else "it does not fire now"
    out = [fit(_title_line("rule", f"{incident.rule} · {note}"), columns)]
    names = min(max((len(detail.format_name(item.name)) for item, _ in items), default=0), 20)
    cells = max(min(columns - names - 40, 24), 0)
    for item, sign in items:
        place = order.get(item.name, -1)
        over = _verdict_timeline(spoken, place, cells)
        was = VERDICT_GLYPHS[_VERDICT_VALUES.get(item.verdict, 0)]
        value = _current_value(now, place)
        shown = units.format_value(value, item.unit, share="percent" in item.expr) if value is not None else "·"
        spans: list[Span] = [(f"  {was[0]} ", was[1]), (pad(detail.format_name(item.name), names), "key")]
        spans += [(f" {'for' if sign > 0 else 'against':7} {item.weight:<3g}", "dim")]
        spans += [
            (pad(detail.format_value(item), 10, right=True), ""),
            (f" now {pad(shown, 10)}", "" if value is not None else "dim"),
        ]
        out.append(fit((*spans, *over), columns))
        out += wrap((("      ", ""), (detail.format_expression(item.expr), "dim")), columns, 6)
    return [*out, ()]


def _current_value(now: EvidenceRow | None, place: int) -> float | None:
    if now is None or not 0 <= place < len(now.values) or not np.isfinite(now.values[place]):
        return None
    return now.values[place]


def _verdict_timeline(spoken: list[EvidenceRow | None], place: int, cells: int) -> Line:
    """What a term said over time, a cell for each part of it: + yes, − no, ? unknown, blank where it did not fire."""
    if place < 0 or not cells or not spoken:
        return ()
    at = np.linspace(0, len(spoken) - 1, cells).round().astype(int).tolist()
    spans: list[Span] = [("  ", "")]
    for n in at:
        said = spoken[n]
        spans.append(VERDICT_GLYPHS[said.verdicts[place]] if said and place < len(said.verdicts) else ("·", "dim"))
    return tuple(spans)


# --- what leads to what


def chain_lines(about: DrilldownContext, columns: int) -> list[Line]:
    """What explains it, itself, what it explains; and what the catalogue knows to lead here and to follow."""
    incident, words = about.incident, about.names
    out = [_title_line("chain", "what leads to what")]
    root = words.find_incident(incident.explained_by) if incident.explained_by else None
    depth = 0
    if root is not None:
        out.append(fit(_chain_link(root, words, depth), columns))
        depth = 1
    out.append(
        fit(
            ((" " * (2 + 2 * depth) + ("└ " if depth else ""), "dim"), *_incident_spans(incident, words, "title")),
            columns,
        )
    )
    below = words.explained_incidents(incident.id)
    out += [fit(_chain_link(each, words, depth + 1), columns) for each in below[:MAX_LISTED]]
    out += (
        [line(f"{' ' * (4 + 2 * depth)}and {len(below) - MAX_LISTED} more", "dim")] if len(below) > MAX_LISTED else []
    )
    out += _catalogue_links(about, columns)
    return [*out, ()]


def _chain_link(incident: Incident, words: DisplayNames, depth: int) -> Line:
    return ((" " * (2 + 2 * depth) + ("└ " if depth else ""), "dim"), *_incident_spans(incident, words, ""))


def _incident_spans(incident: Incident, words: DisplayNames, role: str) -> Line:
    what = words.incident_title(incident)
    return (detail.severity_glyph(incident), (f" {what}", role), (f"  {detail.format_confidence(incident)}", "dim"))


def _catalogue_links(about: DrilldownContext, columns: int) -> list[Line]:
    from skewscope.kb.graph import edges  # noqa: PLC0415

    words, here = about.names, about.incident.condition
    firing = {i.condition for i in words.incidents if i.state == "firing"}
    links = edges(words.catalogue)
    causes = [c for c, e, _ in links if e == here]
    effects = [e for c, e, _ in links if c == here]
    out: list[Line] = []
    for label, found in (("may come of", causes), ("may lead to", effects)):
        if found:
            named = ", ".join(
                f"{words.condition_name(c)}{' (here)' if c in firing else ''}" for c in found[:MAX_LISTED]
            )
            out += wrap(((f"  {label}: ", "dim"), (named, "")), columns, 4)
    return out


# --- the rest


def _history_lines(about: DrilldownContext, columns: int) -> list[Line]:
    out: list[Line] = [_title_line("history")]
    parts = {part.label: part for part in detail.history_sections(about.incident, about.names)}
    for item in parts["history"].items if "history" in parts else ():
        out += wrap((("  ", ""), *item), columns, 12)
    return [*out, ()]


def _source_lines(about: DrilldownContext, columns: int) -> list[Line]:
    """Who reported the condition, and how that was seen."""
    known = about.names.catalogue
    entry = known.conditions.get(about.incident.condition)
    if entry is None:
        return []
    out = [_title_line("sources", f"evidence grade {entry.grade}")]
    for claim in entry.impacts[:MAX_LISTED]:
        source = known.sources.get(claim.source)
        told = f"{source.title} ({source.year})" if source else claim.source
        out += wrap((("  " + claim.text, ""), (f"  {cut(told, 60)}, seen: {claim.seen}", "dim")), columns, 4)
    return [*out, ()]


def _remaining_sections(about: DrilldownContext, columns: int) -> list[Line]:
    """What competes, what cannot be seen, what to do."""
    wanted = ("rivals", detail.ALTERNATIVES_LABEL, "unseen", "do")
    out: list[Line] = []
    for part in detail.sections(about.incident, about.names):
        if part.label in wanted:
            shown = detail.with_recipes(part, about.incident, about.names) if part.label == "do" else part
            out += [*detail.section_lines(shown, columns), ()]
    return out
