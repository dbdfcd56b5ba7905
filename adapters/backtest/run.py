"""One recording on its way through the workers: read, cut, fed to its tracks, and again where a track was lost."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewscope.adapters.assessment.runner import FaultLabel
from skewscope.adapters.backtest.pools import PendingTrack, TrackLostError, TrackPool
from skewscope.adapters.backtest.rule_set import RuleSet
from skewscope.adapters.backtest.sources import Report, SegmentSource, TelemetryPart, choose_source
from skewscope.adapters.backtest.telemetry import NamedRecording
from skewscope.adapters.backtest.track import Segment, TrackSetup, read_signals
from skewscope.adapters.inputs.successive import NotSuccessiveError
from skewscope.engine.engine import order_incidents
from skewscope.engine.model.arrays import Mask
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.problems import InputError, Problem

MAX_REPEATS = 3
"""Times that a track whose worker is lost is fed again: the result does not depend on where it is judged."""
LabelReader = Callable[[float, float], tuple[float, tuple[FaultLabel, ...] | None]]


@dataclass(frozen=True)
class RecordingOutcome:
    """One recording and what each version of the rules tells of it."""

    name: str
    topology: Topology
    start: float
    end: float
    """Seconds since 1970."""
    samples: int
    labels: tuple[FaultLabel, ...] | None
    """What was wrong, with times in seconds after `start`; None where nobody said."""
    incidents: list[tuple[Incident, ...]] = field(default_factory=list)
    """By version."""

    @property
    def node_days(self) -> float:
        """Days of telemetry, of all nodes together."""
        return len(self.topology.nodes) * max(self.end - self.start, 0.0) / 86400


@dataclass(frozen=True)
class RunLimits:
    """How much one recording may take."""

    workers: int | None
    """Cores of this machine; None: all."""
    cuts: int | None
    """Into how many segments of equal length, less one, it is cut; None: by size."""


@dataclass
class _VersionRun:
    """A version of the rules, with the track that judges by it."""

    version: RuleSet
    track: PendingTrack | None = None
    """None once it was lost."""
    incidents: tuple[Incident, ...] | None = None

    def feed(self, shared: Any) -> None:
        """Hands the next segment to the track, unless that was lost."""
        try:
            if self.track is not None:
                self.track.feed(shared)
        except TrackLostError:
            self.track = None

    def finish(self) -> None:
        """Says that there are no more segments."""
        if self.track is not None:
            self.track.finish()

    def wait(self) -> None:
        """Takes the incidents, if they came."""
        try:
            self.incidents = self.track.wait() if self.track is not None else None
        except TrackLostError:
            self.incidents = None

    def has_room(self) -> bool:
        """Returns whether `feed` would not wait."""
        try:
            return self.track is None or self.track.has_room()
        except TrackLostError:
            self.track = None
            return True


class RecordingRun:
    """A recording that is judged by some versions of the rules."""

    def __init__(self, one: NamedRecording, versions: Sequence[RuleSet], pool: TrackPool, limits: RunLimits) -> None:
        self.one, self._pool, self._limits = one, pool, limits
        self._runs = [_VersionRun(version) for version in versions]
        self._source: SegmentSource | None = None

    def play(self, report: Report) -> Iterator[None]:
        """Reads the recording and feeds all tracks; yields after each segment."""
        # What ends with its input has not fallen silent: symptoms must know all inputs.
        successive = self._limits.cuts is None and not any(run.version.symptoms for run in self._runs)
        try:
            yield from self._play(successive, report)
        except NotSuccessiveError:
            for run in self._runs:
                if run.track is not None:
                    run.track.abandon()
            yield from self._play(False, lambda _what, _share: None)

    def _play(self, successive: bool, report: Report) -> Iterator[None]:
        self._source = choose_source(self.one.recording, self._limits.workers, successive=successive)
        yield from self._feed(self._source, self._runs, report)

    def _feed(self, source: SegmentSource, runs: Sequence[_VersionRun], report: Report) -> Iterator[None]:
        """Feeds the tracks of some versions with all segments."""
        part = source.open(report)
        setups = [_build_setup(part, run.version) for run in runs]
        for run, setup in zip(runs, setups, strict=True):
            run.track = self._pool.start(setup)
        for segment in source.cut(self._limits.cuts, _wanted_series(setups), report):
            self._share(segment, runs)
            yield
        for run in runs:
            run.finish()

    def _share(self, segment: Segment, runs: Sequence[_VersionRun]) -> None:
        shared = self._pool.share(segment)
        for run in runs:
            run.feed(shared)

    def has_room(self) -> bool:
        """Returns whether the next step of `play` would not wait for a worker."""
        return all(run.has_room() for run in self._runs)

    def wait(self, read_labels: LabelReader) -> RecordingOutcome:
        """Waits for the incidents of all versions; feeds those again that were lost.

        Raises:
            InputError: a track was lost again and again.
        """
        for run in self._runs:
            run.wait()
        for _ in range(MAX_REPEATS):
            self._repeat([run for run in self._runs if run.incidents is None])
        if any(run.incidents is None for run in self._runs):
            found = f"a track that was lost {MAX_REPEATS + 1} times"
            raise InputError([Problem("--ray", 0, "", found, "incidents")])
        return self._outcome(read_labels)

    def _repeat(self, lost: Sequence[_VersionRun]) -> None:
        if not lost:
            return
        source = choose_source(self.one.recording, self._limits.workers, successive=False)
        for _ in self._feed(source, lost, lambda _what, _share: None):
            pass
        for run in lost:
            run.wait()

    def _outcome(self, read_labels: LabelReader) -> RecordingOutcome:
        assert self._source is not None
        known = self._source.summary()
        start, labels = read_labels(known.start, known.end)
        topology = self.one.recording.topology
        incidents = [tuple(order_incidents(run.incidents or (), known.input_hash)) for run in self._runs]
        return RecordingOutcome(self.one.name, topology, start, known.end, known.samples, labels, incidents)


def _build_setup(part: TelemetryPart, version: RuleSet) -> TrackSetup:
    recording = part.recording
    assert recording.tick is not None
    return TrackSetup(recording.topology, part.keys, recording.tick, "", version, part.ends)


def _wanted_series(setups: Sequence[TrackSetup]) -> Mask:
    """Returns [series] whether a track reads it."""
    read = frozenset().union(*(read_signals(setup) for setup in setups))
    return np.array([key.signal in read for key in setups[0].keys], bool)
