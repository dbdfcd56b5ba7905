"""Devlink's messages, made by hand as the kernel's header has them, and a question to the kernel of this machine."""

import socket
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.agent.collectors import devlink
from skewscope.adapters.agent.collectors.devlink import (
    DevlinkCollector,
    HealthReporter,
    parse_reporters,
    query_reporters,
)
from tests.support.agent_trees import ground, on_port, tree


def attribute(kind: int, value: bytes) -> bytes:
    return (struct.pack("=HH", 4 + len(value), kind) + value).ljust((4 + len(value) + 3) // 4 * 4, b"\0")


def told(device: str, name: str, errors: int) -> bytes:
    inner = attribute(115, name.encode() + b"\0") + attribute(116, b"\0") + attribute(117, struct.pack("=Q", errors))
    parts = attribute(1, b"pci\0") + attribute(2, device.encode() + b"\0") + attribute(114 | 0x8000, inner)
    return devlink.build_message(0x14, 2, 52, parts)


DONE = struct.pack("=IHHII", 20, 3, 2, 1, 0) + bytes(4)


def test_reporters_are_read_from_their_messages():
    data = told("0000:03:00.0", "fw", 3) + told("0000:03:00.1", "tx", 2**40)
    expected = [HealthReporter("0000:03:00.0", "fw", 3), HealthReporter("0000:03:00.1", "tx", 2**40)]
    assert parse_reporters(data) == (expected, False)
    assert parse_reporters(data + DONE) == (expected, True)


@given(st.binary(max_size=200))
def test_what_is_no_message_tells_nothing_and_hurts_nobody(data):
    found, _ = parse_reporters(data)
    assert all(isinstance(one, HealthReporter) for one in found)
    whole = told("0000:03:00.0", "fw", 3)
    for end in range(len(whole)):
        assert parse_reporters(whole[:end]) == ([], False)


def test_errors_belong_to_the_port_of_the_device(tmp_path, monkeypatch):
    root = tree(tmp_path, {"sys/class/net/p0/mtu": 1, "sys/devices/0000:03:00.0/vendor": 1})
    (root / "sys/class/net/p0/device").symlink_to("../../../devices/0000:03:00.0")
    found = [HealthReporter("0000:03:00.0", "fw", 3), HealthReporter("0000:99:00.0", "fw", 9)]
    monkeypatch.setattr(devlink, "query_reporters", lambda: found)
    assert list(DevlinkCollector(ground(root, {"p0": "n0/ew"})).read(0)) == [
        (on_port("port.health_errors", "reporter=fw"), 3.0)
    ]


def test_a_machine_without_devlink_is_said_once(tmp_path, monkeypatch):
    def refused():
        raise OSError(0, "the kernel lacks devlink")

    root = tree(tmp_path, {"sys/class/net/p0/mtu": 1, "sys/devices/0000:03:00.0/vendor": 1})
    (root / "sys/class/net/p0/device").symlink_to("../../../devices/0000:03:00.0")
    monkeypatch.setattr(devlink, "query_reporters", refused)
    where = ground(root, {"p0": "n0/ew"})
    reader = DevlinkCollector(where)
    assert not [*reader.read(0), *reader.read(1)]
    assert where.failures.counts == {"devlink": 2}


@pytest.mark.skipif(not hasattr(socket, "AF_NETLINK"), reason="no netlink of Linux here")
def test_the_kernel_of_this_machine_answers_or_says_why_not():
    with suppress(OSError):
        assert all(one.device and one.name for one in query_reporters())
