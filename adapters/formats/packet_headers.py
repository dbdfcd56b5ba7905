"""Parser of packet headers: frames to columns of packets, one array operation per field of a block.

The content of a frame never raises: a packet that cannot be parsed is `OTHER`, with the fields that could. Lengths come
from the headers, since captures are truncated after a few dozen bytes.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.formats.pcap import BLOCK_BYTES, ETHERNET, RAW_IP, SLL, SLL2, FrameReader, Frames, read_headers
from skewscope.engine.wire.packets import OTHER, ROCE, ROCE_CNP, ROCE_V1, TCP, Packets

__all__ = [
    "OTHER",
    "ROCE",
    "ROCE_PORT",
    "ROCE_V1",
    "TCP",
    "PacketReader",
    "Packets",
    "address_key",
    "decode",
    "read_packets",
]

I64: TypeAlias = NDArray[np.int64]
U64: TypeAlias = NDArray[np.uint64]
Bools: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = dict[str, NDArray[Any]]

ROCE_PORT = 4791

column_types: dict[str, type[np.generic]] = {
    "src": np.uint64,
    "dst": np.uint64,
    "sport": np.uint16,
    "dport": np.uint16,
    "proto": np.uint8,
    "length": np.int32,
    "seq": np.uint32,
    "ack": np.uint32,
    "flags": np.uint8,
    "window": np.uint16,
    "opcode": np.uint8,
    "qp": np.uint32,
    "psn": np.uint32,
    "syndrome": np.uint8,
    "ecn": np.uint8,
}


def read_packets(path: Path, block_bytes: int = BLOCK_BYTES, most_bytes: int | None = None) -> "PacketReader":
    """Returns a reader of the packets of a capture file, plain or compressed, block by block."""
    return PacketReader(path, block_bytes, most_bytes)


class PacketReader(Iterator[Packets]):
    """Iterates over the packets of one capture file and counts what could not be parsed."""

    short_frames = 0
    """Number of frames so far that were captured too short for their headers; a larger snap length helps."""
    roce_v1_frames = 0
    """Number of RoCEv1 frames so far, which are counted and not decoded."""

    def __init__(self, path: Path, block_bytes: int = BLOCK_BYTES, most_bytes: int | None = None) -> None:
        self._frames = FrameReader(path, block_bytes, most_bytes)

    def __next__(self) -> Packets:
        packets, cut = _decode(next(self._frames))
        self.short_frames += cut
        self.roce_v1_frames += int(np.count_nonzero(packets.proto == ROCE_V1))
        return packets

    @property
    def truncated_records(self) -> int:
        """1 if the file ends inside a record."""
        return self._frames.truncated_records


def decode(frames: Frames) -> Packets:
    """Returns one row per frame, in their order."""
    return _decode(frames)[0]


def _decode(frames: Frames) -> tuple[Packets, int]:
    """Returns one row per frame, and the number of frames captured too short."""
    out: Columns = {name: np.zeros(len(frames), kind) for name, kind in column_types.items()}
    link = _parse_link(frames)
    cut = link.short_frames
    net = _Network(*(np.full(len(frames), fill, np.int64) for fill in (NO_PROTOCOL, 0, 0, 0)))
    for network in (_parse_ipv4, _parse_ipv6):
        cut += network(frames, link, net, out)
    out["proto"][link.ethertype == ROCE_V1_ETHERTYPE] = ROCE_V1
    for transport in (_parse_ports, _parse_tcp, _parse_roce):
        cut += transport(frames, net, out)
    return Packets(time=frames.time, size=frames.size.astype(np.int32), **out), cut


# Addresses


def address_key(text: str) -> int:
    """Returns the number of an address in `src` and `dst`; raises ValueError for an invalid address."""
    address = ipaddress.ip_address(text)
    number = int(address) if address.version == 6 else 0xFFFF << 32 | int(address)
    high, low = (np.array([part], np.uint64) for part in (number >> 64, number & 0xFFFF_FFFF_FFFF_FFFF))
    return int(_hash_addresses(high, low)[0])


def _hash_addresses(high: U64, low: U64) -> U64:
    """Returns [address] uint64 hashes of 128-bit addresses, equal on every host and in every run."""
    return _mix_bits(_mix_bits(high + np.uint64(0x9E3779B97F4A7C15)) ^ low)


def _mix_bits(bits: U64) -> U64:
    """Mixes bits: every bit of the result depends on every bit given (the finaliser of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


# Link layer

BE16 = np.dtype(">u2")
IPV4, IPV6 = 0x0800, 0x86DD
ROCE_V1_ETHERTYPE = 0x8915
"""RDMA in Ethernet frames of its own, without IP: its addresses are those of the link."""
vlan_tags = (0x8100, 0x88A8, 0x9100)
MAX_VLANS = 4

link_layout = {ETHERNET: (12, 14), SLL: (14, 16), SLL2: (0, 20)}
"""By link type: offset of the ethertype in the header, and length of the header."""


@dataclass(slots=True)
class _Link:
    """[frame] network layer and its offset."""

    ethertype: I64
    offset: I64
    end: I64
    """Offset of the end of the captured bytes."""
    short_frames: int


def _parse_link(frames: Frames) -> _Link:
    """Parses the link layer of each frame; ethertype 0 where unknown."""
    end = frames.start + frames.captured
    if frames.link == RAW_IP:
        return _parse_raw_ip(frames, end)
    kind_at, length = link_layout.get(frames.link, (0, 0))
    if not length:
        return _Link(np.zeros(len(frames), np.int64), frames.start, end, 0)
    link = _Link(np.zeros(len(frames), np.int64), frames.start + length, end, 0)
    fits = link.offset <= end
    link.ethertype[fits] = read_headers(frames.data, frames.start[fits] + kind_at, BE16)
    link.short_frames = _count_short(frames, ~fits)
    for _ in range(MAX_VLANS):
        tagged = np.flatnonzero(np.isin(link.ethertype, vlan_tags) & (link.offset + 4 <= end))
        if not len(tagged):
            break
        link.ethertype[tagged] = read_headers(frames.data, link.offset[tagged] + 2, BE16)
        link.offset[tagged] += 4
    return link


def _parse_raw_ip(frames: Frames, end: I64) -> _Link:
    """Parses frames that begin with the network layer, by the version of its header."""
    some = frames.captured > 0
    version = np.zeros(len(frames), np.int64)
    version[some] = frames.data[frames.start[some]] >> 4
    return _Link(np.select([version == 4, version == 6], [IPV4, IPV6], 0), frames.start, end, 0)


Rows: TypeAlias = I64 | slice
"""Rows of frames; a slice for all of them, which copies nothing."""


def _rows_of(mask: Bools) -> Rows:
    """Returns the rows of a mask."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _select_rows(rows: Rows, mask: Bools) -> Rows:
    """Returns those of some rows that are in a mask, [row of these]."""
    if mask.all():
        return rows
    return np.flatnonzero(mask) if isinstance(rows, slice) else rows[mask]


def _count_short(frames: Frames, missing: Bools) -> int:
    """Returns the number of frames whose missing bytes the capture truncated."""
    return int(np.count_nonzero(missing & (frames.captured < frames.size)))


# Network layer

NO_PROTOCOL = 255
"""Reserved protocol number: there is no transport header to parse."""
PROTOCOL_TCP, PROTOCOL_UDP = 6, 17
FRAGMENT, AUTHENTICATION = 44, 51
MAX_EXTENSIONS = 8

is_extension = np.zeros(256, bool)
is_extension[[0, 43, FRAGMENT, AUTHENTICATION, 60]] = True
"""[protocol] bool: IPv6 headers that may come before the transport header."""

IPV4_HEADER = np.dtype(
    [
        ("version", "u1"),
        ("tos", "u1"),
        ("length", ">u2"),
        ("id", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("src", ">u4"),
        ("dst", ">u4"),
    ]
)
IPV6_HEADER = np.dtype(
    [
        ("flow", ">u4"),
        ("length", ">u2"),
        ("next", "u1"),
        ("hops", "u1"),
        ("src", ">u8", 2),
        ("dst", ">u8", 2),
    ]
)
EXTENSION_HEADER = np.dtype([("next", "u1"), ("length", "u1"), ("fragment", ">u2"), ("rest", "V4")])


@dataclass(slots=True)
class _Network:
    """[frame] transport protocol, its offset and lengths."""

    protocol: I64
    offset: I64
    remaining: I64
    """Bytes of the packet from `offset` on, by its header."""
    captured: I64
    """Bytes captured from `offset` on."""


def _parse_ipv4(frames: Frames, link: _Link, net: _Network, out: Columns) -> int:
    """Parses IPv4 headers; returns how many were truncated."""
    kind = link.ethertype == IPV4
    fits = link.offset + 20 <= link.end
    which = _rows_of(kind & fits)
    head = read_headers(frames.data, link.offset[which], IPV4_HEADER)
    options = (head["version"] & 15).astype(np.int64) * 4
    length = head["length"].astype(np.int64)
    # The field has 16 bits: offloads write 0 for longer packets.
    length = np.where(length == 0, (frames.size + frames.start - link.offset)[which], length)
    good = (head["version"] >> 4 == 4) & (options >= 20) & (length >= options)
    if not good.all():
        which, head, options, length = _select_rows(which, good), head[good], options[good], length[good]
    mapped = np.uint64(0xFFFF << 32)
    for name in ("src", "dst"):
        out[name][which] = _hash_addresses(np.zeros(1, np.uint64), mapped | head[name].astype(np.uint64))
    out["ecn"][which] = head["tos"] & 3
    at = link.offset[which] + options
    later = (head["fragment"] & 0x1FFF) > 0
    net.protocol[which] = np.where(later, NO_PROTOCOL, head["protocol"])
    net.offset[which], net.remaining[which], net.captured[which] = at, length - options, link.end[which] - at
    return _count_short(frames, kind & ~fits)


def _parse_ipv6(frames: Frames, link: _Link, net: _Network, out: Columns) -> int:
    """Parses IPv6 headers; returns how many were truncated."""
    kind = link.ethertype == IPV6
    fits = link.offset + 40 <= link.end
    which = np.flatnonzero(kind & fits)
    head = read_headers(frames.data, link.offset[which], IPV6_HEADER)
    good = head["flow"] >> 28 == 6
    which, head = which[good], head[good]
    for name in ("src", "dst"):
        parts = head[name].astype(np.uint64)
        out[name][which] = _hash_addresses(parts[:, 0], parts[:, 1])
    out["ecn"][which] = head["flow"] >> 20 & 3
    at = link.offset[which] + 40
    length = head["length"].astype(np.int64)
    net.protocol[which], net.offset[which], net.captured[which] = head["next"], at, link.end[which] - at
    # Jumbograms and large offloads write 0 here too.
    net.remaining[which] = np.where(length == 0, frames.size[which] + frames.start[which] - at, length)
    _skip_extensions(frames, net, which)
    ends_early = is_extension[net.protocol] & kind & (net.captured < 8)
    return _count_short(frames, kind & ~fits | ends_early & fits)


def _skip_extensions(frames: Frames, net: _Network, which: I64) -> None:
    """Advances to the transport header, where it was captured."""
    for _ in range(MAX_EXTENSIONS):
        which = which[is_extension[net.protocol[which]] & (net.captured[which] >= 8)]
        if not len(which):
            return
        kind, head = net.protocol[which], read_headers(frames.data, net.offset[which], EXTENSION_HEADER)
        length = (head["length"].astype(np.int64) + 1) * 8
        length[kind == FRAGMENT] = 8
        length[kind == AUTHENTICATION] = (head["length"][kind == AUTHENTICATION].astype(np.int64) + 2) * 4
        later = (kind == FRAGMENT) & (head["fragment"] >> 3 > 0)
        net.protocol[which] = np.where(later | (length > net.remaining[which]), NO_PROTOCOL, head["next"])
        net.offset[which] += length
        net.remaining[which] -= length
        net.captured[which] -= length


# Transport layer

PORTS = np.dtype([("sport", ">u2"), ("dport", ">u2")])
# Without the window and later fields: an IPv6 packet captured at 68 bytes ends here.
TCP_HEADER = np.dtype([("ports", "V4"), ("seq", ">u4"), ("ack", ">u4"), ("words", "u1"), ("flags", "u1")])
BTH = np.dtype(
    [("udp", "V8"), ("opcode", "u1"), ("flags", "u1"), ("partition", ">u2"), ("qp", ">u4"), ("psn", ">u4")],
)
"""UDP header and the base transport header of InfiniBand."""


def _parse_ports(frames: Frames, net: _Network, out: Columns) -> int:
    """Parses the ports; returns how many headers were truncated."""
    kind = (net.protocol == PROTOCOL_TCP) | (net.protocol == PROTOCOL_UDP)
    fits = net.captured >= 4
    which = _rows_of(kind & fits)
    head = read_headers(frames.data, net.offset[which], PORTS)
    out["sport"][which], out["dport"][which] = head["sport"], head["dport"]
    return _count_short(frames, kind & ~fits)


def _parse_tcp(frames: Frames, net: _Network, out: Columns) -> int:
    """Parses TCP headers; returns how many more were truncated."""
    kind = net.protocol == PROTOCOL_TCP
    fits = net.captured >= TCP_HEADER.itemsize
    which = _rows_of(kind & fits)
    head = read_headers(frames.data, net.offset[which], TCP_HEADER)
    header = (head["words"] >> 4).astype(np.int64) * 4
    good = (header >= 20) & (header <= net.remaining[which])
    if not good.all():
        which, head, header = _select_rows(which, good), head[good], header[good]
    out["proto"][which] = TCP
    out["length"][which] = net.remaining[which] - header
    for name in ("seq", "ack", "flags"):
        out[name][which] = head[name]
    which = _select_rows(which, net.captured[which] >= 16)
    out["window"][which] = read_headers(frames.data, net.offset[which] + 14, BE16)
    return _count_short(frames, kind & ~fits & (net.captured >= 4))


def _parse_roce(frames: Frames, net: _Network, out: Columns) -> int:
    """Parses RoCEv2 headers; returns how many more were truncated."""
    kind = (net.protocol == PROTOCOL_UDP) & (out["dport"] == ROCE_PORT)
    fits = net.captured >= BTH.itemsize
    which = np.flatnonzero(kind & fits & (net.remaining >= BTH.itemsize + 4))
    head = read_headers(frames.data, net.offset[which], BTH)
    out["proto"][which] = ROCE
    out["opcode"][which] = head["opcode"]
    out["qp"][which], out["psn"][which] = head["qp"] & 0xFFFFFF, head["psn"] & 0xFFFFFF
    padding = head["flags"] >> 4 & 3
    around = BTH.itemsize + extended_sizes[head["opcode"]] + padding + 4
    out["length"][which] = np.maximum(net.remaining[which] - around, 0)
    # The syndrome is the first byte of its header.
    at = aeth_offsets[head["opcode"]]
    answers = (at > 0) & (net.captured[which] > at)
    out["syndrome"][which[answers]] = frames.data[(net.offset[which] + at)[answers]]
    return _count_short(frames, kind & ~fits)


EXTENDED_HEADERS = (
    ((0x06, 0x0A, 0x0B, 0x0C), 16),  # RDMA: address, key and length
    ((0x0D, 0x0F, 0x10, 0x11, 0x12), 4),  # AETH: syndrome and message number
    ((0x12,), 8),  # result of an atomic
    ((0x13, 0x14), 28),  # operands of an atomic
    ((0x03, 0x05, 0x09, 0x0B), 4),  # immediate data
    ((0x16, 0x17), 4),  # key to invalidate
)
"""By operation, the lower five bits of an opcode: bytes of the headers after the base header."""
RESPONSES = (0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12)
WITH_AETH = (0x0D, 0x0F, 0x10, 0x11, 0x12)


def _build_opcode_tables() -> tuple[I64, I64]:
    """Returns [opcode] bytes of extended headers, and [opcode] offset of the AETH in the UDP datagram, 0 for none."""
    sizes, aeth = np.zeros(256, np.int64), np.zeros(256, np.int64)
    requests = np.array([operation not in RESPONSES for operation in range(32)], np.int64)
    none = np.zeros(32, np.int64)
    # The headers before those depend on the service, the upper three bits: reliable and unreliable
    # connection, reliable and unreliable datagram, extended reliable connection.
    fronts = {0x00: none, 0x20: none, 0x40: 4 + 8 * requests, 0x60: none + 8, 0xA0: 4 * requests}
    for service, front in fronts.items():
        sizes[service : service + 32] = front
        aeth[[service + operation for operation in WITH_AETH]] = BTH.itemsize + front[list(WITH_AETH)]
        for operations, size in EXTENDED_HEADERS:
            sizes[[service + operation for operation in operations]] += size
    sizes[ROCE_CNP] = 16
    return sizes, aeth


extended_sizes, aeth_offsets = _build_opcode_tables()
