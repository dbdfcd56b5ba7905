"""The list of diagnoses: who comes first, what is folded, what each column says. Pure: nothing here knows Textual."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skewscope.engine.model.incident import SEVERITIES, Incident
from skewscope.tui.console.operator_log import SILENCED, TriageState
from skewscope.tui.render import columns, detail, filter_query, units
from skewscope.tui.render.columns import Cell, ColumnWidths, TableColumn
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import Line, Span, width


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """An incident in the list; `depth` above 0 stands under what explains it."""

    incident: Incident
    depth: int = 0
    folded: int = 0
    """How many that it explains are not shown."""


def rank_incidents(
    incidents: Iterable[Incident], *, fold: bool = False, standing: Mapping[str, TriageState] | None = None
) -> list[IncidentRow]:
    """Rows, the most pressing root first, each followed by what it explains; what is snoozed comes behind."""
    snoozed = {id_ for id_, each in (standing or {}).items() if each.state == "snoozed"}
    order = sorted(incidents, key=lambda i: (i.id in snoozed, _urgency(i)))
    known = {i.id for i in order}
    children: dict[str, list[Incident]] = {}
    roots: list[Incident] = []
    for incident in order:
        parent = incident.explained_by
        if parent in known and parent != incident.id:
            children.setdefault(parent or "", []).append(incident)
        else:
            roots.append(incident)
    rows = [row for root in roots for row in _incident_tree(root, children, fold or root.id in snoozed)]
    if len(rows) == len(order):
        return rows
    seen = {row.incident.id for row in rows}
    # Two that explain each other have no root; they are shown all the same.
    rest = [] if fold else [IncidentRow(i) for i in order if i.id not in seen and not _is_snoozed_child(i, snoozed)]
    return rows + rest


def group_by_condition(rows: Iterable[IncidentRow]) -> list[IncidentRow]:
    """The most pressing row of each condition and state, which stands for the others."""
    first: dict[tuple[str, bool], IncidentRow] = {}
    for row in rows:
        key = row.incident.condition, row.incident.state == "resolved"
        if key in first:
            first[key] = replace(first[key], folded=first[key].folded + row.folded + 1)
        else:
            first[key] = replace(row, depth=0)
    return list(first.values())


def _is_snoozed_child(incident: Incident, snoozed: set[str]) -> bool:
    return incident.explained_by in snoozed


def _urgency(incident: Incident) -> tuple[bool, bool, int, float, float, str]:
    share = incident.impact.change if incident.impact.unit == "1" else None
    hit = incident.blast_radius
    score = incident.confidence * (0.05 + abs(share or 0.0)) * max(hit.nodes + hit.groups + hit.replicas, 1)
    return (
        incident.state == "resolved",
        not incident.is_likely,
        -SEVERITIES.index(incident.severity),
        -score,
        incident.opened_at,
        incident.id,
    )


def _incident_tree(root: Incident, children: dict[str, list[Incident]], fold: bool) -> list[IncidentRow]:
    below: list[tuple[Incident, int]] = []
    todo = [(child, 1) for child in reversed(children.get(root.id, []))]
    while todo:
        incident, depth = todo.pop()
        below.append((incident, depth))
        todo += [(child, depth + 1) for child in reversed(children.get(incident.id, []))]
    return (
        [IncidentRow(root, folded=len(below))]
        if fold
        else [IncidentRow(root), *(IncidentRow(i, depth) for i, depth in below)]
    )


# --- filter

FILTER_EXAMPLE = "sev>=warning  sure>80  node:n2  state:firing  kind:rank  for>5min  !text  ~letters  or"


def filter_table(
    incidents: Sequence[Incident], words: DisplayNames, standing: Mapping[str, TriageState], now: float
) -> filter_query.FilterTable:
    """What a filter can ask of incidents."""

    def texts(get: Callable[[Incident], str]) -> Callable[[], list[str]]:
        return lambda: [get(i) for i in incidents]

    def numbers(get: Callable[[Incident], float]) -> Callable[[], np.ndarray]:
        return lambda: np.array([get(i) for i in incidents], np.float64)

    def state(incident: Incident) -> str:
        return f"{incident.state} {standing[incident.id].state if incident.id in standing else ''}"

    return filter_query.FilterTable(
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
            "for": numbers(lambda i: detail.duration(i, now)),
            "flaps": numbers(lambda i: i.flaps),
            "hit": numbers(lambda i: i.blast_radius.nodes),
        },
        {"sev": SEVERITIES},
        ("sure",),
    )


def _haystack(incident: Incident, words: DisplayNames) -> str:
    name = words.condition_name(incident.condition)
    return " ".join((incident.id, incident.condition, name, detail.format_location(incident), *incident.also)).lower()


# --- columns

COLUMNS = (
    TableColumn("mark", "", 1, 1, 0),
    TableColumn("condition", "condition", 30, 60, 0, shrinkable=True),
    TableColumn("where", "where", 8, 24, 1),
    TableColumn("since", "since", 8, 8, 3),
    TableColumn("for", "for", 8, 12, 5, align_right=True),
    TableColumn("state", "state", 8, 14, 6),
    TableColumn("sure", "sure", 5, 5, 2, align_right=True),
    TableColumn("impact", "impact", 8, 30, 4, shrinkable=True),
    TableColumn("trend", "evidence", 10, 16, 7),
    TableColumn("hit", "hit", 10, 30, 8),
    TableColumn("flaps", "flaps", 5, 5, 10, align_right=True),
    TableColumn("advice", "advice", 16, 60, 9),
)
_WIDTH_SAMPLE = 200
TREND_WIDTH = 16


@dataclass(frozen=True)
class IncidentCellFormatter:
    """What the columns say of a row."""

    names: DisplayNames
    now: float
    triage_states: Mapping[str, TriageState]
    trend_text: Callable[[Incident], str] = lambda _incident: ""

    def cell(self, row: IncidentRow, column: str) -> Cell:
        """One cell."""
        if column == "mark":
            return detail.severity_glyph(row.incident)
        quiet = "dim" if row.depth or row.incident.state == "resolved" or not row.incident.is_likely else ""
        return self._cell_text(row, column), "dim" if row.incident.id in self.triage_states else quiet

    def _cell_text(self, row: IncidentRow, column: str) -> str:
        incident = row.incident
        if column == "condition":
            indent = "  " * min(row.depth - 1, 3) + "└ " if row.depth else ""
            more = f" (+{row.folded})" if row.folded else ""
            return indent + self.names.condition_name(incident.condition) + more
        if column == "state":
            return self._state_text(incident)
        if column == "trend":
            return self.trend_text(incident)
        if column == "advice":
            return "".join(self.names.mitigation_name(a.id) for a in incident.mitigations[:1])
        return _COLUMN_TEXTS[column](incident, self.now)

    def _state_text(self, incident: Incident) -> str:
        standing = self.triage_states.get(incident.id)
        if standing is None:
            return incident.state
        if standing.state == SILENCED:
            return SILENCED
        if standing.until is None:
            return "acknowledged"
        return f"snoozed {units.format_short_duration(standing.until - self.now)}"


_COLUMN_TEXTS: Mapping[str, Callable[[Incident, float], str]] = {
    "where": lambda i, _: detail.format_location(i),
    "since": lambda i, _: units.format_time(i.opened_at),
    "for": lambda i, now: units.format_duration(detail.duration(i, now)),
    "sure": lambda i, _: detail.format_confidence(i),
    "impact": lambda i, _: detail.format_impact_short(i),
    "hit": lambda i, _: detail.format_blast_radius(i),
    "flaps": lambda i, _: str(i.flaps) if i.flaps else "",
}


def column_widths(
    rows: Sequence[IncidentRow],
    cells: IncidentCellFormatter,
    total: int,
    hidden: Iterable[str] = (),
    *,
    wide: bool = False,
) -> ColumnWidths:
    """The columns that fit these rows."""
    some = rows[:_WIDTH_SAMPLE]
    wanted = {
        c.id: TREND_WIDTH if c.id == "trend" else max((width(cells.cell(row, c.id)[0]) for row in some), default=0)
        for c in COLUMNS
    }
    return columns.fit_columns(COLUMNS, wanted, total, tuple(hidden), wide=wide)


def row_line(row: IncidentRow, fitting: ColumnWidths, cells: IncidentCellFormatter) -> Line:
    """One row of the list."""
    return columns.row_line(fitting, lambda column: cells.cell(row, column))


def bare_line(row: IncidentRow, cells: IncidentCellFormatter, gutter: Span = (" ", "")) -> Line:
    """A row where there is no room for columns: where comes first, for that tells many of one condition apart."""
    incident = row.incident
    name = cells.names.condition_name(incident.condition)
    text = f"{detail.format_confidence(incident):>5} {detail.format_location(incident)}: {name}"
    return (cells.cell(row, "mark"), gutter, (text, cells.cell(row, "where")[1]))
