import csv
import io
import shutil
import subprocess
from dataclasses import dataclass, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.formats.packet_headers import OTHER, ROCE, ROCE_V1, TCP, Packets, address_key, read_packets
from tests.support import packet_bytes as make
from tests.support.packet_bytes import (
    ACKNOWLEDGE,
    ARP,
    AUTHENTICATION,
    CNP,
    DESTINATION,
    FRAGMENT,
    HOP_BY_HOP,
    IPV4,
    IPV6,
    ROUTING,
    Record,
    arp,
    cooked,
    cooked2,
    ethernet,
    extended,
    ipv4,
    ipv6,
    roce,
    tcp,
    udp,
)

A, B = "10.0.0.1", "10.0.0.2"
A6, B6 = "fd00::1", "fd00::2"


@pytest.fixture
def decoded(tmp_path):
    """The one row that a frame gives."""

    def decoded(frame, size=None, link=make.ETHERNET, **how):
        path = tmp_path / "one.pcap"
        path.write_bytes(make.pcap([Record(frame, size=size)], link=link, **how))
        (block,) = read_packets(path)
        return {field.name: getattr(block, field.name)[0].item() for field in fields(block)}

    return decoded


SEGMENT = tcp(40000, 443, seq=2**32 - 5, ack=77, flags=make.PSH | make.ACK, window=1000, payload=b"x" * 30)
SEGMENT_ROW = {
    "proto": TCP,
    "sport": 40000,
    "dport": 443,
    "length": 30,
    "seq": 2**32 - 5,
    "ack": 77,
    "flags": 24,
    "window": 1000,
}


@pytest.mark.parametrize(
    ("frame", "link"),
    [
        (ethernet(ipv4(A, B, make.TCP, SEGMENT), IPV4), make.ETHERNET),
        (ethernet(ipv4(A, B, make.TCP, SEGMENT), IPV4, vlans=(7,)), make.ETHERNET),
        (ethernet(ipv4(A, B, make.TCP, SEGMENT), IPV4, vlans=(7, 100)), make.ETHERNET),
        (ethernet(ipv4(A, B, make.TCP, SEGMENT, options=b"\7\7\4abcd"), IPV4), make.ETHERNET),
        (ethernet(ipv4(A, B, make.TCP, SEGMENT, more=True), IPV4), make.ETHERNET),
        (ethernet(ipv4(A, B, make.TCP, SEGMENT), IPV4) + b"padding", make.ETHERNET),
        (cooked(ipv4(A, B, make.TCP, SEGMENT), IPV4), make.SLL),
        (cooked2(ipv4(A, B, make.TCP, SEGMENT), IPV4), make.SLL2),
        (ipv4(A, B, make.TCP, SEGMENT), make.RAW_IP),
        (ethernet(ipv6(f"::ffff:{A}", f"::ffff:{B}", make.TCP, SEGMENT), IPV6), make.ETHERNET),
        (ipv6(f"::ffff:{A}", f"::ffff:{B}", make.TCP, SEGMENT), make.RAW_IP),
    ],
)
def test_the_same_segment_is_read_through_every_wrapping(decoded, frame, link):
    row = decoded(frame, link=link)
    assert {name: row[name] for name in SEGMENT_ROW} == SEGMENT_ROW
    assert (row["src"], row["dst"]) == (address_key(A), address_key(B))
    assert row["size"] == len(frame)


@pytest.mark.parametrize(
    "kinds",
    [
        (HOP_BY_HOP,),
        (FRAGMENT,),
        (HOP_BY_HOP, ROUTING, DESTINATION),
        (AUTHENTICATION,),
        (HOP_BY_HOP, FRAGMENT, AUTHENTICATION, DESTINATION),
    ],
)
def test_ipv6_extension_headers_are_passed_over(decoded, kinds):
    row = decoded(ethernet(ipv6(A6, B6, kinds[0], extended(kinds, make.TCP, SEGMENT)), IPV6))
    assert {name: row[name] for name in SEGMENT_ROW} == SEGMENT_ROW
    assert (row["src"], row["dst"]) == (address_key(A6), address_key(B6))


@pytest.mark.parametrize(
    "frame",
    [
        ethernet(ipv4(A, B, make.TCP, SEGMENT, offset=1480), IPV4),
        ethernet(ipv4(A, B, make.TCP, SEGMENT, offset=8, more=True), IPV4),
        ethernet(ipv6(A6, B6, FRAGMENT, extended((FRAGMENT,), make.TCP, SEGMENT, offset=1480)), IPV6),
        ethernet(ipv4(A, B, make.UDP, roce(4, 1, 2, b"data")[8:], offset=8), IPV4),
    ],
)
def test_a_later_fragment_has_addresses_but_no_ports(decoded, frame):
    row = decoded(frame)
    assert (row["proto"], row["sport"], row["dport"], row["length"]) == (OTHER, 0, 0, 0)
    assert row["src"] in (address_key(A), address_key(A6))


@pytest.mark.parametrize(
    "frame",
    [
        ethernet(arp(A, B), ARP),
        ethernet(ipv4(A, B, 1, b"ping" * 5), IPV4),
        ethernet(ipv6(A6, B6, make.NO_NEXT, b""), IPV6),
        ethernet(b"\x42\x42\x03" + bytes(50), 53),
        ethernet(b"\x65" + ipv4(A, B, make.TCP, SEGMENT)[1:], IPV4),
        ethernet(b"\x44" + ipv4(A, B, make.TCP, SEGMENT)[1:], IPV4),
        ethernet(ipv4(A, B, make.TCP, SEGMENT, length=19), IPV4),
        ethernet(ipv4(A, B, make.TCP, SEGMENT, length=39), IPV4),
        ethernet(ipv4(A, B, make.TCP, SEGMENT[:12] + b"\x40" + SEGMENT[13:]), IPV4),
        ethernet(ipv4(A, B, make.UDP, udp(5, 53, b"query")), IPV4),
        ethernet(ipv4(A, B, make.UDP, udp(5, 4791, b"not RoCE")), IPV4),
        ethernet(ipv6(A6, B6, HOP_BY_HOP, extended((HOP_BY_HOP,) * 9, make.TCP, SEGMENT)), IPV6),
        ethernet(b"", IPV4),
        b"",
        b"\x02\x03",
    ],
)
def test_what_is_neither_tcp_nor_roce_is_other_without_a_payload(decoded, frame):
    row = decoded(frame)
    assert (row["proto"], row["length"], row["seq"], row["opcode"]) == (OTHER, 0, 0, 0)
    assert row["size"] == len(frame)


@pytest.mark.parametrize("vlans", [(), (7,)])
def test_roce_v1_is_recognised_and_counted_and_not_decoded(tmp_path, vlans):
    path = tmp_path / "one.pcap"
    frames = [ethernet(bytes(60), 0x8915, vlans=vlans), ethernet(arp(A, B), ARP)]
    path.write_bytes(make.pcap([Record(frame) for frame in frames]))
    reader = read_packets(path)
    (block,) = reader
    assert block.proto.tolist() == [ROCE_V1, OTHER]
    assert block.length.tolist() == [0, 0]
    assert reader.roce_v1_frames == 1


def test_plain_udp_keeps_its_ports(decoded):
    row = decoded(ethernet(ipv4(A, B, make.UDP, udp(5353, 53, b"query")), IPV4))
    assert (row["proto"], row["sport"], row["dport"]) == (OTHER, 5353, 53)


@pytest.mark.parametrize("cut", [54, 56, 66, 68])
def test_the_length_of_a_cut_packet_comes_from_its_header(decoded, cut):
    segment = tcp(1, 2, seq=9, window=321, options=b"\1\1\x08\x0a12345678", payload=bytes(1000))
    row = decoded(ethernet(ipv4(A, B, make.TCP, segment), IPV4), 14 + 20 + 32 + 1000, snaplen=cut)
    assert (row["proto"], row["length"], row["seq"], row["window"]) == (TCP, 1000, 9, 321)
    assert row["size"] == 1066


def test_an_ipv6_segment_cut_right_before_its_window_is_still_read(decoded):
    frame = ethernet(ipv6(A6, B6, make.TCP, SEGMENT), IPV6)
    row = decoded(frame, snaplen=68)
    assert {name: row[name] for name in SEGMENT_ROW} == SEGMENT_ROW | {"window": 0}


@pytest.mark.parametrize(
    ("frame", "cut"),
    [
        (ethernet(ipv4(A, B, make.TCP, SEGMENT), IPV4), 47),
        (ethernet(ipv4(A, B, make.TCP, SEGMENT), IPV4), 36),
        (ethernet(ipv4(A, B, make.TCP, SEGMENT), IPV4), 33),
        (ethernet(ipv4(A, B, make.TCP, SEGMENT), IPV4), 13),
        (ethernet(ipv6(A6, B6, make.UDP, roce(4, 1, 2, b"data")), IPV6), 68),
        (ethernet(ipv6(A6, B6, HOP_BY_HOP, extended((HOP_BY_HOP,), make.TCP, SEGMENT)), IPV6), 56),
    ],
)
def test_frames_captured_too_short_are_counted(tmp_path, frame, cut):
    path = tmp_path / "cut.pcap"
    path.write_bytes(make.pcap([Record(frame, size=len(frame))] * 3, snaplen=cut))
    reader = read_packets(path)
    assert [len(block) for block in reader] == [3]
    assert reader.short_frames == 3


@pytest.mark.parametrize("beyond", [1000, 65_000, 400_000])
def test_a_super_packet_whose_length_field_is_zero_takes_it_from_the_wire(decoded, beyond):
    segment = tcp(1, 2, payload=b"start")
    for frame, header in (
        (ethernet(ipv4(A, B, make.TCP, segment, length=0), IPV4), 54),
        (ethernet(ipv6(A6, B6, make.TCP, segment, length=0), IPV6, vlans=(3,)), 78),
        (ethernet(ipv6(A6, B6, 0, extended((0,), make.TCP, segment), length=0), IPV6), 90),
    ):
        assert decoded(frame, header + beyond)["length"] == beyond


@pytest.mark.parametrize(
    ("opcode", "headers"),
    [
        (0x00, b""),  # send first
        (0x03, bytes(4)),  # send last, immediate
        (0x06, make.reth(4096)),  # write first
        (0x07, b""),
        (0x0B, make.reth(64) + bytes(4)),
        (0x0C, make.reth(4096)),  # read request
        (0x0D, make.aeth(0x1F)),  # read response first
        (0x0E, b""),
        (0x12, make.aeth(0x1F) + bytes(8)),
        (0x13, bytes(28)),
        (0x17, bytes(4)),
        (0x26, make.reth(4096)),  # unreliable connection, write first
        (0x4D, bytes(4) + make.aeth(0x1F)),  # reliable datagram, read response first
        (0x44, bytes(12)),
        (0x64, bytes(8)),  # unreliable datagram
        (0xA6, bytes(4) + make.reth(4096)),  # extended reliable connection
        (0xB0, make.aeth(0x1F)),
    ],
)
@pytest.mark.parametrize("payload", [b"", b"abc", b"x" * 1024])
def test_a_roce_payload_is_what_is_left_by_headers_padding_and_checksum(decoded, opcode, headers, payload):
    datagram = roce(opcode, 0xABCDEF, 0x123456, payload, headers=headers)
    for frame in (
        ethernet(ipv4(A, B, make.UDP, datagram, tos=0x6A), IPV4),
        ethernet(ipv6(A6, B6, make.UDP, datagram, tclass=0x6A), IPV6, vlans=(5,)),
    ):
        row = decoded(frame)
        assert (row["proto"], row["opcode"], row["qp"], row["psn"]) == (ROCE, opcode, 0xABCDEF, 0x123456)
        assert (row["length"], row["sport"], row["dport"], row["ecn"]) == (len(payload), 49152, 4791, 2)
        assert row["syndrome"] == (0x1F if make.aeth(0x1F) in headers else 0)


@pytest.mark.parametrize("syndrome", [0x00, 0x1F, 0x20, 0x60, 0x61])
def test_acknowledgements_keep_their_syndrome(decoded, syndrome):
    row = decoded(ethernet(ipv4(A, B, make.UDP, make.acknowledge(9, 2**24 - 1, syndrome)), IPV4), snaplen=68)
    assert (row["opcode"], row["psn"], row["syndrome"], row["length"]) == (ACKNOWLEDGE, 2**24 - 1, syndrome, 0)


def test_a_congestion_notification_carries_no_payload(decoded):
    row = decoded(ethernet(ipv4(A, B, make.UDP, make.cnp(77)), IPV4))
    assert (row["proto"], row["opcode"], row["qp"], row["length"]) == (ROCE, CNP, 77, 0)


@pytest.mark.parametrize("tos", range(4))
def test_the_congestion_mark_is_the_low_two_bits(decoded, tos):
    assert decoded(ethernet(ipv4(A, B, make.TCP, SEGMENT, tos=0xB8 | tos), IPV4))["ecn"] == tos
    assert decoded(ethernet(ipv6(A6, B6, make.TCP, SEGMENT, tclass=0xB8 | tos), IPV6))["ecn"] == tos


def test_an_address_has_one_key_however_it_is_written():
    assert address_key(A) == address_key(f"::ffff:{A}") == address_key("::ffff:a00:1")
    assert address_key("fd00:0::1") == address_key(A6)
    assert len({address_key(f"10.0.{n // 256}.{n % 256}") for n in range(4096)} | {address_key("::a00:1")}) == 4097


@pytest.mark.parametrize("text", ["", "n0", "10.0.0.1/24", "10.0.0.256", "10.0.0.1:80", "::g"])
def test_what_is_no_address_has_no_key(text):
    with pytest.raises(ValueError, match="address"):
        address_key(text)


# Any packet


@dataclass(frozen=True)
class Built:
    """A frame and the row it must give."""

    frame: bytes
    row: dict[str, int]


@st.composite
def built(draw):
    """A TCP or RoCE packet in some wrapping."""
    payload = bytes(draw(st.integers(0, 200)))
    if draw(st.booleans()):
        protocol, segment, row = draw(segments(payload))
    else:
        protocol, segment, row = draw(datagrams(payload))
    row["ecn"] = mark = draw(st.integers(0, 3))
    frame, src, dst = draw(wrapped(protocol, segment, mark))
    row |= {"src": address_key(str(src)), "dst": address_key(str(dst)), "length": len(payload), "size": len(frame)}
    return Built(frame, row)


@st.composite
def segments(draw, payload):
    """TCP with anything in its fields."""
    row = {"sport": 16, "dport": 16, "seq": 32, "ack": 32, "flags": 8, "window": 16}
    row = {name: draw(st.integers(0, 2**bits - 1)) for name, bits in row.items()}
    ports = row["sport"], row["dport"]
    rest = {name: row[name] for name in ("seq", "ack", "flags", "window")}
    options = draw(st.binary(max_size=40))
    return make.TCP, tcp(*ports, **rest, options=options, payload=payload), row | {"proto": TCP}


@st.composite
def datagrams(draw, payload):
    """RoCEv2 with anything in its fields."""
    syndrome = draw(st.integers(0, 255))
    headers = {0x04: b"", 0x0A: make.reth(len(payload)), 0x10: make.aeth(syndrome), 0x11: make.aeth(syndrome)}
    opcode = draw(st.sampled_from(sorted(headers)))
    row = {"opcode": opcode, "qp": draw(st.integers(0, 2**24 - 1)), "psn": draw(st.integers(0, 2**24 - 1))}
    datagram = roce(*row.values(), payload, headers=headers[opcode])
    row |= {"sport": 49152, "dport": 4791, "proto": ROCE, "syndrome": syndrome if opcode in (0x10, 0x11) else 0}
    return make.UDP, datagram, row


@st.composite
def wrapped(draw, protocol, segment, mark):
    """The segment in IPv4 or IPv6, with options or extensions, behind up to three VLAN tags; and its addresses."""
    vlans = draw(st.lists(st.integers(0, 4095), max_size=3))
    if draw(st.booleans()):
        src, dst = draw(st.ip_addresses(v=4)), draw(st.ip_addresses(v=4))
        packet = ipv4(str(src), str(dst), protocol, segment, tos=mark, options=draw(st.binary(max_size=40)))
        return ethernet(packet, IPV4, vlans), src, dst
    src, dst = draw(st.ip_addresses(v=6)), draw(st.ip_addresses(v=6))
    kinds = draw(st.lists(st.sampled_from([HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION]), max_size=6))
    packet = ipv6(str(src), str(dst), [*kinds, protocol][0], extended(kinds, protocol, segment), tclass=mark)
    return ethernet(packet, IPV6, vlans), src, dst


@settings(max_examples=30, deadline=None)
@given(some=st.lists(built(), min_size=1, max_size=12), order=st.sampled_from("<>"), nano=st.booleans())
def test_every_field_of_generated_packets_comes_back(tmp_path_factory, some, order, nano):
    path = tmp_path_factory.mktemp("any") / "some.pcap"
    path.write_bytes(make.pcap([one.frame for one in some], order=order, nano=nano))
    block = Packets.concat(list(read_packets(path)))
    for field in fields(block):
        if field.name != "time":
            expected = [one.row.get(field.name, 0) for one in some]
            assert getattr(block, field.name).tolist() == expected, field.name


@settings(max_examples=30, deadline=None)
@given(
    frames=st.lists(st.one_of(st.binary(max_size=120), built().map(lambda one: one.frame)), min_size=1, max_size=8),
    snaplen=st.integers(1, 130),
    link=st.sampled_from([make.ETHERNET, make.RAW_IP, make.SLL, make.SLL2]),
)
def test_frames_of_any_bytes_give_one_row_each(tmp_path_factory, frames, snaplen, link):
    path = tmp_path_factory.mktemp("any") / "some.pcap"
    path.write_bytes(make.pcap(frames, snaplen=snaplen, link=link))
    block = Packets.concat(list(read_packets(path)))
    assert block.size.tolist() == [len(frame) for frame in frames]
    assert (block.length >= 0).all()
    assert np.isin(block.proto, [OTHER, ROCE, ROCE_V1, TCP]).all()


# Another reader's opinion

tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
fields_of_tshark = {
    "src": ("ip.src", "ipv6.src"),
    "dst": ("ip.dst", "ipv6.dst"),
    "sport": ("tcp.srcport", "udp.srcport"),
    "dport": ("tcp.dstport", "udp.dstport"),
    "size": ("frame.len",),
    "seq": ("tcp.seq_raw",),
    "ack": ("tcp.ack_raw",),
    "flags": ("tcp.flags",),
    "window": ("tcp.window_size_value",),
    "length": ("tcp.len",),
    "opcode": ("infiniband.bth.opcode",),
    "qp": ("infiniband.bth.destqp",),
    "psn": ("infiniband.bth.psn",),
    "syndrome": ("infiniband.aeth.syndrome",),
    "ecn": ("ip.dsfield.ecn", "ipv6.tclass.ecn"),
}


def by_tshark(path, count=10_000):
    """What tshark reads in each packet, by our names; None where it shows no such field."""
    names = [name for names in fields_of_tshark.values() for name in names]
    plain = ["ip.defragment", "ipv6.defragment", "tcp.analyze_sequence_numbers", "tcp.desegment_tcp_streams"]
    settings = [part for name in plain for part in ("-o", f"{name}:FALSE")]
    columns = [part for name in names for part in ("-e", name)]
    command = ["tshark", "-r", str(path), "-c", str(count), "-n", *settings, "-T", "fields", "-E", "occurrence=f"]
    done = subprocess.run([*command, *columns], capture_output=True, text=True, check=True)
    for line in csv.reader(io.StringIO(done.stdout), delimiter="\t"):
        shown = dict(zip(names, line, strict=True))
        row = {
            ours: next((shown[name] for name in theirs if shown[name]), None)
            for ours, theirs in fields_of_tshark.items()
        }
        yield {name: number(name, text) for name, text in row.items()}


def number(name, text):
    """A field of tshark as the number we give."""
    if text is None:
        return None
    return address_key(text) if name in ("src", "dst") else int(text, 0)


def assert_agree(path, original=None, count=10_000):
    """Our columns and tshark's rows are the same, wherever tshark shows a field."""
    block = Packets.concat(list(read_packets(original or path))).take(slice(count))
    compared = 0
    for at, row in enumerate(by_tshark(path, count)):
        for name, expected in row.items():
            if expected is not None:
                assert getattr(block, name)[at].item() == expected, (at, name)
                compared += 1
    assert compared > 8 * len(block) > 0


def variety():
    """A capture with everything that a recording of one rack of TCP has not."""
    acknowledged = [make.acknowledge(3, 100, syndrome) for syndrome in (0x1F, 0x60, 0x63)]
    writes = [roce(0x0A, 5, n, b"x" * n, headers=make.reth(n)) for n in range(1, 40)]
    datagrams = [*acknowledged, *writes, make.cnp(12), roce(0x10, 7, 8, b"read", headers=make.aeth(0x1F))]
    segments = [tcp(1000 + n, 443, seq=n * 1000, ack=n, flags=n % 64, window=n, payload=bytes(n)) for n in range(60)]
    some = [(make.UDP, one) for one in datagrams] + [(make.TCP, one) for one in segments]
    for n, (protocol, one) in enumerate(some):
        vlans = tuple(range(10, 10 + n % 3))
        yield ethernet(ipv4(A, B, protocol, one, tos=n % 4, options=b"\1" * (n % 5 * 4)), IPV4, vlans)
        kinds = [(), (HOP_BY_HOP,), (FRAGMENT,), (HOP_BY_HOP, DESTINATION)][n % 4]
        packet = ipv6(A6, B6, [*kinds, protocol][0], extended(kinds, protocol, one), tclass=n % 4)
        yield ethernet(packet, IPV6, vlans)


@tshark
@pytest.mark.parametrize("write", [make.pcap, make.pcapng])
def test_tshark_reads_the_same_in_vlans_ipv6_and_roce(tmp_path, write):
    path = tmp_path / "variety.pcap"
    path.write_bytes(write(variety()))
    assert_agree(path)


@tshark
@pytest.mark.parametrize("recording", ["fabric-loss", "burst"])
def test_tshark_reads_the_same_in_a_recording(shared, tmp_path, recording):
    original = shared / "recordings" / recording / "pcap" / "n0-ns.pcap.zst"
    path = tmp_path / "recorded.pcap"
    with make.zstandard.open(original) as packed:
        path.write_bytes(packed.read(400_000))
    assert_agree(path, original, count=3000)
