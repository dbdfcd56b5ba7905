"""The controller: each second it passes the batches of sources to the engine, which runs in a thread of its own.

Only the controller and the sources read the clock. When a tick takes longer than a second no queue builds up: the next
tick takes everything that arrived meanwhile, and the skipped seconds are counted.
"""

import asyncio
import gc
import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ParamSpec, TypeVar

from skewscope.adapters import notify
from skewscope.adapters.actions.approval_links import make_acknowledge_link
from skewscope.adapters.actions.shared_ledger import SharedLedger
from skewscope.adapters.controller.acknowledgements import MAX_READ, SUBJECT, read_acknowledgements
from skewscope.adapters.controller.action_failover import SharedActions
from skewscope.adapters.controller.action_service import ActionService, StoreAdapter, make_proposal_link
from skewscope.adapters.controller.agent_receiver import SOURCE_NAME, AgentReceiver, AgentSource
from skewscope.adapters.controller.config import ComponentConfig, ControllerConfig
from skewscope.adapters.controller.election_participant import ControllerParticipant
from skewscope.adapters.controller.engine_change import PreparedEngine, can_take_over, prepare_engine
from skewscope.adapters.controller.incident_restore import RestoredIncidents
from skewscope.adapters.controller.judgement_observer import JudgementObserver
from skewscope.adapters.controller.leader_election import RENEW_SHARE, LeaderElection
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.recorder import Recorder
from skewscope.adapters.controller.silences import Silence
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.controller.store_file import find_damage
from skewscope.adapters.controller.tick_pipeline import TickPipeline, TickResult
from skewscope.adapters.controller.topology_follower import TopologyFollower, is_same_for_engine
from skewscope.adapters.controller.view_publisher import ViewPublisher
from skewscope.adapters.discovery.living_topology import DrawnTopology, LivingTopology
from skewscope.adapters.discovery.sightings import see_series
from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.notify.base import NotificationScope, PicturedNotifier
from skewscope.adapters.notify.dispatcher import Dispatcher, is_event_notifier
from skewscope.adapters.notify.outbox import Outbox
from skewscope.adapters.runtime.blocking_calls import WORK
from skewscope.adapters.runtime.clock import Clock, SystemClock
from skewscope.adapters.runtime.elapsed_time import ClockChanges
from skewscope.adapters.runtime.tasks import record_failure, start_job, wait_for_first
from skewscope.adapters.sources import SourceContext, source_kinds
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.adapters.sources.common.supervisor import SourceStatus, SourceSupervisor
from skewscope.adapters.view.member_history import MemberHistory, PictureRenderer
from skewscope.engine.actions.action import Action
from skewscope.engine.engine import TICK_S
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue, installed_catalogue, use_catalogue
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import SkewscopeError

MAX_SET_BACK = 5.0
"""Seconds of a clock set-back that are simply waited for, and by which it may be set forward without notice."""
AGENT_SAVE_TICKS = 60
"""Ticks between two writes of the agent registry."""
READ_BY = ("topology", "discovers", "knowledge")
"""Fields of the config by which series of sources are mapped."""
FOLLOWING_KINDS = ("scrape", "doca-telemetry", "prometheus-query", "remote-write", "otlp")
"""Kinds of sources that map their series anew without a restart when the topology is another one."""
ROOM_PERIOD = 60.0
"""Seconds between two tries to make room for series."""
GC_FREEZE_TICKS = 10
"""Ticks without new series after which existing objects are excluded from garbage collection."""

P = ParamSpec("P")
T = TypeVar("T")
Subscriber = Callable[[TickResult], None]
"""Called with the result of each tick; must not block."""

log = logging.getLogger(__name__)


@dataclass
class TickStats:
    """Statistics of ticks."""

    ticks: int = 0
    skipped: int = 0
    """Seconds skipped because a tick took longer than one second."""
    duration: float = 0.0
    """Duration of the last tick in seconds."""


@dataclass
class Controller:
    """All components behind the API."""

    config: ControllerConfig
    clock: Clock = field(default_factory=SystemClock)
    last_result: TickResult | None = None
    """Result of the last tick; None before the first."""
    subscribers: list[Subscriber] = field(default_factory=list)
    tick_stats: TickStats = field(default_factory=TickStats)
    catalogue: Catalogue = field(default_factory=catalogue)
    _deliveries: deque[tuple[str, int]] = field(default_factory=deque)
    """Notifiers, and the numbers up to which their notifications are delivered."""
    _leftover: dict[str, list[SourceBatch]] = field(default_factory=dict)
    """Remaining batches of stopped sources."""
    _steady: tuple[int, int] = (0, 0)
    """Series at the last tick, and the number of ticks with that count."""

    is_reloaded: bool = True
    """Whether the last reload of the config, if there was one, was applied."""
    is_judging: bool = False
    """Whether the samples of a tick are being judged."""
    _saved_agents: int = 0
    """Number of agents at the last write of the registry."""
    discovery: TopologyFollower | None = None
    """Follows who there is, where that is discovered."""
    pictures: PictureRenderer | None = None
    """Draws incidents as text for chats; None where nothing does."""

    def __post_init__(self) -> None:
        if self.config.knowledge is not None:
            self._use_knowledge()
        self.supervisor = SourceSupervisor(self.clock)
        self.receiver = AgentReceiver(self.config.topology, self.clock, speakers=self.config.speakers)
        self.reader = StoreReader(self.config.store, lambda: self.is_store_pending, self._make_link)
        self.dispatcher = Dispatcher(self.clock, self.reader.notifications, self._record_delivery)
        self.election = LeaderElection(
            self.config.leader,
            ControllerParticipant(
                self.dispatcher,
                self.clock,
                self.seconds_since_tick,
                lambda: self.tick_stats.duration,
                self._audit_leadership,
            ),
        )
        self.dispatcher.is_active = lambda: self.is_leader
        self.dispatcher.publish = self.election.publish
        if self.config.leader:
            self.dispatcher.handover.is_shared = True
            self.dispatcher.handover.margin += 2 * RENEW_SHARE * self.config.leader.lease
        self.subscribers.append(self._dispatch)
        self.subscribers.append(self._step_actions)
        self._action_store = self._create_action_store()
        self.actions = self._create_actions()
        self.view_publisher = ViewPublisher()
        self.members = MemberHistory()
        self._pool = ThreadPoolExecutor(1, "engine")
        self._stack = ExitStack()
        self._pipeline: TickPipeline | None = None
        self._t = -math.inf
        self._ticked_at: float | None = None
        self._clock_changes = ClockChanges(self.clock, MAX_SET_BACK)
        self._reloading = asyncio.Lock()
        self._use_config(self.config)
        self._is_partial = False
        self._is_closing = False
        self._making_room: asyncio.Task[None] | None = None
        self._room_due = 0.0

    # --- life cycle

    async def start(self) -> None:
        """Opens store and engine, and starts the sources.

        Raises:
            InputError: the store or the rules are invalid.
        """
        self._pipeline = await self._run_in_thread(self._create_pipeline)
        self._update_wanted_signals()
        await self._run_in_thread(lambda: self.actions.load(self._active_pipeline.store, self.clock.now()))
        self.receiver.expect_agents(await self._run_in_thread(self._active_pipeline.load_agents))
        self.supervisor.start(AgentSource(self.receiver, self.clock))
        for requested in self.config.sources:
            self._start_source(requested)
        await self._restart_notifiers()
        await self._run_in_thread(self._add_audit_entry, "started")
        self.election.start()
        start_job("check of the store", self._check_store())

    async def _check_store(self) -> None:
        """Looks for damaged pages beside the ticks: a large store takes minutes."""
        found = await WORK.run(find_damage, self.config.store, lambda: self._is_closing)
        if found:
            log.error("%s", found)
            self._active_pipeline.store.damage = found

    async def run(self, stop: asyncio.Event) -> None:
        """Ticks until stopped; the remaining batches are processed at the end."""
        try:
            while not stop.is_set():
                await self.tick(stop)
        finally:
            await self._close()

    async def tick(self, stop: asyncio.Event | None = None) -> None:
        """Waits for the end of the next whole second, or for the stop, and processes it."""
        begun, change = self.clock.now(), self._clock_changes.take()
        if change > 0:
            self._handle_set_forward(change)
        if self._t - begun > MAX_SET_BACK:
            await self._handle_set_back(self._t - begun)
            begun = self.clock.now()
        end = max((math.floor((begun - self.config.grace) / TICK_S) + 1) * TICK_S, self._t + TICK_S)
        await wait_for_first(
            self.clock.sleep(end + self.config.grace - begun), *([stop.wait()] if stop is not None else [])
        )
        if math.isfinite(self._t):
            self.tick_stats.skipped += max(round((end - self._t - max(change, 0.0)) / TICK_S) - 1, 0)
        self._t = end
        await self._run_tick(end)

    def _handle_set_forward(self, seconds: float) -> None:
        log.warning("the clock was set forward by %.0f s", seconds)
        self.actions.shift(seconds)

    async def _handle_set_back(self, seconds: float) -> None:
        """Restarts the engine at the present time after a clock set-back: engine time never runs backwards."""
        log.warning("the clock was set back by %.0f s: windows fill again", seconds)
        self._t = -math.inf
        if self.discovery is not None:
            self.discovery = TopologyFollower(LivingTopology(self.discovery.living.declared))
        for requested in self.config.sources:
            await self.supervisor.stop(requested.name)
            self._start_source(requested)
        await self._run_in_thread(self._rebuild_pipeline)
        self._update_wanted_signals()
        await self._run_in_thread(self._add_audit_entry, f"the clock was set back by {seconds:.0f} s")

    async def _run_tick(self, t: float) -> None:
        begun = self.clock.uptime()
        self.supervisor.check()
        handed = self.supervisor.take()
        for name, batches in self._leftover.items():
            handed[name] = batches + handed.get(name, [])
        self._leftover = {}
        if self.discovery is not None:
            self.discovery.take_in(t, handed)
        self.is_judging = True
        try:
            # The pipeline is looked up in its thread: a reload may be replacing it.
            self.last_result = await self._run_in_thread(
                lambda: self._active_pipeline.step(t, handed, self.supervisor.count_series_without_place())
            )
        finally:
            self.is_judging = False
        if self.tick_stats.ticks % AGENT_SAVE_TICKS == 0 or len(self.receiver.agents) != self._saved_agents:
            self._saved_agents = len(self.receiver.agents)
            heard = self.receiver.agent_records()
            await self._run_in_thread(lambda: self._active_pipeline.save_agents(heard))
        self.tick_stats.ticks += 1
        self._ticked_at = self.clock.uptime()
        self.tick_stats.duration = self._ticked_at - begun
        self._freeze_when_steady(self.last_result.series)
        if not self._reloading.locked():
            if self._active_pipeline.needs_room:
                self._start_making_room()
            elif self.discovery is not None and self.discovery.is_due(t, self._ticked_at):
                start_job("topology", self._follow_topology(t))
        for tell in tuple(self.subscribers):
            try:
                tell(self.last_result)
            except Exception as error:  # noqa: BLE001 - the others have to know of the tick too
                record_failure("after a tick", error)

    def _freeze_when_steady(self, series: int) -> None:
        """Excludes long-lived objects from garbage collection: traversing millions of names takes seconds."""
        before, still = self._steady
        self._steady = (series, still + 1) if series == before else (series, 0)
        if self._steady[1] == GC_FREEZE_TICKS:
            gc.collect()
            gc.freeze()

    async def _close(self) -> None:
        self._is_closing = True
        async with self._reloading:
            await self._close_all()

    async def _close_all(self) -> None:
        for close in (self.actions.close, self.dispatcher.close, self.election.close, self._close_sources):
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - the store has to be closed in any case
                record_failure("close", error)
        if self._action_store.shared is not None:
            self._action_store.shared.close()
        if self._pipeline is not None:
            await self._run_in_thread(self._finish)
        self._pool.shutdown()

    async def _close_sources(self) -> None:
        for name, batches in (await self.supervisor.close()).items():
            self._leftover.setdefault(name, []).extend(batches)

    def _finish(self) -> None:
        assert self._pipeline is not None
        now = self.clock.now()
        self._pipeline.step(max(self._t + TICK_S, math.ceil(now)), self._leftover)
        self._pipeline.save_agents(self.receiver.agent_records())
        self._pipeline.close(now)
        self._stack.close()

    async def reload(self, config: ControllerConfig) -> tuple[str, ...]:
        """Applies another config; returns the fields that need a restart and are left unchanged.

        Raises:
            InputError: it drops a target with a change in place; nothing has changed.
            SkewscopeError: it could not be applied; the message says which one is in use now.
        """
        async with self._reloading:
            self.actions.check_change(config)
            before = self.config
            if self.discovery is not None and config.discovers:
                self.discovery.living.declared = config.topology
                config = replace(config, topology=(await self.discovery.draw(self.clock.now())).topology)
            try:
                kept = await self._reload(config, is_whole=self._is_partial)
            except Exception as error:
                record_failure("reload", error, "the config before is applied again")
                await self._restore(before)
                raise SkewscopeError(f"{type(error).__name__}: {error}; the one before is in use") from error
            self._is_partial = False
            return kept

    async def _restore(self, config: ControllerConfig) -> None:
        """Applies the whole of a config, after another one could be applied in part only.

        Raises:
            SkewscopeError: this one could be applied in part only as well.
        """
        try:
            await self._reload(config, is_whole=True)
        except Exception as error:
            record_failure("reload", error)
            self._is_partial = True
            what = "the one before could not be applied again, and is applied in part: restart the controller"
            raise SkewscopeError(what) from error

    async def _reload(self, config: ControllerConfig, *, is_whole: bool = False) -> tuple[str, ...]:
        """Applies what differs from the present config, or all of it."""
        before, self.config = self.config, config
        payload = [
            what for what in ("listen", "tls", "store", "leader") if getattr(before, what) != getattr(config, what)
        ]
        self.config = replace(config, **{what: getattr(before, what) for what in payload})

        def differs(*names: str) -> bool:
            return is_whole or any(getattr(before, name) != getattr(config, name) for name in names)

        known = self.catalogue
        if differs(*READ_BY):
            self._use_config(self.config, is_known=not differs("knowledge"))
        if differs("targets", "actions", "topology", "knowledge"):
            await self._restart_actions()
        if differs("speakers"):
            self.receiver.speakers = config.speakers
            self.receiver.request_announcements()
        if differs("topology"):
            self.receiver.topology = config.topology
            self.receiver.request_announcements()
        if not await WORK.run(can_take_over, known, self.catalogue):
            # With other rules nothing can be taken over but incidents: windows fill again, as after a restart.
            await self._run_in_thread(self._rebuild_pipeline)
        elif differs("topology", "knowledge"):
            await self._change_engine()
        elif differs("recording_path", "retention"):
            await self._run_in_thread(self._restart_recorder)
        # The sources go on while the new engine is built.
        same = () if differs(*READ_BY) else before.sources
        await self._restart_sources({w.name for w in same if w in config.sources})
        if differs("notifiers", "topology"):
            same = () if differs("topology") else before.notifiers
            await self._restart_notifiers(kept=[w for w in same if w in config.notifiers])
        await self._run_in_thread(self._add_audit_entry, "reloaded")
        return tuple(payload)

    def _use_config(self, config: ControllerConfig, *, is_known: bool = True) -> None:
        """Begins to read sources by a config, whose knowledge may be another one."""
        if not is_known:
            self._use_knowledge()
        if config.discovers != (self.discovery is not None):
            self.discovery = TopologyFollower(LivingTopology(config.topology)) if config.discovers else None
        self._context = SourceContext(
            *(config.topology, self._resolve_names(config.topology), self.clock), trusts_sources=config.discovers
        )

    def _resolve_names(self, topology: Topology) -> MetricResolver:
        return MetricResolver(self.catalogue, topology, witness=see_series if self.config.discovers else None)

    async def _follow_topology(self, t: float) -> None:
        """Draws the topology of the end of a tick, and goes on with it."""
        async with self._reloading:
            if self.discovery is None or self._is_closing:
                return
            begun = self.clock.uptime()
            drawn = await self.discovery.draw(t)
            if drawn.topology != self.config.topology:
                await self._change_topology(drawn.topology)
            await self._run_in_thread(self._add_changes, drawn, self.discovery.is_settled(t))
            self.discovery.rest(self.clock.uptime(), self.clock.uptime() - begun)

    async def _change_topology(self, topology: Topology) -> None:
        """Goes on with another topology; windows, pasts and incidents of what both have are kept."""
        is_same = is_same_for_engine(topology, self.config.topology)
        self.config = replace(self.config, topology=topology)
        if self.config.targets:
            await self._restart_actions()
        self.receiver.topology = topology
        self.receiver.request_announcements()
        if is_same:
            self._active_pipeline.topology = topology
        else:
            await self._change_engine()
        # Sources that read labels map them anew by themselves; others begin again.
        self._context.change_topology(topology, self._resolve_names(topology))
        await self._restart_sources({one.name for one in self.config.sources if one.kind in FOLLOWING_KINDS})
        await self._restart_notifiers()

    def _add_changes(self, drawn: DrawnTopology, is_settled: bool) -> None:
        self._active_pipeline.retire(drawn.gone, is_settled=is_settled)
        for change in drawn.changes:
            log.info("%s", change)
            self._active_pipeline.store_writer.add_audit_entry(
                change.t, "discovery", str(change), {"kind": change.kind, "name": change.name}
            )

    def _start_making_room(self) -> None:
        """Starts to make room, at most once a minute: a failure would repeat at each tick."""
        now = self.clock.uptime()
        if now >= self._room_due:
            self._room_due = now + ROOM_PERIOD
            self._making_room = start_job("room for series", self._make_room())

    async def _make_room(self) -> None:
        """Leaves out the series that have long been silent, where their owners have too many."""
        async with self._reloading:
            if self._active_pipeline.needs_room and not self._is_closing:
                await self._change_engine()

    def _use_knowledge(self) -> None:
        """Takes the catalogue of the config, with the knowledge of the site where there is one."""
        known = self.config.knowledge
        self.catalogue = known.catalogue if known else installed_catalogue()
        use_catalogue(self.catalogue)
        log.info("knowledge: %s", known or "that of the installed catalogue")

    async def _change_engine(self) -> None:
        """Puts a new engine in place that knows what the present one does; that judges on until then."""
        prepared = await WORK.run(self._prepare_engine, self._active_pipeline)
        await self._run_in_thread(self._put_in_place, prepared)

    def _prepare_engine(self, before: TickPipeline) -> PreparedEngine:
        prepared = prepare_engine(self.config.topology, self.catalogue, self.actions.measured_signals)
        prepared.expect_series(before)
        return prepared

    def _update_wanted_signals(self) -> None:
        """Keeps only those series of agents that are read; all of them when recording."""
        assert self._pipeline is not None
        requested = None if self.config.recording_path else self._pipeline.runtime.engine.read_signals
        before = self.receiver.wanted_signals
        # What was announced as unread or as foreign was not kept.
        if before is not None and (requested is None or not requested <= before):
            self.receiver.request_announcements()
        self.receiver.wanted_signals = requested

    # --- in the thread that owns engine, store and recording

    async def _run_in_thread(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: do(*args, **kwargs))

    def _create_pipeline(self) -> TickPipeline:
        # Otherwise the first incident would load it, in the middle of a tick.
        import networkx  # noqa: F401, ICN001, PLC0415

        store = Store(self.config.store)
        return self._build_pipeline(store)

    def _build_pipeline(self, store: Store) -> TickPipeline:
        prepared = prepare_engine(self.config.topology, self.catalogue, self.actions.measured_signals)
        self._stack.push(prepared.stack)
        carried = RestoredIncidents.from_incidents(store.open_incidents(), store.waits())
        return TickPipeline(
            *(
                prepared.runtime,
                prepared.batcher,
                store,
                carried,
                self._create_recorder(),
                self.view_publisher,
                self.members,
                self.config.store_retention,
            ),
            topology=self.config.topology,
            silences=store.silences(),
            acknowledged=read_acknowledgements(store.audit_lines(SUBJECT, MAX_READ)),
            effects=self.actions.effects,
            judgements=JudgementObserver(self.actions.places),
        )

    def _create_recorder(self) -> Recorder | None:
        folder, config = self.config.recording_path, self.config
        text = "" if config.topology_path and not config.discovers else format_topology(config.topology)
        return Recorder(folder, config.topology_path, config.retention, text) if folder else None

    @property
    def _active_pipeline(self) -> TickPipeline:
        assert self._pipeline is not None
        return self._pipeline

    def _rebuild_pipeline(self) -> None:
        """Creates a new engine for another time; open incidents and pending writes are kept."""
        assert self._pipeline is not None
        keeping = self._pipeline.store_writer
        if self._pipeline.recorder is not None:
            self._pipeline.recorder.close()
        self._stack.close()
        made = self._build_pipeline(keeping.store)
        made.store_writer = keeping
        if before := self._pipeline.incidents:
            # The store lacks what was found while it could not be written.
            firing = [one for one in before if one.state == "firing"]
            made.restored = RestoredIncidents.from_incidents(firing, self._pipeline.restored.waits)
        made.retire(self._pipeline.gone, is_settled=False)
        self._pipeline = made

    def _put_in_place(self, prepared: PreparedEngine) -> None:
        """Replaces the engine; the recording goes on with the present topology."""
        made = prepared.take_over(self._active_pipeline)
        made.effects, made.retention = self.actions.effects, self.config.store_retention
        made.judgements = replace(self._active_pipeline.judgements, places=self.actions.places)
        self._stack.close()
        self._stack.push(prepared.stack)
        if (recorder := self._active_pipeline.recorder) is not None:
            recorder.close()
        made.recorder = self._create_recorder()
        self._pipeline = made

    def _restart_recorder(self) -> None:
        assert self._pipeline is not None
        if self._pipeline.recorder is not None:
            self._pipeline.recorder.close()
        self._pipeline.recorder = self._create_recorder()

    def _add_audit_entry(self, what: str) -> None:
        assert self._pipeline is not None
        self._pipeline.store_writer.add_audit_entry(
            self.clock.now(), "controller", what, {"config": str(self.config.path), "catalogue": self.catalogue.version}
        )

    # --- notifiers

    async def _restart_notifiers(self, kept: Sequence[ComponentConfig] = ()) -> None:
        """Restarts the notifiers except those of unchanged entries."""
        tellers = {
            w.name: notify.kinds()[w.kind].build(w.settings, self.config.topology) for w in self.config.notifiers
        }
        going = {notifier.name for requested in kept for notifier in tellers[requested.name]}
        for name in self.dispatcher.names:
            if name not in going:
                await self.dispatcher.stop(name)
        found = [notifier for some in tellers.values() for notifier in some]
        await self._run_in_thread(
            self._replace_outbox, {notifier.name: notifier.scope for notifier in found if is_event_notifier(notifier)}
        )
        for notifier in found:
            if isinstance(notifier, PicturedNotifier):
                notifier.draw = self._draw_members
                notifier.acknowledge_link = partial(self._make_acknowledge_link, notifier.name)
            if notifier.name not in going:
                self.dispatcher.start(notifier)

    def _make_acknowledge_link(self, notifier: str, incident: Incident) -> str:
        """Returns where the reader of a notifier acknowledges an incident; '' for nowhere."""
        links = self.config.actions.links
        return "" if links is None else make_acknowledge_link(links, incident.id, notifier, self.clock.now())

    def _draw_members(self, incident: Incident) -> str:
        """Returns the members beside an incident over time as text, '' where they do not differ or are not known."""
        view = self.members.view()
        return self.pictures.picture_text(incident, view) if self.pictures is not None and view is not None else ""

    def _replace_outbox(self, scopes: Mapping[str, NotificationScope]) -> None:
        assert self._pipeline is not None
        self._pipeline.replace_outbox(Outbox(scopes, self._deliveries))

    def dropped_notifications(self, notifier: str) -> int:
        """Returns the number of notifications of a notifier that were dropped from its full queue."""
        return self._pipeline.store_writer.outbox.dropped.get(notifier, 0) if self._pipeline is not None else 0

    def _record_delivery(self, notifier: str, number: int) -> None:
        self._deliveries.append((notifier, number))

    @property
    def is_store_damaged(self) -> bool:
        """Whether the store was found to have damaged pages, or to have lost what it had."""
        return self._pipeline is not None and bool(self._pipeline.store.damage)

    @property
    def restored_stores(self) -> int:
        """How often the store was written anew because its files were removed."""
        return self._pipeline.store.restored if self._pipeline is not None else 0

    @property
    def is_store_pending(self) -> bool:
        """Whether the store could not be written since the start."""
        return self._pipeline is not None and self._pipeline.store.is_offline

    @property
    def is_leader(self) -> bool:
        """Whether this controller is the one that notifies."""
        return self.election.is_leader

    def seconds_since_tick(self) -> float | None:
        """Returns the seconds since the end of the last tick, whatever the clock did; None before the first."""
        return None if self._ticked_at is None else self.clock.uptime() - self._ticked_at

    async def _audit_leadership(self, leads: bool) -> None:
        await self._run_in_thread(self._add_audit_entry, "leads" if leads else "follows")

    def _dispatch(self, known: TickResult) -> None:
        mail = known.updated_notifiers if known.store_ok else None
        t, incidents = known.snapshot.time, known.snapshot.incidents
        self.dispatcher.dispatch(t, incidents, known.snapshot.silenced, mail)
        self.dispatcher.end_orphans(t, incidents, known.unjudged)
        self._active_pipeline.inherited = self.dispatcher.inherited_reports()
        self._active_pipeline.believed = self.dispatcher.beliefs()

    async def change_silence(self, who: str, what: str, silence: Silence) -> None:
        """Stores a new or changed silence; it takes effect at the next tick.

        Raises:
            StoreError: it could not be written, and nothing has changed.
        """
        await self._run_in_thread(lambda: self._active_pipeline.change_silence(self.clock.now(), who, what, silence))

    async def acknowledge(self, who: str, incident: str, is_acknowledged: bool) -> None:
        """Stores who looks after an incident, or that nobody does any more; it is shown from the next tick on.

        Raises:
            StoreError: it could not be written, and nothing has changed.
        """
        now = self.clock.now()
        await self._run_in_thread(lambda: self._active_pipeline.acknowledge(now, who, incident, is_acknowledged))

    # --- actions

    def _create_actions(self) -> ActionService:
        return ActionService(self.config, self.catalogue, self._action_store, lambda: self.election.term)

    def _create_action_store(self) -> StoreAdapter:
        async def write(do: Callable[[StoreWriter], None]) -> None:
            await self._run_in_thread(lambda: do(self._active_pipeline.store_writer))

        path = self.config.leader.path if self.config.leader is not None else None
        ledger = SharedLedger(path.with_name(f"{path.name}.actions")) if path is not None else None
        shared = SharedActions(ledger, lambda: self.is_leader) if ledger is not None else None
        return StoreAdapter(write, shared, self._make_link)

    def _make_link(self, action: Action, notifier: str) -> str:
        """Returns where the reader of a notifier decides about a proposal; '' for nowhere."""
        links = self.config.actions.links
        return "" if links is None else make_proposal_link(links, self.clock.now(), action, notifier)

    def _step_actions(self, known: TickResult) -> None:
        self.actions.step(known)
        self._active_pipeline.context = self.actions.context

    async def _restart_actions(self) -> None:
        """Continues the actions with other settings or targets; calls under way are waited for."""
        before = self.actions
        await before.close()
        self.actions = self._create_actions()
        self.actions.take_over(before)
        pipeline = self._active_pipeline
        pipeline.effects, pipeline.judgements.places = self.actions.effects, self.actions.places
        same = (before.config.topology, before.config.knowledge) == (self.config.topology, self.config.knowledge)
        if before.measured_signals != self.actions.measured_signals and same:
            await self._change_engine()

    # --- sources

    async def _restart_sources(self, kept: Collection[str]) -> None:
        """Restarts the sources except those of some names, and those of agents."""
        for name in self.supervisor.names:
            if name != SOURCE_NAME and name not in kept:
                self._leftover[name] = self._leftover.get(name, []) + await self.supervisor.stop(name)
        self._update_wanted_signals()
        for requested in self.config.sources:
            if requested.name not in self.supervisor.names:
                self._start_source(requested)

    def _start_source(self, wanted: ComponentConfig) -> None:
        self.supervisor.start(source_kinds()[wanted.kind].build(wanted.settings, self._context))

    def source_statuses(self) -> tuple[SourceStatus, ...]:
        """Returns the status of all sources; that of agents only if there are any."""
        found = self.supervisor.statuses()
        claimed = self._pipeline.claimed.counts if self._pipeline else {}
        known = (one for one in found if one.name != SOURCE_NAME or self.receiver.agents)
        return tuple(replace(one, unmapped={**one.unmapped, **claimed.get(one.name, {})}) for one in known)
