"""The values of all series at the last moments of a controller: what pictures of members over time are drawn from."""

import math
from dataclasses import dataclass, field, replace
from typing import Protocol

from skewscope.adapters.runtime.runtime import Snapshot
from skewscope.adapters.view.builder import ViewBuilder, ViewHistory
from skewscope.adapters.view.snapshot import ViewFrame, ViewSnapshot
from skewscope.engine.engine import Engine
from skewscope.engine.model.incident import Incident

PERIOD_S = 5.0
"""Seconds of data between two moments: a picture has some hundred columns, and lasts minutes."""
MAX_KEPT_CELLS = 1_000_000
"""Values that are kept, 25 bytes each; at the limit the oldest half goes."""
LEAST_MOMENTS = 20
"""A history of fewer moments is no picture: with more series than leave room for them none is kept."""


class PictureRenderer(Protocol):
    """Draws the members beside an incident over time."""

    def picture_text(self, incident: Incident, members: ViewSnapshot) -> str:
        """Returns the picture as text for a chat; '' where the members do not differ."""
        ...


@dataclass
class MemberHistory:
    """A bounded history of one engine. The engine's thread adds while others read."""

    period: float = PERIOD_S
    max_cells: int = MAX_KEPT_CELLS
    _builder: ViewBuilder | None = None
    _history: ViewHistory = field(default_factory=ViewHistory)
    _due: float = -math.inf
    _is_too_large: bool = False

    def update(self, engine: Engine, snapshot: Snapshot) -> None:
        """Adds a moment if one is due; another engine begins anew."""
        if self._builder is None or self._builder.engine is not engine:
            self._builder, self._due, self._is_too_large = ViewBuilder(engine, self), -math.inf, False
            self._history = ViewHistory(live=True, max_cells=self.max_cells)
        if snapshot.time >= self._due and not self._is_too_large:
            self._due = snapshot.time + self.period
            self._builder.update(snapshot)

    def add(self, snapshot: ViewSnapshot, frame: ViewFrame) -> None:
        """Receives a moment of the builder; its incidents are not kept."""
        self._is_too_large = len(frame.value) * LEAST_MOMENTS > self.max_cells
        if self._is_too_large:
            self._history = ViewHistory(live=True)
        else:
            self._history.add(replace(snapshot, incidents=(), rules=()), frame)

    def view(self) -> ViewSnapshot | None:
        """Returns the latest moment with those before it, without incidents; None without any."""
        count = len(self._history.times())
        return self._history.snapshot(count - 1) if count else None
