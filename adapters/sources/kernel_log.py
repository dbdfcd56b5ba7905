"""Sources of kind `kernel-log`: the log of a kernel, from /dev/kmsg or from files, of one node or of many.

A number that a log tells once is told again each period, as an exporter would: an Xid until the next one, counts from
nought. Which GPU or port a PCI address is must be told in the config, but for the GPUs of the machine itself, which
the driver lists in the order of their addresses.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.adapters.more_fields import number, yes
from skewscope.adapters.sources import World
from skewscope.adapters.sources.base import Batch, Sink
from skewscope.adapters.sources.kernel_lines import MOST_LINE, Event, address, events
from skewscope.adapters.sources.samples import Rows, Series
from skewscope.adapters.sources.tail import Tail
from skewscope.adapters.sources.targets import Labels, labels
from skewscope.kb.fields import Fields
from skewscope.kb.problems import listed
from skewscope.kb.yamlfile import Path_

KMSG = "/dev/kmsg"
DRIVER = Path("/proc/driver/nvidia/gpus")
MOST_RECORDS = 10_000
"""Records of /dev/kmsg that are read at a time."""
MOST_KEPT = 100_000
"""Numbers that are told again."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One log, or the logs of many nodes."""

    name: str
    path: str
    period: float
    node: str = ""
    """Whose log it is; '' where each line names its host."""
    gpus: tuple[str, ...] = ()
    """PCI addresses of its GPUs, in the order of their numbers."""
    ports: Labels = ()
    """Port or device of the topology, by PCI address."""
    from_start: bool = False


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one source; faults are noted."""
    fields.known(at, ("kind",), ("name", "path", "node", "gpus", "ports", "period", "from_start", "note"))
    folder = Path(fields.document.file).parent
    path, node = fields.text((*at, "path")) or KMSG, fields.text((*at, "node"))
    if path == KMSG and not node:
        fields.fault((*at, "node"), "no node", "the node on which the controller runs, whose log this is")
    gpus = tuple(address(text) for text in fields.texts((*at, "gpus")))
    ports = tuple((address(pci), port) for pci, port in labels(fields, (*at, "ports")))
    if (gpus or ports) and not node:
        fields.fault(at, "gpus or ports without a node", "node: whose PCI addresses they are")
    period = number(fields, (*at, "period"), 1.0, (0.1, 3600.0))
    return Settings(name, str(folder / path), period, node, gpus, ports, yes(fields, (*at, "from_start")))


def build(wanted: Settings, world: World) -> "KernelLog":
    """The source."""
    return KernelLog(wanted, world)


@dataclass
class Kmsg:
    """The kernel's own buffer, one record at a time."""

    from_start: bool = False
    skipped: int = 0
    """Times that the kernel had written over what was not read yet."""
    _handle: int = -1

    def lines(self) -> Iterator[str]:
        """What came since the last time.

        Raises:
            OSError: it may not be read.
        """
        if self._handle < 0:
            self._handle = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not self.from_start:
                os.lseek(self._handle, 0, os.SEEK_END)
        for _ in range(MOST_RECORDS):
            try:
                record = os.read(self._handle, MOST_LINE)
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.skipped += 1
                continue
            # Below the record stand its variables, each indented.
            yield record.partition(b"\n")[0].decode("utf-8", "replace")

    def close(self) -> None:
        """Lets go of it."""
        if self._handle >= 0:
            with suppress(OSError):
                os.close(self._handle)
        self._handle = -1


@dataclass
class Files:
    """Files of lines."""

    tail: Tail
    _rests: dict[Path, bytes] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """What came since the last time.

        Raises:
            OSError: there is no such file.
        """
        for path, data in self.tail.read():
            *lines, rest = (self._rests.get(path, b"") + data).split(b"\n")
            self._rests = {kept: text for kept, text in self._rests.items() if kept.exists()}
            self._rests[path] = rest[-MOST_LINE:]
            for line in lines:
                yield line[:MOST_LINE].decode("utf-8", "replace")

    @property
    def skipped(self) -> int:
        """Bytes that were passed over."""
        return self.tail.skipped

    def close(self) -> None:
        """Nothing is kept open."""


@dataclass
class KernelLog:
    """Reads one log, or many."""

    settings: Settings
    world: World
    series: Series = field(init=False)
    unplaced: dict[str, None] = field(default_factory=dict)
    """What was told of devices that nobody can place."""
    period: float = 0.0
    """Logs are silent where all is well."""
    _kept: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.series = Series(self.world.names, {})
        wanted = self.settings
        of_file = wanted.path != KMSG
        self._log = Files(Tail(Path(wanted.path), wanted.from_start)) if of_file else Kmsg(wanted.from_start)
        self._gpus = {pci: str(n) for n, pci in enumerate(wanted.gpus or self._listed())}
        self._ports = dict(wanted.ports)
        for number_ in self._gpus.values():
            self._kept["kernel_gpu_xid", (("node", wanted.node), ("gpu", number_))] = 0.0

    def _listed(self) -> tuple[str, ...]:
        """The addresses of the GPUs of this machine, where the log is its own and none is missing."""
        node = self.world.topology.node.get(self.settings.node)
        found = sorted(entry.name for entry in DRIVER.glob("*")) if self.settings.path == KMSG else []
        return tuple(map(address, found)) if node and len(found) == node.gpus else ()

    @property
    def name(self) -> str:
        """What the config calls it."""
        return self.settings.name

    async def run(self, sink: Sink) -> None:
        """Reads until it is cancelled."""
        try:
            while True:
                try:
                    if batch := await asyncio.to_thread(self.read, self.world.clock.now()):
                        sink.put(batch)
                    sink.trouble = self._trouble()
                except OSError as error:
                    sink.trouble = str(error)
                await self.world.clock.sleep(self.settings.period)
        finally:
            self._log.close()

    def read(self, now: float) -> Batch | None:
        """What is known at a time, of what was told until then.

        Raises:
            OSError: the log cannot be read.
        """
        for line in self._log.lines():
            for event in events(line):
                self._take(event)
        rows = Rows()
        for (metric, of), value in self._kept.items():
            rows.put(self.series.of(metric, of), now, value)
        return rows.batch(self.series.listing)

    def _take(self, event: Event) -> None:
        node = self.settings.node or event.host
        of = {"node": self.world.names.node(node), **self._device(event)} if node else {}
        if not all(of.values()) or not of or (event.pci and len(of) < 2):
            self.unplaced[f"{event.metric} of {event.device or event.pci} on {node or 'nobody'}"] = None
            while len(self.unplaced) > MOST_RECORDS:
                del self.unplaced[next(iter(self.unplaced))]
            return
        key = event.metric, tuple(of.items())
        if key in self._kept or len(self._kept) < MOST_KEPT:
            counted = self._kept.get(key, 0.0) if event.metric.endswith("_total") else 0.0
            self._kept[key] = counted + event.value

    def _device(self, event: Event) -> Mapping[str, str]:
        if event.metric == "kernel_gpu_xid":
            node = self.world.topology.node.get(self.world.names.node(self.settings.node or event.host))
            alone = "0" if node and node.gpus == 1 else ""
            return {"gpu": self._gpus.get(event.pci) or alone}
        if event.pci in self._ports:
            return {"port": self._ports[event.pci]}
        return {"device": event.device} if event.pci else {}

    def _trouble(self) -> str:
        said = [f"nobody can say what {listed([*self.unplaced], 2)} is"] if self.unplaced else []
        skipped = self._log.skipped
        return ", ".join([*said, f"{skipped} bytes or records passed over"] if skipped else said)
