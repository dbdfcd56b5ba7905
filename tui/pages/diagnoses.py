"""Diagnoses, the first screen: what is wrong, where, since when, how sure, why, and what to do."""

from bisect import bisect_left
from collections.abc import Hashable, Mapping
from dataclasses import replace
from math import isfinite
from typing import ClassVar

import numpy as np

from skewscope.adapters.scene import Scene
from skewscope.engine.incident import Evidence, Incident
from skewscope.tui import columns, deep, detail, evidence, pictures, status, units, view
from skewscope.tui.desk import Desk
from skewscope.tui.detail import Words
from skewscope.tui.ledger import SILENCED, Standing
from skewscope.tui.pages.base import COPIED, Page, waiting
from skewscope.tui.query import Table
from skewscope.tui.text import Line, Span, line, plain, wrap

FOLDS = ("everything is shown", "what is explained is folded", "one row for each condition")
SPARK = 12
BEFORE_S = 15.0
"""Seconds before an incident that its curves begin."""


class Diagnoses(Page):
    """Ranked incidents; roots first, with what they explain under them."""

    name = "diagnoses"
    number = 1
    fields: ClassVar[str] = view.FIELDS

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.rows: list[view.Row] = []
        self.folded = 0
        """0: all are shown; 1: what is explained is folded; 2: one row for each condition as well."""
        self.incidents: tuple[Incident, ...] = ()
        self.standing: Mapping[str, Standing] = {}
        self.cells = view.Cells(desk.words, 0.0, {})
        self._traces: dict[tuple[str, str], evidence.Trace | None] = {}
        self._thens: dict[str, Scene] = {}
        self.marks: set[str] = set()
        """Ids of what is marked."""

    @property
    def marked(self) -> tuple[Incident, ...]:
        """What is marked and in the list."""
        return tuple(row.incident for row in self.rows if row.incident.id in self.marks)

    @property
    def selected(self) -> Incident | None:
        """The incident under the cursor."""
        return self.rows[self.cursor].incident if self.cursor < len(self.rows) else None

    @property
    def subject(self) -> str:
        """The condition under the cursor."""
        return self.selected.condition if self.selected else ""

    def collect(self) -> None:
        """Rank what is in scope and kept."""
        desk = self.desk
        self.incidents = desk.incidents()
        hidden = desk.scene.silenced if desk.scene else {}
        silenced = {id_: Standing(SILENCED, silence) for id_, silence in hidden.items()}
        self.standing = silenced | desk.ledger.standings(self.incidents, desk.now)
        self._traces, self._thens = {}, {}
        kept = [self.incidents[n] for n in self.kept()]
        rows = view.ranked(kept, fold=self.folded > 0, standing=self.standing)
        self.rows = view.by_condition(rows) if self.folded > 1 else rows
        self.count = len(self.rows)
        self.cells = view.Cells(desk.words, desk.now, self.standing, self._trend)

    def identity(self, at: int) -> Hashable:
        """The incident's id."""
        return self.rows[at].incident.id if at < len(self.rows) else None

    def table(self) -> Table:
        """What a filter can ask."""
        return view.table(self.incidents, self.desk.words, self.standing, self.desk.now)

    # --- the list

    def header(self, columns_: int, rows: int) -> list[Line]:
        """Titles and the filter in force; or why there is nothing."""
        if not self.count and not self.filter:
            return self._nothing(columns_)
        self.widths = view.widths(self.rows, self.cells, columns_ - 1, wide=self.wide)
        chip = status.chip(self.filter, self.fault, (self.count, self.total), columns_)
        titles = [columns.titles(self.widths)] if rows > 2 and self.count else []
        return [*titles, *chip]

    def _nothing(self, columns_: int) -> list[Line]:
        desk = self.desk
        if desk.scene is None:
            return []
        if desk.scope.name and desk.scene.incidents:
            return waiting(f"Nothing is wrong on {desk.scope.name}; esc shows the whole fleet.")
        if not desk.feed.live and not desk.player.ended:
            return waiting("Nothing had been found yet at this time.")
        sources = desk.scene.sources
        if not desk.scene.topology.nodes:
            return status.sentence("The topology names no nodes: there is nothing to watch.", "warn", columns_)
        if not desk.scene.delivered or (sources and all(s.age_s is None for s in sources)):
            return status.sentence(
                "Nothing could be watched, so nothing is known. s tells who is silent.", "warn", columns_
            )
        return status.sentence("Nothing is wrong in what could be seen.", "ok", columns_)

    def row(self, at: int) -> Line:
        """One incident."""
        return columns.row(self.widths, lambda column: self.cells.cell(self.rows[at], column), self._gutter(at))

    def bare(self, at: int) -> Line:
        """One incident where there is no room."""
        return view.bare_line(self.rows[at], self.cells, self._gutter(at))

    def _gutter(self, at: int) -> Span:
        return ("*", "key") if self.rows[at].incident.id in self.marks else (" ", "")

    # --- the pane

    def pane(self, columns_: int, rows: int) -> list[Line]:
        """Why, why not, what competes, what cannot be seen, what to do."""
        chosen, self.desk.columns = self.selected, columns_
        if chosen is None:
            return self._watched(columns_)
        words = replace(self.desk.words, draw=self._drawn)
        return [*self._stands(chosen, columns_), *detail.best(chosen, words, self.desk.now, columns_, rows)]

    def whole(self, columns_: int, rows: int) -> list[Line]:
        """The detail: evidence over time, the chain, the rule as it was evaluated, history, sources."""
        chosen, scene = self.selected, self.desk.scene
        if chosen is None or scene is None:
            return []
        about = deep.About(chosen, scene, self._words, self.desk.where, self.desk.ascii)
        return [*self._stands(chosen, columns_), *deep.lines(about, columns_, rows)]

    @property
    def _words(self) -> Words:
        return replace(self.desk.words, draw=self._drawn)

    def _stands(self, chosen: Incident, columns_: int) -> list[Line]:
        """Acknowledged or snoozed, by whom, until when."""
        standing = self.standing.get(chosen.id)
        if standing is None:
            return []
        if standing.state == SILENCED:
            return wrap(line(f"silenced by {standing.who}: nobody else is told", "info"), columns_)
        until = f" until {units.clock(standing.until)} UTC" if standing.until is not None else ""
        return wrap(line(f"{standing.state} by {standing.who}{until}; a takes that back", "info"), columns_)

    def _watched(self, columns_: int) -> list[Line]:
        """What is watched, where nothing is wrong."""
        from skewscope.tui import report  # noqa: PLC0415 - only where there is nothing to tell

        scene = self.desk.scene
        if scene is None:
            return []
        watched = f"Watched {report.fleet(scene.topology)} for {units.seconds(scene.time - scene.start)}."
        return [*wrap(line(watched), columns_), *report.unseen(scene.missing, scene.sources, columns_)]

    def _then(self, incident: Incident) -> Scene | None:
        """The scene on show; for what is over, its signals as they were while it lasted."""
        scene = self.desk.scene
        if scene is None or incident.resolved_at is None:
            return scene
        if incident.id not in self._thens:
            self._thens[incident.id] = replace(scene, signals=scene.signals.until(incident.resolved_at))
        return self._thens[incident.id]

    def _trace(self, incident: Incident, item: Evidence) -> evidence.Trace | None:
        key, scene = (incident.id, item.name), self._then(incident)
        if key not in self._traces and scene is not None:
            self._traces[key] = evidence.trace(item, incident, scene, self.desk.where)
        return self._traces.get(key)

    def _drawn(self, incident: Incident, item: Evidence) -> Line:
        """The series behind an item: its curve, and how far it is from its peers."""
        cells = SPARK if self.desk.columns >= 100 else SPARK - 4
        scene, one = self._then(incident), self._trace(incident, item)
        if scene is None or one is None:
            return ((" " * (cells + 2), ""),)
        spans: list[Span] = [(self._curve(incident, scene, one, cells), "info"), ("  ", "")]
        return (*spans, *beside_peers(scene, one.row))

    def _curve(self, incident: Incident, scene: Scene, one: evidence.Trace, cells: int) -> str:
        """A series from a while before the incident on, as far as it went."""
        begin = bisect_left(scene.signals.frames, incident.opened_at - BEFORE_S, key=lambda frame: frame.time)
        values = one.own(scene, max(len(scene.signals.frames) - begin, 1))
        some = np.linspace(0, len(values) - 1, min(cells, len(values))).round().astype(int)
        return pictures.sparkline(values[some], cells)

    def _trend(self, incident: Incident) -> str:
        scene = self._then(incident)
        for item in incident.evidence:
            if item.verdict == "yes" and scene is not None and (one := self._trace(incident, item)):
                return self._curve(incident, scene, one, view.TREND)
        return ""

    # --- verbs

    def do_fold(self, _arg: int) -> None:
        """Fold what a diagnosis explains, then all of one condition, then show everything again."""
        self.folded = (self.folded + 1) % 3
        self.desk.tell(FOLDS[self.folded], False)
        self.renew()

    def do_mark(self, arg: int) -> None:
        """Mark the incident under the cursor, or with 1 all that are shown; and take that back."""
        here = {self.selected.id} if self.selected else set()
        if arg:
            here = {row.incident.id for row in self.rows}
        self.marks = self.marks - here if here <= self.marks else self.marks | here
        count = len(self.marked)
        self.desk.tell(f"{count} marked: a, n and y are about all of them" if count else "nothing is marked", False)
        if not arg and self.cursor < self.count - 1 and not self.zoomed:
            self.cursor, self.touched = self.cursor + 1, True

    def do_leave(self, arg: int) -> None:
        """Out of the detail; then marks are taken back; then the rest."""
        if self.marks and not self.zoomed:
            self.marks.clear()
        else:
            super().do_leave(arg)

    @property
    def _chosen(self) -> tuple[Incident, ...]:
        return self.marked or ((self.selected,) if self.selected else ())

    def told(self) -> str:
        """All that is known of the incident, or of those that are marked."""
        parts = (detail.full(one, self.desk.words, self.desk.now, COPIED) for one in self._chosen)
        return "\n".join(plain(lines) for lines in parts)

    def copied(self) -> str:
        """The incident as the contract has it, a line each where some are marked."""
        return "\n".join(one.as_line() for one in self._chosen)


def beside_peers(scene: Scene, row: int) -> Line:
    """`+12.3σ of peers` or `+4σ of its past`, with what the peers have."""
    signals = scene.signals
    one = signals.roster.series[row]
    share = units.is_share(one.signal)
    other, own = float(signals.peer_z[row]), float(signals.own_z[row])
    peers, usual = float(signals.now.peers[row]), float(signals.now.usual[row])
    if np.isfinite(other) and (not np.isfinite(own) or abs(other) >= abs(own)):
        return ((f"{sigma(other)} peers {units.brief(peers, one.unit, share=share)}  ", ""),)
    if np.isfinite(own):
        return ((f"{sigma(own)} usually {units.brief(usual, one.unit, share=share)}  ", ""),)
    return ()


def sigma(z: float) -> str:
    """A deviation: `+12σ`; what is beyond a hundred is that."""
    if not isfinite(z):
        return ""
    sign = "−" if z < 0 else "+"
    return f"{sign}{abs(z):.1f}σ" if abs(z) < 10 else f"{sign}{min(abs(z), 99):.0f}σ"
