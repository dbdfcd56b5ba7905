"""Judges tracks on Ray: each is one task, which Ray places, and repeats elsewhere where a machine is lost."""

import importlib
from typing import Any

from skewscope.adapters.backtest.track import Segment, TrackSetup, judge_track
from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import InputError, Problem

LOCAL = "local"
"""The address that starts Ray on this machine."""
RETRIES = 3
"""Times that Ray repeats a track whose worker is lost: the result does not depend on where it is judged."""


class RayTrack:
    """A track whose segments lie in Ray's object store."""

    def __init__(self, pool: "RayPool", setup: TrackSetup) -> None:
        self._pool, self._setup = pool, setup
        self._segments: list[Any] = []
        self._task: Any = None

    def feed(self, segment: Any) -> None:
        """Adds the next segment, a reference."""
        self._segments.append(segment)

    def finish(self) -> None:
        """Starts the task."""
        self._task = self._pool.submit(self._setup, self._segments)
        self._segments = []

    def wait(self) -> tuple[Incident, ...]:
        """Waits for the incidents and returns them."""
        return self._pool.result_of(self._task)


class RayPool:
    """Judges each track as a task of a Ray cluster, in which Skewscope must be installed."""

    def __init__(self, address: str) -> None:
        """Connects to a cluster.

        Raises:
            InputError: Ray is not installed, or nothing answers at the address.
        """
        self._ray = _import_ray()
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            found = f"no Ray cluster ({' '.join(str(error).split())[:100]})"
            raise InputError([Problem("--ray", 0, "", found, "the address of one, auto or local")]) from None
        self.size = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._judge = self._ray.remote(max_retries=RETRIES)(_judge_referenced)

    def start(self, setup: TrackSetup) -> RayTrack:
        """Begins a track."""
        return RayTrack(self, setup)

    def share(self, segment: Segment) -> Any:
        """Puts a segment into the object store, once for all tracks, and returns the reference."""
        return self._ray.put(segment)

    def submit(self, setup: TrackSetup, segments: list[Any]) -> Any:
        """Starts a task and returns the reference of its result."""
        return self._judge.remote(setup, segments)

    def result_of(self, task: Any) -> tuple[Incident, ...]:
        """Waits for a task.

        Raises:
            InputError: it failed as often as it is repeated.
        """
        try:
            found: tuple[Incident, ...] = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            text = " ".join(str(error).split())[:200]
            raise InputError([Problem("--ray", 0, "", f"a task that failed ({text})", "incidents")]) from None
        return found

    def close(self) -> None:
        """Leaves the cluster."""
        self._ray.shutdown()


def _judge_referenced(setup: TrackSetup, references: list[Any]) -> tuple[Incident, ...]:
    """Judges a track whose segments are fetched one at a time."""
    ray = _import_ray()
    return judge_track(setup, (ray.get(one) for one in references))


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
