"""Signals: every series of the fleet in one table, what is furthest from normal first."""

import json
from collections.abc import Hashable, Mapping
from math import isfinite
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.scene import TREND, Roster, Scene, Signals
from skewscope.tui import columns, pictures, status, units
from skewscope.tui.columns import Cell, Column
from skewscope.tui.desk import Desk
from skewscope.tui.pages.base import COPIED, Page, waiting
from skewscope.tui.pages.diagnoses import beside_peers, sigma
from skewscope.tui.pictures import Curve
from skewscope.tui.query import Table
from skewscope.tui.status import Frame, small
from skewscope.tui.text import Line, Span, fit, line, plain, wrap

COLUMNS = (
    Column("signal", "signal", 24, 34, 0, shrinks=True),
    Column("entity", "where", 10, 28, 0, shrinks=True),
    Column("selector", "which", 6, 20, 8, shrinks=True),
    Column("now", "now", 10, 10, 1, right=True),
    Column("usual", "usual", 10, 10, 5, right=True),
    Column("peers", "peers", 10, 10, 4, right=True),
    Column("deviation", "off", 6, 6, 2, right=True),
    Column("own", "±own", 6, 6, 7, right=True),
    Column("others", "±peers", 6, 6, 6, right=True),
    Column("age", "age", 6, 6, 9, right=True),
    Column("trend", "trend", 8, 16, 3, shrinks=True),
)
SORTABLE = ("signal", "entity", "now", "usual", "peers", "deviation", "own", "others", "age")
FAR, FARTHER = 4.0, 10.0
"""Deviations from which on a number is coloured."""
MOST_ROWS = 12
"""Of a chart: a taller one tells no more, and all of it is new at each look."""
DRAWN = 8
"""Peers drawn beside a series."""
FIELDS = "off>4  age>10s  now>2ms  node:n2  signal:wire  kind:port  stale:yes  !text  ~letters  or"


class SignalTable(Page):
    """The table of all series."""

    name = "signals"
    number = 3
    fields: ClassVar[str] = FIELDS

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.order: NDArray[np.intp] = np.empty(0, np.intp)
        self.sort = "deviation"
        self.descending = True
        self.hidden: set[str] = set()
        self.signals = Signals(Roster(), ())
        self._sparks: dict[int, str] = {}
        self._trend = 0
        self._numbers: dict[str, NDArray[np.floating]] = {}
        self._ranks: tuple[int, Mapping[str, NDArray[np.intp]]] = (-1, {})
        self._nodes: tuple[int, list[str]] = (-1, [])
        self._wanted: tuple[int, dict[str, int]] = (-1, {})

    # --- rows

    def collect(self) -> None:
        """Filter, then sort; both in a few operations over whole columns."""
        scene = self.desk.scene
        if scene is None:
            return
        self.signals = scene.signals
        self._sparks = {}
        if len(self.signals):
            now = self.signals.now
            self._numbers = {
                "now": now.value,
                "usual": now.usual,
                "peers": now.peers,
                "age": now.age,
                "deviation": self.signals.deviation,
                "own": self.signals.own_z,
                "others": self.signals.peer_z,
            }
        rows = np.asarray(self.kept(), np.intp)
        if self.desk.scope.name and len(rows):
            rows = rows[self._in_scope()[rows]]
        self.order = rows[self._sorted(rows)]
        self.count = len(rows)

    def _in_scope(self) -> NDArray[np.bool_]:
        where, scope = self.desk.where, self.desk.scope
        series = self.signals.roster.series[: len(self.signals)]
        return np.fromiter((scope.holds(where.nodes(s.kind, s.entity)) for s in series), bool, len(series))

    def _sorted(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        key = self._key()[rows]
        if self.sort == "deviation":
            key = np.abs(key)
        # What is unknown stands at the end, whichever way round.
        key = np.where(np.isnan(key), np.inf, -key if self.descending else key)
        return np.argsort(key, kind="stable")

    def _key(self) -> NDArray[np.float64]:
        if self.sort in ("signal", "entity"):
            return self._places()[self.sort][: len(self.signals)].astype(np.float64)
        return np.asarray(self._numbers[self.sort], np.float64) if self._numbers else np.empty(0)

    def _places(self) -> Mapping[str, NDArray[np.intp]]:
        """The place of each row in the order of names."""
        roster = self.signals.roster
        if self._ranks[0] != len(roster.series):
            found = {}
            for name, texts in (("signal", roster.signals), ("entity", roster.entities)):
                _, found[name] = np.unique(np.array(texts), return_inverse=True)
            self._ranks = len(roster.series), found
        return self._ranks[1]

    def identity(self, at: int) -> Hashable:
        """The series."""
        return int(self.order[at]) if at < len(self.order) else None

    @property
    def subject(self) -> str:
        """The signal under the cursor."""
        return self.signals.roster.series[int(self.order[self.cursor])].signal if self.cursor < self.count else ""

    def find(self, identity: Hashable) -> int:
        """Where a series stands now."""
        found = np.flatnonzero(self.order == identity)
        return int(found[0]) if len(found) else -1

    def table(self) -> Table:
        """What a filter can ask."""
        size, roster, now = len(self.signals), self.signals.roster, self.signals.now if self.signals.frames else None
        if now is None:
            return Table([])
        return Table(
            roster.texts[:size],
            {
                "signal": lambda: roster.signals[:size],
                "where": lambda: roster.entities[:size],
                "node": self._node_names,
                "kind": lambda: [s.kind for s in roster.series[:size]],
                "which": lambda: [s.selector for s in roster.series[:size]],
                "stale": lambda: ["yes" if each else "no" for each in now.stale.tolist()],
            },
            {
                "off": lambda: np.abs(self.signals.deviation),
                "own": lambda: np.abs(self.signals.own_z),
                "peers": lambda: np.abs(self.signals.peer_z),
                "age": lambda: now.age,
                "now": lambda: now.value,
            },
        )

    def _node_names(self) -> list[str]:
        series = self.signals.roster.series
        if self._nodes[0] != len(series):
            where = self.desk.where
            self._nodes = len(series), [" ".join(sorted(where.nodes(s.kind, s.entity))) for s in series]
        return self._nodes[1][: len(self.signals)]

    # --- the list

    def header(self, columns_: int, rows: int) -> list[Line]:
        """Titles and the filter in force."""
        if not len(self.signals):
            return waiting("No signal has come yet.") if self.desk.scene else []
        self.widths = columns.chosen(COLUMNS, self._wants(), columns_ - 2, self.hidden, wide=self.wide)
        chip = status.chip(self.filter, self.fault, (self.count, self.total), columns_)
        return [*([columns.titles(self.widths, self.sort, descending=self.descending)] if rows > 2 else []), *chip]

    def _wants(self) -> dict[str, int]:
        """How wide names are; numbers have their own widths."""
        series = self.signals.roster.series
        if self._wanted[0] != len(series):
            found = {name: max((len(getattr(s, name)) for s in series), default=0) for name in ("signal", "entity")}
            found["selector"] = max((len(s.selector) for s in series), default=0)
            self._wanted = len(series), found | {"trend": TREND}
        return self._wanted[1]

    def prepare(self, first: int, last: int) -> None:
        """Draw the sparklines of rows that are about to be shown, all at once."""
        self._trend = next((cells for column, cells in self.widths if column.id == "trend"), 0)
        if not self._trend:
            return
        rows = [int(r) for r in self.order[first:last] if int(r) not in self._sparks]
        if rows:
            drawn = pictures.sparklines(self.signals.lines(np.array(rows), TREND))
            self._sparks |= {row: text.rjust(TREND) for row, text in zip(rows, drawn, strict=True)}

    def row(self, at: int) -> Line:
        """One series."""
        row = int(self.order[at])
        if row not in self._sparks:
            self.prepare(at, at + 1)
        stale = bool(self.signals.now.stale[row])
        mark: Span = ("!", "alarm") if stale else (" ", "")
        return columns.row(self.widths, lambda column: self._cell(row, column, stale), mark)

    def bare(self, at: int) -> Line:
        """A series where there is no room for columns."""
        row = int(self.order[at])
        one = self.signals.roster.series[row]
        now = units.human(float(self.signals.now.value[row]), one.unit, share=units.is_share(one.signal))
        return ((f"{sigma(float(self.signals.deviation[row])):>5} ", "key"), (f"{one.signal} {one.entity} {now}", ""))

    def _cell(self, row: int, column: str, stale: bool) -> Cell:
        one = self.signals.roster.series[row]
        quiet = "stale" if stale else ""
        if column in ("signal", "entity", "selector"):
            return getattr(one, column), quiet
        if column == "trend":
            return self._sparks.get(row, "")[-self._trend :], quiet
        value = float(self._numbers[column][row])
        if column == "age":
            return units.short(value), "warn" if stale else ""
        if column in ("now", "usual", "peers"):
            known = isfinite(value)
            text = units.brief(value, one.unit, share=units.is_share(one.signal)) if known else "·"
            return text, quiet or ("" if column == "now" else "dim")
        # One coloured column is enough: the other two say where it comes from.
        size = abs(value) if column == "deviation" else 0.0
        return sigma(value), quiet or ("crit" if size >= FARTHER else "warn" if size >= FAR else "")

    # --- the pane

    def frame(self, columns_: int, lines: int) -> Frame:
        """The table has all of a small screen."""
        if tight := small(columns_, lines):
            return tight
        if columns_ >= 160:
            return Frame("full", side=True, size=columns_ * 68 // 100)
        return Frame("full", size=lines - 17) if lines >= 30 else Frame("full")

    def pane(self, columns_: int, rows: int) -> list[Line]:
        """The series under the cursor over time, with its peers."""
        if self.cursor >= self.count or self.desk.scene is None:
            return []
        row = int(self.order[self.cursor])
        out = self._about(self.desk.scene, row, columns_)
        return out + self._chart(row, columns_, min(max(rows - len(out) - 1, 3), MOST_ROWS))

    def told(self) -> str:
        """The series and its numbers, without its chart."""
        if self.cursor >= self.count or self.desk.scene is None:
            return ""
        return plain(self._about(self.desk.scene, int(self.order[self.cursor]), COPIED))

    def _about(self, scene: Scene, row: int, columns_: int) -> list[Line]:
        one, now = self.signals.roster.series[row], self.signals.now
        known = self.desk.words.catalogue.signals.get(one.signal)
        title: Line = (
            (one.signal, "title"),
            (f" of {one.kind} ", ""),
            (one.entity, "crit"),
            (f" {one.selector}", "dim"),
        )
        value = units.human(float(now.value[row]), one.unit, share=units.is_share(one.signal))
        age: Span = (f"  {units.seconds(round(float(now.age[row]), 1))} old", "alarm" if now.stale[row] else "dim")
        out = [fit(title, columns_), fit(((f"{value}  ", "key"), *beside_peers(scene, row), age), columns_)]
        return out + (wrap(line(f"{known.name}. {known.note}".rstrip(), "dim"), columns_)[:3] if known else [])

    def _chart(self, row: int, columns_: int, rows: int) -> list[Line]:
        samples = columns_ * 2
        peers = [int(r) for r in self.signals.roster.like(row) if r < len(self.signals)][:DRAWN]
        lines = self.signals.lines(np.array([*peers, row]), samples).astype(np.float64)
        curves = [Curve(values, "dim") for values in lines[:-1] if np.isfinite(values).any()]
        curves.append(Curve(lines[-1], "crit"))
        low, high = pictures.bounds(curves)
        one = self.signals.roster.series[row]
        share = units.is_share(one.signal)
        labels = (units.human(low, one.unit, share=share), units.human(high, one.unit, share=share))
        draw = pictures.dotted if self.desk.ascii else pictures.chart
        body = draw(curves, max(columns_ - max(map(len, labels)) - 2, 8), rows)
        times = self.signals.times(samples)
        return pictures.framed(body, labels, (units.clock(times[0]), units.clock(times[-1])), columns_)

    # --- verbs

    def do_sort(self, arg: int) -> None:
        """By the column beside."""
        there = {column.id for column, _ in self.widths}
        names = [name for name in SORTABLE if name in there] or [self.sort]
        at = names.index(self.sort) if self.sort in names else 0
        self.sort = names[(at + arg) % len(names)]
        self.descending = self.sort not in ("signal", "entity")
        self.cursor, self.touched = 0, False
        self.renew()

    def do_reverse(self, _arg: int) -> None:
        """The other way round."""
        self.descending = not self.descending
        self.cursor, self.touched = 0, False
        self.renew()

    def picked(self, column: int) -> None:
        """Sort by the title at a column of the screen."""
        at = 1 - self.left
        for one, cells in self.widths:
            if at <= column < at + cells + 1 and one.id in SORTABLE:
                self.descending = not self.descending if self.sort == one.id else one.id not in ("signal", "entity")
                self.sort, self.cursor, self.touched = one.id, 0, False
                self.renew()
                return
            at += cells + 1

    def copied(self) -> str:
        """The series and its numbers."""
        if self.cursor >= self.count:
            return ""
        row = int(self.order[self.cursor])
        one, now = self.signals.roster.series[row], self.signals.now
        numbers = {"now": now.value[row], "usual": now.usual[row], "peers": now.peers[row]}
        numbers |= {"deviation": self.signals.deviation[row], "age_s": now.age[row]}
        told = {name: float(f"{value:.6g}") if np.isfinite(value) else None for name, value in numbers.items()}
        about = {
            "signal": one.signal,
            "kind": one.kind,
            "entity": one.entity,
            "selector": one.selector,
            "unit": one.unit,
        }
        return json.dumps({"time": now.time, **about, **told}, ensure_ascii=False)
