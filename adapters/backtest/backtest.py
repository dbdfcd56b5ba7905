"""Runs a backtest: every recording judged by every version of the rules, in parallel."""

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from skewscope.adapters.assessment.runner import FaultLabel, read_labels
from skewscope.adapters.backtest.pools import LocalPool, ProcessPool, TrackPool
from skewscope.adapters.backtest.rule_set import RuleSet
from skewscope.adapters.backtest.run import RecordingOutcome, RecordingRun, RunLimits
from skewscope.adapters.backtest.telemetry import NamedRecording
from skewscope.adapters.inputs.recording import Recording, input_size

MAX_AT_A_TIME = 4
"""Recordings that are read side by side: each takes memory."""
ENDED = object()
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
    named = list(_unique_names(recordings))
    told: Sequence[RecordingOutcome | None] = [None] * len(named)
    if options.ray and len(named) > 1 and options.cuts is None:
        from skewscope.adapters.backtest.ray_recordings import judge_recordings  # noqa: PLC0415 - an extra

        told = judge_recordings(options.ray, named, versions, report)
    left = [one for one, outcome in zip(named, told, strict=True) if outcome is None]
    rest = iter(_feed_all(left, versions, options, report))
    return BacktestOutcome(tuple(versions), tuple(outcome or next(rest) for outcome in told))


def _feed_all(
    recordings: Sequence[NamedRecording], versions: Sequence[RuleSet], options: BacktestOptions, report: Progress
) -> list[RecordingOutcome]:
    """Returns the outcomes of recordings that are read here and judged by a pool."""
    if not recordings:
        return []
    pool = _open_pool(recordings, len(versions), options)
    limits = RunLimits(options.workers, options.cuts)
    runs = [RecordingRun(one, versions, pool, limits) for one in recordings]
    try:
        _play_all(runs, max(1, min(pool.size // len(versions), MAX_AT_A_TIME)), report)
        report("wait for workers", 1.0)
        return [run.wait(partial(_labels_of, run.one.recording.path)) for run in runs]
    finally:
        pool.close()


def _play_all(runs: Sequence[RecordingRun], most: int, report: Progress) -> None:
    """Feeds the tracks of all recordings, so many recordings at a time."""
    shares = [0.0] * len(runs)

    def tell(number: int, what: str, share: float) -> None:
        shares[number] = max(share, shares[number])
        report(f"{what} {runs[number].one.name}", sum(shares) / len(runs))

    waiting = deque((run, run.play(partial(tell, number))) for number, run in enumerate(runs))
    active: list[tuple[RecordingRun, Iterator[None]]] = []
    while waiting or active:
        while waiting and len(active) < most:
            active.append(waiting.popleft())
        # Where no worker has room, the first is waited for.
        for one in [(run, steps) for run, steps in active if run.has_room()] or active[:1]:
            if next(one[1], ENDED) is ENDED:
                active.remove(one)


def _unique_names(recordings: Sequence[NamedRecording]) -> Iterator[NamedRecording]:
    """Yields the recordings; names that occur before get a number."""
    known: Counter[str] = Counter()
    for one in recordings:
        known[one.name] += 1
        yield one if known[one.name] == 1 else replace(one, name=f"{one.name} ({known[one.name]})")


def _open_pool(recordings: Sequence[NamedRecording], versions: int, options: BacktestOptions) -> TrackPool:
    if options.ray:
        from skewscope.adapters.backtest.ray_pool import RayPool  # noqa: PLC0415 - an extra

        return RayPool(options.ray, versions)
    workers = options.workers or _useful_workers([one.recording for one in recordings])
    # Even a single track gains: it is judged elsewhere while this process merges and cuts.
    return ProcessPool(max(workers, versions)) if workers > 1 else LocalPool()


def _useful_workers(recordings: Sequence[Recording]) -> int:
    size = sum(input_size(recording, source) for recording in recordings for source in recording.inputs)
    return (os.cpu_count() or 1) if size >= MIN_PARALLEL_BYTES else 1


def _labels_of(folder: Path, begin: float, end: float) -> tuple[float, tuple[FaultLabel, ...] | None]:
    """Returns the time from which labels count, and the labels between two times; None without a file of them.

    All times are in seconds since 1970.
    """
    file = folder / LABELS_FILE
    if not file.is_file():
        return begin, None
    start, labels = read_labels(file)
    return start, tuple(one for one in labels if start + one.begin <= end and start + one.end >= begin)
