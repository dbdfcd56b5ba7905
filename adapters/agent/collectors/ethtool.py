"""Collector of driver statistics, as `ethtool -S` prints them, through ioctl: no command is run.

The names are fetched once, and again when their number changes; each second only the values are read. A driver has
hundreds of counters per ring, of which the catalogue uses few.
"""

import array
import errno
import fcntl
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from skewscope.adapters.agent.collectors.context import CollectorContext
from skewscope.adapters.agent.collectors.counter_names import (
    CounterMapping,
    CounterNames,
    DeviceEntity,
    Sample,
    device_entities,
)
from skewscope.adapters.agent.collectors.net import FOLDER, is_representor
from skewscope.engine.ingest.feed import SeriesKey

PERIOD, PRIORITY = 1.0, 1
SIOCETHTOOL = 0x8946
GSTRINGS, GSTATS, GSSET_INFO = 0x1B, 0x1D, 0x37
ETH_SS_STATS = 1
NAME_BYTES = 32
MAX_STATISTICS = 1 << 16
IFNAMSIZ = 16
REQUEST_SIZE = 40
"""Bytes of a struct ifreq."""


class DriverStatistics(Protocol):
    """Statistics of a driver."""

    def count(self, device: str) -> int:
        """Returns the number of statistics of a device; 0 for none."""
        ...

    def names(self, device: str, count: int) -> Sequence[str]:
        """Returns their names."""
        ...

    def numbers(self, device: str, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Returns [statistic] uint64 values; fewer if the set changed meanwhile."""
        ...

    def close(self) -> None:
        """Frees what it holds."""
        ...


class EthtoolIoctl:
    """Statistics from the kernel of this machine."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def count(self, device: str) -> int:
        """See `DriverStatistics`; raises OSError if the device is gone."""
        # cmd, reserved, mask of sets, then one length for each bit that is left in the mask
        buffer = array.array("B", struct.pack("=IIQI", GSSET_INFO, 0, 1 << ETH_SS_STATS, 0))
        try:
            self._call(device, buffer)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return 0
            raise
        _, _, mask, count = struct.unpack_from("=IIQI", buffer)
        return min(int(count), MAX_STATISTICS) if mask else 0

    def names(self, device: str, count: int) -> Sequence[str]:
        """See `DriverStatistics`."""
        head = struct.pack("=III", GSTRINGS, ETH_SS_STATS, count)
        buffer = array.array("B", head + bytes(NAME_BYTES * count))
        self._call(device, buffer)
        text = buffer.tobytes()[12:]
        parts = (text[n * NAME_BYTES : (n + 1) * NAME_BYTES] for n in range(count))
        return [part.split(b"\0")[0].decode("ascii", "replace").strip() for part in parts]

    def numbers(self, device: str, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """See `DriverStatistics`."""
        buffer = array.array("B", struct.pack("=II", GSTATS, count) + bytes(8 * count))
        self._call(device, buffer)
        _, got = struct.unpack_from("=II", buffer)
        return np.frombuffer(buffer, np.uint64, min(int(got), count), 8)

    def close(self) -> None:
        """Closes its socket."""
        self._socket.close()

    def _call(self, device: str, buffer: "array.array[int]") -> None:
        name = device.encode()
        if len(name) >= IFNAMSIZ:
            raise OSError(errno.EOPNOTSUPP, "no such device")
        request = struct.pack(f"{IFNAMSIZ}sP", name, buffer.buffer_info()[0]).ljust(REQUEST_SIZE, b"\0")
        fcntl.ioctl(self._socket, SIOCETHTOOL, request)


class _DeviceSeries(NamedTuple):
    """The statistics of a device that are read."""

    statistic_count: int
    columns: np.ndarray[tuple[int], np.dtype[np.intp]]
    keys: Sequence[SeriesKey]
    scale: np.ndarray[tuple[int], np.dtype[np.float64]]


def build(context: CollectorContext) -> "EthtoolCollector":
    """Creates the collector."""
    return EthtoolCollector(context, EthtoolIoctl())


class EthtoolCollector:
    """Reads the drivers of a node's ports."""

    def __init__(self, context: CollectorContext, statistics: DriverStatistics) -> None:
        self._statistics = statistics
        self._failures = context.failures
        self._counter_names = CounterNames(context.catalogue, "ethtool")
        devices = set(context.files.names(FOLDER))
        there = {d: port for d, port in context.ports.items() if d in devices}
        behind = {d: port for d, port in there.items() if is_representor(context.files, d)}
        own = {d: port for d, port in there.items() if d not in behind}
        single = (place._replace(device_selector=f"device={d}") for d, place in device_entities(context.node, behind))
        self._devices = [*device_entities(context.node, own), *zip(behind, single, strict=True)]
        self._representors = frozenset(behind)
        self._known: dict[str, _DeviceSeries] = {}

    def close(self) -> None:
        """Closes the source of the statistics."""
        self._statistics.close()

    def read(self, _now: float) -> Iterator[Sample]:
        """Yields the present values."""
        for device, place in self._devices:
            try:
                yield from self._read_device(device, place)
            except OSError as error:
                self._known.pop(device, None)
                self._failures.note(f"ethtool statistics of {device}", error.strerror)

    def _read_device(self, device: str, place: DeviceEntity) -> Iterator[Sample]:
        count = self._statistics.count(device)
        known = self._known.get(device)
        if known is None or known.statistic_count != count:
            names = self._statistics.names(device, count) if count else ()
            known = self._known[device] = select_statistics(
                names, place, self._counter_names, behind=device in self._representors
            )
        if not len(known.columns):
            return
        numbers = self._statistics.numbers(device, count)
        if len(numbers) == count:
            yield from zip(known.keys, (numbers[known.columns] * known.scale).tolist(), strict=True)


def select_statistics(
    names: Sequence[str], place: DeviceEntity, kernel: CounterNames, *, behind: bool
) -> _DeviceSeries:
    """Selects the statistics that the catalogue knows; `behind`: the device is a representor.

    A representor's counters are another function's, seen from the switch: only those that count all of its traffic are
    used. Statistics of single rings concern the host alone.
    """
    numbers: dict[str, int] = {}
    for index, name in enumerate(names):
        numbers.setdefault(name, index)
    chosen = [(n, m) for n, m in kernel.select(numbers) if _is_readable(m, behind=behind)]
    which = np.array([numbers[name] for name, _ in chosen], np.intp)
    scale = np.array([meant.scale for _, meant in chosen], np.float64)
    return _DeviceSeries(len(names), which, [place.series_key(meant) for _, meant in chosen], scale)


def _is_readable(meant: CounterMapping, *, behind: bool) -> bool:
    return meant.on_port and meant.entity_word != "queue" and (meant.entity_word == "representor") == behind
