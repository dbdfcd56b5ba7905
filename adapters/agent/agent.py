"""The agent as a whole: its parts made from a configuration and a place, and one tick of them.

Nothing here reads a clock of its own: who makes an agent gives it one.
"""

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from skewscope.adapters.agent.config import Config
from skewscope.adapters.agent.devlink import Devlink
from skewscope.adapters.agent.ethtool import Drivers, Ioctl
from skewscope.adapters.agent.files import Files, Troubles
from skewscope.adapters.agent.ground import Collector, Ground
from skewscope.adapters.agent.hwmon import Temperatures
from skewscope.adapters.agent.infiniband import RdmaDevices
from skewscope.adapters.agent.kernel import Sample
from skewscope.adapters.agent.netdev import NetDevices
from skewscope.adapters.agent.observed import ObservedPort
from skewscope.adapters.agent.observer import Clocks, Observer
from skewscope.adapters.agent.proc import Machine
from skewscope.adapters.agent.push import Sender
from skewscope.adapters.agent.relay import Relay
from skewscope.adapters.agent.ring import Ring
from skewscope.adapters.agent.tables import Tables
from skewscope.adapters.agent.where import Where, where
from skewscope.adapters.names import Names
from skewscope.adapters.wire_input import port_view
from skewscope.adapters.wire_rows import Hello, Row
from skewscope.engine.feed import SeriesKey
from skewscope.engine.topology import Topology
from skewscope.kb.model import Catalogue

log = logging.getLogger("skewscope.agent")

COLLECTORS: Mapping[str, Callable[[Ground], Collector]] = {
    "infiniband": RdmaDevices,
    "net": NetDevices,
    "proc": Machine,
    "hwmon": Temperatures,
    "devlink": Devlink,
}
OWNERS = ("ethtool", "infiniband", "net", "proc", "hwmon", "devlink")
"""Collectors in the order in which a signal that several deliver is theirs."""
LOOK_AROUND = 10
"""Seconds between two looks at which devices there are."""
ETHERNET = "1"
"""Of /sys/class/net/<device>/type."""


@dataclass
class Parts:
    """What has to be made anew with another configuration or place."""

    files: Files
    collectors: dict[str, Collector] = field(default_factory=dict)
    relays: list[Relay] = field(default_factory=list)
    observer: Observer | None = None
    ioctl: Ioctl | None = None

    def stop(self) -> None:
        """Ends all of them."""
        for relay in self.relays:
            relay.stop()
        if self.observer:
            self.observer.stop()
        if self.ioctl:
            self.ioctl.close()
        self.files.close()


class Agent:
    """One agent."""

    def __init__(self, config: Config, catalogue: Catalogue, hello: Hello, clocks: Clocks) -> None:
        self.config = config
        self.catalogue = catalogue
        self.troubles = Troubles()
        self.tables = Tables()
        self.senders: list[Sender] = []
        self.rows = 0
        self.newest = 0.0
        """When the last tick was, s since 1970."""
        self._hello = hello
        self._clocks = clocks
        self._sequence = itertools.count(1)
        self._lock = threading.Lock()
        self._topology: Topology | None = None
        self._there: list[str] = []
        self.parts = Parts(Files(Path(config.root), self.troubles))
        self.place: Where = where(config, None)

    def start(self, topology: Topology | None) -> None:
        """Makes all parts and sets them going."""
        for controller in self.config.controllers:
            sender = Sender(controller, self._hello, self.config.buffer)
            self.senders.append(sender)
            sender.start()
        self._arrange(topology)

    def _arrange(self, topology: Topology | None) -> None:
        """Makes what depends on configuration and place."""
        self._topology = topology
        self.place = where(self.config, topology)
        self.parts.stop()
        self.parts = self._made()
        self._there = self._devices()
        for relay in self.parts.relays:
            relay.start(self._clocks.now)
        if self.parts.observer:
            self.parts.observer.start()
        log.info("node %s: %s", self.place.node, ", ".join(f"{d} is {p}" for d, p in self.place.ports.items()))

    def moved(self, topology: Topology) -> None:
        """Another topology is in force from now on; the same one told again changes nothing."""
        if topology != self._topology:
            self._arrange(topology)

    def reload(self, config: Config, topology: Topology | None) -> None:
        """Another configuration is in force from now on; what waits for a controller that stays is kept."""
        staying = {sender.controller: sender for sender in self.senders if sender.controller in config.controllers}
        for sender in self.senders:
            if sender.controller not in staying:
                sender.stop()
        self.config = config
        self.senders = []
        for controller in config.controllers:
            known = staying.get(controller)
            sender = known or Sender(controller, self._hello, config.buffer)
            sender.backlog.most_bytes = config.buffer
            self.senders.append(sender)
            if known is None:
                sender.start()
        self._arrange(topology or self._topology)

    def stop(self) -> None:
        """Ends; what has not been sent within a moment is lost."""
        self.parts.stop()
        for sender in self.senders:
            sender.stop()

    def tick(self, time: float) -> None:
        """Reads and tells what is due at a whole second."""
        if time % LOOK_AROUND < 1 and self._devices() != self._there:
            log.info("devices came or went")
            self._arrange(self._topology)
        due: dict[float, list[str]] = {}
        for name in OWNERS:
            period = self.config.periods.get(name)
            if period and name in self.parts.collectors and time % period < 1:
                due.setdefault(period, []).append(name)
        for period, names in due.items():
            sources = [(name, self._safely(name, time)) for name in names]
            self.tell(f"every {period:g} s", time, sources)
        self.tell("agent", time, [("agent", self._age(time))])
        self.newest = time

    def _devices(self) -> list[str]:
        """Which of our devices are there; one that was made anew has another number."""
        named = sorted({*self.place.ports, *self.config.observe.devices, *self.config.observe.mirrors})
        numbers = (self.parts.files.text(f"sys/class/net/{device}/ifindex") for device in named)
        return [*numbers, *self.parts.files.names("sys/class/infiniband")]

    def _safely(self, name: str, time: float) -> Iterator[Sample]:
        """What a collector tells; its failure is no other's."""
        try:
            yield from self.parts.collectors[name].read(time)
        except (OSError, ValueError) as error:
            self.troubles.note(f"collector {name}", error)

    def _age(self, time: float) -> Iterator[Sample]:
        yield SeriesKey("agent.sample_age", "node", self.place.node), max(self._clocks.now() - time, 0.0)

    def tell(self, table: str, time: float, sources: Iterable[tuple[str, Iterable[Sample]]]) -> None:
        """Hands one row to every controller."""
        found = self.tables.fill(table, time, sources)
        if found is None:
            return
        with self._lock:
            row = Row(next(self._sequence), time, found.number, found.values)
            self.rows += 1
            for sender in self.senders:
                sender.add(row, found.keys)

    # Making the parts.

    def _made(self) -> Parts:
        config, place = self.config, self.place
        files = Files(Path(config.root), self.troubles)
        ground = Ground(files, self.troubles, self.catalogue, place.node, config.runs_on, place.ports)
        parts = Parts(files)
        for name in config.periods:
            if name == "ethtool":
                parts.ioctl = Ioctl()
                parts.collectors[name] = Drivers(ground, parts.ioctl)
            else:
                parts.collectors[name] = COLLECTORS[name](ground)
        parts.relays = list(self._relays())
        observed = list(self._observed(files))
        if observed:
            parts.observer = Observer(observed, config.observe.budget, self._clocks, partial(self._one, "wire"))
        return parts

    def _relays(self) -> Iterator[Relay]:
        if not self.config.relay:
            return
        names = Names(self.catalogue, self.place.topology)
        for target in self.config.relay:
            tell = partial(self._one, f"relay {target.url}")
            yield Relay(target, self.place.node, names, self.troubles, tell)

    def _observed(self, files: Files) -> Iterator[ObservedPort]:
        if self._topology is None and self.config.controllers:
            # They are being asked; without an answer nobody knows whose addresses these are.
            return
        observe, place = self.config.observe, self.place
        ports = {device: place.ports.get(device, "") for device in observe.devices}
        ports |= {device: f"{place.node}/{name}" for device, name in observe.mirrors.items()}
        for device, name in ports.items():
            port = place.topology.port.get(name)
            if port is None or not port.addresses:
                why = "no topology says which port it is and what its addresses are"
                self.troubles.note(f"packets of {device}", why)
            elif ring := self._ring(device, files):
                yield ObservedPort(ring, port_view(place.topology, port), self._clocks.now() // 1 + 1)

    def _ring(self, device: str, files: Files) -> Ring | None:
        """The packets of a device; None, and told, where they cannot be had."""
        if files.text(f"sys/class/net/{device}/type") not in (ETHERNET, ""):
            self.troubles.note(f"packets of {device}", "it is no Ethernet device")
            return None
        try:
            return Ring(device, self.config.observe.ring)
        except OSError as error:
            self.troubles.note(f"packets of {device}", error.strerror or error)
            return None

    def _one(self, source: str, time: float, samples: Sequence[Sample]) -> None:
        """Hands on the row of a table that has one source."""
        self.tell(source, time, [(source, samples)])
