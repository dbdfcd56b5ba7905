"""A recording played through the engine as fast as it goes."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skewscope.adapters.inputs.recording import Recording, RecordingData, load, open_recording
from skewscope.adapters.mapping.names import UnmappedMetric
from skewscope.adapters.runtime.runtime import Runtime, Snapshot, Span, build_runtime
from skewscope.adapters.view.builder import ViewBuilder
from skewscope.adapters.view.history import ViewHistory
from skewscope.engine.engine import TICK_S
from skewscope.engine.ingest.feed import Block, SeriesTable
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, Problem

Progress = Callable[[str, float], None]
"""Told what is being done, and the share of all work that is done."""

TickFilter = Callable[[Block, SeriesTable], Block]
"""What is left of a tick's samples."""

READ_SHARE = 0.8
"""Share of the work that is reading."""
MAX_GAP = 240.0
"""Seconds without a sample after which time leaps to the next one: what was known is long stale."""
MAX_TICKS = 10_000_000


@dataclass(frozen=True)
class ReplayResult:
    """What a recording gave."""

    incidents: tuple[Incident, ...]
    snapshots: tuple[Snapshot, ...]
    """The last one only, unless all were asked for."""
    topology: Topology
    warnings: tuple[str, ...]
    unmapped: Mapping[str, int]
    """Samples by what could not be made of them."""
    duration_s: float
    """Seconds of data."""
    samples: int
    signals: tuple[str, ...] = ()
    """Ids of the signals that ever had a value, in order."""


def replay(
    path: Path | Recording,
    *,
    progress: Progress | None = None,
    workers: int | None = 1,
    keep_snapshots: bool = False,
    through: Callable[[Topology], TickFilter] | None = None,
    film: ViewHistory | None = None,
) -> ReplayResult:
    """What the engine makes of a recording.

    Args:
        path: its folder, or the recording when it was opened already.
        progress: told how far it is.
        workers: processes that read; None: as many as processors. More than one are started by spawning, so a script
            that asks for them needs its `if __name__ == "__main__"`.
        keep_snapshots: keep what was known at every tick, not only at the end.
        film: takes what is known at every tick, for a console.
        through: makes, for a topology, what takes samples away from each tick, to see what a diagnosis rests on.

    Raises:
        InputError: all that is wrong with the recording, the catalogue or the rules.
    """
    tell = progress or (lambda _, __: None)
    recording = path if isinstance(path, Recording) else open_recording(path)
    known = catalogue()
    loaded = load(recording, known, lambda what, share: tell(f"read {what}", share * READ_SHARE), workers)
    with build_runtime(recording.topology, known, loaded.table) as machine:
        left = through(recording.topology) if through else _keep_all
        kept: list[Snapshot] = []
        takers = [kept.append] if keep_snapshots else []
        if film is not None:
            takers.append(_view_recorder(film, machine, recording))
        last = _play(loaded, recording, machine, left, takers, tell)
        signals = tuple(sorted(machine.coverage.signals()))
    return ReplayResult(
        last.incidents,
        tuple(kept or [last]),
        recording.topology,
        loaded.warnings,
        _count_by_reason(loaded.unmapped),
        max(0.0, loaded.end - loaded.start),
        len(loaded.block),
        signals,
    )


def _count_by_reason(unmapped: tuple[UnmappedMetric, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in unmapped:
        counts[f"{one.metric}: {one.reason}"] = one.count
    return counts


def _view_recorder(film: ViewHistory, machine: Runtime, recording: Recording) -> Callable[[Snapshot], None]:
    """What films each tick."""
    from skewscope.adapters.inputs.excerpt import write_excerpt  # noqa: PLC0415 - few keep a part

    film.topology = recording.topology
    film.exporter = lambda folder, begin, end: write_excerpt(recording, folder, begin, end)
    return ViewBuilder(machine.engine, film).update


def _keep_all(block: Block, _table: SeriesTable) -> Block:
    return block


def _play(
    loaded: RecordingData,
    recording: Recording,
    machine: Runtime,
    through: TickFilter,
    takers: Collection[Callable[[Snapshot], None]],
    tell: Progress,
) -> Snapshot:
    """What is known at the end; `takers` get what is known at every tick."""
    ends = list(tick_ends(loaded, recording))
    edges = np.searchsorted(loaded.block.time, ends, side="right")
    before = 0 if recording.start is None else int(np.searchsorted(loaded.block.time, recording.start))
    span = Span(loaded.start, loaded.end, loaded.input_hash)
    for number, (t, edge) in enumerate(zip(ends, edges.tolist(), strict=True)):
        block = loaded.block
        part = Block(block.time[before:edge], block.series[before:edge], block.value[before:edge])
        before = max(before, edge)
        machine.step(t, through(part, loaded.table))
        if takers:
            snapshot = machine.snapshot(t, span)
            for take in takers:
                take(snapshot)
        if number % 16 == 0:
            tell("diagnosing", READ_SHARE + (1 - READ_SHARE) * number / len(ends))
    tell("done", 1.0)
    return machine.snapshot(ends[-1] if ends else loaded.end, span)


def tick_ends(loaded: RecordingData, recording: Recording) -> Iterator[float]:
    """Ends of the ticks, at whole multiples of the tick; long stretches without any sample are left out.

    Raises:
        InputError: the samples span more ticks than make sense.
    """
    times = np.unique(np.ceil(loaded.block.time / TICK_S))
    if recording.start is not None:
        times = times[times >= math.floor(recording.start / TICK_S)]
    if recording.end is not None:
        times = times[times <= math.ceil(recording.end / TICK_S) + 1]
    if not len(times):
        return
    gap = np.minimum(np.diff(times, prepend=times[0]), MAX_GAP / TICK_S)
    if gap.sum() > MAX_TICKS:
        found = f"samples over {gap.sum() * TICK_S / 86400:.0f} days"
        raise InputError(
            [Problem(str(recording.path), 0, "", found, "a shorter recording", "Give start and end in it.")]
        )
    for end, back in zip(times.tolist(), gap.astype(int).tolist(), strict=True):
        for missing in range(back - 1, -1, -1):
            yield (end - missing) * TICK_S
        if not back:
            yield end * TICK_S
