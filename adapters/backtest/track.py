"""One recording judged by one version of the rules: segments of time in, incidents out.

The engine goes on from segment to segment, so its state at a cut is exact: cutting cannot change a result. No overlap
would do instead: healthy pasts weigh exponentially, sampling periods and levels are learned from the first sample on,
and an incident may be open for longer than any overlap.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.backtest.rule_set import RuleSet
from skewscope.adapters.inputs.recording import Recording, RecordingData
from skewscope.adapters.runtime.playback import TickPlayer
from skewscope.adapters.runtime.replay import tick_ends
from skewscope.engine.advice.advice import PolicyEvaluator, ReferenceMatcher
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.engine import TICK_S, Engine, IncidentChange
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue

SEGMENT_SAMPLES = 1 << 20
"""A segment ends after so many samples ..."""
SEGMENT_TICKS = 3600
"""... or so many ticks."""


@dataclass(frozen=True)
class TrackSetup:
    """What a worker needs to judge one recording by one version of the rules."""

    topology: Topology
    keys: tuple[SeriesKey, ...]
    """All series, by number."""
    tick: float
    """Seconds of data that are judged at a time."""
    input_hash: str
    rule_set: RuleSet
    ends: Mapping[SeriesKey, float] = field(default_factory=dict)
    """When the inputs of series end, where that is known, in seconds since 1970."""


@dataclass(frozen=True)
class Segment:
    """A stretch of a recording: its ticks and their samples."""

    ends: F64
    """[tick] ends in seconds since 1970."""
    sizes: Index
    """[tick] number of samples."""
    block: Block
    """The samples, tick after tick."""
    sampled: Mask | None = None
    """[tick] whether a sample of any series came, also of one that is left out here; None: `sizes` tell."""

    @property
    def has_samples(self) -> Mask:
        """[tick] whether a sample of any series came."""
        return self.sizes > 0 if self.sampled is None else self.sampled


class Track:
    """The engine of one recording and one version of the rules."""

    def __init__(self, setup: TrackSetup) -> None:
        """Builds the engine.

        Raises:
            InputError: all problems of the policies.
        """
        rule_set = setup.rule_set
        program = compile_policies(rule_set.policies)
        # Both matchers give the same conclusions; this one needs no process of its own.
        advice = PolicyEvaluator(program, ReferenceMatcher(program))
        engine = Engine(
            rule_set.rules, catalogue(), setup.topology, advice, symptoms=rule_set.symptoms, tick=setup.tick
        )
        engine.expect_ends(setup.ends)
        table = SeriesTable(list(setup.keys), {key: number for number, key in enumerate(setup.keys)})
        self._player = TickPlayer(engine, table)
        self._input_hash = setup.input_hash

    @property
    def engine(self) -> Engine:
        """The engine, for questions about its state."""
        return self._player.engine

    def judge(self, segment: Segment) -> None:
        """Judges the next segment."""
        for _ in self.play(segment):
            pass

    def play(self, segment: Segment) -> Iterator[tuple[float, tuple[IncidentChange, ...]]]:
        """Judges the next segment; yields after each tick its end in seconds and the changes to incidents."""
        edges = np.concatenate(([0], np.cumsum(segment.sizes))).tolist()
        block = segment.block
        for n, (t, sampled) in enumerate(zip(segment.ends.tolist(), segment.has_samples.tolist(), strict=True)):
            some = slice(edges[n], edges[n + 1])
            part = Block(block.time[some], block.series[some], block.value[some])
            yield t, self._player.play(t, part, sampled=sampled)

    def list_incidents(self) -> tuple[Incident, ...]:
        """Returns all incidents, in the order of the contract."""
        return self._player.engine.list_incidents(self._input_hash)


def read_signals(setup: TrackSetup) -> frozenset[str]:
    """Returns the ids of the signals of which a track reads samples."""
    return Track(setup).engine.read_signals


def judge_track(setup: TrackSetup, segments: Iterator[Segment]) -> tuple[Incident, ...]:
    """Returns the incidents of a whole track: what processes and Ray do with the segments that they are fed."""
    track = Track(setup)
    for segment in segments:
        track.judge(segment)
    return track.list_incidents()


def build_setup(loaded: RecordingData, recording: Recording, rule_set: RuleSet) -> TrackSetup:
    """Returns the setup of a track of a recording whose tick is known."""
    tick = recording.tick or TICK_S
    ends = loaded.samples.list_ends(loaded.table)
    return TrackSetup(recording.topology, tuple(loaded.table.keys), tick, loaded.input_hash, rule_set, ends)


def cut_recording(
    loaded: RecordingData,
    recording: Recording,
    cuts: int | None = None,
    wanted: Mask | None = None,
    after: float | None = None,
) -> Iterator[Segment]:
    """Yields the segments of a recording in order of time.

    Args:
        loaded: its samples.
        recording: where they are from, with its tick.
        cuts: into how many segments of about equal length, less one; None: as many as fit into memory well.
        wanted: [series] whether its samples are needed; None: all are.
        after: the end of the tick before the first, in seconds, where the samples continue others.
    """
    ends = np.array(list(tick_ends(loaded, recording, after)))
    edges = loaded.samples.find_edges(ends, -np.inf if recording.start is None else recording.start)
    total = edges.sum(axis=0)
    most_ticks = SEGMENT_TICKS if cuts is None else max(1, -(-len(ends) // (cuts + 1)))
    first = 0
    while first < len(ends):
        last = min(first + most_ticks, len(ends))
        if cuts is None:
            full = int(np.searchsorted(total, total[first] + SEGMENT_SAMPLES, side="right")) - 1
            last = max(first + 1, min(last, full))
        block = loaded.samples.merge_part(edges[:, first], edges[:, last], wanted)
        sizes = np.diff(np.searchsorted(block.time, ends[first:last], side="right"), prepend=0)
        sampled = None if wanted is None else np.diff(total[first : last + 1]) > 0
        yield Segment(ends[first:last], sizes, block, sampled)
        first = last
