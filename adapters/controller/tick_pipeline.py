"""One tick of a controller, in the thread that owns engine, store and recording; nothing else may touch these."""

import itertools
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from skewscope.adapters.controller import agent_registry
from skewscope.adapters.controller.agent_registry import AgentRecord
from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.controller.incident_restore import RestoredIncidents
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.recorder import Recorder
from skewscope.adapters.controller.silences import Silence, end_silence, match_silences
from skewscope.adapters.controller.store import IncidentEvent, Store, StoreError
from skewscope.adapters.controller.uncertainty import UncertaintyCheck
from skewscope.adapters.controller.view_publisher import ViewPublisher
from skewscope.adapters.notify.outbox import Outbox
from skewscope.adapters.runtime.runtime import Runtime, Snapshot, Span
from skewscope.adapters.sources.base import SourceBatch
from skewscope.adapters.view.snapshot import SourceState
from skewscope.engine.ingest.series_state import SampleCounts
from skewscope.engine.model.topology import Topology

RESOLVED_SECONDS = 3600.0
"""Seconds that an incident stays in sight after it resolved; the store keeps it longer."""
COVERAGE_TICKS = 10
"""Ticks between two looks at who reports what: that changes slowly, and looking at all series is dear."""
CLEANUP_TICKS = 600
"""Ticks between two times of throwing old things away."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TickResult:
    """What a tick found out; it never changes."""

    snapshot: Snapshot
    events: tuple[IncidentEvent, ...]
    """What happened in it."""
    samples: int
    series: int
    """That the engine knows."""
    late_samples: int
    """Samples that came too late, so far."""
    superseded_samples: int
    """Samples that a newer one stood for, so far: too much had come at once."""
    node_coverage: Mapping[str, float]
    """For each node, the share of its telemetry that comes."""
    updated_notifiers: frozenset[str] = frozenset()
    """Tellers that have new letters in the store."""
    store_ok: bool = True
    """Whether the store takes what is written."""
    recording_ok: bool = True
    """Whether the recording does, where there is one."""


@dataclass
class TickPipeline:
    """Engine, store and recording of a controller."""

    runtime: Runtime
    batcher: Batcher
    store: Store
    restored: RestoredIncidents
    recorder: Recorder | None = None
    view_publisher: ViewPublisher = field(default_factory=ViewPublisher)
    retention: float = 0.0
    """Seconds that resolved incidents are kept in the store; 0 for ever."""
    topology: Topology = field(default_factory=Topology)
    silences: list[Silence] = field(default_factory=list)
    """Those that hold, will, or ended by themselves while nobody looked."""
    store_writer: StoreWriter = field(init=False)
    _started_at: float | None = None
    _ticks: int = 0
    _telemetry: tuple[tuple[SourceState, ...], tuple[str, ...]] = ((), ())
    _node_coverage: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store_writer = StoreWriter(self.store)

    def step(self, t: float, handed: Mapping[str, Sequence[SourceBatch]]) -> TickResult:
        """Takes in what sources handed over and judges the tick that ends at `t`."""
        self._started_at = t if self._started_at is None else self._started_at
        if self.recorder is not None:
            self.recorder.record(t, handed)
        block = self.batcher.build_block(itertools.chain.from_iterable(handed.values()), t)
        changes = self.runtime.step(t, block)
        snapshot = self._take_snapshot(t)
        incidents, changes = self.restored.apply(t, snapshot.incidents, changes, self._uncertainty.is_unknown)
        snapshot = replace(snapshot, incidents=incidents)
        self._expire_silences(t)
        hidden = match_silences(self.silences, incidents, self.topology, t)
        self.store_writer.queue_notifications(t, incidents, hidden)
        # Only what is on the disk is told: an incident and the letters about it get there together.
        events = self.store_writer.write_tick(t, incidents, changes)
        snapshot = replace(snapshot, silenced=hidden, missing=(*snapshot.missing, *self.troubles()))
        self.view_publisher.update(self.runtime.engine, snapshot, t)
        self._clean_up(t)
        self._ticks += 1
        series = len(self.batcher.table.keys)
        recorded = self.recorder is None or not self.recorder.trouble
        return TickResult(
            *(snapshot, events, len(block), series, self._count.dropped, self.batcher.superseded_values),
            *(self._node_coverage, self.store_writer.updated_notifiers, not self.store_writer.trouble, recorded),
        )

    def troubles(self) -> tuple[str, ...]:
        """What is not kept, in sentences."""
        store, recorder = self.store_writer.trouble, self.recorder.trouble if self.recorder else ""
        return tuple(trouble for trouble in (store, recorder) if trouble)

    def _expire_silences(self, t: float) -> None:
        for one in [silence for silence in self.silences if silence.is_over(t)]:
            try:
                self.change_silence(t, "controller", "silence is over", end_silence(one, "time", t))
            except StoreError:
                return  # it hides nothing any more, and is written as soon as that can be

    def change_silence(self, t: float, who: str, what: str, silence: Silence) -> None:
        """Takes in a silence that is new or another than before.

        Raises:
            StoreError: it could not be written; nothing has changed.
        """
        self.store.write_silence(t, who, what, silence)
        self.silences = [one for one in self.silences if one.id != silence.id]
        if not silence.is_over(t):
            self.silences.append(silence)

    def load_agents(self) -> list[AgentRecord]:
        """The agents of before."""
        with suppress(StoreError), self.store.transaction() as connection:
            return agent_registry.load_agents(connection)
        return []

    def save_agents(self, agents: Iterable[AgentRecord], now: float) -> None:
        """Keeps which agents there are; where that cannot be, it is tried again another time."""
        with suppress(StoreError), self.store.transaction() as connection:
            agent_registry.save_agents(connection, agents, now)

    def replace_outbox(self, outbox: Outbox) -> None:
        """Writes letters for other tellers from now on."""
        try:
            with self.store.transaction() as connection:
                outbox.restore(connection)
        except StoreError as error:
            log.error("%s; what tellers that are no more were to be told stays there", error)  # noqa: TRY400
        self.store_writer.outbox = outbox

    def close(self, t: float) -> None:
        """Writes what is not written yet."""
        if self.recorder is not None:
            self.recorder.close()
        self.store_writer.add_audit_entry(t, "controller", "stopped", {})
        self.store.close()

    @cached_property
    def _uncertainty(self) -> UncertaintyCheck:
        return UncertaintyCheck(self.runtime.engine)

    @property
    def _count(self) -> SampleCounts:
        return self.runtime.engine.detector.series_state.counts

    def _take_snapshot(self, t: float) -> Snapshot:
        assert self._started_at is not None
        span = Span(self._started_at, t)
        if self._ticks % COVERAGE_TICKS == 0:
            self._telemetry = self.runtime.coverage.sources(t), self.runtime.coverage.missing()
            self._node_coverage = self.runtime.coverage.coverage_by_node(t)
        incidents = self.runtime.incidents(span)
        return Snapshot(t, span.start, span.end, incidents, *self._telemetry)

    def _clean_up(self, t: float) -> None:
        if self._ticks % CLEANUP_TICKS:
            return
        self.runtime.engine.incidents.forget(t - RESOLVED_SECONDS)
        self.restored.forget_before(t - RESOLVED_SECONDS)
        if self.store_writer.trouble:
            return
        with suppress(StoreError, sqlite3.Error):
            self.store.forget_before(t - RESOLVED_SECONDS)
            if self.retention:
                self.store.prune(t - self.retention)
