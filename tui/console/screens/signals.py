"""Signals, the third screen: all series of the fleet in one table, the most deviating first."""

import json
from collections.abc import Hashable, Mapping
from math import isfinite
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.view.snapshot import TREND_SAMPLES, SeriesIndex, SignalView, ViewSnapshot
from skewscope.tui.console.screen_layout import ScreenLayout, small_layout
from skewscope.tui.console.screens.base import COPY_WIDTH, ScreenModel, placeholder_lines
from skewscope.tui.console.state import ConsoleState
from skewscope.tui.render import charts, columns, status, units
from skewscope.tui.render.charts import Curve
from skewscope.tui.render.columns import Cell, TableColumn
from skewscope.tui.render.evidence_reading import compare_now
from skewscope.tui.render.filter_query import FilterTable
from skewscope.tui.render.text import Line, Span, fit, line, to_plain_text, wrap

COLUMNS = (
    TableColumn("signal", "signal", 24, 34, 0, shrinkable=True),
    TableColumn("entity", "where", 10, 28, 0, shrinkable=True, is_place=True),
    TableColumn("selector", "which", 6, 20, 8, shrinkable=True),
    TableColumn("now", "now", 10, 10, 1, align_right=True),
    TableColumn("usual", "baseline", 10, 10, 5, align_right=True),
    TableColumn("peers", "peers", 10, 10, 4, align_right=True),
    TableColumn("deviation", "off", 6, 6, 2, align_right=True),
    TableColumn("own", "±own", 6, 6, 7, align_right=True),
    TableColumn("others", "±peers", 6, 6, 6, align_right=True),
    TableColumn("age", "age", 6, 6, 9, align_right=True),
    TableColumn("trend", "trend", 8, 16, 3, shrinkable=True),
)
SORTABLE = ("signal", "entity", "now", "usual", "peers", "deviation", "own", "others", "age")
WARN_DEVIATION, CRIT_DEVIATION = 4.0, 10.0
"""Deviations from which a number is coloured."""
MAX_DEVIATION = 99
"""Deviation above which its size says nothing more."""
MAX_CHART_ROWS = 12
"""Rows of a chart at most: a taller chart shows no more and is repainted on every refresh."""
MAX_CHART_PEERS = 8
"""Peers drawn beside a series."""
FILTER_EXAMPLE = "off>4  age>10s  now>2ms  node:n2  signal:wire  kind:port  stale:yes  !text  ~letters  or"


class SignalsModel(ScreenModel):
    """The table of all series."""

    name = "signals"
    number = 3
    pane_title: ClassVar[str] = "series"
    filter_example: ClassVar[str] = FILTER_EXAMPLE

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(state)
        self.row_order: NDArray[np.intp] = np.empty(0, np.intp)
        self.sort_column = "deviation"
        self.descending = True
        self.hidden_columns: set[str] = set()
        self.signals = SignalView(SeriesIndex(), ())
        self._sparklines: dict[int, str] = {}
        self._trend_width = 0
        self._column_values: dict[str, NDArray[np.floating]] = {}
        self._rank_cache: tuple[int, Mapping[str, NDArray[np.intp]]] = (-1, {})
        self._node_cache: tuple[int, list[str]] = (-1, [])
        self._width_cache: tuple[int, dict[str, int]] = (-1, {})

    # --- rows

    def collect_rows(self) -> None:
        """Filter and sort whole columns at once."""
        snapshot = self.state.snapshot
        if snapshot is None:
            return
        self.signals = snapshot.signals
        self._sparklines = {}
        if len(self.signals):
            now = self.signals.latest
            self._column_values = {
                "now": now.value,
                "usual": now.baseline,
                "peers": now.peer_median,
                "age": now.age,
                "deviation": self.signals.deviation,
                "own": self.signals.own_z,
                "others": self.signals.peer_z,
            }
        rows = np.asarray(self.filtered_rows(), np.intp)
        if self.state.scope.name and len(rows):
            rows = rows[self._in_scope()[rows]]
        self.row_order = rows[self._sort_order(rows)]
        self.count = len(rows)

    def _in_scope(self) -> NDArray[np.bool_]:
        node_lookup, scope = self.state.node_lookup, self.state.scope
        series = self.signals.series_index.series[: len(self.signals)]
        return np.fromiter((scope.contains(node_lookup.nodes_of(s.kind, s.entity)) for s in series), bool, len(series))

    def _sort_order(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        key = self._sort_key()[rows]
        if self.sort_column == "deviation":
            key = np.abs(key)
        # Unknown values sort last in both directions.
        key = np.where(np.isnan(key), np.inf, -key if self.descending else key)
        return np.argsort(key, kind="stable")

    def _sort_key(self) -> NDArray[np.float64]:
        if self.sort_column in ("signal", "entity"):
            return self._name_ranks()[self.sort_column][: len(self.signals)].astype(np.float64)
        return np.asarray(self._column_values[self.sort_column], np.float64) if self._column_values else np.empty(0)

    def _name_ranks(self) -> Mapping[str, NDArray[np.intp]]:
        """Returns the rank of each row by signal name and by entity name."""
        series_index = self.signals.series_index
        if self._rank_cache[0] != len(series_index.series):
            found = {}
            for name, texts in (("signal", series_index.signals), ("entity", series_index.entities)):
                _, found[name] = np.unique(np.array(texts), return_inverse=True)
            self._rank_cache = len(series_index.series), found
        return self._rank_cache[1]

    def identity(self, at: int) -> Hashable:
        """Returns the row number of the series."""
        return int(self.row_order[at]) if at < len(self.row_order) else None

    @property
    def subject(self) -> str:
        """The signal under the cursor."""
        return (
            self.signals.series_index.series[int(self.row_order[self.cursor])].signal
            if self.cursor < self.count
            else ""
        )

    def find(self, identity: Hashable) -> int:
        """Returns the current position of a series, -1 if it is filtered out."""
        found = np.flatnonzero(self.row_order == identity)
        return int(found[0]) if len(found) else -1

    def filter_table(self) -> FilterTable:
        """Returns the filter fields of series."""
        size, series_index, now = (
            len(self.signals),
            self.signals.series_index,
            self.signals.latest if self.signals.frames else None,
        )
        if now is None:
            return FilterTable([])
        return FilterTable(
            series_index.search_texts[:size],
            {
                "signal": lambda: series_index.signals[:size],
                "where": lambda: series_index.entities[:size],
                "node": self._node_names,
                "kind": lambda: [s.kind for s in series_index.series[:size]],
                "which": lambda: [s.selector for s in series_index.series[:size]],
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
        series = self.signals.series_index.series
        if self._node_cache[0] != len(series):
            node_lookup = self.state.node_lookup
            self._node_cache = len(series), [" ".join(sorted(node_lookup.nodes_of(s.kind, s.entity))) for s in series]
        return self._node_cache[1][: len(self.signals)]

    # --- the list

    def header(self, columns_: int, rows: int) -> list[Line]:
        """Returns the titles and the filter in force."""
        if not len(self.signals):
            return placeholder_lines("No signal received yet.") if self.state.snapshot else []
        self.widths = columns.fit_columns(
            COLUMNS, self._name_widths(), columns_ - 2, self.hidden_columns, wide=self.wide
        )
        chip = status.filter_lines(self.filter, self.filter_error, (self.count, self.total), columns_)
        return [
            *([columns.title_line(self.widths, self.sort_column, descending=self.descending)] if rows > 2 else []),
            *chip,
        ]

    def _name_widths(self) -> dict[str, int]:
        """Returns the widths of the name columns; numbers have fixed widths."""
        series = self.signals.series_index.series
        if self._width_cache[0] != len(series):
            found = {name: max((len(getattr(s, name)) for s in series), default=0) for name in ("signal", "entity")}
            found["selector"] = max((len(s.selector) for s in series), default=0)
            self._width_cache = len(series), found | {"trend": TREND_SAMPLES}
        return self._width_cache[1]

    def prepare(self, first: int, last: int) -> None:
        """Compute the sparklines of the rows about to be shown, all at once."""
        self._trend_width = next((cells for column, cells in self.widths if column.id == "trend"), 0)
        if not self._trend_width:
            return
        rows = [int(r) for r in self.row_order[first:last] if int(r) not in self._sparklines]
        if rows:
            drawn = charts.sparklines(self.signals.history(np.array(rows), TREND_SAMPLES))
            self._sparklines |= {row: text.rjust(TREND_SAMPLES) for row, text in zip(rows, drawn, strict=True)}

    def row(self, at: int) -> Line:
        """Returns a series as a line."""
        row = int(self.row_order[at])
        if row not in self._sparklines:
            self.prepare(at, at + 1)
        stale = bool(self.signals.latest.stale[row])
        mark: Span = ("!", "alarm") if stale else (" ", "")
        return columns.row_line(self.widths, lambda column: self._cell(row, column, stale), mark)

    def compact_row(self, at: int) -> Line:
        """Returns a series for narrow screens."""
        row = int(self.row_order[at])
        one = self.signals.series_index.series[row]
        now = units.format_value(float(self.signals.latest.value[row]), one.unit, share=units.is_share(one.signal))
        return (
            (f"{format_deviation(float(self.signals.deviation[row])):>5} ", "key"),
            (f"{one.signal} {one.entity} {now}", ""),
        )

    def _cell(self, row: int, column: str, stale: bool) -> Cell:
        one = self.signals.series_index.series[row]
        quiet = "stale" if stale else ""
        if column in ("signal", "entity", "selector"):
            return getattr(one, column), quiet
        if column == "trend":
            return self._sparklines.get(row, "")[-self._trend_width :], quiet
        value = float(self._column_values[column][row])
        if column == "age":
            return units.format_short_duration(value), "warn" if stale else ""
        if column in ("now", "usual", "peers"):
            known = isfinite(value)
            text = units.format_brief(value, one.unit, share=units.is_share(one.signal)) if known else "·"
            return text, quiet or ("" if column == "now" else "dim")
        # Colour only the larger deviation; the two others show which one it is.
        size = abs(value) if column == "deviation" else 0.0
        return format_deviation(value), quiet or (
            "crit" if size >= CRIT_DEVIATION else "warn" if size >= WARN_DEVIATION else ""
        )

    # --- the pane

    def layout(self, columns_: int, lines: int) -> ScreenLayout:
        """Returns a layout without a pane on small screens."""
        if tight := small_layout(columns_, lines):
            return tight
        if columns_ >= 160:
            return ScreenLayout("full", side_by_side=True, list_size=columns_ * 68 // 100)
        return ScreenLayout("full", list_size=lines - 17) if lines >= 30 else ScreenLayout("full")

    def pane(self, columns_: int, rows: int) -> list[Line]:
        """Returns the series under the cursor as a chart with its peers."""
        if self.cursor >= self.count or self.state.snapshot is None:
            return []
        row = int(self.row_order[self.cursor])
        out = self._series_lines(self.state.snapshot, row, columns_)
        return out + self._chart_lines(row, columns_, min(max(rows - len(out) - 1, 3), MAX_CHART_ROWS))

    def as_text(self) -> str:
        """Returns the series and its numbers, without the chart."""
        if self.cursor >= self.count or self.state.snapshot is None:
            return ""
        return to_plain_text(self._series_lines(self.state.snapshot, int(self.row_order[self.cursor]), COPY_WIDTH))

    def _series_lines(self, snapshot: ViewSnapshot, row: int, columns_: int) -> list[Line]:
        one, now = self.signals.series_index.series[row], self.signals.latest
        known = self.state.names.catalogue.signals.get(one.signal)
        title: Line = (
            (one.signal, "title"),
            (f" of {one.kind} ", ""),
            (one.entity, "crit"),
            (f" {one.selector}", "dim"),
        )
        age: Span = (
            f"  {units.format_duration(round(float(now.age[row]), 1))} old",
            "alarm" if now.stale[row] else "dim",
        )
        out = [fit(title, columns_), fit(((compare_now(snapshot, row), "key"), age), columns_)]
        return out + (wrap(line(f"{known.name}. {known.note}".rstrip(), "dim"), columns_)[:3] if known else [])

    def _chart_lines(self, row: int, columns_: int, rows: int) -> list[Line]:
        samples = columns_ * 2
        peers = [int(r) for r in self.signals.series_index.peers_of(row) if r < len(self.signals)][:MAX_CHART_PEERS]
        lines = self.signals.history(np.array([*peers, row]), samples).astype(np.float64)
        curves = [Curve(values, "dim") for values in lines[:-1] if np.isfinite(values).any()]
        curves.append(Curve(lines[-1], "crit"))
        low, high = charts.bounds(curves)
        one = self.signals.series_index.series[row]
        share = units.is_share(one.signal)
        labels = (units.format_value(low, one.unit, share=share), units.format_value(high, one.unit, share=share))
        draw = charts.ascii_chart if self.state.ascii else charts.braille_chart
        body = draw(curves, max(columns_ - max(map(len, labels)) - 2, 8), rows)
        times = self.signals.times(samples)
        return charts.frame_chart(body, labels, (units.format_time(times[0]), units.format_time(times[-1])), columns_)

    # --- commands

    def do_sort(self, arg: int) -> None:
        """Sort by the next column."""
        there = {column.id for column, _ in self.widths}
        names = [name for name in SORTABLE if name in there] or [self.sort_column]
        at = names.index(self.sort_column) if self.sort_column in names else 0
        self.sort_column = names[(at + arg) % len(names)]
        self.descending = self.sort_column not in ("signal", "entity")
        self.cursor, self.cursor_moved = 0, False
        self.renew()

    def do_reverse(self, _arg: int) -> None:
        """Reverse the sort order."""
        self.descending = not self.descending
        self.cursor, self.cursor_moved = 0, False
        self.renew()

    def sort_by_title(self, column: int) -> None:
        """Sort by the title at a column of the screen."""
        at = 1 - self.x_offset
        for one, cells in self.widths:
            if at <= column < at + cells + 1 and one.id in SORTABLE:
                self.descending = (
                    not self.descending if self.sort_column == one.id else one.id not in ("signal", "entity")
                )
                self.sort_column, self.cursor, self.cursor_moved = one.id, 0, False
                self.renew()
                return
            at += cells + 1

    def as_json(self) -> str:
        """Returns the series and its numbers as JSON."""
        if self.cursor >= self.count:
            return ""
        row = int(self.row_order[self.cursor])
        one, now = self.signals.series_index.series[row], self.signals.latest
        numbers = {"now": now.value[row], "usual": now.baseline[row], "peers": now.peer_median[row]}
        numbers |= {"deviation": self.signals.deviation[row], "age_s": now.age[row]}
        rounded = {name: float(f"{value:.6g}") if np.isfinite(value) else None for name, value in numbers.items()}
        series = {
            "signal": one.signal,
            "kind": one.kind,
            "entity": one.entity,
            "selector": one.selector,
            "unit": one.unit,
        }
        return json.dumps({"time": now.time, **series, **rounded}, ensure_ascii=False)


def format_deviation(z: float) -> str:
    """Returns a deviation such as `+12σ`, limited to two digits."""
    if not isfinite(z):
        return ""
    if abs(z) > MAX_DEVIATION:
        return f">{MAX_DEVIATION}σ" if z > 0 else f"<−{MAX_DEVIATION}σ"
    sign = "−" if z < 0 else "+"
    return f"{sign}{abs(z):.1f}σ" if abs(z) < 10 else f"{sign}{abs(z):.0f}σ"
