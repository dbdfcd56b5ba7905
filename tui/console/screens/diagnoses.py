"""Diagnoses, the first screen: what is wrong, where, since when, how sure, why, and what to do."""

from bisect import bisect_left
from collections.abc import Hashable, Mapping
from dataclasses import replace
from math import isfinite
from typing import ClassVar

import numpy as np

from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.model.incident import Incident, IncidentEvidence
from skewscope.tui.console.operator_log import SILENCED, TriageState
from skewscope.tui.console.screens.base import COPY_WIDTH, ScreenModel, placeholder_lines
from skewscope.tui.console.state import ConsoleState
from skewscope.tui.render import charts, columns, detail, drilldown, evidence_series, incident_table, status, units
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.filter_query import FilterTable
from skewscope.tui.render.text import Line, Span, line, to_plain_text, wrap

FOLD_MESSAGES = ("everything is shown", "what is explained is folded", "one row for each condition")
SPARKLINE_WIDTH = 12
LEAD_TIME_S = 15.0
"""Seconds before an incident that its curves begin."""


class DiagnosesModel(ScreenModel):
    """Ranked incidents; roots first, with what they explain under them."""

    name = "diagnoses"
    number = 1
    filter_example: ClassVar[str] = incident_table.FILTER_EXAMPLE

    def __init__(self, desk: ConsoleState) -> None:
        super().__init__(desk)
        self.rows: list[incident_table.IncidentRow] = []
        self.fold_level = 0
        """0: all are shown; 1: what is explained is folded; 2: one row for each condition as well."""
        self.incidents: tuple[Incident, ...] = ()
        self.triage_states: Mapping[str, TriageState] = {}
        self.cell_formatter = incident_table.IncidentCellFormatter(desk.names, 0.0, {})
        self._series_cache: dict[tuple[str, str], evidence_series.EvidenceSeries | None] = {}
        self._snapshot_cache: dict[str, ViewSnapshot] = {}
        self.marked_ids: set[str] = set()
        """Ids of what is marked."""

    @property
    def marked_incidents(self) -> tuple[Incident, ...]:
        """What is marked and in the list."""
        return tuple(row.incident for row in self.rows if row.incident.id in self.marked_ids)

    @property
    def selected_incident(self) -> Incident | None:
        """The incident under the cursor."""
        return self.rows[self.cursor].incident if self.cursor < len(self.rows) else None

    @property
    def subject(self) -> str:
        """The condition under the cursor."""
        return self.selected_incident.condition if self.selected_incident else ""

    def collect_rows(self) -> None:
        """Rank what is in scope and kept."""
        desk = self.state
        self.incidents = desk.incidents()
        hidden = desk.snapshot.silenced if desk.snapshot else {}
        silenced = {id_: TriageState(SILENCED, silence) for id_, silence in hidden.items()}
        self.triage_states = silenced | desk.operator_log.triage_states(self.incidents, desk.now)
        self._series_cache, self._snapshot_cache = {}, {}
        kept = [self.incidents[n] for n in self.filtered_rows()]
        rows = incident_table.rank_incidents(kept, fold=self.fold_level > 0, standing=self.triage_states)
        self.rows = incident_table.group_by_condition(rows) if self.fold_level > 1 else rows
        self.count = len(self.rows)
        self.cell_formatter = incident_table.IncidentCellFormatter(
            desk.names, desk.now, self.triage_states, self._trend_sparkline
        )

    def identity(self, at: int) -> Hashable:
        """The incident's id."""
        return self.rows[at].incident.id if at < len(self.rows) else None

    def filter_table(self) -> FilterTable:
        """What a filter can ask."""
        return incident_table.filter_table(self.incidents, self.state.names, self.triage_states, self.state.now)

    # --- the list

    def header(self, columns_: int, rows: int) -> list[Line]:
        """Titles and the filter in force; or why there is nothing."""
        if not self.count and not self.filter:
            return self._empty_lines(columns_)
        self.widths = incident_table.column_widths(self.rows, self.cell_formatter, columns_ - 1, wide=self.wide)
        chip = status.filter_lines(self.filter, self.filter_error, (self.count, self.total), columns_)
        titles = [columns.title_line(self.widths)] if rows > 2 and self.count else []
        return [*titles, *chip]

    def _empty_lines(self, columns_: int) -> list[Line]:
        desk = self.state
        if desk.snapshot is None:
            return []
        if desk.scope.name and desk.snapshot.incidents:
            return placeholder_lines(f"Nothing is wrong on {desk.scope.name}; esc shows the whole fleet.")
        if not desk.feed.live and not desk.player.is_at_end:
            return placeholder_lines("Nothing had been found yet at this time.")
        sources = desk.snapshot.sources
        if not desk.snapshot.topology.nodes:
            return status.sentence_lines("The topology names no nodes: there is nothing to watch.", "warn", columns_)
        if not desk.snapshot.delivered_signals or (sources and all(s.age_s is None for s in sources)):
            return status.sentence_lines(
                "Nothing could be watched, so nothing is known. s tells who is silent.", "warn", columns_
            )
        return status.sentence_lines("Nothing is wrong in what could be seen.", "ok", columns_)

    def row(self, at: int) -> Line:
        """One incident."""
        return columns.row_line(
            self.widths, lambda column: self.cell_formatter.cell(self.rows[at], column), self._gutter(at)
        )

    def compact_row(self, at: int) -> Line:
        """One incident where there is no room."""
        return incident_table.bare_line(self.rows[at], self.cell_formatter, self._gutter(at))

    def _gutter(self, at: int) -> Span:
        return ("*", "key") if self.rows[at].incident.id in self.marked_ids else (" ", "")

    # --- the pane

    def pane(self, columns_: int, rows: int) -> list[Line]:
        """Why, why not, what competes, what cannot be seen, what to do."""
        chosen, self.state.columns = self.selected_incident, columns_
        if chosen is None:
            return self._healthy_lines(columns_)
        words = replace(self.state.names, draw_series=self._draw_series)
        return [
            *self._triage_lines(chosen, columns_),
            *detail.best_fit_lines(chosen, words, self.state.now, columns_, rows),
        ]

    def full_pane(self, columns_: int, rows: int) -> list[Line]:
        """The detail: evidence over time, the chain, the rule as it was evaluated, history, sources."""
        chosen, scene = self.selected_incident, self.state.snapshot
        if chosen is None or scene is None:
            return []
        about = drilldown.DrilldownContext(chosen, scene, self._names, self.state.node_lookup, self.state.ascii)
        return [*self._triage_lines(chosen, columns_), *drilldown.drilldown_lines(about, columns_, rows)]

    @property
    def _names(self) -> DisplayNames:
        return replace(self.state.names, draw_series=self._draw_series)

    def _triage_lines(self, chosen: Incident, columns_: int) -> list[Line]:
        """Acknowledged or snoozed, by whom, until when."""
        standing = self.triage_states.get(chosen.id)
        if standing is None:
            return []
        if standing.state == SILENCED:
            return wrap(line(f"silenced by {standing.actor}: nobody else is told", "info"), columns_)
        until = f" until {units.format_time(standing.until)} UTC" if standing.until is not None else ""
        return wrap(line(f"{standing.state} by {standing.actor}{until}; a takes that back", "info"), columns_)

    def _healthy_lines(self, columns_: int) -> list[Line]:
        """What is watched, where nothing is wrong."""
        from skewscope.tui.render import report  # noqa: PLC0415 - only where there is nothing to tell

        scene = self.state.snapshot
        if scene is None:
            return []
        watched = (
            f"Watched {report.fleet_summary(scene.topology)} for {units.format_duration(scene.time - scene.start)}."
        )
        return [*wrap(line(watched), columns_), *report.unseen_lines(scene.missing, scene.sources, columns_)]

    def _snapshot_of(self, incident: Incident) -> ViewSnapshot | None:
        """The scene on show; for what is over, its signals as they were while it lasted."""
        scene = self.state.snapshot
        if scene is None or incident.resolved_at is None:
            return scene
        if incident.id not in self._snapshot_cache:
            self._snapshot_cache[incident.id] = replace(scene, signals=scene.signals.as_of(incident.resolved_at))
        return self._snapshot_cache[incident.id]

    def _series_of(self, incident: Incident, item: IncidentEvidence) -> evidence_series.EvidenceSeries | None:
        key, scene = (incident.id, item.name), self._snapshot_of(incident)
        if key not in self._series_cache and scene is not None:
            self._series_cache[key] = evidence_series.find_series(item, incident, scene, self.state.node_lookup)
        return self._series_cache.get(key)

    def _draw_series(self, incident: Incident, item: IncidentEvidence) -> Line:
        """The series behind an item: its curve, and how far it is from its peers."""
        cells = SPARKLINE_WIDTH if self.state.columns >= 100 else SPARKLINE_WIDTH - 4
        scene, one = self._snapshot_of(incident), self._series_of(incident, item)
        if scene is None or one is None:
            return ((" " * (cells + 2), ""),)
        spans: list[Span] = [(self._sparkline(incident, scene, one, cells), "info"), ("  ", "")]
        return (*spans, *peer_comparison(scene, one.row))

    def _sparkline(
        self, incident: Incident, scene: ViewSnapshot, one: evidence_series.EvidenceSeries, cells: int
    ) -> str:
        """A series from a while before the incident on, as far as it went."""
        begin = bisect_left(scene.signals.frames, incident.opened_at - LEAD_TIME_S, key=lambda frame: frame.time)
        values = one.own_values(scene, max(len(scene.signals.frames) - begin, 1))
        some = np.linspace(0, len(values) - 1, min(cells, len(values))).round().astype(int)
        return charts.sparkline(values[some], cells)

    def _trend_sparkline(self, incident: Incident) -> str:
        scene = self._snapshot_of(incident)
        for item in incident.evidence:
            if item.verdict == "yes" and scene is not None and (one := self._series_of(incident, item)):
                return self._sparkline(incident, scene, one, incident_table.TREND_WIDTH)
        return ""

    # --- verbs

    def do_fold(self, _arg: int) -> None:
        """Fold what a diagnosis explains, then all of one condition, then show everything again."""
        self.fold_level = (self.fold_level + 1) % 3
        self.state.show_message(FOLD_MESSAGES[self.fold_level], False)
        self.renew()

    def do_mark(self, arg: int) -> None:
        """Mark the incident under the cursor, or with 1 all that are shown; and take that back."""
        here = {self.selected_incident.id} if self.selected_incident else set()
        if arg:
            here = {row.incident.id for row in self.rows}
        self.marked_ids = self.marked_ids - here if here <= self.marked_ids else self.marked_ids | here
        count = len(self.marked_incidents)
        self.state.show_message(
            f"{count} marked: a, n and y are about all of them" if count else "nothing is marked", False
        )
        if not arg and self.cursor < self.count - 1 and not self.zoomed:
            self.cursor, self.cursor_moved = self.cursor + 1, True

    def do_back(self, arg: int) -> None:
        """Out of the detail; then marks are taken back; then the rest."""
        if self.marked_ids and not self.zoomed:
            self.marked_ids.clear()
        else:
            super().do_back(arg)

    @property
    def _selection(self) -> tuple[Incident, ...]:
        return self.marked_incidents or ((self.selected_incident,) if self.selected_incident else ())

    def as_text(self) -> str:
        """All that is known of the incident, or of those that are marked."""
        parts = (detail.full_lines(one, self.state.names, self.state.now, COPY_WIDTH) for one in self._selection)
        return "\n".join(to_plain_text(lines) for lines in parts)

    def as_json(self) -> str:
        """The incident as the contract has it, a line each where some are marked."""
        return "\n".join(one.as_line() for one in self._selection)


def peer_comparison(scene: ViewSnapshot, row: int) -> Line:
    """`+12.3σ of peers` or `+4σ of its past`, with what the peers have."""
    signals = scene.signals
    one = signals.series_index.series[row]
    share = units.is_share(one.signal)
    other, own = float(signals.peer_z[row]), float(signals.own_z[row])
    peers, usual = float(signals.latest.peer_median[row]), float(signals.latest.baseline[row])
    if np.isfinite(other) and (not np.isfinite(own) or abs(other) >= abs(own)):
        return ((f"{format_deviation(other)} peers {units.format_brief(peers, one.unit, share=share)}  ", ""),)
    if np.isfinite(own):
        return ((f"{format_deviation(own)} usually {units.format_brief(usual, one.unit, share=share)}  ", ""),)
    return ()


def format_deviation(z: float) -> str:
    """A deviation: `+12σ`; what is beyond a hundred is that."""
    if not isfinite(z):
        return ""
    sign = "−" if z < 0 else "+"
    return f"{sign}{abs(z):.1f}σ" if abs(z) < 10 else f"{sign}{min(abs(z), 99):.0f}σ"
