"""The report as one HTML page with its pictures inside, for tickets: no script, nothing from elsewhere. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.scene import Scene
from skewscope.engine.incident import Evidence, Incident
from skewscope.tui import detail, evidence, text, units, view
from skewscope.tui.detail import Words
from skewscope.tui.text import Line
from skewscope.tui.whereabouts import Whereabouts

WIDE, HIGH = 640, 130
LEFT, BOTTOM = 96, 18
MOST_CHARTS = 3
MOST_POINTS = 600
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
svg text{fill:var(--dim);font:11px system-ui}.wide{overflow-x:auto}ul{padding-left:1.2rem}
"""


@dataclass(frozen=True)
class Told:
    """What a page is made of."""

    name: str
    scene: Scene
    words: Words
    verdict: Line
    watched: str
    missing: Iterable[str]


def page(told: Told) -> str:
    """The whole page."""
    rows = view.ranked(told.scene.incidents)
    where = Whereabouts(told.scene.topology)
    roots = [row.incident for row in rows if not row.depth]
    body = [
        f"<h1>{_safe(told.name)}</h1>",
        f"<p><strong>{_spans(told.verdict)}</strong></p><p class=dim>{_safe(told.watched)}</p>",
        _overview(rows, told),
        *(_incident(incident, told, where) for incident in roots),
        _missing(told.missing),
    ]
    head = '<meta charset=utf-8><meta name=viewport content="width=device-width">'
    title = f"<title>{_safe(told.name)}: Skewscope</title>"
    top = f"<!doctype html><html lang=en><head>{head}{title}<style>{STYLE}</style></head>"
    return f"{top}<body>{''.join(body)}</body></html>\n"


def _safe(words: str) -> str:
    return escape(text.safe(words))


def _spans(line: Line) -> str:
    return "".join(f"<span class={role}>{_safe(words)}</span>" if role else _safe(words) for words, role in line)


def _overview(rows: list[view.Row], told: Told) -> str:
    """A line for each incident, roots first."""
    if not rows:
        return ""
    head = "".join(f"<th scope=col>{title}" for title in ("", "condition", "where", "since", "for", "sure", "impact"))
    return f"<div class=wide><table><tr>{head}</tr>{''.join(_row(row, told) for row in rows)}</table></div>"


def _row(row: view.Row, told: Told) -> str:
    incident = row.incident
    glyph, role = detail.glyph(incident)
    told_as = incident.state if incident.state == "resolved" else incident.severity
    name = _safe(told.words.condition(incident.condition))
    linked = f"<a href='#{_safe(incident.id)}'>{name}</a>" if not row.depth else f"└ {name}"
    lasted = units.seconds(detail.lasted(incident, told.scene.time))
    cells = (
        f"<td class=l><span class={role}>{glyph} {_safe(told_as)}</span>",
        f"<td>{linked}<td>{_safe(detail.where(incident))}<td>{units.clock(incident.opened_at)}",
        f"<td class=n>{lasted}<td class=n>{detail.sure(incident)}<td>{_safe(detail.impact(incident))}",
    )
    return f"<tr>{''.join(cells)}</tr>"


def _incident(incident: Incident, told: Told, where: Whereabouts) -> str:
    """One root in depth: pictures, evidence, what competes, what to do, what it explains, history."""
    what, state, since = detail.headline(incident, told.words, told.scene.time)
    out = [f"<h2 id='{_safe(incident.id)}'>{_spans(what)}</h2><p>{_spans(state)}<br>{_spans(since)}</p>"]
    out += [
        _chart(incident, told.scene, item, one)
        for item, one in evidence.traces(incident, told.scene, where)[:MOST_CHARTS]
    ]
    out.append(_evidence(incident))
    for part in detail.sections(incident, told.words):
        if part.label in ("rivals", detail.OR, "unseen", "do", "explains"):
            shown = detail.with_recipes(part, incident, told.words) if part.label == "do" else part
            out.append(f"<h3>{part.label}</h3><ul>{''.join(f'<li>{_spans(item)}' for item in shown.items)}</ul>")
    for part in detail.record(incident, told.words):
        out.append(f"<h3>{part.label}</h3><ul>{''.join(f'<li>{_spans(item)}' for item in part.items)}</ul>")
    return "".join(out)


def _evidence(incident: Incident) -> str:
    rows = [(item, "for") for item in incident.evidence] + [(item, "against") for item in incident.against]
    head = "".join(f"<th scope=col>{title}" for title in ("says", "term", "", "weight", "value", "test"))
    body = "".join(
        f"<tr><td>{item.verdict}<td>{_safe(detail.spoken(item.name))}<td>{side}<td class=n>{item.weight:g}"
        f"<td class=n>{_safe(detail.value(item))}<td><code>{_safe(detail.readable(item.expr))}</code></tr>"
        for item, side in rows
    )
    return f"<h3>evidence</h3><div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _missing(said: Iterable[str]) -> str:
    items = "".join(f"<li>{_safe(one)}" for one in said)
    return f"<h2>What could not be seen</h2><ul>{items}</ul>" if items else ""


# --- pictures


def _while(incident: Incident, times: NDArray[np.floating]) -> str:
    """The time for which the incident lasted, as a band."""
    span = max(float(times[-1] - times[0]), 1e-9)
    ends = (incident.opened_at, incident.resolved_at or float(times[-1]))
    begin, end = (LEFT + min(max((t - times[0]) / span, 0.0), 1.0) * (WIDE - LEFT - 2) for t in ends)
    return f"<rect x={begin:.1f} y=2 width={max(end - begin, 1):.1f} height={HIGH - BOTTOM - 2} fill=var(--band) />"


def _chart(incident: Incident, scene: Scene, item: Evidence, one: evidence.Trace) -> str:
    """A series beside its peers, as SVG."""
    own, others, times = one.own(scene), one.others(scene), scene.signals.times()
    if not len(times) or not np.isfinite(own).any():
        return ""
    step = max(len(times) // MOST_POINTS, 1)
    own, others, times = own[::step], others[:, ::step], times[::step]
    values = np.concatenate([own, others.ravel()])
    high = float(np.nanmax(values)) or 1.0
    low = min(float(np.nanmin(values)), 0.0)
    share = units.is_share(one.signal)
    lines = [_while(incident, times), *(_line(times, peer, (low, high), "var(--peer)", 1.2) for peer in others)]
    lines.append(_line(times, own, (low, high), "var(--crit)", 2.0))
    name = f"{detail.spoken(item.name)}: {one.signal} of {one.entity}, beside {units.count(len(one.peers), 'peer')}"
    labels = (
        f"<text x={LEFT - 6} y=12 text-anchor=end>{_safe(units.human(high, one.unit, share=share))}</text>"
        f"<text x={LEFT - 6} y={HIGH - BOTTOM} text-anchor=end>{_safe(units.human(low, one.unit, share=share))}</text>"
        f"<text x={LEFT} y={HIGH - 3}>{units.clock(times[0])}</text>"
        f"<text x={WIDE} y={HIGH - 3} text-anchor=end>{units.clock(times[-1])}</text>"
    )
    frame = f"<path d='M{LEFT} 2V{HIGH - BOTTOM}H{WIDE}' fill=none stroke=var(--line) />"
    picture = (
        f"<svg viewBox='0 0 {WIDE} {HIGH}' role=img aria-label='{_safe(name)}'>{frame}{''.join(lines)}{labels}</svg>"
    )
    return f"<h3>{_safe(name)}</h3>{picture}"


def _line(
    times: NDArray[np.floating],
    values: NDArray[np.floating],
    bounds: tuple[float, float],
    colour: str,
    wide: float,
) -> str:
    """One curve; a gap breaks it."""
    low, high = bounds
    span = max(float(times[-1] - times[0]), 1e-9)
    x = LEFT + (times - times[0]) / span * (WIDE - LEFT - 2)
    y = HIGH - BOTTOM - (values - low) / ((high - low) or 1.0) * (HIGH - BOTTOM - 6)
    path, drawn = [], False
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if np.isfinite(b):
            path.append(f"{'L' if drawn else 'M'}{a:.1f} {b:.1f}")
        drawn = bool(np.isfinite(b))
    return f"<path d='{''.join(path)}' fill=none stroke='{colour}' stroke-width={wide} />"
