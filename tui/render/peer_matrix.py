"""The matrix of a pairwise signal between the members of a group. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.features.peer_statistics import MIN_SPREAD_SHARE, TO_SIGMA
from skewscope.engine.model.topology import Group
from skewscope.tui.render import charts, units
from skewscope.tui.render.text import Line, Span, fit, pad

PAIR_SIGNALS = ("wire.peer_onset_lag", "wire.peer_retransmit_ratio", "wire.peer_last_share", "wire.peer_bytes")
"""Pairwise signals, the most informative first."""
MAX_CELL_WIDTH, MIN_NUMBER_WIDTH = 12, 9
"""Maximum width of a cell, and minimum width of a cell with a number."""
WARN_DEVIATION, CRIT_DEVIATION = 4.0, 10.0


@dataclass(frozen=True, eq=False)
class PeerMatrix:
    """[observer, observed] values of one signal; NaN where unknown."""

    signal: str = ""
    unit: str = "1"
    group: str = ""
    members: tuple[str, ...] = ()
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def deviation(self) -> NDArray[np.float64]:
        """[observer, observed] float64 deviations from the median of the matrix, in robust sigmas."""
        known = self.values[np.isfinite(self.values)]
        if not len(known):
            return np.full(self.values.shape, np.nan)
        middle = np.median(known)
        yardstick = TO_SIGMA * np.median(np.abs(known - middle)) + MIN_SPREAD_SHARE * abs(middle)
        found: NDArray[np.float64] = (self.values - middle) / (yardstick or 1.0)
        return found

    def cell_width(self, columns: int) -> int:
        """Returns the columns of a cell."""
        return min(max(columns // max(len(self.members), 1), 3), MAX_CELL_WIDTH)

    def header_lines(self, label: int, columns: int) -> list[Line]:
        """Returns the names of the observed members above their columns."""
        cell = self.cell_width(columns - label)
        names = "".join(pad(member, cell - 1, right=True) + " " for member in self.members)
        return [fit(((" " * label, ""), (names, "dim")), columns)] if self.members else []

    def row_line(self, at: int, label: int, columns: int, cursor: tuple[int, int]) -> Line:
        """Returns the row of an observer, with the cursor at (row, column)."""
        cell = self.cell_width(columns - label)
        top = float(np.nanmax(self.values)) if np.isfinite(self.values).any() else 0.0
        off = self.deviation[at]
        spans: list[Span] = [(pad(f" {self.members[at]}", label), "key" if at == cursor[0] else "")]
        for n, value in enumerate(self.values[at].tolist()):
            text, role = "·" if n == at else "?", "dim"
            if np.isfinite(value):
                text = (
                    self.format_value(value)
                    if cell >= MIN_NUMBER_WIDTH
                    else charts.heat_glyph(value / top if top else 0.0) * (cell - 1)
                )
                role = "crit" if abs(off[n]) >= CRIT_DEVIATION else "warn" if abs(off[n]) >= WARN_DEVIATION else ""
            spans.append((pad(text, cell - 1, right=True) + " ", "bar" if (at, n) == cursor else role))
        return tuple(spans)

    def format_value(self, value: float) -> str:
        """Returns a value with its unit."""
        return units.format_brief(value, self.unit, share=units.is_share(self.signal))

    def pair_line(self, row: int, column: int) -> Line:
        """Returns one pair of members in words, empty if there is none."""
        if row >= len(self.members) or column >= len(self.members) or row == column:
            return ()
        value, off = float(self.values[row, column]), float(self.deviation[row, column])
        text, share = "unknown", units.is_share(self.signal)
        if np.isfinite(value):
            usual = float(np.nanmedian(self.values))
            text = units.format_comparison(value, usual, self.unit, units.PEERS, share=share)
        return (
            (f"{self.members[row]} ", "key"),
            ("sees of ", "dim"),
            (f"{self.members[column]}", "key"),
            (f": {self.signal} {text}", "warn" if abs(off) >= WARN_DEVIATION else ""),
        )


def build_peer_matrix(snapshot: ViewSnapshot, group: Group | None, number: int) -> PeerMatrix:
    """Returns the matrix of a group for one of the available pairwise signals."""
    if group is None:
        return PeerMatrix()
    signals = snapshot.signals
    there = [name for name in PAIR_SIGNALS if name in signals.series_index.by_signal]
    cells = np.full((len(group.members), len(group.members)), np.nan)
    if not there:
        return PeerMatrix("", "1", group.name, group.members, cells)
    name = there[number % len(there)]
    place = {snapshot.topology.node_of[m]: n for n, m in enumerate(group.members)}
    rows: Sequence[int] = signals.series_index.by_signal[name].tolist()
    for row in rows:
        ends = signals.series_index.series[row].entity.split(">")
        a, b = (place.get(end.split("/", maxsplit=1)[0], -1) for end in (ends[0], ends[-1]))
        if row < len(signals) and a >= 0 and b >= 0 and a != b and not signals.latest.stale[row]:
            cells[a, b] = signals.latest.value[row]
    return PeerMatrix(name, signals.series_index.series[rows[0]].unit, group.name, group.members, cells)
