"""Inputs of kind `infiniband-counters`: dumps of sysfs, `perfquery` or `ibstat` with a line of time before each.

sysfs is read as `grep -r . /sys/class/infiniband/*/ports/*/` prints it.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head
from skewscope.adapters.inputs.counter_dumps import UNNAMED_DEVICE, Counter, find_place, host_in_name, read_dumps
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.kb.loader import catalogue

SYSFS = re.compile(
    r"(?:/sys/class/infiniband/|^)(?P<device>\w{1,40})/ports/(?P<port>\d{1,3})/"
    r"(?P<name>(?:(?:hw_)?counters/)?\w{1,60}): ?(?P<value>.{1,60})$"
)
ADAPTER = re.compile(r"^CA '(?P<device>\w{1,40})'$")
PORT = re.compile(r"^\s+Port (?P<port>\d{1,3}):$")
STATE = re.compile(r"^\s+(?P<name>State|Rate): (?P<value>\w{1,20})$")
TITLE = re.compile(r"^# Port (?:extended )?counters: Lid \d+ port (?P<port>\d{1,3})")
QUERY = re.compile(r"^(?P<name>[A-Z]\w{2,40}):\.{2,40}(?P<number>\d{1,20})$")
COMMAND = re.compile(r"\b(?:perfquery|ibstat)\b.*?\s(?P<device>\w+_\d+|ib\d+)\b")
NUMBER = re.compile(r"(?P<number>\d{1,20})(?:: [A-Z]\w*)?$")
SPEED = re.compile(r"(?P<number>\d{1,5}(?:\.\d)?) Gb/sec")
STATES = {"Down": 1.0, "Initializing": 2.0, "Armed": 3.0, "Active": 4.0}

# What perfquery calls the counters of sysfs.
QUERY_NAMES = {
    "PortXmitData": "port_xmit_data",
    "PortRcvData": "port_rcv_data",
    "PortXmitPkts": "port_xmit_packets",
    "PortRcvPkts": "port_rcv_packets",
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "port_rcv_errors",
    "PortRcvRemotePhysicalErrors": "port_rcv_remote_physical_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
    "VL15Dropped": "VL15_dropped",
    "PortXmitWait": "port_xmit_wait",
}


@cache
def sysfs_metrics() -> dict[str, tuple[str, float]]:
    """Returns the canonical metric and the factor of each file of sysfs."""
    found: dict[str, tuple[str, float]] = {}
    for signal in catalogue().signals.values():
        for exporter, folder in (("sysfs_ib", ""), ("sysfs_rdma_hw", "hw_counters/")):
            for name in set(signal.sources.get(exporter, ())) - {"phys_state"}:
                found.setdefault(folder + str(name), (signal.metric, signal.scale.get(exporter, 1.0)))
    return found


class InfinibandParser:
    """Finds the counters of ports in the output of each of the tools."""

    command = "grep -r . /sys/class/infiniband/*/ports/*/"
    may_repeat = False

    def __init__(self, place: Mapping[str, str]) -> None:
        """Takes the node and device that hold for all of the file."""
        self._node = place["node"]
        self._device, self._port = place["device"], "1"

    def read_line(self, text: str, number: int) -> list[Counter]:
        """Returns the counters of a line."""
        if match := SYSFS.search(text):
            value = parse_value(match["name"], match["value"])
            return [] if value is None else [self._count(match["name"], value, number, match["device"], match["port"])]
        if match := ADAPTER.match(text) or COMMAND.search(text):
            self._device = match["device"]
        elif match := PORT.match(text) or TITLE.match(text):
            self._port = match["port"]
        elif match := STATE.match(text):
            return self._read_state(match, number)
        elif match := QUERY.match(text):
            name = QUERY_NAMES.get(match["name"], match["name"])
            selectors = ("PortSelect", "CounterSelect", "CounterSelect2")
            return [] if name in selectors else [self._count(f"counters/{name}", float(match["number"]), number)]
        return []

    def _read_state(self, match: re.Match[str], number: int) -> list[Counter]:
        """Returns what ibstat says of a port: its state, or its rate in Gb/s."""
        if match["name"] == "State" and match["value"] in STATES:
            return [self._count("state", STATES[match["value"]], number)]
        if match["name"] == "Rate" and match["value"].isdecimal():
            return [self._count("rate", float(match["value"]) * 1e9, number)]
        return []

    def _count(self, name: str, value: float, number: int, device: str = "", port: str = "") -> Counter:
        device = device or self._device or UNNAMED_DEVICE
        metric, factor = sysfs_metrics().get(name, ("infiniband_" + name.rpartition("/")[2], 1.0))
        place = {"node": self._node, "device": device, "port": port or self._port}
        return Counter(name, metric, place, value * factor, number)


def parse_value(name: str, text: str) -> float | None:
    """Returns the number of a file of sysfs: of a rate in bit/s; None where it has none."""
    if name == "rate":
        speed = SPEED.match(text)
        return float(speed["number"]) * 1e9 if speed else None
    match = NUMBER.fullmatch(text.strip())
    return float(match["number"]) if match else None


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a dump of InfiniBand counters."""
    return any(SYSFS.search(line) or ADAPTER.match(line) or TITLE.match(line) for line in decode_head(head))


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all counters of each port.

    Raises:
        InputError: it is no such dump.
    """
    return read_dumps(file, name, labels, InfinibandParser(find_place(labels, name)))


READER = artefact_reader(
    "dump of InfiniBand counters",
    read_series,
    recognise,
    exporter="node_exporter_ib",
    placed_by_name=True,
    host_in_name=host_in_name,
)
