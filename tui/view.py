"""The list of diagnoses: who comes first, what is folded, what each column says. Pure: nothing here knows Textual."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skewscope.engine.incident import SEVERITIES, Incident
from skewscope.tui import columns, detail, query, units
from skewscope.tui.columns import Cell, Column, Widths
from skewscope.tui.detail import Words
from skewscope.tui.ledger import SILENCED, Standing
from skewscope.tui.text import Line, Span, width


@dataclass(frozen=True, slots=True)
class Row:
    """An incident in the list; `depth` above 0 stands under what explains it."""

    incident: Incident
    depth: int = 0
    folded: int = 0
    """How many that it explains are not shown."""


def ranked(
    incidents: Iterable[Incident], *, fold: bool = False, standing: Mapping[str, Standing] | None = None
) -> list[Row]:
    """Rows, the most pressing root first, each followed by what it explains; what is snoozed comes behind."""
    snoozed = {id_ for id_, each in (standing or {}).items() if each.state == "snoozed"}
    order = sorted(incidents, key=lambda i: (i.id in snoozed, _pressing(i)))
    known = {i.id for i in order}
    children: dict[str, list[Incident]] = {}
    roots: list[Incident] = []
    for incident in order:
        parent = incident.explained_by
        if parent in known and parent != incident.id:
            children.setdefault(parent or "", []).append(incident)
        else:
            roots.append(incident)
    rows = [row for root in roots for row in _family(root, children, fold or root.id in snoozed)]
    if len(rows) == len(order):
        return rows
    seen = {row.incident.id for row in rows}
    # Two that explain each other have no root; they are shown all the same.
    rest = [] if fold else [Row(i) for i in order if i.id not in seen and not _under(i, snoozed)]
    return rows + rest


def by_condition(rows: Iterable[Row]) -> list[Row]:
    """The most pressing row of each condition and state, which stands for the others."""
    first: dict[tuple[str, bool], Row] = {}
    for row in rows:
        key = row.incident.condition, row.incident.state == "resolved"
        if key in first:
            first[key] = replace(first[key], folded=first[key].folded + row.folded + 1)
        else:
            first[key] = replace(row, depth=0)
    return list(first.values())


def _under(incident: Incident, snoozed: set[str]) -> bool:
    return incident.explained_by in snoozed


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


# --- filter

FIELDS = "sev>=warning  sure>80  node:n2  state:firing  kind:rank  for>5min  !text  ~letters  or"


def table(incidents: Sequence[Incident], words: Words, standing: Mapping[str, Standing], now: float) -> query.Table:
    """What a filter can ask of incidents."""

    def texts(get: Callable[[Incident], str]) -> Callable[[], list[str]]:
        return lambda: [get(i) for i in incidents]

    def numbers(get: Callable[[Incident], float]) -> Callable[[], np.ndarray]:
        return lambda: np.array([get(i) for i in incidents], np.float64)

    def state(incident: Incident) -> str:
        return f"{incident.state} {standing[incident.id].state if incident.id in standing else ''}"

    return query.Table(
        [_haystack(i, words) for i in incidents],
        {
            "node": texts(lambda i: " ".join((i.name, *i.also))),
            "kind": texts(lambda i: i.kind),
            "state": texts(state),
            "rule": texts(lambda i: i.rule),
            "condition": texts(lambda i: i.condition),
            "id": texts(lambda i: i.id),
        },
        {
            "sev": numbers(lambda i: SEVERITIES.index(i.severity)),
            "sure": numbers(lambda i: i.confidence),
            "for": numbers(lambda i: detail.lasted(i, now)),
            "flaps": numbers(lambda i: i.flaps),
            "hit": numbers(lambda i: i.blast_radius.nodes),
        },
        {"sev": SEVERITIES},
        ("sure",),
    )


def _haystack(incident: Incident, words: Words) -> str:
    name = words.condition(incident.condition)
    return " ".join((incident.id, incident.condition, name, detail.where(incident), *incident.also)).lower()


# --- columns

COLUMNS = (
    Column("mark", "", 1, 1, 0),
    Column("condition", "condition", 30, 60, 0, shrinks=True),
    Column("where", "where", 8, 24, 1),
    Column("since", "since", 8, 8, 3),
    Column("for", "for", 8, 12, 5, right=True),
    Column("state", "state", 8, 14, 6),
    Column("sure", "sure", 5, 5, 2, right=True),
    Column("impact", "impact", 8, 30, 4, shrinks=True),
    Column("trend", "evidence", 10, 16, 7),
    Column("hit", "hit", 10, 30, 8),
    Column("flaps", "flaps", 5, 5, 10, right=True),
    Column("advice", "advice", 16, 60, 9),
)
_SAMPLE = 200
TREND = 16


@dataclass(frozen=True)
class Cells:
    """What the columns say of a row."""

    words: Words
    now: float
    standing: Mapping[str, Standing]
    trend: Callable[[Incident], str] = lambda _incident: ""

    def cell(self, row: Row, column: str) -> Cell:
        """One cell."""
        if column == "mark":
            return detail.glyph(row.incident)
        quiet = "dim" if row.depth or row.incident.state == "resolved" or not row.incident.likely else ""
        return self._text(row, column), "dim" if row.incident.id in self.standing else quiet

    def _text(self, row: Row, column: str) -> str:
        incident = row.incident
        if column == "condition":
            indent = "  " * min(row.depth - 1, 3) + "└ " if row.depth else ""
            more = f" (+{row.folded})" if row.folded else ""
            return indent + self.words.condition(incident.condition) + more
        if column == "state":
            return self._state(incident)
        if column == "trend":
            return self.trend(incident)
        if column == "advice":
            return "".join(self.words.mitigation(a.id) for a in incident.mitigations[:1])
        return _TEXTS[column](incident, self.now)

    def _state(self, incident: Incident) -> str:
        standing = self.standing.get(incident.id)
        if standing is None:
            return incident.state
        if standing.state == SILENCED:
            return SILENCED
        if standing.until is None:
            return "acknowledged"
        return f"snoozed {units.short(standing.until - self.now)}"


_TEXTS: Mapping[str, Callable[[Incident, float], str]] = {
    "where": lambda i, _: detail.where(i),
    "since": lambda i, _: units.clock(i.opened_at),
    "for": lambda i, now: units.seconds(detail.lasted(i, now)),
    "sure": lambda i, _: detail.sure(i),
    "impact": lambda i, _: detail.cost(i),
    "hit": lambda i, _: detail.spread_of(i),
    "flaps": lambda i, _: str(i.flaps) if i.flaps else "",
}


def widths(rows: Sequence[Row], cells: Cells, total: int, hidden: Iterable[str] = (), *, wide: bool = False) -> Widths:
    """The columns that fit these rows."""
    some = rows[:_SAMPLE]
    wanted = {
        c.id: TREND if c.id == "trend" else max((width(cells.cell(row, c.id)[0]) for row in some), default=0)
        for c in COLUMNS
    }
    return columns.chosen(COLUMNS, wanted, total, tuple(hidden), wide=wide)


def row_line(row: Row, fitting: Widths, cells: Cells) -> Line:
    """One row of the list."""
    return columns.row(fitting, lambda column: cells.cell(row, column))


def bare_line(row: Row, cells: Cells, gutter: Span = (" ", "")) -> Line:
    """A row where there is no room for columns: where comes first, for that tells many of one condition apart."""
    incident = row.incident
    text = f"{detail.sure(incident):>5} {detail.where(incident)}: {cells.words.condition(incident.condition)}"
    return (cells.cell(row, "mark"), gutter, (text, cells.cell(row, "where")[1]))
