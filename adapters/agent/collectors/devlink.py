"""Collector of device health as reported by drivers: devlink over generic netlink.

Drivers have reporters (firmware, fatal firmware errors, send and receive queues) that count errors. Reading the counts
needs no privilege.
"""

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from skewscope.adapters.agent.collectors.context import CollectorContext
from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.agent.collectors.net import FOLDER
from skewscope.engine.ingest.feed import SeriesKey

PERIOD, PRIORITY = 10.0, 6
NETLINK_GENERIC = 16
GENL_CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 0x10, 3, 1, 2
HEALTH_REPORTER_GET = 52
DEVICE_NAME, REPORTER, REPORTER_NAME, ERRORS = 2, 114, 115, 117
"""Commands and attributes of devlink, from the kernel's uapi/linux/devlink.h."""
REQUEST, DUMP = 0x01, 0x300
ERROR, DONE = 2, 3
HEADER, GENERIC_HEADER, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBH"), struct.Struct("=HH")
TYPE_MASK = 0x3FFF
"""Mask of the type in an attribute's type field."""
MAX_BYTES = 1 << 16
MAX_MESSAGES = 4096
REPLY_TIMEOUT = 0.5
"""Seconds to wait for the kernel's answer."""


class HealthReporter(NamedTuple):
    """One reporter of one device."""

    device: str
    """PCI address."""
    name: str
    errors: int


def build(context: CollectorContext) -> "DevlinkCollector":
    """Creates the collector."""
    return DevlinkCollector(context)


class DevlinkCollector:
    """Reads the reporters of the devices behind a node's ports."""

    def __init__(self, context: CollectorContext) -> None:
        self._failures = context.failures
        self._ports = dict(_pci_addresses(context))

    def read(self, _now: float) -> Iterator[Sample]:
        """Yields the error count of each reporter."""
        if not self._ports:
            return
        try:
            found = query_reporters()
        except OSError as error:
            self._failures.note("devlink", error.strerror or error)
            return
        for one in found:
            if one.device in self._ports:
                selector = f"reporter={one.name}".replace(",", "%2C")
                yield SeriesKey("port.health_errors", "port", self._ports[one.device], selector), float(one.errors)


def _pci_addresses(context: CollectorContext) -> Iterator[tuple[str, str]]:
    """Yields PCI address and port of each network device that has one."""
    for device, port in context.ports.items():
        if target := context.files.link(f"{FOLDER}/{device}/device"):
            yield target.rpartition("/")[2], port


def query_reporters() -> list[HealthReporter]:
    """Returns the reporters of this machine.

    Raises:
        OSError: the kernel lacks devlink, or does not answer.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as line:
        line.settimeout(REPLY_TIMEOUT)
        line.bind((0, 0))
        name = ATTRIBUTE.pack(ATTRIBUTE.size + 8, FAMILY_NAME) + b"devlink\0"
        line.send(build_message(GENL_CONTROL, REQUEST, GET_FAMILY, name))
        family = next(
            (struct.unpack("=H", value)[0] for value in _attribute_values(line.recv(MAX_BYTES), FAMILY_ID)), 0
        )
        if not family:
            raise OSError(0, "the kernel lacks devlink")
        line.send(build_message(family, REQUEST | DUMP, HEALTH_REPORTER_GET, b""))
        found: list[HealthReporter] = []
        for _ in range(MAX_MESSAGES):
            part, done = parse_reporters(line.recv(MAX_BYTES))
            found += part
            if done:
                break
        return found


def build_message(family: int, flags: int, command: int, attributes: bytes) -> bytes:
    """Encodes one request."""
    body = GENERIC_HEADER.pack(command, 1, 0) + attributes
    return HEADER.pack(HEADER.size + len(body), family, flags, 1, 0) + body


def parse_reporters(data: bytes) -> tuple[list[HealthReporter], bool]:
    """Returns the reporters in some messages, and whether the dump is complete."""
    found: list[HealthReporter] = []
    for kind, body in parse_messages(data):
        if kind in (ERROR, DONE):
            return found, True
        parts = dict(parse_attributes(body[GENERIC_HEADER.size :]))
        inner = dict(parse_attributes(parts.get(REPORTER, b"")))
        errors = inner.get(ERRORS, b"")
        if DEVICE_NAME in parts and REPORTER_NAME in inner and len(errors) == 8:
            names = (parts[DEVICE_NAME], inner[REPORTER_NAME])
            device, name = (one.split(b"\0")[0].decode("ascii", "replace") for one in names)
            found.append(HealthReporter(device, name, struct.unpack("=Q", errors)[0]))
    return found, False


def _attribute_values(data: bytes, wanted: int) -> Iterator[bytes]:
    for kind, body in parse_messages(data):
        if kind not in (ERROR, DONE):
            yield from (value for name, value in parse_attributes(body[GENERIC_HEADER.size :]) if name == wanted)


def parse_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields type and body of each complete message of a datagram."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, *_ = HEADER.unpack_from(data, at)
        if length < HEADER.size or at + length > len(data):
            return
        yield kind, data[at + HEADER.size : at + length]
        at += _align(length)


def parse_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields type and value of each complete attribute."""
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, at)
        if length < ATTRIBUTE.size or at + length > len(data):
            return
        yield kind & TYPE_MASK, data[at + ATTRIBUTE.size : at + length]
        at += _align(length)


def _align(length: int) -> int:
    return (length + 3) & ~3
