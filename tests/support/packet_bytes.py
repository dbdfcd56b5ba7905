"""Packets and capture files for tests, encoded byte by byte from their specifications.

It is independent of the decoder and imports nothing of it. Layers nest as calls do:
`ethernet(ipv4("10.0.0.1", "10.0.0.2", TCP, tcp(1000, 80, payload=b"...")), IPV4, vlans=(7,))`.
"""

import gzip
import ipaddress
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import zstandard

IPV4, IPV6, ARP, QINQ, VLAN = 0x0800, 0x86DD, 0x0806, 0x88A8, 0x8100
HOP_BY_HOP, TCP, UDP, ROUTING, FRAGMENT, AUTHENTICATION, NO_NEXT, DESTINATION = 0, 6, 17, 43, 44, 51, 59, 60
ROCE_PORT = 4791
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

SEND_ONLY, WRITE_ONLY, READ_RESPONSE_ONLY, ACKNOWLEDGE, CNP = 0x04, 0x0A, 0x10, 0x11, 0x81
ETHERNET, RAW_IP, SLL, SLL2 = 1, 101, 113, 276


# Link layers


def ethernet(payload: bytes, kind: int, vlans: Sequence[int] = ()) -> bytes:
    """Returns an Ethernet frame with a tag for each VLAN: 802.1Q for one, QinQ for two."""
    outer = (QINQ,) * (len(vlans) - 1) + (VLAN,) * bool(vlans)
    tags = b"".join(struct.pack(">HH", tpid, vlan) for tpid, vlan in zip(outer, vlans, strict=True))
    return bytes.fromhex("020000000002020000000001") + tags + struct.pack(">H", kind) + payload


def cooked(payload: bytes, kind: int) -> bytes:
    """Returns a frame as `tcpdump -i any` writes it (SLL)."""
    return struct.pack(">HHH8sH", 4, 1, 6, b"\2\0\0\0\0\1", kind) + payload


def cooked2(payload: bytes, kind: int) -> bytes:
    """Returns a frame as `tcpdump -i any -y LINUX_SLL2` writes it."""
    return struct.pack(">HHIHBB8s", kind, 0, 3, 1, 4, 6, b"\2\0\0\0\0\1") + payload


def arp(sender: str, target: str) -> bytes:
    """Returns an ARP request, to be framed with `ARP`."""
    ends = iter((packed_address(sender), packed_address(target)))
    return struct.pack(">HHBBH", 1, IPV4, 6, 4, 1) + b"\0".join((b"\2\0\0\0\0\1" + next(ends), bytes(5) + next(ends)))


# Network layer


@lru_cache(1024)
def packed_address(text: str) -> bytes:
    """Returns the bytes of an IPv4 or IPv6 address."""
    return ipaddress.ip_address(text).packed


def ipv4(
    src: str,
    dst: str,
    protocol: int,
    payload: bytes,
    *,
    tos: int = 0,
    options: bytes = b"",
    offset: int = 0,
    more: bool = False,
    length: int | None = None,
) -> bytes:
    """Returns an IPv4 packet; `offset` in bytes and `more` make it a fragment, `length` overrides the header's."""
    options += bytes(-len(options) % 4)
    header = 20 + len(options)
    length = header + len(payload) if length is None else length
    words = (0x40 + header // 4, tos, length & 0xFFFF, 7, more << 13 | offset // 8, 64, protocol)
    ends = packed_address(src) + packed_address(dst)
    front, back = struct.pack(">BBHHHBB", *words), ends + options
    return front + struct.pack(">H", _checksum(front + bytes(2) + back)) + back + payload


def _checksum(header: bytes) -> int:
    """Returns the complement of the ones' complement sum."""
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    return 0xFFFF - (total % 0xFFFF or 0xFFFF)


def ipv6(src: str, dst: str, protocol: int, payload: bytes, *, tclass: int = 0, length: int | None = None) -> bytes:
    """Returns an IPv6 packet; `protocol` and `payload` may come from `extended`."""
    length = len(payload) if length is None else length
    ends = packed_address(src) + packed_address(dst)
    return struct.pack(">IHBB", 6 << 28 | tclass << 20 | 5, length, protocol, 64) + ends + payload


def extended(kinds: Sequence[int], protocol: int, payload: bytes, *, offset: int = 0, more: bool = False) -> bytes:
    """Returns a payload behind IPv6 extension headers; the packet's own protocol is then `kinds[0]`."""
    headers = b""
    for kind, following in zip(kinds, (*kinds, protocol)[1:], strict=True):
        if kind == FRAGMENT:
            headers += struct.pack(">BxHI", following, offset | more, 9)
        elif kind == AUTHENTICATION:
            headers += struct.pack(">BB10x", following, 1)
        else:
            headers += struct.pack(">BBBB12x", following, 1, 1, 12)  # 16 bytes, padding as its one option
    return headers + payload


# Transport layer


def tcp(
    sport: int,
    dport: int,
    *,
    seq: int = 0,
    ack: int = 0,
    flags: int = ACK,
    window: int = 512,
    options: bytes = b"",
    payload: bytes = b"",
) -> bytes:
    """Returns a TCP segment without a checksum, as before checksum offload."""
    options += b"\1" * (-len(options) % 4)
    words = (5 + len(options) // 4) << 4
    return struct.pack(">HHIIBBHHH", sport, dport, seq, ack, words, flags, window, 0, 0) + options + payload


def udp(sport: int, dport: int, payload: bytes = b"") -> bytes:
    """Returns a UDP datagram."""
    return struct.pack(">HHHH", sport, dport, (8 + len(payload)) & 0xFFFF, 0) + payload


def roce(opcode: int, qp: int, psn: int, payload: bytes = b"", *, headers: bytes = b"", sport: int = 49152) -> bytes:
    """Returns a RoCEv2 datagram: base header, the `headers` of its opcode, payload, padding and ICRC."""
    padding = -len(payload) % 4
    base = struct.pack(">BBHII", opcode, 0x40 | padding << 4, 0xFFFF, qp, psn)
    return udp(sport, ROCE_PORT, base + headers + payload + bytes(padding + 4))


def reth(length: int, address: int = 0x7F0000000000, key: int = 0x1234) -> bytes:
    """Returns the header of an RDMA WRITE or READ request."""
    return struct.pack(">QII", address, key, length)


def aeth(syndrome: int, message: int = 1) -> bytes:
    """Returns the header of an acknowledgement; 0x60 and up is a NAK."""
    return struct.pack(">I", syndrome << 24 | message)


def acknowledge(qp: int, psn: int, syndrome: int = 0x1F) -> bytes:
    """Returns a RoCEv2 ACK or NAK."""
    return roce(ACKNOWLEDGE, qp, psn, headers=aeth(syndrome))


def cnp(qp: int) -> bytes:
    """Returns a congestion notification."""
    return roce(CNP, qp, 0, headers=bytes(16))


# Capture files


@dataclass(frozen=True)
class Record:
    """One captured frame."""

    frame: bytes
    time_ns: int = 1_700_000_000_000_000_000
    size: int | None = None
    """Bytes on the wire, where the frame is not whole."""

    @property
    def on_the_wire(self) -> int:
        return len(self.frame) if self.size is None else self.size


def pcap(
    records: Iterable[Record | bytes],
    *,
    order: str = "<",
    nano: bool = False,
    link: int = ETHERNET,
    snaplen: int = 262144,
) -> bytes:
    """Returns a classic capture file; frames are cut at the snap length."""
    unit = 1 if nano else 1000
    out = [struct.pack(f"{order}IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, snaplen, link)]
    for record in map(_record, records):
        second, rest = divmod(record.time_ns, 10**9)
        kept = record.frame[:snaplen]
        out += [struct.pack(f"{order}IIII", second, rest // unit, len(kept), record.on_the_wire), kept]
    return b"".join(out)


def pcapng(records: Iterable[Record | bytes], *, order: str = "<", resolution: int = 9, link: int = ETHERNET) -> bytes:
    """Returns a pcapng file of one section and one interface, with times in units of 10^-resolution seconds."""
    out = [_block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))]
    option = struct.pack(f"{order}HHBxxxHH", 9, 1, resolution, 0, 0)
    out.append(_block(order, 1, struct.pack(f"{order}HHI", link, 0, 262144) + option))
    for record in map(_record, records):
        ticks = record.time_ns * 10**resolution // 10**9
        head = (0, ticks >> 32, ticks & 0xFFFFFFFF, len(record.frame), record.on_the_wire)
        out.append(_block(order, 6, struct.pack(f"{order}IIIII", *head) + record.frame))
    return b"".join(out)


def _block(order: str, kind: int, body: bytes) -> bytes:
    """Returns a pcapng block."""
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


def _record(record: Record | bytes) -> Record:
    """Returns a record of a frame at a fixed time."""
    return Record(record) if isinstance(record, bytes) else record


def packed(data: bytes, suffix: str) -> bytes:
    """Returns the data compressed for a file suffix: '.zst', '.gz' or ''."""
    if suffix == ".zst":
        return zstandard.ZstdCompressor().compress(data)
    return gzip.compress(data, mtime=0) if suffix == ".gz" else data
