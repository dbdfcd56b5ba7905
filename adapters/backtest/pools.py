"""Where tracks are judged: in this process, or in processes of their own. `ray_pool` does it on Ray."""

from dataclasses import dataclass, field
from queue import Queue
from typing import Any, Protocol

from skewscope.adapters.backtest.track import Segment, Track, TrackSetup
from skewscope.adapters.runtime.processes import ProcessEndedError, WorkerProcess
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import InputError, Problem

MAX_AHEAD = 2
"""Segments that a worker may have that it has not judged yet."""

Found = tuple[Incident, ...]


class TrackLostError(Exception):
    """A track ended with the machine that judged it: it must be fed again from its first segment."""


class PendingTrack(Protocol):
    """A track that is being judged somewhere."""

    def feed(self, segment: Any) -> None:
        """Hands over the next segment, as `TrackPool.share` returned it; waits until there is room for it.

        Raises:
            TrackLostError: it was lost.
            InputError: the track could not be judged.
        """

    def has_room(self) -> bool:
        """Returns whether `feed` would not wait."""

    def finish(self) -> None:
        """Says that there are no more segments."""

    def wait(self) -> Found:
        """Waits for the incidents and returns them; once.

        Raises:
            TrackLostError: it was lost.
            InputError: the track could not be judged.
        """

    def abandon(self) -> None:
        """Drops the track before its end."""


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

    def has_room(self) -> bool:
        """Returns True."""
        return True

    def finish(self) -> None:
        """Does nothing: all is judged."""

    def wait(self) -> Found:
        """Returns the incidents."""
        return self.track.list_incidents()

    def abandon(self) -> None:
        """Does nothing."""


@dataclass
class LocalPool:
    """Judges in this process, any number of tracks side by side."""

    size: int = 1

    def start(self, setup: TrackSetup) -> LocalTrack:
        """Begins a track."""
        return LocalTrack(Track(setup))

    def share(self, segment: Segment) -> Segment:
        """Returns the segment."""
        return segment

    def close(self) -> None:
        """Does nothing."""


class TrackServer:
    """What a worker does: it judges one track at a time, message by message."""

    def __init__(self) -> None:
        self._track: Track | None = None

    def __call__(self, message: TrackSetup | Segment | None) -> Found:
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


class ProcessTrack:
    """A track that a process judges; a thread hands over what it is fed with."""

    def __init__(self, process: WorkerProcess) -> None:
        self.process = process
        self.is_fed = False
        """Whether there are no more segments."""
        self._messages: Queue[Segment | TrackSetup | None] = Queue(MAX_AHEAD)
        self._found: Found = ()
        self._error: Exception | None = None
        self._thread = start_thread("track", self._hand_over)

    def send(self, message: Segment | TrackSetup | None) -> None:
        """Sends what `TrackServer` takes; waits first where the process has enough to do."""
        self._raise_error()
        self._messages.put(message)

    def feed(self, segment: Segment) -> None:
        """Sends the next segment."""
        self.send(segment)

    def has_room(self) -> bool:
        """Returns whether the process has little to do."""
        return not self._messages.full()

    def finish(self) -> None:
        """Says that there are no more segments."""
        self.is_fed = True
        self._messages.put(None)

    def wait(self) -> Found:
        """Waits for the incidents and returns them."""
        self._thread.join()
        self._raise_error()
        return self._found

    def abandon(self) -> None:
        """Has the process take the next track after what was sent."""
        self.finish()

    def _hand_over(self) -> None:
        """Has the process work on one message after another; after an error it only takes them."""
        message: Segment | TrackSetup | None
        is_last = False
        while not is_last:
            message = self._messages.get()
            is_last = message is None
            if self._error is None:
                try:
                    self.process.send(message)
                    self._found = self.process.receive()
                except Exception as error:  # noqa: BLE001 - the thread that feeds raises it
                    self._error = error

    def _raise_error(self) -> None:
        if isinstance(self._error, ProcessEndedError):
            hint = "Was there enough memory? Fewer workers need less."
            raise InputError([Problem("backtest", 0, "", "a worker process died", "incidents", hint)])
        if self._error is not None:
            raise self._error


@dataclass
class ProcessPool:
    """Judges each track in one of some processes, which are kept for the next ones."""

    size: int
    _free: list[WorkerProcess] = field(default_factory=list)
    _all: list[WorkerProcess] = field(default_factory=list)
    _running: list[ProcessTrack] = field(default_factory=list)

    def start(self, setup: TrackSetup) -> ProcessTrack:
        """Begins a track; waits for the oldest one without further segments where all processes are busy."""
        if not self._free and len(self._all) >= self.size:
            oldest = next(track for track in self._running if track.is_fed)
            self._running.remove(oldest)
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
