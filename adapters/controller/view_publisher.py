"""Scenes for consoles that look at a controller: made only while somebody looks."""

import secrets
from dataclasses import dataclass

from skewscope.adapters.runtime.runtime import Snapshot
from skewscope.adapters.view.broadcast import ViewUpdate
from skewscope.adapters.view.builder import ViewBuilder
from skewscope.adapters.view.snapshot import ViewFrame, ViewSnapshot
from skewscope.engine.engine import Engine

LINGER = 30.0
"""Seconds after the last question for which scenes are still made: a console asks each second."""


@dataclass
class ViewPublisher:
    """Films what is diagnosed while anybody asks. `asked` and `newest` may be used from any thread."""

    latest: ViewUpdate | None = None
    _active_until: float = 0.0
    _builder: ViewBuilder | None = None
    _series_index_id: str = ""

    def record_request(self, now: float) -> None:
        """Somebody looks; times are the controller's."""
        self._active_until = now + LINGER

    def update(self, diagnosis: Engine, snapshot: Snapshot, now: float) -> None:
        """Takes what there is to see in this tick, in the engine's thread."""
        if now > self._active_until:
            self._builder = self.latest = None
            return
        if self._builder is None or self._builder.engine is not diagnosis:
            # Another camera lists its series anew.
            self._builder, self._series_index_id = ViewBuilder(diagnosis, self), secrets.token_hex(8)
        self._builder.update(snapshot)

    def add(self, scene: ViewSnapshot, frame: ViewFrame) -> None:
        """What the camera made."""
        self.latest = ViewUpdate(self._series_index_id, scene, frame)
