"""Judges tracks on Ray: each is an actor, which Ray places and which is fed segment by segment while others are cut.

Ray keeps no segment longer than it is needed. Where a machine is lost, its tracks are fed again from their beginning.
"""

import importlib
from collections import deque
from typing import Any

from skewscope.adapters.backtest.pools import Found, TrackLostError, TrackServer
from skewscope.adapters.backtest.track import Segment, TrackSetup
from skewscope.kb.problems import InputError, Problem

LOCAL = "local"
"""The address that starts Ray on this machine."""
MAX_AHEAD = 4
"""Segments that an actor may have that it has not judged yet: a network takes its time."""


class RayTrack:
    """A track that an actor judges."""

    def __init__(self, pool: "RayPool", actor: Any, setup: TrackSetup) -> None:
        self._pool, self._actor = pool, actor
        self._calls: deque[Any] = deque([actor.handle.remote(setup)])
        self._found: Found = ()

    def feed(self, segment: Any) -> None:
        """Hands over the reference of the next segment; waits where the actor has enough to do."""
        while len(self._calls) > MAX_AHEAD:
            self._receive()
        self._calls.append(self._actor.handle.remote(segment))

    def has_room(self) -> bool:
        """Returns whether the actor has little to do."""
        while self._calls and self._pool.is_ready(self._calls[0]):
            self._receive()
        return len(self._calls) <= MAX_AHEAD

    def finish(self) -> None:
        """Says that there are no more segments."""
        self._calls.append(self._actor.handle.remote(None))

    def wait(self) -> Found:
        """Waits for the incidents and returns them."""
        while self._calls:
            self._receive()
        self._actor = None  # which ends it
        return self._found

    def abandon(self) -> None:
        """Ends the actor."""
        self._calls.clear()
        self._actor = None

    def _receive(self) -> None:
        self._found = self._pool.result_of(self._calls.popleft())


class RayPool:
    """Judges each track in an actor of a Ray cluster, in which Skewscope must be installed."""

    def __init__(self, address: str, tracks: int = 1) -> None:
        """Connects to a cluster; so many tracks must run at a time.

        Raises:
            InputError: Ray is not installed, or nothing answers at the address.
        """
        self._ray = connect(address)
        cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self.size = max(cores, tracks)
        # An actor that waits for a core while others wait for it to be fed would wait for ever.
        share = 1.0 if self.size == cores else cores / self.size
        self._actors = self._ray.remote(num_cpus=share, max_restarts=0)(TrackActor)

    def start(self, setup: TrackSetup) -> RayTrack:
        """Begins a track."""
        return RayTrack(self, self._actors.remote(), setup)

    def share(self, segment: Segment) -> Any:
        """Puts a segment into the object store, once for all tracks, and returns the reference."""
        return self._ray.put(segment)

    def is_ready(self, call: Any) -> bool:
        """Returns whether `result_of` would return at once."""
        return bool(self._ray.wait([call], timeout=0)[0])

    def result_of(self, call: Any) -> Found:
        """Waits for what an actor returns.

        Raises:
            TrackLostError: the actor was lost.
            InputError: it failed.
        """
        try:
            found: Found = self._ray.get(call)
        except self._ray.exceptions.RayTaskError as error:
            raise as_input_error(error) from None
        except self._ray.exceptions.RayError as error:
            raise TrackLostError(" ".join(str(error).split())[:200]) from None
        return found

    def close(self) -> None:
        """Leaves the cluster."""
        self._ray.shutdown()


class TrackActor:
    """What runs on Ray: `TrackServer` with a method for Ray to call."""

    def __init__(self) -> None:
        self._server = TrackServer()

    def handle(self, message: TrackSetup | Segment | None) -> Found:
        """Returns what the server returns."""
        return self._server(message)


def connect(address: str) -> Any:
    """Returns the library, connected to a cluster.

    Raises:
        InputError: Ray is not installed, or nothing answers at the address.
    """
    ray = _import_ray()
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        found = f"no Ray cluster ({' '.join(str(error).split())[:100]})"
        raise InputError([Problem("--ray", 0, "", found, "the address of one, auto or local")]) from None
    return ray


def as_input_error(error: Any) -> InputError:
    """Returns the InputError that a track raised, or one that names what else it raised."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, InputError):
        return cause
    text = " ".join(str(error).split())[:200]
    return InputError([Problem("--ray", 0, "", f"a track that failed ({text})", "incidents")])


def _import_ray() -> Any:
    """Returns the library.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError:
        hint = "Install it: pip install 'skewscope[fleet]'."
        raise InputError([Problem("--ray", 0, "", "no Ray in this environment", "the library", hint)]) from None
