"""Fabric: where it is. Racks and rails as a heat strip, a group's ring or pipeline, and who is slow to whom."""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from skewscope.adapters.scene import Roster, Scene
from skewscope.engine.topology import Group
from skewscope.tui import detail, pictures, status, units
from skewscope.tui.desk import Desk
from skewscope.tui.heat import FULL, Heat, Strip, Thermometer, strips
from skewscope.tui.matrix import Matrix, matrix
from skewscope.tui.pages.base import Page
from skewscope.tui.pages.diagnoses import sigma
from skewscope.tui.query import Table
from skewscope.tui.status import Frame, small
from skewscope.tui.text import Line, Span, cut, fit, line, pad, wrap
from skewscope.tui.whereabouts import Scope

VIEWS = ("racks", "groups", "matrix")
LABEL = 14
LATENESS = ("wire.onset_lag", "step.compute_time", "nccl.coll_time", "wire.member_retransmit_ratio")
"""By which of them a member is called slow: the first that there is."""
MOST_WORST = 12
LEAST_MEMBER = 6
"""Columns that a member takes at least to be told by its name."""


class Fabric(Page):
    """The topology with what is wrong on it; the cursor narrows every screen."""

    name = "fabric"
    number = 2
    fields: ClassVar[str] = "words of nodes, racks and groups  !text  ~letters  or"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.mode = 0
        self.strips: list[Strip] = []
        self.groups: list[Group] = []
        self.column = 0
        self.pair = 0
        self.chosen_group = ""
        self._texts: list[str] = []
        self._taker: Thermometer | None = None
        self.heat: Heat | None = None
        self.matrix = Matrix()

    @property
    def picks(self) -> bool:
        """Whether other rows change when the cursor moves."""
        return self.mode == 2

    @property
    def view(self) -> str:
        """racks, groups or matrix."""
        return VIEWS[self.mode]

    def collect(self) -> None:
        """The rows of this view."""
        scene = self.desk.scene
        if scene is None:
            return
        self.heat = self._thermometer().take(scene)
        if self.view == "racks":
            every = strips(scene)
            self.strips = [every[n] for n in self._kept_rows([_told(s) for s in every])]
            self.count = len(self.strips)
        elif self.view == "groups":
            every_group = list(scene.topology.groups)
            self.groups = [every_group[n] for n in self._kept_rows([_of(g) for g in every_group])]
            self.count = len(self.groups)
        else:
            self.matrix = matrix(scene, self._group(scene), self.pair)
            self.count = len(self.matrix.members)
        self.column = min(self.column, max(self._across - 1, 0))

    def _thermometer(self) -> Thermometer:
        if self._taker is None or self._taker.where is not self.desk.where:
            self._taker = Thermometer(self.desk.where)
        return self._taker

    def _kept_rows(self, texts: list[str]) -> list[int]:
        self._texts = texts
        return list(self.kept())

    def table(self) -> Table:
        """What a filter can ask: words only."""
        return Table(self._texts)

    def identity(self, at: int) -> Hashable:
        """The rack and rail, the group, or the row of the matrix."""
        if self.view == "racks":
            return self.strips[at] if at < len(self.strips) else None
        return self.groups[at].name if self.view == "groups" and at < len(self.groups) else at

    # --- rows

    @property
    def _across(self) -> int:
        """How many places the row under the cursor has."""
        if self.view == "racks":
            return len(self.strips[self.cursor].nodes) if self.cursor < len(self.strips) else 0
        if self.view == "groups":
            return len(self.groups[self.cursor].members) if self.cursor < len(self.groups) else 0
        return len(self.matrix.members)

    @property
    def node(self) -> str:
        """The node under the cursor, '' for none."""
        scene = self.desk.scene
        if scene is None or self.cursor >= self.count or self.column >= self._across:
            return ""
        if self.view == "racks":
            return self.strips[self.cursor].nodes[self.column]
        if self.view == "groups":
            return scene.topology.node_of[self.groups[self.cursor].members[self.column]]
        return scene.topology.node_of[self.matrix.members[self.cursor]]

    def header(self, columns: int, rows: int) -> list[Line]:
        """Which view this is, and what its signs mean."""
        scene, self.desk.columns = self.desk.scene, columns
        if scene is None:
            return []
        if not scene.topology.nodes:
            return status.sentence("The topology names no nodes.", "warn", columns)
        names: list[Span] = [(" ", "")]
        for n, name in enumerate(VIEWS):
            names += [(f" {name} ", "bar" if n == self.mode else "dim")]
        legend: Span = (f"  {self._legend()}", "dim")
        chip = status.chip(self.filter, self.fault, (self.count, self.total), columns)
        head = [fit((*names, legend), columns)]
        if self.view == "racks" and self.count and rows > 3:
            head += self._names(columns)
        if self.view == "matrix":
            head += self.matrix.head(LABEL + 1, columns)
        return [*head, *chip]

    def _legend(self) -> str:
        if self.view == "racks":
            return "░▒▓█ how far from normal, coloured where something is wrong, ? no data; enter narrows to a node"
        if self.view == "groups":
            return "a member's lateness beside the others; ━▶ leaves the slow one"
        what = (
            f"{self.matrix.signal} in {self.matrix.group}" if self.matrix.signal else "no series between members here"
        )
        return f"{what}; a row observes, a column is observed; < > another signal"

    def _width(self, columns: int) -> int:
        """Columns of one node's cell."""
        widest = max((len(s.nodes) for s in self.strips), default=1)
        return min(max((columns - LABEL - 2) // max(widest, 1), 1), 8)

    def _names(self, columns: int) -> list[Line]:
        """Names over the cells, where they fit."""
        cell = self._width(columns)
        nodes = max((s.nodes for s in self.strips), key=len, default=())
        if len({s.rack for s in self.strips}) > 1 or cell < max((len(n) for n in nodes), default=0) + 1:
            return []
        return [((" " * (LABEL + 1), ""), ("".join(pad(node, cell) for node in nodes), "dim"))]

    def row(self, at: int) -> Line:
        """A strip, a group or a row of the matrix."""
        if self.view == "racks":
            return self._strip(at)
        if self.view == "groups":
            return self._ring(at)
        return self.matrix.row(at, LABEL + 1, self.desk.columns, (self.cursor, self.column))

    def _strip(self, at: int) -> Line:
        strip, heat = self.strips[at], self.heat
        assert heat is not None
        cell = self._width(self.desk.columns)
        label = (strip.rack or "no rack") if not strip.rail else f"  {strip.rail}"
        spans: list[Span] = [(pad(f" {label}", LABEL + 1), "" if not strip.rail else "dim")]
        shown = max(self.desk.columns - LABEL - 2, 1) // cell
        first = max(min(self.column - shown + 1, len(strip.nodes) - shown), 0) if at == self.cursor else 0
        for n, node in enumerate(strip.nodes[first : first + shown], first):
            level, role = heat.cell(node, strip.rail)
            glyph = pictures.heat(level)
            here = at == self.cursor and n == self.column
            spans.append((_pointed(glyph, max(cell - 1, 1)) if here else glyph * max(cell - 1, 1), role))
            if cell > 1:
                spans.append((" ", ""))
        if len(strip.nodes) > first + shown:
            spans.append(("…", "dim"))
        return tuple(spans)

    # --- groups

    def _late(self, group: Group) -> tuple[str, list[float], list[float]]:
        """The signal that tells who is slow, and each member's value and deviation."""
        assert self.heat is not None
        signals = self.heat.scene.signals
        for name in LATENESS:
            rows = [signals.roster.row(name, f"{group.name}:{member}") for member in group.members]
            if any(0 <= row < len(signals) for row in rows):
                values = [float(signals.now.value[r]) if 0 <= r < len(signals) else np.nan for r in rows]
                off = [float(signals.peer_z[r]) if 0 <= r < len(signals) else np.nan for r in rows]
                return name, values, off
        nothing = [np.nan] * len(group.members)
        return "", nothing, nothing

    def _ring(self, at: int) -> Line:
        group = self.groups[at]
        name, values, off = self._late(group)
        slow = int(np.nanargmax(off)) if np.isfinite(off).any() and np.nanmax(off) > 4 else -1
        room = (self.desk.columns - LABEL - 10) // max(len(group.members), 1)
        spans: list[Span] = [(pad(f" {group.name}", LABEL + 1), "key"), (f"{_kind(group)} ", "dim")]
        if room < LEAST_MEMBER:
            return (*spans, *self._dense(at, off))
        for n, member in enumerate(group.members):
            heat = self.heat.hit.get(self.desk.where.topology.node_of[member], "") if self.heat else ""
            role = {"critical": "crit", "warning": "warn"}.get(heat, "")
            here = at == self.cursor and n == self.column
            spans.append((cut(member, max(room - 4, 2)), "bar" if here else role))
            last = n == len(group.members) - 1
            arrow = (" ━▶ " if n == slow else " ─▶ ") if not last else (" ━╮" if n == slow else " ─╮")
            open_end = last and group.kind == "pipeline-parallel"
            spans.append(("" if open_end else arrow, "crit" if n == slow else "dim"))
        if slow >= 0:
            late = units.human(values[slow], self._unit(name), share=units.is_share(name))
            spans.append((f"  {group.members[slow]}: {name} {late} {sigma(off[slow])}", "warn"))
        return tuple(spans)

    def _dense(self, at: int, off: list[float]) -> list[Span]:
        """A group that is too large for names: a cell for each member, the fuller the later it is."""
        out: list[Span] = []
        for n, z in enumerate(off):
            here = at == self.cursor and n == self.column
            role = "crit" if z > 10 else "warn" if z > 4 else ""
            out.append(("◆" if here else pictures.heat(abs(z) / FULL), role))
        return out

    def _unit(self, signal: str) -> str:
        roster = self.desk.scene.signals.roster if self.desk.scene else Roster()
        rows = roster.by_signal.get(signal)
        return "1" if rows is None or not len(rows) else roster.series[rows[0]].unit

    # --- matrix

    def _group(self, scene: Scene) -> Group | None:
        """The group that the matrix shows: of the group under the cursor before, or the one that is worst off."""
        groups = [g for g in scene.topology.groups if len(g.members) > 1]
        chosen = next((g for g in groups if g.name == self.chosen_group), None)
        if chosen is None and groups and self.heat:
            hit = self.heat.hit
            chosen = max(groups, key=lambda g: sum(scene.topology.node_of[m] in hit for m in g.members))
        return chosen

    # --- the pane

    def frame(self, columns: int, lines: int) -> Frame:
        """Rows above, the node below; side by side where there is room."""
        if tight := small(columns, lines):
            return tight
        if columns >= 160:
            return Frame("full", side=True, size=columns * 60 // 100)
        return Frame("full", size=min(max(self.count + 3, 5), (lines - 4) // 2))

    def pane(self, columns: int, rows: int) -> list[Line]:
        """The node under the cursor: what is wrong on it, what it belongs to, what is furthest from normal."""
        scene, node = self.desk.scene, self.node
        if scene is None or not node or node not in scene.topology.node:
            return []
        known = scene.topology.node[node]
        ports = ", ".join(f"{p.name} ({p.network})" for p in known.ports)
        facts = [f"rack {known.rack}" if known.rack else "", f"{known.gpus} GPUs" if known.gpus else "", ports]
        out: list[Line] = [((node, "title"), (f"  {' · '.join(f for f in facts if f)}", "dim"))]
        out = wrap(out[0], columns, 2)
        pair = self.matrix.pair(self.cursor, self.column) if self.view == "matrix" else ()
        out = [fit(pair, columns), (), *out] if pair else out
        out += self._wrong(scene, node, columns)
        out += self._member(scene, node, columns)
        return [*out, *self._worst(scene, node, columns, rows - len(out))]

    def _wrong(self, scene: Scene, node: str, columns: int) -> list[Line]:
        here = [i for i in scene.incidents if i.state == "firing" and node in self.desk.where.of(i)]
        if not here:
            mine = self._thermometer().rows_of(scene, node)
            if not len(mine) or scene.signals.now.stale[mine].all():
                return [line("nobody reports from here, so nothing is known of it", "warn")]
            return [line("nothing is wrong here that could be seen", "ok")]
        words = self.desk.words
        return [
            fit(
                (detail.glyph(i), (f" {words.condition(i.condition)} on {detail.where(i)}, {detail.sure(i)} sure", "")),
                columns,
            )
            for i in here[:6]
        ]

    def _member(self, scene: Scene, node: str, columns: int) -> list[Line]:
        out: list[Line] = []
        for group in scene.topology.groups:
            mine = [n for n, m in enumerate(group.members) if scene.topology.node_of[m] == node]
            if not mine:
                continue
            name, values, off = self._late(group)
            value = units.human(values[mine[0]], self._unit(name), share=units.is_share(name))
            late = f"{name} {value} {sigma(off[mine[0]])}" if name else ""
            front = ", front end" if group.front_end == node else ""
            what = f"{group.kind} {group.name}, rank {mine[0]} of {len(group.members)}{front}  "
            out.append(fit(((what, ""), (late, "warn" if off[mine[0]] > 4 else "dim")), columns))
        return out

    def _worst(self, scene: Scene, node: str, columns: int, rows: int) -> list[Line]:
        signals = scene.signals
        mine = self._thermometer().rows_of(scene, node)
        if not len(mine) or rows < 2:
            return []
        off = np.nan_to_num(np.abs(signals.deviation[mine]))
        best = mine[np.argsort(-off, kind="stable")[: min(MOST_WORST, rows - 1)]].tolist()
        out: list[Line] = [line(f"furthest from normal, of {len(mine)} series", "label")]
        names = [signals.roster.series[row].signal for row in best]
        entities = [signals.roster.series[row].entity for row in best]
        first, second = max(28, *(len(n) + 1 for n in names)), max(14, *(len(n) + 1 for n in entities))
        for row in best:
            one = signals.roster.series[row]
            value = units.brief(float(signals.now.value[row]), one.unit, share=units.is_share(one.signal))
            z = float(signals.deviation[row])
            role = "crit" if abs(z) >= 10 else "warn" if abs(z) >= 4 else "dim"
            spark = pictures.sparkline(signals.trend(row, 12), 12)
            cells: Line = (
                (pad(one.signal, first), ""),
                (pad(one.entity, second), "dim"),
                (pad(value, 10, right=True), ""),
            )
            out.append(fit((*cells, (f" {sigma(z):>6} ", role), (spark, "info")), columns))
        return out

    # --- verbs

    def do_view(self, arg: int) -> None:
        """The next view; the group under the cursor stays the one in question."""
        if self.view == "groups" and self.cursor < len(self.groups):
            self.chosen_group = self.groups[self.cursor].name
        self.mode = (self.mode + arg) % len(VIEWS)
        self.cursor = self.column = 0
        self.narrow("")

    def do_aside(self, arg: int) -> None:
        """The node beside."""
        self.column = min(max(self.column + arg, 0), max(self._across - 1, 0))

    def do_sort(self, arg: int) -> None:
        """Another signal in the matrix."""
        self.pair += arg
        self.renew()

    def do_open(self, _arg: int) -> None:
        """Narrow every screen to the node under the cursor, or to all again."""
        node = self.node
        if node and self.desk.scope.nodes != {node}:
            self.desk.narrow(Scope(f"node {node}", frozenset([node])))
        else:
            self.desk.narrow(Scope())

    def copied(self) -> str:
        """The node's name."""
        return self.node


def _pointed(glyph: str, cells: int) -> str:
    """A cell with the cursor on it."""
    return f"[{glyph * (cells - 2)}]" if cells > 2 else "◆" * cells


def _told(strip: Strip) -> str:
    return f"{strip.rack} {strip.rail} {' '.join(strip.nodes)}".lower()


def _of(group: Group) -> str:
    return f"{group.name} {group.kind} {' '.join(group.members)}".lower()


def _kind(group: Group) -> str:
    return "".join(word[0].upper() for word in group.kind.split("-"))
