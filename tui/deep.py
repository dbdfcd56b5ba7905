"""A diagnosis in depth: evidence over time beside its peers, what leads to what, the rule term by term. Pure."""

from dataclasses import dataclass

import numpy as np

from skewscope.adapters.scene import Scene, Spoken
from skewscope.engine.incident import Incident
from skewscope.tui import detail, evidence, pictures, units
from skewscope.tui.detail import Words
from skewscope.tui.pictures import Curve
from skewscope.tui.status import beside
from skewscope.tui.text import Line, Span, cut, fit, line, pad, wrap
from skewscope.tui.whereabouts import Whereabouts

TWO_COLUMNS = 110
CHART_ROWS = 8
MOST_CHARTS = 3
MOST_NAMED = 8
VERDICTS = {1: ("+", "ok"), 0: ("?", "warn"), -1: ("−", "dim")}
_SPOKEN = {"yes": 1, "unknown": 0, "no": -1}


@dataclass(frozen=True)
class About:
    """An incident, and all that is needed to tell of it."""

    incident: Incident
    scene: Scene
    words: Words
    where: Whereabouts
    ascii: bool = False


def lines(about: About, columns: int, rows: int = 40) -> list[Line]:
    """Everything, in two columns where there is room."""
    incident, now = about.incident, about.scene.time
    what, state, since = detail.headline(incident, about.words, now)
    out = [*wrap(what, columns, 2), *wrap((("  ", ""), *state), columns, 2), *wrap(since, columns, 2), ()]
    if columns < TWO_COLUMNS:
        return [*out, *_left(about, columns, rows), *_right(about, columns)]
    left = (columns - 3) * 58 // 100
    return out + beside(_left(about, left, rows), _right(about, columns - left - 3), left, 3)


def _left(about: About, columns: int, rows: int) -> list[Line]:
    return [*charts(about, columns, rows), *terms(about, columns), *_rest(about, columns)]


def _right(about: About, columns: int) -> list[Line]:
    return [*chain(about, columns), *_history(about, columns), *_sources(about, columns)]


def _title(text: str, note: str = "") -> Line:
    return ((text, "label"), (f"  {note}" if note else "", "dim"))


# --- evidence over time


def charts(about: About, columns: int, rows: int) -> list[Line]:
    """The series that speak loudest, each with its peers."""
    found = evidence.traces(about.incident, about.scene, about.where)[:MOST_CHARTS]
    if not found:
        return [_title("evidence over time", "none of its series is kept here"), ()]
    height = CHART_ROWS if rows > 30 else 6
    out: list[Line] = []
    for item, one in found if rows > 20 else found[:1]:
        out += _chart(about, detail.spoken(item.name), one, columns, height)
    return out


def _chart(about: About, name: str, one: evidence.Trace, columns: int, rows: int) -> list[Line]:
    scene = about.scene
    own, others = one.own(scene).astype(np.float64), one.others(scene).astype(np.float64)
    times = scene.signals.times()
    curves = [Curve(values, "dim") for values in others if np.isfinite(values).any()]
    curves.append(Curve(own, "crit"))
    low, high = pictures.bounds(curves)
    share = units.is_share(one.signal)
    labels = (units.human(low, one.unit, share=share), units.human(high, one.unit, share=share))
    gutter = max(map(len, labels))
    draw = pictures.dotted if about.ascii else pictures.chart
    body = draw(curves, max(columns - gutter - 2, 8), rows)
    peers = f"dim: {units.count(len(one.peers), 'peer')}" if one.peers else "nobody to compare with"
    head: Line = (
        (pad(name, min(len(name), 24)), "label"),
        (f"  {one.signal} of ", ""),
        (one.entity, "crit"),
        (f"  {peers}", "dim"),
    )
    ends = (units.clock(times[0]), units.clock(times[-1])) if len(times) else ("", "")
    opened = about.incident.opened_at
    place = (opened - times[0]) / (times[-1] - times[0]) if len(times) > 1 else -1.0
    mark = (float(place), f"▲{units.clock(opened)}") if place >= 0 else (-1.0, "")
    return [fit(head, columns), *pictures.framed(body, labels, ends, columns, mark), ()]


# --- the rule as it was evaluated


def terms(about: About, columns: int) -> list[Line]:
    """Every term of the rule: its weight, what it says now, what it said when it spoke loudest, and over time."""
    incident = about.incident
    key = incident.rule, incident.kind, incident.name
    spoken = [(frame.said or {}).get(key) for frame in about.scene.signals.frames]
    now = spoken[-1] if spoken else None
    items = [(item, 1) for item in incident.evidence] + [(item, -1) for item in incident.against]
    order = {name: n for n, name in enumerate(about.scene.terms.get(incident.rule, ()))}
    note = f"score {now.score:g} now, {round(100 * now.coverage)} % seen" if now else "it does not fire now"
    out = [fit(_title("rule", f"{incident.rule} · {note}"), columns)]
    names = min(max((len(detail.spoken(item.name)) for item, _ in items), default=0), 20)
    cells = max(min(columns - names - 40, 24), 0)
    for item, sign in items:
        place = order.get(item.name, -1)
        over = _over_time(spoken, place, cells)
        was = VERDICTS[_SPOKEN.get(item.verdict, 0)]
        value = _value_now(now, place)
        shown = units.human(value, item.unit, share="percent" in item.expr) if value is not None else "·"
        spans: list[Span] = [(f"  {was[0]} ", was[1]), (pad(detail.spoken(item.name), names), "key")]
        spans += [(f" {'for' if sign > 0 else 'against':7} {item.weight:<3g}", "dim")]
        spans += [
            (pad(detail.value(item), 10, right=True), ""),
            (f" now {pad(shown, 10)}", "" if value is not None else "dim"),
        ]
        out.append(fit((*spans, *over), columns))
        out += wrap((("      ", ""), (detail.readable(item.expr), "dim")), columns, 6)
    return [*out, ()]


def _value_now(now: Spoken | None, place: int) -> float | None:
    if now is None or not 0 <= place < len(now.values) or not np.isfinite(now.values[place]):
        return None
    return now.values[place]


def _over_time(spoken: list[Spoken | None], place: int, cells: int) -> Line:
    """What a term said over time, a cell for each part of it: + yes, − no, ? unknown, blank where it did not fire."""
    if place < 0 or not cells or not spoken:
        return ()
    at = np.linspace(0, len(spoken) - 1, cells).round().astype(int).tolist()
    spans: list[Span] = [("  ", "")]
    for n in at:
        said = spoken[n]
        spans.append(VERDICTS[said.verdicts[place]] if said and place < len(said.verdicts) else ("·", "dim"))
    return tuple(spans)


# --- what leads to what


def chain(about: About, columns: int) -> list[Line]:
    """What explains it, itself, what it explains; and what the catalogue knows to lead here and to follow."""
    incident, words = about.incident, about.words
    out = [_title("chain", "what leads to what")]
    root = words.incident(incident.explained_by) if incident.explained_by else None
    depth = 0
    if root is not None:
        out.append(fit(_link(root, words, depth), columns))
        depth = 1
    out.append(
        fit(((" " * (2 + 2 * depth) + ("└ " if depth else ""), "dim"), *_named(incident, words, "title")), columns)
    )
    below = words.explained_by(incident.id)
    out += [fit(_link(each, words, depth + 1), columns) for each in below[:MOST_NAMED]]
    out += (
        [line(f"{' ' * (4 + 2 * depth)}and {len(below) - MOST_NAMED} more", "dim")] if len(below) > MOST_NAMED else []
    )
    out += _known_links(about, columns)
    return [*out, ()]


def _link(incident: Incident, words: Words, depth: int) -> Line:
    return ((" " * (2 + 2 * depth) + ("└ " if depth else ""), "dim"), *_named(incident, words, ""))


def _named(incident: Incident, words: Words, role: str) -> Line:
    what = f"{words.condition(incident.condition)} on {detail.where(incident)}"
    return (detail.glyph(incident), (f" {what}", role), (f"  {detail.sure(incident)}", "dim"))


def _known_links(about: About, columns: int) -> list[Line]:
    from skewscope.kb.graph import edges  # noqa: PLC0415

    words, here = about.words, about.incident.condition
    firing = {i.condition for i in words.incidents if i.state == "firing"}
    links = edges(words.catalogue)
    causes = [c for c, e, _ in links if e == here]
    effects = [e for c, e, _ in links if c == here]
    out: list[Line] = []
    for label, found in (("may come of", causes), ("may lead to", effects)):
        if found:
            named = ", ".join(f"{words.condition(c)}{' (here)' if c in firing else ''}" for c in found[:MOST_NAMED])
            out += wrap(((f"  {label}: ", "dim"), (named, "")), columns, 4)
    return out


# --- the rest


def _history(about: About, columns: int) -> list[Line]:
    out: list[Line] = [_title("history")]
    parts = {part.label: part for part in detail.record(about.incident, about.words)}
    for item in parts["history"].items if "history" in parts else ():
        out += wrap((("  ", ""), *item), columns, 12)
    return [*out, ()]


def _sources(about: About, columns: int) -> list[Line]:
    """Who reported the condition, and how that was seen."""
    known = about.words.catalogue
    entry = known.conditions.get(about.incident.condition)
    if entry is None:
        return []
    out = [_title("sources", f"evidence grade {entry.grade}")]
    for claim in entry.impacts[:MOST_NAMED]:
        source = known.sources.get(claim.source)
        told = f"{source.title} ({source.year})" if source else claim.source
        out += wrap((("  " + claim.text, ""), (f"  {cut(told, 60)}, seen: {claim.seen}", "dim")), columns, 4)
    return [*out, ()]


def _rest(about: About, columns: int) -> list[Line]:
    """What competes, what cannot be seen, what to do."""
    wanted = ("rivals", detail.OR, "unseen", "do")
    out: list[Line] = []
    for part in detail.sections(about.incident, about.words):
        if part.label in wanted:
            shown = detail.with_recipes(part, about.incident, about.words) if part.label == "do" else part
            out += [*detail.block(shown, columns), ()]
    return out
