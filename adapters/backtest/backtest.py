"""Runs a backtest: every recording judged by every version of the rules, in parallel."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skewscope.adapters.assessment.runner import FaultLabel, read_labels
from skewscope.adapters.backtest.pools import LocalPool, PendingTrack, ProcessPool, TrackPool
from skewscope.adapters.backtest.rule_set import RuleSet
from skewscope.adapters.backtest.telemetry import NamedRecording, load_telemetry
from skewscope.adapters.backtest.track import build_setup, cut_recording
from skewscope.adapters.inputs.recording import Recording, input_size
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology

READ_SHARE = 0.3
"""Share of the progress of a recording that reading takes."""
MIN_PARALLEL_BYTES = 4 << 20
"""So little is judged in this process: starting another one takes about as long."""
LABELS_FILE = "labels.json"
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class BacktestOptions:
    """How a backtest is run."""

    workers: int | None = None
    """Processes; None: as many as pay."""
    ray: str = ""
    """Address of a Ray cluster; '' for processes."""
    cuts: int | None = None
    """Into how many segments of equal length, less one, each recording is cut; None: by size."""


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
class BacktestOutcome:
    """What versions of the rules tell of some recordings."""

    versions: tuple[RuleSet, ...]
    recordings: tuple[RecordingOutcome, ...]


def run_backtest(
    recordings: Sequence[NamedRecording],
    versions: Sequence[RuleSet],
    options: BacktestOptions | None = None,
    progress: Progress | None = None,
) -> BacktestOutcome:
    """Judges recordings by versions of the rules.

    The outcome is that of judging each alone and uncut, whatever the options.

    Raises:
        InputError: a recording cannot be read, or what judges it cannot be reached.
    """
    options, report = options or BacktestOptions(), progress or (lambda _, __: None)
    pool = _open_pool(recordings, len(versions), options)
    try:
        found, pending = [], []
        for number, one in enumerate(_unique_names(recordings)):
            outcome, tracks = _play(one, versions, pool, options, _part_of(report, number, len(recordings)))
            found.append(outcome)
            pending.append(tracks)
        report("wait for workers", 1.0)
        for outcome, tracks in zip(found, pending, strict=True):
            outcome.incidents.extend(track.wait() for track in tracks)
    finally:
        pool.close()
    return BacktestOutcome(tuple(versions), tuple(found))


def _unique_names(recordings: Sequence[NamedRecording]) -> Iterator[NamedRecording]:
    """Yields the recordings; names that occur before get a number."""
    known: Counter[str] = Counter()
    for one in recordings:
        known[one.name] += 1
        yield one if known[one.name] == 1 else replace(one, name=f"{one.name} ({known[one.name]})")


def _part_of(report: Progress, number: int, count: int) -> Progress:
    """Returns a receiver of the progress of one of some parts of equal size."""
    return lambda what, share: report(what, (number + share) / count)


def _open_pool(recordings: Sequence[NamedRecording], versions: int, options: BacktestOptions) -> TrackPool:
    if options.ray:
        from skewscope.adapters.backtest.ray_pool import RayPool  # noqa: PLC0415 - an extra

        return RayPool(options.ray)
    workers = options.workers or _useful_workers([one.recording for one in recordings])
    # Even a single track gains: it is judged elsewhere while this process merges and cuts.
    return ProcessPool(max(min(workers, versions * len(recordings)), versions)) if workers > 1 else LocalPool()


def _useful_workers(recordings: Sequence[Recording]) -> int:
    size = sum(input_size(recording, source) for recording in recordings for source in recording.inputs)
    return (os.cpu_count() or 1) if size >= MIN_PARALLEL_BYTES else 1


def _play(
    one: NamedRecording, versions: Sequence[RuleSet], pool: TrackPool, options: BacktestOptions, report: Progress
) -> tuple[RecordingOutcome, list[PendingTrack]]:
    """Reads a recording and hands it to the pool; returns its outcome without incidents, and their tracks."""
    reading = f"read {one.name}"
    loaded, recording = load_telemetry(
        one.recording, lambda _, share: report(reading, READ_SHARE * share), options.workers
    )
    start, labels = _labels_of(recording.path, loaded.start, loaded.end)
    whole = RecordingOutcome(one.name, recording.topology, start, loaded.end, len(loaded.samples), labels)
    tracks: list[PendingTrack] = [pool.start(build_setup(loaded, recording, version)) for version in versions]
    length = max(loaded.end - loaded.start, 1e-9)
    for segment in cut_recording(loaded, recording, options.cuts):
        shared: Any = pool.share(segment)
        for track in tracks:
            track.feed(shared)
        done = min(max((float(segment.ends[-1]) - loaded.start) / length, 0.0), 1.0)
        report(f"judge {one.name}", READ_SHARE + (1 - READ_SHARE) * done)
    for track in tracks:
        track.finish()
    return whole, tracks


def _labels_of(folder: Path, begin: float, end: float) -> tuple[float, tuple[FaultLabel, ...] | None]:
    """Returns the time from which labels count, and the labels between two times; None without a file of them.

    All times are in seconds since 1970.
    """
    file = folder / LABELS_FILE
    if not file.is_file():
        return begin, None
    start, labels = read_labels(file)
    return start, tuple(one for one in labels if start + one.begin <= end and start + one.end >= begin)
