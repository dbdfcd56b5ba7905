"""The table of incidents: ranking, folding, filter fields and columns. Pure, without Textual."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skewscope.engine.advice.incident_words import describe_cause, format_location, format_where
from skewscope.engine.advice.steps import advised_steps
from skewscope.engine.model.incident import DIAGNOSIS, SEVERITIES, SYMPTOM, Incident
from skewscope.tui.render import charts, columns, detail, filter_query, units
from skewscope.tui.render.columns import Cell, ColumnWidths, TableColumn
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import Line, Span, cut_words, width

SUSPICION = "suspicion"
CATEGORIES = (DIAGNOSIS, SYMPTOM, SUSPICION)
"""What incidents are, the most certain first."""
MAX_GAP_RATIO = 1.5
"""Longest over shortest time between equal incidents that come regularly."""
MINUTES_FROM_S = 150.0
ACKNOWLEDGED = "acknowledged"
SILENCED = "silenced"
"""State of an incident that a controller's silence covers; `TriageState.actor` is the silence's id."""


@dataclass(frozen=True, slots=True)
class TriageState:
    """What an operator, or a silence of the controller, did with an incident."""

    state: str = ""
    """acknowledged, snoozed, silenced or ''."""
    actor: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """A row of the table; a row with `depth` > 0 follows the incident that explains it."""

    incident: Incident
    depth: int = 0
    folded: int = 0
    """Number of explained incidents that are not shown."""
    repeats: tuple[float, ...] = ()
    """When equal incidents at the same place opened, this one among them; () for a single one."""


def rank_incidents(
    incidents: Iterable[Incident], *, fold: bool = False, triage_states: Mapping[str, TriageState] | None = None
) -> list[IncidentRow]:
    """Rank incidents: the most urgent root first, then what it explains; snoozed incidents last."""
    snoozed = {id_ for id_, each in (triage_states or {}).items() if each.state == "snoozed"}
    order = sorted(incidents, key=lambda i: (i.id in snoozed, _urgency(i)))
    known, over = {i.id for i in order}, {i.id for i in order if i.state == "resolved"}
    children: dict[str, list[Incident]] = {}
    roots: list[Incident] = []
    for incident in order:
        parent = incident.root_id
        # What lasts longer than its cause needs attention of its own.
        is_left_over = parent in over and incident.state != "resolved"
        if parent in known and parent != incident.id and not is_left_over:
            children.setdefault(parent, []).append(incident)
        else:
            roots.append(incident)
    rows = [row for root in roots for row in _incident_tree(root, children, fold or root.id in snoozed)]
    if len(rows) == len(order):
        return rows
    seen = {row.incident.id for row in rows}
    # Incidents that explain each other have no root: show them at the end.
    rest = [] if fold else [IncidentRow(i) for i in order if i.id not in seen and not _is_snoozed_child(i, snoozed)]
    return rows + rest


def group_by_condition(rows: Iterable[IncidentRow]) -> list[IncidentRow]:
    """Reduce rows to the most urgent one per condition and state."""
    first: dict[tuple[str, bool], IncidentRow] = {}
    for row in rows:
        key = row.incident.condition, row.incident.state == "resolved"
        if key in first:
            first[key] = replace(first[key], folded=first[key].folded + row.folded + 1)
        else:
            first[key] = replace(row, depth=0)
    return list(first.values())


def fold_repeats(rows: Iterable[IncidentRow]) -> list[IncidentRow]:
    """Reduce incidents of one condition at one place to the first of them, each with the times of all.

    Those that explain others stay: what belongs to which of them would be lost.
    """
    rows = list(rows)
    parents = {row.incident.root_id for row in rows if row.depth}
    found: list[IncidentRow] = []
    place: dict[tuple[str, str, str, str], int] = {}
    for row in rows:
        one = row.incident
        if one.id in parents or row.folded:
            found.append(row)
            continue
        at = place.setdefault((one.condition, one.kind, one.name, one.root_id), len(found))
        if at == len(found):
            found.append(row)
        else:
            times = (*(found[at].repeats or (found[at].incident.began,)), one.began)
            found[at] = replace(found[at], repeats=times)
    return found


def format_repeats(times: Sequence[float]) -> str:
    """Returns `5× since 15:07:02, every 3 min`; without the period where it varies."""
    ordered = np.sort(np.array(times))
    since = f"{len(times)}× since {units.format_time(float(ordered[0]))}"
    gaps = np.diff(ordered)
    if len(gaps) < 2 or float(gaps.max()) > MAX_GAP_RATIO * max(float(gaps.min()), 1.0):
        return since
    return f"{since}, every {units.format_duration(_round_period(float(np.median(gaps))))}"


def _round_period(seconds: float) -> float:
    """Returns a period in whole minutes where it has some."""
    return 60.0 * round(seconds / 60.0) if seconds >= MINUTES_FROM_S else round(seconds)


def incident_category(incident: Incident) -> str:
    """Returns diagnosis, symptom, or suspicion for an unlikely diagnosis."""
    if incident.is_symptom:
        return SYMPTOM
    return DIAGNOSIS if incident.is_likely else SUSPICION


def _is_snoozed_child(incident: Incident, snoozed: set[str]) -> bool:
    return incident.root_id in snoozed


def _urgency(incident: Incident) -> tuple[bool, int, int, float, float, str]:
    share = incident.impact.change if incident.impact.unit == "1" else None
    hit = incident.blast_radius
    score = incident.confidence * (0.05 + abs(share or 0.0)) * max(hit.nodes + hit.groups + hit.replicas, 1)
    return (
        incident.state == "resolved",
        CATEGORIES.index(incident_category(incident)),
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

FILTER_EXAMPLE = "sev>=warning  sure>80  node:n2  state:firing  kind:symptom  for>5min  !text  ~letters  or"


def filter_table(
    incidents: Sequence[Incident], names: DisplayNames, triage_states: Mapping[str, TriageState], now: float
) -> filter_query.FilterTable:
    """Returns the filter fields of incidents."""

    def texts(get: Callable[[Incident], str]) -> Callable[[], list[str]]:
        return lambda: [get(i) for i in incidents]

    def numbers(get: Callable[[Incident], float]) -> Callable[[], np.ndarray]:
        return lambda: np.array([get(i) for i in incidents], np.float64)

    def state(incident: Incident) -> str:
        return f"{incident.state} {triage_states[incident.id].state if incident.id in triage_states else ''}"

    return filter_query.FilterTable(
        [_haystack(i, names) for i in incidents],
        {
            "node": texts(lambda i: " ".join((i.name, *i.also))),
            "kind": texts(lambda i: f"{i.kind} {incident_category(i)}"),
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


def _haystack(incident: Incident, names: DisplayNames) -> str:
    name = names.incident_name(incident)
    return " ".join((incident.id, incident.condition, name, format_location(incident), *incident.also)).lower()


# --- columns


def lost_nodes(incident: Incident) -> float:
    """Returns the share of its work that is lost times the nodes that it affects, at least one; 0 if not measured."""
    return (incident.impact.lost_share or 0.0) * max(incident.blast_radius.nodes, 1)


def largest_loss(rows: Iterable[IncidentRow]) -> float:
    """Returns the largest loss of all rows, 0 without any."""
    return max((lost_nodes(row.incident) for row in rows), default=0.0)


FACT = "fact"
"""In place of the confidence of a symptom: what was measured is so, whatever its cause."""
LOST_CELLS = 6
"""Columns of the bar of what is lost."""
COLUMNS = (
    TableColumn("mark", "", 1, 1, 0),
    TableColumn("condition", "what", 24, 72, 0, shrinkable=True),
    TableColumn("where", "where", 8, 44, 1, shrinkable=True, is_place=True),
    TableColumn("lost", "lost", LOST_CELLS, LOST_CELLS, 3, gives_way=True),
    TableColumn("impact", "cost", 8, 60, 3, shrinkable=True),
    TableColumn("since", "began", 8, 8, 2),
    TableColumn("for", "for", 8, 12, 5, align_right=True),
    TableColumn("sure", "conf", 5, 5, 2, align_right=True, gives_way=True),
    TableColumn("state", "state", 8, 14, 4),
    TableColumn("trend", "over time", 10, 16, 6),
    TableColumn("hit", "affects", 10, 40, 7),
    TableColumn("advice", "first advice", 16, 60, 8),
    TableColumn("flaps", "flaps", 5, 5, 9, align_right=True),
)
_WIDTH_SAMPLE = 200
TREND_WIDTH = 16
ROOMY = 100
"""Columns from which on a name has words beside it and a cost a bar; on fewer ones the words of a cost come first."""
_GIVEN_WIDTHS = {"trend": TREND_WIDTH, "advice": 32}
"""Widths of cells that take long to make."""


@dataclass(frozen=True)
class IncidentCellFormatter:
    """Formats the cells of incidents."""

    names: DisplayNames
    now: float
    triage_states: Mapping[str, TriageState]
    trend_text: Callable[[Incident], str] = lambda _incident: ""
    most_lost: float = 1.0
    """The largest loss of all rows, whose bar is full."""

    def lost_share(self, row: IncidentRow) -> float:
        """Returns what is lost by a row as a share of the largest loss."""
        return lost_nodes(row.incident) / self.most_lost if self.most_lost else 0.0

    def cell(self, row: IncidentRow, column: str, room: int | None = None) -> Cell:
        """Returns text and role of a cell, of a cost in the words that fit in `room` columns."""
        if column == "mark":
            # Below its cause a symptom needs no sign of its own.
            is_effect = row.depth and row.incident.is_symptom
            return (" ", "") if is_effect else detail.severity_glyph(row.incident)
        doubtful = incident_category(row.incident) == SUSPICION
        quiet = "dim" if row.depth or row.incident.state == "resolved" or doubtful else ""
        text = _CELL_TEXTS[column](self, row)
        if room is not None and width(text) > room:
            text = self._shorten(row, column, text, room)
        return text, "dim" if row.incident.id in self.triage_states else quiet

    def wanted_width(self, row: IncidentRow, column: str, *, tight: bool) -> int:
        """Returns the columns of a cell; where it is tight, those of a name without the words beside it."""
        name = column == "condition" and tight
        return width(self.condition_texts(row)[-1] if name else self.cell(row, column)[0])

    def _shorten(self, row: IncidentRow, column: str, text: str, room: int) -> str:
        """Returns a text with fewer words: as many as fit in `room` columns."""
        if column == "impact":
            return detail.shorten_impact(row.incident, text, room)
        if column == "condition":
            forms = self.condition_texts(row)
            return next((form for form in forms if width(form) <= room), cut_words(forms[-1], room))
        return text

    def condition_texts(self, row: IncidentRow) -> tuple[str, ...]:
        """Returns what goes wrong, how often and whether its cause is known, the longest text first."""
        incident = row.incident
        indent = "  " * min(row.depth - 1, 3) + "↳ " if row.depth else ""
        more = f"  {row.folded} more" if row.folded else ""
        name = indent + self.names.incident_name(incident) + more
        again = f"  {format_repeats(row.repeats)}" if row.repeats else ""
        count = f"  {len(row.repeats)}×" if row.repeats else ""
        cause = f" ({describe_cause(incident, self.names.catalogue)})" if _is_fact(row) else ""
        return tuple(dict.fromkeys((name + cause + again, name + again, name + count)))

    def state_text(self, incident: Incident) -> str:
        """Returns the state of an incident, or what was done with it."""
        triage_states = self.triage_states.get(incident.id)
        if triage_states is None:
            return detail.state_words(incident)
        if triage_states.state == SILENCED:
            return SILENCED
        if triage_states.until is None:
            return "acknowledged"
        return f"snoozed {units.format_short_duration(triage_states.until - self.now)}"


def _is_fact(row: IncidentRow) -> bool:
    """Returns whether a row is a symptom whose cause is no row above it."""
    return row.incident.is_symptom and not row.depth and not row.incident.explained_by


def _confidence_text(row: IncidentRow) -> str:
    if row.incident.is_symptom:
        return FACT if _is_fact(row) else ""
    return detail.format_confidence(row.incident)


def _advice_text(row: IncidentRow, names: DisplayNames) -> str:
    steps = advised_steps(row.incident, names.catalogue, names.topology)
    return steps[0].title if steps else ""


_CELL_TEXTS: Mapping[str, Callable[[IncidentCellFormatter, IncidentRow], str]] = {
    "condition": lambda cells, row: cells.condition_texts(row)[0],
    "where": lambda _, row: format_where(row.incident, detail.MAX_OTHERS),
    "lost": lambda cells, row: charts.bar(cells.lost_share(row), LOST_CELLS) if row.incident.impact.lost_share else "",
    "impact": lambda cells, row: detail.format_impact_short(row.incident, cells.names),
    "since": lambda _, row: units.format_time(min(row.repeats, default=row.incident.began)),
    "for": lambda cells, row: units.format_duration(detail.duration(row.incident, cells.now)),
    "sure": lambda _, row: _confidence_text(row),
    "state": lambda cells, row: cells.state_text(row.incident),
    "trend": lambda cells, row: cells.trend_text(row.incident),
    "hit": lambda _, row: detail.format_blast_radius(row.incident),
    "advice": lambda cells, row: _advice_text(row, cells.names),
    "flaps": lambda _, row: str(row.incident.flaps) if row.incident.flaps else "",
}


def column_widths(
    rows: Sequence[IncidentRow],
    cells: IncidentCellFormatter,
    total: int,
    hidden: Iterable[str] = (),
    *,
    wide: bool = False,
) -> ColumnWidths:
    """Returns the columns that fit, with their widths."""
    some = rows[:_WIDTH_SAMPLE]
    tight = total < ROOMY
    wanted = {
        c.id: _GIVEN_WIDTHS.get(c.id) or max((cells.wanted_width(row, c.id, tight=tight) for row in some), default=0)
        for c in COLUMNS
    }
    # A bar compares rows; on narrow screens the number of the cost needs its place.
    unshown = (*hidden, "lost") if tight and not wide else tuple(hidden)
    return columns.fit_columns(COLUMNS, wanted, total, unshown, wide=wide)


def row_line(row: IncidentRow, fitting: ColumnWidths, cells: IncidentCellFormatter) -> Line:
    """Returns a row as a line."""
    return columns.row_line(fitting, cell_reader(row, fitting, cells))


def cell_reader(row: IncidentRow, fitting: ColumnWidths, cells: IncidentCellFormatter) -> Callable[[str], Cell]:
    """Returns what gives the cells of a row in the columns that fit."""
    room = {column.id: size for column, size in fitting}
    return lambda column: cells.cell(row, column, room[column])


def bare_line(row: IncidentRow, cells: IncidentCellFormatter, gutter: Span = (" ", "")) -> Line:
    """Returns a row for narrow screens; the location comes first, since it differs most."""
    incident = row.incident
    name = cells.names.incident_name(incident)
    sure = cells.cell(row, "sure")[0]
    text = f"{sure:>5} {format_location(incident)}: {name}"
    return (cells.cell(row, "mark"), gutter, (text, cells.cell(row, "where")[1]))
