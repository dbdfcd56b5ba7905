"""Diagnoses, the first screen: the incidents with location, time, confidence, evidence and advice."""

from bisect import bisect_left
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.model.incident import Incident, IncidentEvidence
from skewscope.tui.console.screen_layout import ScreenLayout, small_layout
from skewscope.tui.console.screens.base import COPY_WIDTH, ScreenModel, placeholder_lines
from skewscope.tui.console.state import ConsoleState
from skewscope.tui.render import (
    charts,
    columns,
    drilldown,
    evidence_reading,
    evidence_series,
    incident_layout,
    incident_screen,
    incident_table,
    status,
    units,
)
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.evidence_value import SeriesReading
from skewscope.tui.render.filter_query import FilterTable
from skewscope.tui.render.incident_table import SILENCED, TriageState
from skewscope.tui.render.storm import Storm, build_storm, is_storm, storm_head_lines
from skewscope.tui.render.text import Line, Span, line, to_plain_text, wrap

FOLD_MESSAGES = (
    "equal incidents at one place are one row",
    "what other incidents explain is folded",
    "one row per condition",
    "all incidents shown",
)
UNFOLDED = 3
TRIAGE_SIGNS = {"acknowledged": "a", "snoozed": "n", SILENCED: "s"}
"""Signs beside an incident by what was done with it."""
FOLDS = (incident_table.fold_repeats, incident_table.fold_repeats, incident_table.group_by_condition, list)
STORM_FOLD = 2
"""How a storm is folded: one row per condition."""
STORM_ROWS = 3
"""Lines of a list up to which it has no head."""
SPARKLINE_WIDTH = 12
TALL_LINES = 40
"""Lines of a screen on which the list may take more than a quarter."""


class DiagnosesModel(ScreenModel):
    """Ranked incidents; root causes first, each followed by the incidents that it explains."""

    name = "diagnoses"
    number = 1
    pane_title: ClassVar[str] = "incident"
    filter_example: ClassVar[str] = incident_table.FILTER_EXAMPLE

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(state)
        self.rows: list[incident_table.IncidentRow] = []
        self.expressions = False
        self.fold_level = 0
        """Index of FOLD_MESSAGES."""
        self.is_fold_chosen = False
        """Whether the user chose how rows are folded; until then a storm is folded by condition."""
        self.storm: Storm | None = None
        """The open incidents by cause, where they are many."""
        self.incidents: tuple[Incident, ...] = ()
        self.triage_states: Mapping[str, TriageState] = {}
        self.cell_formatter = incident_table.IncidentCellFormatter(state.names, 0.0, {})
        self._series_cache: dict[tuple[str, str], evidence_series.EvidenceSeries | None] = {}
        self._snapshot_cache: dict[str, ViewSnapshot] = {}
        self.marked_ids: set[str] = set()
        """Ids of the marked incidents."""

    @property
    def marked_incidents(self) -> tuple[Incident, ...]:
        """The marked incidents that the list contains."""
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
        """Rank the incidents that are in scope and pass the filter."""
        state = self.state
        self.incidents = state.incidents()
        self.triage_states = state.triage_at_controller | state.operator_log.triage_states(self.incidents, state.now)
        self._series_cache, self._snapshot_cache = {}, {}
        kept = [self.incidents[n] for n in self.filtered_rows()]
        self.storm = build_storm(kept) if is_storm(kept) else None
        if not self.is_fold_chosen:
            self.fold_level = STORM_FOLD if self.storm else 0
        fold = 0 < self.fold_level < UNFOLDED
        rows = incident_table.rank_incidents(kept, fold=fold, triage_states=self.triage_states)
        self.rows = FOLDS[self.fold_level](rows)
        self.count = len(self.rows)
        self.cell_formatter = incident_table.IncidentCellFormatter(
            state.names, state.now, self.triage_states, self._trend_sparkline, incident_table.largest_loss(self.rows)
        )

    def identity(self, at: int) -> Hashable:
        """Returns the incident's id."""
        return self.rows[at].incident.id if at < len(self.rows) else None

    def filter_table(self) -> FilterTable:
        """Returns the filter fields of incidents."""
        return incident_table.filter_table(self.incidents, self.state.names, self.triage_states, self.state.now)

    def layout(self, columns_: int, lines: int) -> ScreenLayout:
        """Returns the list above the pane: no taller than its rows, and less than half of the screen."""
        if tight := small_layout(columns_, lines):
            return tight
        share = (lines - 4) // 4 if lines < TALL_LINES else (lines - 4) * 2 // 5
        head = 3 if self.storm else 1
        return ScreenLayout("full", list_size=min(max(self.count + head, 3), share))

    # --- the list

    def header(self, columns_: int, rows: int) -> list[Line]:
        """Returns the titles and the filter in force, or why the list is empty."""
        if not self.count and not self.filter:
            return self._empty_lines(columns_)
        self.widths = incident_table.column_widths(self.rows, self.cell_formatter, columns_ - 1, wide=self.wide)
        chip = status.filter_lines(self.filter, self.filter_error, (self.count, self.total), columns_)
        titles = [columns.title_line(self.widths)] if rows > 2 and self.count else []
        head = storm_head_lines(self.storm, columns_) if self.storm and rows > STORM_ROWS else []
        return [*head, *titles, *chip]

    def _empty_lines(self, columns_: int) -> list[Line]:
        state = self.state
        if state.snapshot is None:
            return []
        if state.progress is not None:
            return status.sentence_lines(f"No incident yet: {state.reading} of the data.", "info", columns_)
        return self._quiet_lines(state.snapshot, columns_)

    def _quiet_lines(self, snapshot: ViewSnapshot, columns_: int) -> list[Line]:
        """Returns why there is no incident in all the data."""
        state = self.state
        if state.scope.name and snapshot.incidents:
            return placeholder_lines(f"No incident on {state.scope.name}; esc shows the whole fleet.")
        if not state.feed.live and not state.player.is_at_end:
            return placeholder_lines("No incident up to this time.")
        sources = snapshot.sources
        if not snapshot.topology.nodes:
            return status.sentence_lines("The topology has no nodes.", "warn", columns_)
        if not snapshot.delivered_signals or (sources and all(s.age_s is None for s in sources)):
            return status.sentence_lines(
                "No telemetry received, so nothing is known; s lists the sources.", "warn", columns_
            )
        from skewscope.tui.render import report  # noqa: PLC0415 - only where there is nothing to tell

        quiet = report.quiet_sentence(len(snapshot.delivered_signals), sources)
        return status.sentence_lines(quiet[0].upper() + quiet[1:], "ok", columns_)

    def row(self, at: int) -> Line:
        """Returns an incident as a line."""
        return columns.row_line(
            self.widths,
            incident_table.cell_reader(self.rows[at], self.widths, self.cell_formatter),
            self._gutter(at),
        )

    def compact_row(self, at: int) -> Line:
        """Returns an incident for narrow screens."""
        return incident_table.bare_line(self.rows[at], self.cell_formatter, self._gutter(at))

    def _gutter(self, at: int) -> Span:
        id_ = self.rows[at].incident.id
        if id_ in self.marked_ids:
            return "*", "key"
        triage = self.triage_states.get(id_)
        return (TRIAGE_SIGNS[triage.state], "key") if triage else (" ", "")

    # --- the pane

    def pane(self, columns_: int, rows: int) -> list[Line]:
        """Returns what is seen, alternatives, advice, what would decide, and relations."""
        chosen, self.state.columns = self.selected_incident, columns_
        if chosen is None:
            return self._healthy_lines(columns_)
        triage = [*self._triage_lines(chosen, columns_), *self._again_lines(columns_)]
        about = self._context(chosen)
        return [*triage, *incident_screen.screen_lines(about, columns_, rows - len(triage))] if about else triage

    def full_pane(self, columns_: int, rows: int) -> list[Line]:
        """Returns the drill-down: the short form, evidence over time, rule terms, causal chain, history, sources."""
        chosen = self.selected_incident
        about = self._context(chosen) if chosen else None
        if chosen is None or about is None:
            return []
        return [*self._triage_lines(chosen, columns_), *drilldown.drilldown_lines(about, columns_, rows)]

    def _context(self, chosen: Incident) -> drilldown.DrilldownContext | None:
        snapshot = self.state.snapshot
        if snapshot is None:
            return None
        return drilldown.DrilldownContext(
            chosen, snapshot, self._names, self.state.node_lookup, self.state.ascii, self.expressions
        )

    @property
    def _names(self) -> DisplayNames:
        return replace(self.state.names, read_series=self._read_series)

    def _triage_lines(self, chosen: Incident, columns_: int) -> list[Line]:
        """Returns who acknowledged, snoozed or silenced the incident, and until when."""
        triage = self.triage_states.get(chosen.id)
        if triage is None:
            return []
        if triage.state == SILENCED:
            return wrap(line(f"silenced by {triage.actor}: no notifications are sent", "info"), columns_)
        until = f" until {units.format_time(triage.until)} UTC" if triage.until is not None else ""
        return wrap(line(f"{triage.state} by {triage.actor}{until}; a undoes it", "info"), columns_)

    def _again_lines(self, columns_: int) -> list[Line]:
        """Returns how often the incident came, where its row stands for equal ones, and which of them is shown."""
        row = self.rows[self.cursor]
        if not row.repeats:
            return []
        shown = units.format_time(row.incident.began)
        again = f"{incident_table.format_repeats(row.repeats)}; below, that of {shown}"
        return wrap(line(again, "info"), columns_)

    def _healthy_lines(self, columns_: int) -> list[Line]:
        """Returns what is observed, shown when there is no incident."""
        from skewscope.tui.render import report  # noqa: PLC0415 - only where there is nothing to tell

        snapshot = self.state.snapshot
        if snapshot is None:
            return []
        watched = report.snapshot_summary(snapshot)
        return [
            *wrap(line(watched), columns_),
            *report.missing_data_lines(snapshot.missing, snapshot.sources, columns_),
        ]

    def _snapshot_of(self, incident: Incident) -> ViewSnapshot | None:
        """Returns the current snapshot; for a resolved incident with the signals of its last moment."""
        snapshot = self.state.snapshot
        if snapshot is None or incident.resolved_at is None:
            return snapshot
        if incident.id not in self._snapshot_cache:
            self._snapshot_cache[incident.id] = replace(snapshot, signals=snapshot.signals.as_of(incident.resolved_at))
        return self._snapshot_cache[incident.id]

    def _series_of(self, incident: Incident, item: IncidentEvidence) -> evidence_series.EvidenceSeries | None:
        key, snapshot = (incident.id, item.name), self._snapshot_of(incident)
        if key not in self._series_cache and snapshot is not None:
            self._series_cache[key] = evidence_series.find_series(item, incident, snapshot, self.state.node_lookup)
        return self._series_cache.get(key)

    def _read_series(self, incident: Incident, item: IncidentEvidence) -> SeriesReading | None:
        """Returns what the series of an evidence item shows at its peak, and its sparkline."""
        cells = SPARKLINE_WIDTH if self.state.columns >= 100 else SPARKLINE_WIDTH - 4
        snapshot, one = self._snapshot_of(incident), self._series_of(incident, item)
        if snapshot is None or one is None:
            return None
        text = evidence_reading.compare_at_peak(item, incident, one, snapshot)
        return SeriesReading(text, self._sparkline(incident, snapshot, one, cells))

    def _sparkline(
        self, incident: Incident, snapshot: ViewSnapshot, one: evidence_series.EvidenceSeries, cells: int
    ) -> str:
        """Returns the sparkline of a series from shortly before the incident on."""
        begin = bisect_left(
            snapshot.signals.frames, incident.opened_at - evidence_reading.LEAD_TIME_S, key=lambda frame: frame.time
        )
        values = one.own_values(snapshot, max(len(snapshot.signals.frames) - begin, 1))
        some = np.linspace(0, len(values) - 1, min(cells, len(values))).round().astype(int)
        return charts.sparkline(values[some], cells)

    def _trend_sparkline(self, incident: Incident) -> str:
        snapshot = self._snapshot_of(incident)
        for item in incident.evidence:
            if item.verdict == "yes" and snapshot is not None and (one := self._series_of(incident, item)):
                return self._sparkline(incident, snapshot, one, incident_table.TREND_WIDTH)
        return ""

    # --- commands

    def do_next(self, arg: int) -> None:
        """Move to the next incident that nothing explains, or to the one before."""
        roots = [at for at, row in enumerate(self.rows) if not row.depth]
        ahead = (
            [at for at in roots if at > self.cursor] if arg > 0 else [at for at in reversed(roots) if at < self.cursor]
        )
        if ahead:
            self.cursor, self.cursor_moved = ahead[0], True
        else:
            self.state.show_message("no further incident", False)

    def select_incident(self, id_: str) -> None:
        """Move to an incident, if it is listed."""
        at = next((n for n, row in enumerate(self.rows) if row.incident.id == id_), None)
        if at is not None:
            self.cursor, self.cursor_moved = at, True

    def do_fold(self, _arg: int) -> None:
        """Fold explained incidents, then all of one condition, then unfold also equal ones."""
        self.fold_level, self.is_fold_chosen = (self.fold_level + 1) % len(FOLDS), True
        self.state.show_message(FOLD_MESSAGES[self.fold_level], False)
        self.renew()

    def do_expressions(self, _arg: int) -> None:
        """Show the evidence by its expressions, or in words again."""
        self.expressions = not self.expressions

    def do_mark(self, arg: int) -> None:
        """Mark or unmark the incident under the cursor, or all incidents if `arg` is 1."""
        here = {self.selected_incident.id} if self.selected_incident else set()
        if arg:
            here = {row.incident.id for row in self.rows}
        self.marked_ids = self.marked_ids - here if here <= self.marked_ids else self.marked_ids | here
        count = len(self.marked_incidents)
        self.state.show_message(
            f"{count} marked; a, n and y apply to all of them" if count else "no incident is marked", False
        )
        if not arg and self.cursor < self.count - 1 and not self.zoomed:
            self.cursor, self.cursor_moved = self.cursor + 1, True

    def do_back(self, arg: int) -> None:
        """Close the detail, then clear the marks, then as on every screen."""
        if self.marked_ids and not self.zoomed:
            self.marked_ids.clear()
        else:
            super().do_back(arg)

    @property
    def _selection(self) -> tuple[Incident, ...]:
        return self.marked_incidents or ((self.selected_incident,) if self.selected_incident else ())

    def as_text(self) -> str:
        """Returns the full text of the selected incidents."""
        parts = (
            incident_layout.full_lines(one, self.state.names, self.state.now, COPY_WIDTH) for one in self._selection
        )
        return "\n".join(to_plain_text(lines) for lines in parts)

    def as_json(self) -> str:
        """Returns the selected incidents as JSON, one line each."""
        return "\n".join(one.as_line() for one in self._selection)
