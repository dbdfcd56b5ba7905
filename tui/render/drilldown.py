"""An incident in depth: the short form, evidence over time with peers, rule terms, causal chain. Pure."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.view.snapshot import EvidenceRow, ViewSnapshot
from skewscope.engine.model.incident import Incident
from skewscope.tui.render import charts, detail, evidence_series, incident_layout, units
from skewscope.tui.render.charts import Curve
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.evidence_sentence import evidence_sentence
from skewscope.tui.render.evidence_value import format_evidence, is_one_message
from skewscope.tui.render.expression_text import format_expression
from skewscope.tui.render.incident_lead import lead_sections
from skewscope.tui.render.node_lookup import NodeLookup
from skewscope.tui.render.sentence_terms import words_of_catalogue
from skewscope.tui.render.status import join_columns
from skewscope.tui.render.text import Line, Span, cut, fit, line, pad, wrap

Values = NDArray[np.floating]

TWO_COLUMN_WIDTH = 110
CHART_ROWS = 8
MAX_CHARTS = 3
MAX_LISTED = 8
VERDICT_GLYPHS = {1: ("+", "ok"), 0: ("?", "warn"), -1: ("−", "dim")}
_VERDICT_VALUES = {"yes": 1, "unknown": 0, "no": -1}


@dataclass(frozen=True)
class DrilldownContext:
    """An incident and the data to describe it."""

    incident: Incident
    snapshot: ViewSnapshot
    names: DisplayNames
    node_lookup: NodeLookup
    ascii: bool = False
    expressions: bool = False
    """Whether evidence is shown by its expressions, not in words."""


def drilldown_lines(context: DrilldownContext, columns: int, rows: int = 40) -> list[Line]:
    """Returns the drill-down, in two columns if the screen is wide enough."""
    incident, now = context.incident, context.snapshot.time
    out = incident_layout.headline_lines(incident, context.names, now, columns)
    for part in lead_sections(incident, context.names):
        out += incident_layout.section_lines(part, columns)
    out.append(())
    if columns < TWO_COLUMN_WIDTH:
        return [*out, *_left_column(context, columns, rows), *_right_column(context, columns)]
    left = (columns - 3) * 58 // 100
    return out + join_columns(_left_column(context, left, rows), _right_column(context, columns - left - 3), left, 3)


def _left_column(context: DrilldownContext, columns: int, rows: int) -> list[Line]:
    return [*chart_lines(context, columns, rows), *term_lines(context, columns), *_remaining_sections(context, columns)]


def _right_column(context: DrilldownContext, columns: int) -> list[Line]:
    return [*chain_lines(context, columns), *_history_lines(context, columns), *_source_lines(context, columns)]


def _title_line(text: str, note: str = "") -> Line:
    return ((text, "label"), (f"  {note}" if note else "", "dim"))


# --- evidence over time


def chart_lines(context: DrilldownContext, columns: int, rows: int) -> list[Line]:
    """Returns charts of the strongest evidence series, each with its peers."""
    drawn = charts_of(context, columns, rows)
    if not drawn:
        return [_title_line("evidence over time", "no series available"), ()]
    return [row for chart in drawn for row in chart]


def charts_of(context: DrilldownContext, columns: int, rows: int) -> list[list[Line]]:
    """Returns a chart of each of the strongest evidence series."""
    listed = evidence_series.list_series(context.incident, context.snapshot, context.node_lookup)
    found = [(item, one) for item, one in listed if not is_one_message(item)][:MAX_CHARTS]
    height = CHART_ROWS if rows > 30 else 6
    shown = found if rows > 20 else found[:1]
    return [_series_chart(context, detail.format_name(item.name), one, columns, height) for item, one in shown]


def _series_chart(
    context: DrilldownContext, name: str, one: evidence_series.EvidenceSeries, columns: int, rows: int
) -> list[Line]:
    snapshot = context.snapshot
    own, others = one.own_values(snapshot).astype(np.float64), one.peer_values(snapshot).astype(np.float64)
    times = snapshot.signals.times()
    curves = [Curve(values, "dim") for values in others if np.isfinite(values).any()]
    curves.append(Curve(own, "crit"))
    low, high = charts.bounds(curves)
    share = units.is_share(one.signal)
    labels = (units.format_value(low, one.unit, share=share), units.format_value(high, one.unit, share=share))
    gutter = max(map(len, labels))
    draw = charts.ascii_chart if context.ascii else charts.braille_chart
    body = draw(curves, max(columns - gutter - 2, 8), rows)
    peers = f"dim: {units.format_count(len(one.peer_rows), 'peer')}" if one.peer_rows else "no peers"
    pair = _hidden_difference(context.incident.resolved_at or math.inf, times, own, others, (high - low) / rows)
    value, usual = (f" {units.format_value(each, one.unit, share=share)}" for each in pair) if pair else ("", "")
    head: Line = (
        (pad(name, min(len(name), 24)), "label"),
        (f"  {one.signal} of ", ""),
        (f"{one.entity}{value}", "crit"),
        (f"  {peers}{' at' if usual else ''}{usual}", "dim"),
    )
    ends = (units.format_time(times[0]), units.format_time(times[-1])) if len(times) else ("", "")
    opened = context.incident.began
    place = (opened - times[0]) / (times[-1] - times[0]) if len(times) > 1 else -1.0
    mark = (float(place), f"▲{units.format_time(opened)}") if place >= 0 else (-1.0, "")
    return [fit(head, columns), *charts.frame_chart(body, labels, ends, columns, mark), ()]


def _hidden_difference(
    until: float, times: Values, own: Values, others: Values, row: float
) -> tuple[float, float] | None:
    """Returns the last value until a time and that of the peers where they differ by less than a row of a chart."""
    at = int(np.searchsorted(times, until)) - 1
    near = others[:, at][np.isfinite(others[:, at])] if others.size else np.empty(0)
    if at < 0 or not near.size or not np.isfinite(own[at]):
        return None
    pair = float(own[at]), float(np.median(near))
    return pair if 0 < abs(pair[0] - pair[1]) < row else None


# --- rule terms


def term_lines(context: DrilldownContext, columns: int) -> list[Line]:
    """Returns each term of the rule: weight, verdict at the peak, current value, verdicts over time."""
    incident = context.incident
    if not incident.rule:
        return []
    key = incident.rule, incident.kind, incident.name
    rows = [(frame.evidence or {}).get(key) for frame in context.snapshot.signals.frames]
    now = rows[-1] if rows else None
    items = [(item, 1) for item in incident.evidence] + [(item, -1) for item in incident.against]
    order = {name: n for n, name in enumerate(context.snapshot.evidence_names.get(incident.rule, ()))}
    note = f"score {now.score:g} now, coverage {round(100 * now.coverage)} %" if now else "not firing now"
    out = [fit(_title_line("rule", f"{incident.rule} · {note}"), columns)]
    name_width = min(max((len(detail.format_name(item.name)) for item, _ in items), default=0), 20)
    cells = max(min(columns - name_width - 40, 24), 0)
    for item, sign in items:
        place = order.get(item.name, -1)
        over = _verdict_timeline(rows, place, cells)
        was = VERDICT_GLYPHS[_VERDICT_VALUES.get(item.verdict, 0)]
        value = _current_value(now, place)
        shown = units.format_value(value, item.unit, share="percent" in item.expr) if value is not None else "·"
        spans: list[Span] = [(f"  {was[0]} ", was[1]), (pad(detail.format_name(item.name), name_width), "key")]
        spans += [(f" {'for' if sign > 0 else 'against':7} {item.weight:<3g}", "dim")]
        spans += [
            (pad(format_evidence(item), 10, right=True), ""),
            (f" now {pad(shown, 10)}", "" if value is not None else "dim"),
        ]
        out.append(fit((*spans, *over), columns))
        said = format_expression(item.expr) if context.expressions else _sentence(item.expr, context.names)
        out += wrap((("      ", ""), (said, "dim")), columns, 6)
    return [*out, ()]


def _sentence(text: str, names: DisplayNames) -> str:
    return evidence_sentence(text, words_of_catalogue(names.catalogue))


def _current_value(now: EvidenceRow | None, place: int) -> float | None:
    if now is None or not 0 <= place < len(now.values) or not np.isfinite(now.values[place]):
        return None
    return now.values[place]


def _verdict_timeline(rows: list[EvidenceRow | None], place: int, cells: int) -> Line:
    """Returns a term's verdicts over time: + yes, − no, ? unknown, · not firing."""
    if place < 0 or not cells or not rows:
        return ()
    at = np.linspace(0, len(rows) - 1, cells).round().astype(int).tolist()
    spans: list[Span] = [("  ", "")]
    for n in at:
        row = rows[n]
        spans.append(VERDICT_GLYPHS[row.verdicts[place]] if row and place < len(row.verdicts) else ("·", "dim"))
    return tuple(spans)


# --- causal chain


def chain_lines(context: DrilldownContext, columns: int) -> list[Line]:
    """Returns the explaining incident, this one, those it explains, and possible causes and effects."""
    incident, names = context.incident, context.names
    out = [_title_line("causal chain")]
    root = names.find_incident(incident.root_id)
    depth = 0
    if root is not None:
        out.append(fit(_chain_link(root, names, depth), columns))
        depth = 1
    out.append(
        fit(
            ((" " * (2 + 2 * depth) + ("└ " if depth else ""), "dim"), *_incident_spans(incident, names, "title")),
            columns,
        )
    )
    below = names.explained_incidents(incident.id)
    out += [fit(_chain_link(each, names, depth + 1), columns) for each in below[:MAX_LISTED]]
    out += (
        [line(f"{' ' * (4 + 2 * depth)}and {len(below) - MAX_LISTED} more", "dim")] if len(below) > MAX_LISTED else []
    )
    out += _catalogue_links(context, columns)
    return [*out, ()]


def _chain_link(incident: Incident, names: DisplayNames, depth: int) -> Line:
    return ((" " * (2 + 2 * depth) + ("└ " if depth else ""), "dim"), *_incident_spans(incident, names, ""))


def _incident_spans(incident: Incident, names: DisplayNames, role: str) -> Line:
    what = names.incident_title(incident)
    return (detail.severity_glyph(incident), (f" {what}", role), (f"  {detail.format_confidence(incident)}", "dim"))


def _catalogue_links(context: DrilldownContext, columns: int) -> list[Line]:
    from skewscope.kb.graph import edges  # noqa: PLC0415

    names, here = context.names, context.incident.condition
    firing = {i.condition for i in names.incidents if i.state == "firing"}
    links = edges(names.catalogue)
    causes = [c for c, e, _ in links if e == here]
    effects = [e for c, e, _ in links if c == here]
    out: list[Line] = []
    for label, found in (("possible causes", causes), ("possible effects", effects)):
        if found:
            named = ", ".join(
                f"{names.condition_name(c)}{' (firing)' if c in firing else ''}" for c in found[:MAX_LISTED]
            )
            out += wrap(((f"  {label}: ", "dim"), (named, "")), columns, 4)
    return out


# --- other sections


def _history_lines(context: DrilldownContext, columns: int) -> list[Line]:
    out: list[Line] = [_title_line("history")]
    parts = {part.label: part for part in detail.history_sections(context.incident, context.names)}
    for item in parts["history"].items if "history" in parts else ():
        out += wrap((("  ", ""), *item), columns, 12)
    return [*out, ()]


def _source_lines(context: DrilldownContext, columns: int) -> list[Line]:
    """Returns the claims about the condition with their sources."""
    known = context.names.catalogue
    entry = known.conditions.get(context.incident.condition)
    if entry is None:
        return []
    out = [_title_line("sources", f"evidence grade {entry.grade}")]
    for claim in entry.impacts[:MAX_LISTED]:
        source = known.sources.get(claim.source)
        origin = f"{source.title} ({source.year})" if source else claim.source
        out += wrap((("  " + claim.text, ""), (f"  {cut(origin, 60)}, seen: {claim.seen}", "dim")), columns, 4)
    return [*out, ()]


def _remaining_sections(context: DrilldownContext, columns: int) -> list[Line]:
    """Returns all alternatives, missing signals, and the advice with its recipes."""
    wanted = (detail.IF_WRONG_LABEL, detail.CANDIDATES_LABEL, detail.UNSEEN_LABEL)
    parts = [p for p in detail.reasoning_sections(context.incident, context.names) if p.label in wanted]
    recipes = detail.Section("do", detail.recipe_items(context.incident, context.names))
    if recipes.items:
        parts.append(recipes)
    return [row for part in parts for row in (*incident_layout.section_lines(part, columns), ())]
