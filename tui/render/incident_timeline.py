"""Incidents as lengths on a line of time, with their names, as text and as SVG. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from skewscope.engine.advice.incident_words import format_others
from skewscope.engine.model.incident import SEVERITIES, Incident
from skewscope.tui.render import units
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import Line, Span, cut, merge_spans, sanitise, width

ROLES = {"critical": "crit", "warning": "warn", "info": "info"}
BEGIN, LENGTH, FREE, CURSOR = "┃", "━", "─", "●"
MIN_LABEL = 4
"""Columns in which a name is shown at least; a shorter one says nothing."""
MAX_LANES = 3
"""Lines of lengths: incidents at the same time are on different ones, as far as there are enough."""
SVG_WIDTH, SVG_LANE = 640, 30


@dataclass(frozen=True, slots=True)
class IncidentLength:
    """One incident on the line of time, begin and end as shares of it."""

    id: str
    name: str
    place: str
    severity: str
    begin: float
    end: float
    lane: int

    @property
    def label(self) -> str:
        """Name and place."""
        return f"{self.name} {self.place}"

    def fit_label(self, columns: int) -> str:
        """Returns name and place in at most `columns`: the name is cut first, since places tell incidents apart."""
        room = columns - width(self.place) - 1
        return f"{cut(self.name, room)} {self.place}" if room >= MIN_LABEL else cut(self.place, columns)


@dataclass(frozen=True, slots=True)
class IncidentTimeline:
    """The root incidents between two times, in seconds since 1970."""

    begin: float
    end: float
    lengths: tuple[IncidentLength, ...]

    @property
    def lanes(self) -> int:
        """Number of lines."""
        return 1 + max((entry.lane for entry in self.lengths), default=0)


def build_timeline(
    incidents: Iterable[Incident], begin: float, end: float, names: DisplayNames, most: int = MAX_LANES
) -> IncidentTimeline:
    """Returns the root incidents on a line of time; what has no free lane of `most` shares the last one."""
    span = max(end - begin, 1e-9)
    roots = [
        entry for entry in incidents if entry.explained_by is None and _end(entry, end) >= begin and entry.began <= end
    ]
    free: list[float] = []
    lengths = []
    for entry in sorted(roots, key=lambda one: one.began):
        first, last = (min(max((t - begin) / span, 0.0), 1.0) for t in (entry.began, _end(entry, end)))
        lane = next((n for n, until in enumerate(free) if until <= first), len(free))
        lane = min(lane, most - 1)
        free[lane : lane + 1] = [max(last, *free[lane : lane + 1], 0.0)]
        place = f"{entry.name} {format_others(entry)}".rstrip()
        name = names.condition_name(entry.condition)
        lengths.append(IncidentLength(entry.id, name, place, entry.severity, first, last, lane))
    return IncidentTimeline(begin, end, tuple(lengths))


def _end(entry: Incident, now: float) -> float:
    return now if entry.resolved_at is None else entry.resolved_at


# --- text


def timeline_lines(timeline: IncidentTimeline, columns: int, now: float | None = None) -> list[Line]:
    """Returns the lanes, each followed by a line of names where any fits; `now` is marked on the first one."""
    first, last = units.format_time(timeline.begin), units.format_time(timeline.end)
    wide = columns - len(first) - len(last) - 3
    if wide < MIN_LABEL:
        return []
    out: list[Line] = []
    for lane in range(timeline.lanes):
        here = [entry for entry in timeline.lengths if entry.lane == lane]
        ends = (first, last) if lane == 0 else (" " * len(first), "")
        cells = length_cells(here, wide)
        if lane == 0 and now is not None:
            share = (now - timeline.begin) / max(timeline.end - timeline.begin, 1e-9)
            cells[_column(min(max(share, 0.0), 1.0), wide)] = (CURSOR, "key")
        out.append(tuple(merge_spans([(f" {ends[0]} ", "dim"), *cells, (f" {ends[1]}", "dim")])))
        if labels := label_spans(here, wide):
            out.append(((" " * (len(first) + 2), ""), *labels))
    return out


def _column(share: float, columns: int) -> int:
    return min(int(share * columns), columns - 1)


def length_cells(lengths: Sequence[IncidentLength], columns: int) -> list[Span]:
    """Returns one cell a column: the begin of each length, and where lengths overlap the most severe one."""
    cells: list[Span] = [(FREE, "dim")] * columns
    for entry in sorted(lengths, key=lambda entry: SEVERITIES.index(entry.severity)):
        for column in range(_column(entry.begin, columns), _column(entry.end, columns) + 1):
            cells[column] = (LENGTH, ROLES[entry.severity])
    for entry in lengths:
        cells[_column(entry.begin, columns)] = (BEGIN, ROLES[entry.severity])
    return cells


def label_spans(lengths: Sequence[IncidentLength], columns: int) -> list[Span]:
    """Returns the names under the begins of their lengths, each up to the next one; a name may end in free space."""
    spans: list[Span] = []
    used = 0
    begins = [_column(entry.begin, columns) for entry in lengths]
    for entry, (begin, until) in zip(lengths, pairwise([*begins, columns + 1]), strict=True):
        room = until - begin - 1
        if begin < used or room < MIN_LABEL:
            continue
        label = entry.fit_label(room)
        spans += [(" " * (begin - used), ""), (label, ROLES[entry.severity])]
        used = begin + width(label)
    return spans


# --- SVG


def timeline_svg(timeline: IncidentTimeline, link: str = "#") -> str:
    """Returns the timeline as SVG with a link at each length, '' without incidents."""
    if not timeline.lengths:
        return ""
    height = SVG_LANE * timeline.lanes + 16
    names = "; ".join(entry.label for entry in timeline.lengths)
    head = (
        f"<svg viewBox='0 0 {SVG_WIDTH} {height}' role='group' aria-label='{_text(f'incidents over time: {names}')}'>"
    )
    bars = "".join(_length_svg(entry, link) for entry in timeline.lengths)
    ends = (
        f"<text x='0' y='{height - 3}'>{units.format_time(timeline.begin)}</text>"
        f"<text x='{SVG_WIDTH}' y='{height - 3}' text-anchor='end'>{units.format_time(timeline.end)}</text>"
    )
    return f"{head}{bars}{ends}</svg>"


def _length_svg(entry: IncidentLength, link: str) -> str:
    top, x = entry.lane * SVG_LANE, entry.begin * SVG_WIDTH
    wide = max((entry.end - entry.begin) * SVG_WIDTH, 2.0)
    colour = f"var(--{ROLES[entry.severity]})"
    anchor, place = ("end", x + wide) if entry.begin > 0.6 else ("start", x)
    return (
        f"<rect x='{x:.1f}' y='{top + 2}' width='{wide:.1f}' height='8' fill='{colour}' />"
        f"<a href='{_text(link + entry.id)}'>"
        f"<text x='{place:.1f}' y='{top + 23}' text-anchor='{anchor}'>{_text(entry.label)}</text></a>"
    )


def _text(value: str) -> str:
    return escape(sanitise(value))
