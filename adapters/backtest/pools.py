"""Where tracks are judged: in this process, or in processes of their own. `ray_pool` does it on Ray."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from skewscope.adapters.backtest.track import Segment, Track, TrackSetup
from skewscope.adapters.runtime.processes import ProcessEndedError, WorkerProcess
from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import InputError, Problem

MAX_AHEAD = 2
"""Segments that a process may have that it has not judged yet."""


class PendingTrack(Protocol):
    """A track that is being judged somewhere."""

    def feed(self, segment: Any) -> None:
        """Hands over the next segment, as `TrackPool.share` returned it."""

    def finish(self) -> None:
        """Says that there are no more segments."""

    def wait(self) -> tuple[Incident, ...]:
        """Waits for the incidents and returns them; once.

        Raises:
            InputError: the track could not be judged.
        """


class TrackPool(Protocol):
    """Judges tracks."""

    size: int
    """Tracks that are judged at a time."""

    def start(self, setup: TrackSetup) -> PendingTrack:
        """Begins a track; waits until there is room for it."""

    def share(self, segment: Segment) -> Any:
        """Returns a segment as several tracks can be fed with it."""

    def close(self) -> None:
        """Ends whatever the pool started."""


@dataclass
class LocalTrack:
    """A track that is judged in this process while it is fed."""

    track: Track

    def feed(self, segment: Segment) -> None:
        """Judges the next segment."""
        self.track.judge(segment)

    def finish(self) -> None:
        """Does nothing: all is judged."""

    def wait(self) -> tuple[Incident, ...]:
        """Returns the incidents."""
        return self.track.list_incidents()


@dataclass
class LocalPool:
    """Judges in this process, any number of tracks side by side."""

    size: int = 1 << 16

    def start(self, setup: TrackSetup) -> LocalTrack:
        """Begins a track."""
        return LocalTrack(Track(setup))

    def share(self, segment: Segment) -> Segment:
        """Returns the segment."""
        return segment

    def close(self) -> None:
        """Does nothing."""


class TrackServer:
    """What a process does: it judges one track at a time, message by message."""

    def __init__(self) -> None:
        self._track: Track | None = None

    def __call__(self, message: TrackSetup | Segment | None) -> tuple[Incident, ...]:
        """Begins a track, judges a segment of it, or, for None, ends it; returns the incidents at its end."""
        if isinstance(message, TrackSetup):
            self._track = Track(message)
            return ()
        assert self._track is not None
        if message is not None:
            self._track.judge(message)
            return ()
        found, self._track = self._track.list_incidents(), None
        return found


@dataclass
class ProcessTrack:
    """A track that a process judges."""

    process: WorkerProcess
    _unanswered: int = 0
    _incidents: tuple[Incident, ...] | None = None

    def send(self, message: Segment | TrackSetup | None) -> None:
        """Sends what `TrackServer` takes; waits first where the process has enough to do."""
        with _explain_end():
            while self._unanswered > MAX_AHEAD:
                self._receive()
            self.process.send(message)
            self._unanswered += 1

    def feed(self, segment: Segment) -> None:
        """Sends the next segment."""
        self.send(segment)

    def finish(self) -> None:
        """Says that there are no more segments."""
        self.send(None)

    def wait(self) -> tuple[Incident, ...]:
        """Waits for the incidents and returns them."""
        with _explain_end():
            while self._unanswered:
                self._incidents = self._receive()
        assert self._incidents is not None
        return self._incidents

    def _receive(self) -> tuple[Incident, ...]:
        found: tuple[Incident, ...] = self.process.receive()
        self._unanswered -= 1
        return found


@contextmanager
def _explain_end() -> Iterator[None]:
    """Turns the end of a process into an InputError."""
    try:
        yield
    except ProcessEndedError:
        hint = "Was there enough memory? Fewer workers need less."
        raise InputError([Problem("backtest", 0, "", "a worker process died", "incidents", hint)]) from None


@dataclass
class ProcessPool:
    """Judges each track in one of some processes, which are kept for the next ones."""

    size: int
    _free: list[WorkerProcess] = field(default_factory=list)
    _all: list[WorkerProcess] = field(default_factory=list)
    _running: deque[ProcessTrack] = field(default_factory=deque)

    def start(self, setup: TrackSetup) -> ProcessTrack:
        """Begins a track; waits for the oldest one where all processes are busy."""
        if not self._free and len(self._all) >= self.size:
            oldest = self._running.popleft()
            oldest.wait()
            self._free.append(oldest.process)
        if self._free:
            process = self._free.pop()
        else:
            process = WorkerProcess(TrackServer())
            self._all.append(process)
        track = ProcessTrack(process)
        self._running.append(track)
        track.send(setup)
        return track

    def share(self, segment: Segment) -> Segment:
        """Returns the segment."""
        return segment

    def close(self) -> None:
        """Ends the processes."""
        for process in self._all:
            process.close()
