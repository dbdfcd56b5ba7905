"""Collector of network devices, from /sys/class/net: traffic through the driver's rings, and the state of the link."""

import re
from collections.abc import Iterator, Mapping

from skewscope.adapters.agent.collectors.context import CollectorContext
from skewscope.adapters.agent.collectors.counter_names import CounterMapping, DeviceEntity, Sample, device_entities
from skewscope.adapters.agent.collectors.kernel_files import KernelFiles
from skewscope.engine.ingest.feed import SeriesKey

PERIOD, PRIORITY = 1.0, 3
FOLDER = "sys/class/net"
FILE_SIGNALS: Mapping[str, tuple[str, float]] = {
    "statistics/rx_bytes": ("port.rx_netdev_bytes", 1.0),
    "statistics/tx_bytes": ("port.tx_netdev_bytes", 1.0),
    "statistics/rx_packets": ("port.rx_netdev_packets", 1.0),
    "statistics/tx_packets": ("port.tx_netdev_packets", 1.0),
    "statistics/rx_dropped": ("port.rx_netdev_drops", 1.0),
    "statistics/tx_dropped": ("port.tx_netdev_drops", 1.0),
    "statistics/rx_errors": ("port.rx_netdev_errors", 1.0),
    "statistics/tx_errors": ("port.tx_netdev_errors", 1.0),
    "carrier": ("port.carrier", 1.0),
    "carrier_down_count": ("port.carrier_down_changes", 1.0),
    "speed": ("port.speed", 1e6),  # Mbit/s
}
"""By file: the signal, and the factor to its unit."""
REPRESENTOR = re.compile(r"(c\d+)?pf\d+(hpf|vf\d+|sf\d+)?")
REPRESENTOR_NAME = re.compile(r"(c\d+)?pf\d+(hpf|vf\d+|sf\d+)|en.*pf\d+sf\d+")


def is_representor(files: KernelFiles, device: str) -> bool:
    """Returns whether a device represents a function behind the switch: it counts only the slow path."""
    if name := files.text(f"{FOLDER}/{device}/phys_port_name"):
        return REPRESENTOR.fullmatch(name) is not None
    return REPRESENTOR_NAME.fullmatch(device) is not None


def uplinks(files: KernelFiles, ports: Mapping[str, str]) -> dict[str, str]:
    """Returns the present devices that are not representors."""
    there = set(files.names(FOLDER))
    return {d: port for d, port in ports.items() if d in there and not is_representor(files, d)}


def build(context: CollectorContext) -> "NetdevCollector":
    """Creates the collector."""
    return NetdevCollector(context)


class NetdevCollector:
    """Reads the devices of a node's ports."""

    def __init__(self, context: CollectorContext) -> None:
        self._files = context.files
        self._series = [
            (f"{FOLDER}/{device}/{file}", _series_key(place, signal), scale)
            for device, place in device_entities(context.node, uplinks(context.files, context.ports))
            for file, (signal, scale) in FILE_SIGNALS.items()
        ]

    def read(self, _now: float) -> Iterator[Sample]:
        """Yields the present values; an unknown speed is omitted."""
        for path, key, scale in self._series:
            value = self._files.number(path)
            if value is not None and value >= 0:
                yield key, value * scale


def _series_key(place: DeviceEntity, signal: str) -> SeriesKey:
    return place.series_key(CounterMapping(signal, "port", 0, 1.0, ""))
