"""Reader of capture files (pcap and pcapng): blocks of raw frames with offset, time and length.

`packet_headers` parses the frames. A file is read in blocks of bounded size; a record that crosses the end of a block
is completed by the next one.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.formats.compression import input_error, open_stream
from skewscope.engine.model.arrays import I64, sort_unique
from skewscope.kb.problems import InputError

ETHERNET, RAW_IP, SLL, SLL2 = 1, 101, 113, 276
link_names = {ETHERNET: "Ethernet", RAW_IP: "raw IP", SLL: "Linux cooked", SLL2: "Linux cooked v2"}

BLOCK_BYTES = 2 << 20
"""The columns of a block of this size fit the caches; larger ones were slower."""
MAX_CAPTURED = 256 << 10
"""Limit on the captured bytes of a frame: that of libpcap."""
MAX_SIZE = 16 << 20
"""Limit on the bytes of a frame on the wire: offloads pass up to half a MiB to a capture as one frame."""
WALK_BYTES = 4096
"""Bytes of records that are walked through one after another, beside other such stretches."""
MAX_WALK_BYTES = 16 * WALK_BYTES
"""No walk beside others is longer: it would take as many steps of all."""
SHORT_LENGTH = 256
"""Lengths below this are one byte."""
MAX_PCAPNG_BLOCK = 16 << 20
MAX_SECONDS = 1e11
MAX_INTERFACES = 4096

DAMAGED_HINT = "The file is damaged from here on: record it again, or cut it before this byte."


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames of one link type in capture order. Columns are [frame], except `data`."""

    data: NDArray[np.uint8]
    """[byte] bytes of the block."""
    start: I64
    """Offset of the frame in `data`."""
    captured: I64
    """Captured bytes of the frame; captures are often truncated."""
    size: I64
    """Bytes on the wire."""
    time: NDArray[np.float64]
    """Seconds since 1970."""
    link: int

    def __len__(self) -> int:
        return len(self.start)


def read_headers(data: NDArray[np.uint8], at: I64, header: np.dtype[Any]) -> NDArray[Any]:
    """Returns [position] headers of dtype `header` at byte offsets, which must lie within `data`."""
    if not len(at):
        return np.empty(0, header)
    # Overlapping items of plain bytes: one memcpy per item, several times faster than indexing records.
    windows: NDArray[Any] = np.ndarray((len(data) - header.itemsize + 1,), f"V{header.itemsize}", data, strides=(1,))
    return windows[at].view(header)


def walk_records(begins: I64, follow: Callable[[I64], I64]) -> I64 | None:
    """Returns the offsets of all records before the last of `begins`; None where a walk misses where the next began.

    Args:
        begins: [walk] two or more offsets at which walks begin, ascending; each ends where the next began.
        follow: returns [record] the offset after each of some records.
    """
    at, ends = begins[:-1], begins[1:]
    found = []
    while len(at):
        found.append(at)
        at = follow(at)
        goes_on = at < ends
        if not goes_on.all():
            if (at[~goes_on] != ends[~goes_on]).any():
                return None
            at, ends = at[goes_on], ends[goes_on]
    return np.sort(np.concatenate(found))


class FrameReader(Iterator[Frames]):
    """Iterates over the frames of one capture file, block by block."""

    truncated_records = 0
    """1 if the file ends inside a record, as after a killed capture."""

    def __init__(self, path: Path, block_bytes: int = BLOCK_BYTES, most_bytes: int | None = None) -> None:
        self._block_bytes = block_bytes
        self._stream = open_stream(path, most_bytes)
        with self._close_on_error():
            head = self._stream.read(24)
            self._format = _detect_format(path, head)
        self._base, self._data, self._offset = 0, head, self._format.first_record

    def __next__(self) -> Frames:
        with self._close_on_error():
            frames = self._split_frames()
            while not len(frames) and self._read_block():
                frames = self._split_frames()
        if not len(frames):
            raise StopIteration
        return frames

    def _split_frames(self) -> Frames:
        """Returns the complete frames of the current block."""
        frames, self._offset = self._format.split(self._data, self._offset, self._base)
        return frames

    @contextmanager
    def _close_on_error(self) -> Iterator[None]:
        """Closes the file on an error."""
        try:
            yield
        except InputError:
            self._stream.close()
            raise

    def _read_block(self) -> bool:
        """Appends one more block to the rest of the last; returns False at the end of the file."""
        if self._stream.closed:
            return False
        rest, block = self._data[self._offset :], self._stream.read(self._block_bytes)
        self._base, self._data, self._offset = self._base + self._offset, rest + block, 0
        if not block:
            self.truncated_records = int(bool(rest))
            self._data = b""
            self._stream.close()
        return bool(block)


class CaptureFormat(Protocol):
    """Splits one kind of capture file into frames."""

    first_record: int
    """Offset of the first record."""

    def split(self, data: bytes, at: int, base: int) -> tuple[Frames, int]:
        """Returns the complete frames from `at` on and the offset of the rest; `base` is the file offset of `data`."""


def _detect_format(path: Path, head: bytes) -> CaptureFormat:
    """Returns the format that the first bytes of a file determine."""
    expected = "a capture (pcap or pcapng)"
    if not head:
        raise input_error(path, 0, "an empty file", expected, "Did the capture ever start?")
    if head[:4] == SECTION_BYTES:
        return PcapNgFormat(path)
    if head[:4] not in magics:
        found = f"{head[:16]!r}" if head[:16].isascii() else f"bytes {head[:8].hex(' ')}"
        raise input_error(path, 0, found, expected, "Other formats can be turned into one: editcap -F pcap IN OUT.")
    if len(head) < 24:
        raise input_error(path, len(head), "the end of the file", "a header of 24 bytes", "Was the capture cut off?")
    order, unit = magics[head[:4]]
    snaplen, network = struct.unpack(f"{order}II", head[16:24])
    # The upper bits of the field describe a trailing checksum, not the link.
    return PcapFormat(path, order, unit, snaplen, _check_link(path, 20, network & 0xFFFF))


def _check_link(path: Path, offset: int, link: int) -> int:
    """The link type, where frames of it can be decoded."""
    if link not in link_names:
        known = ", ".join(f"{name} ({number})" for number, name in link_names.items())
        raise input_error(path, offset, f"link type {link}", f"one of {known}", "Capture on the interface itself.")
    return link


magics = {
    b"\xd4\xc3\xb2\xa1": ("<", 10**6),
    b"\xa1\xb2\xc3\xd4": (">", 10**6),
    b"\x4d\x3c\xb2\xa1": ("<", 10**9),
    b"\xa1\xb2\x3c\x4d": (">", 10**9),
}


class PcapFormat:
    """Classic pcap: a header, then records with their length."""

    first_record = 24

    def __init__(self, path: Path, order: str, unit: int, snaplen: int, link: int) -> None:
        self._path, self._unit, self._link = path, unit, link
        # 0 means unlimited.
        self._max_captured = min(snaplen or MAX_CAPTURED, MAX_CAPTURED)
        self._unpack_length = struct.Struct(f"{order}8xI4x").unpack_from
        self._length_type = np.dtype(f"{order}u4")
        self._lowest_byte = 8 if order == "<" else 11
        self._record_header = np.dtype([(name, f"{order}u4") for name in ("second", "fraction", "captured", "size")])

    def split(self, data: bytes, at: int, base: int) -> tuple[Frames, int]:
        """Returns the complete frames from `at` on and the offset of the rest."""
        octets = np.frombuffer(data, np.uint8)
        starts = self._record_offsets(data, at)
        heads = read_headers(octets, starts, self._record_header)
        self._check_records(starts + base, heads)
        after = starts + 16 + heads["captured"]
        whole = slice(0, int(np.searchsorted(after, len(data), side="right")))
        heads, starts = heads[whole], starts[whole]
        time = heads["second"] + heads["fraction"] / self._unit
        captured, size = heads["captured"].astype(np.int64), heads["size"].astype(np.int64)
        rest = int(after[whole][-1]) if len(starts) else at
        return Frames(octets, starts + 16, captured, size, time, self._link), rest

    def _record_offsets(self, data: bytes, at: int) -> I64:
        """Returns [record] the offsets of the records with a complete header."""
        # Each record has the offset of the next, so this is a walk. Many begin at once, at places that look like
        # records; the whole is the walk from `at` if each ends where the next began. Lengths are checked afterwards,
        # all at once: a wrong one only yields more records, which are never used.
        octets = np.frombuffer(data, np.uint8)
        begins = self._guess_begins(data, at)
        if len(begins) < 2 or np.diff(begins).max() > MAX_WALK_BYTES:
            return np.array(self._walk_alone(data, at), np.int64)
        found = walk_records(begins, lambda where: where + 16 + self._lengths(octets, where))
        if found is None:
            return np.array(self._walk_alone(data, at), np.int64)
        return np.concatenate((found, np.array(self._walk_alone(data, int(begins[-1])), np.int64)))

    def _guess_begins(self, data: bytes, at: int) -> I64:
        """Returns [walk] offsets of records, as far as one can see: `at`, and some more about evenly spaced."""
        # The upper bytes of the seconds are the same for minutes.
        first, last = 1 if self._lowest_byte == 8 else 0, len(data) - 16
        mark, find = data[at + first : at + first + 3], data.find
        places = range(at + WALK_BYTES, last, WALK_BYTES)
        found = (find(mark, place, place + 2 * WALK_BYTES) - first for place in places)
        return sort_unique(np.array([at, *(place for place in found if at < place <= last)], np.int64))

    def _lengths(self, octets: NDArray[np.uint8], at: I64) -> I64:
        """Returns [record] the captured bytes of records at some offsets, as `_walk_alone` reads them."""
        if self._max_captured < SHORT_LENGTH:
            return octets[at + self._lowest_byte].astype(np.int64)
        return read_headers(octets, at + 8, self._length_type).astype(np.int64)

    def _walk_alone(self, data: bytes, at: int) -> list[int]:
        """Returns the offsets of the records with a complete header, from `at` on."""
        starts: list[int] = []
        add, last = starts.append, len(data) - 16
        if self._max_captured < SHORT_LENGTH:
            # Only the lowest byte of a length may be used: a larger length is a fault.
            lowest = self._lowest_byte
            while at <= last:
                add(at)
                at += 16 + data[at + lowest]
            return starts
        captured = self._unpack_length
        while at <= last:
            add(at)
            at += 16 + captured(data, at)[0]
        return starts

    def _check_records(self, offsets: I64, heads: NDArray[Any]) -> None:
        """Raises for the first record with an invalid header."""
        captured, size, fraction = heads["captured"], heads["size"], heads["fraction"]
        bad = (captured > self._max_captured) | (captured > size) | (size > MAX_SIZE) | (fraction >= self._unit)
        if not bad.any():
            return
        first = int(np.argmax(bad))
        found = f"a record of {captured[first]} bytes, {size[first]} on the wire, {fraction[first]}/{self._unit} s"
        expected = f"at most {self._max_captured} bytes, no more than on the wire, and a fraction of a second"
        raise input_error(self._path, int(offsets[first]), found, expected, DAMAGED_HINT)


SECTION, INTERFACE, PACKET_OLD, PACKET_SIMPLE, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
SECTION_BYTES = b"\x0a\x0d\x0d\x0a"
TIME_RESOLUTION, TIME_OFFSET = 9, 14
"""Options of an interface."""


@dataclass(frozen=True, slots=True)
class _Interface:
    """Time base of the packets of one interface."""

    unit: int
    """Ticks per second of its timestamps."""
    offset: int
    """Seconds to add to its timestamps."""


class PcapNgFormat:
    """pcapng: typed blocks in sections, each with its own byte order and interfaces."""

    first_record = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._interfaces: list[_Interface] = []
        self._link = 0
        self._set_byte_order("<")

    def _set_byte_order(self, order: str) -> None:
        """Sets the byte order of the section."""
        self._byte_order = order
        self._unpack_pair = struct.Struct(f"{order}II").unpack_from
        names = ("type", "length", "interface", "high", "low", "captured", "size")
        self._packet_header = np.dtype([(name, f"{order}u4") for name in names])

    def split(self, data: bytes, at: int, base: int) -> tuple[Frames, int]:
        """Returns the complete frames from `at` on and the offset of the rest."""
        starts: list[int] = []
        while at + 12 <= len(data):
            kind, length = self._unpack_pair(data, at)
            if kind == SECTION:
                if starts:
                    break  # it has other interfaces: the frames before it come first
                length = self._begin_section(data, at, base)
            least = 32 if kind == PACKET else 12
            if length < least or length % 4 or length > MAX_PCAPNG_BLOCK:
                expected = f"a multiple of 4 from {least} to {MAX_PCAPNG_BLOCK}"
                raise input_error(self._path, base + at, f"a block of {length} bytes", expected, DAMAGED_HINT)
            if at + length > len(data):
                break
            if kind == PACKET:
                starts.append(at)
            elif kind in (INTERFACE, PACKET_OLD, PACKET_SIMPLE):
                self._add_interface(kind, data[at + 8 : at + length - 4], base + at)
            at += length
        return self._build_frames(data, np.array(starts, np.int64), base), at

    def _begin_section(self, data: bytes, at: int, base: int) -> int:
        """Begins a section and returns the length of its block."""
        magic = data[at + 8 : at + 12]
        if magic not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
            raise input_error(self._path, base + at + 8, f"bytes {magic.hex(' ')}", "a byte-order magic", DAMAGED_HINT)
        self._set_byte_order("<" if magic[0] == 0x4D else ">")
        self._interfaces = []
        return int(self._unpack_pair(data, at)[1])

    def _add_interface(self, kind: int, body: bytes, offset: int) -> None:
        """Adds an interface of the section."""
        if kind != INTERFACE:
            hint = "Turn it into pcap with editcap -F pcap IN OUT, or capture with tcpdump or dumpcap."
            raise input_error(
                self._path, offset, "a packet block without interface or time", "enhanced packet blocks", hint
            )
        if len(body) < 8:
            raise input_error(self._path, offset, "an interface block cut short", "20 bytes at least", DAMAGED_HINT)
        link = _check_link(self._path, offset + 8, struct.unpack_from(f"{self._byte_order}H", body)[0])
        if self._link and link != self._link:
            found = f"an interface of {link_names[link]}, after one of {link_names[self._link]}"
            raise input_error(
                self._path, offset, found, "one link type in a file", "Capture each into a file of its own."
            )
        self._link = link
        if len(self._interfaces) == MAX_INTERFACES:
            raise input_error(
                self._path, offset, "yet another interface", f"at most {MAX_INTERFACES} of them", DAMAGED_HINT
            )
        options = _parse_options(body[8:], self._byte_order)
        seconds = options.get(TIME_OFFSET, b"")
        shift = struct.unpack(f"{self._byte_order}q", seconds)[0] if len(seconds) == 8 else 0
        self._interfaces.append(_Interface(self._time_unit(options, offset), shift))

    def _time_unit(self, options: dict[int, bytes], offset: int) -> int:
        """Returns the ticks per second of an interface; default 10**6."""
        code = (options.get(TIME_RESOLUTION) or b"\x06")[0]
        base, exponent = 2 if code & 0x80 else 10, code & 0x7F
        if base**exponent >= 1 << 64:
            raise input_error(
                self._path, offset, f"a time resolution of {base}^-{exponent} s", "a coarser one", DAMAGED_HINT
            )
        return int(base**exponent)

    def _build_frames(self, data: bytes, starts: I64, base: int) -> Frames:
        """Returns the frames of the packet blocks at `starts`."""
        octets = np.frombuffer(data, np.uint8)
        heads = read_headers(octets, starts, self._packet_header)
        self._check_packets(data, starts + base, heads, base)
        units = np.array([i.unit for i in self._interfaces] or [1], np.uint64)[heads["interface"]]
        shifts = np.array([i.offset for i in self._interfaces] or [0], np.float64)[heads["interface"]]
        ticks = heads["high"].astype(np.uint64) << np.uint64(32) | heads["low"]
        # Whole seconds are separate: one float would round nanoseconds since 1970.
        time = (ticks // units).astype(np.float64) + (ticks % units) / units + shifts
        self._check_times(starts + base, time)
        captured, size = heads["captured"].astype(np.int64), heads["size"].astype(np.int64)
        return Frames(octets, starts + 28, captured, size, time, self._link)

    def _check_times(self, offsets: I64, time: NDArray[np.float64]) -> None:
        """Raises for the first packet thousands of years away: seconds could not be told apart."""
        bad = ~((time >= 0) & (time < MAX_SECONDS))
        if bad.any():
            first = int(np.argmax(bad))
            found, expected = f"a packet {time[first]:.6g} s after 1970", f"one within {MAX_SECONDS:g} s"
            raise input_error(self._path, int(offsets[first]), found, expected, DAMAGED_HINT)

    def _check_packets(self, data: bytes, offsets: I64, heads: NDArray[Any], base: int) -> None:
        """Raises for the first packet block with an invalid header."""
        length, captured, size = (heads[name].astype(np.int64) for name in ("length", "captured", "size"))
        trailer = read_headers(
            np.frombuffer(data, np.uint8), offsets - base + length - 4, np.dtype(f"{self._byte_order}u4")
        )
        bad = (captured + 32 > length) | (trailer != length) | (heads["interface"] >= len(self._interfaces))
        bad |= (captured > MAX_CAPTURED) | (captured > size) | (size > MAX_SIZE)
        if not bad.any():
            return
        first = int(np.argmax(bad))
        found = (
            f"a packet block of {length[first]} bytes (at its end: {trailer[first]}) with {captured[first]} captured "
            f"of {size[first]}, from interface {heads['interface'][first]}"
        )
        expected = f"lengths that agree, and one of {len(self._interfaces)} interfaces"
        raise input_error(self._path, int(offsets[first]), found, expected, DAMAGED_HINT)


def _parse_options(body: bytes, order: str) -> dict[int, bytes]:
    """Parses the options at the end of a block, by code."""
    found: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, at)
        if code == 0:
            break
        found.setdefault(code, body[at + 4 : at + 4 + length])
        at += 4 + (length + 3) // 4 * 4
    return found
