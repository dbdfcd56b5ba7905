"""Scenes by time, bounded in memory, for consoles to pull from. What makes them is `adapters.camera`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skewscope.adapters.scene import Frame, Scene, Signals
from skewscope.engine.topology import Topology
from skewscope.kb.problems import SkewscopeError

MOST_CELLS = 4_000_000
"""Values of series that a film holds: a longer one is thinned, a live one forgets its beginning."""

Keep = Callable[[Path, float, float], str]


@dataclass
class Film:
    """Scenes of one diagnosis by time. One thread may add to it while others look at it."""

    topology: Topology = field(default_factory=Topology)
    live: bool = False
    trouble: str = ""
    keeper: Keep | None = None
    """Keeps a part of it as a recording."""
    _scenes: list[Scene] = field(default_factory=list)
    _frames: list[Frame] = field(default_factory=list)
    _skip: int = 1
    _seen: int = 0

    def add(self, scene: Scene, frame: Frame) -> None:
        """Take what was known at one more time; `scene` comes without its frames."""
        self._seen += 1
        if self._scenes and self._seen % self._skip:
            return
        self._frames.append(frame)
        self._scenes.append(scene)
        if len(self._frames) * max(len(frame.value), 1) > MOST_CELLS:
            self._make_room()

    def _make_room(self) -> None:
        # New lists: a console may be reading the old ones.
        if self.live:
            half = len(self._frames) // 2
            self._scenes, self._frames = self._scenes[half:], self._frames[half:]
        else:
            self._skip *= 2
            self._scenes, self._frames = self._scenes[::2], self._frames[::2]

    def begin(self, scene: Scene, frame: Frame) -> None:
        """Forget all of it, and begin with this."""
        self._seen, self._skip = 1, 1
        self._scenes, self._frames = [scene], [frame]

    def times(self) -> Sequence[float]:
        """When the scenes are."""
        return [scene.time for scene in self._scenes]

    def scene(self, at: int) -> Scene:
        """One of them, with all that led to it."""
        scenes, frames = self._scenes, self._frames
        at = min(max(at, 0), len(scenes) - 1)
        scene = scenes[at]
        end = max(scene.end, scenes[-1].time)
        return replace(scene, end=end, signals=Signals(scene.signals.roster, frames[: at + 1]))

    def keep(self, folder: Path, begin: float, end: float) -> str:
        """Keep a part of it as a recording of its own."""
        if self.keeper is None:
            raise SkewscopeError("There is nothing here that could be recorded.")
        return self.keeper(folder, begin, end)
