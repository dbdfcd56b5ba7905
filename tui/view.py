"""What the console shows: rows, columns, filter, status line, replay bar, frame. Pure: nothing here knows Textual."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skewscope.engine.incident import Incident
from skewscope.tui import detail, units
from skewscope.tui.detail import GLYPHS, Words
from skewscope.tui.text import Line, cut, fit, line_width, pad, spread, width

if TYPE_CHECKING:
    from skewscope.adapters.coverage import SourceState

SEVERITIES = ("info", "warning", "critical")
STALE_S = 10.0
"""Data older than this looks old."""


@dataclass(frozen=True, slots=True)
class Row:
    """An incident in the list; `depth` above 0 stands under what explains it."""

    incident: Incident
    depth: int = 0
    folded: int = 0
    """How many that it explains are not shown."""


def ranked(incidents: Iterable[Incident], *, fold: bool = False) -> list[Row]:
    """Rows, the most pressing root first, each followed by what it explains."""
    order = sorted(incidents, key=_pressing)
    known = {i.id for i in order}
    children: dict[str, list[Incident]] = {}
    roots: list[Incident] = []
    for incident in order:
        parent = incident.explained_by
        if parent in known and parent != incident.id:
            children.setdefault(parent or "", []).append(incident)
        else:
            roots.append(incident)
    rows = [row for root in roots for row in _family(root, children, fold)]
    seen = {row.incident.id for row in rows}
    # Two that explain each other have no root; they are shown all the same.
    rest = [] if fold else [Row(i) for i in order if i.id not in seen]
    return rows + rest


def _pressing(incident: Incident) -> tuple[bool, bool, int, float, float, str]:
    share = incident.impact.change if incident.impact.unit == "1" else None
    hit = incident.blast_radius
    score = incident.confidence * (0.05 + abs(share or 0.0)) * max(hit.nodes + hit.groups + hit.replicas, 1)
    return (
        incident.state == "resolved",
        not incident.likely,
        -SEVERITIES.index(incident.severity),
        -score,
        incident.opened_at,
        incident.id,
    )


def _family(root: Incident, children: dict[str, list[Incident]], fold: bool) -> list[Row]:
    below: list[tuple[Incident, int]] = []
    todo = [(child, 1) for child in reversed(children.get(root.id, []))]
    while todo:
        incident, depth = todo.pop()
        below.append((incident, depth))
        todo += [(child, depth + 1) for child in reversed(children.get(incident.id, []))]
    return [Row(root, folded=len(below))] if fold else [Row(root), *(Row(i, depth) for i, depth in below)]


# The filter language: words that all must hold.

Test = Callable[[Incident], bool]
_COMPARED = re.compile(r"^(sev|severity|sure)(>=|<=|>|<|=)(\S+)$")
_FIELDS: dict[str, Callable[[Incident], str]] = {
    "node": lambda i: " ".join((i.name, *i.also)),
    "kind": lambda i: i.kind,
    "state": lambda i: i.state,
    "rule": lambda i: i.rule,
    "condition": lambda i: i.condition,
}
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a == b,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """What is shown; `fault` says what in the text was not understood."""

    text: str = ""
    tests: tuple[Test, ...] = ()
    fault: str = ""

    def keeps(self, incident: Incident) -> bool:
        """Whether an incident is shown."""
        return all(test(incident) for test in self.tests)


def parse_filter(text: str, words: Words) -> Filter:
    """The filter in `tp !n3 sev>=warning node:n2`."""
    tests, fault = [], ""
    for word in text.split():
        try:
            tests.append(_test(word, words))
        except ValueError as error:
            fault = str(error)
    return Filter(text.strip(), tuple(tests), fault)


def _test(word: str, words: Words) -> Test:
    if word.startswith("!") and len(word) > 1:
        inner = _test(word[1:], words)
        return lambda i: not inner(i)
    if compared := _COMPARED.match(word.lower()):
        return _comparison(*compared.groups())
    name, colon, wanted = word.lower().partition(":")
    if colon and name in _FIELDS:
        return lambda i: wanted in _FIELDS[name](i).lower()
    return lambda i: word.lower() in _haystack(i, words)


def _comparison(name: str, operator: str, wanted: str) -> Test:
    holds = _OPERATORS[operator]
    if name == "sure":
        if not re.fullmatch(r"\d{1,3}%?", wanted):
            raise ValueError(f"{wanted!r} is no percentage")
        percent = float(wanted.rstrip("%"))
        return lambda i: holds(round(100 * i.confidence), percent)
    level = next((n for n, severity in enumerate(SEVERITIES) if severity.startswith(wanted)), None)
    if level is None:
        raise ValueError(f"{wanted!r} is none of {', '.join(SEVERITIES)}")
    return lambda i: holds(SEVERITIES.index(i.severity), level)


def _haystack(incident: Incident, words: Words) -> str:
    name = words.condition(incident.condition)
    return " ".join((incident.id, incident.condition, name, detail.where(incident), *incident.also)).lower()


# The list's columns. They fall away whole, the least wanted first, and never half.


@dataclass(frozen=True, slots=True)
class Column:
    """One column: how wide at least and at most, and the order in which columns are kept (0 first)."""

    title: str
    least: int
    most: int
    keep: int
    cell: Callable[[Row, Words, float], str]
    right: bool = False


def _name(row: Row, words: Words, _now: float) -> str:
    indent = "  " * min(row.depth - 1, 3) + "└ " if row.depth else ""
    more = f" (+{row.folded})" if row.folded else ""
    return indent + words.condition(row.incident.condition) + more


def _advice(row: Row, words: Words, _now: float) -> str:
    first = row.incident.mitigations[:1]
    return "".join(words.mitigation(a.id) for a in first)


COLUMNS = (
    Column("", 1, 1, 0, lambda r, _w, _n: detail.glyph(r.incident)[0]),
    Column("condition", 20, 60, 0, _name),
    Column("where", 8, 24, 1, lambda r, _w, _n: detail.where(r.incident)),
    Column("since", 8, 8, 3, lambda r, _w, _n: units.clock(r.incident.opened_at)),
    Column("for", 8, 12, 5, lambda r, _w, n: units.seconds(detail.lasted(r.incident, n)), right=True),
    Column("state", 8, 8, 6, lambda r, _w, _n: r.incident.state),
    Column("sure", 5, 5, 2, lambda r, _w, _n: detail.sure(r.incident), right=True),
    Column("impact", 8, 30, 4, lambda r, _w, _n: detail.impact(r.incident)),
    Column("hit", 10, 30, 7, lambda r, _w, _n: detail.spread_of(r.incident)),
    Column("advice", 16, 60, 8, _advice),
)
_SAMPLE = 200


def columns_for(rows: Sequence[Row], words: Words, now: float, total: int) -> list[tuple[Column, int]]:
    """The columns that fit, each with its width: as wide as its cells want where there is room."""
    wanted = {c.title: _wanted(c, rows[:_SAMPLE], words, now) for c in COLUMNS}
    chosen: list[Column] = []
    for column in sorted(COLUMNS, key=lambda c: c.keep):
        if sum(_floor(c, wanted) + 1 for c in (*chosen, column)) > total:
            break
        chosen.append(column)
    chosen.sort(key=COLUMNS.index)
    left = total - sum(_floor(c, wanted) + 1 for c in chosen)
    out = []
    for column in chosen:
        extra = max(0, min(left, wanted[column.title] - _floor(column, wanted)))
        left -= extra
        out.append((column, _floor(column, wanted) + extra))
    return out


def _floor(column: Column, wanted: dict[str, int]) -> int:
    # Half of an impact or an advice says nothing; a long name still does.
    return min(wanted[column.title], 30) if column.title == "condition" else wanted[column.title]


def _wanted(column: Column, rows: Sequence[Row], words: Words, now: float) -> int:
    longest = max((width(column.cell(row, words, now)) for row in rows), default=0)
    return max(min(max(longest, len(column.title)), column.most), column.least)


def header(columns: list[tuple[Column, int]]) -> Line:
    """The titles of the columns."""
    return ((" " + " ".join(pad(c.title, w, right=c.right) for c, w in columns), "dim"),)


def row_line(row: Row, columns: list[tuple[Column, int]], words: Words, now: float) -> Line:
    """One row of the list."""
    mark, role = detail.glyph(row.incident)
    quiet = "dim" if row.depth or row.incident.state == "resolved" or not row.incident.likely else ""
    cells = [pad(c.cell(row, words, now), w, right=c.right) for c, w in columns[1:]]
    return ((" ", ""), (mark, role), (" ", ""), (" ".join(cells), quiet))


# The lines around the list.


@dataclass(frozen=True, slots=True)
class Status:
    """What the top line tells."""

    incidents: tuple[Incident, ...]
    mode: str
    time: float
    age_s: float | None
    reporting: int
    known: int
    who: str = "nodes"


def status_line(status: Status, columns: int) -> Line:
    """The top line: counts, time, the data's age, who reports, and that nothing is written."""
    lefts = [((" Diagnoses ", "title"), *_counts(status.incidents, words=words)) for words in (True, False)]
    for right in _rights(status):
        for left in lefts:
            if line_width(left) + line_width(right) + 1 <= columns:
                return spread(left, right, columns)
    return fit(lefts[-1], columns)


def _counts(incidents: tuple[Incident, ...], *, words: bool) -> Line:
    out: list[tuple[str, str]] = []
    for severity in (*reversed(SEVERITIES), "resolved"):
        found = sum(_class(i) == severity for i in incidents if i.explained_by is None)
        mark, role = GLYPHS[severity]
        out.append((f" {mark} {found}{f' {severity} ' if words else ''}", role if found else "dim"))
    return tuple(out)


def _class(incident: Incident) -> str:
    """What it is counted as: a suspicion is no more than information, however bad it would be."""
    if incident.state == "resolved":
        return "resolved"
    return incident.severity if incident.likely else SEVERITIES[0]


def _rights(status: Status) -> list[Line]:
    stale = status.age_s is None or status.age_s > STALE_S
    age = "no data" if status.age_s is None else f"lag {_lag(status.age_s)}"
    silent = status.reporting < status.known
    parts: list[tuple[str, str]] = [(f"{status.mode} {units.clock(status.time)}  ", "title")]
    parts.append((f"{status.reporting}/{status.known} {status.who}  ", "warn" if silent else ""))
    parts.append((f"{age}  ", "warn" if stale else ""))
    parts.append(("read-only ", "dim"))
    return [tuple(parts), tuple(parts[:3]), tuple(parts[:2]), tuple(parts[:1])]


def reporting(sources: Iterable["SourceState"]) -> tuple[int, int, str]:
    """How many report, of how many, and what they are: of the telemetry that ever came, the one most is missing of."""
    came = [s for s in sources if s.age_s is not None and s.known]
    worst = min(came, key=lambda s: (s.reporting / s.known, s.kind != "nodes"), default=None)
    return (worst.reporting, worst.known, worst.kind) if worst else (0, 0, "nodes")


def oldest(sources: Iterable["SourceState"]) -> float | None:
    """The age of the source that is furthest behind, None where none ever delivered."""
    return max((s.age_s for s in sources if s.age_s is not None), default=None)


def _lag(age_s: float) -> str:
    return f"{max(age_s, 0.0):.1f} s" if age_s < 99.95 else units.seconds(age_s)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a replay stands."""

    start: float
    end: float
    time: float
    playing: bool
    speed: int

    @property
    def share(self) -> float:
        """0 at the start, 1 at the end."""
        length = self.end - self.start
        return min(max((self.time - self.start) / length, 0.0), 1.0) if length > 0 else 1.0


_BAR_LEFT, _BAR_RIGHT = 12, 19
"""Columns beside the bar: sign and start; end, speed and `end`."""


def replay_bar(position: Position, openings: Iterable[float], columns: int) -> Line:
    """The replay's time line, with a mark where something opened."""
    sign = "▶" if position.playing else "▮"
    left = f" {sign} {units.clock(position.start)} "
    end = "end" if position.share == 1 else ""
    right = pad(f" {units.clock(position.end)}  ×{position.speed:<2} {end}", _BAR_RIGHT)
    cells = columns - _BAR_LEFT - _BAR_RIGHT
    if cells < 4:
        return ((cut(f" {sign} {units.clock(position.time)}", columns), ""),)
    track = ["─"] * cells
    for opened in openings:
        where = Position(position.start, position.end, opened, playing=False, speed=1)
        track[round(where.share * (cells - 1))] = "!"
    at = round(position.share * (cells - 1))
    return ((left, ""), ("".join(track[:at]), "info"), ("●", "title"), ("".join(track[at + 1 :]), "dim"), (right, ""))


def bar_share(column: int, columns: int) -> float:
    """The share of the replay that a column of the bar stands for."""
    cells = columns - _BAR_LEFT - _BAR_RIGHT
    return min(max((column - _BAR_LEFT) / max(cells - 1, 1), 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Frame:
    """How a screen is divided; `kind` is full, bare (a list and nothing else) or tiny."""

    kind: str
    side_by_side: bool = False
    list_rows: int = 0


def frame(columns: int, lines: int, rows: int) -> Frame:
    """The division of a screen of this size for so many rows."""
    if columns < 20 or lines < 3:
        return Frame("tiny")
    if columns < 60 or lines < 16:
        return Frame("bare")
    if columns >= 160:
        return Frame("full", side_by_side=True)
    return Frame("full", list_rows=min(max(rows + 1, 4), (lines - 4) * 2 // 5))


def bare_line(row: Row, words: Words) -> Line:
    """A row where there is no room for columns."""
    mark, role = detail.glyph(row.incident)
    text = f" {words.condition(row.incident.condition)} on {detail.where(row.incident)} {detail.sure(row.incident)}"
    return ((mark, role), (text, ""))


def loading(stage: str, share: float, columns: int) -> list[Line]:
    """What is shown until there is something to show."""
    cells = max(min(columns - 12, 40), 1)
    done = round(min(max(share, 0.0), 1.0) * cells)
    track = (("━" * done, "ok"), ("─" * (cells - done), "dim"), (f" {round(100 * share):3d} %", ""))
    return [(), ((f"  {stage}", "title"),), (("  ", ""), *track)]


def too_small(columns: int) -> list[Line]:
    """What is said where not even a list fits."""
    return [((cut("needs 20x3", columns), "warn"),)]


def chip(filter_: Filter, shown: int, known: int) -> list[Line]:
    """The filter in force, in the list's header; nothing where there is none."""
    if not filter_.text:
        return []
    note = (f"  {filter_.fault}", "warn") if filter_.fault else ("  esc clears", "dim")
    return [((f" /{filter_.text} ", "bar"), (f" {shown} of {known}", "key"), note)]
