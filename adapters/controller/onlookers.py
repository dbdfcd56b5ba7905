"""Scenes for consoles that look at a controller: made only while somebody looks."""

import secrets
from dataclasses import dataclass

from skewscope.adapters.broadcast import Shot
from skewscope.adapters.camera import Camera
from skewscope.adapters.machine import Snapshot
from skewscope.adapters.scene import Frame, Scene
from skewscope.engine.diagnosis import Diagnosis

LINGER = 30.0
"""Seconds after the last question for which scenes are still made: a console asks each second."""


@dataclass
class Onlookers:
    """Films what is diagnosed while anybody asks. `asked` and `newest` may be used from any thread."""

    newest: Shot | None = None
    _until: float = 0.0
    _camera: Camera | None = None
    _roster: str = ""

    def asked(self, now: float) -> None:
        """Somebody looks; times are the controller's."""
        self._until = now + LINGER

    def look(self, diagnosis: Diagnosis, snapshot: Snapshot, now: float) -> None:
        """Takes what there is to see in this tick, in the engine's thread."""
        if now > self._until:
            self._camera = self.newest = None
            return
        if self._camera is None or self._camera.diagnosis is not diagnosis:
            # Another camera lists its series anew.
            self._camera, self._roster = Camera(diagnosis, self), secrets.token_hex(8)
        self._camera.take(snapshot)

    def add(self, scene: Scene, frame: Frame) -> None:
        """What the camera made."""
        self.newest = Shot(self._roster, scene, frame)
