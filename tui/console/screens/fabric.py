"""Fabric, the second screen: a heat map of racks and rails, groups, a matrix of peers."""

from collections.abc import Hashable, Iterable
from typing import ClassVar

import numpy as np

from skewscope.adapters.view.snapshot import SeriesIndex, ViewSnapshot
from skewscope.engine.model.topology import Group
from skewscope.tui.console.screen_layout import ScreenLayout, small_layout
from skewscope.tui.console.screens.base import ScreenModel
from skewscope.tui.console.state import ConsoleState
from skewscope.tui.render import charts, detail, status, units
from skewscope.tui.render.cell_picture import picture_lines
from skewscope.tui.render.evidence_reading import compare_now
from skewscope.tui.render.filter_query import FilterTable
from skewscope.tui.render.heat_map import FULL_DEVIATION, HeatMap, HeatMapBuilder, HeatMapRow, heat_map_rows
from skewscope.tui.render.members_over_time import worst_members
from skewscope.tui.render.node_grid import node_grid
from skewscope.tui.render.node_lookup import NodeScope
from skewscope.tui.render.peer_matrix import PeerMatrix, build_peer_matrix
from skewscope.tui.render.text import Line, Span, cut, fit, line, pad, width, wrap

VIEWS = ("racks", "groups", "matrix", "map")
LABEL_WIDTH = 14
LATENESS_SIGNALS = ("wire.onset_lag", "step.compute_time", "nccl.coll_time", "wire.member_retransmit_ratio")
"""Signals of a member's lateness, in order of preference."""
MAX_WORST = 12
MIN_MEMBER_WIDTH = 6
"""Columns that a member's name needs at least."""


class FabricModel(ScreenModel):
    """The topology with the incidents on it; a selected node restricts all screens."""

    name = "fabric"
    number = 2
    pane_title: ClassVar[str] = "node"
    filter_example: ClassVar[str] = "names of nodes, racks and groups  !text  ~letters  or"

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(state)
        self.view_index = 0
        self.heat_rows: list[HeatMapRow] = []
        self.groups: list[Group] = []
        self.column = 0
        self.pair_index = 0
        self.selected_group = ""
        self._row_texts: list[str] = []
        self._builder_cache: HeatMapBuilder | None = None
        self.heat_map: HeatMap | None = None
        self.peer_matrix = PeerMatrix()

    @property
    def redraws_on_move(self) -> bool:
        """Whether moving the cursor changes other rows too."""
        return self.view == "matrix"

    @property
    def view(self) -> str:
        """The current view: racks, a map of all nodes, groups or a matrix."""
        return VIEWS[self.view_index]

    def collect_rows(self) -> None:
        """Collect the rows of the current view."""
        snapshot = self.state.snapshot
        if snapshot is None:
            return
        self.heat_map = self._heat_map_builder().build(snapshot)
        if self.view == "racks":
            every = heat_map_rows(snapshot)
            self.heat_rows = [every[n] for n in self._filter_rows([_heat_row_text(s) for s in every])]
            self.count = len(self.heat_rows)
        elif self.view == "map":
            self.total = self.count = 0
        elif self.view == "groups":
            every_group = list(snapshot.topology.groups)
            self.groups = [every_group[n] for n in self._filter_rows([_group_text(g) for g in every_group])]
            self.count = len(self.groups)
        else:
            self.peer_matrix = build_peer_matrix(snapshot, self._matrix_group(snapshot), self.pair_index)
            self.count = len(self.peer_matrix.members)
        self.column = min(self.column, max(self._cell_count - 1, 0))

    def _heat_map_builder(self) -> HeatMapBuilder:
        if self._builder_cache is None or self._builder_cache.node_lookup is not self.state.node_lookup:
            self._builder_cache = HeatMapBuilder(self.state.node_lookup)
        return self._builder_cache

    def _filter_rows(self, texts: list[str]) -> list[int]:
        self._row_texts = texts
        return list(self.filtered_rows())

    def filter_table(self) -> FilterTable:
        """Returns the texts of the rows; there are no fields."""
        return FilterTable(self._row_texts)

    def identity(self, at: int) -> Hashable:
        """Returns the rack and rail, the group, or the row number of the matrix."""
        if self.view == "racks":
            return self.heat_rows[at] if at < len(self.heat_rows) else None
        return self.groups[at].name if self.view == "groups" and at < len(self.groups) else at

    # --- rows

    @property
    def _cell_count(self) -> int:
        """Number of cells in the row under the cursor."""
        if self.view == "racks":
            return len(self.heat_rows[self.cursor].nodes) if self.cursor < len(self.heat_rows) else 0
        if self.view == "groups":
            return len(self.groups[self.cursor].members) if self.cursor < len(self.groups) else 0
        return len(self.peer_matrix.members)

    @property
    def node(self) -> str:
        """The node under the cursor, '' for none."""
        snapshot = self.state.snapshot
        if snapshot is None or self.cursor >= self.count or self.column >= self._cell_count:
            return ""
        if self.view == "racks":
            return self.heat_rows[self.cursor].nodes[self.column]
        if self.view == "groups":
            return snapshot.topology.node_of[self.groups[self.cursor].members[self.column]]
        return snapshot.topology.node_of[self.peer_matrix.members[self.cursor]]

    def _listed_nodes(self, snapshot: ViewSnapshot) -> list[tuple[int, int, str]]:
        """Returns row, cell and name of each node that is listed, in the order in which they are read."""
        rows: Iterable[Iterable[str]] = ()
        if self.view == "racks":
            rows = (row.nodes for row in self.heat_rows)
        elif self.view == "groups":
            rows = ((snapshot.topology.node_of[member] for member in group.members) for group in self.groups)
        return [(at, cell, node) for at, nodes in enumerate(rows) for cell, node in enumerate(nodes)]

    def do_next(self, arg: int) -> None:
        """Move to the next node with an open incident, or to the one before."""
        snapshot = self.state.snapshot
        if snapshot is None:
            return
        firing = [one for one in snapshot.incidents if one.state == "firing"]
        ill = {node for one in firing for node in self.state.node_lookup.nodes_of_incident(one)}
        cells = [(at, cell) for at, cell, node in self._listed_nodes(snapshot) if node in ill]
        here = self.cursor, self.column
        ahead = [one for one in cells if one > here] if arg > 0 else [one for one in reversed(cells) if one < here]
        if ahead:
            (self.cursor, self.column), self.cursor_moved = ahead[0], True
        else:
            self.state.show_message("no further node with an open incident", False)

    def header(self, columns: int, rows: int) -> list[Line]:
        """Returns the names of the views and the legend."""
        snapshot, self.state.columns = self.state.snapshot, columns
        if snapshot is None:
            return []
        if not snapshot.topology.nodes:
            return status.sentence_lines("The topology has no nodes.", "warn", columns)
        names: list[Span] = [(" ", "")]
        for n, name in enumerate(VIEWS):
            names += [(f" {name} ", "bar" if n == self.view_index else "dim")]
        room = columns - sum(width(text) for text, _ in names) - 2
        legends = self._legends()
        legend: Span = (f"  {next((text for text in legends if width(text) <= room), legends[-1])}", "dim")
        chip = status.filter_lines(self.filter, self.filter_error, (self.count, self.total), columns)
        head = [fit((*names, legend), columns)]
        if self.view == "map" and self.heat_map is not None:
            head += picture_lines(node_grid(self.heat_map, columns), columns)[: max(rows - 1, 1)]
        if self.view == "racks" and self.count and rows > 3:
            head += self._node_name_lines(columns)
        if self.view == "matrix":
            head += self.peer_matrix.header_lines(LABEL_WIDTH + 1, columns)
        return [*head, *chip]

    def _legends(self) -> tuple[str, ...]:
        """Returns the legend of the view, from long to short."""
        if self.view == "racks":
            signs = "█✖ critical, █! warning, ░▒ deviation, ? no data"
            return f"{signs}; enter restricts to a node", signs, "✖! incident, ? no data"
        if self.view == "map":
            return ("all nodes, in the order of the topology", "all nodes")
        if self.view == "groups":
            return "lateness of each member; ━▶ starts at the slow one", "━▶ starts at the slow one"
        if not self.peer_matrix.signal:
            return "no pairwise series in this group; < > another signal", "no pairwise series here"
        what = f"{self.peer_matrix.signal} in {self.peer_matrix.group}"
        return f"{what}; rows observe columns; < > another signal", f"{what}; < > another signal", what

    def _cell_width(self, columns: int) -> int:
        """Returns the columns of one node's cell."""
        widest = max((len(s.nodes) for s in self.heat_rows), default=1)
        return min(max((columns - LABEL_WIDTH - 2) // max(widest, 1), 1), 8)

    def _node_name_lines(self, columns: int) -> list[Line]:
        """Returns node names above the cells, if they fit."""
        cell = self._cell_width(columns)
        nodes = max((s.nodes for s in self.heat_rows), key=len, default=())
        if len({s.rack for s in self.heat_rows}) > 1 or cell < max((len(n) for n in nodes), default=0) + 1:
            return []
        return [((" " * (LABEL_WIDTH + 1), ""), ("".join(pad(node, cell) for node in nodes), "dim"))]

    def row(self, at: int) -> Line:
        """Returns a heat strip, a group or a row of the matrix."""
        if self.view == "racks":
            return self._heat_line(at)
        if self.view == "groups":
            return self._group_line(at)
        return self.peer_matrix.row_line(at, LABEL_WIDTH + 1, self.state.columns, (self.cursor, self.column))

    def _heat_line(self, at: int) -> Line:
        strip, heat = self.heat_rows[at], self.heat_map
        assert heat is not None
        cell = self._cell_width(self.state.columns)
        label = (strip.rack or "no rack") if not strip.rail else f"  {strip.rail}"
        spans: list[Span] = [(pad(f" {label}", LABEL_WIDTH + 1), "" if not strip.rail else "dim")]
        shown = max(self.state.columns - LABEL_WIDTH - 2, 1) // cell
        first = max(min(self.column - shown + 1, len(strip.nodes) - shown), 0) if at == self.cursor else 0
        for n, node in enumerate(strip.nodes[first : first + shown], first):
            level, role = heat.cell(node, strip.rail)
            glyph = charts.heat_glyph(level)
            here = at == self.cursor and n == self.column
            mark = "" if strip.rail else heat.mark(node)
            spans.append((_cell_text(glyph, mark, max(cell - 1, 1), here=here), role))
            if cell > 1:
                spans.append((" ", ""))
        if len(strip.nodes) > first + shown:
            spans.append(("…", "dim"))
        return tuple(spans)

    # --- groups

    def _lateness(self, group: Group) -> tuple[str, list[float], list[float]]:
        """Returns the lateness signal of a group with each member's value and peer deviation."""
        assert self.heat_map is not None
        signals = self.heat_map.snapshot.signals
        for name in LATENESS_SIGNALS:
            rows = [signals.series_index.find_row(name, f"{group.name}:{member}") for member in group.members]
            if any(0 <= row < len(signals) for row in rows):
                values = [float(signals.latest.value[r]) if 0 <= r < len(signals) else np.nan for r in rows]
                off = [float(signals.peer_z[r]) if 0 <= r < len(signals) else np.nan for r in rows]
                return name, values, off
        nothing = [np.nan] * len(group.members)
        return "", nothing, nothing

    def _group_line(self, at: int) -> Line:
        group = self.groups[at]
        name, values, off = self._lateness(group)
        slow = int(np.nanargmax(off)) if np.isfinite(off).any() and np.nanmax(off) > 4 else -1
        room = (self.state.columns - LABEL_WIDTH - 10) // max(len(group.members), 1)
        spans: list[Span] = [(pad(f" {group.name}", LABEL_WIDTH + 1), "key"), (f"{_kind_initials(group)} ", "dim")]
        if room < MIN_MEMBER_WIDTH:
            return (*spans, *self._dense_cells(at, off))
        for n, member in enumerate(group.members):
            heat = (
                self.heat_map.node_severity.get(self.state.node_lookup.topology.node_of[member], "")
                if self.heat_map
                else ""
            )
            role = {"critical": "crit", "warning": "warn"}.get(heat, "")
            here = at == self.cursor and n == self.column
            mark = self.heat_map.mark(self.state.node_lookup.topology.node_of[member]) if self.heat_map else ""
            spans.append((cut(f"{mark}{member}", max(room - 4, 2)), "bar" if here else role))
            last = n == len(group.members) - 1
            arrow = (" ━▶ " if n == slow else " ─▶ ") if not last else (" ━╮" if n == slow else " ─╮")
            open_end = last and group.kind == "pipeline-parallel"
            spans.append(("" if open_end else arrow, "crit" if n == slow else "dim"))
        if slow >= 0:
            spans.append((f"  {group.members[slow]}: {name} {self._beside_others(name, values, slow)}", "warn"))
        return tuple(spans)

    def _dense_cells(self, at: int, off: list[float]) -> list[Span]:
        """Returns one cell per member, shaded by lateness, for groups too large for names."""
        out: list[Span] = []
        for n, z in enumerate(off):
            here = at == self.cursor and n == self.column
            role = "crit" if z > 10 else "warn" if z > 4 else ""
            out.append(("◆" if here else charts.heat_glyph(abs(z) / FULL_DEVIATION), role))
        return out

    def _signal_unit(self, signal: str) -> str:
        series_index = self.state.snapshot.signals.series_index if self.state.snapshot else SeriesIndex()
        rows = series_index.by_signal.get(signal)
        return "1" if rows is None or not len(rows) else series_index.series[rows[0]].unit

    # --- matrix

    def _matrix_group(self, snapshot: ViewSnapshot) -> Group | None:
        """Returns the selected group, or the one with the most affected members."""
        groups = [g for g in snapshot.topology.groups if len(g.members) > 1]
        chosen = next((g for g in groups if g.name == self.selected_group), None)
        if chosen is None and groups and self.heat_map:
            hit = self.heat_map.node_severity
            chosen = max(groups, key=lambda g: sum(snapshot.topology.node_of[m] in hit for m in g.members))
        return chosen

    # --- the pane

    def layout(self, columns: int, lines: int) -> ScreenLayout:
        """Returns a layout with the node below the rows, or beside them on wide screens."""
        if tight := small_layout(columns, lines):
            return tight
        if self.view == "map":
            return ScreenLayout("full", list_size=max(min(self._map_size(columns), lines - 12), 4))
        if columns >= 160:
            return ScreenLayout("full", side_by_side=True, list_size=columns * 60 // 100)
        return ScreenLayout("full", list_size=min(max(self.count + 3, 5), (lines - 4) // 2))

    def _map_size(self, columns: int) -> int:
        """Returns the lines of the map with its head."""
        if self.heat_map is None:
            return 3
        return len(node_grid(self.heat_map, columns).labels) + 4

    def _worst_lines(self, snapshot: ViewSnapshot, columns: int, rows: int) -> list[Line]:
        """Returns the members that are worst over time, by the first signal of lateness that shows any."""
        for name in LATENESS_SIGNALS:
            if picture := worst_members(snapshot, name, max(rows - 3, 1)):
                return picture_lines(picture, columns)[:rows]
        return [line(" No signal of lateness has members that differ over time.", "dim")]

    def pane(self, columns: int, rows: int) -> list[Line]:
        """Returns the node under the cursor: its incidents, groups and most deviating series."""
        snapshot, node = self.state.snapshot, self.node
        if snapshot is not None and self.view == "map":
            return self._worst_lines(snapshot, columns, rows)
        if snapshot is None or not node or node not in snapshot.topology.node:
            return []
        known = snapshot.topology.node[node]
        ports = ", ".join(f"{p.name} ({p.network})" for p in known.ports)
        facts = [f"rack {known.rack}" if known.rack else "", f"{known.gpus} GPUs" if known.gpus else "", ports]
        out: list[Line] = [((node, "title"), (f"  {' · '.join(f for f in facts if f)}", "dim"))]
        out = wrap(out[0], columns, 2)
        pair = self.peer_matrix.pair_line(self.cursor, self.column) if self.view == "matrix" else ()
        out = [fit(pair, columns), (), *out] if pair else out
        out += self._incident_lines(snapshot, node, columns)
        out += self._membership_lines(snapshot, node, columns)
        return [*out, *self._deviation_lines(snapshot, node, columns, rows - len(out))]

    def _incident_lines(self, snapshot: ViewSnapshot, node: str, columns: int) -> list[Line]:
        here = [
            i for i in snapshot.incidents if i.state == "firing" and node in self.state.node_lookup.nodes_of_incident(i)
        ]
        if not here:
            mine = self._heat_map_builder().series_rows(snapshot, node)
            if not len(mine) or snapshot.signals.latest.stale[mine].all():
                return [line("no data from this node, so its state is unknown", "warn")]
            if self.state.progress is not None:
                return [line(f"nothing found on this node yet: {self.state.reading}", "info")]
            return [line("no diagnosis and no symptom on this node", "ok")]
        names = self.state.names
        titles = [f" {names.incident_title(i)}, {detail.format_confidence(i)} sure" for i in here]
        return [
            fit((detail.severity_glyph(i), (title, "")), columns) for i, title in zip(here[:6], titles[:6], strict=True)
        ]

    def _beside_others(self, name: str, values: list[float], at: int) -> str:
        """Returns the value of a member beside the median of the others."""
        others = np.array([value for n, value in enumerate(values) if n != at and np.isfinite(value)])
        unit, share = self._signal_unit(name), units.is_share(name)
        if not len(others) or not np.isfinite(values[at]):
            return units.format_value(values[at], unit, share=share)
        return units.format_comparison(values[at], float(np.median(others)), unit, units.PEERS, share=share)

    def _membership_lines(self, snapshot: ViewSnapshot, node: str, columns: int) -> list[Line]:
        out: list[Line] = []
        for group in snapshot.topology.groups:
            mine = [n for n, m in enumerate(group.members) if snapshot.topology.node_of[m] == node]
            if not mine:
                continue
            name, values, off = self._lateness(group)
            late = f"{name} {self._beside_others(name, values, mine[0])}" if name else ""
            front = ", front end" if group.front_end == node else ""
            what = f"{group.kind} {group.name}, rank {mine[0]} of {len(group.members)}{front}  "
            out.append(fit(((what, ""), (late, "warn" if off[mine[0]] > 4 else "dim")), columns))
        return out

    def _deviation_lines(self, snapshot: ViewSnapshot, node: str, columns: int, rows: int) -> list[Line]:
        signals = snapshot.signals
        mine = self._heat_map_builder().series_rows(snapshot, node)
        if not len(mine) or rows < 2:
            return []
        off = np.nan_to_num(np.abs(signals.deviation[mine]))
        best = mine[np.argsort(-off, kind="stable")[: min(MAX_WORST, rows - 1)]].tolist()
        out: list[Line] = [line(f"largest deviations of {len(mine)} series", "label")]
        names = [signals.series_index.series[row].signal for row in best]
        entities = [signals.series_index.series[row].entity for row in best]
        first, second = max(28, *(len(n) + 1 for n in names)), max(14, *(len(n) + 1 for n in entities))
        for row in best:
            one = signals.series_index.series[row]
            z = float(signals.deviation[row])
            role = "crit" if abs(z) >= 10 else "warn" if abs(z) >= 4 else "dim"
            spark = charts.sparkline(signals.trend(row, 12), 12)
            cells: Line = ((pad(one.signal, first), ""), (pad(one.entity, second), "dim"))
            out.append(fit((*cells, (f"{compare_now(snapshot, row)}  ", role), (spark, "info")), columns))
        return out

    # --- commands

    def do_view(self, arg: int) -> None:
        """Show the next view; the matrix shows the group that was under the cursor."""
        if self.view == "groups" and self.cursor < len(self.groups):
            self.selected_group = self.groups[self.cursor].name
        self.view_index = (self.view_index + arg) % len(VIEWS)
        self.cursor = self.column = 0
        self.set_filter("")

    def do_pan(self, arg: int) -> None:
        """Move to the next cell."""
        self.column = min(max(self.column + arg, 0), max(self._cell_count - 1, 0))

    def do_sort(self, arg: int) -> None:
        """Show another signal in the matrix."""
        self.pair_index += arg
        self.renew()

    def do_open(self, _arg: int) -> None:
        """Restrict all screens to the node under the cursor, or undo that."""
        node = self.node
        if node and self.state.scope.nodes != {node}:
            self.state.set_scope(NodeScope(f"node {node}", frozenset([node])))
        else:
            self.state.set_scope(NodeScope())

    def as_json(self) -> str:
        """Returns the node's name."""
        return self.node


def _cell_text(glyph: str, mark: str, cells: int, *, here: bool) -> str:
    """Returns a cell with the sign of its incident in its middle, in brackets under the cursor."""
    if here and cells <= 2:
        return "◆" * cells
    inner = cells - 2 if here else cells
    if mark:
        left = (inner - 1) // 2
        text = glyph * left + mark + glyph * (inner - 1 - left)
    else:
        text = glyph * inner
    return f"[{text}]" if here else text


def _heat_row_text(strip: HeatMapRow) -> str:
    return f"{strip.rack} {strip.rail} {' '.join(strip.nodes)}".lower()


def _group_text(group: Group) -> str:
    return f"{group.name} {group.kind} {' '.join(group.members)}".lower()


def _kind_initials(group: Group) -> str:
    return "".join(word[0].upper() for word in group.kind.split("-"))
