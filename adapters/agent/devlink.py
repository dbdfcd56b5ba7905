"""Health of the device behind a port, as its driver reports it: devlink, asked over generic netlink.

Drivers keep reporters (firmware, its fatal errors, send and receive queues) that count what went wrong. Asking for the
counts takes no privilege.
"""

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from skewscope.adapters.agent.ground import Ground
from skewscope.adapters.agent.kernel import Sample
from skewscope.adapters.agent.netdev import FOLDER
from skewscope.engine.feed import SeriesKey

GENERIC = 16
CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 0x10, 3, 1, 2
HEALTH_REPORTER_GET = 52
DEVICE_NAME, REPORTER, REPORTER_NAME, ERRORS = 2, 114, 115, 117
"""Commands and attributes of devlink, from the kernel's uapi/linux/devlink.h."""
REQUEST, DUMP = 0x01, 0x300
ERROR, DONE = 2, 3
HEAD, GENERIC_HEAD, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBH"), struct.Struct("=HH")
KIND = 0x3FFF
"""The bits of an attribute's type that say which it is."""
MOST = 1 << 16
MOST_MESSAGES = 4096
PATIENCE = 0.5
"""Seconds that the kernel may take to answer."""


class Reporter(NamedTuple):
    """One reporter of one device."""

    device: str
    """Its PCI address."""
    name: str
    errors: int


class Devlink:
    """Reads the reporters of the devices behind a node's ports."""

    def __init__(self, ground: Ground) -> None:
        self._troubles = ground.troubles
        self._ports = dict(_addresses(ground))

    def read(self, _now: float) -> Iterator[Sample]:
        """How many errors each reporter has counted."""
        if not self._ports:
            return
        try:
            found = asked()
        except OSError as error:
            self._troubles.note("devlink", error.strerror or error)
            return
        for one in found:
            if one.device in self._ports:
                selector = f"reporter={one.name}".replace(",", "%2C")
                yield SeriesKey("port.health_errors", "port", self._ports[one.device], selector), float(one.errors)


def _addresses(ground: Ground) -> Iterator[tuple[str, str]]:
    """PCI address and port of each network device that has one."""
    for device, port in ground.ports.items():
        if target := ground.files.link(f"{FOLDER}/{device}/device"):
            yield target.rpartition("/")[2], port


def asked() -> list[Reporter]:
    """The reporters of this machine.

    Raises:
        OSError: the kernel knows no devlink, or does not answer.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC) as line:
        line.settimeout(PATIENCE)
        line.bind((0, 0))
        name = ATTRIBUTE.pack(ATTRIBUTE.size + 8, FAMILY_NAME) + b"devlink\0"
        line.send(message(CONTROL, REQUEST, GET_FAMILY, name))
        family = next((struct.unpack("=H", value)[0] for value in _values(line.recv(MOST), FAMILY_ID)), 0)
        if not family:
            raise OSError(0, "the kernel knows no devlink")
        line.send(message(family, REQUEST | DUMP, HEALTH_REPORTER_GET, b""))
        found: list[Reporter] = []
        for _ in range(MOST_MESSAGES):
            part, done = reporters(line.recv(MOST))
            found += part
            if done:
                break
        return found


def message(family: int, flags: int, command: int, attributes: bytes) -> bytes:
    """One request."""
    body = GENERIC_HEAD.pack(command, 1, 0) + attributes
    return HEAD.pack(HEAD.size + len(body), family, flags, 1, 0) + body


def reporters(data: bytes) -> tuple[list[Reporter], bool]:
    """The reporters of which some messages tell, and whether no more will come."""
    found: list[Reporter] = []
    for kind, body in messages(data):
        if kind in (ERROR, DONE):
            return found, True
        parts = dict(attributes(body[GENERIC_HEAD.size :]))
        inner = dict(attributes(parts.get(REPORTER, b"")))
        errors = inner.get(ERRORS, b"")
        if DEVICE_NAME in parts and REPORTER_NAME in inner and len(errors) == 8:
            names = (parts[DEVICE_NAME], inner[REPORTER_NAME])
            device, name = (one.split(b"\0")[0].decode("ascii", "replace") for one in names)
            found.append(Reporter(device, name, struct.unpack("=Q", errors)[0]))
    return found, False


def _values(data: bytes, wanted: int) -> Iterator[bytes]:
    for kind, body in messages(data):
        if kind not in (ERROR, DONE):
            yield from (value for name, value in attributes(body[GENERIC_HEAD.size :]) if name == wanted)


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and body of each message of a datagram, as far as it is whole."""
    at = 0
    while at + HEAD.size <= len(data):
        length, kind, *_ = HEAD.unpack_from(data, at)
        if length < HEAD.size or at + length > len(data):
            return
        yield kind, data[at + HEAD.size : at + length]
        at += _aligned(length)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and value of each attribute, as far as they are whole."""
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, at)
        if length < ATTRIBUTE.size or at + length > len(data):
            return
        yield kind & KIND, data[at + ATTRIBUTE.size : at + length]
        at += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
