"""Collector of RDMA port counters, from /sys/class/infiniband.

`counters` belong to the port; some are narrow and saturate. `hw_counters` belong to the function and are mostly 32-bit.
The catalogue records which; values are passed on unchanged. The driver refreshes `hw_counters` at most once per
`lifespan` milliseconds, so they are read no more often: repeated values would look like idle time.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from skewscope.adapters.agent.collectors.context import CollectorContext
from skewscope.adapters.agent.collectors.counter_names import CounterNames, DeviceEntity, Sample, device_entities
from skewscope.adapters.agent.collectors.kernel_files import KernelFiles
from skewscope.engine.ingest.feed import SeriesKey

PERIOD, PRIORITY = 1.0, 2
FOLDER = "sys/class/infiniband"
NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)")
RATE = "rate"
"""Read as text: `200 Gb/sec (4X HDR)`."""
GIGA = 1e9


@dataclass
class _RdmaPort:
    """The files read for one port."""

    lifespan: str
    fast: list[tuple[str, SeriesKey, float]] = field(default_factory=list)
    slow: list[tuple[str, SeriesKey, float]] = field(default_factory=list)
    """Files with a lifespan."""
    last_slow_read: float = -math.inf


def build(context: CollectorContext) -> "RdmaCollector":
    """Creates the collector."""
    return RdmaCollector(context)


class RdmaCollector:
    """Reads the RDMA ports of a node."""

    def __init__(self, context: CollectorContext) -> None:
        self._files = context.files
        counters, own = CounterNames(context.catalogue, "sysfs_ib"), CounterNames(context.catalogue, "sysfs_rdma_hw")
        found = dict(_find_ports(context.files, context.ports))
        self._ports = [
            self._build_port(path, place, counters, own) for path, place in device_entities(context.node, found)
        ]

    def _build_port(self, path: str, place: DeviceEntity, counters: CounterNames, own: CounterNames) -> _RdmaPort:
        base = f"{FOLDER}/{path}"
        there = [f"counters/{name}" for name in self._files.names(f"{base}/counters")]
        port = _RdmaPort(f"{base}/hw_counters/lifespan")
        for name, meant in counters.select([*there, RATE, "state"]):
            scale = GIGA if name == RATE else meant.scale
            port.fast.append((f"{base}/{name}", place.series_key(meant), scale))
        for name, meant in own.select(self._files.names(f"{base}/hw_counters")):
            port.slow.append((f"{base}/hw_counters/{name}", place.series_key(meant), meant.scale))
        return port

    def read(self, now: float) -> Iterator[Sample]:
        """Yields the present values."""
        for port in self._ports:
            yield from self._read_series(port.fast)
            lifespan = (self._files.number(port.lifespan) or 0.0) / 1e3 if port.slow else 0.0
            if not 0 <= now - port.last_slow_read < lifespan:
                port.last_slow_read = now
                yield from self._read_series(port.slow)

    def _read_series(self, series: list[tuple[str, SeriesKey, float]]) -> Iterator[Sample]:
        for path, key, scale in series:
            match = NUMBER.match(self._files.text(path))
            if match:
                yield key, float(match[1]) * scale


def _find_ports(files: KernelFiles, ports: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (path below the folder, port) of each RDMA port that is configured itself or by its network device."""
    for hca in files.names(FOLDER):
        for number in files.names(f"{FOLDER}/{hca}/ports"):
            path = f"{hca}/ports/{number}"
            netdev = files.text(f"{FOLDER}/{path}/gid_attrs/ndevs/0")
            for device in (f"{hca}:{number}", f"{hca}/{number}", hca, netdev):
                if device in ports:
                    yield path, ports[device]
                    break
