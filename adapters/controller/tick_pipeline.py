"""One tick of a controller, in the thread that owns engine, store and recording."""

import itertools
import logging
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from skewscope.adapters.actions.effect import EffectMeter
from skewscope.adapters.actions.view import NOTHING_KNOWN, JudgementState
from skewscope.adapters.controller import agent_registry
from skewscope.adapters.controller.acknowledgements import ACKNOWLEDGED, WITHDRAWN
from skewscope.adapters.controller.agent_registry import AgentRecord
from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.controller.incident_restore import RestoredIncidents
from skewscope.adapters.controller.judgement_observer import JudgementObserver
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.recorder import Recorder
from skewscope.adapters.controller.silences import Silence, end_silence, match_silences
from skewscope.adapters.controller.store import IncidentEvent, Store
from skewscope.adapters.controller.store_place import StoreError
from skewscope.adapters.controller.uncertainty import UncertaintyCheck
from skewscope.adapters.controller.unplaced_series import ClaimedSeries, SeriesCounts, describe_gaps, merge_counts
from skewscope.adapters.controller.view_publisher import ViewPublisher
from skewscope.adapters.mapping.incident_nodes import endpoint_names
from skewscope.adapters.notify.open_reports import BelievedOpen, OpenReport, Place
from skewscope.adapters.notify.outbox import Outbox
from skewscope.adapters.runtime.runtime import Runtime, Snapshot, Span
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.adapters.view.member_history import MemberHistory
from skewscope.adapters.view.snapshot import SourceState
from skewscope.engine.advice.advice import ContextFact
from skewscope.engine.engine import SampleCounts
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import OF_GROUP, ON_NODE, Entity, GonePlaces, Topology

RESOLVED_SECONDS = 3600.0
"""Seconds that a resolved incident stays visible; the store keeps it longer."""
COVERAGE_TICKS = 10
"""Ticks between two computations of coverage, which is expensive and changes slowly."""
PROGRESS_TICKS = 10
"""Ticks between two writes of how long earlier incidents were not seen."""
CLEANUP_TICKS = 600
"""Ticks between two clean-ups."""
PRUNE_TICKS = 10
"""Ticks between two deletions of some incidents that are too old."""
UNPLACED_S = 60.0
"""Seconds for which many series have no place before that is said: a discovered topology follows within two scrapes."""
ROOM_TICKS = 60
"""Ticks between two looks at whether series that have long been silent could make room for others."""
MIN_SILENT = 1024
"""So many of them are worth another engine."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TickResult:
    """The immutable result of a tick."""

    snapshot: Snapshot
    events: tuple[IncidentEvent, ...]
    """Events of the tick."""
    samples: int
    series: int
    """Number of series in the engine."""
    late_samples: int
    """Samples that arrived too late, so far."""
    superseded_samples: int
    """Samples superseded by newer ones under overload, so far."""
    node_coverage: Mapping[str, float]
    """For each node, the share of its expected telemetry that arrives."""
    updated_notifiers: frozenset[str] = frozenset()
    """Notifiers with new notifications in the store."""
    store_ok: bool = True
    """Whether the store can be written."""
    recording_ok: bool = True
    """Whether the recording, if any, can be written."""
    judgement: JudgementState = NOTHING_KNOWN
    """How far incidents are judged; only where actions are planned."""
    engine_coverage: Mapping[str, float] = field(default_factory=dict)
    """For each group with a serving engine, 1 where its telemetry arrives and 0 where not."""
    gpu_coverage: Mapping[str, float] = field(default_factory=dict)
    """For each GPU that has had telemetry of its own, 1 where that arrives and 0 where not."""
    unjudged: frozenset[Place] = frozenset()
    """Places of `inherited` reports that cannot be judged at present."""
    gone: GonePlaces = field(default_factory=GonePlaces)
    """What has ended and is still in the topology."""


@dataclass
class TickPipeline:
    """Engine, store and recording of a controller."""

    runtime: Runtime
    batcher: Batcher
    store: Store
    restored: RestoredIncidents
    recorder: Recorder | None = None
    view_publisher: ViewPublisher = field(default_factory=ViewPublisher)
    members: MemberHistory = field(default_factory=MemberHistory)
    """What pictures of members over time are drawn from."""
    retention: float = 0.0
    """Seconds that resolved incidents are kept in the store; 0 for ever."""
    topology: Topology = field(default_factory=Topology)
    silences: list[Silence] = field(default_factory=list)
    """Active and future silences, and those that ended since the last tick."""
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    """Who acknowledged each incident, by its id; replaced as a whole."""
    context: tuple[ContextFact, ...] = ()
    """What policies are told from outside."""
    believed: Mapping[str, BelievedOpen] = field(default_factory=dict)
    """What receivers believe to be open, by event notifier, where that is certain."""
    inherited: tuple[OpenReport, ...] = ()
    """What other controllers have reported as open, and this one has not."""
    effects: EffectMeter | None = None
    """Measures the effect of actions; None where none are planned."""
    judgements: JudgementObserver = field(default_factory=JudgementObserver)
    t: float = -math.inf
    """End of the last tick, seconds since 1970."""
    needs_room: bool = False
    """Whether an owner has too many series, and another engine would leave out those that have long been silent."""
    gone: GonePlaces = field(default_factory=GonePlaces)
    """What has ended and is still in the topology."""
    incidents: tuple[Incident, ...] = ()
    """All incidents of the last tick."""
    store_writer: StoreWriter = field(init=False)
    claimed: ClaimedSeries = field(default_factory=ClaimedSeries, init=False)
    _started_at: float | None = None
    _ticks: int = 0
    _unplaced_since: float = math.inf
    """Since when many series have no place, seconds since 1970."""
    _says_unplaced: bool = False
    """Whether the log has said so."""
    _has_waits: bool = True
    """Whether the store may hold how long earlier incidents have waited."""
    _telemetry: tuple[tuple[SourceState, ...], tuple[str, ...]] = ((), ())
    _node_coverage: Mapping[str, float] = field(default_factory=dict)
    _engine_coverage: Mapping[str, float] = field(default_factory=dict)
    _gpu_coverage: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store_writer = StoreWriter(self.store)

    def step(
        self, t: float, batches: Mapping[str, Sequence[SourceBatch]], unplaced: SeriesCounts | None = None
    ) -> TickResult:
        """Processes the batches of sources for the tick that ends at `t`.

        Args:
            t: seconds since 1970.
            batches: by source.
            unplaced: the series for which the sources found no place.
        """
        self._started_at = t if self._started_at is None else self._started_at
        if self.recorder is not None:
            self.recorder.record(t, batches)
        block = self.batcher.build_block(itertools.chain.from_iterable(batches.values()), t)
        self.claimed.update(batches, self.batcher)
        self.runtime.engine.set_context(self.context)
        changes = self.runtime.step(t, block)
        self.t = t
        snapshot = self._take_snapshot(t)
        incidents, changes = self.restored.apply(t, snapshot.incidents, changes, self._uncertainty.verdict)
        self.incidents = incidents
        snapshot = replace(snapshot, incidents=incidents)
        self._expire_silences(t)
        hidden = match_silences(self.silences, incidents, self.topology, t)
        waiting = {one.id for one in self.restored.waiting_incidents()}
        self.store_writer.outbox.reopen(t, self.believed, waiting)
        self.store_writer.queue_notifications(t, incidents, hidden)
        # Only stored incidents are reported: an incident and its notifications are written together.
        events = self.store_writer.write_tick(t, incidents, changes)
        if self.store.recovered:
            self.store.recovered = False
            self.restored.adopt(t, self.store.open_incidents())
        unused = merge_counts(unplaced or {}, self.claimed.counts)
        missing = (*snapshot.missing, *self.troubles(), *self._report_unplaced(t, unplaced or {}))
        ids = {one.id for one in incidents}
        taken = {id_: who for id_, who in self.acknowledged.items() if id_ in ids}
        snapshot = replace(snapshot, silenced=hidden, acknowledged=taken, missing=missing, unplaced=unused)
        self.view_publisher.update(self.runtime.engine, snapshot, t)
        self.members.update(self.runtime.engine, snapshot)
        self._save_progress(t)
        self._clean_up(t)
        self._prune()
        self._look_for_room(t)
        self._ticks += 1
        series = len(self.batcher.table.keys)
        recorded = self.recorder is None or not self.recorder.trouble
        return TickResult(
            *(snapshot, events, len(block), series, self._count.dropped, self.batcher.superseded_values),
            *(self._node_coverage, self.store_writer.updated_notifiers, not self.store_writer.trouble, recorded),
            judgement=self._observe_judgement(t, incidents),
            engine_coverage=self._engine_coverage,
            gpu_coverage=self._gpu_coverage,
            unjudged=self._find_unjudged(t),
            gone=self.gone,
        )

    def _report_unplaced(self, t: float, unplaced: SeriesCounts) -> tuple[str, ...]:
        """Returns which sources have long had many series without a place; the log says so when it begins."""
        found = describe_gaps(unplaced, len(self.batcher.table.keys))
        if not found:
            self._unplaced_since, self._says_unplaced = math.inf, False
            return ()
        self._unplaced_since = min(self._unplaced_since, t)
        if t - self._unplaced_since < UNPLACED_S:
            return ()
        if not self._says_unplaced:
            log.warning("%s", " ".join(found))
        self._says_unplaced = True
        return found

    def retire(self, gone: GonePlaces, *, is_settled: bool) -> None:
        """Ends the incidents at places that have ended; nothing is told of them while they are among these.

        Args:
            gone: all that has ended and is still in the topology.
            is_settled: whether what is not in the topology is not there: an earlier incident of it has ended, too.
        """
        self.gone = self.runtime.coverage.gone = gone
        self.runtime.engine.retire(self.t, gone)
        known = {*self.topology.node, *self.topology.group, *(pool.name for pool in self.topology.pools)}

        def is_gone(one: Incident) -> bool:
            if gone.has(Entity(one.kind, one.name)):
                return True
            ends = endpoint_names(one.name) if one.kind in ON_NODE else [one.name.partition(":")[0]]
            return is_settled and one.kind in (*ON_NODE, *OF_GROUP, "pool") and not known.issuperset(ends)

        self.restored.end_waiting(self.t, is_gone)

    def _find_unjudged(self, t: float) -> frozenset[Place]:
        """Returns the places of inherited reports whose rule cannot be judged at present."""
        return frozenset(one.place for one in self.inherited if self._uncertainty.is_unknown(one.build_incident(t)))

    def _observe_judgement(self, t: float, incidents: Sequence[Incident]) -> JudgementState:
        """Measures the work of pools and groups; returns how far incidents are judged."""
        if self.effects is None:
            return NOTHING_KNOWN
        engine = self.runtime.engine
        self.effects.record(engine, t, incidents)
        inherited = {one.id for one in self.restored.waiting_incidents()}
        return self.judgements.observe(t, engine, incidents, inherited, self._uncertainty)

    def troubles(self) -> tuple[str, ...]:
        """Returns what cannot be stored, who has too many series, and what no replica is given, in sentences."""
        recorder = self.recorder.trouble if self.recorder else ""
        store = self.store_writer.trouble, self.store.damage, self.store.notice
        claimed, full = self.batcher.claimed_replicas, self.batcher.describe_overflow()
        return (*filter(None, (*store, recorder, full)), *(claimed[name] for name in sorted(claimed)))

    def _expire_silences(self, t: float) -> None:
        for one in [silence for silence in self.silences if silence.is_over(t)]:
            try:
                self.change_silence(t, "controller", "silence is over", end_silence(one, "time", t))
            except StoreError:
                return  # It suppresses nothing any more, and is written as soon as possible.

    def change_silence(self, t: float, who: str, what: str, silence: Silence) -> None:
        """Stores a new or changed silence.

        Raises:
            StoreError: it could not be written; nothing has changed.
        """
        self.store.write_silence(t, who, what, silence)
        self.silences = [one for one in self.silences if one.id != silence.id]
        if not silence.is_over(t):
            self.silences.append(silence)

    def acknowledge(self, t: float, who: str, incident: str, is_acknowledged: bool) -> None:
        """Stores who looks after an incident, or that nobody does any more.

        Raises:
            StoreError: it could not be written; nothing has changed.
        """
        what = ACKNOWLEDGED if is_acknowledged else WITHDRAWN
        self.store.add_audit_entry(t, who, what, {"incident": incident})
        others = {id_: name for id_, name in self.acknowledged.items() if id_ != incident}
        self.acknowledged = {**others, incident: who} if is_acknowledged else others

    def load_agents(self) -> list[AgentRecord]:
        """Returns the agents of the last run."""
        return self.store.agents()

    def save_agents(self, agents: Iterable[AgentRecord]) -> None:
        """Writes the agent registry; a failed write is retried later."""
        with suppress(StoreError), self.store.transaction() as connection:
            agent_registry.save_agents(connection, agents, self.store.elapsed.seconds)

    def replace_outbox(self, outbox: Outbox) -> None:
        """Writes notifications for other notifiers from now on."""
        try:
            self.store.restore_outbox(outbox)
        except StoreError as error:
            log.error("%s; the notifications of removed notifiers are kept", error)  # noqa: TRY400
        self.store_writer.outbox = outbox

    def close(self, t: float) -> None:
        """Writes pending data."""
        if self.recorder is not None:
            self.recorder.close()
        self.store_writer.add_audit_entry(t, "controller", "stopped", {})
        # Controllers that are restarted again and again must come to an end of what is over.
        with suppress(StoreError):
            self.store.save_progress(self.restored.waits)
        self.store.close()

    @cached_property
    def _uncertainty(self) -> UncertaintyCheck:
        return UncertaintyCheck(self.runtime.engine)

    @property
    def _count(self) -> SampleCounts:
        return self.runtime.engine.sample_counts

    def _take_snapshot(self, t: float) -> Snapshot:
        assert self._started_at is not None
        span = Span(self._started_at, t)
        if self._ticks % COVERAGE_TICKS == 0:
            self._telemetry = self.runtime.coverage.sources(t), self.runtime.coverage.missing()
            self._node_coverage = self.runtime.coverage.coverage_by_node(t)
            self._engine_coverage = self.runtime.coverage.coverage_by_engine(t)
            self._gpu_coverage = self.runtime.coverage.coverage_by_gpu(t)
        incidents = self.runtime.incidents(span)
        return Snapshot(t, span.start, span.end, incidents, *self._telemetry)

    def _save_progress(self, t: float) -> None:
        """Keeps what must go on over a restart: how long earlier incidents were not seen, and the time that passed."""
        self.store.elapsed.advance(t)
        waits = self.restored.waits
        often = PROGRESS_TICKS if waits or self._has_waits else CLEANUP_TICKS
        if self._ticks % often or self.store_writer.trouble:
            return
        with suppress(StoreError):
            self.store.save_progress(waits)
            self._has_waits = bool(waits)

    def _look_for_room(self, t: float) -> None:
        if self._ticks % ROOM_TICKS or not self.batcher.full_owners:
            return
        times = self.runtime.engine.newest_times(len(self.batcher.table.keys))
        self.needs_room = int(np.count_nonzero(self.batcher.silent_mask(times, t))) >= MIN_SILENT

    def _prune(self) -> None:
        if self._ticks % PRUNE_TICKS or not self.retention or self.store_writer.trouble:
            return
        with suppress(StoreError, sqlite3.Error):
            self.store.prune(self.retention)

    def _clean_up(self, t: float) -> None:
        if self._ticks % CLEANUP_TICKS:
            return
        self.runtime.engine.forget_incidents(t - RESOLVED_SECONDS)
        self.restored.forget_before(t - RESOLVED_SECONDS)
        if self.store_writer.trouble:
            return
        with suppress(StoreError, sqlite3.Error):
            self.store.forget_before(t - RESOLVED_SECONDS)
