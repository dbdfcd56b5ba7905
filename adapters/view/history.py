"""Scenes by time, bounded in memory, for consoles to pull from. What makes them is `adapters.view.builder`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skewscope.adapters.view.snapshot import SignalView, ViewFrame, ViewSnapshot
from skewscope.engine.model.topology import Topology
from skewscope.kb.problems import SkewscopeError

MAX_CELLS = 4_000_000
"""Values of series that a film holds: a longer one is thinned, a live one forgets its beginning."""

RecordingExporter = Callable[[Path, float, float], str]


@dataclass
class ViewHistory:
    """Scenes of one diagnosis by time. One thread may add to it while others look at it."""

    topology: Topology = field(default_factory=Topology)
    live: bool = False
    trouble: str = ""
    exporter: RecordingExporter | None = None
    """Keeps a part of it as a recording."""
    _snapshots: list[ViewSnapshot] = field(default_factory=list)
    _frames: list[ViewFrame] = field(default_factory=list)
    _stride: int = 1
    _added_count: int = 0

    def add(self, scene: ViewSnapshot, frame: ViewFrame) -> None:
        """Take what was known at one more time; `scene` comes without its frames."""
        self._added_count += 1
        if self._snapshots and self._added_count % self._stride:
            return
        self._frames.append(frame)
        self._snapshots.append(scene)
        if len(self._frames) * max(len(frame.value), 1) > MAX_CELLS:
            self._thin()

    def _thin(self) -> None:
        # New lists: a console may be reading the old ones.
        if self.live:
            half = len(self._frames) // 2
            self._snapshots, self._frames = self._snapshots[half:], self._frames[half:]
        else:
            self._stride *= 2
            self._snapshots, self._frames = self._snapshots[::2], self._frames[::2]

    def restart(self, scene: ViewSnapshot, frame: ViewFrame) -> None:
        """Forget all of it, and begin with this."""
        self._added_count, self._stride = 1, 1
        self._snapshots, self._frames = [scene], [frame]

    def times(self) -> Sequence[float]:
        """When the scenes are."""
        return [scene.time for scene in self._snapshots]

    def snapshot(self, at: int) -> ViewSnapshot:
        """One of them, with all that led to it."""
        scenes, frames = self._snapshots, self._frames
        at = min(max(at, 0), len(scenes) - 1)
        scene = scenes[at]
        end = max(scene.end, scenes[-1].time)
        return replace(scene, end=end, signals=SignalView(scene.signals.series_index, frames[: at + 1]))

    def export_recording(self, folder: Path, begin: float, end: float) -> str:
        """Keep a part of it as a recording of its own."""
        if self.exporter is None:
            raise SkewscopeError("There is nothing here that could be recorded.")
        return self.exporter(folder, begin, end)
