"""The report as a self-contained HTML page with charts: no scripts, no external resources. Pure.

Pages of a controller are made of the same parts.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.actions.summary import describe_action
from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.actions.action import Action
from skewscope.engine.advice.incident_words import format_location
from skewscope.engine.advice.steps import advised_steps
from skewscope.engine.model.incident import Incident, IncidentEvidence
from skewscope.tui.render import detail, evidence_series, incident_table, text, units
from skewscope.tui.render.actions import format_measurement
from skewscope.tui.render.cell_picture import picture_svg
from skewscope.tui.render.command_lines import commands_html
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.evidence_reading import series_reader
from skewscope.tui.render.evidence_sentence import evidence_sentence
from skewscope.tui.render.expression_text import format_expression
from skewscope.tui.render.history import HistoryPlots, history_html
from skewscope.tui.render.incident_lead import lead_sections
from skewscope.tui.render.incident_timeline import build_timeline, timeline_svg
from skewscope.tui.render.members_over_time import members_over_time
from skewscope.tui.render.node_lookup import NodeLookup
from skewscope.tui.render.rank_stops import find_rank_stops, stop_lines
from skewscope.tui.render.sentence_terms import words_of_catalogue
from skewscope.tui.render.text import Line

CHART_WIDTH, CHART_HEIGHT = 640, 130
LEFT_MARGIN, BOTTOM_MARGIN = 96, 18
MAX_CHARTS = 3
MAX_POINTS = 600
STOP_COLUMNS = 84
"""Columns of the text that says where each rank stopped."""
_REPLACED_LABELS = ("why", "against", "ruled out", "unknown", "do")
"""Sections that the table of evidence and the section of advice replace."""
STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#5a646e;--line:#c4cad0;--peer:#8b959e;
--band:#b3261e14;--crit:#b3261e;--warn:#8a5a00;--info:#0b57a4;--ok:#1a7431}
@media(prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e8eaed;--dim:#a2abb4;--line:#4a525a;
--peer:#7d8790;--band:#ff8a8022;--crit:#ff8a80;--warn:#ffc56d;--info:#8ab8ff;--ok:#7bd88f}}
body{font:16px/1.5 system-ui,sans-serif;background:var(--bg);color:var(--fg);max-width:60rem;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.15rem;border-top:1px solid var(--line);padding-top:1rem}
h3{font-size:1rem;margin-bottom:.2rem}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.2rem .6rem .2rem 0;vertical-align:top}th{color:var(--dim);font-weight:normal}
td.n{text-align:right}td.n,td.l{white-space:nowrap}.crit{color:var(--crit)}.warn{color:var(--warn)}.info{color:var(--info)}
.ok{color:var(--ok)}.dim{color:var(--dim)}a{color:var(--info)}code{font-size:.85em}svg{max-width:100%;height:auto}
svg text{fill:var(--dim);font:11px system-ui}.wide{overflow-x:auto}ul{padding-left:1.2rem}figure{margin:0}
pre{overflow-x:auto;padding:.4rem .6rem;border:1px solid var(--line)}
table.lead{width:auto}summary{cursor:pointer;color:var(--info)}footer{border-top:1px solid var(--line);margin-top:2rem}
.command{font:.85em ui-monospace,monospace;overflow-wrap:anywhere}
@media(max-width:600px){table.cards thead{display:none}table.cards tr{display:block;border-top:1px solid var(--line);
padding:.4rem 0}table.cards td{display:inline-block;padding:0 .8rem 0 0;text-align:left}
table.cards td:nth-child(2){display:block;font-weight:bold}table.cards td:last-child{display:block}
svg text{font-size:16px}table.lead th,table.lead td{display:block}}
@media print{@page{size:A4;margin:14mm}body{margin:0;max-width:none;font-size:11pt}a{color:inherit}
table,figure,svg,pre,h2,h3{break-inside:avoid}h2,h3{break-after:avoid}
details.do::details-content{content-visibility:visible;height:auto}details.do>summary{list-style:none}}
"""


@dataclass(frozen=True)
class HtmlReportData:
    """The content of a page."""

    name: str
    snapshot: ViewSnapshot
    names: DisplayNames
    verdict: Line
    watch_summary: str
    missing: Iterable[str]
    unused: Iterable[str] = ()
    """Sentences on samples that were not used."""
    actions: tuple[Action, ...] = ()
    """What a controller did about its incidents."""
    history: HistoryPlots | None = None
    """Plots of weeks before."""
    provenance: str = ""
    """By what the page was made, from which input, and how it is made again; '' to leave it out."""
    link: str = "#"
    """What precedes the id of an incident in links to it."""


def render_html(data: HtmlReportData) -> str:
    """Returns the report as HTML."""
    rows = incident_table.rank_incidents(data.snapshot.incidents)
    node_lookup = NodeLookup(data.snapshot.topology)
    read_series = series_reader(data.snapshot, node_lookup)
    data = replace(data, names=replace(data.names, topology=data.snapshot.topology, read_series=read_series))
    roots = [row.incident for row in rows if not row.depth]
    title = page_title(roots[0], data.names) if roots else data.name
    verdict = f"<p><strong>{to_html(data.name)}: {_spans_html(data.verdict)}</strong></p>"
    body = [
        f"{verdict}<p class=dim>{to_html(data.watch_summary)}</p>",
        overview_table(rows, data),
        _timeline(data),
        *(incident_section(incident, data, node_lookup) for incident in roots),
        history_html(data.history) if data.history else "",
        missing_section(data),
    ]
    return render_page(title, body, data.provenance)


def render_page(title: str, body: Iterable[str], provenance: str = "") -> str:
    """Returns a page with a title, sections and what it was made by."""
    head = '<meta charset=utf-8><meta name=viewport content="width=device-width">'
    top = f"<!doctype html><html lang=en><head>{head}<title>{to_html(title)}</title><style>{STYLE}</style></head>"
    foot = f"<footer class=dim><p>{to_html(provenance)}</p></footer>" if provenance else ""
    return f"{top}<body><main><h1>{to_html(title)}</h1>{''.join(body)}</main>{foot}</body></html>\n"


def page_title(incident: Incident, names: DisplayNames) -> str:
    """Returns the sentence of an incident, with its time."""
    glyph, _ = detail.severity_glyph(incident)
    when = "" if units.is_undated(incident.began) else f", {units.format_datetime(incident.began)}"
    return f"{glyph} {names.sentence(incident)}{when}"


def to_html(value: str) -> str:
    """Returns a text as HTML."""
    return escape(text.sanitise(value))


def _spans_html(line: Line) -> str:
    return "".join(f"<span class={role}>{to_html(part)}</span>" if role else to_html(part) for part, role in line)


def _timeline(data: HtmlReportData) -> str:
    """Returns the incidents as lengths on the line of time, '' without any."""
    view = data.snapshot
    drawn = timeline_svg(build_timeline(view.incidents, view.start, view.time, data.names), data.link)
    return f"<figure>{drawn}</figure>" if drawn else ""


def overview_table(rows: list[incident_table.IncidentRow], data: HtmlReportData) -> str:
    """Returns a table of the incidents, root causes first."""
    if not rows:
        return ""
    head = "".join(
        f"<th scope=col>{title}" for title in ("state", "condition", "where", "since", "for", "sure", "impact")
    )
    body = "".join(_overview_row(row, data) for row in rows)
    return f"<div class=wide><table class=cards><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _overview_row(row: incident_table.IncidentRow, data: HtmlReportData) -> str:
    incident = row.incident
    glyph, role = detail.severity_glyph(incident)
    label = incident.state if incident.state == "resolved" else incident.severity
    name = to_html(data.names.incident_name(incident))
    linked = f"<a href='{to_html(data.link + incident.id)}'>{name}</a>" if not row.depth else f"↳ {name}"
    lasted = units.format_duration(detail.duration(incident, data.snapshot.time))
    sure, impact = detail.format_confidence(incident), to_html(detail.format_impact(incident, data.names))
    cells = (
        f"<td class=l><span class={role}>{glyph} {to_html(label)}</span>",
        f"<td>{linked}<td>{to_html(format_location(incident))}<td>{units.format_time(incident.began)}",
        f"<td class=n>{lasted}<td class=n>{sure}<td>{impact}",
    )
    return f"<tr>{''.join(cells)}</tr>"


def incident_section(incident: Incident, data: HtmlReportData, node_lookup: NodeLookup) -> str:
    """Returns a root incident: what an operator needs and charts; the reasoning is folded."""
    head = detail.headline(incident, data.names, data.snapshot.time)
    charts = (
        _chart_svg(incident, data, item, one)
        for item, one in evidence_series.list_series(incident, data.snapshot, node_lookup)[:MAX_CHARTS]
    )
    reasoning = [part for part in detail.full_sections(incident, data.names) if part.label not in _REPLACED_LABELS]
    return "".join(
        (
            f"<h2 id='{to_html(incident.id)}'>{_spans_html(head.what)}</h2>",
            f"<p>{_spans_html(head.named_state)}<br>{_spans_html(head.since)}</p>",
            _members_picture(incident, data, node_lookup),
            _lead_table(lead_sections(incident, data.names)),
            _actions_section(incident, data),
            _advice_section(incident, data),
            *charts,
            "<details><summary>why</summary>",
            _evidence_table(incident, data.names),
            *map(_section_html, reasoning),
            "</details>",
        )
    )


def to_html_lines(lines: Iterable[Line]) -> str:
    """Returns lines as preformatted HTML."""
    return "\n".join(map(_spans_html, lines))


def _members_picture(incident: Incident, data: HtmlReportData, node_lookup: NodeLookup) -> str:
    """Returns the members beside an incident over time, '' where no signal shows a difference."""
    stops = find_rank_stops(incident, data.snapshot, node_lookup)
    if stops and stops.is_uneven:
        return f"<pre>{to_html_lines(stop_lines(stops, STOP_COLUMNS))}</pre>"
    picture = members_over_time(incident, data.snapshot, node_lookup)
    if picture is None:
        return ""
    legend = f"<p class=dim>{to_html(picture.legend)}<br>{to_html(picture.moments)}</p>"
    return f"<figure><h3>{to_html(picture.title)}</h3>{legend}{picture_svg(picture)}</figure>"


def _lead_table(parts: Iterable[detail.Section]) -> str:
    """Returns what an operator needs as a table of labels and texts."""
    rows = (
        f"<tr><th scope=row>{to_html(part.label)}<td>{'<br>'.join(map(_spans_html, part.items))}</tr>" for part in parts
    )
    return f"<table class=lead>{''.join(rows)}</table>"


def _section_html(part: detail.Section) -> str:
    return f"<h3>{part.label}</h3><ul>{''.join(f'<li>{_spans_html(item)}' for item in part.items)}</ul>"


def _evidence_table(incident: Incident, names: DisplayNames) -> str:
    """Returns the evidence as a table: each item in words, with its expression below."""
    words = words_of_catalogue(names.catalogue)
    rows = [(item, "for") for item in incident.evidence] + [(item, "against") for item in incident.against]
    head = "".join(f"<th scope=col>{title}" for title in ("verdict", "evidence", "side", "weight", "value", "in words"))
    body = "".join(
        f"<tr><td>{item.verdict}<td>{to_html(detail.format_name(item.name))}<td>{side}<td class=n>{item.weight:g}"
        f"<td class=n>{to_html(detail.evidence_value(item, incident, names))}"
        f"<td>{to_html(evidence_sentence(item.expr, words))}"
        f"<br><code>{to_html(format_expression(item.expr))}</code></tr>"
        for item, side in rows
    )
    return f"<h3>evidence</h3><div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _advice_section(incident: Incident, data: HtmlReportData) -> str:
    """Returns each advised mitigation with its effect, risk, way back and check, and its commands ready to copy."""
    out = []
    for step in advised_steps(incident, data.names.catalogue, data.snapshot.topology):
        advice, known = step.advice, step.mitigation
        commands = [one.command for one in step.commands]
        if known is not None:
            recipe = "".join(f"<li>{_spans_html(one)}" for one in detail.recipe_lines(known))
            filled = commands_html(commands, known.no_command)
            why = f"<p>{to_html(advice.why)}</p>" if advice.why else ""
            out.append(f"<h3>{to_html(known.name)} ({to_html(advice.actor)})</h3>{why}<ul>{recipe}</ul>{filled}")
        elif step.shows:
            out.append(f"<h3>{to_html(step.title)}</h3>{commands_html(commands)}<p>look for: {to_html(step.shows)}</p>")
    return f"<details class=do><summary>what to do</summary>{''.join(out)}</details>" if out else ""


def _actions_section(incident: Incident, data: HtmlReportData) -> str:
    """Returns what was done about an incident: each action in a sentence, its effect, its calls."""
    items = []
    for action in (one for one in data.actions if one.reason.incident == incident.id):
        calls = "".join(f"<br><code>{to_html(call)}</code>" for call in action.plan.calls)
        gained = format_measurement(action.measurement)
        facts = f"<br>{to_html(gained)}" if gained else ""
        items.append(f"<li>{to_html(describe_action(action))}{facts}{calls}</li>")
    return f"<h3>acted</h3><ul>{''.join(items)}</ul>" if items else ""


def missing_section(data: HtmlReportData) -> str:
    """Returns missing data, and samples that were not used; '' for none."""
    items = "".join(f"<li>{to_html(one)}" for one in data.missing)
    unused = "".join(f"<li>{to_html(one)}" for one in data.unused)
    folded = f"<details><summary>samples that were not used</summary><ul>{unused}</ul></details>" if unused else ""
    return f"<h2>Missing data</h2><ul>{items}</ul>{folded}" if items or folded else ""


# --- charts


def _duration_band(incident: Incident, times: NDArray[np.floating]) -> str:
    """Returns a band over the duration of the incident."""
    span = max(float(times[-1] - times[0]), 1e-9)
    ends = (incident.began, incident.resolved_at or float(times[-1]))
    begin, end = (
        LEFT_MARGIN + min(max((t - times[0]) / span, 0.0), 1.0) * (CHART_WIDTH - LEFT_MARGIN - 2) for t in ends
    )
    size = f"width={max(end - begin, 1):.1f} height={CHART_HEIGHT - BOTTOM_MARGIN - 2}"
    return f"<rect x={begin:.1f} y=2 {size} fill=var(--band) />"


def _chart_svg(
    incident: Incident, data: HtmlReportData, item: IncidentEvidence, one: evidence_series.EvidenceSeries
) -> str:
    """Returns a series and its peers as SVG, '' without data."""
    snapshot = data.snapshot
    own, others, times = one.own_values(snapshot), one.peer_values(snapshot), snapshot.signals.times()
    if not len(times) or not np.isfinite(own).any():
        return ""
    step = max(len(times) // MAX_POINTS, 1)
    own, others, times = own[::step], others[:, ::step], times[::step]
    values = np.concatenate([own, others.ravel()])
    high = float(np.nanmax(values)) or 1.0
    low = min(float(np.nanmin(values)), math.inf if _is_reading(one, data.names) else 0.0)
    share = units.is_share(one.signal)
    lines = [
        _duration_band(incident, times),
        *(_curve_path(times, peer, (low, high), "var(--peer)", 1.2) for peer in others),
    ]
    lines.append(_curve_path(times, own, (low, high), "var(--crit)", 2.0))
    peers = units.format_count(len(one.peer_rows), "peer")
    name = f"{detail.format_name(item.name)}: {one.signal} of {one.entity}, beside {peers}"
    top, bottom = (to_html(units.format_brief(value, one.unit, share=share)) for value in (high, low))
    baseline = CHART_HEIGHT - BOTTOM_MARGIN
    labels = (
        f"<text x={LEFT_MARGIN - 6} y=12 text-anchor=end>{top}</text>"
        f"<text x={LEFT_MARGIN - 6} y={baseline} text-anchor=end>{bottom}</text>"
        f"<text x={LEFT_MARGIN} y={CHART_HEIGHT - 3}>{units.format_time(times[0])}</text>"
        f"<text x={CHART_WIDTH} y={CHART_HEIGHT - 3} text-anchor=end>{units.format_time(times[-1])}</text>"
    )
    frame = f"<path d='M{LEFT_MARGIN} 2V{baseline}H{CHART_WIDTH}' fill=none stroke=var(--line) />"
    head = f"<svg viewBox='0 0 {CHART_WIDTH} {CHART_HEIGHT}' role=img aria-label='{to_html(name)}'>"
    legend = f"red: {one.entity}; grey: {peers}; shaded: the incident, {_span_text(incident)}"
    caption = f"<p class=dim>{to_html(legend)}</p>"
    return f"<figure><h3>{to_html(name)}</h3>{caption}{head}{frame}{''.join(lines)}{labels}</svg></figure>"


def _span_text(incident: Incident) -> str:
    """Returns from when to when an incident lasted."""
    until = "to now" if incident.resolved_at is None else f"to {units.format_time(incident.resolved_at)}"
    return f"from {units.format_time(incident.began)} {until}"


def _is_reading(one: evidence_series.EvidenceSeries, names: DisplayNames) -> bool:
    """Returns whether a series has the readings of a counter, of which differences matter, in place of its rate."""
    entry = names.catalogue.signals.get(one.signal)
    return entry is not None and entry.type == "counter" and one.unit == entry.unit


def _curve_path(
    times: NDArray[np.floating],
    values: NDArray[np.floating],
    bounds: tuple[float, float],
    colour: str,
    wide: float,
) -> str:
    """Returns a curve as an SVG path, interrupted at gaps."""
    low, high = bounds
    span = max(float(times[-1] - times[0]), 1e-9)
    x = LEFT_MARGIN + (times - times[0]) / span * (CHART_WIDTH - LEFT_MARGIN - 2)
    y = CHART_HEIGHT - BOTTOM_MARGIN - (values - low) / ((high - low) or 1.0) * (CHART_HEIGHT - BOTTOM_MARGIN - 6)
    path, connected = [], False
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if np.isfinite(b):
            path.append(f"{'L' if connected else 'M'}{a:.1f} {b:.1f}")
        connected = bool(np.isfinite(b))
    return f"<path d='{''.join(path)}' fill=none stroke='{colour}' stroke-width={wide} />"
