"""Who is what to whom: a signal between the members of a group, rank by rank. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.scene import Scene
from skewscope.engine.features import FLOOR, TO_SIGMA
from skewscope.engine.topology import Group
from skewscope.tui import pictures, units
from skewscope.tui.text import Line, Span, fit, pad

PAIRS = ("wire.peer_onset_lag", "wire.peer_retransmit_ratio", "wire.peer_last_share", "wire.peer_bytes")
"""What is told from one member to another, the most telling first."""
WIDEST, NUMBERS = 12, 9
"""Columns of a cell at most, and from which on it holds a number."""
FAR, FARTHER = 4.0, 10.0


@dataclass(frozen=True, eq=False)
class Matrix:
    """[observer, observed] values of one signal; NaN where nothing is known."""

    signal: str = ""
    unit: str = "1"
    group: str = ""
    members: tuple[str, ...] = ()
    cells: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def off(self) -> NDArray[np.float64]:
        """How far each is from what is usual in the matrix, in robust deviations."""
        known = self.cells[np.isfinite(self.cells)]
        if not len(known):
            return np.full(self.cells.shape, np.nan)
        middle = np.median(known)
        yardstick = TO_SIGMA * np.median(np.abs(known - middle)) + FLOOR * abs(middle)
        found: NDArray[np.float64] = (self.cells - middle) / (yardstick or 1.0)
        return found

    def width(self, columns: int) -> int:
        """Columns of a cell where there are so many for all."""
        return min(max(columns // max(len(self.members), 1), 3), WIDEST)

    def head(self, label: int, columns: int) -> list[Line]:
        """The observed, over their columns."""
        cell = self.width(columns - label)
        names = "".join(pad(member, cell - 1, right=True) + " " for member in self.members)
        return [fit(((" " * label, ""), (names, "dim")), columns)] if self.members else []

    def row(self, at: int, label: int, columns: int, cursor: tuple[int, int]) -> Line:
        """One observer, with the cursor at (row, column)."""
        cell = self.width(columns - label)
        top = float(np.nanmax(self.cells)) if np.isfinite(self.cells).any() else 0.0
        off = self.off[at]
        spans: list[Span] = [(pad(f" {self.members[at]}", label), "key" if at == cursor[0] else "")]
        for n, value in enumerate(self.cells[at].tolist()):
            text, role = "·" if n == at else "?", "dim"
            if np.isfinite(value):
                text = self.told(value) if cell >= NUMBERS else pictures.heat(value / top if top else 0.0) * (cell - 1)
                role = "crit" if abs(off[n]) >= FARTHER else "warn" if abs(off[n]) >= FAR else ""
            spans.append((pad(text, cell - 1, right=True) + " ", "bar" if (at, n) == cursor else role))
        return tuple(spans)

    def told(self, value: float) -> str:
        """A value with its unit."""
        return units.brief(value, self.unit, share=units.is_share(self.signal))

    def pair(self, row: int, column: int) -> Line:
        """What one member is to another."""
        if row >= len(self.members) or column >= len(self.members) or row == column:
            return ()
        value, off = float(self.cells[row, column]), float(self.off[row, column])
        text = self.told(value) if np.isfinite(value) else "unknown"
        away = f", {off:+.1f}σ from the others" if np.isfinite(off) else ""
        return (
            (f"{self.members[row]} ", "key"),
            ("sees of ", "dim"),
            (f"{self.members[column]}", "key"),
            (f": {self.signal} {text}{away}", "warn" if abs(off) >= FAR else ""),
        )


def matrix(scene: Scene, group: Group | None, number: int) -> Matrix:
    """The matrix of a group, of one of the signals that there are."""
    if group is None:
        return Matrix()
    signals = scene.signals
    there = [name for name in PAIRS if name in signals.roster.by_signal]
    cells = np.full((len(group.members), len(group.members)), np.nan)
    if not there:
        return Matrix("", "1", group.name, group.members, cells)
    name = there[number % len(there)]
    place = {scene.topology.node_of[m]: n for n, m in enumerate(group.members)}
    rows: Sequence[int] = signals.roster.by_signal[name].tolist()
    for row in rows:
        ends = signals.roster.series[row].entity.split(">")
        a, b = (place.get(end.split("/", maxsplit=1)[0], -1) for end in (ends[0], ends[-1]))
        if row < len(signals) and a >= 0 and b >= 0 and a != b and not signals.now.stale[row]:
            cells[a, b] = signals.now.value[row]
    return Matrix(name, signals.roster.series[rows[0]].unit, group.name, group.members, cells)
