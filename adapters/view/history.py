"""History of view snapshots, bounded in memory. `adapters.view.builder` builds them; consoles read them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skewscope.adapters.view.snapshot import SignalView, ViewFrame, ViewSnapshot
from skewscope.engine.model.topology import Topology
from skewscope.kb.problems import SkewscopeError

MAX_CELLS = 4_000_000
"""Limit on stored values: a history of a recording is thinned at the limit, a live one drops its oldest half."""

RecordingExporter = Callable[[Path, float, float], str]


@dataclass
class ViewHistory:
    """View snapshots of one engine by time. One thread may add while others read."""

    topology: Topology = field(default_factory=Topology)
    live: bool = False
    trouble: str = ""
    """Why no new snapshots arrive; '' while they do."""
    exporter: RecordingExporter | None = None
    """Writes a part of the input as a recording; None where there is no input to write."""
    _snapshots: list[ViewSnapshot] = field(default_factory=list)
    _frames: list[ViewFrame] = field(default_factory=list)
    _stride: int = 1
    _added_count: int = 0

    def add(self, snapshot: ViewSnapshot, frame: ViewFrame) -> None:
        """Adds the state of one tick; `snapshot` has no frames yet."""
        self._added_count += 1
        if self._snapshots and self._added_count % self._stride:
            return
        self._frames.append(frame)
        self._snapshots.append(snapshot)
        if len(self._frames) * max(len(frame.value), 1) > MAX_CELLS:
            self._thin()

    def _thin(self) -> None:
        # New lists: another thread may be reading the old ones.
        if self.live:
            half = len(self._frames) // 2
            self._snapshots, self._frames = self._snapshots[half:], self._frames[half:]
        else:
            self._stride *= 2
            self._snapshots, self._frames = self._snapshots[::2], self._frames[::2]

    def restart(self, snapshot: ViewSnapshot, frame: ViewFrame) -> None:
        """Drops all snapshots and starts with this one."""
        self._added_count, self._stride = 1, 1
        self._snapshots, self._frames = [snapshot], [frame]

    def times(self) -> Sequence[float]:
        """Returns the times of the snapshots in seconds since 1970, oldest first."""
        return [snapshot.time for snapshot in self._snapshots]

    def snapshot(self, at: int) -> ViewSnapshot:
        """Returns the snapshot at an index of `times`, with all frames up to it."""
        snapshots, frames = self._snapshots, self._frames
        at = min(max(at, 0), len(snapshots) - 1)
        found = snapshots[at]
        end = max(found.end, snapshots[-1].time)
        return replace(found, end=end, signals=SignalView(found.signals.series_index, frames[: at + 1]))

    def export_recording(self, folder: Path, begin: float, end: float) -> str:
        """Writes the input between two times as a recording and returns a description of it.

        Raises:
            SkewscopeError: there is no input to write, or it cannot be written.
        """
        if self.exporter is None:
            raise SkewscopeError("This view has no input that can be written as a recording.")
        return self.exporter(folder, begin, end)
