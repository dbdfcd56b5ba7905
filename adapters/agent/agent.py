"""The agent: its components, created from configuration and topology, and one tick of them.

Nothing here reads the clock; the caller passes one.
"""

import itertools
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from skewscope.adapters.agent.collectors import collector_kinds
from skewscope.adapters.agent.collectors.context import ClosableCollector, Collector, CollectorContext
from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.agent.collectors.kernel_files import KernelFiles, ReadFailures
from skewscope.adapters.agent.config import AgentConfig
from skewscope.adapters.agent.observed_port import ObservedPort
from skewscope.adapters.agent.observer import ObserverClocks, PacketObserver
from skewscope.adapters.agent.orders import OrderGuard, OrderWorker
from skewscope.adapters.agent.packet_ring import PacketRing
from skewscope.adapters.agent.port_map import PortMap, build_port_map
from skewscope.adapters.agent.push import PushSender
from skewscope.adapters.agent.relay import PageRelay
from skewscope.adapters.agent.tables import RowTables
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame
from skewscope.adapters.inputs.capture import build_port_view
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.channel import Channel
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue

log = logging.getLogger("skewscope.agent")

DEVICE_CHECK_PERIOD = 10
"""Seconds between two checks which devices exist."""
ETHERNET_TYPE = "1"
"""Value of /sys/class/net/<device>/type."""


@dataclass
class AgentComponents:
    """Components that depend on configuration and topology."""

    files: KernelFiles
    collectors: dict[str, Collector] = field(default_factory=dict)
    relays: list[PageRelay] = field(default_factory=list)
    observer: PacketObserver | None = None

    def stop(self) -> None:
        """Stops all components."""
        for relay in self.relays:
            relay.stop()
        if self.observer:
            self.observer.stop()
        for collector in self.collectors.values():
            if isinstance(collector, ClosableCollector):
                collector.close()
        self.files.close()


class NodeAgent:
    """The agent of one node."""

    def __init__(self, config: AgentConfig, catalogue: Catalogue, hello: HelloFrame, clocks: ObserverClocks) -> None:
        self.config = config
        self.catalogue = catalogue
        self.failures = ReadFailures()
        self.tables = RowTables()
        self.senders: list[PushSender] = []
        self.row_count = 0
        self.last_tick = 0.0
        """Time of the last tick, s since 1970."""
        self._hello = hello
        self._clocks = clocks
        self._sequence = itertools.count(1)
        self._lock = threading.Lock()
        self._topology: Topology | None = None
        self._order_guard: OrderGuard | None = None
        self.order_workers: list[OrderWorker] = []
        self._device_state: list[str] = []
        self.components = AgentComponents(KernelFiles(Path(config.root), self.failures))
        self.port_map: PortMap = build_port_map(config, None)

    def start(self, topology: Topology | None) -> None:
        """Creates and starts all components."""
        for controller in self.config.controllers:
            sender = PushSender(controller, self._hello, self.config.buffer)
            self.senders.append(sender)
            sender.start()
        self._start_orders()
        self._rebuild(topology)

    def _start_orders(self) -> None:
        """Fetches the orders of all controllers, if the configuration allows any."""
        for worker in self.order_workers:
            worker.stop()
        self.order_workers = []
        config, guard = self.config.orders, self._order_guard
        if config is None:
            self._order_guard = None
            return
        if guard is None or guard.config != config:
            # A new guard remembers no nonces, and so admits nothing that was issued before it.
            guard = self._order_guard = OrderGuard(self.config.node, config, self._clocks.now())
        for controller in self.config.controllers:
            worker = OrderWorker(controller.url, Channel(controller), guard, self._clocks.now)
            self.order_workers.append(worker)
            worker.start()

    def _rebuild(self, topology: Topology | None) -> None:
        """Recreates what depends on configuration and topology."""
        self._topology = topology
        self.port_map = build_port_map(self.config, topology)
        self.components.stop()
        self.components = self._build_components()
        self._device_state = self._device_ids()
        for relay in self.components.relays:
            relay.start(self._clocks.now)
        if self.components.observer:
            self.components.observer.start()
        log.info("node %s: %s", self.port_map.node, ", ".join(f"{d} is {p}" for d, p in self.port_map.ports.items()))

    def update_topology(self, topology: Topology) -> None:
        """Applies a topology; an unchanged one has no effect."""
        if topology != self._topology:
            self._rebuild(topology)

    def reload(self, config: AgentConfig, topology: Topology | None) -> None:
        """Applies a configuration; rows queued for a controller that remains are kept."""
        staying = {sender.controller: sender for sender in self.senders if sender.controller in config.controllers}
        for sender in self.senders:
            if sender.controller not in staying:
                sender.stop()
        self.config = config
        self.senders = []
        for controller in config.controllers:
            known = staying.get(controller)
            sender = known or PushSender(controller, self._hello, config.buffer)
            sender.backlog.max_bytes = config.buffer
            self.senders.append(sender)
            if known is None:
                sender.start()
        self._start_orders()
        self._rebuild(topology or self._topology)

    def stop(self) -> None:
        """Stops; rows that are not sent within a moment are lost."""
        for worker in self.order_workers:
            worker.stop()
        self.components.stop()
        for sender in self.senders:
            sender.stop()

    def tick(self, time: float) -> None:
        """Reads the collectors that are due at a whole second, and sends their rows."""
        if time % DEVICE_CHECK_PERIOD < 1 and self._device_ids() != self._device_state:
            log.info("devices were added or removed")
            self._rebuild(self._topology)
        due: dict[float, list[str]] = {}
        for name in self.components.collectors:
            period = self.config.periods.get(name)
            if period and time % period < 1:
                due.setdefault(period, []).append(name)
        for period, names in due.items():
            sources = [(name, self._collect(name, time)) for name in names]
            self.send_row(f"every {period:g} s", time, sources)
        self.send_row("agent", time, [("agent", self._sample_age(time))])
        self.last_tick = time

    def _device_ids(self) -> list[str]:
        """Returns the ids of the present devices; a recreated device has another id."""
        named = sorted({*self.port_map.ports, *self.config.observe.devices, *self.config.observe.mirrors})
        numbers = (self.components.files.text(f"sys/class/net/{device}/ifindex") for device in named)
        return [*numbers, *self.components.files.names("sys/class/infiniband")]

    def _collect(self, name: str, time: float) -> Iterator[Sample]:
        """Yields the samples of a collector; its failure does not affect others."""
        try:
            yield from self.components.collectors[name].read(time)
        except (OSError, ValueError) as error:
            self.failures.note(f"collector {name}", error)

    def _sample_age(self, time: float) -> Iterator[Sample]:
        yield SeriesKey("agent.sample_age", "node", self.port_map.node), max(self._clocks.now() - time, 0.0)

    def send_row(self, table: str, time: float, sources: Iterable[tuple[str, Iterable[Sample]]]) -> None:
        """Sends one row to every controller."""
        found = self.tables.fill(table, time, sources)
        if found is None:
            return
        with self._lock:
            row = RowFrame(next(self._sequence), time, found.number, found.values)
            self.row_count += 1
            for sender in self.senders:
                sender.add(row, found.keys)

    # --- creation of components

    def _build_components(self) -> AgentComponents:
        config, place = self.config, self.port_map
        files = KernelFiles(Path(config.root), self.failures)
        context = CollectorContext(files, self.failures, self.catalogue, place.node, config.runs_on, place.ports)
        parts = AgentComponents(files)
        for name, kind in collector_kinds().items():
            if name in config.periods:
                parts.collectors[name] = kind.build(context)
        parts.relays = list(self._build_relays())
        observed = list(self._build_observed_ports(files))
        if observed:
            parts.observer = PacketObserver(
                observed, config.observe.budget, self._clocks, partial(self._send_table, "wire")
            )
        return parts

    def _build_relays(self) -> Iterator[PageRelay]:
        if not self.config.relay:
            return
        names = MetricResolver(self.catalogue, self.port_map.topology)
        for target in self.config.relay:
            tell = partial(self._send_table, f"relay {target.url}")
            yield PageRelay(target, self.port_map.node, names, self.failures, tell)

    def _build_observed_ports(self, files: KernelFiles) -> Iterator[ObservedPort]:
        if self._topology is None and self.config.controllers:
            # The controllers have been asked; without an answer the addresses of ports are unknown.
            return
        observe, place = self.config.observe, self.port_map
        ports = {device: place.ports.get(device, "") for device in observe.devices}
        ports |= {device: f"{place.node}/{name}" for device, name in observe.mirrors.items()}
        for device, name in ports.items():
            port = place.topology.port.get(name)
            if port is None or not port.addresses:
                why = "no topology gives its port and addresses"
                self.failures.note(f"packets of {device}", why)
            elif ring := self._open_ring(device, files):
                yield ObservedPort(ring, build_port_view(place.topology, port), self._clocks.now() // 1 + 1)

    def _open_ring(self, device: str, files: KernelFiles) -> PacketRing | None:
        """Opens the packet ring of a device; returns None, and logs, if that fails."""
        if files.text(f"sys/class/net/{device}/type") not in (ETHERNET_TYPE, ""):
            self.failures.note(f"packets of {device}", "it is not an Ethernet device")
            return None
        try:
            return PacketRing(device, self.config.observe.ring)
        except OSError as error:
            self.failures.note(f"packets of {device}", error.strerror or error)
            return None

    def _send_table(self, source: str, time: float, samples: Sequence[Sample]) -> None:
        """Sends the row of a table with a single source."""
        self.send_row(source, time, [(source, samples)])
