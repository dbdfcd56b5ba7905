import struct
import tracemalloc
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.formats.packet_headers import read_packets
from skewscope.adapters.formats.pcap import ETHERNET, FrameReader, PcapFormat
from skewscope.engine.wire.packets import Packets
from skewscope.kb.problems import InputError
from tests.support import packet_bytes as make
from tests.support.packet_bytes import Record, ethernet, ipv4, packed, tcp

NOON = 1_795_177_354_000_000_000
RESOLUTION = 2.5e-7
"""Seconds between one float and the next, at noon."""


def frame(n):
    return ethernet(ipv4("10.0.0.1", "10.0.0.2", make.TCP, tcp(1, 2, seq=n, payload=bytes(n))), make.IPV4)


RECORDS = [Record(frame(n), NOON + n * 1_000_001_000) for n in range(20)]
WRITERS = {
    "us": make.pcap,
    "us-big": lambda records: make.pcap(records, order=">"),
    "ns": lambda records: make.pcap(records, nano=True),
    "ns-big": lambda records: make.pcap(records, nano=True, order=">"),
    "ng": make.pcapng,
    "ng-big": lambda records: make.pcapng(records, order=">", resolution=6),
}


def read(path, **how):
    """All packets of a file as one block, and its reader."""
    reader = read_packets(path, **how)
    return Packets.concat(list(reader)), reader


def same(one, other):
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(Packets))


def problem(path, **how):
    """The one problem that reading the file ends with."""
    with pytest.raises(InputError) as caught:
        list(read_packets(path, **how))
    (found,) = caught.value.problems
    assert found.file == str(path)
    return found


@pytest.fixture
def written(tmp_path):
    def written(data, name="some.pcap"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return written


# Files that are fine


@pytest.mark.parametrize("suffix", ["", ".zst", ".gz"])
@pytest.mark.parametrize("kind", WRITERS)
def test_frames_come_in_order_with_their_times_from_every_kind_of_file(written, kind, suffix):
    block, reader = read(written(packed(WRITERS[kind](RECORDS), suffix), f"some.pcap{suffix}"))
    assert block.seq.tolist() == list(range(20))
    assert block.time == pytest.approx([record.time_ns / 10**9 for record in RECORDS], abs=RESOLUTION, rel=0)
    assert block.size.tolist() == [len(record.frame) for record in RECORDS]
    assert (reader.truncated_records, reader.short_frames) == (0, 0)


def test_a_recording_is_read_whole(shared):
    block, reader = read(shared / "recordings" / "healthy" / "pcap" / "n0-ns.pcap.zst")
    assert len(block) > 1000
    assert (reader.truncated_records, reader.short_frames) == (0, 0)
    assert (np.diff(block.time) >= 0).mean() > 0.99


@pytest.mark.parametrize("kind", WRITERS)
def test_a_capture_without_packets_gives_no_block(written, kind):
    reader = read_packets(written(WRITERS[kind]([])))
    assert list(reader) == []
    assert list(reader) == []
    assert reader.truncated_records == 0


@given(kind=st.sampled_from(sorted(WRITERS)), block_bytes=st.integers(1, 3000), sizes=st.lists(st.integers(0, 200)))
def test_blocks_of_any_size_give_the_same_columns(tmp_path_factory, kind, block_bytes, sizes):
    path = tmp_path_factory.mktemp("blocks") / "some.pcap"
    path.write_bytes(WRITERS[kind]([*RECORDS[:2], *(Record(frame(n), NOON - n) for n in sizes)]))
    whole, _ = read(path)
    assert len(whole) == 2 + len(sizes)
    parts, reader = read(path, block_bytes=block_bytes)
    assert same(whole, parts)
    assert reader.truncated_records == 0


@given(kind=st.sampled_from(sorted(WRITERS)), data=st.data())
def test_a_capture_that_was_killed_gives_what_is_whole(tmp_path_factory, kind, data):
    path = tmp_path_factory.mktemp("cut") / "some.pcap"
    start, full = len(WRITERS[kind]([])), WRITERS[kind](RECORDS)
    ends = [len(WRITERS[kind](RECORDS[:n])) for n in range(21)]
    cut = data.draw(st.integers(start, len(full)))
    path.write_bytes(full[:cut])
    reader = read_packets(path, 700)
    count = sum(len(block) for block in reader)
    assert count == sum(end <= cut for end in ends[1:])
    assert reader.truncated_records == (cut not in ends)


def test_sections_of_a_pcapng_each_have_their_own_order_and_clock(written):
    parts = [WRITERS["ng"](RECORDS[:5]), WRITERS["ng-big"](RECORDS[5:12]), WRITERS["ng"](RECORDS[12:])]
    block, _ = read(written(b"".join(parts)))
    assert block.seq.tolist() == list(range(20))
    assert block.time == pytest.approx([record.time_ns / 10**9 for record in RECORDS], abs=RESOLUTION, rel=0)


def test_blocks_of_a_pcapng_that_hold_no_packets_are_passed_over(written):
    names = struct.pack("<II8sI", 4, 20, b"resolved", 20)
    block, _ = read(written(make.pcapng(RECORDS[:3]) + names + make.pcapng(RECORDS[3:]) + names))
    assert block.seq.tolist() == list(range(20))


@pytest.mark.parametrize(
    ("option", "seconds"),
    [
        (b"", 5.0),
        (struct.pack("<HHBxxx", 9, 1, 3), 5000.0),
        (struct.pack("<HHBxxx", 9, 1, 0x80 | 10), 5_000_000 / 1024),
        (struct.pack("<HHBxxxHHq", 9, 1, 6, 14, 8, 1000), 1005.0),
        (struct.pack("<HH3sx", 2, 3, b"eth"), 5.0),
    ],
)
def test_the_clock_of_a_pcapng_interface_is_what_its_options_say(written, option, seconds):
    block, _ = read(written(ng_by_hand(option, 5_000_000)))
    assert block.time.tolist() == [seconds]


def ng_by_hand(option=b"", ticks=0, link=1, interface=0, packet=None):
    """A pcapng of one packet, with a say in what its blocks hold."""
    section = make._block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    described = make._block("<", 1, struct.pack("<HHI", link, 0, 0) + option)
    head = struct.pack("<IIIII", interface, 0, ticks, len(frame(0)), len(frame(0)))
    return section + described + (make._block("<", 6, head + frame(0)) if packet is None else packet)


def test_packed_frames_and_members_follow_each_other(written):
    data = make.pcap(RECORDS)
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"any"
    for suffix, front in ((".zst", b""), (".zst", skippable), (".gz", b"")):
        parts = front + packed(data[:50], suffix) + packed(b"", suffix) + packed(data[50:], suffix)
        assert len(read(written(parts, f"some.pcap{suffix}"))[0]) == 20


def test_memory_follows_the_block_and_not_the_file(written):
    noise = np.random.default_rng(1).bytes(1 << 16)
    frames = [ethernet(ipv4("10.0.0.1", "10.0.0.2", make.UDP, noise[n : n + 1000]), make.IPV4) for n in range(40_000)]
    path = written(packed(make.pcap(frames), ".zst"), "long.pcap.zst")
    tracemalloc.start()
    count = sum(len(block) for block in read_packets(path, 1 << 18))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 40_000
    assert peak < 8 << 20


# Files that are not


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "an empty file"),
        (b"# HELP something\n# TYPE something gauge\n", "b'# HELP"),
        (b"\x7fELF\x02\x01\x01\x00\xff" + bytes(100), "bytes 7f 45 4c 46"),
        (make.pcap([])[:20], "the end of the file"),
        (make.pcap([], link=105), "link type 105"),
        (ng_by_hand(link=105), "link type 105"),
    ],
)
def test_what_is_no_capture_is_told_so(written, data, found):
    fault = problem(written(data))
    assert found in fault.found
    assert fault.field.startswith("byte ")
    assert fault.hint


def broken(head, body=bytes(60)):
    return make.pcap(RECORDS[:7]) + struct.pack("<IIII", *head) + body + make.pcap(RECORDS[7:])[24:]


@pytest.mark.parametrize(
    "head",
    [
        (1, 0, 300_000, 300_000),
        (1, 0, 0xFFFFFFF0, 0xFFFFFFF0),
        (1, 0, 60, 59),
        (1, 0, 60, 1 << 25),
        (1, 1_000_000, 60, 60),
    ],
)
@pytest.mark.parametrize("block_bytes", [100, 1 << 20])
def test_a_damaged_record_is_named_by_its_byte(written, head, block_bytes):
    path = written(broken(head))
    assert problem(path, block_bytes=block_bytes).field == f"byte {len(make.pcap(RECORDS[:7]))}"


def test_what_came_before_the_damage_is_handed_out_in_blocks(written):
    seen = []
    with pytest.raises(InputError, match="300000 bytes"):
        seen.extend(len(block) for block in read_packets(written(broken((1, 0, 300_000, 300_000))), 80))
    assert sum(seen) >= 6


def test_a_record_longer_than_the_snap_length_is_damage(written):
    data = bytearray(make.pcap(RECORDS[:2]))
    data[16:20] = struct.pack("<I", 50)
    assert "at most 50 bytes" in problem(written(data)).expected


NG_START = len(ng_by_hand(packet=b""))


@pytest.mark.parametrize(
    ("data", "found", "offset"),
    [
        (ng_by_hand(interface=1), "from interface 1", NG_START),
        (ng_by_hand(packet=make._block("<", 3, bytes(8))), "without interface or time", NG_START),
        (ng_by_hand(packet=struct.pack("<II", 6, 0) + bytes(40)), "a block of 0 bytes", NG_START),
        (ng_by_hand(packet=struct.pack("<II", 6, 28) + bytes(40)), "a block of 28 bytes", NG_START),
        (ng_by_hand(packet=struct.pack("<II", 5, 1 << 30) + bytes(40)), f"a block of {1 << 30} bytes", NG_START),
        (
            ng_by_hand(packet=make._block("<", 6, struct.pack("<IIIII", 0, 0, 0, 9, 9) + bytes(4))),
            "9 captured",
            NG_START,
        ),
        (ng_by_hand(packet=make._block("<", 1, struct.pack("<HHI", 101, 0, 0))), "interface of raw IP", NG_START),
        (ng_by_hand(struct.pack("<HHBxxx", 9, 1, 20)), "10^-20 s", 28),
        (b"\x0a\x0d\x0d\x0a" + bytes(40), "bytes 00 00 00 00", 8),
    ],
)
def test_a_damaged_pcapng_is_named_by_its_byte(written, data, found, offset):
    fault = problem(written(data))
    assert found in fault.found
    assert fault.field == f"byte {offset}"


@settings(max_examples=60, deadline=None)
@given(
    start=st.sampled_from([*WRITERS.values(), lambda _: b""]),
    rest=st.binary(max_size=300),
    name=st.sampled_from(["any.pcap", "any.pcap.zst", "any.pcap.gz"]),
)
def test_bytes_of_any_kind_raise_nothing_but_input_errors(tmp_path_factory, start, rest, name):
    path = tmp_path_factory.mktemp("any") / name
    path.write_bytes(start(RECORDS[:1]) + rest)
    expect_rows_or_input_error(path)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(WRITERS)),
    suffix=st.sampled_from(["", ".zst", ".gz"]),
    changes=st.dictionaries(st.integers(0, 1000), st.integers(0, 255), max_size=5),
)
def test_damage_anywhere_raises_nothing_but_input_errors(tmp_path_factory, kind, suffix, changes):
    data = bytearray(packed(WRITERS[kind](RECORDS[:8]), suffix))
    for at, byte in changes.items():
        data[at % len(data)] = byte
    path = tmp_path_factory.mktemp("damaged") / f"some.pcap{suffix}"
    path.write_bytes(data)
    expect_rows_or_input_error(path)


def expect_rows_or_input_error(path):
    faults, sizes = [], []
    try:
        sizes.extend(len(block) for block in read_packets(path, 256))
    except InputError as error:
        faults.extend(error.problems)
    assert all(sizes)
    assert all(fault.file == str(path) for fault in faults)


# Packed streams


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_a_packed_file_cut_anywhere_is_an_error(written, suffix):
    whole = packed(make.pcap(RECORDS), suffix)
    for cut in range(1, len(whole)):
        fault = problem(written(whole[:cut], f"some.pcap{suffix}"))
        assert fault.field.startswith("byte ")
        assert fault.hint


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_damage_inside_a_packed_file_is_an_error(written, suffix):
    whole = bytearray(packed(make.pcap(RECORDS), suffix))
    whole[-3] ^= 0xFF  # in the checksum of gzip, in the data of zstd
    if suffix == ".zst":
        whole = zstandard.ZstdCompressor(write_checksum=True).compress(make.pcap(RECORDS))
        whole = whole[:-2] + bytes(byte ^ 0xFF for byte in whole[-2:])
    assert "undamaged" in problem(written(whole, f"some.pcap{suffix}")).expected


@pytest.mark.parametrize("suffix", ["", ".zst", ".gz"])
def test_a_stream_that_unpacks_into_more_than_was_allowed_is_an_error(written, suffix):
    data = make.pcap([bytes(1000)] * 40_000)
    path = written(packed(data, suffix), f"bomb.pcap{suffix}")
    assert len(data) > 40 * 10**6
    assert sum(len(block) for block in read_packets(path, most_bytes=len(data))) == 40_000
    tracemalloc.start()
    fault = problem(path, most_bytes=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(1 << 20) in fault.expected
    # Python sees one step of unpacking and no more, however long the rest is.
    assert peak < 100 << 20


@pytest.mark.parametrize(("suffix", "kind"), [(".zst", "zstd"), (".gz", "gzip")])
@pytest.mark.parametrize("data", [b"", b"plain text", make.pcap([])])
def test_a_name_that_promises_packing_must_keep_it(written, suffix, kind, data):
    assert kind in problem(written(data, f"some.pcap{suffix}")).expected


def test_a_packed_file_is_known_without_its_suffix(written):
    assert len(read(written(packed(make.pcap(RECORDS), ".zst"), "some.pcap"))[0]) == 20


def test_a_file_that_cannot_be_opened_is_told_so(tmp_path):
    assert "No such file" in problem(tmp_path / "missing.pcap").found
    assert "directory" in problem(tmp_path).found


def test_frames_keep_their_link_type_and_bytes(written):
    (frames,) = FrameReader(written(make.pcap([b"abc", b"defg"], link=make.RAW_IP)))
    cut = [bytes(frames.data[s : s + c]) for s, c in zip(frames.start, frames.captured, strict=True)]
    assert (frames.link, cut, frames.size.tolist()) == (make.RAW_IP, [b"abc", b"defg"], [3, 4])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("snaplen", [68, 4000])
@given(
    lengths=st.lists(st.integers(0, 250), min_size=100, max_size=300),
    seconds=st.integers(0, 3),
    seed=st.integers(0, 1 << 16),
)
def test_many_walks_find_the_records_that_one_finds(order, snaplen, lengths, seconds, seed):
    rng = np.random.default_rng(seed)
    # Bytes like those of the headers: what looks like a record often is none.
    words = np.frombuffer(make.pcap([Record(bytes(20), NOON)], order=order)[24:40], np.uint8)
    bodies = [rng.choice(words, n).astype(np.uint8).tobytes() for n in lengths]
    records = [Record(body, NOON + k * (1 + seconds) * 10**8) for k, body in enumerate(bodies)]
    data = make.pcap(records, order=order, snaplen=snaplen)
    splitter = PcapFormat(Path("a.pcap"), order, 10**6, snaplen, ETHERNET)
    for end in (len(data), len(data) - 7, len(data) - 40):
        found = splitter._record_offsets(data[:end], 24)
        assert found.tolist() == splitter._walk_alone(data[:end], 24)
