"""Replays a recording through the engine as fast as possible."""

import gc
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skewscope.adapters.formats.bounds import WORK_SECONDS
from skewscope.adapters.inputs.concurrent import ConcurrentInputs, NotConcurrentError, choose_readers
from skewscope.adapters.inputs.merge import drop_rival_engines
from skewscope.adapters.inputs.recording import Recording, RecordingData, combine_results, load, open_recording
from skewscope.adapters.mapping.engines import EngineLedger
from skewscope.adapters.mapping.names import UnmappedMetric
from skewscope.adapters.runtime.pace import choose_tick, work_seconds
from skewscope.adapters.runtime.read_ahead import (
    FIRST_DEPTH,
    ReadAheadSamples,
    SeriesAddedError,
    wait_for_depth,
    wait_for_stretch,
)
from skewscope.engine.ingest.feed import TICK_S, Block, SeriesTable
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.parameters import MIN_PAST
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue
from skewscope.kb.model import OTHER_AREA
from skewscope.kb.problems import InputError, Problem

if TYPE_CHECKING:  # readers begin before the engine is imported, which takes as long as reading seconds of a capture
    from skewscope.adapters.runtime.runtime import Runtime, Snapshot
    from skewscope.adapters.view.builder import ViewHistory
    from skewscope.engine.model.finding import Finding

Progress = Callable[[str, float], None]
"""Receives the current step and the share of all work that is done."""

TickFilter = Callable[[Block, SeriesTable], Block]
"""Returns the samples of a tick that the engine gets."""

READ_SHARE = 0.5
"""Share of the work that reading takes."""
MAX_GAP = 240.0
"""Seconds without a sample after which ticks are skipped: all values are stale by then."""
MAX_TICKS = 10_000_000
OBJECTS_PER_COLLECTION = 250_000
"""New objects after which Python searches for garbage in cycles, of which a replay makes hardly any."""


@dataclass(frozen=True)
class ReplayResult:
    """Result of a replay."""

    incidents: tuple[Incident, ...]
    snapshots: "tuple[Snapshot, ...]"
    """The last one, or one per tick with `keep_snapshots`."""
    topology: Topology
    warnings: tuple[str, ...]
    unmapped: Mapping[str, int]
    """Number of unmapped series, by metric and reason."""
    duration_s: float
    """Seconds of data."""
    samples: int
    signals: tuple[str, ...] = ()
    """Ids of the signals that have had a value, in order."""
    tick_s: float = TICK_S
    """Seconds of data that were judged at a time."""
    judged: tuple[str, ...] = ()
    """Ids of those signals, in order, of which it could be told whether they are normal."""
    unread: tuple[str, ...] = ()
    """What messages call the inputs that were left out since they cannot be read."""
    moments: int = 0
    """Ticks with samples."""
    doubts: "tuple[Finding, ...]" = ()
    """What may be bad and cannot be judged, as nothing like it was seen before."""

    @property
    def is_watched(self) -> bool:
        """Whether there are readings enough to compare the newest one with those before."""
        return self.moments >= MIN_PAST

    @property
    def is_enough(self) -> bool:
        """Whether no incident means that all is well: all was read, and nothing doubtful is among what was judged.

        Half of the signals have to be judged, for a while.
        """
        # Of what is known by the words of its name only, silence says little.
        judged = {id_ for id_ in {*self.judged} & {*self.signals} if not id_.startswith(OTHER_AREA)}
        is_judged = self.is_watched and bool(judged) and 2 * len(judged) >= len(self.signals)
        return is_judged and not self.unread and not self.doubts


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Lets Python search for garbage less often for a while."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], OBJECTS_PER_COLLECTION) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@_rare_collections()
def replay(
    path: Path | Recording,
    *,
    progress: Progress | None = None,
    workers: int | None = 1,
    keep_snapshots: bool = False,
    through: Callable[[Topology], TickFilter] | None = None,
    history: "ViewHistory | None" = None,
    most_seconds: float = math.inf,
) -> ReplayResult:
    """Replays a recording and returns its incidents.

    Args:
        path: folder of the recording, or an opened recording.
        progress: receives the progress.
        workers: processes that read the inputs and judge them; None: as many as pay. More than one are copies of this
            one, or spawned, so a script that asks for them needs `if __name__ == "__main__"`.
        keep_snapshots: keep the snapshot of every tick, not only the last one.
        through: builds a filter of samples for a topology, to test what a diagnosis rests on.
        history: receives a view of every tick, for a console.
        most_seconds: refuse what takes longer to diagnose, by an estimate.

    Raises:
        InputError: all problems of the recording, the catalogue or the rules.
    """
    report = progress or (lambda _, __: None)
    recording = path if isinstance(path, Recording) else open_recording(path)
    every_tick = keep_snapshots or history is not None
    known = catalogue()
    if through is None and not every_tick and recording.tick == TICK_S and (n := choose_readers(recording, workers)):
        try:
            with ConcurrentInputs(recording, known, n) as inputs:
                return _replay_while_reading(inputs, recording, report, most_seconds)
        except NotConcurrentError:
            pass
    from skewscope.adapters.runtime.runtime import build_runtime  # noqa: PLC0415

    loaded = load(recording, known, lambda what, share: report(f"read {what}", share * READ_SHARE), workers)
    tick = recording.tick or choose_tick(loaded.samples.tick_numbers(TICK_S), loaded.table)
    recording = replace(recording, tick=tick)
    _check_work(loaded, recording, most_seconds, every_tick=every_tick)
    with build_runtime(recording.topology, known, loaded.table, tick=tick) as runtime:
        runtime.engine.expect_ends(loaded.samples.list_ends(loaded.table))
        keep = through(recording.topology) if through else _keep_all
        kept: list[Snapshot] = []
        sinks = [kept.append] if keep_snapshots else []
        if history is not None:
            sinks.append(_view_recorder(history, runtime, recording))
        last = _play(loaded, recording, runtime, keep, sinks, report)
        return _build_result(loaded, recording, runtime, kept or [last])


def _build_result(
    loaded: RecordingData, recording: Recording, runtime: "Runtime", snapshots: "Sequence[Snapshot]"
) -> ReplayResult:
    """Returns the result of a replay after its last tick."""
    return ReplayResult(
        snapshots[-1].incidents,
        tuple(snapshots),
        recording.topology,
        loaded.warnings,
        _count_by_reason(loaded.unmapped),
        max(0.0, loaded.end - loaded.start),
        len(loaded.samples),
        tuple(sorted(runtime.coverage.signals())),
        recording.tick or TICK_S,
        tuple(sorted(runtime.engine.judged_signals())),
        loaded.unread,
        len(loaded.samples.tick_numbers(recording.tick or TICK_S)),
        runtime.engine.doubts(),
    )


def _replay_while_reading(
    inputs: ConcurrentInputs, recording: Recording, report: Progress, most_seconds: float
) -> ReplayResult:
    """Replays a recording whose inputs other processes read; the result is that of reading them before.

    Raises:
        NotConcurrentError: they must be read before.
        InputError: a process ended; or all problems of the catalogue or the rules.
    """
    from skewscope.adapters.runtime.runtime import Span, build_runtime  # noqa: PLC0415

    known = catalogue()
    inputs.read_rest(lambda what, share: report(f"read {what}", share * READ_SHARE))
    depth: float = FIRST_DEPTH
    while True:
        table = SeriesTable()
        with build_runtime(recording.topology, known, table) as runtime:
            wait_for_depth(inputs, depth, lambda share: report("read inputs", share * READ_SHARE))
            whole = drop_rival_engines(inputs.list_whole(), EngineLedger(recording.topology), known)[0]
            samples = ReadAheadSamples(inputs, whole, table)
            runtime.engine.expect_ends(samples.list_ends())
            try:
                end = _play_while_reading(samples, inputs, recording, runtime, report, most_seconds)
            except SeriesAddedError:
                # Twice as much as was known before: however often series come, little is judged in vain.
                depth = max(2 * depth, inputs.depth)
                continue
            loaded = combine_results(recording, known, inputs.list_results())
            if table.keys[: len(loaded.table.keys)] != loaded.table.keys:
                raise NotConcurrentError  # what one input tells of engines excludes series of another one
            _check_work(loaded, recording, most_seconds, every_tick=False)
            span = Span(loaded.start, loaded.end, loaded.input_hash)
            if end is not None:
                runtime.engine.conclude(end)
            last = runtime.snapshot(loaded.end if end is None else end, span)
            report("done", 1.0)
            return _build_result(loaded, recording, runtime, [last])


def _play_while_reading(
    samples: ReadAheadSamples,
    inputs: ConcurrentInputs,
    recording: Recording,
    runtime: "Runtime",
    report: Progress,
    most_seconds: float,
) -> float | None:
    """Plays all ticks as their samples come; returns the end of the last one in seconds, None without any."""
    from skewscope.adapters.runtime.playback import TickPlayer  # noqa: PLC0415

    player = TickPlayer(runtime.engine, samples.table)
    start = -math.inf if recording.start is None else recording.start
    until, last, ticks, sampled, done = -math.inf, None, 0, 0, 0.0
    while until < math.inf:
        before, until = until, wait_for_stretch(inputs, until)
        part = samples.take_samples(before, until)
        ends = list(tick_ends(RecordingData(part, samples.table, 0.0, 0.0, ""), recording, last))
        ticks, sampled = ticks + len(ends), sampled + len(part.tick_numbers(TICK_S))
        if ticks > MAX_TICKS or work_seconds(sampled, samples.table) > most_seconds:
            raise NotConcurrentError  # `replay` tells how much it is
        for t, block in zip(ends, part.cut(ends, start), strict=True):
            if not player.leave_out(t, block):
                player.step(t, block)
            inputs.receive(0.0)
            samples.check_series()
        last = ends[-1] if ends else last
        done = max(done, READ_SHARE * inputs.share_read + (1 - READ_SHARE) * samples.progress)
        report("diagnosing", done)
    return last


def _check_work(loaded: RecordingData, recording: Recording, most_seconds: float, *, every_tick: bool) -> None:
    """Raises InputError where diagnosing takes longer than it may.

    Args:
        loaded: the samples.
        recording: where they are from.
        most_seconds: seconds of work that are allowed.
        every_tick: whether ticks without a sample are evaluated as well.
    """
    if not math.isfinite(most_seconds):
        return
    sampled = loaded.samples.tick_numbers(recording.tick or TICK_S)
    ticks = sum(1 for _ in tick_ends(loaded, recording)) if every_tick else len(sampled)
    seconds, series = work_seconds(ticks, loaded.table), len(loaded.table.keys)
    if seconds > most_seconds:
        found = f"about {seconds:.0f} s of work ({ticks} ticks of {series} series)"
        raised = f"{WORK_SECONDS.variable}={2 * math.ceil(seconds)} allows more."
        hint = f"Give a shorter span, with start and end or --from and --to. {raised}"
        raise InputError([Problem(str(recording.path), 0, "", found, f"at most {most_seconds:g} s", hint)])


def _count_by_reason(unmapped: tuple[UnmappedMetric, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in unmapped:
        counts[f"{one.metric}: {one.reason}"] = one.count
    return counts


def _view_recorder(history: "ViewHistory", runtime: "Runtime", recording: Recording) -> "Callable[[Snapshot], None]":
    """Returns a function that adds the view of each tick to a history."""
    from skewscope.adapters.inputs.excerpt import write_excerpt  # noqa: PLC0415 - rarely used
    from skewscope.adapters.view.builder import ViewBuilder  # noqa: PLC0415 - rarely used

    history.topology = recording.topology
    history.exporter = lambda folder, begin, end: write_excerpt(recording, folder, begin, end)
    return ViewBuilder(runtime.engine, history).update


def _keep_all(block: Block, _table: SeriesTable) -> Block:
    return block


def _play(
    loaded: RecordingData,
    recording: Recording,
    runtime: "Runtime",
    through: TickFilter,
    sinks: "Collection[Callable[[Snapshot], None]]",
    report: Progress,
) -> "Snapshot":
    """Plays all ticks and returns the last snapshot; `sinks` receive the snapshot of every tick."""
    from skewscope.adapters.runtime.playback import TickPlayer  # noqa: PLC0415
    from skewscope.adapters.runtime.runtime import Span  # noqa: PLC0415

    ends = list(tick_ends(loaded, recording))
    parts = loaded.samples.cut(ends, -math.inf if recording.start is None else recording.start)
    span = Span(loaded.start, loaded.end, loaded.input_hash)
    player = TickPlayer(runtime.engine, runtime.table)
    for number, (t, part) in enumerate(zip(ends, parts, strict=True)):
        if not sinks and player.leave_out(t, part):
            continue
        player.step(t, through(part, loaded.table))
        if t == ends[-1]:
            runtime.engine.conclude(t)
        if sinks:
            snapshot = runtime.snapshot(t, span)
            for add in sinks:
                add(snapshot)
        if number % 16 == 0:
            report("diagnosing", READ_SHARE + (1 - READ_SHARE) * number / len(ends))
    report("done", 1.0)
    return runtime.snapshot(ends[-1] if ends else loaded.end, span)


def tick_ends(loaded: RecordingData, recording: Recording, after: float | None = None) -> Iterator[float]:
    """Yields the ends of the ticks, whole multiples of the tick length; long gaps without samples are skipped.

    Args:
        loaded: the samples.
        recording: where they are from, with its tick.
        after: the end of the tick before the first, in seconds, where the samples continue others.

    Raises:
        InputError: the samples span more than `MAX_TICKS` ticks.
    """
    tick = recording.tick or TICK_S
    times = loaded.samples.tick_numbers(tick)
    if recording.start is not None:
        times = times[times >= math.floor(recording.start / tick)]
    if recording.end is not None:
        times = times[times <= math.ceil(recording.end / tick) + 1]
    if not len(times):
        return
    before = times[0] if after is None else round(after / tick)
    gap = np.minimum(np.diff(times, prepend=before), MAX_GAP / tick)
    if gap.sum() > MAX_TICKS:
        found = f"samples over {gap.sum() * tick / 86400:.0f} days"
        raise InputError(
            [Problem(str(recording.path), 0, "", found, "a shorter recording", "Give start and end in it.")]
        )
    for end, back in zip(times.tolist(), gap.astype(int).tolist(), strict=True):
        for missing in range(back - 1, -1, -1):
            yield (end - missing) * tick
        if not back:
            yield end * tick
