"""View snapshots for remote consoles: made only while a console polls."""

import secrets
from dataclasses import dataclass

from skewscope.adapters.runtime.runtime import Snapshot
from skewscope.adapters.view.broadcast import ViewUpdate
from skewscope.adapters.view.builder import ViewBuilder
from skewscope.adapters.view.snapshot import ViewFrame, ViewSnapshot
from skewscope.engine.engine import Engine

LINGER = 30.0
"""Seconds after the last request during which snapshots are made: a console polls each second."""


@dataclass
class ViewPublisher:
    """Builds view snapshots while consoles poll. `record_request` and `newest` are thread-safe."""

    latest: ViewUpdate | None = None
    _active_until: float = 0.0
    _builder: ViewBuilder | None = None
    _series_index_id: str = ""

    def record_request(self, now: float) -> None:
        """Records a request; times are the controller's."""
        self._active_until = now + LINGER

    def update(self, diagnosis: Engine, snapshot: Snapshot, now: float) -> None:
        """Builds the snapshot of this tick, in the engine's thread."""
        if now > self._active_until:
            self._builder = self.latest = None
            return
        if self._builder is None or self._builder.engine is not diagnosis:
            # A new builder lists its series anew.
            self._builder, self._series_index_id = ViewBuilder(diagnosis, self), secrets.token_hex(8)
        self._builder.update(snapshot)

    def add(self, scene: ViewSnapshot, frame: ViewFrame) -> None:
        """Receives the snapshot of the builder."""
        self.latest = ViewUpdate(self._series_index_id, scene, frame)
