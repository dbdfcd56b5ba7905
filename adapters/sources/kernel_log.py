"""Sources of kind `kernel-log`: the kernel log of one node or of many, from /dev/kmsg or from files.

Its messages that events of the catalogue recognise are counted when they come.

Each value is repeated every period, as an exporter would: an Xid until the next one, counters from zero. The config
maps PCI addresses to GPUs and ports; only the GPUs of the local machine are mapped automatically, in the order of their
addresses, which the driver lists.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.mapping.senders import FLEET
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch
from skewscope.adapters.sources.common.file_tail import FileTail
from skewscope.adapters.sources.common.kernel_events import (
    MAX_LINE,
    KernelLogEvent,
    normalise_pci_address,
    parse_events,
)
from skewscope.adapters.sources.common.live_messages import LiveMessages
from skewscope.adapters.sources.common.log_file import LogFileReader
from skewscope.adapters.sources.common.polling import poll_files
from skewscope.adapters.sources.common.senders import build_lookup, read_reports_for
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.adapters.sources.common.targets import Labels, parse_labels
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import join_names
from skewscope.kb.yamlfile import FieldPath

KMSG = "/dev/kmsg"
GPU_DRIVER_FOLDER = Path("/proc/driver/nvidia/gpus")
MAX_RECORDS = 10_000
"""Maximum records of /dev/kmsg per read."""
FIELDS = ("path", "node", "gpus", "ports", "period", "from_start", "reports_for")
MAX_VALUES = 100_000
"""Maximum number of repeated values."""


@dataclass(frozen=True, slots=True)
class KernelLogSettings:
    """One log, or the logs of many nodes."""

    name: str
    path: str
    period: float
    node: str = ""
    """Node of the log; '' where each line names its host."""
    gpus: tuple[str, ...] = ()
    """PCI addresses of its GPUs, in the order of their numbers."""
    ports: Labels = ()
    """Port or device of the topology, by PCI address."""
    from_start: bool = False
    reports_for: tuple[str, ...] = ()
    """What its lines report for besides `node`; where each line names its host, by default everything."""


def read(fields: FieldReader, at: FieldPath, name: str) -> KernelLogSettings:
    """Parses the settings of one source; problems are added to `fields`."""
    fields.check_keys(at, ("kind",), ("name", *FIELDS, "note"))
    folder = Path(fields.document.file).parent
    path, node = fields.text((*at, "path")) or KMSG, fields.text((*at, "node"))
    if path == KMSG and not node:
        fields.add_problem((*at, "node"), "no node", "the node on which the controller runs, whose log this is")
    gpus = tuple(normalise_pci_address(text) for text in fields.texts((*at, "gpus")))
    ports = tuple((normalise_pci_address(pci), port) for pci, port in parse_labels(fields, (*at, "ports")))
    if (gpus or ports) and not node:
        fields.add_problem(at, "gpus or ports without a node", "node: the node with these PCI addresses")
    period = read_number(fields, (*at, "period"), 1.0, (0.1, 3600.0))
    reports_for = read_reports_for(fields, (*at, "reports_for"))
    from_start = read_bool(fields, (*at, "from_start"))
    return KernelLogSettings(name, str(folder / path), period, node, gpus, ports, from_start, reports_for)


def build(settings: KernelLogSettings, context: SourceContext) -> "KernelLogSource":
    """Creates the source."""
    return KernelLogSource(settings, context)


@dataclass
class KmsgReader:
    """Reads the kernel's ring buffer, one record at a time."""

    from_start: bool = False
    skipped_count: int = 0
    """Times that the kernel overwrote unread records."""
    _handle: int = -1

    def lines(self) -> Iterator[str]:
        """Yields the lines since the last call.

        Raises:
            OSError: the buffer is not readable.
        """
        if self._handle < 0:
            self._handle = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not self.from_start:
                os.lseek(self._handle, 0, os.SEEK_END)
        for _ in range(MAX_RECORDS):
            try:
                record = os.read(self._handle, MAX_LINE)
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.skipped_count += 1
                continue
            # A record is followed by its variables, one per indented line.
            yield record.partition(b"\n")[0].decode("utf-8", "replace")

    def close(self) -> None:
        """Closes the buffer."""
        if self._handle >= 0:
            with suppress(OSError):
                os.close(self._handle)
        self._handle = -1


@dataclass
class KernelLogSource:
    """Reads one log, or many."""

    settings: KernelLogSettings
    context: SourceContext
    mapper: SeriesMapper = field(init=False)
    unmapped: dict[str, None] = field(default_factory=dict)
    """Devices that could not be mapped."""
    period: float = 0.0
    """Zero: a healthy machine logs nothing."""
    _values: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.settings
        labels = {"node": settings.node} if settings.node else {}
        named = settings.reports_for or (() if settings.node else (FLEET,))
        senders = build_lookup(settings.name, self.context.topology, named, labels)
        self.mapper = SeriesMapper(self.context.names, {}, senders=senders)
        of_file = settings.path != KMSG
        self._log = (
            LogFileReader(FileTail(Path(settings.path), settings.from_start))
            if of_file
            else KmsgReader(settings.from_start)
        )
        self._messages = LiveMessages(labels)
        self._gpus = {pci: str(n) for n, pci in enumerate(settings.gpus or self._list_gpus())}
        self._ports = dict(settings.ports)
        for number_ in self._gpus.values():
            self._values["kernel_gpu_xid", (("node", settings.node), ("gpu", number_))] = 0.0

    def _list_gpus(self) -> tuple[str, ...]:
        """Returns the GPU addresses of this machine if the log is its own and all are listed."""
        node = self.context.topology.node.get(self.settings.node)
        found = sorted(entry.name for entry in GPU_DRIVER_FOLDER.glob("*")) if self.settings.path == KMSG else []
        return tuple(map(normalise_pci_address, found)) if node and len(found) == node.gpus else ()

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.name

    async def run(self, sink: BatchSink) -> None:
        """Reads until cancelled."""
        sink.follow(self.mapper.registry)
        try:
            await poll_files(sink, self.context, self.settings.period, self.read, self._trouble)
        finally:
            self._log.close()

    def read(self, now: float) -> SourceBatch | None:
        """Returns the values known at a time.

        Raises:
            OSError: the log is not readable.
        """
        rows, lines = SourceBatchBuilder(), list(self._log.lines())
        for line in lines:
            for event in parse_events(line):
                self._record_event(event)
        for metric, labels, count in self._messages.read(lines):
            rows.add(self.mapper.map_series(metric, self._place_device(labels)), now, count)
        for (metric, of), value in self._values.items():
            rows.add(self.mapper.map_series(metric, of), now, value)
        return rows.build(self.mapper.registry)

    def _place_device(self, labels: Labels) -> Labels:
        """Returns the labels of a message, with the GPU or port at its PCI address where that is known."""
        of = dict(labels)
        is_gpu = "pci_bus_id" in of
        pci = of.pop("pci_bus_id", "") or of.pop("pci", "")
        address = normalise_pci_address(pci) if pci else ""
        node = self.context.topology.node.get(self.context.names.find_node(of.get("node", "")))
        alone = "0" if is_gpu and node and node.gpus == 1 else ""
        if gpu := self._gpus.get(address) or alone:
            of["gpu"] = gpu
        elif port := self._ports.get(address):
            of["port"] = port
        return tuple(of.items())

    def _record_event(self, event: KernelLogEvent) -> None:
        node = self.settings.node or event.host
        of = {"node": self.context.names.find_node(node), **self._device_labels(event)} if node else {}
        if not all(of.values()) or not of or (event.pci and len(of) < 2):
            self.unmapped[f"{event.metric} of {event.device or event.pci} on {node or 'nobody'}"] = None
            while len(self.unmapped) > MAX_RECORDS:
                del self.unmapped[next(iter(self.unmapped))]
            return
        key = event.metric, tuple(of.items())
        if key in self._values or len(self._values) < MAX_VALUES:
            counted = self._values.get(key, 0.0) if event.metric.endswith("_total") else 0.0
            self._values[key] = counted + event.value

    def _device_labels(self, event: KernelLogEvent) -> Mapping[str, str]:
        if event.metric == "kernel_gpu_xid":
            node = self.context.topology.node.get(self.context.names.find_node(self.settings.node or event.host))
            alone = "0" if node and node.gpus == 1 else ""
            return {"gpu": self._gpus.get(event.pci) or alone}
        if event.pci in self._ports:
            return {"port": self._ports[event.pci]}
        return {"device": event.device} if event.pci else {}

    def _trouble(self) -> str:
        text = [f"unmapped devices: {join_names([*self.unmapped], 2)}"] if self.unmapped else []
        skipped = self._log.skipped_count
        return ", ".join([*text, f"{skipped} bytes or records skipped"] if skipped else text)
