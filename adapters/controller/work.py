"""One tick of a controller, in the thread that owns engine, store and recording; nothing else may touch these."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skewscope.adapters.controller.carried import Carried
from skewscope.adapters.controller.gathering import Gathering
from skewscope.adapters.controller.onlookers import Onlookers
from skewscope.adapters.controller.recorder import Recorder
from skewscope.adapters.controller.silences import Silence, ended, silenced
from skewscope.adapters.controller.store import Event, Store
from skewscope.adapters.machine import Machine, Snapshot, Span
from skewscope.adapters.scene import SourceState
from skewscope.adapters.sources.base import Batch
from skewscope.adapters.telling.outbox import Outbox, delivered
from skewscope.engine.incident import Incident
from skewscope.engine.panel import Count
from skewscope.engine.topology import Topology

KEPT = 3600.0
"""Seconds that an incident stays in sight after it resolved; the store keeps it longer."""
LOOK = 10
"""Ticks between two looks at who reports what: that changes slowly, and looking at all series is dear."""
TIDY = 600
"""Ticks between two times of throwing old things away."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a tick found out; it never changes."""

    snapshot: Snapshot
    events: tuple[Event, ...]
    """What happened in it."""
    samples: int
    series: int
    """That the engine knows."""
    late: int
    """Samples that came too late, so far."""
    passed_over: int
    """Samples that a newer one stood for, so far: too much had come at once."""
    covered: Mapping[str, float]
    """For each node, the share of its telemetry that comes."""
    mail: frozenset[str] = frozenset()
    """Tellers that have new letters in the store."""


@dataclass
class Work:
    """Engine, store and recording of a controller."""

    machine: Machine
    gathering: Gathering
    store: Store
    carried: Carried
    recorder: Recorder | None = None
    onlookers: Onlookers = field(default_factory=Onlookers)
    retention: float = 0.0
    """Seconds that resolved incidents are kept in the store; 0 for ever."""
    topology: Topology = field(default_factory=Topology)
    silences: list[Silence] = field(default_factory=list)
    """Those that hold, will, or ended by themselves while nobody looked."""
    outbox: Outbox = field(default_factory=lambda: Outbox({}))
    _begun: float | None = None
    _ticks: int = 0
    _seen: tuple[tuple[SourceState, ...], tuple[str, ...]] = ((), ())
    _covered: Mapping[str, float] = field(default_factory=dict)

    def step(self, t: float, handed: Mapping[str, Sequence[Batch]]) -> Known:
        """Takes in what sources handed over and judges the tick that ends at `t`."""
        self._begun = t if self._begun is None else self._begun
        if self.recorder is not None:
            self.recorder.take(t, handed)
        block = self.gathering.block(itertools.chain.from_iterable(handed.values()), t)
        changes = self.machine.step(t, block)
        snapshot = self._snapshot(t)
        incidents, changes = self.carried.over(t, snapshot.incidents, changes)
        snapshot = replace(snapshot, incidents=incidents)
        # Only what is on the disk is told.
        events = self.store.keep(t, incidents, changes)
        self._expire(t)
        hidden = silenced(self.silences, incidents, self.topology, t)
        mail = self._post(t, incidents, hidden)
        snapshot = replace(snapshot, silenced=hidden)
        self.onlookers.look(self.machine.diagnosis, snapshot, t)
        self._tidy(t)
        self._ticks += 1
        series = len(self.gathering.table.keys)
        return Known(
            *(snapshot, events, len(block), series, self._count.dropped, self.gathering.passed_over),
            *(self._covered, mail),
        )

    def _expire(self, t: float) -> None:
        for one in [silence for silence in self.silences if silence.over(t)]:
            self.change_silence(t, "controller", "silence is over", ended(one, "time", t))

    def change_silence(self, t: float, who: str, what: str, silence: Silence) -> None:
        """Takes in a silence that is new or another than before."""
        self.store.keep_silence(t, who, what, silence)
        self.silences = [one for one in self.silences if one.id != silence.id]
        if not silence.over(t):
            self.silences.append(silence)

    def _post(self, t: float, incidents: Sequence[Incident], hidden: Mapping[str, str]) -> frozenset[str]:
        """Puts letters into the store, and takes those out that have arrived; who has new ones."""
        found, arrived = self.outbox.turn(t, incidents, hidden), self.outbox.arrived()
        if found or arrived:
            with self.store.transaction() as connection:
                self.outbox.write(connection, t, found)
                delivered(connection, arrived)
        return frozenset(teller for teller, _ in found)

    def post_anew(self, outbox: Outbox) -> None:
        """Writes letters for other tellers from now on."""
        with self.store.transaction() as connection:
            outbox.open(connection)
        self.outbox = outbox

    def close(self, t: float) -> None:
        """Writes what is not written yet."""
        if self.recorder is not None:
            self.recorder.close()
        self.store.note(t, "controller", "stopped", {})
        self.store.close()

    @property
    def _count(self) -> Count:
        return self.machine.diagnosis.detector.panel.count

    def _snapshot(self, t: float) -> Snapshot:
        assert self._begun is not None
        span = Span(self._begun, t)
        if self._ticks % LOOK == 0:
            self._seen = self.machine.sight.sources(t), self.machine.sight.missing()
            self._covered = self.machine.sight.covered(t)
        incidents = self.machine.incidents(span)
        return Snapshot(t, span.start, span.end, incidents, *self._seen)

    def _tidy(self, t: float) -> None:
        if self._ticks % TIDY:
            return
        self.machine.diagnosis.incidents.forget(t - KEPT)
        self.carried.forget(t - KEPT)
        self.store.forget_before(t - KEPT)
        if self.retention:
            self.store.prune(t - self.retention)
