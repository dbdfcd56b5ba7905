"""One tick of a controller, in the thread that owns engine, store and recording; nothing else may touch these."""

import itertools
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from skewscope.adapters.controller import roll
from skewscope.adapters.controller.carried import Carried
from skewscope.adapters.controller.doubt import Doubt
from skewscope.adapters.controller.gathering import Gathering
from skewscope.adapters.controller.keeping import Keeping
from skewscope.adapters.controller.onlookers import Onlookers
from skewscope.adapters.controller.recorder import Recorder
from skewscope.adapters.controller.roll import Heard
from skewscope.adapters.controller.silences import Silence, ended, silenced
from skewscope.adapters.controller.store import Event, Store, StoreError
from skewscope.adapters.machine import Machine, Snapshot, Span
from skewscope.adapters.scene import SourceState
from skewscope.adapters.sources.base import Batch
from skewscope.adapters.telling.outbox import Outbox
from skewscope.engine.panel import Count
from skewscope.engine.topology import Topology

KEPT = 3600.0
"""Seconds that an incident stays in sight after it resolved; the store keeps it longer."""
LOOK = 10
"""Ticks between two looks at who reports what: that changes slowly, and looking at all series is dear."""
TIDY = 600
"""Ticks between two times of throwing old things away."""

log = logging.getLogger(__name__)


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
    stored: bool = True
    """Whether the store takes what is written."""
    recorded: bool = True
    """Whether the recording does, where there is one."""


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
    keeping: Keeping = field(init=False)
    _begun: float | None = None
    _ticks: int = 0
    _seen: tuple[tuple[SourceState, ...], tuple[str, ...]] = ((), ())
    _covered: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keeping = Keeping(self.store)

    def step(self, t: float, handed: Mapping[str, Sequence[Batch]]) -> Known:
        """Takes in what sources handed over and judges the tick that ends at `t`."""
        self._begun = t if self._begun is None else self._begun
        if self.recorder is not None:
            self.recorder.take(t, handed)
        block = self.gathering.block(itertools.chain.from_iterable(handed.values()), t)
        changes = self.machine.step(t, block)
        snapshot = self._snapshot(t)
        incidents, changes = self.carried.over(t, snapshot.incidents, changes, self._doubt.unknown)
        snapshot = replace(snapshot, incidents=incidents)
        self._expire(t)
        hidden = silenced(self.silences, incidents, self.topology, t)
        self.keeping.tell(t, incidents, hidden)
        # Only what is on the disk is told: an incident and the letters about it get there together.
        events = self.keeping.keep(t, incidents, changes)
        snapshot = replace(snapshot, silenced=hidden, missing=(*snapshot.missing, *self.troubles()))
        self.onlookers.look(self.machine.diagnosis, snapshot, t)
        self._tidy(t)
        self._ticks += 1
        series = len(self.gathering.table.keys)
        recorded = self.recorder is None or not self.recorder.trouble
        return Known(
            *(snapshot, events, len(block), series, self._count.dropped, self.gathering.passed_over),
            *(self._covered, self.keeping.mail, not self.keeping.trouble, recorded),
        )

    def troubles(self) -> tuple[str, ...]:
        """What is not kept, in sentences."""
        store, recorder = self.keeping.trouble, self.recorder.trouble if self.recorder else ""
        return tuple(trouble for trouble in (store, recorder) if trouble)

    def _expire(self, t: float) -> None:
        for one in [silence for silence in self.silences if silence.over(t)]:
            try:
                self.change_silence(t, "controller", "silence is over", ended(one, "time", t))
            except StoreError:
                return  # it hides nothing any more, and is written as soon as that can be

    def change_silence(self, t: float, who: str, what: str, silence: Silence) -> None:
        """Takes in a silence that is new or another than before.

        Raises:
            StoreError: it could not be written; nothing has changed.
        """
        self.store.keep_silence(t, who, what, silence)
        self.silences = [one for one in self.silences if one.id != silence.id]
        if not silence.over(t):
            self.silences.append(silence)

    def agents(self) -> list[Heard]:
        """The agents of before."""
        with suppress(StoreError), self.store.transaction() as connection:
            return roll.heard(connection)
        return []

    def remember(self, agents: Iterable[Heard], now: float) -> None:
        """Keeps which agents there are; where that cannot be, it is tried again another time."""
        with suppress(StoreError), self.store.transaction() as connection:
            roll.keep(connection, agents, now)

    def post_anew(self, outbox: Outbox) -> None:
        """Writes letters for other tellers from now on."""
        try:
            with self.store.transaction() as connection:
                outbox.open(connection)
        except StoreError as error:
            log.error("%s; what tellers that are no more were to be told stays there", error)  # noqa: TRY400
        self.keeping.outbox = outbox

    def close(self, t: float) -> None:
        """Writes what is not written yet."""
        if self.recorder is not None:
            self.recorder.close()
        self.keeping.note(t, "controller", "stopped", {})
        self.store.close()

    @cached_property
    def _doubt(self) -> Doubt:
        return Doubt(self.machine.diagnosis)

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
        if self.keeping.trouble:
            return
        with suppress(StoreError, sqlite3.Error):
            self.store.forget_before(t - KEPT)
            if self.retention:
                self.store.prune(t - self.retention)
